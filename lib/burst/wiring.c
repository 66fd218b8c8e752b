#include "burst/wiring.h"

#include "base/rng.h"
#include "burst/connectome_rows.h"
#include "kernels/lanes.h"

#define DELAY_DRAWS (UINT64_C(1) << 40) /* index of the first */

static const char *const kinds[] = {"random", "ring", "layered"};

void wiring_default(struct wiring *w) {
    *w = (struct wiring){.kind = WIRING_RANDOM,
                         .neurons = 1000,
                         .fan_out = 100,
                         .layers = 5,
                         .seed = 1,
                         .inhibitory = 0.2,
                         .weight_low = 1,
                         .weight_high = 255,
                         .delay_low = 1,
                         .delay_high = 1,
                         .psp = 1,
                         .threshold = 1000,
                         .leak = 0.1f,
                         .excitability = 1,
                         .refractory = 2};
}

int wiring_kind_of(const char *name, enum wiring_kind *ret, struct err *err) {
    const int i = STR_AMONG(name, kinds);
    if (i < 0)
        return err_set(err, ERR_INVALID, "a network of kind '%s' is unknown; expected random, ring or layered", name);
    *ret = (enum wiring_kind)i;
    return 0;
}

static bool is_wide(const struct wiring *w) { return w->neurons > SPIKE_PACKED_NEURONS || w->delay_high > 1; }

static int check(const struct wiring *w, int64_t max_bytes, struct err *err) {
    if (w->neurons < 1 || w->neurons > (int64_t)SPIKE_MOST_NEURONS)
        return err_set(err, ERR_INVALID, "%lld neurons; expected 1 to %lld", (long long)w->neurons, (long long)SPIKE_MOST_NEURONS);
    if (w->fan_out < 0 || w->fan_out > w->neurons || w->fan_out > (int64_t)UINT32_MAX / w->neurons)
        return err_set(
            err, ERR_INVALID,
            "%lld synapses for each of %lld neurons; expected at most as many as there are neurons, and fewer than 2^32 in all",
            (long long)w->fan_out, (long long)w->neurons);
    if (w->kind == WIRING_LAYERED && (w->layers < 2 || w->layers > CONNECTOME_MOST_AREAS || w->layers > w->neurons))
        return err_set(err, ERR_INVALID, "%d layers; expected 2 to %d, and no more than neurons", w->layers, CONNECTOME_MOST_AREAS);
    if (w->weight_low < 0 || w->weight_high > 255 || w->weight_low > w->weight_high)
        return err_set(err, ERR_INVALID, "weights from %d to %d; expected a range within 0 to 255", w->weight_low, w->weight_high);
    if (w->delay_low < 1 || w->delay_high > SPIKE_MOST_DELAY || w->delay_low > w->delay_high)
        return err_set(err, ERR_INVALID, "delays from %d to %d ticks; expected a range within 1 to %d", w->delay_low, w->delay_high,
                       SPIKE_MOST_DELAY);
    if ((uint64_t)w->delay_high * connectome_padded(w->neurons) > UINT32_MAX)
        return err_set(err, ERR_INVALID, "delays of %d ticks; expected at most %lld with %lld neurons", w->delay_high,
                       (long long)(UINT32_MAX / connectome_padded(w->neurons)), (long long)w->neurons);
    if (w->psp < 0 || w->psp > 255 || w->refractory < 0 || w->refractory > 65535)
        return err_set(err, ERR_INVALID, "psp %d, refractory %d; expected 0 to 255 and 0 to 65535", w->psp, w->refractory);
    if (!(w->inhibitory >= 0 && w->inhibitory <= 1) || !(w->leak >= 0 && w->leak <= 1))
        return err_set(err, ERR_INVALID, "inhibitory %g, leak %g; expected 0 to 1", w->inhibitory, (double)w->leak);
    if (isnan(w->threshold) || isnan(w->excitability) || !isfinite(w->power) || fabsf(w->power) >= 0x1p40f)
        return err_set(err, ERR_INVALID, "threshold %g, excitability %g, power %g; expected numbers", (double)w->threshold,
                       (double)w->excitability, (double)w->power);
    return connectome_check_room(w->neurons, w->shard.count > 1 ? 0 : w->neurons * w->fan_out, is_wide(w), max_bytes, err);
}

/* Layer l begins at neuron l·n/layers. */
static int64_t layer_start(const struct wiring *w, int64_t layer) { return layer * w->neurons / w->layers; }

static int layer_of(const struct wiring *w, int64_t neuron) {
    int64_t layer = neuron * w->layers / w->neurons;
    while (layer + 1 < w->layers && layer_start(w, layer + 1) <= neuron)
        layer++;
    return (int)layer;
}

static int64_t senders_of(const struct wiring *w) { return w->kind == WIRING_LAYERED ? layer_start(w, w->layers - 1) : w->neurons; }

/* One row: first whether the source is inhibitory, then per synapse its target and its weight. Delays have draws of their own;
 * returns the longest. */
static int draw_row(const struct wiring *w, struct connectome *c, uint32_t source, bool put) {
    struct rng rng, later;
    int64_t first = 0, range = w->neurons;
    int longest = 1;
    rng_init(&rng, w->seed, RNG_WIRING, source);
    rng_init(&later, w->seed, RNG_WIRING, source);
    later.index = DELAY_DRAWS;
    int sign = rng_unit_f32(rng_u32(&rng)) < w->inhibitory ? -1 : 1;
    if (w->kind == WIRING_LAYERED) {
        int layer = layer_of(w, source);
        first = layer_start(w, layer + 1);
        range = layer_start(w, layer + 2) - first;
    }
    uint32_t spread = (uint32_t)(w->weight_high - w->weight_low + 1), delays = (uint32_t)(w->delay_high - w->delay_low + 1);
    int64_t at = put ? c->net.row[source] : 0, fan_out = source < (uint64_t)senders_of(w) ? w->fan_out : 0;
    for (int64_t k = 0; k < fan_out; k++) {
        uint32_t target = w->kind == WIRING_RING ? (uint32_t)(((int64_t)source + 1 + k) % w->neurons)
                                                 : (uint32_t)first + (uint32_t)((uint64_t)rng_u32(&rng) * (uint64_t)range >> 32);
        int weight = w->weight_low + (int)((uint64_t)rng_u32(&rng) * spread >> 32);
        int delay = w->delay_low + (delays > 1 ? (int)((uint64_t)rng_u32(&later) * delays >> 32) : 0);
        longest = delay > longest ? delay : longest;
        if (!connectome_owns(c, target))
            continue;
        if (put)
            connectome_set(c, at, (struct connectome_synapse){target, sign * weight, (uint8_t)w->psp, (uint8_t)delay});
        at++;
    }
    if (!put)
        c->net.row[source + 1] = at;
    c->base_psp[source] = (uint8_t)w->psp;
    return longest;
}

enum { DRAWN_ROWS = 1024 /* at a time */ };

struct drawing {
    const struct wiring *w;
    struct connectome *c;
    bool put;
    atomic_int *longest;
};

static void draw_block(const void *ctx, int64_t block, int lane) {
    const struct drawing *d = ctx;
    const int64_t first = block * DRAWN_ROWS, end = first + DRAWN_ROWS < d->c->net.n ? first + DRAWN_ROWS : d->c->net.n;
    int longest = 1, before = atomic_load(d->longest);
    (void)lane;
    for (int64_t i = first; i < end; i++) {
        const int delay = draw_row(d->w, d->c, (uint32_t)i, d->put);
        longest = delay > longest ? delay : longest;
    }
    while (before < longest && !atomic_compare_exchange_weak(d->longest, &before, longest))
        ;
}

/* Returns the longest delay. */
static int draw_rows(const struct wiring *w, struct connectome *c, bool put) {
    atomic_int longest = 1;
    lanes_for(lanes_here(), ((int64_t)c->net.n + DRAWN_ROWS - 1) / DRAWN_ROWS, draw_block, &(struct drawing){w, c, put, &longest});
    return atomic_load(&longest);
}

static int make_areas(const struct wiring *w, struct connectome_area **ret, int *ret_n, struct err *err) {
    int n = w->kind == WIRING_LAYERED ? w->layers : 1;
    struct connectome_area *areas = calloc((size_t)n, sizeof *areas);
    if (!areas)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d areas", n);
    for (int i = 0; i < n; i++)
        str_format(areas[i].name, sizeof areas[i].name, w->kind == WIRING_LAYERED ? "layer-%d" : "all", i + 1);
    areas[0].power = w->power;
    *ret = areas;
    *ret_n = n;
    return 0;
}

static void set_neurons(const struct wiring *w, struct connectome *c) {
    int64_t senders = senders_of(w);
    c->whole = senders * w->fan_out;
    for (int64_t i = 0; i < w->neurons; i++) {
        c->net.threshold[i] = w->threshold;
        c->net.leak[i] = w->leak;
        c->net.excitability[i] = w->excitability;
        c->net.refractory[i] = (uint16_t)w->refractory;
        c->area[i] = w->kind == WIRING_LAYERED ? (uint32_t)layer_of(w, i) : 0;
        c->net.row[i + 1] = i < senders ? w->fan_out : 0;
    }
}

int wiring_make(const struct wiring *w, int64_t max_bytes, struct connectome **ret, struct err *err) {
    OWNED_MEMORY struct connectome_area *areas = NULL;
    struct connectome *c = NULL;
    int n_areas = 0, rc;
    if ((rc = check(w, max_bytes, err)) || (rc = make_areas(w, &areas, &n_areas, err)) ||
        (rc = connectome_alloc(w->neurons, w->shard, areas, n_areas, &c, err)))
        return rc;
    set_neurons(w, c);
    if (w->shard.count > 1)
        draw_rows(w, c, false);
    if (!(rc = connectome_alloc_rows(c, is_wide(w), max_bytes, err))) {
        c->net.delays = draw_rows(w, c, true);
        rc = connectome_finish(c, err);
    }
    return GIVEN(ret, c, connectome_free, rc);
}
