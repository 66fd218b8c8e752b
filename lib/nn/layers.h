/* layers: the blocks of the detector, each written once over the op table: forward, and backward where it trains. A layer keeps
 * pointers to its rows of the parameter table and, in training, the activations that backward needs. Channel-last (B,T,C).
 * Every call takes a struct pass; in a dry pass tensors are laid out and no op runs. One thread. */
#ifndef BRR_NN_LAYERS_H
#define BRR_NN_LAYERS_H
#include "kernels/op.h"
#include "nn/param.h"
#include "nn/plan.h"

#define NN_EPS      1e-5f
#define NN_MOMENTUM 0.1f

struct pass {
    struct stream *stream;
    struct plan *plan;
    const struct param_set *params;
    bool dry, training;
    uint64_t seed; /* dropout: seed, step and the batch's first row */
    uint32_t step;
    int64_t row0;
    float dropout;
    struct err *err;
};

/* Weights that inference reads instead of the table's: batch norm folded in. Device memory. */
struct folded {
    struct tensor w, bias;
};

/* ConvBlock: convolution (stride 1, "same") → batch norm → ReLU (unless linear). */
struct conv_block {
    const struct param *w, *b, *bn_w, *bn_b, *bn_mean, *bn_var;
    int k;
    bool linear;
    struct folded folded;
    struct tensor x, u, y, mean, rstd; /* kept in training: input, conv output, output, statistics */
};
/* Table rows PREFIX.CONV.{weight,bias}, PREFIX.BN.{weight,bias,running_mean,running_var}. */
struct block_names {
    const char *prefix, *conv, *bn;
};
int conv_block_params(struct param_set *set, const struct block_names *names, int64_t ci, int64_t co, int k, struct err *err);
void conv_block_bind(struct conv_block *l, const struct param_set *set, const struct block_names *names);
/* y may be a slice made by the caller; data NULL = take one from the plan. *y is the output. */
int conv_block_forward(struct conv_block *l, const struct pass *p, const struct tensor *x, struct tensor *y);
/* dy is overwritten. dx data NULL = not wanted. */
int conv_block_backward(struct conv_block *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);
/* Elements that conv_block_fold fills, and the fold itself (host arithmetic in double over host copies). */
int64_t conv_block_folded_count(const struct conv_block *l);
int conv_block_fold(struct conv_block *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err);

/* ResCNN: three parallel blocks (K = 3, 5, 7; d/3, d/3, rest) → concatenation → 1×1 block without ReLU → channel dropout →
 * relu(· + x). */
struct rescnn {
    struct conv_block branch[3], fuse;
    uint32_t rng_stream;
    struct tensor x, y;
};
int rescnn_params(struct param_set *set, int index, int64_t d, struct err *err);
void rescnn_bind(struct rescnn *l, const struct param_set *set, int index);
int rescnn_forward(struct rescnn *l, const struct pass *p, const struct tensor *x, struct tensor *y);
int rescnn_backward(struct rescnn *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);

/* Helpers over the table for layers without state. */
int nn_eltwise(const struct pass *p, enum eltwise_kind kind, const struct tensor *a, const struct tensor *b,
               const struct tensor *y);
struct tensor nn_like(const struct pass *p, const struct tensor *t); /* dense tensor of t's shape from the plan */

#endif
