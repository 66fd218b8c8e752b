/* brr_scan.h: brrd's selective scans in your own process. The whole promise of libbrr_scan; link with
 * `pkg-config --cflags --libs brr_scan`. No daemon is needed.
 *
 * A brr_scan is a device and the queue that its calls run on; each function computes one op, forwards or backwards. A step of a
 * stream is a call with L = 1 that carries the state: h0 in, hT out, which may be the same memory.
 *
 * Letters: B batch, L length, D channels, N states per channel (1 to 256), G groups of B and C, H heads, P head width (1 to 256),
 * K taps (1 to 8). Channel d reads group d/(D/G), head h group h/(H/G).
 * Tensors: data is the caller's, in the memory of the scan's device, and stays so. Activations are all F32 or all BF16 in one call;
 * parameters and states are F32; sums are F32 or wider. A tensor with data NULL is absent; those marked "optional" may be. Channels
 * lie side by side (the last stride is 1); rows may lie further apart, so that a slice of a wider tensor needs no copy. Other
 * layouts are INVALID, and so is every shape that does not fit the others: the message names op, tensor, shape and what was
 * expected. Addresses need the alignment of their element; 64 bytes are fastest. Gradients of activations and of h0 are written;
 * gradients of parameters (A, D, delta_bias, w, bias, weight) are added to what is there. Results are the same bits each time,
 * whatever the number of threads, and those of brrd. Forwards, a batch row does not depend on the others. Errors: functions return
 * 0 or a negative enum brr_scan_code; then *err, which the caller owns and which may be NULL, says why. Threads: a brr_scan is used
 * by one thread at a time. On a CPU a call has computed when it returns, on the calling thread, whose settings (OpenMP's
 * number of threads, subnormal floats) are as before, and on helpers that wait for its next call and end with it. On a GPU a call
 * has been queued. The library never logs, exits or installs signal handlers. Structures begin with their size, sizeof the
 * structure, so that later versions can append members; set unused members to 0. */
#ifndef BRR_SCAN_H
#define BRR_SCAN_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRR_SCAN_API __attribute__((visibility("default")))
#else
#define BRR_SCAN_API
#endif

enum { BRR_SCAN_API_VERSION = 1 };

enum brr_scan_code { /* the numbers of enum brr_code */
                     BRR_SCAN_OK = 0,
                     BRR_SCAN_INVALID = -3,
                     BRR_SCAN_NOT_FOUND = -5,
                     BRR_SCAN_EXHAUSTED = -8, /* out of memory, or the workspace is too small */
                     BRR_SCAN_PRECONDITION = -9,
                     BRR_SCAN_UNSUPPORTED = -12,
                     BRR_SCAN_INTERNAL = -13,
                     BRR_SCAN_UNAVAILABLE = -14,
};

struct brr_scan_error {
    int code;          /* enum brr_scan_code */
    char message[512]; /* one sentence for people: what, where, what was expected, the fix */
};

enum brr_scan_dtype { BRR_SCAN_F32 = 0, BRR_SCAN_BF16 = 1, BRR_SCAN_U8 = 2 };

struct brr_scan_tensor {
    void *data;
    int32_t dtype, rank; /* enum brr_scan_dtype; 1 to 4 */
    int64_t dim[4];
    int64_t stride[4]; /* in elements; all 0: dense */
};

/* Version of the library, "0.1.0". */
BRR_SCAN_API const char *brr_scan_library_version(void);

/* ---- device ---- */

typedef struct brr_scan brr_scan;
/* device: "cpu", or "cuda:N" where libbrr_cuda.so is found: the file that BRR_CUDA_LIBRARY names, else beside the program or this
 * library, or in ../lib or ../lib/brrd of either. threads: of a CPU, 0 = as many as the process may use. UNSUPPORTED: no such
 * device here, with the reason; a driver that is too old is named with its version. */
BRR_SCAN_API int brr_scan_open(const char *device, int threads, brr_scan **ret, struct brr_scan_error *err);
/* The scan's work must have ended. Takes NULL. */
BRR_SCAN_API void brr_scan_close(brr_scan *scan);
/* "AMD EPYC 9B45, avx512 avx512_bf16, 2 threads"; valid until brr_scan_close. */
BRR_SCAN_API const char *brr_scan_device(const brr_scan *scan);
/* Calls queue on this stream of the caller from now on: a cudaStream_t as a number; 0 is the default stream, 2 that of each thread,
 * as in CUDA. The caller orders it with other streams and keeps it alive. Without this call they queue on a stream of the scan's
 * own, for which brr_scan_wait waits. UNSUPPORTED on a CPU. */
BRR_SCAN_API int brr_scan_use_stream(brr_scan *scan, uintptr_t stream, struct brr_scan_error *err);
/* Waits until all queued calls have computed; reports their faults. */
BRR_SCAN_API int brr_scan_wait(brr_scan *scan, struct brr_scan_error *err);

/* Working memory of a call, in the memory of the device and aligned to 256 bytes. A call with a workspace allocates nothing and
 * waits for nothing, so that it can be captured in a CUDA graph (but for one with `lengths`). A call that needs more than `bytes`
 * fails with EXHAUSTED before it computes, and `needed` says how much; `{NULL, 0}` therefore asks. A call without a workspace uses
 * memory of the scan, which grows at the first call of a size. */
struct brr_scan_workspace {
    void *data;
    size_t bytes, needed; /* needed: written by the call */
};

/* ---- Mamba-1: selective scan ---- */

/* step = softplus(delta + delta_bias), or without the softplus, clamped to [clamp_lo, clamp_hi] when clamp_hi > 0; a = exp(step·A);
 * b = step·B·u, with zoh step·(e^v − 1)/v·B·u, v = step·A; h = a·h + b; y = Σ_N C·h + D·u; out = y·silu(z). */
struct brr_scan_selective {
    size_t size;
    struct brr_scan_tensor u, delta;      /* (B,L,D) */
    struct brr_scan_tensor A;             /* (D,N) F32, negative */
    struct brr_scan_tensor B, C;          /* (B,L,G,N), or (B,L,G·N) */
    struct brr_scan_tensor D, delta_bias; /* (D) F32, optional */
    struct brr_scan_tensor z;             /* (B,L,D), optional */
    struct brr_scan_tensor h0, hT;        /* (B,D,N) F32, optional: state before and after */
    struct brr_scan_tensor resets;        /* (B,L) U8, optional: 1 begins a new segment with an empty state */
    struct brr_scan_tensor out;           /* (B,L,D) */
    const int32_t *lengths;               /* B on the host, or NULL: beyond its length a row's out is 0 and its state rests */
    int32_t softplus, zoh;                /* 0 or 1 */
    int32_t reverse;                      /* 1: from the end of each row; equal to flip, scan, flip */
    float clamp_lo, clamp_hi;
    struct brr_scan_workspace *workspace; /* optional */
};
BRR_SCAN_API int brr_scan_selective(brr_scan *scan, const struct brr_scan_selective *args, struct brr_scan_error *err);
/* Absent gradients are not computed. dhT: gradient of hT, optional. */
struct brr_scan_selective_backward {
    size_t size;
    const struct brr_scan_selective *forward; /* its out and hT are not read */
    struct brr_scan_tensor dout, dhT;
    struct brr_scan_tensor du, ddelta, dA, dB, dC, dD, ddelta_bias, dz, dh0;
};
BRR_SCAN_API int brr_scan_selective_backward(brr_scan *scan, const struct brr_scan_selective_backward *args,
                                             struct brr_scan_error *err);

/* ---- Mamba-2: SSD ---- */

/* As above, with one step and one A for each head: h = exp(step·A)·h + (step·x) ⊗ B; y = h·C + D·x. */
struct brr_scan_ssd {
    size_t size;
    struct brr_scan_tensor x;             /* (B,L,H,P) */
    struct brr_scan_tensor delta;         /* (B,L,H) */
    struct brr_scan_tensor A;             /* (H) F32, negative */
    struct brr_scan_tensor B, C;          /* (B,L,G,N) */
    struct brr_scan_tensor D, delta_bias; /* (H) F32, optional */
    struct brr_scan_tensor h0, hT;        /* (B,H,P,N) F32, optional */
    struct brr_scan_tensor resets;        /* (B,L) U8, optional */
    struct brr_scan_tensor y;             /* (B,L,H,P) */
    const int32_t *lengths;
    int32_t softplus, reverse;
    int32_t chunk; /* 0: token after token; else the chunked matrix form of that length, on a CPU forwards alone */
    float clamp_lo, clamp_hi;
    struct brr_scan_workspace *workspace;
};
BRR_SCAN_API int brr_scan_ssd(brr_scan *scan, const struct brr_scan_ssd *args, struct brr_scan_error *err);
struct brr_scan_ssd_backward {
    size_t size;
    const struct brr_scan_ssd *forward; /* its y and hT are not read */
    struct brr_scan_tensor dy, dhT;
    struct brr_scan_tensor dx, ddelta, dA, dB, dC, dD, ddelta_bias, dh0;
};
BRR_SCAN_API int brr_scan_ssd_backward(brr_scan *scan, const struct brr_scan_ssd_backward *args, struct brr_scan_error *err);

/* ---- causal depthwise convolution ---- */

/* y[t] = act(bias + Σ_k w[k]·x[t + k − (K−1)]): the last tap meets the newest sample; act is SiLU or nothing. */
struct brr_scan_conv {
    size_t size;
    struct brr_scan_tensor x;      /* (B,L,D) */
    struct brr_scan_tensor w;      /* (D,K) F32 */
    struct brr_scan_tensor bias;   /* (D) F32, optional */
    struct brr_scan_tensor state0; /* (B,K−1,D) F32, optional: the K−1 inputs before */
    struct brr_scan_tensor state;  /* (B,K−1,D) F32, optional: the last K−1 inputs; may be state0, but in reverse */
    struct brr_scan_tensor resets; /* (B,L) U8, optional: taps do not reach across the start of a segment */
    struct brr_scan_tensor y;      /* (B,L,D) */
    const int32_t *lengths;
    int32_t silu, reverse;
    struct brr_scan_workspace *workspace;
};
BRR_SCAN_API int brr_scan_conv(brr_scan *scan, const struct brr_scan_conv *args, struct brr_scan_error *err);
struct brr_scan_conv_backward {
    size_t size;
    const struct brr_scan_conv *forward; /* its y and state are not read */
    struct brr_scan_tensor dy, dstate;
    struct brr_scan_tensor dx, dw, dbias, dstate0;
};
BRR_SCAN_API int brr_scan_conv_backward(brr_scan *scan, const struct brr_scan_conv_backward *args, struct brr_scan_error *err);

/* ---- norms ---- */

/* out = weight·q/√(mean of q² within each of `groups` equal groups of channels + eps), q = y·silu(z). */
struct brr_scan_rmsnorm {
    size_t size;
    struct brr_scan_tensor y, z, out; /* (B,L,D) */
    struct brr_scan_tensor weight;    /* (D) F32 */
    struct brr_scan_tensor rstd;      /* (B·L·groups) F32, optional forwards, needed backwards */
    int32_t groups;
    float eps;
    struct brr_scan_workspace *workspace;
};
BRR_SCAN_API int brr_scan_rmsnorm(brr_scan *scan, const struct brr_scan_rmsnorm *args, struct brr_scan_error *err);
struct brr_scan_rmsnorm_backward {
    size_t size;
    const struct brr_scan_rmsnorm *forward; /* its out is not read */
    struct brr_scan_tensor dout, dy, dz, dweight;
};
BRR_SCAN_API int brr_scan_rmsnorm_backward(brr_scan *scan, const struct brr_scan_rmsnorm_backward *args,
                                           struct brr_scan_error *err);

/* sum = x + residual; y = weight·(sum − mean)/√(variance + eps) + bias, over D. All tensors dense. */
struct brr_scan_layernorm {
    size_t size;
    struct brr_scan_tensor x, y;         /* (B,L,D) */
    struct brr_scan_tensor residual;     /* (B,L,D), optional */
    struct brr_scan_tensor sum;          /* (B,L,D), optional forwards, needed backwards */
    struct brr_scan_tensor weight, bias; /* (D) F32 */
    struct brr_scan_tensor mean, rstd;   /* (B·L) F32, optional forwards, needed backwards */
    float eps;
    struct brr_scan_workspace *workspace;
};
BRR_SCAN_API int brr_scan_layernorm(brr_scan *scan, const struct brr_scan_layernorm *args, struct brr_scan_error *err);
struct brr_scan_layernorm_backward {
    size_t size;
    const struct brr_scan_layernorm *forward; /* of it sum, weight, mean and rstd are read */
    struct brr_scan_tensor dy;
    struct brr_scan_tensor dx; /* of x and of residual */
    struct brr_scan_tensor dweight, dbias;
};
BRR_SCAN_API int brr_scan_layernorm_backward(brr_scan *scan, const struct brr_scan_layernorm_backward *args,
                                             struct brr_scan_error *err);

/* ---- handlers of XLA's foreign functions, for jax.ffi and others ---- */

/* Each takes an XLA_FFI_CallFrame and returns an XLA_FFI_Error or NULL. Arguments: u, delta, A, B, C, D, delta_bias, z, h0 of
 * brr_scan_selective, dense; one without elements is absent. Results: out, hT. Attributes, all optional: softplus (default 1), zoh,
 * reverse (bool or int), clamp_lo, clamp_hi. backward: also the arguments dout and dhT; the results du, ddelta, dA, dB, dC, dD,
 * ddelta_bias, dz, dh0, one without elements is not computed. cuda: for XLA's platform CUDA, queued on its stream with its memory,
 * on the GPU that the attribute device names (default 0); the others are for its CPUs. */
BRR_SCAN_API void *brr_xla_selective_scan(void *call);
BRR_SCAN_API void *brr_xla_selective_scan_backward(void *call);
BRR_SCAN_API void *brr_xla_selective_scan_cuda(void *call);
BRR_SCAN_API void *brr_xla_selective_scan_backward_cuda(void *call);

#ifdef __cplusplus
}
#endif
#endif
