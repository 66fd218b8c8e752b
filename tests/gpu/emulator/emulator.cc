/* emulator: fibers for a block's threads, and memory, streams and graphs on the host. A block whose threads do not all reach the
 * same barrier ends the program: on a GPU it would hang or compute nonsense. */
#include "kernels/cuda/cudnn.cuh"

#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <mutex>
#include <vector>

enum { MOST_THREADS = 1024, STACK_BYTES = 128 << 10 };

dim3 threadIdx, blockIdx, blockDim, gridDim;

/* A fiber is made once per thread number and then runs body after body. Switches are jumps: swapcontext would enter the kernel. */
static struct {
    ucontext_t first[MOST_THREADS];
    jmp_buf scheduler, fiber[MOST_THREADS];
    sigjmp_buf launch;
    void *stack[MOST_THREADS];
    bool made[MOST_THREADS], done[MOST_THREADS], running;
    float exchange[MOST_THREADS];
    unsigned current;
    const std::function<void()> *body;
} block;
static std::recursive_mutex gate; /* one kernel at a time */
static cudaError_t fault;         /* stays once it has happened */

static void to_scheduler(void) {
    if (!_setjmp(block.fiber[block.current]))
        _longjmp(block.scheduler, 1);
}

static void fiber_main(void) {
    for (;;) {
        (*block.body)();
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
    if (!block.stack[t])
        block.stack[t] = malloc(STACK_BYTES);
    block.first[t].uc_stack.ss_sp = block.stack[t];
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

/* A kernel went where nothing is: back to its launch. Elsewhere the signal means what it always means. */
static void on_fault(int signum) {
    if (block.running)
        siglongjmp(block.launch, 1);
    signal(signum, SIG_DFL);
}

static void watch_faults(void) {
    struct sigaction action = {};
    action.sa_handler = on_fault;
    action.sa_flags = SA_NODEFER;
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
}

/* BRR_EMULATED_FAULT: the number of the launch that goes wrong, from 1. */
static bool must_fail(void) {
    static const char *wanted = getenv("BRR_EMULATED_FAULT");
    static long launches;
    return wanted && ++launches == atol(wanted);
}

static void run_kernel(dim3 grid, unsigned threads, const std::function<void()> &thread) {
    static std::once_flag once;
    std::call_once(once, watch_faults);
    std::lock_guard<std::recursive_mutex> lock(gate);
    if (fault)
        return;
    block.body = &thread;
    gridDim = grid;
    blockDim = dim3(threads);
    if (must_fail()) {
        fault = cudaErrorIllegalAddress;
        return;
    }
    block.running = true;
    if (!sigsetjmp(block.launch, 1)) {
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x; x++) {
                blockIdx = dim3(x, y);
                run_block(threads);
            }
    } else {
        fault = cudaErrorIllegalAddress;
        memset(block.made, 0, sizeof block.made);
    }
    block.running = false;
}

/* ---- streams and graphs ---- */

struct emulator_stream {
    std::vector<std::function<void()>> *captured; /* NULL: not capturing */
};
struct emulator_graph {
    std::vector<std::function<void()>> work;
};

/* Of the process so far, outside recordings: kernels, copies and fillings, launches of recordings. */
static long kernels, copies, launches;
static bool replaying;
extern "C" __attribute__((visibility("default"))) void emulator_counts(long ret[3]) {
    ret[0] = kernels;
    ret[1] = copies;
    ret[2] = launches;
}

static cudaError_t queue(cudaStream_t stream, std::function<void()> work, long *counter) {
    *counter += !stream->captured && !replaying;
    if (stream->captured)
        stream->captured->push_back(std::move(work));
    else if (!fault)
        work();
    return fault;
}

void emulator_launch(dim3 grid, unsigned threads, cudaStream_t stream, std::function<void()> thread) {
    if (threads < 1 || threads > MOST_THREADS || !grid.x || !grid.y || grid.y > 65535) {
        fprintf(stderr, "emulator: a grid of %u x %u blocks of %u threads cannot be launched\n", grid.x, grid.y, threads);
        exit(2);
    }
    queue(
        stream, [=] { run_kernel(grid, threads, thread); }, &kernels);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned, int) { return *ret = new emulator_stream(), fault; }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return delete stream, fault; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return stream && stream->captured ? cudaErrorStreamCaptureUnsupported : fault;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int) {
    return stream->captured = new std::vector<std::function<void()>>(), fault;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret) {
    *ret = new emulator_graph{std::move(*stream->captured)};
    delete stream->captured;
    stream->captured = NULL;
    return fault;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long) {
    return *ret = new emulator_graph(*graph), fault;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, fault; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, fault; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    launches++;
    replaying = true;
    for (const std::function<void()> &work : graph->work)
        queue(stream, work, &kernels);
    replaying = false;
    return fault;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned) { return *ret = NULL, fault; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return fault; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return fault; }
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return fault; }

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ret, size_t bytes) {
    *ret = bytes > (size_t)1 << 40 ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *ret ? fault : cudaErrorMemoryAllocation;
}
cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned) { return cudaMalloc(ret, bytes); }
cudaError_t cudaFree(void *p) { return free(p), fault; }
cudaError_t cudaFreeHost(void *p) { return free(p), fault; }
cudaError_t cudaMemset(void *p, int value, size_t bytes) { return memset(p, value, bytes), fault; }
cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
    return queue(
        stream, [=] { memset(p, value, bytes); }, &copies);
}
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
    return queue(
        stream, [=] { memmove(dst, src, bytes); }, &copies);
}
/* BRR_EMULATED_MEMORY: what the device says it has, in MiB; 1024 without. */
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
    const char *wanted = getenv("BRR_EMULATED_MEMORY");
    *free_bytes = *total_bytes = (size_t)(wanted ? atol(wanted) : 1024) << 20;
    return fault;
}

/* ---- the device ---- */

cudaError_t cudaGetDeviceCount(int *count) { return *count = 1, cudaSuccess; }
cudaError_t cudaGetDevice(int *ordinal) { return *ordinal = 0, cudaSuccess; }
cudaError_t cudaSetDevice(int) { return fault; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int) {
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "emulated");
    p->totalGlobalMem = (size_t)1 << 30;
    p->major = 8;
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char *ret, int size, int) { return snprintf(ret, (size_t)size, "0000:3B:00.0"), cudaSuccess; }
/* BRR_EMULATED_DRIVER: the CUDA version that the driver serves, as cudaDriverGetVersion counts; 0 = there is none. */
cudaError_t cudaDriverGetVersion(int *version) {
    const char *wanted = getenv("BRR_EMULATED_DRIVER");
    return *version = wanted ? atoi(wanted) : CUDART_VERSION, cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { return *least = *greatest = 0, cudaSuccess; }
cudaError_t cudaGetLastError(void) { return fault; }
cudaError_t cudaPeekAtLastError(void) { return fault; }
const char *cudaGetErrorString(cudaError_t code) {
    return code == cudaSuccess                 ? "no error"
           : code == cudaErrorIllegalAddress   ? "an illegal memory access was encountered"
           : code == cudaErrorMemoryAllocation ? "out of memory"
                                               : "another error";
}
const char *cudaGetErrorName(cudaError_t code) {
    return code == cudaSuccess                 ? "cudaSuccess"
           : code == cudaErrorIllegalAddress   ? "cudaErrorIllegalAddress"
           : code == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation"
                                               : "cudaError";
}

/* ---- what products.cu does with cuBLASLt ---- */

struct cuda_products *cuda_products_open(struct device *, struct err *) {
    return (struct cuda_products *)malloc(1);
}
void cuda_products_close(struct cuda_products *p) { free(p); }
void cuda_products_version(int loaded[3], int compiled[3]) {
    for (int i = 0; i < 3; i++)
        loaded[i] = compiled[i] = i == 0 ? CUDART_VERSION / 1000 : 0;
}
int cuda_gemm(struct stream *s, const struct cuda_gemm *g, struct err *) {
    cuda_gemm_plain(s, g);
    return 0;
}

/* ---- cuDNN: never there ---- */

int cudnn_takes(struct stream *, const struct cudnn_convolution *, bool *ret, size_t *ret_workspace, struct err *) {
    *ret = false;
    *ret_workspace = 0;
    return 0;
}
int cudnn_run(struct stream *, const struct cudnn_convolution *, void *, struct err *) { return ERR_UNSUPPORTED; }
void cudnn_close(struct cudnn *) {}
void cudnn_describe(struct device_part *part) {
    snprintf(part->name, sizeof part->name, "cuDNN");
    snprintf(part->version, sizeof part->version, "none, emulated");
    part->fits = true;
}
