#include "daemon/services/offload.h"

#include "daemon/hosts/niceness.h"
#include "daemon/hosts/thread_room.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

/* Shares of the pool, whose size (daemon/main.c) leaves room for the work of models, streams and the scheduler. */
static const int shares[OFFLOAD_CLASSES] = {
    [OFFLOAD_SUBMIT] = 4, [OFFLOAD_VALIDATE] = 1, [OFFLOAD_OPEN] = 4,   [OFFLOAD_FETCH] = 8,
    [OFFLOAD_LOGS] = 4,   [OFFLOAD_FILES] = 4,    [OFFLOAD_RECORD] = 1, [OFFLOAD_DOCTOR] = 1,
};

struct pool_share *offload_share(struct services *services, enum offload_class class) {
    struct pool_share *share = &services->shares[class];
    share->most = shares[class];
    return share;
}

/* FNV-1a; never 0. */
static uint64_t owner_of(const char *principal) {
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *principal; principal++)
        h = (h ^ (unsigned char)*principal) * UINT64_C(1099511628211);
    return h ? h : 1;
}

void *offload_new(struct rpc_call *call, enum offload_class class, size_t size, void (*drop)(struct offload *o), struct err *err) {
    struct offload *o = calloc(1, size);
    if (!o) {
        err_set(err, ERR_EXHAUSTED, "out of memory for a call");
        return NULL;
    }
    o->loop = services_of(call)->loop;
    o->share = offload_share(services_of(call), class);
    o->call = call;
    o->arena = rpc_arena(call);
    o->fd = -1;
    o->drop = drop;
    o->work.owner = owner_of(rpc_caller(call)->name);
    rpc_set_state(call, o);
    return o;
}

/* The first member of the state. */
static struct offload *offload_of(struct pool_work *work) { return (struct offload *)work; }
static void on_work(struct pool_work *work) { offload_of(work)->run(offload_of(work)); }
static void on_done(struct pool_work *work) { offload_back(offload_of(work)); }

void offload_away(struct offload *o, void (*done)(struct offload *o)) {
    o->done = done;
    o->working = true;
}

static void drop_state(struct offload *o) {
    if (o->drop)
        o->drop(o);
    if (o->working)
        return;
    cleanup_fd(&o->fd);
    arena_free(o->kept);
    free(o->packed);
    free(o);
}

void offload_back(struct offload *o) {
    o->working = false;
    if (o->done)
        o->done(o);
    if (!o->call && !o->working)
        drop_state(o);
}

static void on_recorded(struct db_wait *wait, int rc, const struct err *err) {
    struct offload *o = (struct offload *)((char *)wait - offsetof(struct offload, recorded));
    if (rc)
        o->err = *err;
    offload_back(o);
}

void offload_recorded(struct offload *o, struct sched *sched, void (*done)(struct offload *o)) {
    offload_away(o, done);
    sched_await(sched, &o->recorded, on_recorded);
}

bool offload_good(struct offload *o) {
    if (o->call && o->err.code)
        rpc_finish(o->call, &o->err);
    return o->call && !o->err.code;
}

void offload_answer(struct offload *o, const void *message, const char *what) {
    if (!message && !o->err.code)
        err_set(&o->err, ERR_EXHAUSTED, "out of memory describing %s", what);
    if (offload_good(o))
        convert_answer(o->call, message);
}

void offload_release(struct offload *o) {
    if (offload_good(o))
        rpc_release(o->call);
}

void offload_start(struct offload *o, void (*run)(struct offload *o), void (*done)(struct offload *o)) {
    o->run = run;
    o->done = done;
    o->working = true;
    o->must = false;
    pool_share_start(o->share, o->loop, &o->work, on_work, on_done);
}

void offload_pack(struct offload *o, const ProtobufCMessage *message) {
    o->packed = convert_pack(message, &o->packed_len, &o->err);
}

bool offload_read(struct offload *o, const char *what, ProtobufCBinaryData *ret) {
    if (!o->part && !(o->part = arena_alloc(o->arena, OFFLOAD_PART_BYTES)))
        return err_set(&o->err, ERR_EXHAUSTED, "out of memory reading %s", what), false;
    const ssize_t n = read(o->fd, o->part, OFFLOAD_PART_BYTES);
    if (n < 0)
        return err_errno(&o->err, errno, "cannot read %s", what), false;
    *ret = (ProtobufCBinaryData){(size_t)n, o->part};
    if (!n) {
        close(o->fd);
        o->fd = -1;
    }
    return true;
}

static void send_packed(struct offload *o) {
    if (!offload_good(o))
        return;
    if (!o->packed) {
        rpc_finish(o->call, NULL);
        return;
    }
    o->full = !rpc_send(o->call, o->packed, o->packed_len);
    free(o->packed);
    o->packed = NULL;
    if (!o->full)
        offload_start(o, o->run, send_packed);
}

void offload_stream(struct offload *o, void (*next)(struct offload *o)) { offload_start(o, next, send_packed); }

void offload_writable(struct rpc_call *call) {
    struct offload *o = rpc_state(call);
    if (!o || !o->full)
        return;
    o->full = false;
    offload_stream(o, o->run);
}

void offload_start_must(struct offload *o, void (*run)(struct offload *o), void (*done)(struct offload *o)) {
    offload_start(o, run, done);
    o->must = true;
}

void offload_end(struct rpc_call *call) {
    struct offload *o = rpc_state(call);
    if (!o)
        return;
    o->call = NULL;
    o->kept = rpc_take_arena(call);
    atomic_store(&o->gone, true);
    if (!o->must && pool_share_cancel(&o->work))
        o->working = false;
    if (!o->working)
        drop_state(o);
}

struct recording {
    struct offload work;
    struct db *db;
    struct db_writer *writer;
    const void *request;
    rpc_handler *then;
};

/* For what was ordered before, too. */
static void wait_volume(struct offload *work) {
    const struct recording *r = (const struct recording *)work;
    db_wait(r->db);
    db_writer_sync(r->writer);
}

static void answered(struct offload *work) {
    struct recording *r = (struct recording *)work;
    struct rpc_call *call = work->call;
    if (!call)
        return;
    work->call = NULL;
    rpc_set_state(call, NULL);
    rpc_handle(call, r->then, r->request);
}

int offload_record(struct rpc_call *call, const void *request, rpc_handler *then, struct err *err) {
    const struct services *services = rpc_context(call);
    if (!db_check(services->db, NULL))
        return then(call, request, err);
    struct recording *r = offload_new(call, OFFLOAD_RECORD, sizeof *r, NULL, err);
    if (!r)
        return err->code;
    r->db = services->db;
    r->writer = sched_writer(services->sched);
    r->request = request;
    r->then = then;
    offload_start(&r->work, wait_volume, answered);
    return 0;
}

struct computing {
    struct offload *o;
    void (*run)(struct offload *o);
};

static void *compute(void *arg) {
    const struct computing *c = arg;
    niceness_set(NICENESS_OTHER);
    c->run(c->o);
    return NULL;
}

void offload_compute(struct offload *o, void (*run)(struct offload *o)) {
    struct computing c = {o, run};
    pthread_t thread;
    if (thread_room_check(thread_room_of_team(), &o->err))
        return;
    if (pthread_create(&thread, NULL, compute, &c)) {
        err_set(&o->err, ERR_EXHAUSTED, "cannot start a thread that computes; try again later");
        return;
    }
    pthread_join(thread, NULL);
}
