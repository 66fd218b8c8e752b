/* spike_body: one range of targets in one tick, in plain C that the compiler turns into vectors; each spike_<isa>.c compiles it for
 * its instruction set. The arithmetic is that of kernels/spike.h, operation for operation, so every set gives the same bits. */
#pragma once
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/spike_job.h"

enum {
    LINE = 64,        /* bytes */
    LANES = 16,       /* synapses that are decoded at once; those behind the end of a row are decoded too, and ignored */
    ROOM = 4096,      /* synapses that are decoded before they are added */
    SUMS_AHEAD = 32,  /* synapses whose sums are fetched ahead */
    ROWS_AHEAD = 8,   /* rows whose synapses are fetched ahead */
    SPANS_AHEAD = 64, /* rows whose spans are fetched ahead */
    MOST_LINES = 16   /* of a row that are fetched ahead; the processor fetches the rest by itself */
};

#define INLINE static inline __attribute__((always_inline))

/* ---- delivery -------------------------------------------------------------------------------------------------- */

/* Synapses of several rows, decoded. One loop reads the rows, another one adds to the sums: both wait for memory, and a single loop
 * keeps fewer accesses in flight (with a million neurons it took twice as long). */
struct delivery {
    int n;
    uint32_t target[ROOM + SUMS_AHEAD];
    union {
        int32_t narrow[ROOM + LANES]; /* in the common case: packed rows, 32-bit sums, no division */
        int64_t wide[ROOM];           /* else */
    } units;
};

INLINE const uint32_t *span_of(const struct spike_net *net, uint32_t source) {
    return net->span + (size_t)source * SPIKE_SPAN_WORDS(net->parts);
}

/* Of the tick. */
INLINE uint32_t ring_row(const struct spike_tick_args *a) {
    return (uint32_t)((a->before.counts->tick + 1) % (uint64_t)a->net.delays);
}

/* The synapses of a source in the range. */
INLINE void segment_of(const struct spike_net *net, uint32_t source, int part, int64_t *ret_first, int64_t *ret_end) {
    const uint32_t *span = span_of(net, source);
    int64_t row;
    memcpy(&row, span, sizeof row);
    *ret_first = row + (part > 0 ? span[1 + part] : 0);
    *ret_end = row + span[2 + part];
}

INLINE void fetch_segment(const struct spike_net *net, uint32_t source, int part, size_t each) {
    int64_t first, end;
    segment_of(net, source, part, &first, &end);
    const char *from = (const char *)net->synapses + (size_t)first * each, *to = (const char *)net->synapses + (size_t)end * each;
    to = to > from + MOST_LINES * LINE ? from + MOST_LINES * LINE : to;
    for (; from < to; from += LINE)
        __builtin_prefetch(from, 0, 3);
}

/* Sums start as "no input", which the first input replaces. */
INLINE void add_32(int32_t *sum, int32_t units) {
    int32_t was = *sum;
    *sum = (was == SPIKE_NO_INPUT_32 ? 0 : was) + units;
}
INLINE void add_64(int64_t *sum, int64_t units) {
    int64_t was = *sum;
    *sum = (was == SPIKE_NO_INPUT_64 ? 0 : was) + units;
}

/* Adds all units to their targets' sums; the sums of later targets are fetched meanwhile. */
INLINE void add_units(struct delivery *d, void *sums, bool wide_sums, bool plain) {
    size_t each = wide_sums ? sizeof(int64_t) : sizeof(int32_t);
    for (int i = 0; i < SUMS_AHEAD; i++)
        d->target[d->n + i] = d->target[0];
    for (int i = 0; i < d->n; i++) {
        __builtin_prefetch((char *)sums + d->target[i + SUMS_AHEAD] * each, 1, 3);
        if (wide_sums)
            add_64((int64_t *)sums + d->target[i], d->units.wide[i]);
        else
            add_32((int32_t *)sums + d->target[i], plain ? d->units.narrow[i] : (int32_t)d->units.wide[i]);
    }
    d->n = 0;
}

INLINE void decode_packed(const spike_packed *y, int n, uint32_t factor, struct delivery *d) {
    uint32_t *target = d->target + d->n;
    int32_t *units = d->units.narrow + d->n;
    for (int at = 0; at < n; at += LANES)
        for (int i = at; i < at + LANES; i++) {
            target[i] = spike_packed_target(y[i]);
            units[i] = (int32_t)((uint32_t)spike_packed_weight(y[i]) * factor);
        }
}

/* rows: where the sums of each delay begin. */
INLINE void decode_any(const struct spike_net *net, const uint32_t *rows, uint32_t source, uint8_t psp, int64_t at, int n,
                       struct delivery *d) {
    bool own = net->wide && !(net->flags[source] & SPIKE_MP_DRIVEN);
    uint32_t k = net->divisor && net->flags[source] & SPIKE_DIVIDES ? net->divisor[source] : 1, *target = d->target + d->n;
    int64_t one = (int64_t)1 << net->fraction_bits, *units = d->units.wide + d->n;
    if (net->wide) {
        const struct spike_wide *y = (const struct spike_wide *)net->synapses + at;
        for (int i = 0; i < n; i++) {
            target[i] = y[i].target;
            units[i] = (int32_t)y[i].weight * (own ? y[i].psp : psp) * one;
        }
        for (int i = 0; net->delays > 1 && i < n; i++)
            target[i] += rows[y[i].later];
    } else {
        const spike_packed *y = (const spike_packed *)net->synapses + at;
        for (int i = 0; i < n; i++) {
            target[i] = spike_packed_target(y[i]);
            units[i] = spike_packed_weight(y[i]) * psp * one;
        }
    }
    if (k > 1)
        for (int i = 0; i < n; i++)
            units[i] = spike_divided(units[i], k);
}

INLINE uint64_t deliver(const struct spike_tick_args *a, int part, bool plain, bool wide_sums) {
    const struct spike_net *net = &a->net;
    const uint32_t *ids = a->before.ids, n = a->before.counts->fired;
    size_t each = net->wide ? sizeof(struct spike_wide) : sizeof(spike_packed);
    uint64_t events = 0;
    uint32_t rows[SPIKE_MOST_DELAY], now = ring_row(a);
    struct delivery d;
    d.n = 0;
    for (int later = 0; later < net->delays; later++)
        rows[later] = spike_sums_at(net, now, (uint32_t)later);
    for (uint32_t i = 0; i < n; i++) {
        int64_t first, end;
        if (i + SPANS_AHEAD < n)
            __builtin_prefetch(span_of(net, ids[i + SPANS_AHEAD]) + part, 0, 3);
        if (i + ROWS_AHEAD < n)
            fetch_segment(net, ids[i + ROWS_AHEAD], part, each);
        segment_of(net, ids[i], part, &first, &end);
        events += (uint64_t)(end - first);
        while (first < end) {
            int take = end - first < ROOM - d.n ? (int)(end - first) : ROOM - d.n;
            if (plain)
                decode_packed((const spike_packed *)net->synapses + first, take, (uint32_t)a->before.psp[i] << net->fraction_bits,
                              &d);
            else
                decode_any(net, rows, ids[i], a->before.psp[i], first, take, &d);
            first += take;
            d.n += take;
            if (d.n == ROOM)
                add_units(&d, net->sums, wide_sums, plain);
        }
    }
    add_units(&d, net->sums, wide_sums, plain);
    return events;
}

static uint64_t deliver_part(const struct spike_tick_args *a, int part) {
    const struct spike_net *net = &a->net;
    if (net->wide_sums)
        return deliver(a, part, false, true);
    return net->wide || net->divisor ? deliver(a, part, false, false) : deliver(a, part, true, false);
}

/* ---- neurons --------------------------------------------------------------------------------------------------- */

/* One block: inputs, a mask of neurons that have one, membranes that fired, a mask of neurons that fired. */
struct block {
    float input[SPIKE_BLOCK], x[SPIKE_BLOCK];
    int32_t may[SPIKE_BLOCK], keeps[SPIKE_BLOCK], lucky[SPIKE_BLOCK], fires[SPIKE_BLOCK];
    uint32_t candidates;
};

/* Takes the block's sums away. Returns whether there is any. Sums of 32 bits become the inputs of the block. */
INLINE int32_t take_32(int32_t *sums, float unit, struct block *b) {
    int32_t any = 0;
    for (int i = 0; i < SPIKE_BLOCK; i++) {
        int32_t sum = sums[i], may = -(int32_t)(sum != SPIKE_NO_INPUT_32);
        b->may[i] = may;
        b->input[i] = (float)(sum & may) * unit;
        any |= may;
    }
    if (any)
        for (int i = 0; i < SPIKE_BLOCK; i++)
            sums[i] = SPIKE_NO_INPUT_32;
    return any;
}
INLINE int32_t take_64(int64_t *sums, float unit, struct block *b) {
    int32_t any = 0;
    for (int i = 0; i < SPIKE_BLOCK; i++) {
        int64_t sum = sums[i];
        int32_t may = -(int32_t)(sum != SPIKE_NO_INPUT_64);
        b->may[i] = may;
        b->input[i] = (float)(may ? sum : 0) * unit;
        any |= may;
        sums[i] = SPIKE_NO_INPUT_64;
    }
    return any;
}

/* The injections of the block from *at on join its sums before these become floats. */
INLINE void inject_block(const struct spike_tick_args *a, uint32_t first, const int64_t *delivered, int64_t *at, float unit,
                         struct block *b) {
    for (; *at < a->n_inject && a->inject_ids[*at] < first + SPIKE_BLOCK; ++*at) {
        uint32_t i = a->inject_ids[*at] - first;
        b->input[i] = (float)(delivered[i] + a->inject_sums[*at]) * unit;
        b->may[i] = -1;
    }
}

/* What areas give to all their neurons joins their sums before these become floats. */
INLINE void drive_block(const struct spike_tick_args *a, uint32_t first, int64_t *delivered, float unit, struct block *b) {
    const struct spike_net *net = &a->net;
    for (uint32_t i = 0; i < SPIKE_BLOCK; i += 4) {
        uint32_t words[4];
        spike_event_words(net->seed, first + i, a->before.counts->tick + 1, words);
        for (uint32_t k = i; k < i + 4; k++) {
            const struct spike_drive *drive = &net->drive[net->area[first + k]];
            if (drive->constant || drive->event) {
                delivered[k] += spike_driven(drive, words[k % 4]);
                b->input[k] = (float)delivered[k] * unit;
                b->may[k] = -1;
            }
        }
    }
}

/* Neurons with exponential synapses, all of them candidates: their currents are the inputs. */
INLINE void current_block(const struct spike_net *net, uint32_t first, struct block *b) {
    const float *leak = net->current_leak + first, *gain = net->current_gain + first;
    const uint8_t *flags = net->flags + first;
    float *current = net->current + first;
#pragma omp simd
    for (int i = 0; i < SPIKE_BLOCK; i++) {
        int32_t has = -(int32_t)(gain[i] != 0.0f) & -(int32_t)(flags[i] & SPIKE_ALIVE);
        float now = current[i], input = spike_current(&now, leak[i], gain[i], b->input[i]);
        b->input[i] = has ? input : b->input[i];
        current[i] = has ? now : current[i];
        b->may[i] |= has;
    }
}

INLINE void draw_block(const struct spike_net *net, uint32_t first, uint32_t tick, struct block *b) {
    const float *excitability = net->excitability + first;
    for (uint32_t i = 0; i < SPIKE_BLOCK; i++)
        b->lucky[i] = spike_lucky(excitability[i], first + i, tick);
}

/* Marks the candidates of the block that are alive. Membranes that do not accumulate begin at 0. */
INLINE void begin_block(const struct spike_net *net, uint32_t first, bool all, struct block *b) {
    const uint8_t *flags = net->flags + first;
    float *v = net->v + first;
#pragma omp simd
    for (int i = 0; i < SPIKE_BLOCK; i++) {
        b->may[i] = (all ? -1 : b->may[i]) & -(int32_t)(flags[i] & SPIKE_ALIVE);
        b->keeps[i] = -(int32_t)(flags[i] >> 1 & 1); /* SPIKE_ACCUMULATES */
        v[i] = b->keeps[i] ? v[i] : 0.0f;
    }
}

INLINE void advance_block(const struct spike_net *net, uint32_t first, unsigned features, struct block *b) {
    bool limits = features & SPIKE_LIMITED;
    float *v = net->v + first;
    const float *threshold = net->threshold + first, *threshold_limit = net->threshold_limit + first, *leak = net->leak + first;
    const uint16_t *refractory = net->refractory + first, *fire_limit = net->fire_limit + first, *snooze = net->snooze + first;
    uint16_t *countdown = net->countdown + first, *fire_count = net->fire_count + first;
#pragma omp simd
    for (int i = 0; i < SPIKE_BLOCK; i++) {
        struct spike_neuron u = {.v = v[i],
                                 .threshold = threshold[i],
                                 .threshold_limit = threshold_limit[i],
                                 .leak = leak[i],
                                 .refractory = refractory[i],
                                 .countdown = countdown[i],
                                 .fire_limit = limits ? fire_limit[i] : SPIKE_UNLIMITED,
                                 .snooze = limits ? snooze[i] : 0,
                                 .fire_count = limits ? fire_count[i] : 0};
        b->fires[i] =
            spike_advance(&u, b->input[i], b->may[i], features & SPIKE_PROBABILISTIC ? b->lucky[i] : -1, limits, &b->x[i]);
        v[i] = u.v;
        countdown[i] = (uint16_t)u.countdown;
        if (limits)
            fire_count[i] = (uint16_t)u.fire_count;
    }
}

/* 0 for +0 alone: a membrane of −0 becomes +0 in the next tick. */
INLINE int32_t bits_of(float v) {
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* One block from its inputs on; returns whether any neuron of it fires. */
INLINE int32_t run_block(const struct spike_net *net, uint32_t first, uint32_t tick, unsigned features, struct block *b) {
    const float *v = net->v + first;
    int32_t any = 0, stale = 0, candidates = 0;
    if (features & SPIKE_PROBABILISTIC)
        draw_block(net, first, tick, b);
    begin_block(net, first, features & SPIKE_EVERY_TICK, b);
    advance_block(net, first, features, b);
    for (int i = 0; i < SPIKE_BLOCK; i++) {
        any |= b->fires[i];
        stale |= ~b->keeps[i] & bits_of(v[i]);
        candidates -= b->may[i];
    }
    net->stale[first / SPIKE_BLOCK] = stale != 0;
    b->candidates = (uint32_t)candidates;
    return any;
}

/* A bit for each neuron of the block that fires. */
INLINE uint64_t fired_bits(const struct block *b) {
    uint64_t bits = 0;
#if defined(__AVX2__)
    for (int i = 0; i < SPIKE_BLOCK; i += 8) {
        __m256 lanes = _mm256_loadu_ps((const float *)(const void *)&b->fires[i]);
        bits |= (uint64_t)(uint32_t)_mm256_movemask_ps(lanes) << i;
    }
#else
    for (int i = 0; i < SPIKE_BLOCK; i++)
        bits |= (uint64_t)(b->fires[i] & 1) << i;
#endif
    return bits;
}

INLINE uint32_t list_fired(const struct spike_tick_args *a, uint32_t first, const struct block *b, uint32_t at) {
    for (uint64_t bits = fired_bits(b); bits; bits &= bits - 1) {
        uint32_t i = (uint32_t)__builtin_ctzll(bits), id = first + i;
        if (a->net.flags[id] & SPIKE_MP_DRIVEN)
            a->net.psp[id] = spike_psp_of(b->x[i]);
        a->after.ids[at] = id;
        a->after.psp[at++] = a->net.psp[id];
    }
    return at;
}

/* The first injection at or after a neuron. */
static int64_t injection_from(const struct spike_tick_args *a, uint32_t first) {
    int64_t low = 0, high = a->n_inject;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (a->inject_ids[middle] < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

INLINE void advance_part(const struct spike_tick_args *a, uint32_t from, uint32_t to, unsigned features, struct spike_part *ret) {
    const struct spike_net *net = &a->net;
    float unit = 1.0f / (float)(1 << net->fraction_bits);
    uint32_t tick = (uint32_t)(a->before.counts->tick + 1), listed = from, candidates = 0;
    int64_t at = injection_from(a, from);
    size_t row = spike_sums_at(net, ring_row(a), 0);
    int32_t *narrow_sums = net->wide_sums ? NULL : (int32_t *)net->sums + row;
    int64_t *wide_sums = net->wide_sums ? (int64_t *)net->sums + row : NULL;
    struct block b;
    for (uint32_t first = from; first < to; first += SPIKE_BLOCK) {
        bool injected = at < a->n_inject && a->inject_ids[at] < first + SPIKE_BLOCK;
        int64_t delivered[SPIKE_BLOCK];
        for (int i = 0; (injected || features & SPIKE_DRIVES) && i < SPIKE_BLOCK; i++) {
            int64_t sum = wide_sums ? wide_sums[first + (uint32_t)i] : narrow_sums[first + (uint32_t)i];
            delivered[i] = sum == (wide_sums ? SPIKE_NO_INPUT_64 : SPIKE_NO_INPUT_32) ? 0 : sum;
        }
        int32_t any = wide_sums ? take_64(wide_sums + first, unit, &b) : take_32(narrow_sums + first, unit, &b);
        if (!any && !injected && !net->stale[first / SPIKE_BLOCK] &&
            !(features & (SPIKE_EVERY_TICK | SPIKE_DRIVES | SPIKE_CURRENTS)))
            continue;
        if (features & SPIKE_DRIVES)
            drive_block(a, first, delivered, unit, &b);
        if (injected)
            inject_block(a, first, delivered, &at, unit, &b);
        if (features & SPIKE_CURRENTS)
            current_block(net, first, &b);
        any = run_block(net, first, tick, features, &b);
        candidates += b.candidates;
        if (any)
            listed = list_fired(a, first, &b, listed);
    }
    ret->fired = listed - from;
    ret->candidates = candidates;
}

static void spike_part(const void *ctx, int64_t part, int lane) {
    const struct spike_tick *tick = ctx;
    const struct spike_tick_args *a = tick->args;
    struct spike_part *ret = &tick->parts[part];
    uint32_t padded = spike_padded(a->net.end);
    (void)lane;
    uint64_t from = a->net.first + (uint64_t)part * a->net.part_neurons, to = from + a->net.part_neurons;
    from = from < padded ? from : padded;
    to = to < padded ? to : padded;
    ret->events = deliver_part(a, (int)part);
    switch (a->net.features) {
    case 0:
        advance_part(a, (uint32_t)from, (uint32_t)to, 0, ret);
        break;
    case SPIKE_PROBABILISTIC:
        advance_part(a, (uint32_t)from, (uint32_t)to, SPIKE_PROBABILISTIC, ret);
        break;
    case SPIKE_LIMITED:
        advance_part(a, (uint32_t)from, (uint32_t)to, SPIKE_LIMITED, ret);
        break;
    case SPIKE_PROBABILISTIC | SPIKE_LIMITED:
        advance_part(a, (uint32_t)from, (uint32_t)to, SPIKE_PROBABILISTIC | SPIKE_LIMITED, ret);
        break;
    default:
        advance_part(a, (uint32_t)from, (uint32_t)to, a->net.features | SPIKE_PROBABILISTIC | SPIKE_LIMITED, ret);
        break;
    }
}

const struct spike_kernels SPIKE_KERNELS = {.isa = SPIKE_ISA, .part = spike_part};
