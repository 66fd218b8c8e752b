/* The functions of brr_burst.h over lib/burst. */
#include "burst/burst.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "burst/netfile.h"
#include "client/burst/brr_burst.h"
#include "kernels/device.h"

struct brr_burst {
    struct device *device;
    struct stream *stream;
    struct burst *burst;
    int64_t neurons;
    bool several; /* threads */
};

static int report_error(int rc, const struct err *err, struct brr_burst_error *to) {
    if (rc && to) {
        to->code = rc;
        err_text(err, to->message, sizeof to->message);
    }
    return rc;
}

/* ---- forks ----------------------------------------------------------------------------------------------------- */

static pthread_once_t watched = PTHREAD_ONCE_INIT;
static atomic_bool forked; /* from a process with threads of OpenMP, which this one lacks and would wait for */

static void note_fork(void) { atomic_store(&forked, true); }
static void watch_forks(void) { pthread_atfork(NULL, NULL, note_fork); }

static int check_process(struct err *err) {
    if (!atomic_load(&forked))
        return 0;
    return err_set(err, ERR_UNSUPPORTED, "this process was forked after a network ran on several threads; start it anew (spawn)");
}

/* ---- opening --------------------------------------------------------------------------------------------------- */

struct opening {
    const struct brr_burst_source *source;
    struct brr_burst *net;
    struct err err;
};

/* A file in memory of the caller's bytes, whose name goes to path; below 0: none. */
static int file_of_bytes(const struct brr_burst_source *s, char path[32], struct err *err) {
    const int fd = memfd_create("brr_burst", MFD_CLOEXEC);
    size_t at = 0;
    for (ssize_t n = 0; fd >= 0 && at < s->bytes && (n = write(fd, (const char *)s->data + at, s->bytes - at)) > 0;)
        at += (size_t)n;
    if (fd < 0 || at < s->bytes) {
        err_errno(err, errno, "brr_burst_open: cannot hold a network of %zu bytes", s->bytes);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    str_format(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

static int load_source(struct opening *o, const char *path) {
    struct connectome *network = NULL;
    struct burst_state state = {0};
    struct brr_burst *net = o->net;
    int rc = netfile_load(path, 0, &network, &state, &o->err);
    if (rc)
        return rc;
    const struct burst_options options = {.every_tick = state.neurons && state.every_tick};
    if (!(rc = burst_new(net->stream, network, &options, &net->burst, &o->err)) && state.neurons)
        rc = burst_restore(net->burst, &state, &o->err);
    burst_state_done(&state);
    if (rc)
        return rc;
    net->neurons = burst_connectome(net->burst)->net.n;
    net->several = o->source->threads != 1;
    return 0;
}

/* On a thread of its own: a stream of the CPU takes the thread that opens it for its own, and this one is the caller's. */
static void *open_network(void *p) {
    struct opening *o = p;
    const struct brr_burst_source *s = o->source;
    char memory[32];
    int fd = -1;
    if (device_open(s->device ? s->device : "cpu", s->threads, &o->net->device, &o->err) ||
        stream_open(o->net->device, STREAM_NORMAL, &o->net->stream, &o->err))
        return NULL;
    if (!s->path && (fd = file_of_bytes(s, memory, &o->err)) < 0)
        return NULL;
    if (load_source(o, s->path ? s->path : memory) && !s->path)
        err_wrap(&o->err, "the network in memory");
    if (fd >= 0)
        close(fd);
    return NULL;
}

int brr_burst_open(const struct brr_burst_source *source, brr_burst **ret, struct brr_burst_error *err) {
    struct opening o = {.source = source};
    pthread_t thread;
    *ret = NULL;
    if (check_process(&o.err))
        return report_error(o.err.code, &o.err, err);
    if (!(o.net = calloc(1, sizeof *o.net)))
        err_set(&o.err, ERR_EXHAUSTED, "brr_burst_open: out of memory");
    else if (!source->path && (!source->data || !source->bytes))
        err_set(&o.err, ERR_INVALID, "brr_burst_open: neither a path nor bytes of a network file are given");
    else if (source->threads < 0)
        err_set(&o.err, ERR_INVALID, "brr_burst_open: %d threads; expected 0 (as many as the process may use) or more",
                source->threads);
    else if (pthread_create(&thread, NULL, open_network, &o))
        err_set(&o.err, ERR_EXHAUSTED, "brr_burst_open: no thread can be started");
    else
        pthread_join(thread, NULL);
    if (o.err.code) {
        brr_burst_close(o.net);
        return report_error(o.err.code, &o.err, err);
    }
    *ret = o.net;
    return 0;
}

void brr_burst_close(brr_burst *net) {
    if (!net || atomic_load(&forked))
        return;
    burst_free(net->burst);
    stream_close(net->stream);
    device_close(net->device);
    free(net);
}

/* ---- in use ---------------------------------------------------------------------------------------------------- */

int64_t brr_burst_neurons(const brr_burst *net) { return net->neurons; }
uint64_t brr_burst_tick(const brr_burst *net) { return burst_tick(net->burst); }

int brr_burst_inject(brr_burst *net, const struct brr_burst_injection *list, size_t n, struct brr_burst_error *to) {
    struct err err;
    if (n > BURST_MOST_PENDING)
        return report_error(err_set(&err, ERR_EXHAUSTED, "%zu injections; at most %d may wait", n, BURST_MOST_PENDING), &err, to);
    OWNED_MEMORY struct burst_injection *own = malloc((n + 1) * sizeof *own);
    if (!own)
        return report_error(err_set(&err, ERR_EXHAUSTED, "out of memory for %zu injections", n), &err, to);
    for (size_t i = 0; i < n; i++)
        own[i] = (struct burst_injection){list[i].tick ? list[i].tick : burst_tick(net->burst) + 1, list[i].id, list[i].potential};
    return report_error(burst_inject(net->burst, own, (int64_t)n, &err), &err, to);
}

struct listener {
    void (*on_tick)(void *ctx, const struct brr_burst_frame *frame);
    void *ctx;
};

static void pass_frame(void *ctx, const struct burst_frame *f) {
    const struct listener *l = ctx;
    l->on_tick(l->ctx, &(struct brr_burst_frame){f->tick, f->ids, f->fired, f->candidates});
}

int brr_burst_step(brr_burst *net, int64_t ticks, void (*on_tick)(void *ctx, const struct brr_burst_frame *frame), void *ctx,
                   struct brr_burst_error *to) {
    struct listener listener = {on_tick, ctx};
    struct stream_loan loan = {0};
    struct err err;
    if (ticks < 0)
        return report_error(err_set(&err, ERR_INVALID, "%lld ticks; expected 0 or more", (long long)ticks), &err, to);
    if (check_process(&err))
        return report_error(err.code, &err, to);
    if (net->several)
        pthread_once(&watched, watch_forks);
    stream_borrow(net->stream, &loan);
    int rc = ticks ? burst_step(net->burst, ticks, on_tick ? pass_frame : NULL, &listener, &err) : 0;
    stream_give_back(&loan);
    return report_error(rc, &err, to);
}

int brr_burst_membranes(brr_burst *net, float *ret, struct brr_burst_error *to) {
    struct stream_loan loan = {0};
    struct err err;
    if (check_process(&err))
        return report_error(err.code, &err, to);
    stream_borrow(net->stream, &loan);
    int rc = burst_membranes(net->burst, ret, &err);
    stream_give_back(&loan);
    return report_error(rc, &err, to);
}

int brr_burst_save(brr_burst *net, const char *path, struct brr_burst_error *to) {
    struct burst_state state = {0};
    struct stream_loan loan = {0};
    char sha256[DIGEST_HEX_SIZE];
    struct err err;
    if (check_process(&err))
        return report_error(err.code, &err, to);
    stream_borrow(net->stream, &loan);
    int rc = burst_save(net->burst, &state, &err);
    stream_give_back(&loan);
    rc = rc ? rc : netfile_save(path, burst_connectome(net->burst), &state, sha256, &err);
    burst_state_done(&state);
    return report_error(rc, &err, to);
}

static bool same_row(const struct connectome *a, const struct connectome *b, uint32_t source) {
    bool same = a->net.live[source] == b->net.live[source];
    for (uint32_t i = 0; same && i < a->net.live[source]; i++) {
        const struct connectome_synapse x = connectome_at(a, source, i), y = connectome_at(b, source, i);
        same = x.target == y.target && x.weight == y.weight && x.delay == y.delay;
    }
    return same;
}

/* Another number of neurons is burst_restore's to refuse. */
static int check_synapses(const struct connectome *own, const struct connectome *c, const char *path, struct err *err) {
    for (uint32_t i = 0; own->net.n == c->net.n && i < c->net.n; i++)
        if (!same_row(own, c, i))
            return err_set(err, ERR_INVALID, "%.300s is of another network: the synapses of neuron %u differ", path, i);
    return 0;
}

int brr_burst_restore(brr_burst *net, const char *path, struct brr_burst_error *to) {
    struct connectome *network = NULL;
    struct burst_state state = {0};
    struct stream_loan loan = {0};
    struct err err;
    int rc = check_process(&err);
    rc = rc ? rc : netfile_load(path, 0, &network, &state, &err);
    if (rc)
        return report_error(rc, &err, to);
    if (!state.neurons) {
        rc = err_set(&err, ERR_INVALID, "%.300s has no state: it is a network, not a snapshot", path);
    } else if (!(rc = check_synapses(burst_connectome(net->burst), network, path, &err))) {
        stream_borrow(net->stream, &loan);
        rc = burst_restore(net->burst, &state, &err);
        stream_give_back(&loan);
    }
    burst_state_done(&state);
    connectome_free(network);
    return report_error(rc, &err, to);
}
