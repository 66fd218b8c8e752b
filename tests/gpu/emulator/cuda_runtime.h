/* cuda_runtime (emulated): the part of the CUDA runtime that kernels/cuda uses, on the processor, so that its kernels can be held
 * against references on any machine. A block's threads are fibers that meet at __syncthreads and at shuffles; blocks run one after
 * another; device memory is host memory. For correctness only. */
#ifndef BRR_TESTS_GPU_EMULATOR_CUDA_RUNTIME_H
#define BRR_TESTS_GPU_EMULATOR_CUDA_RUNTIME_H
#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;
void __syncthreads(void);
float __shfl_xor_sync(unsigned mask, float v, int lane_mask); /* all of the block's threads must take part */

typedef void (*emulator_body)(void *context);
void emulator_launch(dim3 grid, unsigned threads, emulator_body body, void *context);
template <typename body> static inline void emulator_run(dim3 grid, unsigned threads, body f) {
    emulator_launch(
        grid, threads, [](void *context) { (*(body *)context)(); }, &f);
}
#define CUDA_LAUNCH(kernel, grid, block, stream, ...) ((void)(stream), emulator_run(grid, block, [&] { kernel(__VA_ARGS__); }))

enum cudaError_t { cudaSuccess, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyDefault, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost };
enum { cudaHostAllocDefault = 0, cudaStreamNonBlocking = 1 };
typedef struct emulator_stream *cudaStream_t;
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
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest);
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned flags, int priority);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
const char *cudaGetErrorString(cudaError_t code);
const char *cudaGetErrorName(cudaError_t code);

#endif
