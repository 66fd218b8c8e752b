/* emulator: fibers for a block's threads, and memory calls on the host. A block whose threads do not all reach the same barrier ends the
 * program: on a GPU it would hang or compute nonsense. */
#include "kernels/cuda/cuda.cuh"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { MOST_THREADS = 1024, STACK_BYTES = 128 << 10 };

dim3 threadIdx, blockIdx, blockDim, gridDim;

/* A fiber is made once per thread number and then runs body after body. Switches are jumps: swapcontext would enter the kernel. */
static struct {
    ucontext_t first[MOST_THREADS];
    jmp_buf scheduler, fiber[MOST_THREADS];
    bool made[MOST_THREADS], done[MOST_THREADS];
    float exchange[MOST_THREADS];
    unsigned current;
    emulator_body body;
    void *context;
} block;

static void to_scheduler(void) {
    if (!_setjmp(block.fiber[block.current]))
        _longjmp(block.scheduler, 1);
}

static void fiber_main(void) {
    for (;;) {
        block.body(block.context);
        block.done[block.current] = true;
        to_scheduler();
    }
}

static void to_fiber(unsigned t) {
    if (_setjmp(block.scheduler))
        return;
    if (block.made[t])
        _longjmp(block.fiber[t], 1);
    block.made[t] = true;
    getcontext(&block.first[t]);
    block.first[t].uc_stack.ss_sp = malloc(STACK_BYTES);
    block.first[t].uc_stack.ss_size = STACK_BYTES;
    block.first[t].uc_link = NULL;
    makecontext(&block.first[t], fiber_main, 0);
    setcontext(&block.first[t]);
}

void __syncthreads(void) { to_scheduler(); }

float __shfl_xor_sync(unsigned mask, float v, int lane_mask) {
    (void)mask;
    unsigned at = block.current;
    block.exchange[at] = v;
    __syncthreads();
    float other = block.exchange[at ^ (unsigned)lane_mask];
    __syncthreads();
    return other;
}

static void run_block(unsigned threads) {
    memset(block.done, 0, sizeof block.done);
    for (unsigned done = 0; done < threads;) {
        done = 0;
        for (unsigned t = 0; t < threads; t++) {
            block.current = t;
            threadIdx = dim3(t, 0, 0);
            to_fiber(t);
            done += block.done[t];
        }
        if (done && done < threads) {
            fprintf(stderr, "emulator: %u of %u threads wait at a barrier that the others never reach\n", threads - done, threads);
            exit(2);
        }
    }
}

void emulator_launch(dim3 grid, unsigned threads, emulator_body body, void *context) {
    if (threads < 1 || threads > MOST_THREADS || !grid.x || !grid.y || grid.y > 65535) {
        fprintf(stderr, "emulator: a grid of %u x %u blocks of %u threads cannot be launched\n", grid.x, grid.y, threads);
        exit(2);
    }
    block.body = body;
    block.context = context;
    gridDim = grid;
    blockDim = dim3(threads);
    for (unsigned y = 0; y < grid.y; y++)
        for (unsigned x = 0; x < grid.x; x++) {
            blockIdx = dim3(x, y);
            run_block(threads);
        }
}

cudaError_t cudaMalloc(void **ret, size_t bytes) {
    *ret = bytes > (size_t)1 << 40 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *ret ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned) { return cudaMalloc(ret, bytes); }
cudaError_t cudaFree(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaFreeHost(void *p) { return free(p), cudaSuccess; }
cudaError_t cudaMemset(void *p, int value, size_t bytes) { return memset(p, value, bytes), cudaSuccess; }
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t) { return memset(p, value, bytes), cudaSuccess; }
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind, cudaStream_t) {
    return memmove(dst, src, bytes), cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    *free_bytes = *total_bytes = (size_t)1 << 30;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int *ordinal) { return *ordinal = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated");
    p->totalGlobalMem = (size_t)1 << 30;
    p->major = 8;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0, cudaSuccess; }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned, int) { return *ret = NULL, cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError(void) { return cudaSuccess; }
cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
const char *cudaGetErrorString(cudaError_t code) { return code == cudaSuccess ? "no error" : "out of memory"; }
const char *cudaGetErrorName(cudaError_t code) { return code == cudaSuccess ? "cudaSuccess" : "cudaErrorMemoryAllocation"; }

struct cuda_products *cuda_products_open(struct device *, struct err *) { return (struct cuda_products *)malloc(1); }
void cuda_products_close(struct cuda_products *p) { free(p); }
int cuda_gemm(struct stream *s, const struct cuda_gemm *g, struct err *) {
    cuda_gemm_plain(s, g);
    return 0;
}
