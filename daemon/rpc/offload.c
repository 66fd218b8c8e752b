#include "daemon/rpc/offload.h"

#include <stdlib.h>

#include "daemon/rpc/services.h"

static void drop_plain(struct offload *o) { free(o); }

void *offload_new(struct rpc_call *call, size_t size, void (*drop)(struct offload *o)) {
    struct offload *o = calloc(1, size);
    struct err err;
    if (!o) {
        err_set(&err, ERR_EXHAUSTED, "out of memory for a call");
        rpc_finish(call, &err);
        return NULL;
    }
    o->work.data = o;
    o->loop = ((struct services *)rpc_context(call))->loop;
    o->call = call;
    o->drop = drop ? drop : drop_plain;
    rpc_set_state(call, o);
    return o;
}

static void on_work(uv_work_t *work) {
    struct offload *o = work->data;
    o->run(o);
}

void offload_away(struct offload *o, void (*done)(struct offload *o)) {
    o->done = done;
    o->working = true;
}

void offload_back(struct offload *o) {
    o->working = false;
    o->done(o);
    if (!o->call && !o->working)
        o->drop(o);
}

static void on_done(uv_work_t *work, int status) {
    (void)status;
    offload_back(work->data);
}

void offload_start(struct offload *o, void (*run)(struct offload *o), void (*done)(struct offload *o)) {
    o->run = run;
    o->done = done;
    o->working = true;
    uv_queue_work(o->loop, &o->work, on_work, on_done); /* fails for want of a function alone */
}

void offload_end(struct rpc_call *call) {
    struct offload *o = rpc_state(call);
    if (!o)
        return;
    o->call = NULL;
    atomic_store(&o->gone, true);
    if (!o->working)
        o->drop(o);
}

struct recording {
    struct offload work;
    struct db *db;
    void *request;
    void (*then)(struct rpc_call *call, void *request);
};

static void wait_volume(struct offload *work) { db_wait(((struct recording *)work)->db); }

static void answered(struct offload *work) {
    struct recording *r = (struct recording *)work;
    struct rpc_call *call = work->call;
    if (!call)
        return;
    work->call = NULL;
    rpc_set_state(call, NULL);
    rpc_handle(call, r->then, r->request);
}

void offload_record(struct rpc_call *call, void *request, void (*then)(struct rpc_call *call, void *request)) {
    const struct services *services = rpc_context(call);
    if (!db_check(services->db, NULL)) {
        then(call, request);
        return;
    }
    struct recording *r = offload_new(call, sizeof *r, NULL);
    if (!r)
        return;
    r->db = services->db;
    r->request = request;
    r->then = then;
    offload_start(&r->work, wait_volume, answered);
}
