/* brr.v1.Burst: calls on spiking networks, but for those that carry files (svc_burst_files.c): translation between messages and
 * orders to the device worker, and the frames of observers. */

#include "base/queue.h"
#include "daemon/services/burst_ask.h"
#include "daemon/services/convert.h"

enum { PART_FRAMES = 512, PART_IDS = 65536 };
static const int64_t most_ticks = INT64_C(1000000000000);

static int no_memory(struct err *err) { return err_set(err, ERR_EXHAUSTED, "out of memory for a call to a network"); }

static const struct network_order *burst_order_of(const struct offload *work) { return ((const struct burst_ask *)work)->order; }

/* Sends an order of a unary call; NULL: there was no memory for it. */
static int ask(struct rpc_call *call, struct network_order *o, void (*answered)(struct offload *work), struct err *err) {
    if (!o)
        return no_memory(err);
    struct burst_ask *a = offload_new(call, OFFLOAD_FILES, sizeof *a, NULL, err);
    if (a)
        burst_ask(a, o, answered);
    else
        network_order_free(o);
    return a ? 0 : err->code;
}

/* ---- List, Destroy --------------------------------------------------------------------------------------------- */

static void listed(struct offload *work) {
    const struct network_order *o = burst_order_of(work);
    Brr__V1__ListNetworksResponse out = BRR__V1__LIST_NETWORKS_RESPONSE__INIT;
    out.networks = arena_alloc(work->arena, ((size_t)o->n_infos + 1) * sizeof *out.networks);
    for (int i = 0; out.networks && i < o->n_infos; i++)
        if ((out.networks[out.n_networks] = burst_message_of(work->arena, &o->infos[i])))
            out.n_networks++;
    offload_answer(work, out.networks && (int)out.n_networks == o->n_infos ? &out : NULL, "networks");
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    (void)message;
    return ask(call, network_order_new(NETWORK_LIST, ""), listed, err);
}

static void destroyed(struct offload *work) {
    const Brr__V1__DestroyNetworkResponse out = BRR__V1__DESTROY_NETWORK_RESPONSE__INIT;
    offload_answer(work, &out, "a network");
}

static int destroy(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__DestroyNetworkRequest *in = message;
    return ask(call, network_order_new(NETWORK_DESTROY, in->name), destroyed, err);
}

/* ---- Inject ---------------------------------------------------------------------------------------------------- */

static void injected(struct offload *work) {
    Brr__V1__InjectResponse out = BRR__V1__INJECT_RESPONSE__INIT;
    if (!offload_good(work))
        return;
    COPY_MEMBERS(out, burst_order_of(work)->infos[0], pending, tick);
    convert_answer(work->call, &out.base);
}

static int check_inject(const Brr__V1__InjectRequest *in, struct err *err) {
    if (in->n_id != in->n_potential || (in->n_tick && in->n_tick != in->n_id))
        return err_set(err, ERR_INVALID,
                       "an Inject of %zu ticks, %zu ids and %zu potentials; expected as many of each (or no tick: the next one)",
                       in->n_tick, in->n_id, in->n_potential);
    for (size_t i = 0; i < in->n_tick; i++)
        if (in->tick[i] < 1)
            return err_set(err, ERR_INVALID, "tick[%zu] is %" PRId64 "; ticks count from 1", i, in->tick[i]);
    return 0;
}

static int inject(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__InjectRequest *in = message;
    int rc = check_inject(in, err);
    if (rc)
        return rc;
    struct network_order *o = network_order_new(NETWORK_INJECT, in->name);
    if (o && !(o->injections = malloc((in->n_id + 1) * sizeof *o->injections))) {
        network_order_free(o);
        o = NULL;
    }
    if (o) {
        o->count = (int64_t)in->n_id;
        o->next_tick = !in->n_tick;
        for (size_t i = 0; i < in->n_id; i++)
            o->injections[i] = (struct burst_injection){in->n_tick ? (uint64_t)in->tick[i] : 0, in->id[i], in->potential[i]};
    }
    return ask(call, o, injected, err);
}

/* ---- Patch ----------------------------------------------------------------------------------------------------- */

static int change_neuron(const Brr__V1__NeuronChange *in, size_t i, struct network_change *ret, struct err *err) {
    struct err inner;
    *ret =
        (struct network_change){.kind = in->remove ? NETWORK_DELETE_NEURON : NETWORK_SET_NEURON, .id = in->id, .value = in->value};
    if (in->remove || !burst_field_of(in->field, &ret->field, &inner))
        return 0;
    return err_set(err, inner.code, "neurons[%zu]: %s", i, inner.message);
}

static struct network_change change_synapse(const Brr__V1__SynapseChange *in) {
    return (struct network_change){.kind = in->remove ? NETWORK_DELETE_SYNAPSE : NETWORK_SET_SYNAPSE,
                                   .synapse = {SAME_MEMBERS(*in, source, target, weight, psp, type)}};
}

/* An area may be changed once: each change visits all of its synapses. */
static int change_areas(const Brr__V1__PatchRequest *in, struct network_change *to, struct err *err) {
    size_t first[CONNECTOME_MOST_AREAS] = {0};
    for (size_t i = 0; i < in->n_areas; i++) {
        const Brr__V1__AreaChange *area = in->areas[i];
        bool there = area->index >= 0 && area->index < CONNECTOME_MOST_AREAS;
        if (there && first[area->index])
            return err_set(err, ERR_INVALID, "areas[%zu]: area %d is changed by areas[%zu] already; change each area once", i,
                           area->index, first[area->index] - 1);
        if (there)
            first[area->index] = i + 1;
        to[i] = (struct network_change){.kind = NETWORK_SET_AREA,
                                        .area = area->index,
                                        SAME_MEMBERS(*area, psp_divide, mp_driven_psp),
                                        .power = (float)area->power};
    }
    return 0;
}

/* Where in its list the change is that failed. */
static void name_change(const struct network_order *o, struct err *err) {
    static const char *const lists[] = {"neurons", "neurons", "synapses", "synapses", "areas"};
    int64_t first = o->failed;
    const char *of = lists[o->changes[o->failed].kind];
    while (first > 0 && !strcmp(lists[o->changes[first - 1].kind], of))
        first--;
    *err = o->err;
    str_format(err->message, sizeof err->message, "%s[%lld]: %s", of, (long long)(o->failed - first), o->err.message);
}

static void patched(struct offload *work) {
    const struct network_order *o = burst_order_of(work);
    Brr__V1__PatchResponse out = BRR__V1__PATCH_RESPONSE__INIT;
    if (o->failed >= 0)
        name_change(o, &work->err);
    if (!offload_good(work))
        return;
    out.changes = o->count;
    out.tick = o->infos[0].tick;
    convert_answer(work->call, &out.base);
}

static int read_changes(const Brr__V1__PatchRequest *in, struct network_change *to, struct err *err) {
    size_t n = 0;
    int rc;
    for (size_t i = 0; i < in->n_neurons; i++)
        if ((rc = change_neuron(in->neurons[i], i, &to[n++], err)))
            return rc;
    for (size_t i = 0; i < in->n_synapses; i++)
        to[n++] = change_synapse(in->synapses[i]);
    return change_areas(in, to + n, err);
}

static int patch(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__PatchRequest *in = message;
    struct network_order *o = network_order_new(NETWORK_PATCH, in->name);
    size_t n = in->n_neurons + in->n_synapses + in->n_areas;
    int rc = o && (o->changes = malloc((n + 1) * sizeof *o->changes)) ? read_changes(in, o->changes, err) : no_memory(err);
    if (rc) {
        network_order_free(o);
        return rc;
    }
    o->count = (int64_t)n;
    return ask(call, o, patched, err);
}

/* ---- Step ------------------------------------------------------------------------------------------------------ */

static bool put_frames(struct arena *arena, const struct network_order *o, Brr__V1__StepResponse *out) {
    Brr__V1__Frame *frames = arena_alloc(arena, ((size_t)o->n_frames + 1) * sizeof *frames);
    out->frames = arena_alloc(arena, ((size_t)o->n_frames + 1) * sizeof *out->frames);
    if (!frames || !out->frames)
        return false;
    for (int64_t i = 0; i < o->n_frames; i++) {
        brr__v1__frame__init(&frames[i]);
        frames[i].tick = (int64_t)o->frames[i].tick;
        frames[i].candidates = o->frames[i].candidates;
        frames[i].ids = o->ids + o->frames[i].first;
        frames[i].n_ids = (size_t)o->frames[i].n;
        out->frames[i] = &frames[i];
    }
    out->n_frames = (size_t)o->n_frames;
    return true;
}

static void stepped(struct offload *work) {
    const struct network_order *o = burst_order_of(work);
    Brr__V1__StepResponse out = BRR__V1__STEP_RESPONSE__INIT;
    if (!offload_good(work))
        return;
    out.tick = o->infos[0].tick;
    out.ticks = o->ran;
    COPY_MEMBERS(out, *o, fired, events, seconds);
    out.membranes = o->state.v;
    out.n_membranes = o->state.v ? o->state.neurons : 0;
    offload_answer(work, put_frames(work->arena, o, &out) ? &out : NULL, "a step");
}

static int step(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__StepRequest *in = message;
    if (in->ticks < 1 || in->ticks > most_ticks)
        return err_set(err, ERR_INVALID, "Step.ticks is %" PRId64 "; expected 1 to %" PRId64, in->ticks, most_ticks);
    struct network_order *o = network_order_new(NETWORK_STEP, in->name);
    if (o) {
        o->ticks = in->ticks;
        COPY_MEMBERS(*o, *in, want_fired, want_membranes);
    }
    return ask(call, o, stepped, err);
}

/* ---- Observe --------------------------------------------------------------------------------------------------- */

/* An Observe call. */
struct observing {
    struct burst_ask ask;
    struct services *services;
    struct observer *observer;
    struct observer_frame *frame; /* taken; ids from `at` on have not been sent */
    int64_t at, missed, told;     /* told: of those missed, what the client has heard of */
    bool attached, full;
    struct observing *next;
};

static void count_missed(struct observing *g, int64_t missed) {
    metric_add(metrics_series(g->services->metrics, "brrd_burst_frames_missed_total", ""), (double)(missed - g->missed));
    g->missed = missed;
}

static void drop_observing(struct offload *work) {
    struct observing *g = (struct observing *)work;
    int64_t missed = g->missed;
    bool ended = false;
    LIST_REMOVE(g->services->burst.observings, g, next);
    observer_frame_free(g->frame);
    observer_frame_free(observer_take(g->observer, &missed, &ended));
    count_missed(g, missed);
    observer_leave(g->observer);
    observer_release(g->observer);
}

/* The next frame to send, or NULL. */
static struct observer_frame *next_frame(struct observing *g, bool *ret_ended) {
    if (!g->frame) {
        int64_t missed = g->missed;
        g->frame = observer_take(g->observer, &missed, ret_ended);
        g->at = 0;
        count_missed(g, missed);
    }
    return g->frame;
}

/* One message of frames, the ids of the last one maybe in part; without any where frames were missed alone. False when no frame
 * waits, or memory is short. */
static bool send_frames(struct observing *g, bool *ret_ended) {
    Brr__V1__Frame frames[PART_FRAMES];
    Brr__V1__Frame *list[PART_FRAMES];
    struct observer_frame *sent[PART_FRAMES], *f;
    Brr__V1__Frames out = BRR__V1__FRAMES__INIT;
    int64_t ids = 0;
    size_t whole = 0;
    while (out.n_frames < PART_FRAMES && (f = next_frame(g, ret_ended)) && (!ids || ids + f->fired - g->at <= PART_IDS)) {
        int64_t left = f->fired - g->at, n = left < PART_IDS ? left : PART_IDS;
        Brr__V1__Frame *m = list[out.n_frames] = &frames[out.n_frames];
        brr__v1__frame__init(m);
        m->tick = (int64_t)f->tick;
        m->candidates = f->candidates;
        m->ids = f->ids + g->at;
        m->n_ids = (size_t)n;
        m->more = n < left;
        out.n_frames++;
        ids += n;
        g->at += n;
        if (m->more)
            break;
        sent[whole++] = f;
        g->frame = NULL;
    }
    out.frames = list;
    out.missed = g->missed;
    if (out.n_frames || g->missed != g->told) {
        g->told = g->missed;
        g->full = !convert_send(g->ask.work.call, &out.base);
    }
    for (size_t i = 0; i < whole; i++)
        observer_frame_free(sent[i]);
    return out.n_frames > 0;
}

/* Everything that waits, as far as the client has room. */
static void pump(struct observing *g) {
    bool ended = false;
    if (!g->attached || !g->ask.work.call)
        return;
    while (!g->full && send_frames(g, &ended))
        continue;
    if (!g->full && ended && !g->frame)
        rpc_finish(g->ask.work.call, NULL);
}

void svc_burst_observed(struct services *services) {
    for (struct observing *g = services->burst.observings, *next; g; g = next) {
        next = g->next;
        pump(g);
    }
}

static void attached(struct offload *work) {
    struct observing *g = (struct observing *)work;
    Brr__V1__Frames first = BRR__V1__FRAMES__INIT;
    if (!offload_good(work))
        return;
    first.tick = g->ask.order->infos[0].tick;
    first.past = g->ask.order->last_ticks;
    g->attached = true;
    g->full = !convert_send(work->call, &first.base);
    pump(g);
}

static int observe(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ObserveNetworkRequest *in = message;
    struct services *services = services_of(call);
    if (in->queue_frames < 0 || in->queue_frames > OBSERVER_MOST_FRAMES)
        return err_set(err, ERR_INVALID, "queue_frames is %d; expected 1 to %d, or 0 for %d", in->queue_frames,
                       OBSERVER_MOST_FRAMES, OBSERVER_FRAMES);
    if (in->last_ticks < 0)
        return err_set(err, ERR_INVALID, "last_ticks is %lld; expected 0 or more", (long long)in->last_ticks);
    struct network_order *o = network_order_new(NETWORK_OBSERVE, in->name);
    struct observer *observer = o ? observer_new(in->queue_frames ? in->queue_frames : OBSERVER_FRAMES, &services->burst.frames,
                                                 services->wake, services->wake_ctx)
                                  : NULL;
    struct observing *g = observer ? offload_new(call, OFFLOAD_FILES, sizeof *g, drop_observing, err) : NULL;
    if (!g) {
        observer_release(observer);
        network_order_free(o);
        return no_memory(err);
    }
    g->services = services;
    g->observer = observer;
    g->next = services->burst.observings;
    services->burst.observings = g;
    observer_hold(observer);
    o->observer = observer;
    o->last_ticks = in->last_ticks;
    burst_ask(&g->ask, o, attached);
    return 0;
}

static void observe_writable(struct rpc_call *call) {
    struct observing *g = rpc_state(call);
    if (!g)
        return;
    g->full = false;
    pump(g);
}

const struct rpc_method svc_burst[] = {
    {RPC_METHOD("/brr.v1.Burst/List", ROLE_READ, brr__v1__list_networks_request, list), .end = offload_end},
    {RPC_METHOD("/brr.v1.Burst/Inject", ROLE_SUBMIT, brr__v1__inject_request, inject), .max_message = RPC_DATA_BYTES,
     .end = offload_end, .frequent = true},
    {RPC_METHOD("/brr.v1.Burst/Patch", ROLE_SUBMIT, brr__v1__patch_request, patch), .max_message = RPC_DATA_BYTES,
     .end = offload_end},
    {RPC_METHOD("/brr.v1.Burst/Step", ROLE_SUBMIT, brr__v1__step_request, step), .end = offload_end, .frequent = true},
    {RPC_METHOD("/brr.v1.Burst/Observe", ROLE_READ, brr__v1__observe_network_request, observe), .writable = observe_writable,
     .end = offload_end},
    {RPC_METHOD("/brr.v1.Burst/Destroy", ROLE_SUBMIT, brr__v1__destroy_network_request, destroy), .end = offload_end},
    {.path = NULL},
};
