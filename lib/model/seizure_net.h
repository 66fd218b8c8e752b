/* seizure_net: the internal structure of the detector's network, shared by its wiring (seizure.c), its initialisation
 * (seizure_init.c) and its folded inference weights. Internal to lib/model. */
#ifndef BRR_MODEL_SEIZURE_NET_H
#define BRR_MODEL_SEIZURE_NET_H
#include "model/seizure.h"
#include "nn/blocks.h"
#include "nn/mamba.h"
#include "nn/replay.h"

enum { STAGES = 4, STEM_TAPS = 7, HEAD_CHANNELS = 19 };

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
    struct tensor features, projected; /* kept in training, F32: decoder output, 19 channels */
    size_t kept;   /* plan mark after the forward pass of training; 0 = there is no pass to run backward through */
    float *folded; /* device: folded weights of every block and layer, then the head */
    int64_t folded_count;
    struct folded head;
    uint64_t folded_version;
    struct replay inference;
};

/* Table rows of the whole network, and pointers of every layer to its rows. */
int seizure_net_params(struct seizure_net *net, struct err *err);
int seizure_net_bind(struct seizure_net *net, struct err *err);
/* Floats of all folded weights. */
int64_t seizure_net_folded_count(struct seizure_net *net);
/* Refreshes the folded weights if parameters changed since the last refresh. */
int seizure_net_fold(struct seizure_net *net, struct stream *s, struct err *err);

#endif
