/* streams: work is queued and runs when something waits for it, or before, when chance wants it: so that what forgets to wait sees
 * old values now and then. Work of two streams goes in any order that events allow. A copy (copies.cc) reads host memory when it
 * runs, not when it is asked for. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>
#include <xmmintrin.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <set>
#include <vector>

struct event_state {
    uint64_t asked, reached;
    std::chrono::steady_clock::time_point at; /* when it was reached */
    cudaStream_t capture, recorder;           /* recorded into the recording that `capture` began; NULL: into a queue */
};
struct emulator_event {
    std::shared_ptr<struct event_state> state;
    int device;
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
static std::set<cudaEvent_t> events;
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

/* The calling thread may flush subnormal numbers, as one that opened a stream of the CPU does, or round otherwise;
 * a device does neither. */
static void run_first(cudaStream_t s) {
    const unsigned host = _mm_getcsr();
    struct task task = std::move(s->tasks.front());
    s->tasks.pop_front();
    _mm_setcsr(_MM_MASK_MASK); /* as a process begins */
    if (task.work)
        task.work();
    _mm_setcsr(host);
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

/* A stream or an event that is there. */
static cudaStream_t live(cudaStream_t s) {
    if (std::find(streams.begin(), streams.end(), s) == streams.end())
        emulator_die("%p is no stream, or no longer", (void *)s);
    return s;
}
static struct event_state *live(cudaEvent_t event) {
    if (!events.count(event))
        emulator_die("%p is no event, or no longer", (void *)event);
    return event->state.get();
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
cudaError_t emulator_copy(cudaStream_t s, std::function<void()> work) { return queue(live(s), std::move(work), &copies); }

/* ---- streams ---- */

void emulator_launch(const char *kernel, dim3 grid, unsigned threads, cudaStream_t stream, std::function<void()> thread) {
    gate lock(emulator_gate);
    if (threads < 1 || threads > 1024 || !grid.x || grid.x > INT32_MAX || !grid.y || grid.y > 65535 || !grid.z || grid.z > 65535)
        emulator_die("%s: a grid of %u x %u x %u blocks of %u threads cannot be launched", kernel, grid.x, grid.y, grid.z, threads);
    if (live(stream)->device != emulator_current()) {
        emulator_told(cudaErrorInvalidResourceHandle);
        return;
    }
    int device = stream->device;
    queue(
        stream, [=] { block_run(kernel, device, grid, threads, thread); }, &kernels);
}
cudaError_t emulator_work(cudaStream_t stream, std::function<void()> work) {
    gate lock(emulator_gate);
    if (live(stream)->device != emulator_current())
        return emulator_told(cudaErrorInvalidResourceHandle);
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
    if (live(stream)->device != emulator_current())
        return emulator_told(cudaErrorInvalidResourceHandle);
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
    finish(live(stream));
    streams.erase(std::find(streams.begin(), streams.end(), stream));
    delete stream;
    return emulator_fault;
}

/* An error of a call that spoils the recording that `origin` began. */
static cudaError_t spoil(cudaStream_t origin, cudaError_t code) {
    origin->spoiled = true;
    return emulator_told(code);
}
bool emulator_records(cudaStream_t stream) { return live(stream)->origin; }
bool emulator_forbids(cudaStream_t stream) {
    cudaStream_t origin = stream ? live(stream)->origin : capturing;
    if (origin)
        spoil(origin, cudaErrorStreamCaptureUnsupported);
    return origin;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    gate lock(emulator_gate);
    if (stream && emulator_forbids(stream))
        return cudaErrorStreamCaptureUnsupported;
    waits++;
    if (stream)
        finish(stream);
    return emulator_fault;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *ret, unsigned) {
    gate lock(emulator_gate);
    *ret = new emulator_event{std::make_shared<struct event_state>(), emulator_current()};
    events.insert(*ret);
    emulator_use_device();
    return emulator_fault;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
    gate lock(emulator_gate);
    live(event);
    events.erase(event);
    delete event;
    return emulator_fault;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    gate lock(emulator_gate);
    if (live(event) && event->device != live(stream)->device)
        return emulator_told(cudaErrorInvalidResourceHandle);
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
    cudaStream_t capture = live(event)->capture;
    if (live(stream)->origin && stream->origin != capture)
        return spoil(stream->origin, cudaErrorStreamCaptureIsolation);
    if (capture && !capture->captured)
        return emulator_told(cudaErrorCapturedEvent); /* of a recording that has ended */
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
    if (live(event)->capture)
        return spoil(event->state->capture, cudaErrorCapturedEvent);
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
    if (live(from) && live(to) && from->device != to->device)
        return emulator_told(cudaErrorInvalidResourceHandle);
    const bool reached = from->state->asked && from->state->reached == from->state->asked && to->state->asked &&
                         to->state->reached == to->state->asked;
    *ret_ms = reached ? std::chrono::duration<float, std::milli>(to->state->at - from->state->at).count() : 0;
    return emulator_told(emulator_fault ? emulator_fault : reached ? cudaSuccess : cudaErrorNotReady);
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
    if (live(event)->capture)
        return spoil(event->state->capture, cudaErrorCapturedEvent);
    cudaStream_t next = event->state->reached < event->state->asked ? any_that_can() : NULL;
    if (next) {
        memory_open();
        run_first(next);
        memory_shut();
    }
    return emulator_told(emulator_fault                                ? emulator_fault
                         : event->state->reached < event->state->asked ? cudaErrorNotReady
                                                                       : cudaSuccess);
}

/* ---- recordings ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, int) {
    gate lock(emulator_gate);
    live(stream)->captured = std::make_unique<recording>();
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
    return emulator_told(stream->spoiled ? cudaErrorStreamCaptureInvalidated
                         : unjoined      ? cudaErrorStreamCaptureUnjoined
                                         : emulator_fault);
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
        live(stream),
        [=] {
            for (const std::function<void()> &step : work->steps)
                step();
        },
        &launches);
}
