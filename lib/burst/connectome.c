#include "burst/connectome.h"

#include "base/pages.h"
#include "base/subnormals.h"
#include "burst/connectome_rows.h"

enum { ALIGNMENT = 64 };
#define MOST_DRIVE 0x1p20f

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void *zeroed(size_t bytes) {
    size_t rounded = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *p = pages_alloc(rounded);
    return p ? memset(p, 0, rounded) : NULL;
}

void connectome_free(struct connectome *c) {
    if (!c)
        return;
#define NEURON_FREE(type, name) free(c->net.name);
    CONNECTOME_NEURONS(NEURON_FREE)
#undef NEURON_FREE
#define CURRENT_FREE(type, name) free(c->net.name);
    CONNECTOME_CURRENTS(CURRENT_FREE)
#undef CURRENT_FREE
    FREE_MEMBERS(c->net, row, divisor, synapses);
    FREE_MEMBERS(*c, input_bound, area, base_psp, areas, area_first);
    free(c);
}

static void set_defaults(struct connectome *c) {
    for (uint32_t i = 0; i < c->net.n; i++) {
        c->net.threshold_limit[i] = INFINITY;
        c->net.excitability[i] = 1.0f;
        c->net.fire_limit[i] = SPIKE_UNLIMITED;
        c->net.flags[i] = SPIKE_ALIVE | SPIKE_ACCUMULATES;
    }
}

int connectome_alloc(int64_t neurons, struct connectome_shard shard, const struct connectome_area *areas, int n_areas,
                     struct connectome **ret, struct err *err) {
    struct connectome *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a network");
    size_t n = connectome_padded(neurons);
    bool ok = true;
    c->net.n = (uint32_t)neurons;
    c->net.delays = 1;
    c->own = connectome_cut(neurons, shard);
    c->n_areas = n_areas;
#define NEURON_ALLOC(type, name) ok = (c->net.name = zeroed(n * sizeof(type))) && ok;
    CONNECTOME_NEURONS(NEURON_ALLOC)
#undef NEURON_ALLOC
    c->net.row = zeroed((n + 1) * sizeof *c->net.row);
    c->input_bound = zeroed(n * sizeof *c->input_bound);
    c->area = zeroed(n * sizeof *c->area);
    c->base_psp = zeroed(n);
    c->areas = calloc((size_t)n_areas, sizeof *c->areas);
    c->area_first = malloc((size_t)n_areas * sizeof *c->area_first);
    if (!ok || !c->net.row || !c->input_bound || !c->area || !c->base_psp || !c->areas || !c->area_first) {
        connectome_free(c);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a network of %lld neurons", (long long)neurons);
    }
    memcpy(c->areas, areas, (size_t)n_areas * sizeof *areas);
    memset(c->area_first, 0xff, (size_t)n_areas * sizeof *c->area_first);
    set_defaults(c);
    *ret = c;
    return 0;
}

/* ---- checks ---------------------------------------------------------------------------------------------------- */

static int check_sizes(const struct connectome_arrays *a, int64_t max_bytes, struct err *err) {
    if (a->neurons < 1 || a->neurons > (int64_t)SPIKE_MOST_NEURONS)
        return err_set(err, ERR_INVALID, "neuron.threshold has %lld elements; expected 1 to %lld neurons", (long long)a->neurons,
                       (long long)SPIKE_MOST_NEURONS);
    if (a->synapses < 0 || a->synapses > (int64_t)UINT32_MAX)
        return err_set(err, ERR_INVALID, "synapse.src has %lld elements; expected at most %lld synapses", (long long)a->synapses,
                       (long long)UINT32_MAX);
    if (a->n_areas < 1 || a->n_areas > CONNECTOME_MOST_AREAS)
        return err_set(err, ERR_INVALID, "brr.areas lists %d areas; expected 1 to %d", a->n_areas, CONNECTOME_MOST_AREAS);
    return connectome_check_room(a->neurons, a->shard.count > 1 ? 0 : a->synapses, false, max_bytes, err);
}

/* Bounds of the floats of an array. */
struct bounds {
    float low, high;
    const char *expected;
};

static int check_floats(const char *name, const float *x, int64_t n, struct bounds b, struct err *err) {
    for (int64_t i = 0; x && i < n; i++)
        if (!(x[i] >= b.low && x[i] <= b.high))
            return err_set(err, ERR_INVALID, "neuron.%s[%lld] is %g; expected %s", name, (long long)i, (double)x[i], b.expected);
    return 0;
}

static int check_neurons(const struct connectome_arrays *a, struct err *err) {
    const struct bounds any = {-INFINITY, INFINITY, "a number"}, finite = {-3.4028235e38f, 3.4028235e38f, "a finite number"},
                        share = {0, 1, "a number from 0 to 1"}, gain = {-0x1p20f, 0x1p20f, "at most 2^20 in size"},
                        current = {-0x1p80f, 0x1p80f, "at most 2^80 in size"}; /* their product leaves membranes finite */
    int rc;
    if ((rc = check_floats("threshold", a->threshold, a->neurons, any, err)) ||
        (rc = check_floats("v", a->v, a->neurons, finite, err)) ||
        (rc = check_floats("threshold_limit", a->threshold_limit, a->neurons, any, err)) ||
        (rc = check_floats("leak", a->leak, a->neurons, share, err)) ||
        (rc = check_floats("excitability", a->excitability, a->neurons, any, err)) ||
        (rc = check_floats("current", a->current, a->neurons, current, err)) ||
        (rc = check_floats("current_leak", a->current_leak, a->neurons, share, err)) ||
        (rc = check_floats("current_gain", a->current_gain, a->neurons, gain, err)))
        return rc;
    if ((a->current || a->current_leak) && !a->current_gain)
        return err_set(err, ERR_INVALID, "neuron.current_gain is missing, and neuron.%s is there",
                       a->current ? "current" : "current_leak");
    for (int64_t i = 0; a->accumulate && i < a->neurons; i++)
        if (a->accumulate[i] > 1)
            return err_set(err, ERR_INVALID, "neuron.accumulate[%lld] is %d; expected 0 or 1", (long long)i, a->accumulate[i]);
    for (int64_t i = 0; a->area && i < a->neurons; i++)
        if (a->area[i] >= (uint32_t)a->n_areas)
            return err_set(err, ERR_INVALID, "neuron.area[%lld] is %u; expected less than the %d areas of brr.areas", (long long)i,
                           a->area[i], a->n_areas);
    return 0;
}

/* Areas of neurons are only looked up after check_neurons. */
static int check_areas(const struct connectome_arrays *a, struct err *err) {
    for (int i = 0; i < a->n_areas; i++) {
        if (!isfinite(a->areas[i].power))
            return err_set(err, ERR_INVALID, "brr.areas[%d].power is %g; expected a finite number", i, (double)a->areas[i].power);
        if (fabsf(a->areas[i].power) >= 0x1p40f)
            return err_set(err, ERR_INVALID, "brr.areas[%d].power is %g; expected less than 2^40 in size", i,
                           (double)a->areas[i].power);
        const struct connectome_area *area = &a->areas[i];
        if (!(fabsf(area->constant) < MOST_DRIVE) || !(fabsf(area->event) < MOST_DRIVE))
            return err_set(err, ERR_INVALID, "brr.areas[%d]: constant %g, poisson_potential %g; expected less than 2^20 in size", i,
                           (double)area->constant, (double)area->event);
        if (!(area->events >= 0 && area->events <= CONNECTOME_MOST_EVENTS))
            return err_set(err, ERR_INVALID, "brr.areas[%d].poisson is %g; expected 0 to %d events in a tick", i, area->events,
                           CONNECTOME_MOST_EVENTS);
    }
    return 0;
}

static int check_synapses(const struct connectome_arrays *a, struct err *err) {
    const struct {
        const char *name;
        const void *data;
    } required[] = {{"src", a->src}, {"dst", a->dst}, {"weight", a->weight}, {"psp", a->psp}, {"type", a->type}};
    for (size_t i = 0; a->synapses && i < sizeof required / sizeof *required; i++)
        if (!required[i].data)
            return err_set(err, ERR_INVALID, "synapse.%s is missing", required[i].name);
    for (int64_t i = 0; i < a->synapses; i++) {
        uint32_t src = a->src[i], dst = a->dst[i];
        if (src >= a->neurons || dst >= a->neurons)
            return err_set(err, ERR_INVALID, "synapse.%s[%lld] is %u; expected less than the %lld neurons",
                           src >= a->neurons ? "src" : "dst", (long long)i, src >= a->neurons ? src : dst, (long long)a->neurons);
        if (a->type[i] > 1)
            return err_set(err, ERR_INVALID, "synapse.type[%lld] is %d; expected 0 (excitatory) or 1 (inhibitory)", (long long)i,
                           a->type[i]);
        if (a->delay && !a->delay[i])
            return err_set(err, ERR_INVALID, "synapse.delay[%lld] is 0; expected 1 to %d ticks", (long long)i, SPIKE_MOST_DELAY);
    }
    return 0;
}

/* The longest delay. The sums of all its ticks have 32-bit places. */
static int check_delays(const struct connectome_arrays *a, int *ret, struct err *err) {
    int most = 1;
    for (int64_t i = 0; a->delay && i < a->synapses; i++)
        most = a->delay[i] > most ? a->delay[i] : most;
    if ((uint64_t)most * connectome_padded(a->neurons) > UINT32_MAX)
        return err_set(err, ERR_INVALID, "synapse.delay reaches %d; expected at most %lld with %lld neurons", most,
                       (long long)(UINT32_MAX / connectome_padded(a->neurons)), (long long)a->neurons);
    *ret = most;
    return 0;
}

/* ---- building -------------------------------------------------------------------------------------------------- */

static void put_neurons(struct connectome *c, const struct connectome_arrays *a) {
    struct spike_net *net = &c->net;
    size_t n = net->n;
    memcpy(net->threshold, a->threshold, n * sizeof *net->threshold);
#define PUT(name)                                                                                                                  \
    if (a->name)                                                                                                                   \
    memcpy(net->name, a->name, n * sizeof *net->name)
    PUT(v);
    PUT(leak);
    PUT(excitability);
    PUT(refractory);
    PUT(snooze);
#undef PUT
    for (size_t i = 0; i < n; i++) {
        if (a->threshold_limit && a->threshold_limit[i] > 0)
            net->threshold_limit[i] = a->threshold_limit[i];
        if (a->fire_limit && a->fire_limit[i])
            net->fire_limit[i] = a->fire_limit[i];
        if (a->accumulate && !a->accumulate[i])
            net->flags[i] = SPIKE_ALIVE;
        c->area[i] = a->area ? a->area[i] : 0;
    }
}

static int put_currents(struct connectome *c, const struct connectome_arrays *a, struct err *err) {
    size_t n = c->net.n;
    if (!a->current_gain)
        return 0;
#define PUT(type, name)                                                                                                            \
    if (!(c->net.name = zeroed(connectome_padded((int64_t)n) * sizeof(type))))                                                     \
        return err_set(err, ERR_EXHAUSTED, "out of memory for the currents of %zu neurons", n);                                    \
    if (a->name)                                                                                                                   \
        memcpy(c->net.name, a->name, n * sizeof(type));
    CONNECTOME_CURRENTS(PUT)
#undef PUT
    return 0;
}

/* Packed rows have one p and no delay. */
static bool needs_wide(struct connectome *c, const struct connectome_arrays *a) {
    uint8_t *seen = c->base_psp;
    bool wide = c->net.n > SPIKE_PACKED_NEURONS || c->net.delays > 1;
    for (int64_t i = 0; i < a->synapses; i++) {
        uint32_t src = a->src[i];
        if (!connectome_owns(c, a->dst[i]))
            continue;
        if (c->net.row[src + 1]++ == 0)
            seen[src] = a->psp[i];
        else
            wide |= seen[src] != a->psp[i];
    }
    return wide;
}

/* Each synapse to the next free place of its row; live counts what is taken. */
static void put_synapses(struct connectome *c, const struct connectome_arrays *a) {
    memset(c->net.live, 0, c->net.n * sizeof *c->net.live);
    for (int64_t i = 0; i < a->synapses; i++) {
        uint32_t src = a->src[i];
        if (!connectome_owns(c, a->dst[i]))
            continue;
        int weight = a->type[i] ? -(int)a->weight[i] : a->weight[i];
        const struct connectome_synapse y = {a->dst[i], weight, a->psp[i], a->delay ? a->delay[i] : 1};
        connectome_set(c, c->net.row[src] + c->net.live[src]++, y);
    }
}

/* A shard of a network in which areas divide. */
static int count_whole(struct connectome *c, const struct connectome_arrays *a, struct err *err) {
    bool divides = false;
    for (int i = 0; i < a->n_areas; i++)
        divides |= a->areas[i].psp_divide;
    if (!divides || a->shard.count < 2)
        return 0;
    uint32_t *whole = calloc(c->net.n, sizeof *whole);
    if (!whole)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the divisors of %u neurons", c->net.n);
    for (int64_t i = 0; i < a->synapses; i++)
        whole[a->src[i]]++;
    int rc = connectome_whole_divisors(c, whole, err);
    free(whole);
    return rc;
}

static int build(const struct connectome_arrays *arrays, int64_t max_bytes, struct connectome **ret, struct err *err) {
    struct connectome *c = NULL;
    int delays = 1;
    if (!arrays->threshold)
        return err_set(err, ERR_INVALID, "neuron.threshold is missing");
    int rc;
    if ((rc = check_sizes(arrays, max_bytes, err)) || (rc = check_areas(arrays, err)) || (rc = check_neurons(arrays, err)) ||
        (rc = check_synapses(arrays, err)) || (rc = check_delays(arrays, &delays, err)) ||
        (rc = connectome_alloc(arrays->neurons, arrays->shard, arrays->areas, arrays->n_areas, &c, err)))
        return rc;
    c->net.delays = delays;
    c->net.seed = arrays->seed;
    c->whole = arrays->synapses;
    put_neurons(c, arrays);
    bool wide = needs_wide(c, arrays);
    if (!(rc = put_currents(c, arrays, err)) && !(rc = connectome_alloc_rows(c, wide, max_bytes, err))) {
        put_synapses(c, arrays);
        rc = count_whole(c, arrays, err);
        rc = rc ? rc : connectome_finish(c, err);
    }
    return GIVEN(ret, c, connectome_free, rc);
}

int connectome_new(const struct connectome_arrays *arrays, int64_t max_bytes, struct connectome **ret, struct err *err) {
    unsigned was = subnormals_keep(); /* a threshold_limit of 1e-40 is one on every thread */
    int rc = build(arrays, max_bytes, ret, err);
    subnormals_restore(was);
    return rc;
}

/* ---- back to arrays -------------------------------------------------------------------------------------------- */

/* Pieces of one allocation, each aligned. */
static void *take(char **at, size_t bytes) {
    void *p = *at;
    *at += (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return p;
}

static void export_synapses(const struct connectome *c, char **at, struct connectome_arrays *ret) {
    size_t s = (size_t)c->synapses;
    uint32_t *src = take(at, s * sizeof *src), *dst = take(at, s * sizeof *dst);
    uint8_t *weight = take(at, s), *psp = take(at, s), *type = take(at, s), *delay = take(at, s);
    size_t k = 0;
    for (uint32_t i = 0; i < c->net.n; i++)
        for (uint32_t j = 0; j < c->net.live[i]; j++, k++) {
            struct connectome_synapse y = connectome_at(c, i, j);
            src[k] = i;
            dst[k] = y.target;
            weight[k] = (uint8_t)abs(y.weight);
            psp[k] = y.psp;
            type[k] = y.weight < 0;
            delay[k] = y.delay;
        }
    ret->src = src;
    ret->dst = dst;
    ret->weight = weight;
    ret->psp = psp;
    ret->type = type;
    ret->delay = c->net.delays > 1 ? delay : NULL;
}

int connectome_export(const struct connectome *c, struct connectome_arrays *ret, void **ret_memory, struct err *err) {
    size_t n = c->net.n, room = (size_t)c->synapses * 12 + n * 8 + 16 * ALIGNMENT;
    char *memory = zeroed(room), *at = memory;
    if (!memory)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld synapses as arrays", (long long)c->synapses);
    const struct spike_net *net = &c->net;
    struct connectome_arrays a = {.neurons = (int64_t)n,
                                  SAME_MEMBERS(*c, synapses, area, areas),
                                  SAME_MEMBERS(*net, threshold, v, leak, excitability, refractory, fire_limit, snooze),
                                  SAME_MEMBERS(*net, current, current_leak, current_gain, seed),
                                  .n_areas = c->n_areas};
    float *limit = take(&at, n * sizeof *limit);
    uint8_t *accumulate = take(&at, n);
    for (size_t i = 0; i < n; i++) {
        limit[i] = isinf(net->threshold_limit[i]) ? 0 : net->threshold_limit[i];
        accumulate[i] = net->flags[i] & SPIKE_ACCUMULATES ? 1 : 0;
    }
    a.threshold_limit = limit;
    a.accumulate = accumulate;
    export_synapses(c, &at, &a);
    *ret = a;
    *ret_memory = memory;
    return 0;
}
