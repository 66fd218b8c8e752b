/* seizure_net: the internal structure of the detector's network, shared by the work that all types have (seizure.c), the wiring of
 * each type (seizure_unet.c, seizure_causal.c, seizure_feature.c), the initialisation (seizure_init.c) and the folded inference
 * weights (seizure_table.c). Internal to lib/detect. */
#pragma once
#include "detect/seizure.h"
#include "nn/blocks.h"
#include "nn/causal.h"
#include "nn/mamba.h"
#include "nn/replay.h"

enum { STAGES = 4, STEM_TAPS = 7, HEAD_CHANNELS = 19, TOKEN = 16 };

struct seizure_net;
/* How a type of network computes; what it is called and which configurations it has, seizure_config.c says, which needs no kernels.
 */
struct model_ops {
    /* Table rows of the network; pointers of its layers to their rows. The Mamba layers are bound already. */
    int (*params)(struct seizure_net *net, struct err *err);
    void (*bind)(struct seizure_net *net);
    /* Runs fn over every ConvBlock until one fails. */
    int (*each_block)(struct seizure_net *net, int (*fn)(void *ctx, struct conv_block *block), void *ctx);
    /* Floats of a row's state; NULL: none. */
    int64_t (*state_count)(const struct seizure_config *config);
    /* x (B,T,C) → logits (B,T). state (B,state_count), absent: begins with zeros and keeps nothing. */
    int (*forward)(struct seizure_net *net, const struct pass *p, const struct tensor *x, const struct tensor *state,
                   struct tensor *logits);
    /* After forward in training: accumulates gradients. */
    int (*backward)(struct seizure_net *net, const struct pass *p, const struct tensor *dlogits);
};
#define MODEL_OPS(id, name, ops) extern const struct model_ops ops;
SEIZURE_TYPE_ROWS(MODEL_OPS)
#undef MODEL_OPS

struct seizure_net {
    const struct model_ops *ops;
    struct seizure_config config;
    struct seizure_options options;
    struct device *device;
    bool gpu_form; /* padded branches (nn/padded.h) and joined projections (nn/mamba.h), as every network on a GPU has them */
    struct param_set params;
    struct plan plan;
    struct conv_block stem;
    struct encoder_stage encoder[STAGES];
    struct rescnn *rescnn;     /* rescnn_blocks of them */
    struct mamba_layer *mamba; /* mamba_layers of them */
    struct decoder_stage decoder[STAGES];
    struct causal_stage causal[STAGES];
    struct causal_block *causal_blocks; /* rescnn_blocks of them */
    const struct param *proj_w, *proj_b, *out_w, *out_b, *skip_w;
    struct tensor features, projected; /* kept in training, F32: what the head reads; 19 channels, causal: 1 */
    struct tensor skipped;             /* kept in training, F32 (B,T,1): the input that goes straight to the logit */
    bool has_pass;                     /* of training, to run backward through */
    size_t kept;                       /* plan mark after it */
    float *folded;                     /* device: folded weights of every block and layer, then the head */
    float *padded;                     /* device: weights and gradients of padded blocks, in training */
    int64_t folded_count, padded_count;
    struct seizure_net *members[SEIZURE_MAX_MEMBERS]; /* of an ensemble, on slices of its parameters; its own layers are unused */
    float *spare;                                     /* device: logits of a member */
    struct folded head;
    uint64_t folded_version, recorded_version; /* of the parameters that `folded` and the recordings were made of */
    struct replay inference;
};

/* seizure_new, with the form that a network has on a GPU. */
int seizure_net_new_as_on_gpu(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                              struct seizure_net **ret, struct err *err);
/* The configuration of one network of the ensemble. */
struct seizure_config seizure_net_member(const struct seizure_config *config);
static inline bool seizure_net_is_ensemble(const struct seizure_config *config) { return config->members > 1; }
struct mamba_shape seizure_net_mixer(const struct seizure_config *config);
/* Table rows of the network, the skip included. */
int seizure_net_params(struct seizure_net *net, struct err *err);
/* Pointers of every layer to its rows of the table. */
int seizure_net_bind(struct seizure_net *net, struct err *err);
/* A copy of t in another precision; t itself where it has it already. */
int seizure_net_convert(const struct pass *p, const struct tensor *t, enum dtype dtype, struct tensor *ret);
/* (B,T) logits as the (B,T,1) output of a projection. */
static inline struct tensor seizure_net_column(const struct tensor *logits) {
    return tensor_3d(logits->data, DTYPE_F32, logits->dim[0], logits->dim[1], 1);
}
/* Weights (Co,Ci,1) of a convolution as the matrix (Co,Ci) of a projection. */
static inline struct tensor seizure_net_matrix(struct tensor w) {
    w.rank = 2;
    w.ld = w.dim[1];
    return w;
}
/* Floats of all folded weights. */
int64_t seizure_net_folded_count(struct seizure_net *net);
/* Floats of the weights and gradients of padded blocks in training, and their place. */
int64_t seizure_net_padded_count(struct seizure_net *net);
void seizure_net_place_padded(struct seizure_net *net, float *device_memory);
/* Refreshes the folded weights if parameters changed since the last refresh. */
int seizure_net_fold(struct seizure_net *net, struct stream *s, struct err *err);
