/* layers: the smallest pieces with parameters, each written once over the op table: forward, and backward for training. A layer
 * keeps pointers to its rows of the parameter table and, in training, the activations that backward needs. Channel-last (B,T,C).
 * Every call takes a struct pass; a dry pass lays out tensors and runs no op. One thread. */
#pragma once
#include "kernels/op.h"
#include "nn/param.h"
#include "nn/plan.h"

#define NN_EPS      1e-5f
#define NN_MOMENTUM 0.1f
enum { CONV_MAX_GROUPS = 3 };
/* Elements that n take where each tensor starts at a multiple of PARAM_ALIGN. */
static inline int64_t nn_aligned(int64_t n) { return (n + PARAM_ALIGN - 1) / PARAM_ALIGN * PARAM_ALIGN; }

struct pass {
    struct stream *stream;
    struct plan *plan;
    const struct param_set *params;
    enum dtype dtype; /* of activations and their gradients */
    bool dry, training;
    uint64_t seed; /* dropout's, with step and row0, or with those of the place in device memory */
    uint32_t step;
    int64_t row0;
    const struct train_place *place;
    float *leaf_statistics; /* batch norm writes its statistics there instead of moving the running ones: buffer_count floats in
                             * device memory, each at its buffer's place; NULL: it moves them */
    float dropout;
    struct err *err;
};

/* Tensors from the plan: activations (b,t,c), one of another tensor's shape, and F32 vectors for statistics. All dense. */
struct tensor nn_tensor(const struct pass *p, int64_t b, int64_t t, int64_t c);
struct tensor nn_like(const struct pass *p, const struct tensor *t);
struct tensor nn_vector(const struct pass *p, int64_t n);
int nn_eltwise(const struct pass *p, enum eltwise_kind kind, const struct tensor *a, const struct tensor *b,
               const struct tensor *y);
/* In place over t; nothing outside training. per_channel drops whole channels of a row. */
int nn_dropout(const struct pass *p, const struct tensor *t, uint32_t rng_stream, bool per_channel);
/* The row PREFIX.LEAF. */
const struct param *nn_row(const struct param_set *set, const char *prefix, const char *leaf);
/* Rows PREFIX.weight of a shape of 3 dimensions and PREFIX.bias of n. */
int nn_affine_params(struct param_set *set, const char *prefix, const int64_t dim[3], int64_t n, struct err *err);

/* Weights that inference reads instead of the table's: batch norm, or the following projection, folded in. Device memory. */
struct folded {
    struct tensor w, bias;
};

/* ConvBlock: convolution (stride 1, "same" unless pad is changed after the bind) → batch norm → ReLU (unless linear). Its
 * activations may have zero channels between the real ones (nn/padded.h). */
struct conv_block {
    const struct param *w, *b, *bn_w, *bn_b, *bn_mean, *bn_var;
    int k, pad;
    bool linear;
    int64_t ci, co; /* channels of input and output, those of zeros included */
    int groups;     /* of real input channels, each followed by zeros up to a multiple of PADDED_PIECE if there are several */
    int64_t group[CONV_MAX_GROUPS];
    struct tensor padded_w, padded_dw; /* in training, of a padded block: the weights with zeros between them, and their gradient */
    struct folded folded;
    struct tensor x, u, y, mean, rstd; /* kept in training: input, convolution's output, output, statistics */
};
/* Table rows PREFIX.CONV.{weight,bias}, PREFIX.BN.{weight,bias,running_mean,running_var}. */
struct block_names {
    const char *prefix, *conv, *bn;
};
int conv_block_params(struct param_set *set, const struct block_names *names, int64_t ci, int64_t co, int k, struct err *err);
void conv_block_bind(struct conv_block *l, const struct param_set *set, const struct block_names *names);
/* y may be a slice made by the caller; data NULL = take one from the plan. *y is the output. */
int conv_block_forward(struct conv_block *l, const struct pass *p, const struct tensor *x, struct tensor *y);
/* dy is overwritten. dx data NULL = not needed. The convolution's bias gets no gradient: batch norm subtracts the mean, so that it
 * would be what rounding leaves of a sum that cancels. */
int conv_block_backward(struct conv_block *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);
/* Floats that conv_block_fold fills, and the fold itself (host arithmetic in double over host copies). */
int64_t conv_block_folded_count(const struct conv_block *l);
int conv_block_fold(struct conv_block *l, const struct param_set *set, struct stream *s, float *device_memory, struct err *err);

/* A convolution of two taps that halves T (down, stride 2) or doubles it (up, transposed): no norm, no activation. Rows
 * PREFIX.{weight,bias}. */
struct resample {
    const struct param *w, *b;
    bool up;
    struct tensor x; /* kept in training */
};
int resample_params(struct param_set *set, const char *prefix, int64_t ci, int64_t co, bool up, struct err *err);
void resample_bind(struct resample *l, const struct param_set *set, const char *prefix, bool up);
int64_t resample_channels(const struct resample *l); /* of the output */
int resample_forward(struct resample *l, const struct pass *p, const struct tensor *x, const struct tensor *y);
int resample_backward(struct resample *l, const struct pass *p, const struct tensor *dy, const struct tensor *dx);
