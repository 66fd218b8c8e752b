#include "daemon/services/burst_ask.h"

enum { RETRY_MS = 1000 };

static void on_back(struct offload *work) {
    struct burst_ask *a = (struct burst_ask *)work;
    a->answered(work);
    network_order_free(a->order);
    a->order = NULL;
}

static void on_done(struct network_order *o) {
    struct burst_ask *a = o->owner;
    a->order = o;
    a->work.err = o->err;
    offload_back(&a->work);
}

void burst_ask(struct burst_ask *a, struct network_order *o, void (*answered)(struct offload *work)) {
    struct rpc_call *call = a->work.call;
    struct err err;
    str_copy(o->principal, sizeof o->principal, rpc_caller(call)->name);
    o->all = auth_sees(rpc_caller(call), "");
    o->gone = &a->work.gone;
    o->owner = a;
    o->done = on_done;
    a->answered = answered;
    offload_away(&a->work, on_back);
    if (burst_service_post(&services_of(call)->burst, o))
        return;
    a->work.working = false;
    network_order_free(o);
    err_set(&err, ERR_UNAVAILABLE, "too many orders wait for the device, or the daemon is stopping; try again later");
    rpc_refuse(call, &err, "OVERLOADED", RETRY_MS);
}

Brr__V1__Network *burst_message_of(struct arena *arena, const struct network_info *info) {
    Brr__V1__Network *m = arena_alloc(arena, sizeof *m);
    char **areas = arena_alloc(arena, ((size_t)info->n_named + 1) * sizeof *areas);
    if (!m || !areas)
        return NULL;
    brr__v1__network__init(m);
    m->name = (char *)(uintptr_t)info->name;
    COPY_MEMBERS(*m, *info, neurons, synapses, tick, bytes, budget_bytes, pending, fired_total, observers, every_tick);
    m->area_count = info->n_areas;
    m->device = (char *)(uintptr_t)info->device;
    m->areas = areas;
    m->n_areas = (size_t)info->n_named;
    for (int i = 0; i < info->n_named; i++)
        areas[i] = info->areas[i];
    return m;
}
