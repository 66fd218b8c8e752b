/* early: kernels that are launched while the kernel before them on the stream still runs, so that launching takes no time between
 * them (programmatic dependent launch, sm_90; elsewhere CUDA_LAUNCH). Internal to kernels/cuda. */
#ifndef BRR_KERNELS_CUDA_EARLY_CUH
#define BRR_KERNELS_CUDA_EARLY_CUH
#include "kernels/cuda/cuda.cuh"

/* The first statement of such a kernel: waits until the kernels before it have ended and what they wrote can be read. */
static __device__ inline void cuda_after_previous(void) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#ifdef __CUDACC__
#define CUDA_LAUNCH_EARLY(kernel, grid, block, s, ...) cuda_launch_early(s, kernel, grid, block, __VA_ARGS__)
/* Not in recorded work. */
static inline bool cuda_launches_early(struct stream *s) {
    int device = 0, major = 0;
    return !s->recording && cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess && major >= 9;
}
template <typename... job>
static inline void cuda_launch_early(struct stream *s, void (*kernel)(job...), unsigned grid, unsigned block, job... j) {
    static bool declined; /* by the driver; written with the same value by whichever thread */
    cudaLaunchAttribute attribute = {};
    cudaLaunchConfig_t config = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = dim3(grid);
    config.blockDim = dim3(block);
    config.stream = cuda_stream(s)->stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    if (!__atomic_load_n(&declined, __ATOMIC_RELAXED) && cuda_launches_early(s)) {
        cudaError_t code = cudaLaunchKernelEx(&config, kernel, j...);
        if (code != cudaErrorNotSupported && code != cudaErrorInvalidValue)
            return;
        cudaGetLastError();
        __atomic_store_n(&declined, true, __ATOMIC_RELAXED);
    }
    kernel<<<grid, block, 0, cuda_stream(s)->stream>>>(j...);
}
#else
#define CUDA_LAUNCH_EARLY(kernel, grid, block, s, ...) CUDA_LAUNCH(kernel, grid, block, cuda_stream(s)->stream, __VA_ARGS__)
#endif

#endif
