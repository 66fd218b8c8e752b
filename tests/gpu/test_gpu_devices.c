/* test_gpu_devices: a machine with several GPUs: what is too old is left out of the list, describing makes no context, and two
 * devices work side by side on one thread. Needs cuda:0 and cuda:2 (emulated: three devices, of which the second is too old), else
 * exits 77. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/op.h"

enum { N = 1000, MOST = 8, ROUNDS = 20 };

static int failures;
static void check(bool ok, const char *what, const char *more) {
    failures += !ok;
    printf("%-6s %s%s%s\n", ok ? "ok" : "FAILED", what, *more ? ": " : "", more);
}

struct machine {
    struct device *device;
    struct stream *stream;
    float *x, host[N];
};

static int open_machine(struct machine *m, const char *name, struct err *err) {
    void *x = NULL;
    int rc;
    if (!(rc = device_open(name, 0, &m->device, err)) && !(rc = stream_open(m->device, STREAM_NORMAL, &m->stream, err)))
        rc = device_alloc(m->device, sizeof m->host, &x, err);
    m->x = x;
    return rc;
}

static void close_machine(struct machine *m) {
    if (m->device)
        device_free(m->device, m->x);
    stream_close(m->stream);
    device_close(m->device);
}

/* x += 1, through a product too, so that the libraries follow the device. */
static int add_one(struct machine *m, struct err *err) {
    struct eltwise_args a = {.kind = ELTWISE_FILL, .y = tensor_1d(m->x, DTYPE_F32, 1), .alpha = 1};
    struct linear_args p = {.x = tensor_3d(m->x, DTYPE_F32, 1, 1, 1),
                            .w = tensor_2d(m->x, DTYPE_F32, 1, 1),
                            .y = tensor_3d(m->x + 1, DTYPE_F32, 1, 1, 1),
                            .accumulate = true};
    int rc = op_eltwise(m->stream, &a, err);
    return rc ? rc : op_linear(m->stream, &p, err);
}

static unsigned long contexts(void) {
    const char *path = getenv("BRR_CUDA_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    unsigned long (*count)(void) = NULL;
    if (library)
        *(void **)&count = dlsym(library, "emulator_contexts");
    return count ? count() : 0;
}

/* While it is not 0, the time of turns: the threads of a busy machine sleep for longer than a turn. */
static _Atomic int64_t time_ms;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) { return time_ms ? time_ms : __real_clock_ms(); }

/* The other job of a device: its turn comes. */
struct other {
    struct turns turns;
    const float *host; /* a result of the first job */
    atomic_int queued; /* results that it has queued */
    bool drained;
    atomic_bool came;
};

static void *take_turn(void *ctx) {
    struct other *o = ctx;
    turns_enter((struct turn_at){&o->turns, 1});
    o->drained = o->host[1] == (float)(ROUNDS + atomic_load(&o->queued));
    turns_leave((struct turn_at){&o->turns, 1});
    atomic_store(&o->came, true);
    return NULL;
}

/* Two jobs that share a device: a turn passes on once what its job has queued is done. */
static int share(struct machine *m, struct err *err) {
    static struct other o;
    const struct turn_at own = {&o.turns, 0};
    pthread_t thread;
    void *host = NULL;
    int rc = device_alloc_host(m->device, sizeof m->host, &host, err);
    if (rc)
        return rc;
    time_ms = 1000;
    turns_init(&o.turns);
    turns_join(own, 0);
    turns_join((struct turn_at){&o.turns, 1}, 0);
    stream_share(m->stream, own);
    o.host = host;
    for (bool begun = false; !rc && !atomic_load(&o.came); atomic_fetch_add(&o.queued, 1)) {
        if ((rc = add_one(m, err)) || (rc = stream_to_host(m->stream, host, m->x, sizeof m->host, err)))
            break;
        if (!begun && pthread_create(&thread, NULL, take_turn, &o))
            return err_set(err, ERR_EXHAUSTED, "no thread");
        begun = true;
        time_ms += TURNS_HOLD_MS / 2;
    }
    stream_share(m->stream, (struct turn_at){0});
    turns_leave(own);
    if (!rc) {
        pthread_join(thread, NULL);
        rc = stream_sync(m->stream, err);
    }
    device_free_host(m->device, host);
    time_ms = 0;
    check(o.drained, "a turn passes on when its work has drained", "");
    return rc;
}

int main(void) {
    static struct machine two[2];
    struct device_info infos[MOST];
    struct err err = {0};
    int n = device_list(infos, MOST), rc = 0;
    if (device_probe("cuda:2", &infos[MOST - 1], &err)) {
        printf("skipped: hardware: no GPU cuda:2: %s\n", err.message);
        return 77;
    }
    if (getenv("BRR_EMULATED_DEVICES")) {
        check(n == 3 && !strcmp(infos[1].name, "cuda:0") && !strcmp(infos[2].name, "cuda:2"), "the list leaves out what is too old",
              "");
        check(contexts() == 0, "describing devices makes no context", "");
    }
    if ((rc = open_machine(&two[0], "cuda:0", &err)) || (rc = open_machine(&two[1], "cuda:2", &err)))
        check(false, "both open", err.message);
    for (int i = 0; !rc && i < 2 * ROUNDS; i++)
        rc = add_one(&two[i % 2], &err);
    for (int i = 0; !rc && i < 2; i++)
        if (!(rc = stream_to_host(two[i].stream, two[i].host, two[i].x, sizeof two[i].host, &err)))
            rc = stream_sync(two[i].stream, &err);
    check(!rc, "work on two devices", err.message);
    check(two[0].host[1] == ROUNDS && two[1].host[1] == ROUNDS, "each has its own results", "");
    check(!rc && !(rc = share(&two[0], &err)), "work in turns on one device", err.message);
    if (getenv("BRR_EMULATED_DEVICES"))
        check(contexts() == 5, "only devices that were opened have contexts", "");
    close_machine(&two[0]);
    close_machine(&two[1]);
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
