/* streams: work is queued and runs when something waits for it, or before, when chance wants it: so that what forgets to wait sees
 * old values now and then. Work of two streams goes in any order that events allow. A copy reads host memory when it runs, not when
 * it is asked for. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <vector>

struct event_state {
    uint64_t asked, reached;
    std::chrono::steady_clock::time_point at; /* when it was reached */
    cudaStream_t capture, recorder;           /* recorded into the recording that `capture` began; NULL: into a queue */
};
struct emulator_event {
    std::shared_ptr<struct event_state> state;
};
struct task {
    std::function<void()> work;
    std::shared_ptr<struct event_state> after; /* runs once this has reached `count` */
    uint64_t count;
};
struct recording {
    std::vector<std::function<void()>> steps;
    long kernels;
};
struct emulator_stream {
    int device;
    std::deque<struct task> tasks;
    std::unique_ptr<recording> captured; /* NULL: not capturing */
    cudaStream_t origin;                 /* it takes part in the recording that this stream began; NULL: in none */
    bool ahead;                          /* it takes part, and no other stream has waited for it since */
    bool spoiled;                        /* what is captured was interrupted by a call that none may contain */
    uint64_t haste;                      /* of 4 calls, so many run something */
};
struct emulator_graph {
    std::shared_ptr<const recording> work;
};

std::recursive_mutex emulator_gate;
typedef std::lock_guard<std::recursive_mutex> gate;
static std::vector<cudaStream_t> streams;
static thread_local cudaStream_t capturing; /* by this thread */

/* Of the process so far, outside recordings: kernels, copies and fillings, launches of recordings; and kernels of recordings that
 * were launched. */
static long kernels, copies, launches, recorded_kernels;
static long waits; /* of the host, for a stream or an event */
extern "C" __attribute__((visibility("default"))) void emulator_counts(long ret[3]) {
    gate lock(emulator_gate);
    ret[0] = kernels;
    ret[1] = copies;
    ret[2] = launches;
}
extern "C" __attribute__((visibility("default"))) long emulator_recorded_kernels(void) {
    gate lock(emulator_gate);
    return recorded_kernels;
}

extern "C" __attribute__((visibility("default"))) long emulator_waits(void) {
    gate lock(emulator_gate);
    return waits;
}

/* ---- running ---- */

static bool can_run(cudaStream_t s) {
    return !s->tasks.empty() && (!s->tasks.front().after || s->tasks.front().after->reached >= s->tasks.front().count);
}

static void run_first(cudaStream_t s) {
    struct task task = std::move(s->tasks.front());
    s->tasks.pop_front();
    if (task.work)
        task.work();
}

static cudaStream_t any_that_can(void) {
    uint64_t from = emulator_chance(streams.size());
    for (size_t i = 0; i < streams.size(); i++) {
        cudaStream_t s = streams[(from + i) % streams.size()];
        if (can_run(s))
            return s;
    }
    return NULL;
}

/* Until the stream is empty; others go on as well by chance, and where this one waits for them. */
static void finish(cudaStream_t s) {
    memory_open();
    while (!s->tasks.empty()) {
        cudaStream_t next = can_run(s) && emulator_chance(2) ? s : any_that_can();
        if (!next)
            emulator_die("streams wait for one another and none can go on");
        run_first(next);
    }
    memory_shut();
}

/* Called wherever work is queued. */
static void perhaps_run(void) {
    cudaStream_t s = streams.empty() ? NULL : streams[emulator_chance(streams.size())];
    if (!s || emulator_chance(4) >= s->haste || !can_run(s))
        return;
    memory_open();
    for (uint64_t n = 1 + emulator_chance(4 * s->haste); n > 0 && can_run(s); n--)
        run_first(s);
    memory_shut();
}

/* BRR_EMULATED_KERNELS=0: kernels are counted and do not run. */
static bool kernels_run(void) {
    static const char *wanted = getenv("BRR_EMULATED_KERNELS");
    return !wanted || strcmp(wanted, "0") != 0;
}

static cudaError_t queue(cudaStream_t s, std::function<void()> work, long *counter) {
    if (counter == &kernels && !kernels_run())
        work = [] {};
    if (s->origin) {
        s->origin->captured->steps.push_back(std::move(work));
        s->origin->captured->kernels += counter == &kernels;
        s->ahead = s != s->origin;
        return emulator_fault;
    }
    ++*counter;
    if (!emulator_fault)
        s->tasks.push_back({std::move(work), NULL, 0});
    perhaps_run();
    return emulator_fault;
}

/* ---- streams ---- */

void emulator_launch(const char *kernel, dim3 grid, unsigned threads, cudaStream_t stream, std::function<void()> thread) {
    gate lock(emulator_gate);
    if (threads < 1 || threads > 1024 || !grid.x || grid.x > INT32_MAX || !grid.y || grid.y > 65535 || !grid.z || grid.z > 65535)
        emulator_die("%s: a grid of %u x %u x %u blocks of %u threads cannot be launched", kernel, grid.x, grid.y, grid.z, threads);
    if (stream->device != emulator_current())
        return emulator_refuse(cudaErrorInvalidResourceHandle);
    int device = stream->device;
    queue(
        stream, [=] { block_run(kernel, device, grid, threads, thread); }, &kernels);
}
cudaError_t emulator_work(cudaStream_t stream, std::function<void()> work) {
    gate lock(emulator_gate);
    if (stream->device != emulator_current())
        return cudaErrorInvalidResourceHandle;
    return queue(
        stream,
        [=] {
            if (!emulator_fault)
                work();
        },
        &kernels);
}

emulator_flag emulator_flag_new(void) {
    emulator_flag flag = std::make_shared<struct event_state>();
    flag->asked = 1;
    return flag;
}
void emulator_raise(const emulator_flag &flag) { flag->reached = 1; }
cudaError_t emulator_meet(cudaStream_t stream, std::function<void()> arrive, const std::vector<emulator_flag> &flags) {
    gate lock(emulator_gate);
    if (stream->device != emulator_current())
        return cudaErrorInvalidResourceHandle;
    if (stream->origin)
        emulator_die("streams of several devices meet within a recording");
    stream->tasks.push_back({std::move(arrive), NULL, 0});
    for (const emulator_flag &flag : flags)
        stream->tasks.push_back({NULL, flag, 1});
    perhaps_run();
    return emulator_fault;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *ret, unsigned, int) {
    gate lock(emulator_gate);
    *ret = new emulator_stream();
    (*ret)->device = emulator_current();
    emulator_use_device();
    (*ret)->haste = emulator_chance(5);
    streams.push_back(*ret);
    return emulator_fault;
}

/* A stream that another part of the process made, as a number. */
extern "C" __attribute__((visibility("default"))) uintptr_t emulator_new_stream(void) {
    cudaStream_t made = NULL;
    return cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, 0) == cudaSuccess ? (uintptr_t)made : 0;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    gate lock(emulator_gate);
    finish(stream);
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return emulator_fault;
}

/* Calls that no recording thread may make: they fail, and so does its recording. */
static bool is_forbidden(void) {
    if (capturing)
        capturing->spoiled = true;
    return capturing;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    gate lock(emulator_gate);
    if (stream && stream->origin)
        return stream->origin->spoiled = true, cudaErrorStreamCaptureUnsupported;
    waits++;
    if (stream)
        finish(stream);
    return emulator_fault;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned) {
    *ret = new emulator_event{std::make_shared<struct event_state>()};
    return emulator_fault;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, emulator_fault; }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    gate lock(emulator_gate);
    std::shared_ptr<struct event_state> state = event->state;
    state->capture = stream->origin;
    state->recorder = stream;
    if (stream->origin)
        return emulator_fault; /* what was recorded before it comes before what waits for it */
    uint64_t count = ++state->asked;
    stream->tasks.push_back({[=] {
                                 state->reached = count;
                                 state->at = std::chrono::steady_clock::now();
                             },
                             NULL, 0});
    return emulator_fault;
}
/* Within a recording: a stream that waits for an event of it joins it; an event from outside is an error, and spoils it. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    gate lock(emulator_gate);
    cudaStream_t capture = event->state->capture;
    if (stream->origin && stream->origin != capture)
        return stream->origin->spoiled = true, cudaErrorStreamCaptureIsolation;
    if (capture && !capture->captured)
        return cudaErrorCapturedEvent; /* of a recording that has ended */
    if (capture) {
        event->state->recorder->ahead = false;
        stream->ahead = stream != capture;
        stream->origin = capture;
        return emulator_fault;
    }
    stream->tasks.push_back({NULL, event->state, event->state->asked});
    perhaps_run();
    return emulator_fault;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    gate lock(emulator_gate);
    if (event->state->capture) {
        event->state->capture->spoiled = true;
        return cudaErrorCapturedEvent;
    }
    waits++;
    memory_open();
    while (event->state->reached < event->state->asked && !emulator_fault) {
        cudaStream_t next = any_that_can();
        if (!next)
            emulator_die("an event is waited for that no queue can reach");
        run_first(next);
    }
    memory_shut();
    return emulator_fault;
}

cudaError_t cudaEventElapsedTime(float *ret_ms, cudaEvent_t from, cudaEvent_t to) {
    gate lock(emulator_gate);
    const bool reached = from->state->asked && from->state->reached == from->state->asked && to->state->asked &&
                         to->state->reached == to->state->asked;
    *ret_ms = reached ? std::chrono::duration<float, std::milli>(to->state->at - from->state->at).count() : 0;
    return emulator_fault ? emulator_fault : reached ? cudaSuccess : cudaErrorNotReady;
}

/* ---- ranges for a profiler ---- */

static std::atomic<long> ranges; /* that were begun */
static thread_local long range_depth;

int nvtxRangePushA(const char *name) {
    if (!name)
        emulator_die("a range without a name");
    ranges++;
    return (int)range_depth++;
}

int nvtxRangePop(void) {
    if (!range_depth)
        emulator_die("a range ends that did not begin");
    return (int)--range_depth;
}

/* How many ranges were begun, and how many the calling thread has not ended. */
extern "C" __attribute__((visibility("default"))) void emulator_ranges(long ret[2]) {
    ret[0] = ranges;
    ret[1] = range_depth;
}

/* Something may run meanwhile. */
cudaError_t cudaEventQuery(cudaEvent_t event) {
    gate lock(emulator_gate);
    if (event->state->capture)
        return event->state->capture->spoiled = true, cudaErrorCapturedEvent;
    cudaStream_t next = event->state->reached < event->state->asked ? any_that_can() : NULL;
    if (next) {
        memory_open();
        run_first(next);
        memory_shut();
    }
    return emulator_fault ? emulator_fault : event->state->reached < event->state->asked ? cudaErrorNotReady : cudaSuccess;
}

/* ---- recordings ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int) {
    gate lock(emulator_gate);
    stream->captured = std::make_unique<recording>();
    stream->origin = stream;
    stream->spoiled = false;
    capturing = stream;
    return emulator_fault;
}
/* BRR_EMULATED_RECORDINGS=0: no recording succeeds. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *ret) {
    gate lock(emulator_gate);
    if (capturing != stream)
        emulator_die("a recording is ended by another thread than began it");
    capturing = NULL;
    std::unique_ptr<recording> work = std::move(stream->captured);
    const char *allowed = getenv("BRR_EMULATED_RECORDINGS");
    bool unjoined = false;
    stream->spoiled = stream->spoiled || (allowed && !strcmp(allowed, "0"));
    for (cudaStream_t s : streams)
        if (s->origin == stream) {
            unjoined = unjoined || s->ahead;
            s->origin = NULL;
            s->ahead = false;
        }
    *ret = stream->spoiled || unjoined ? NULL : new emulator_graph{std::move(work)};
    return stream->spoiled ? cudaErrorStreamCaptureInvalidated : unjoined ? cudaErrorStreamCaptureUnjoined : emulator_fault;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *ret, cudaGraph_t graph, unsigned long long) {
    return *ret = new emulator_graph(*graph), emulator_fault;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, emulator_fault; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, emulator_fault; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
    gate lock(emulator_gate);
    std::shared_ptr<const recording> work = graph->work;
    recorded_kernels += work->kernels;
    return queue(
        stream,
        [=] {
            for (const std::function<void()> &step : work->steps)
                step();
        },
        &launches);
}

/* ---- copies ---- */

static void check_range(const char *what, const void *p, size_t bytes) {
    if (memory_holds(p, bytes))
        return;
    fprintf(stderr, "emulator: %s of %zu bytes at %p, which is not all allocated\n", what, bytes, p);
    emulator_fault = cudaErrorIllegalAddress;
}

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream) {
    gate lock(emulator_gate);
    return queue(
        stream,
        [=] {
            check_range("filling", p, bytes);
            if (!emulator_fault)
                memset(p, value, bytes);
        },
        &copies);
}
/* BRR_EMULATED_WRONG: the ordinal of a device that receives other bytes than lie in the memory of another one. */
static int owner_of(const void *p) { return memory_is_device(p) ? memory_owner[((uintptr_t)p - memory_base) / MEMORY_UNIT] : -1; }
static bool is_wrong(const void *dst, const void *src) {
    const char *wrong = getenv("BRR_EMULATED_WRONG");
    return wrong && owner_of(dst) == atoi(wrong) && owner_of(src) >= 0 && owner_of(src) != atoi(wrong);
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    gate lock(emulator_gate);
    if ((kind == cudaMemcpyHostToDevice && (!memory_is_device(dst) || memory_is_device(src))) ||
        (kind == cudaMemcpyDeviceToHost && (memory_is_device(dst) || !memory_is_device(src))))
        emulator_die("a copy's direction is not that of its addresses %p and %p", dst, src);
    return queue(
        stream,
        [=] {
            check_range("copy", src, bytes);
            check_range("copy", dst, bytes);
            if (!emulator_fault)
                memmove(dst, src, bytes);
            if (!emulator_fault && bytes && is_wrong(dst, src))
                ((uint8_t *)dst)[bytes / 2] ^= 1;
        },
        &copies);
}

/* ---- memory ---- */

cudaError_t cudaMalloc(void **ret, size_t bytes) {
    if (is_forbidden())
        return cudaErrorStreamCaptureUnsupported;
    emulator_use_device();
    return emulator_fault ? emulator_fault : memory_take(ret, bytes);
}
cudaError_t cudaHostAlloc(void **ret, size_t bytes, unsigned) {
    if (is_forbidden())
        return cudaErrorStreamCaptureUnsupported;
    *ret = emulator_fault ? NULL : aligned_alloc(256, (bytes + 255) / 256 * 256);
    return emulator_fault ? emulator_fault : *ret ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void *p) {
    if (is_forbidden())
        return cudaErrorStreamCaptureUnsupported;
    memory_give(p);
    return emulator_fault;
}
cudaError_t cudaFreeHost(void *p) { return is_forbidden() ? cudaErrorStreamCaptureUnsupported : (free(p), emulator_fault); }
cudaError_t cudaMemset(void *p, int value, size_t bytes) {
    gate lock(emulator_gate);
    if (is_forbidden())
        return cudaErrorStreamCaptureUnsupported;
    memory_open();
    memset(p, value, bytes);
    memory_shut();
    return emulator_fault;
}
