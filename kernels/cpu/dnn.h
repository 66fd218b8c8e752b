/* dnn: convolutions of batch rows on oneDNN, channel-last, in F32 or bf16 (accumulated in F32). A piece of a
 * row is a call of oneDNN's own on one thread, and pieces run side by side, so that a row's result depends neither on the other
 * rows nor on the number of threads. A projection is a convolution of one tap. Internal to kernels/cpu. One stream, one thread. */
#pragma once
#include "kernels/cpu/dnn_cache.h"

/* Activations of `batch` rows. A logical row of t tokens × c channels lies as t·split memory rows of c/split channels, ld apart. */
struct dnn_rows {
    const void *data;
    int64_t ld;
    int split; /* 1 or 2 */
};

struct dnn_forward {
    struct conv_key key;
    int64_t batch;
    struct dnn_rows x, y; /* y is written */
    const float *bias;    /* (co / bias_repeat), used bias_repeat times over */
    int bias_repeat;
    bool accumulate;    /* y += */
    const void *source; /* weights in the (O,I,K) order of the key, unless `lay` */
    uint64_t version;   /* 0: pack at each call; else keep the packed copy of `source` until another version */
    dnn_lay *lay;       /* NULL: `source` is in that order */
};
int dnn_forward(struct stream *s, const struct dnn_forward *call, struct err *err);

/* dw (O,I,K) += gradient; `add` instead where the weights have another order. */
struct dnn_gradient {
    struct conv_key key;
    int64_t batch;
    struct dnn_rows x, dy;
    float *dw;
    void (*add)(const struct dnn_gradient *call, const float *plain);
};
int dnn_weight_gradient(struct stream *s, const struct dnn_gradient *call, struct err *err);

/* True where a convolution of one tap has the bits of cpu_gemm and is faster: short F32 rows and weights of a version. With AVX-512
 * oneDNN adds the terms of a value one by one in both, from 16 tokens and two columns on. */
bool dnn_like_gemm(const struct tensor *y, int64_t terms, uint64_t weight_version);

/* The bf16 forms of ops whose F32 forms are matrix products (kernels/cpu/gemm.c, conv1d.c). */
int dnn_conv1d_stride2(struct stream *s, const struct conv1d_args *a, struct err *err);
int dnn_conv1d_stride2_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err);
int dnn_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err);
int dnn_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err);
int dnn_linear(struct stream *s, const struct linear_args *a, struct err *err);
int dnn_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err);
