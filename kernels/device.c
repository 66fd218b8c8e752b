#include "kernels/device.h"

#include <math.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/str.h"
#include "kernels/backend.h"
#include "kernels/lanes.h"

#define PARKED_SHARE 0.9 /* of a second */
enum { MAX_ORDINAL = 64, POLL_MS = 1 /* of parking for another process */ };

int device_list(struct device_info *infos, int max) {
    int n = 0;
    if (n < max && cpu_backend()->describe(0, 0, &infos[n], NULL) == 0)
        n++;
    const struct backend *cuda = cuda_backend();
    for (int i = 0, rc = 0; cuda && n < max && i < MAX_ORDINAL && rc != ERR_NOT_FOUND; i++)
        n += !(rc = cuda->describe(i, 0, &infos[n], NULL)); /* one that is too old is left out */
    return n;
}

int device_parts(struct device_part *parts, int max) {
    const struct backend *cuda = cuda_backend();
    const char *why = cuda_backend_error();
    if (cuda)
        return cuda->parts(parts, max);
    if (!*why || max < 1)
        return 0;
    bool driver = access("/proc/driver/nvidia/version", F_OK) == 0;
    parts[0] = (struct device_part){.name = "CUDA backend"};
    str_copy(parts[0].version, sizeof parts[0].version, driver ? "not loaded, though a GPU's driver is here" : "");
    str_format(parts[0].fix, sizeof parts[0].fix, "%.120s: install the CUDA libraries it names, or put them on LD_LIBRARY_PATH",
               why);
    return 1;
}

/* The N of "KIND:N"; -1: the name is another. */
static int ordinal_of(const char *name, const char *kind) {
    int64_t ordinal = 0;
    return str_starts(name, kind) && str_to_i64(name + strlen(kind), &ordinal) && ordinal >= 0 && ordinal < MAX_ORDINAL
               ? (int)ordinal
               : -1;
}

/* "cpu" and "cpu:N" → cpu backend, "cuda:N" → cuda backend and N. */
static int find_backend(const char *name, const struct backend **ret, int *ret_ordinal, struct err *err) {
    int ordinal = 0;
    if (!strcmp(name, "cpu") || ordinal_of(name, "cpu:") >= 0) {
        *ret = cpu_backend();
    } else if ((ordinal = ordinal_of(name, "cuda:")) >= 0) {
        *ret = cuda_backend();
        if (!*ret && *cuda_backend_error())
            return err_set(err, ERR_UNSUPPORTED,
                           "device %s: the CUDA backend cannot be loaded (%s); install what it names, or use cpu", name,
                           cuda_backend_error());
        if (!*ret)
            return err_set(err, ERR_UNSUPPORTED, "device %s: this build has no CUDA backend; use the device cpu", name);
    } else {
        return err_set(err, ERR_INVALID, "device '%s' is unknown; expected cpu, cpu:N or cuda:N", name);
    }
    *ret_ordinal = ordinal;
    return 0;
}

/* The CPU devices of a process share the processors and their memory; names tell them apart. */
static int describe(const struct backend *backend, const char *name, int ordinal, int threads, struct device_info *ret,
                    struct err *err) {
    struct device_info info;
    int rc = backend->describe(ordinal, threads, &info, err);
    if (rc)
        return rc;
    if (!info.is_async)
        str_copy(info.name, sizeof info.name, name);
    *ret = info;
    return 0;
}

int device_probe(const char *name, struct device_info *ret, struct err *err) {
    const struct backend *backend = NULL;
    int ordinal = 0, rc = find_backend(name, &backend, &ordinal, err);
    return rc ? rc : describe(backend, name, ordinal, 0, ret, err);
}

static void device_free_handle(struct device *dev) {
    pthread_cond_destroy(&dev->resumed);
    pthread_mutex_destroy(&dev->lock);
    free(dev);
}

int device_open(const char *name, int threads, struct device **ret, struct err *err) {
    return device_open_share(name, threads, 1, ret, err);
}

int device_open_share(const char *name, int threads, int shares, struct device **ret, struct err *err) {
    const struct backend *backend = NULL;
    int ordinal = 0, rc = find_backend(name, &backend, &ordinal, err);
    if (rc)
        return rc;
    struct device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return err_set(err, ERR_EXHAUSTED, "device %s: out of memory", name);
    dev->backend = backend;
    pthread_mutex_init(&dev->lock, NULL);
    dev->live_batches = &dev->own_batches;
    clock_cond_init(&dev->resumed);
    if ((rc = describe(backend, name, ordinal, threads, &dev->info, err)) || (rc = backend->open(dev, ordinal, threads, err))) {
        device_free_handle(dev);
        return rc;
    }
    if (!dev->info.is_async && shares > 1) {
        dev->info.total_bytes /= shares;
        dev->info.free_bytes /= shares;
    }
    *ret = dev;
    return 0;
}

void device_close(struct device *dev) {
    if (!dev)
        return;
    dev->backend->close(dev);
    device_free_handle(dev);
}

void device_describe(const struct device *dev, struct device_info *ret) { *ret = dev->info; }

bool device_lost(const struct device *dev) { return __atomic_load_n(&dev->lost, __ATOMIC_ACQUIRE); }

void device_health(struct device *dev, struct device_health *ret) {
    *ret = (struct device_health){.index = -1,
                                  .temperature_c = NAN,
                                  .power_w = NAN,
                                  .energy_j = NAN,
                                  .utilization = NAN,
                                  .memory_used_bytes = -1,
                                  .memory_total_bytes = -1,
                                  .ecc_corrected = -1,
                                  .ecc_uncorrected = -1,
                                  .repair_pending = -1,
                                  .repair_failed = -1,
                                  .slowed = -1,
                                  .error_kinds = -1};
    if (dev->backend->health)
        dev->backend->health(dev, ret);
}

double device_health_energy(const struct device_health *before, const struct device_health *after) {
    double joules = after->energy_j - before->energy_j;
    return joules >= 0 ? joules : NAN;
}

const char *device_slowdown_name(enum device_slowdown reason) {
#define SLOWDOWN_NAME(name, text) text,
    static const char *const names[] = {DEVICE_SLOWDOWNS(SLOWDOWN_NAME)};
#undef SLOWDOWN_NAME
    return names[reason];
}

int device_alloc(struct device *dev, size_t bytes, void **ret, struct err *err) {
    int rc = dev->backend->alloc(dev, bytes, ret, err);
    if (rc)
        return rc;
    __atomic_add_fetch(&dev->allocations, 1, __ATOMIC_RELAXED);
    return 0;
}

void device_free(struct device *dev, void *data) {
    if (data)
        dev->backend->free(dev, data);
}

int device_alloc_host(struct device *dev, size_t bytes, void **ret, struct err *err) {
    return dev->backend->alloc_host(dev, bytes, ret, err);
}

void device_free_host(struct device *dev, void *data) {
    if (data)
        dev->backend->free_host(dev, data);
}

void device_alloc_stats(const struct device *dev, int64_t *ret_live_bytes, int64_t *ret_allocations) {
    *ret_live_bytes = __atomic_load_n(&dev->live_bytes, __ATOMIC_RELAXED);
    *ret_allocations = __atomic_load_n(&dev->allocations, __ATOMIC_RELAXED);
}

int stream_open(struct device *dev, enum stream_priority priority, struct stream **ret, struct err *err) {
    struct stream *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", dev->info.name);
    s->device = dev;
    s->priority = priority;
    stream_new_epoch(s);
    int rc = dev->backend->stream_open(s, priority, err);
    if (rc) {
        free(s);
        return rc;
    }
    pthread_mutex_lock(&dev->lock);
    s->next = dev->streams;
    s->link = &dev->streams;
    if (s->next)
        s->next->link = &s->next;
    dev->streams = s;
    pthread_mutex_unlock(&dev->lock);
    *ret = s;
    return 0;
}

void stream_close(struct stream *s) {
    if (!s)
        return;
    pthread_mutex_lock(&s->device->lock);
    *s->link = s->next;
    if (s->next)
        s->next->link = s->link;
    pthread_mutex_unlock(&s->device->lock);
    s->device->backend->stream_close(s);
    free(s);
}

/* ---- live windows first ---- */

void device_live_begin(struct device *dev) {
    if (!dev->info.is_async)
        __atomic_add_fetch(dev->live_batches, 1, __ATOMIC_ACQ_REL);
}

void device_live_end(struct device *dev) {
    if (dev->info.is_async || __atomic_sub_fetch(dev->live_batches, 1, __ATOMIC_ACQ_REL))
        return;
    pthread_mutex_lock(&dev->lock);
    pthread_cond_broadcast(&dev->resumed);
    pthread_mutex_unlock(&dev->lock);
}

void device_share_live(struct device *dev, int *count, bool counts) {
    dev->live_batches = count;
    dev->polls = !counts;
}

static bool live_runs(const struct device *dev) { return __atomic_load_n(dev->live_batches, __ATOMIC_ACQUIRE) != 0; }

/* Sleeps until no live batch is under way, or the stream has slept its share of the second. */
static void park(struct stream *s) {
    struct device *dev = s->device;
    double begun = clock_s();
    if (begun - s->second_s >= 1) {
        s->second_s = begun;
        s->slept_s = 0;
    }
    if (s->slept_s >= PARKED_SHARE)
        return;
    const int64_t most_ms = (int64_t)ceil(1000 * (PARKED_SHARE - s->slept_s)), end_ms = clock_ms() + most_ms;
    const struct timespec until = clock_after_ms(most_ms);
    int late = 0;
    while (dev->polls && live_runs(dev) && clock_ms() < end_ms)
        poll(NULL, 0, POLL_MS);
    pthread_mutex_lock(&dev->lock);
    while (!dev->polls && live_runs(dev) && !late)
        late = pthread_cond_timedwait(&dev->resumed, &dev->lock, &until);
    pthread_mutex_unlock(&dev->lock);
    double slept = clock_s() - begun;
    s->slept_s += slept;
    s->parked_s += slept;
}

double stream_parked_s(const struct stream *s) { return s->parked_s; }

void stream_give_way(struct stream *s) {
    if (s->priority == STREAM_NORMAL && live_runs(s->device))
        park(s);
}

void stream_share(struct stream *s, struct turn_at turn) { s->turn = turn; }

/* Waits for the turn of the stream's job. One that ends is passed on when the device has done what was queued. */
static int take_turn(struct stream *s, struct err *err) {
    if (s->queued && turns_ends(s->turn)) {
        __atomic_store_n(&s->busy_since_ms, clock_ms(), __ATOMIC_RELAXED);
        int rc = s->device->backend->sync(s, err);
        __atomic_store_n(&s->busy_since_ms, 0, __ATOMIC_RELAXED);
        if (rc)
            return rc;
        turns_rest(s->turn, false);
    }
    turns_enter(s->turn);
    return 0;
}

static void begin_call(struct stream *s) {
    stream_give_way(s);
    __atomic_store_n(&s->busy_since_ms, clock_ms(), __ATOMIC_RELAXED);
}

int stream_enter(struct stream *s, struct err *err) {
    int rc = s->turn.turns && !s->recording ? take_turn(s, err) : 0;
    if (!rc)
        begin_call(s);
    return rc;
}

void stream_leave(struct stream *s, bool drained) {
    __atomic_store_n(&s->busy_since_ms, 0, __ATOMIC_RELAXED);
    if (s->recording)
        return;
    s->queued = s->device->info.is_async && !drained;
    if (s->turn.turns)
        turns_rest(s->turn, s->queued);
}

int lanes_run_as(struct stream *s, const struct lanes_work *work, struct err *err) {
    int rc = stream_enter(s, err);
    if (rc)
        return rc;
    rc = lanes_run(work, err);
    stream_leave(s, true);
    return rc;
}

int64_t device_busy_ms(struct device *dev) {
    int64_t now = clock_ms(), longest = 0;
    pthread_mutex_lock(&dev->lock);
    for (const struct stream *s = dev->streams; s; s = s->next) {
        int64_t since = __atomic_load_n(&s->busy_since_ms, __ATOMIC_RELAXED);
        if (since && now - since > longest)
            longest = now - since;
    }
    pthread_mutex_unlock(&dev->lock);
    return longest;
}

struct device *stream_device(const struct stream *s) {
    return s->device;
}

int stream_adopt(struct stream *s, uintptr_t handle, struct err *err) {
    if (!s->device->backend->stream_adopt)
        return err_set(err, ERR_UNSUPPORTED, "%s: this device has no streams of other programs", s->device->info.name);
    return s->device->backend->stream_adopt(s, handle, err);
}

void stream_lend(struct stream *s, bool lend, void *data, size_t bytes) {
    s->memory = (struct stream_memory){.lent = lend, .data = data, .bytes = bytes};
}

size_t stream_needed(const struct stream *s) { return s->memory.needed; }

void stream_borrow(struct stream *s, struct stream_loan *ret) {
    *ret = (struct stream_loan){.stream = s};
    if (s->device->backend->borrow)
        s->device->backend->borrow(s, ret);
}

void stream_give_back(const struct stream_loan *loan) {
    if (loan->stream->device->backend->give_back)
        loan->stream->device->backend->give_back(loan);
}

static int copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err) {
    int rc = stream_enter(s, err);
    if (rc)
        return rc;
    rc = s->device->backend->copy(s, dst, src, bytes, err);
    stream_leave(s, false);
    return rc;
}

int stream_to_device(struct stream *s, void *dst, const void *host_src, size_t bytes, struct err *err) {
    return copy(s, dst, host_src, bytes, err);
}

int stream_to_host(struct stream *s, void *host_dst, const void *src, size_t bytes, struct err *err) {
    return copy(s, host_dst, src, bytes, err);
}

int stream_copy(struct stream *s, void *dst, const void *src, size_t bytes, struct err *err) {
    return copy(s, dst, src, bytes, err);
}

int stream_zero(struct stream *s, void *dst, size_t bytes, struct err *err) { return s->device->backend->zero(s, dst, bytes, err); }

int stream_sync(struct stream *s, struct err *err) {
    if (s->turn.turns)
        turns_keep(s->turn);
    begin_call(s);
    int rc = s->device->backend->sync(s, err);
    stream_leave(s, true);
    return rc;
}

int stream_wait(struct stream *s, struct stream *earlier, struct err *err) { return s->device->backend->wait(s, earlier, err); }

/* ---- recording ---- */

uint64_t stream_epoch(const struct stream *s) { return s->epoch; }

bool stream_records(const struct stream *s) { return s->device->info.has_graphs && !s->profile; }

void stream_phase(struct stream *s, const char *name) {
    const struct backend *b = s->device->backend;
    if (b->range && s->phase)
        b->range(NULL);
    if (b->range && name)
        b->range(name);
    s->phase = name;
}

int stream_record(struct stream *s, struct err *err) {
    if (!stream_records(s))
        return err_set(err, ERR_UNSUPPORTED, "%s cannot record work", s->device->info.name);
    if (s->recording)
        return err_set(err, ERR_PRECONDITION, "%s: the stream records already", s->device->info.name);
    int rc = s->device->backend->record(s, err);
    s->recording = !rc;
    return rc;
}

int stream_record_end(struct stream *s, bool keep, struct graph **ret, struct err *err) {
    if (!s->recording)
        return err_set(err, ERR_PRECONDITION, "%s: the stream does not record", s->device->info.name);
    struct graph *g = keep ? calloc(1, sizeof *g) : NULL;
    void *recorded = NULL;
    s->recording = false;
    int rc;
    if ((rc = s->device->backend->record_end(s, g != NULL, &recorded, err)) ||
        (keep && !g && (rc = err_set(err, ERR_EXHAUSTED, "%s: out of memory for recorded work", s->device->info.name))) || !keep) {
        free(g);
        return rc;
    }
    *g = (struct graph){.device = s->device, .epoch = s->epoch, .recorded = recorded};
    *ret = g;
    return 0;
}

int graph_run(struct graph *g, struct stream *s, struct err *err) {
    if (g->device != s->device || g->epoch != s->epoch)
        return err_set(err, ERR_PRECONDITION, "%s: recorded work belongs to another stream, or the stream's memory has moved",
                       s->device->info.name);
    int rc = stream_enter(s, err);
    if (rc)
        return rc;
    rc = s->device->backend->replay(s, g->recorded, err);
    stream_leave(s, false);
    return rc;
}

void graph_free(struct graph *g) {
    if (!g)
        return;
    g->device->backend->forget(g->device, g->recorded);
    free(g);
}
