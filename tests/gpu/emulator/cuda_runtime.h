/* cuda_runtime (emulated): the part of the CUDA runtime that kernels/cuda uses, on the processor, so that its kernels can be held
 * against references on any machine, and so that what a GPU would forgive only now and then is found: races between threads and
 * blocks, missing waits between streams and with the host, memory that is not the device's (emulator.h names the parts). A block's
 * threads are fibers that meet at __syncthreads and at shuffles; blocks run one after another. A kernel that touches memory it must
 * not is a fault that stays, as on a GPU; what depends on chance ends the program with a message. For correctness only. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include <functional>

#define CUDART_VERSION 13000
#define __global__     __attribute__((noipa)) /* called as it is written: its arguments are copies */
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern struct emulator_place {
    dim3 thread, block, block_dim, grid;
    bool in_kernel; /* of this thread: its arguments are there */
} emulator_place;
#define threadIdx emulator_place.thread
#define blockIdx  emulator_place.block
#define blockDim  emulator_place.block_dim
#define gridDim   emulator_place.grid
void __syncthreads(void);
/* All threads of a warp must take part; warps may differ. */
float __shfl_xor_sync(unsigned mask, float v, int lane_mask);
unsigned __ballot_sync(unsigned mask, int predicate);
/* mma.sync and ldmatrix of four tiles (kernels/cuda/mma.cuh). Sums are F32, added in the order of k. */
void emulator_mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]);
/* Each lane gives a pointer and gets those of its warp. */
void emulator_share(const void *mine, const void *(&ret)[32]);
static inline void emulator_load_tiles(uint32_t (&r)[4], const void *row, bool trans) {
    const void *rows[32];
    emulator_share(row, rows);
    unsigned g = emulator_place.thread.x % 32 / 4, t = emulator_place.thread.x % 4;
    for (unsigned tile = 0; tile < 4; tile++) {
        const uint16_t *const *of = (const uint16_t *const *)rows + tile * 8;
        r[tile] = trans ? of[2 * t][g] | (uint32_t)of[2 * t + 1][g] << 16 : of[g][2 * t] | (uint32_t)of[g][2 * t + 1] << 16;
    }
}
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return uint4{x, y, z, w}; }
static inline float4 make_float4(float x, float y, float z, float w) { return float4{x, y, z, w}; }
static inline float __uint_as_float(unsigned bits) {
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    return f;
}
static inline unsigned __float_as_uint(float f) {
    unsigned bits;
    __builtin_memcpy(&bits, &f, sizeof bits);
    return bits;
}
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __clz(int v) { return v ? __builtin_clz((unsigned)v) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll((unsigned long long)v) : 64; }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
int atomicAdd(int *p, int v);
unsigned long long atomicAdd(unsigned long long *p, unsigned long long v);
unsigned atomicOr(unsigned *p, unsigned v);
enum { __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE };
unsigned __nv_atomic_load_n(const unsigned *p, int order, int scope); /* may meet other atomic operations */

typedef struct emulator_stream *cudaStream_t;
typedef struct emulator_graph *cudaGraph_t, *cudaGraphExec_t;
typedef struct emulator_event *cudaEvent_t;
void emulator_launch(const char *kernel, dim3 grid, unsigned threads, cudaStream_t stream, std::function<void()> thread);
void emulator_enter(void);
void emulator_leave(void);
/* Arguments are taken by value when the launch is asked for, as a GPU's are; fetching them does not count as the kernel's doing. */
template <typename... P, typename... A>
static inline void emulator_call(const char *name, void (*kernel)(P...), dim3 grid, unsigned threads, cudaStream_t stream,
                                 A... args) {
    emulator_launch(
        name, grid, threads, stream, [=]() __attribute__((noinline, no_sanitize("thread"))) {
            emulator_enter();
            kernel(args...);
            emulator_leave();
        });
}
#define CUDA_LAUNCH(kernel, grid, block, stream, ...) emulator_call(#kernel, kernel, grid, block, stream, __VA_ARGS__)

enum cudaError_t {
    cudaSuccess,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInvalidDevice = 101,
    cudaErrorECCUncorrectable = 214,
    cudaErrorPeerAccessUnsupported = 217,
    cudaErrorNvlinkUncorrectable = 220,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorIllegalAddress = 700,
    cudaErrorLaunchTimeout = 702,
    cudaErrorPeerAccessAlreadyEnabled = 704,
    cudaErrorContextIsDestroyed = 709,
    cudaErrorAssert = 710,
    cudaErrorHardwareStackError = 714,
    cudaErrorIllegalInstruction = 715,
    cudaErrorMisalignedAddress = 716,
    cudaErrorInvalidAddressSpace = 717,
    cudaErrorInvalidPc = 718,
    cudaErrorLaunchFailure = 719,
    cudaErrorStreamCaptureUnsupported = 900,
    cudaErrorStreamCaptureInvalidated = 901,
    cudaErrorStreamCaptureUnjoined = 904,
    cudaErrorStreamCaptureIsolation = 905,
    cudaErrorCapturedEvent = 907,
    cudaErrorExternalDevice = 911,
    cudaErrorUnknown = 999
};
enum cudaMemcpyKind { cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum {
    cudaHostAllocDefault = 0,
    cudaStreamNonBlocking = 1,
    cudaEventDefault = 0,
    cudaEventBlockingSync = 1,
    cudaEventDisableTiming = 2,
    cudaStreamCaptureModeThreadLocal = 1
};
struct cudaDeviceProp {
    char name[256];
    size_t totalGlobalMem;
    int major, minor;
};

cudaError_t cudaMalloc(void **ret, size_t bytes);
cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned flags);
cudaError_t cudaFree(void *p);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaMemset(void *p, int value, size_t bytes);
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaGetDevice(int *ordinal);
cudaError_t cudaSetDevice(int ordinal);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int ordinal);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);
cudaError_t cudaDeviceGetPCIBusId(char *ret, int size, int ordinal);
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int priority);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t code);
const char *cudaGetErrorName(cudaError_t code);
