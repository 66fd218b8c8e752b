/* seizure: the seizure detector's network, of one of these types: "seizure", U-Net encoder → ResCNN → bidirectional Mamba-2 → U-Net
 * decoder → one logit per sample, which looks at whole windows; "causal", causal convolutions → forward Mamba-2 → one logit per
 * 16 samples, whose inference carries its state from second to second, so that it computes each sample once; and "line_length",
 * "band_power" and "ward", which have no network: a logistic function of one feature. A type is a row of
 * struct model_ops (detect/seizure_net.h). Knows shapes, never files. Wiring only: blocks come from lib/nn, arithmetic from
 * kernels/op. A net owns parameters, gradients and activations on one device, each one allocation cut by a table (lib/nn/param,
 * plan). One thread at a time. x (B,T,C) F32 channel-last, logits (B,T) F32; T divisible by 16. Tensor names and shapes of
 * checkpoints are PyTorch's (docs/models.md). */
#pragma once

#include "base/json.h"
#include "kernels/op.h"
#include "kernels/tensor.h"
#include "nn/param.h"

/* The types: identifier, name, how it computes (detect/seizure_net.h). Their rules are rows of detect/seizure_config.c. */
#define SEIZURE_TYPE_ROWS(X)                                                                                                       \
    X(UNET, "seizure", model_unet)                                                                                                 \
    X(CAUSAL, "causal", model_causal)                                                                                              \
    X(LINE_LENGTH, "line_length", model_feature)                                                                                   \
    X(BAND_POWER, "band_power", model_feature)                                                                                     \
    X(WARD, "ward", model_feature)

enum seizure_type {
#define SEIZURE_TYPE_ENUM(id, name, ops) SEIZURE_TYPE_##id,
    SEIZURE_TYPE_ROWS(SEIZURE_TYPE_ENUM)
#undef SEIZURE_TYPE_ENUM
        SEIZURE_TYPES
};
#define SEIZURE_TYPE_NAME(id, name, ops) "|" name
#define SEIZURE_TYPE_NAMES               (&SEIZURE_TYPE_ROWS(SEIZURE_TYPE_NAME)[1]) /* "seizure|causal|…" */
enum { SEIZURE_STEP = 256 }; /* samples of a pass of a network that carries its state */
enum { SEIZURE_MAX_MEMBERS = 8 };
enum seizure_mixer { SEIZURE_MIXER_MAMBA2, SEIZURE_MIXER_CONV };

struct seizure_config {
    enum seizure_type type;
    int in_channels;
    int64_t window; /* T, samples */
    int encoder_channels[4];
    int rescnn_blocks, mamba_layers; /* causal: residual blocks of two causal convolutions (nn/causal.h) */
    int stage_convs;                 /* causal: convolutions of a stage, 1 to 4; 0 is read as 1. Other types: 0 */
    int d_state, d_conv, expand, headdim, ngroups;
    float dropout;
    enum seizure_mixer mixer;
    int members; /* networks of one shape whose logits are averaged (SEIZURE_MAX_MEMBERS); 0 is read as 1. Inference only */
    bool skip;   /* the last input is the feature of a type without a network: weight · it is added to the logit (seizure_map) */
};
/* "tiny" "small" "base" for C input channels and T = 15,360; INVALID for another name. Types without a network have no names. */
int seizure_preset(enum seizure_type type, const char *name, int in_channels, struct seizure_config *ret, struct err *err);
int seizure_stage_convs(const struct seizure_config *config); /* at least 1 */
const char *seizure_type_name(enum seizure_type type);        /* as in SEIZURE_TYPE_NAMES */
/* True for the types without a network: their input is the one column of eeg/feature whose normalisation has the type's name, and
 * logit = weight · input + bias. No other type takes that column. */
bool seizure_is_feature(enum seizure_type type);
/* The type without a network that has this name; SEIZURE_TYPES: there is none. */
enum seizure_type seizure_feature_from_name(const char *name);
struct seizure_map {
    float weight, bias;
};
struct seizure_map seizure_map(enum seizure_type type); /* the initial one; zeros for other types */
/* "tiny", "small", "base" or "custom"; "none" for a type without a network. */
const char *seizure_preset_name(const struct seizure_config *config);
int seizure_config_check(const struct seizure_config *config, struct err *err);
void seizure_config_to_json(const struct seizure_config *config, struct json_writer *w, const char *key);
int seizure_config_from_json(const struct json *j, struct seizure_config *ret, struct err *err);
/* Parameters without buffers: 32,606,439 for base with mamba2 and C = 19; 13,397,799 with conv. */
int64_t seizure_parameter_count(const struct seizure_config *config);
/* Samples of a pass whose state is carried: SEIZURE_STEP, or 0 for a network that looks at whole windows. */
int64_t seizure_step(const struct seizure_config *config);
/* Floats of one row's state; 0 without. A recording begins with zeros. */
int64_t seizure_state_count(const struct seizure_config *config);
/* The tensors of such a network, of ensembles as "member.K.NAME", as a table without memory; the caller ends it with
 * param_set_done. */
int seizure_table(const struct seizure_config *config, struct param_set *ret, struct err *err);

struct seizure_options {
    int max_batch;        /* rows per call (the micro-batch in training) */
    bool training;        /* keep activations and gradients */
    enum dtype precision; /* DTYPE_F32 or DTYPE_BF16: activations, and the arithmetic of convolutions and projections */
    int threads; /* seizure_memory: of the CPU on which a training is to run (−1: a GPU), to count the working memory of its ops;
                    0 = leave it out */
};
struct seizure_memory {
    int64_t parameters, gradients, folded, activations, total; /* folded: the weights of the inference pass */
    int64_t scratch;                                           /* an upper bound; 0 unless options.threads is set */
}; /* bytes on the device, computed before any allocation; packed weights of ops are not included */
int seizure_memory(const struct seizure_config *config, const struct seizure_options *options, struct seizure_memory *ret,
                   struct err *err);

struct seizure_net;
int seizure_new(struct device *dev, const struct seizure_config *config, const struct seizure_options *options,
                struct seizure_net **ret, struct err *err);
void seizure_free(struct seizure_net *net);
const struct seizure_config *seizure_config(const struct seizure_net *net);
/* Host-side table of tensors; device pointers of the flat arrays come from the same table (lib/nn/param.h). */
struct param_set *seizure_params(struct seizure_net *net);
/* Initial values of one tensor of the table; no device is needed. */
void seizure_init_values(const struct seizure_config *config, const struct param *p, uint64_t seed, double prior, float *ret);
/* Initial weights from the seed, always drawn on the CPU; the head's bias = logit(prior). */
int seizure_init(struct seizure_net *net, struct stream *s, uint64_t seed, double prior, struct err *err);
/* Call after parameters changed (load, optimizer step): refreshes packed copies and folds the inference weights again. */
void seizure_touch(struct seizure_net *net);

/* Training pass: batch statistics, dropout from (seed, step, row0), or from the step and row0 of `place` in device memory, so that
 * the pass can be recorded. Keeps what backward needs. */
struct seizure_pass {
    uint64_t seed;
    uint32_t step;
    int64_t row0;
    const struct train_place *place; /* optional */
    float *leaf_statistics;          /* optional; struct pass (nn/layers.h) */
};
int seizure_forward_train(struct seizure_net *net, struct stream *s, const struct tensor *x, const struct seizure_pass *pass,
                          struct tensor *logits, struct err *err);
/* Call once after forward_train of the same batch: accumulates (+=) parameter gradients. PRECONDITION otherwise. */
int seizure_backward(struct seizure_net *net, struct stream *s, const struct tensor *dlogits, const struct seizure_pass *pass,
                     struct err *err);
/* Inference: running statistics folded into the convolutions, adjacent linear maps folded into one. A net made for training has it
 * too (validation); it invalidates the activations that backward needs. */
int seizure_infer(struct seizure_net *net, struct stream *s, const struct tensor *x, struct tensor *logits, struct err *err);
/* Inference of the next SEIZURE_STEP samples of each row, for networks that carry their state: x (B,SEIZURE_STEP,C), state
 * (B,seizure_state_count) F32 in device memory, read and replaced. seizure_infer is the same over a window, from zeros. */
int seizure_infer_step(struct seizure_net *net, struct stream *s, const struct tensor *x, const struct tensor *state,
                       struct tensor *logits, struct err *err);
/* So many steps one after the other, recorded as one where the device records: x (steps·B,SEIZURE_STEP,C) and logits
 * (steps·B,SEIZURE_STEP) hold all rows of the first step, then those of the second. The same bits. No ensembles. */
int seizure_infer_steps(struct seizure_net *net, struct stream *s, const struct tensor *x, int steps, const struct tensor *state,
                        struct tensor *logits, struct err *err);
