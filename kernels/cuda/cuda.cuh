/* cuda: the CUDA backend's inside. Internal to kernels/cuda; everything here runs on the thread that owns the stream.
 *
 * Kernels are C-like: one struct of arguments by value, float arithmetic, activations read and written through act_get and
 * act_put whatever their type. No float atomics; sums go through trees of fixed shape, blocks' shares are added in order.
 * Launches go through CUDA_LAUNCH; launch faults are collected once per op by the table's entry (device.cu), which also makes the
 * stream's device current. */
#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>

extern "C" {
#include "base/err.h"
#include "kernels/backend.h"
}

#ifndef CUDA_LAUNCH
#define CUDA_LAUNCH(kernel, grid, block, stream, ...) kernel<<<grid, block, 0, stream>>>(__VA_ARGS__)
#endif

#define CUDA_OP(op, args) extern "C" int cuda_##op(struct stream *s, const struct args *a, struct err *err);
OP_MAP(CUDA_OP)
#undef CUDA_OP

enum { CUDA_STAGING_BYTES = 1 << 20, CUDA_WORKSPACE_BYTES = 32 << 20 };

struct cuda_stream {
    cudaStream_t stream; /* what ops queue on: `own`, or one of the program (stream_adopt) */
    cudaStream_t own;
    cudaEvent_t reached;       /* recorded for streams that wait for this one */
    cudaEvent_t done;          /* STREAM_NORMAL: for which its thread sleeps; STREAM_HIGH: NULL */
    void *scratch, *workspace; /* workspace: for the products */
    size_t scratch_bytes;
    char *staging; /* pinned, handed out from the front until the next sync */
    size_t staging_used;
    struct cuda_products *products;
    struct cudnn *cudnn; /* when first needed */
    uint64_t recordings; /* begun so far */
};
static inline struct cuda_stream *cuda_stream(struct stream *s) { return (struct cuda_stream *)s->state; }
/* Which of the stream's recordings is going on; 0: none. */
static inline uint64_t cuda_recording(struct stream *s) { return s->recording ? cuda_stream(s)->recordings : 0; }

/* Fails with INTERNAL (EXHAUSTED when memory is short) and "cuda:N: WHAT: reason". A fault that the process cannot survive marks
 * the device as lost and says so. */
int cuda_failed(struct device *dev, const char *what, cudaError_t code, struct err *err);
/* Makes the device current on the calling thread. */
int cuda_enter(struct device *dev, const char *what, struct err *err);
/* Scratch of at least `bytes`, 256-byte aligned, not zeroed, valid until the next op on the stream; grows and then stays. */
int cuda_scratch(struct stream *s, size_t bytes, void **ret, struct err *err);
/* Queues a copy of `bytes` host bytes to device memory; the host memory is free on return. Cannot be recorded. */
int cuda_upload(struct stream *s, void *dst, const void *host, size_t bytes, struct err *err);

struct cuda_products *cuda_products_open(struct device *dev, struct err *err);
void cuda_products_close(struct cuda_products *p);
/* major, minor, patch of the cuBLASLt that is loaded and of the one this was compiled against. */
void cuda_products_version(int loaded[3], int compiled[3]);
/* Of the process so far: shapes of products, those that cuBLASLt declined (they run in our own, much slower kernel), and those
 * whose bias and ReLU it declined (they are a pass of their own). */
struct cuda_product_counts {
    long shapes, declined, apart;
};
void cuda_products_count(struct cuda_product_counts *ret);

/* graph.cu, parts.cu: slots of the backend. */
int cuda_wait(struct stream *s, struct stream *earlier, struct err *err);
int cuda_record(struct stream *s, struct err *err);
int cuda_record_end(struct stream *s, bool keep, void **ret, struct err *err);
int cuda_replay(struct stream *s, void *recorded, struct err *err);
void cuda_forget(struct device *dev, void *recorded);
int cuda_mark(struct stream *s, void **mark, struct err *err);
int cuda_between(struct device *dev, void *from, void *to, double *ret_s, struct err *err);
void cuda_unmark(struct device *dev, void *mark);
void cuda_range(const char *name);
int cuda_parts(struct device_part *parts, int max);
/* nccl.cu: likewise. */
int cuda_comm_offer(struct device *dev, bool first, struct comm_offer *ret, struct err *err);
int cuda_comm_open(struct device *dev, const struct comm_place *place, void **ret, struct err *err);
int cuda_comm_exchange(struct stream *s, void *comm, int peer, const struct world_parts *parts, int limit_ms, struct err *err);
void cuda_comm_close(void *comm);
/* peers.cu: likewise. */
int cuda_reach(struct device *dev, struct device *other, struct err *err);
int cuda_signal(struct stream *s, void **signal, struct err *err);
int cuda_await(struct stream *s, void *signal, struct err *err);
/* Whether the driver serves this build's runtime; UNSUPPORTED with the fix where it does not, NOT_FOUND without a driver. */
int cuda_check_driver(struct err *err);

/* C (m,n) = relu?(A·B + beta·C + bias?), row-major, optionally transposed operands, leading dimensions in elements. A and B are
 * both F32 or both BF16; sums are F32 (never TF32); C is either; bias (n) has the type of C. Unless A is transposed a row of C does
 * not depend on m.
 *
 * batch > 1: so many products of one shape; the operands of the next one lie step_a, step_b and step_c elements further, the bias
 * is the same. Rows of C must not be common to two of them. like, not NULL: C's rows come out as if they were rows of a matrix at
 * `like` with leading dimension like_ld: products that agree in n, k, lda, ldb, the epilogue and these two give equal rows of A
 * equal bits, wherever C is, batched or not. */
struct cuda_gemm {
    bool trans_a, trans_b, bf16, c_bf16, relu;
    int64_t m, n, k;
    const void *a, *b, *bias;
    int64_t lda, ldb, ldc;
    float beta;
    void *c;
    int64_t batch, step_a, step_b, step_c;
    const void *like;
    int64_t like_ld;
};
int cuda_gemm(struct stream *s, const struct cuda_gemm *g, struct err *err);
/* The same by own kernel, for what the library declines; no batch. */
void cuda_gemm_plain(struct stream *s, const struct cuda_gemm *g);
/* C = relu?(C + bias?): the end of a product alone. */
void cuda_bias_relu(struct stream *s, const struct cuda_gemm *g);

/* Cuts scratch into 256-byte aligned pieces; base NULL only measures. */
struct cuda_area {
    char *base;
    size_t used;
};
static inline void *cuda_take(struct cuda_area *area, size_t bytes) {
    void *p = area->base ? area->base + area->used : NULL;
    area->used += (bytes + 255) / 256 * 256;
    return p;
}

static inline int64_t cuda_ceil(int64_t n, int64_t by) { return (n + by - 1) / by; }
static inline int64_t cuda_min(int64_t a, int64_t b) { return a < b ? a : b; }
/* Blocks of a grid-stride loop over n items. */
static inline unsigned cuda_blocks(int64_t n, int threads) { return (unsigned)cuda_min(cuda_ceil(n, threads), 8192); }

/* An activation as the device sees it: element (row, c) at row·ld + c. data NULL = absent. */
struct act {
    void *data;
    int64_t ld;
    bool bf16;
};
static inline struct act act_of(const struct tensor *t) {
    struct act a = {t->data, t->ld, t->dtype == DTYPE_BF16};
    return a;
}
static __device__ inline float act_get(struct act a, int64_t at) {
    return a.bf16 ? __bfloat162float(((const __nv_bfloat16 *)a.data)[at]) : ((const float *)a.data)[at];
}
static __device__ inline void act_put(struct act a, int64_t at, float v) {
    if (a.bf16)
        ((__nv_bfloat16 *)a.data)[at] = __float2bfloat16_rn(v);
    else
        ((float *)a.data)[at] = v;
}

static __device__ inline int64_t cuda_index(void) { return (int64_t)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ inline int64_t cuda_stride(void) { return (int64_t)gridDim.x * blockDim.x; }
static __device__ inline float sigmoid_of(float x) { return 1.0f / (1.0f + expf(-x)); }
/* The sigmoid of a gate, by the special function unit: a relative error of about (|x| + 4)·2^-24. */
static __device__ inline float gate_of(float x) {
#ifdef __CUDACC__
    return __fdividef(1.0f, 1.0f + __expf(-x));
#else
    return sigmoid_of(x);
#endif
}
static __device__ inline float cuda_silu(float x) { return x * gate_of(x); }
static __device__ inline float cuda_silu_grad(float x) {
    float s = sigmoid_of(x);
    return s * (1.0f + x * (1.0f - s));
}

/* Sum over the block (a power of two of threads, at most 256) in a fixed tree; every thread gets it. `room`: blockDim.x doubles or
 * floats of shared memory, free again on return. */
template <typename real> static __device__ inline real cuda_block_sum(real v, real *room) {
    room[threadIdx.x] = v;
    __syncthreads();
    for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            room[threadIdx.x] += room[threadIdx.x + half];
        __syncthreads();
    }
    real total = room[0];
    __syncthreads();
    return total;
}
