/* seizure_net: the inside of the detector's network, shared by its wiring (seizure.c), its initialisation (seizure_init.c) and its
 * folded inference weights. Internal to lib/model. */
#ifndef BRR_MODEL_SEIZURE_NET_H
#define BRR_MODEL_SEIZURE_NET_H
#include "model/seizure.h"
#include "nn/layers.h"
#include "nn/mamba.h"

enum { STAGES = 4, MAX_BLOCKS = 64, STEM_TAPS = 7, STAGE_TAPS = 5, HEAD_CHANNELS = 19 };

struct encoder_stage {
    struct conv_block conv[2];
    const struct param *down_w, *down_b;
    struct tensor skip, down;
};

struct decoder_stage {
    const struct param *up_w, *up_b;
    struct conv_block conv[2];
    struct tensor x, cat, y;
};

struct seizure_net {
    struct seizure_config config;
    struct seizure_options options;
    struct device *device;
    struct param_set params;
    struct plan plan;
    struct conv_block stem;
    struct encoder_stage encoder[STAGES];
    struct rescnn *rescnn;     /* rescnn_blocks of them */
    struct mamba_layer *mamba; /* mamba_layers of them */
    struct decoder_stage decoder[STAGES];
    const struct param *proj_w, *proj_b, *out_w, *out_b;
    struct tensor bottleneck, features, projected; /* kept in training: after the mixer, decoder output, 19 channels */
    size_t kept;                                   /* plan mark after the forward pass of training */
    float *folded;                                 /* device: folded weights of every block, then the head */
    struct tensor head_w, head_b;
    uint64_t folded_version;
};

/* Table rows of the whole network, and pointers of every layer to its rows. */
int seizure_net_params(struct seizure_net *net, struct err *err);
int seizure_net_bind(struct seizure_net *net, struct err *err);
/* Run fn over every convolution block until one fails. */
int seizure_net_blocks(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx);
/* Refresh the folded weights when parameters changed since the last time. */
int seizure_net_fold(struct seizure_net *net, struct stream *s, struct err *err);

#endif
