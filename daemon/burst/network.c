#include "daemon/burst/network.h"

#include "base/grow.h"

enum { MOST_SLICE = 1 << 16 };
#define SLICE_S   0.005 /* aimed at */
#define LONGEST_S 0.02  /* a network that wakes up in a slice: no further tick begins */
#define OVERRUN_S 0.05  /* a slice that kept live windows waiting for longer counts */

/* ---- making ---------------------------------------------------------------------------------------------------- */

static int check_bytes(const struct network_order *o, int64_t bytes, int64_t most_bytes, struct err *err) {
    if (bytes > o->budget_bytes)
        return err_set(err, ERR_EXHAUSTED, "the network and its state take %lld bytes; its memory budget is %lld bytes",
                       (long long)bytes, (long long)o->budget_bytes);
    if (bytes > most_bytes)
        return err_set(err, ERR_EXHAUSTED,
                       "the network takes %lld bytes and %lld of limits.networks_memory are free for this caller; destroy a "
                       "network or raise the limit",
                       (long long)bytes, (long long)most_bytes);
    return 0;
}

int network_build(const struct network_team_config *config, struct network_order *o, int64_t most_bytes, struct network_team **ret,
                  struct err *err) {
    struct connectome *net = o->net;
    struct network_team *team = NULL;
    o->net = NULL;
    int rc = network_team_new(config, net, &team, err);
    if (rc)
        return rc;
    if ((o->state.neurons && (rc = network_team_restore(team, &o->state, err))) ||
        (rc = check_bytes(o, network_team_bytes(team), most_bytes, err))) {
        network_team_free(team);
        return rc;
    }
    *ret = team;
    return 0;
}

int network_begin_ledger(struct network *n, struct err *err) {
    ledger_done(&n->ledger);
    return ledger_init(&n->ledger, NETWORK_LEDGER_TICKS, NETWORK_LEDGER_SPIKES, err);
}

void network_done(struct network *n) {
    for (int i = 0; i < n->n_observers; i++) {
        observer_end(n->observers[i]);
        observer_release(n->observers[i]);
    }
    ledger_done(&n->ledger);
    network_team_free(n->team);
}

/* Releases the observers whose readers have left. */
static void prune(struct network *n) {
    int kept = 0;
    for (int i = 0; i < n->n_observers; i++) {
        if (observer_has_left(n->observers[i]))
            observer_release(n->observers[i]);
        else
            n->observers[kept++] = n->observers[i];
    }
    n->n_observers = kept;
}

int network_describe(struct network *n, struct network_order *o, struct err *err) {
    const struct connectome *c = network_team_connectome(n->team);
    const struct burst *b = network_team_burst(n->team);
    prune(n);
    int named = c->n_areas < NETWORK_NAMED_AREAS ? c->n_areas : NETWORK_NAMED_AREAS;
    struct network_info i = {.neurons = c->net.n,
                             SAME_MEMBERS(*c, synapses, n_areas),
                             .tick = (int64_t)burst_tick(b),
                             .bytes = network_team_bytes(n->team),
                             SAME_MEMBERS(*n, budget_bytes, fired_total),
                             .pending = burst_pending(b),
                             .observers = n->n_observers,
                             .n_named = named,
                             .every_tick = burst_every_tick(b)};
    if (!(i.areas = malloc((size_t)named * sizeof *i.areas)))
        return err_set(err, ERR_EXHAUSTED, "out of memory describing network %s", n->name);
    str_copy(i.name, sizeof i.name, n->name);
    for (int k = 0; k < named; k++)
        str_copy(i.areas[k], sizeof i.areas[k], c->areas[k].name);
    o->infos[o->n_infos++] = i;
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

int network_inject(struct network *n, struct network_order *o, struct err *err) {
    const struct burst *b = network_team_burst(n->team);
    int64_t is = network_team_bytes(n->team),
            more = (burst_bytes_with(b, o->count) - burst_bytes(b)) * network_team_devices(n->team);
    if (more > 0 && is + more > n->budget_bytes)
        return err_set(
            err, ERR_EXHAUSTED,
            "%lld injections take %lld bytes more; the network has %lld bytes and a memory budget of %lld: step it first",
            (long long)o->count, (long long)more, (long long)is, (long long)n->budget_bytes);
    for (int64_t i = 0; o->next_tick && i < o->count; i++)
        o->injections[i].tick = burst_tick(b) + 1;
    return network_team_inject(n->team, o->injections, o->count, err);
}

static int check_more(const struct network *n, const char *what, int64_t more, struct err *err) {
    int64_t bytes = network_team_bytes(n->team);
    return bytes + more <= n->budget_bytes
               ? 0
               : err_set(err, ERR_EXHAUSTED, "%s take %lld bytes more; the network has %lld bytes and a memory budget of %lld",
                         what, (long long)more, (long long)bytes, (long long)n->budget_bytes);
}

/* A psp that differs from the rest of its row makes all synapses take 8 bytes instead of 4. */
static int check_widening(const struct network *n, const struct network_change *c, struct err *err) {
    const struct connectome *net = network_team_connectome(n->team);
    return net->net.wide || c->synapse.psp < 0 || c->synapse.source >= net->net.n ||
                   c->synapse.psp == net->base_psp[c->synapse.source]
               ? 0
               : check_more(n, "a psp of its own makes the synapses", net->capacity * 4, err);
}

/* The first area that divides makes each neuron take a divisor of 4 bytes. */
static int check_dividing(const struct network *n, const struct network_change *c, struct err *err) {
    const struct connectome *net = network_team_connectome(n->team);
    return net->net.divisor || !c->psp_divide ? 0 : check_more(n, "the divisors of neurons", net->net.n * (int64_t)4, err);
}

static int apply(struct network *n, const struct network_change *c, struct err *err) {
    struct connectome_area area = {SAME_MEMBERS(*c, psp_divide, mp_driven_psp, power)};
    struct burst *b = network_team_burst(n->team);
    int rc = 0;
    if (c->kind == NETWORK_SET_NEURON)
        return network_team_set_neuron(n->team, &(struct team_neuron){c->id, c->field, c->value}, err);
    if (c->kind == NETWORK_DELETE_NEURON)
        return network_team_delete_neuron(n->team, c->id, err);
    if (network_team_devices(n->team) > 1)
        return err_set(err, ERR_UNSUPPORTED, "network %s is on %d devices, where synapses and areas cannot be changed", n->name,
                       network_team_devices(n->team));
    switch (c->kind) {
    case NETWORK_SET_SYNAPSE:
        rc = check_widening(n, c, err);
        return rc ? rc : burst_set_synapse(b, &c->synapse, err);
    case NETWORK_DELETE_SYNAPSE:
        return burst_delete_synapse(b, c->synapse.source, c->synapse.target, err);
    default:
        rc = check_dividing(n, c, err);
        return rc ? rc : burst_set_area(b, c->area, &area, err);
    }
}

bool network_patch(struct network *n, struct network_order *o) {
    double end = clock_s() + SLICE_S;
    do {
        if (o->changed == o->count)
            return true;
        bool left = o->gone && atomic_load(o->gone);
        if (left ? err_set(&o->err, ERR_CANCELLED, "the caller left") : apply(n, &o->changes[o->changed], &o->err)) {
            o->failed = o->changed;
            return true;
        }
        o->changed++;
    } while (clock_s() < end);
    return o->changed == o->count;
}

static void show_observer(void *observer, const struct burst_frame *frame) { observer_add(observer, frame); }

int network_observe(struct network *n, struct network_order *o, struct err *err) {
    prune(n);
    if (n->n_observers == NETWORK_MOST_OBSERVERS)
        return err_set(err, ERR_EXHAUSTED, "network %s has %d observers, which is the limit", n->name, n->n_observers);
    o->last_ticks = o->last_ticks < n->ledger.ticks ? o->last_ticks : n->ledger.ticks;
    ledger_each(&n->ledger, o->last_ticks, show_observer, o->observer);
    n->observers[n->n_observers++] = o->observer;
    o->observer = NULL;
    return 0;
}

/* ---- ticks ----------------------------------------------------------------------------------------------------- */

struct tick_sink {
    struct network *network;
    struct network_order *order;
    int rc;
};

/* Room for one more tick with so many ids. */
static int reserve(struct network_order *o, int64_t fired) {
    if (!GROW(o->frames, o->n_frames, o->frame_room))
        return ERR_EXHAUSTED;
    if (o->n_ids + fired > o->id_room) {
        int64_t room = 2 * o->id_room > o->n_ids + fired ? 2 * o->id_room : o->n_ids + fired;
        uint32_t *ids = realloc(o->ids, (size_t)room * sizeof *ids);
        if (!ids)
            return ERR_EXHAUSTED;
        o->ids = ids;
        o->id_room = room;
    }
    return 0;
}

static void on_tick(void *ctx, const struct burst_frame *f) {
    struct tick_sink *s = ctx;
    struct network_order *o = s->order;
    s->rc = s->rc ? s->rc : ledger_add(&s->network->ledger, f, NULL);
    for (int i = 0; i < s->network->n_observers; i++)
        observer_add(s->network->observers[i], f);
    o->fired += f->fired;
    o->events += (int64_t)f->events;
    o->ran++;
    if (!o->want_fired || !f->fired || s->rc || (s->rc = reserve(o, f->fired)))
        return;
    o->frames[o->n_frames++] =
        (struct network_frame){.tick = f->tick, .candidates = f->candidates, .first = o->n_ids, .n = f->fired};
    memcpy(o->ids + o->n_ids, f->ids, (size_t)f->fired * sizeof *f->ids);
    o->n_ids += f->fired;
}

/* A slice that collects cannot go past the room of its answer by more than one tick. */
static int64_t next_slice(const struct network *n, const struct network_order *o) {
    int64_t left = o->ticks - o->ran, ticks = left < n->slice ? left : n->slice;
    if (o->want_fired) {
        int64_t neurons = network_team_connectome(n->team)->net.n, ids = (NETWORK_FIRED_IDS - o->n_ids) / neurons;
        int64_t frames = NETWORK_FIRED_FRAMES - o->n_frames, fits = ids < frames ? ids : frames;
        ticks = ticks < fits ? ticks : fits > 1 ? fits : 1;
    }
    return ticks;
}

static void adapt(struct network *n, int64_t ticks, double took) {
    double fit = SLICE_S / fmax(took / (double)ticks, 1e-9);
    metric_add(n->metrics->ticks, (double)ticks);
    metric_observe(n->metrics->tick_seconds, took / (double)ticks);
    metric_add(n->metrics->overruns, took > OVERRUN_S);
    n->slice = fit < 1 ? 1 : fit > 2 * (double)n->slice ? 2 * n->slice : (int64_t)fit;
    n->slice = n->slice > MOST_SLICE ? MOST_SLICE : n->slice;
}

int network_may_collect(const struct network *n, const struct network_order *o, struct err *err) {
    if (!(o->want_fired || o->want_membranes) || network_team_connectome(n->team)->net.n <= NETWORK_FIRED_NEURONS)
        return 0;
    return err_set(err, ERR_INVALID,
                   "a Step gives the spikes and membranes of at most %d neurons; read the frames of larger networks by Observe",
                   NETWORK_FIRED_NEURONS);
}

bool network_slice(struct network *n, struct network_order *o) {
    struct tick_sink sink = {n, o, 0};
    int64_t ticks = next_slice(n, o), fired = o->fired;
    double start = clock_s();
    prune(n);
    int64_t ran = o->ran;
    int rc = network_may_collect(n, o, &o->err);
    rc = rc ? rc : network_team_step(n->team, &(struct team_ticks){ticks, LONGEST_S, on_tick, &sink}, &o->err);
    double took = clock_s() - start;
    n->fired_total += o->fired - fired;
    metric_add(n->metrics->spikes, (double)(o->fired - fired));
    o->seconds += took;
    if (rc)
        return true;
    if (sink.rc) {
        err_set(&o->err, ERR_EXHAUSTED, "out of memory for the fired neurons of network %s; its ticks have run to %llu", n->name,
                (unsigned long long)burst_tick(network_team_burst(n->team)));
        return true;
    }
    adapt(n, o->ran - ran, took);
    if (o->ran < o->ticks && !(o->want_fired && (o->n_ids >= NETWORK_FIRED_IDS || o->n_frames >= NETWORK_FIRED_FRAMES)))
        return false;
    if (o->want_membranes)
        (void)network_team_save(n->team, &o->state, &o->err);
    return true;
}
