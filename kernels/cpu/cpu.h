/* cpu: the CPU backend's internals: its op table, scratch memory and instruction-set variants. Internal to kernels/cpu. */
#pragma once
#include <stddef.h>

#include "base/clones.h"
#include "kernels/backend.h"
#include "kernels/lanes.h"

#define CPU_CLONES CLONES

#define CPU_OP(op, args) int cpu_##op(struct stream *s, const struct args *a, struct err *err);
OP_MAP(CPU_OP)
#undef CPU_OP

struct scratch {
    void *data;
    size_t bytes;
};
struct cpu_stream {
    struct scratch scratch, sums;
    struct dnn_cache *dnn; /* oneDNN primitives and packed weights */
    int threads;           /* the device's */
};
static inline struct cpu_stream *cpu_stream(struct stream *s) { return s->state; }
/* The lanes of an op (kernels/lanes.h): scratch is cut by them. */
static inline int cpu_threads(struct stream *s) { return cpu_stream(s)->threads; }

/* Scratch of at least `bytes`, 64-byte aligned, valid until the next op; grows and then stays, so that steady-state steps
 * allocate nothing. NULL (with *err) when memory is short. */
void *cpu_scratch(struct stream *s, size_t bytes, struct err *err);
/* The same beside it, for the partial sums of cpu_gemm. */
void *cpu_sums(struct stream *s, size_t bytes, struct err *err);

/* This machine's speed (kernels/rates.h). */
int cpu_rates(struct stream *s, struct rates *ret, struct err *err);

struct dnn_cache *dnn_cache_new(int threads);
void dnn_cache_free(struct dnn_cache *cache);

/* C (m,n) = A·B + beta·C, row-major, optionally transposed operands, leading dimensions in elements. span: rows of C that belong
 * together, a batch row (0 = all); how one is computed does not depend on how many there are. The same bits on any number of
 * threads. */
struct gemm_in {
    const float *at;
    int64_t ld;
};
struct gemm_out {
    float *at;
    int64_t ld;
};
struct gemm {
    bool trans_a, trans_b;
    int64_t m, n, k, span;
    struct gemm_in a, b;
    struct gemm_out c;
    float beta;
};
int cpu_gemm(struct stream *s, const struct gemm *g, struct err *err);
/* The gradients of y = x·wᵀ, w (n,k): dx = dy·w + dx_beta·dx and dw = dyᵀ·x + dw_beta·dw, each unless it is at NULL. */
struct gemm_gradients {
    int64_t rows, n, k;
    struct gemm_in x, w, dy;
    struct gemm_out dx, dw;
    float dx_beta, dw_beta;
};
int cpu_gemm_gradients(struct stream *s, const struct gemm_gradients *p, struct err *err);

static inline const float *cf(const struct tensor *t) { return t->data; }
static inline float *mf(const struct tensor *t) { return t->data; }
static inline struct gemm_in gemm_read(const struct tensor *t) { return (struct gemm_in){cf(t), t->ld}; }
static inline struct gemm_out gemm_write(const struct tensor *t) { return (struct gemm_out){mf(t), t->ld}; }
