/* test_emulator: small kernels and host programs, each with one mistake that a GPU might forgive, and the same without it. Those
 * that end the program run in a child, whose words are read. */
#include <cuda_runtime.h>

#include "kernels/cuda/mma.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xmmintrin.h>

enum { THREADS = 64, BLOCKS = 4, N = THREADS * BLOCKS, ROUNDS = 200 };

static int failures;
static void check(bool ok, const char *what, const char *more) {
    failures += !ok;
    printf("%-6s %s%s%s\n", ok ? "ok" : "FAILED", what, *more ? ": " : "", more);
    fflush(stdout);
}
static void must(cudaError_t code, const char *what) {
    if (code != cudaSuccess)
        check(false, what, cudaGetErrorName(code));
}

static cudaStream_t new_stream(void) {
    cudaStream_t s = NULL;
    must(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, 0), "a stream");
    return s;
}
static float *new_memory(size_t floats) {
    void *p = NULL;
    must(cudaMalloc(&p, floats * sizeof(float)), "memory");
    must(cudaMemset(p, 0, floats * sizeof(float)), "zeros");
    return (float *)p;
}

/* ---- kernels ---- */

/* Every thread gives its value to its neighbour, and bytes to theirs. */
static __global__ void swap_kernel(float *x, unsigned char *bytes, bool barrier) {
    __shared__ float room[THREADS];
    unsigned t = threadIdx.x, at = blockIdx.x * THREADS + t;
    room[t] = x[at];
    if (barrier)
        __syncthreads();
    x[at] = room[t ^ 1] + (float)bytes[at];
    bytes[at] = (unsigned char)t;
}
static __global__ void total_kernel(float *x, bool each_its_own) { x[each_its_own ? blockIdx.x : 0] = 1; }
static __global__ void overwrite_kernel(float *x, bool own) { x[threadIdx.x] = x[own ? threadIdx.x : (threadIdx.x + 1) % THREADS]; }
static __global__ void unwritten_kernel(float *x, bool first) {
    __shared__ float room[THREADS];
    if (first || threadIdx.x)
        room[threadIdx.x] = 1;
    __syncthreads();
    x[threadIdx.x] = room[0];
}
static __global__ void parting_kernel(float *x, bool part) {
    x[threadIdx.x] = 1;
    if (!part || threadIdx.x < THREADS / 2)
        __syncthreads();
}
static __global__ void read_kernel(float *y, const void *from, size_t at) {
    y[threadIdx.x] = *(const float *)((const char *)from + at);
}
/* All threads of all blocks add to one place; one of them sets it first where that is wrong. */
static __global__ void count_kernel(int *n, bool sets) {
    if (sets && threadIdx.x == 0)
        n[0] = 0;
    atomicAdd(n, 1);
}
static __global__ void ballot_kernel(float *x) {
    unsigned odd = __ballot_sync(0xffffffffU, threadIdx.x & 1);
    x[threadIdx.x] = odd == 0xaaaaaaaaU ? (float)__popc(odd) : -1;
}
static __global__ void halve_kernel(float *x) { x[threadIdx.x] *= 0.5f; }
/* Products of tiles: out[way] (16,16) = A (16,16) · B (16,16) of a warp, A and B read as they lie or as transposes; warps that
 * multiply more often than others must not disturb them. */
enum { TILE = 16, TILE_ROOM = TILE + 8, TILE_WAYS = 4 };
static __global__ void tiles_kernel(const __nv_bfloat16 *from, float *out) {
    alignas(16) __shared__ __nv_bfloat16 a[2][TILE * TILE_ROOM], b[2][TILE * TILE_ROOM]; /* as they lie, transposes */
    unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    for (unsigned e = threadIdx.x; e < TILE * TILE; e += blockDim.x) {
        unsigned i = e / TILE, j = e % TILE;
        a[0][i * TILE_ROOM + j] = a[1][j * TILE_ROOM + i] = from[e];
        b[0][i * TILE_ROOM + j] = b[1][j * TILE_ROOM + i] = from[TILE * TILE + e];
    }
    __syncthreads();
    for (unsigned way = warp; way < TILE_WAYS; way += warp ? TILE_WAYS : 1) { /* warp 0: all */
        float d[2][4] = {};
        uint32_t left[4], right[2][2];
        if (way & 1)
            mma_load_a_trans(left, a[1], TILE_ROOM);
        else
            mma_load_a(left, a[0], TILE_ROOM);
        if (way & 2)
            mma_load_b(right, b[1], TILE_ROOM);
        else
            mma_load_b_trans(right, b[0], TILE_ROOM);
        mma_bf16(d[0], left, right[0]);
        mma_bf16(d[1], left, right[1]);
        float *to = out + (warp * TILE_WAYS + way) * TILE * TILE;
        for (unsigned half = 0; half < 2; half++)
            for (unsigned i = 0; i < 4; i++)
                to[(g + i / 2 * 8) * TILE + half * 8 + 2 * t + i % 2] = d[half][i];
    }
}
static __global__ void add_kernel(float *x, float v) { x[threadIdx.x] += v; }

/* ---- what ends the program, with `wrong` ---- */

static void swaps(bool wrong) {
    cudaStream_t s = new_stream();
    float *x = new_memory(2 * N);
    CUDA_LAUNCH(swap_kernel, BLOCKS, THREADS, s, x, (unsigned char *)(x + N), !wrong);
    must(cudaStreamSynchronize(s), "neighbours");
}
static void totals(bool wrong) {
    cudaStream_t s = new_stream();
    CUDA_LAUNCH(total_kernel, BLOCKS, 1, s, new_memory(N), !wrong);
    must(cudaStreamSynchronize(s), "totals");
}
static void overwrites(bool wrong) {
    cudaStream_t s = new_stream();
    CUDA_LAUNCH(overwrite_kernel, 1, THREADS, s, new_memory(N), !wrong);
    must(cudaStreamSynchronize(s), "overwriting");
}
static void unwritten(bool wrong) {
    cudaStream_t s = new_stream();
    CUDA_LAUNCH(unwritten_kernel, 1, THREADS, s, new_memory(N), !wrong);
    must(cudaStreamSynchronize(s), "shared memory");
}
static void counts(bool wrong) {
    cudaStream_t s = new_stream();
    CUDA_LAUNCH(count_kernel, BLOCKS, THREADS, s, (int *)new_memory(1), wrong);
    must(cudaStreamSynchronize(s), "counting");
}
static void parting(bool wrong) {
    cudaStream_t s = new_stream();
    CUDA_LAUNCH(parting_kernel, 1, THREADS, s, new_memory(N), wrong);
    must(cudaStreamSynchronize(s), "a barrier");
}
static void host_touches(bool wrong) {
    cudaStream_t s = new_stream();
    float *x = new_memory(N), y[N];
    volatile float seen = 0;
    for (int i = 0; i < ROUNDS; i++) {
        must(cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s), "a copy");
        must(cudaStreamSynchronize(s), "a copy");
        seen = seen + (wrong ? x : y)[i];
    }
}
static void wrong_way(bool wrong) {
    cudaStream_t s = new_stream();
    float *x = new_memory(N), y[N];
    must(cudaMemcpyAsync(wrong ? (void *)y : x, wrong ? (void *)x : y, sizeof y, cudaMemcpyHostToDevice, s), "a copy");
    must(cudaStreamSynchronize(s), "a copy");
}
/* The host writes over what a copy is still to read. */
static void torn_copies(bool wrong) {
    float *x = new_memory(THREADS), y[THREADS] = {};
    for (int i = 0; i < ROUNDS; i++) {
        cudaStream_t s = new_stream();
        must(cudaMemcpyAsync(x, y, sizeof y, cudaMemcpyHostToDevice, s), "a copy");
        if (!wrong)
            must(cudaStreamSynchronize(s), "a copy");
        y[5] += 1;
        must(cudaStreamDestroy(s), "a stream");
    }
}
/* Pinned memory goes before what reads it has run. */
static void frees_early(bool wrong) {
    float *x = new_memory(THREADS);
    for (int i = 0; i < ROUNDS; i++) {
        cudaStream_t s = new_stream();
        void *y = NULL;
        must(cudaHostAlloc(&y, THREADS * sizeof(float), cudaHostAllocDefault), "pinned memory");
        must(cudaMemcpyAsync(x, y, THREADS * sizeof(float), cudaMemcpyHostToDevice, s), "a copy");
        if (!wrong)
            must(cudaStreamSynchronize(s), "a copy");
        must(cudaFreeHost(y), "pinned memory");
        must(cudaStreamDestroy(s), "a stream");
    }
}
static void waits_for_nothing(bool wrong) {
    cudaStream_t s = new_stream();
    cudaEvent_t e = NULL;
    must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "an event");
    if (wrong)
        must(cudaEventDestroy(e), "an event");
    must(cudaStreamWaitEvent(s, e, 0), "waiting");
}

static const struct mortal {
    void (*run)(bool wrong);
    const char *what, *words;
} mortals[] = {
    {swaps, "a barrier between neighbours", "of shared memory"},
    {totals, "a place for each block", "that another block of this launch wrote"},
    {overwrites, "in place", "since the last barrier"},
    {unwritten, "shared memory is written first", "where nothing was written before"},
    {counts, "additions in any order", "of device memory"},
    {parting, "a barrier for all threads", "part: one"},
    {host_touches, "the host's side stays out of device memory", "the host touches device memory"},
    {wrong_way, "a copy's direction", "direction"},
    {torn_copies, "host memory stays until the copy is done", "changed before the copy"},
    {frees_early, "pinned memory stays until the copy is done", "is freed before a copy"},
    {waits_for_nothing, "a wait for an event", "no event"},
};

static void check_mortal(const struct mortal *m, bool wrong) {
    int ends[2], status = 0;
    char said[512] = "";
    if (pipe(ends))
        return check(false, m->what, "no pipe");
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        failures = 0;
        m->run(wrong);
        _exit(failures != 0);
    }
    close(ends[1]);
    FILE *f = fdopen(ends[0], "r");
    size_t n = fread(said, 1, sizeof said - 1, f);
    said[n] = 0;
    said[strcspn(said, "\n")] = 0;
    fclose(f);
    waitpid(child, &status, 0);
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    check(wrong ? code == 2 && strstr(said, m->words) : !code && !n, m->what, said);
}

/* ---- what a GPU reports, or does now and then ---- */

/* A fault stays, so each runs in a child. */
static void check_fault(const char *what, bool expected, void (*run)(cudaStream_t s, float *y)) {
    int status = 0;
    pid_t child = fork();
    if (!child) {
        cudaStream_t s = new_stream();
        float *y = new_memory(THREADS);
        if (!freopen("/dev/null", "w", stderr))
            _exit(9);
        run(s, y);
        _exit(cudaStreamSynchronize(s) == cudaErrorIllegalAddress);
    }
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == expected, what, "");
}
static void reads_last(cudaStream_t s, float *y) { CUDA_LAUNCH(read_kernel, 1, THREADS, s, y, (const void *)new_memory(100), 396); }
static void reads_past(cudaStream_t s, float *y) { CUDA_LAUNCH(read_kernel, 1, THREADS, s, y, (const void *)new_memory(100), 400); }
static void reads_between(cudaStream_t s, float *y) {
    CUDA_LAUNCH(read_kernel, 1, THREADS, s, y, (const void *)new_memory(100), 2);
}
static __global__ void read_wide_kernel(float *y, const float4 *from) { y[threadIdx.x] = from->w; }
static void reads_wide(cudaStream_t s, float *y) {
    CUDA_LAUNCH(read_wide_kernel, 1, THREADS, s, y, (const float4 *)(new_memory(100) + 4));
}
static __global__ void copy_wide_kernel(float4 *y, const float4 *from) {
    float4 v = *from;
    v.x += v.w;
    y[threadIdx.x] = v;
}
static void reads_wide_between(cudaStream_t s, float *) {
    CUDA_LAUNCH(copy_wide_kernel, 1, THREADS, s, (float4 *)new_memory(4 * THREADS), (const float4 *)(new_memory(100) + 2));
}
static void reads_freed(cudaStream_t s, float *y) {
    float *x = new_memory(100);
    cudaFree(x);
    CUDA_LAUNCH(read_kernel, 1, THREADS, s, y, (const void *)x, 0);
}
static void reads_host(cudaStream_t s, float *y) { CUDA_LAUNCH(read_kernel, 1, THREADS, s, y, (const void *)calloc(100, 4), 0); }
static void copies_past(cudaStream_t s, float *y) { cudaMemcpyAsync(y, new_memory(100), 404, cudaMemcpyDefault, s); }

/* One stream writes, another copies: how many of the rounds saw the old value. */
static int stale_copies(bool wait) {
    int stale = 0;
    for (int i = 0; i < ROUNDS; i++) {
        cudaStream_t a = new_stream(), b = new_stream();
        cudaEvent_t done = NULL;
        float *x = new_memory(THREADS), y[THREADS];
        must(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "an event");
        CUDA_LAUNCH(add_kernel, 1, THREADS, a, x, 1.0f);
        must(cudaEventRecord(done, a), "recording");
        if (wait)
            must(cudaStreamWaitEvent(b, done, 0), "waiting");
        must(cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, b), "a copy");
        must(cudaStreamSynchronize(b), "a copy");
        stale += y[5] != 1;
        must(cudaStreamDestroy(a), "a stream");
        must(cudaStreamDestroy(b), "a stream");
        must(cudaEventDestroy(done), "an event");
        must(cudaFree(x), "memory");
    }
    return stale;
}

/* The bytes of a copy are not there before the host has waited. */
static int early_reads(bool wait) {
    int early = 0;
    float *x = new_memory(THREADS), y[THREADS];
    for (int i = 0; i < ROUNDS; i++) {
        cudaStream_t s = new_stream();
        y[5] = 0; /* as on the device, and as the last round left it */
        must(cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s), "a copy");
        if (wait)
            must(cudaStreamSynchronize(s), "a copy");
        early += y[5] != 0;
        must(cudaStreamDestroy(s), "a stream");
    }
    return early;
}

static void check_recordings(void) {
    cudaStream_t s = new_stream();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    float *x = new_memory(THREADS), y[THREADS];
    void *more = NULL;
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "recording");
    CUDA_LAUNCH(add_kernel, 1, THREADS, s, x, 1.0f);
    must(cudaStreamEndCapture(s, &graph), "recording");
    must(cudaGraphInstantiate(&ready, graph, 0), "a recording");
    for (int i = 0; i < 3; i++)
        must(cudaGraphLaunch(ready, s), "a recording");
    must(cudaGraphExecDestroy(ready), "a recording");
    must(cudaGraphDestroy(graph), "a recording");
    must(cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s), "a copy");
    must(cudaStreamSynchronize(s), "a copy");
    check(y[5] == 3, "a recording runs when it is launched, each time, though it was freed", "");
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "recording");
    check(cudaMalloc(&more, 4) == cudaErrorStreamCaptureUnsupported, "no allocation while recording", "");
    check(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated && !graph, "which spoils the recording", "");
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "recording");
    check(cudaMemcpyAsync(x, y, sizeof y, cudaMemcpyDefault, s) == cudaErrorStreamCaptureUnsupported,
          "no copy of memory that is not pinned while recording", "");
    check(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated && !graph, "which spoils it, too", "");
}

static cudaEvent_t new_event(void) {
    cudaEvent_t e = NULL;
    must(cudaEventCreateWithFlags(&e, cudaEventDisableTiming), "an event");
    return e;
}

/* A recording that forks to a second stream, and joins it again or not. */
static cudaError_t fork_in_recording(cudaStream_t s, float *x, bool join, cudaGraph_t *ret) {
    cudaStream_t other = new_stream();
    cudaEvent_t forked = new_event(), joined = new_event();
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "recording");
    CUDA_LAUNCH(add_kernel, 1, THREADS, s, x, 1.0f);
    must(cudaEventRecord(forked, s), "an event in a recording");
    must(cudaStreamWaitEvent(other, forked, 0), "joining a recording");
    CUDA_LAUNCH(add_kernel, 1, THREADS, other, x, 2.0f);
    must(cudaEventRecord(joined, other), "an event in a recording");
    if (join)
        must(cudaStreamWaitEvent(s, joined, 0), "joining a recording");
    return cudaStreamEndCapture(s, ret);
}

static void check_events_in_recordings(void) {
    cudaStream_t s = new_stream(), other = new_stream();
    cudaEvent_t before = new_event(), within = new_event();
    cudaGraph_t graph = NULL;
    cudaGraphExec_t ready = NULL;
    float *x = new_memory(THREADS), y[THREADS];
    check(fork_in_recording(s, x, true, &graph) == cudaSuccess, "a recording may fork and join", "");
    must(cudaGraphInstantiate(&ready, graph, 0), "a recording");
    must(cudaGraphLaunch(ready, s), "a recording");
    must(cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s), "a copy");
    must(cudaStreamSynchronize(s), "a copy");
    check(y[5] == 3, "and has the work of both streams", "");
    check(fork_in_recording(s, x, false, &graph) == cudaErrorStreamCaptureUnjoined, "a fork that is not joined is an error", "");
    must(cudaEventRecord(before, other), "an event");
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "recording");
    check(cudaStreamWaitEvent(s, before, 0) == cudaErrorStreamCaptureIsolation, "a recording waits for no event outside it", "");
    check(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated, "which spoils it", "");
    must(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal), "recording");
    must(cudaEventRecord(within, s), "an event in a recording");
    check(cudaEventSynchronize(within) == cudaErrorCapturedEvent, "the host waits for no event of a recording", "");
    check(cudaStreamEndCapture(s, &graph) == cudaErrorStreamCaptureInvalidated, "which spoils it too", "");
}

/* One writes, the other device's kernel reads: illegal, as is a launch on a stream that is not the current device's. */
static void reads_neighbour(cudaStream_t, float *y) {
    must(cudaSetDevice(1), "another device");
    cudaStream_t own = new_stream();
    CUDA_LAUNCH(read_kernel, 1, THREADS, own, y, (const void *)y, 0);
    cudaStreamSynchronize(own);
}
static void reads_after_access(cudaStream_t s, float *y) {
    must(cudaSetDevice(1), "another device");
    must(cudaDeviceEnablePeerAccess(0, 0), "access");
    if (cudaDeviceEnablePeerAccess(0, 0) != cudaErrorPeerAccessAlreadyEnabled || cudaGetLastError() == cudaSuccess)
        _exit(9); /* access is enabled once */
    must(cudaStreamSynchronize(s), "the memory is filled");
    cudaStream_t own = new_stream();
    CUDA_LAUNCH(read_kernel, 1, THREADS, own, new_memory(THREADS), (const void *)y, 0);
    must(cudaStreamSynchronize(own), "reading it");
}
static void reads_own(cudaStream_t s, float *y) { CUDA_LAUNCH(read_kernel, 1, THREADS, s, y, (const void *)new_memory(100), 0); }

static void check_devices(void) {
    cudaStream_t s = new_stream();
    float *x = new_memory(THREADS);
    int count = 0;
    must(cudaGetDeviceCount(&count), "devices");
    check(count == 2 && cudaSetDevice(2) == cudaErrorInvalidDevice, "there are two devices", "");
    must(cudaSetDevice(1), "another device");
    CUDA_LAUNCH(add_kernel, 1, THREADS, s, x, 1.0f);
    check(cudaGetLastError() == cudaErrorInvalidResourceHandle, "no launch on a stream of another device", "");
    check(cudaGetLastError() == cudaSuccess, "which is forgotten once it was told", "");
    cudaEvent_t event = NULL;
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    check(cudaEventRecord(event, s) == cudaErrorInvalidResourceHandle && cudaGetLastError() != cudaSuccess,
          "no event of one device on a stream of another", "");
    must(cudaSetDevice(0), "the first device");
    must(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "an event");
    must(cudaEventRecord(event, s), "an event");
    cudaError_t code = cudaEventQuery(event); /* the stream is empty: it may have come */
    check(cudaGetLastError() == code, "that an event has not come is the last error, too", "");
    check_fault("a kernel on memory of its own device", false, reads_own);
    check_fault("a kernel on memory of another device", true, reads_neighbour);
    check_fault("a kernel on memory of another device that it may access", false, reads_after_access);
}

static void check_atomics(void) {
    cudaStream_t s = new_stream();
    float *x = new_memory(THREADS), y[THREADS];
    int *counter = (int *)new_memory(1), counted = 0;
    CUDA_LAUNCH(count_kernel, BLOCKS, THREADS, s, counter, false);
    CUDA_LAUNCH(ballot_kernel, 1, THREADS, s, x);
    must(cudaMemcpyAsync(y, x, sizeof y, cudaMemcpyDeviceToHost, s), "a copy");
    must(cudaMemcpyAsync(&counted, counter, sizeof counted, cudaMemcpyDeviceToHost, s), "a copy");
    must(cudaStreamSynchronize(s), "a copy");
    check(counted == N, "atomic additions of all threads count", "");
    check(y[0] == 16 && y[THREADS - 1] == 16, "a ballot has the votes of its own warp", "");
}

/* Of all modes of the host's thread a device knows none: here, that it takes subnormal numbers for 0 and rounds up. */
static void check_modes(void) {
    cudaStream_t s = new_stream();
    const unsigned was = _mm_getcsr(), strange = (was | 0x8040) | _MM_ROUND_UP;
    uint32_t bits[2] = {0x00800000, 0x00000001}; /* the least normal number and the least of all */
    float *x = new_memory(THREADS);
    must(cudaMemcpyAsync(x, bits, sizeof bits, cudaMemcpyHostToDevice, s), "a copy");
    _mm_setcsr(strange);
    CUDA_LAUNCH(halve_kernel, 1, THREADS, s, x);
    must(cudaMemcpyAsync(bits, x, sizeof bits, cudaMemcpyDeviceToHost, s), "a copy");
    must(cudaStreamSynchronize(s), "a copy");
    const unsigned after = _mm_getcsr(), flags = _MM_EXCEPT_MASK; /* of what was computed so far */
    _mm_setcsr(was);
    check(bits[0] == 0x00400000 && bits[1] == 0, "kernels keep subnormal numbers and round to the nearest", "");
    check((after & ~flags) == (strange & ~flags), "the host's thread computes after them as before", "");
}

static void check_tiles(void) {
    enum { WARPS = TILE_WAYS, OUT = WARPS * TILE_WAYS * TILE * TILE };
    cudaStream_t s = new_stream();
    __nv_bfloat16 host[2 * TILE * TILE];
    static float y[OUT];
    float *x = new_memory(TILE * TILE), *out = new_memory(OUT);
    for (int i = 0; i < 2 * TILE * TILE; i++)
        host[i] = __float2bfloat16_rn((float)(i * 37 % 101) / 64 - 0.75f);
    must(cudaMemcpyAsync(x, host, sizeof host, cudaMemcpyHostToDevice, s), "a copy");
    CUDA_LAUNCH(tiles_kernel, 1, WARPS * 32, s, (const __nv_bfloat16 *)x, out);
    must(cudaMemcpyAsync(y, out, sizeof y, cudaMemcpyDeviceToHost, s), "a copy");
    must(cudaStreamSynchronize(s), "a copy");
    bool same = true;
    for (int way = 0; way < TILE_WAYS; way++)
        for (int i = 0; i < TILE * TILE; i++) {
            float sum = 0;
            for (int k = 0; k < TILE; k++)
                sum += __bfloat162float(host[i / TILE * TILE + k]) * __bfloat162float(host[TILE * TILE + k * TILE + i % TILE]);
            same = same && y[way * TILE * TILE + i] == sum && y[(way * TILE_WAYS + way) * TILE * TILE + i] == sum;
        }
    check(same, "products of tiles, of operands that lie either way", "");
    uint32_t both = mma_pack(1.00390625f, -1.01171875f); /* halfway between neighbours: the even one */
    check(mma_low(both) == 1 && mma_high(both) == -1.015625f, "two elements in a register are rounded to the nearest", "");
}

int main(void) {
    setenv("BRR_EMULATED_DEVICES", "2", 1);
    for (const struct mortal &m : mortals) {
        check_mortal(&m, false);
        check_mortal(&m, true);
    }
    check_fault("the last element", false, reads_last);
    check_fault("one behind the last is an illegal address", true, reads_past);
    check_fault("half an element on is an illegal address", true, reads_between);
    check_fault("four at a time", false, reads_wide);
    check_fault("four at a time and half of them on is an illegal address", true, reads_wide_between);
    check_fault("freed memory is an illegal address", true, reads_freed);
    check_fault("host memory is an illegal address", true, reads_host);
    check_fault("a copy behind the end is an illegal address", true, copies_past);
    check(stale_copies(true) == 0, "a copy after the kernel it waits for", "");
    check(stale_copies(false) > 0, "a copy beside the kernel it should wait for", "");
    check(early_reads(true) == 0, "the host reads what was copied once it has waited", "");
    check(early_reads(false) > 0, "the host reads before it has waited", "");
    check_recordings();
    check_events_in_recordings();
    check_devices();
    check_atomics();
    check_modes();
    check_tiles();
    printf("%d failed\n", failures);
    return failures != 0;
}
