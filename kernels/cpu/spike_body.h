/* spike_body: one range of targets in one tick, in plain C that the compiler turns into vectors; each spike_<isa>.c compiles it for
 * its instruction set. The arithmetic is that of kernels/spike.h, operation for operation, so every set gives the same bits. */
#ifndef BRR_KERNELS_CPU_SPIKE_BODY_H
#define BRR_KERNELS_CPU_SPIKE_BODY_H
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/cpu/spike_job.h"

enum {
    AHEAD = 6,
    CHUNK = 64,
    LINE = 64,
    MOST_LINES = 16
}; /* rows and cache lines that are fetched ahead; synapses worked on at once */

#define INLINE static inline __attribute__((always_inline))

/* ---- delivery -------------------------------------------------------------------------------------------------- */

/* The synapses of source i in the range. */
INLINE void segment_of(const struct spike_net *net, uint32_t source, int part, int64_t *ret_first, int64_t *ret_end) {
    const uint32_t *cut = net->cut + (int64_t)source * (net->parts - 1);
    int64_t row = net->row[source];
    *ret_first = row + (part > 0 ? cut[part - 1] : 0);
    *ret_end = row + (part < net->parts - 1 ? cut[part] : net->live[source]);
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

/* The common case: packed rows, 32-bit sums, no division. The sums that the row `next` of m synapses will need are fetched
 * meanwhile: additions go to random lines, and a core by itself looks only some thirty synapses ahead. */
INLINE void deliver_packed(int32_t *sums, const spike_packed *y, int64_t n, const spike_packed *next, int64_t m, int32_t factor) {
    int64_t both = n < m ? n : m, i = 0;
    for (; i < both; i++) {
        __builtin_prefetch(&sums[spike_packed_target(next[i])], 1, 3);
        add_32(&sums[spike_packed_target(y[i])], spike_packed_weight(y[i]) * factor);
    }
    for (; i < n; i++)
        add_32(&sums[spike_packed_target(y[i])], spike_packed_weight(y[i]) * factor);
}

/* Every other case, CHUNK synapses at a time: first their units, in vectors, then the additions. */
INLINE void deliver_any(const struct spike_net *net, uint32_t source, uint8_t psp, int64_t first, int64_t end) {
    bool own = net->wide && !(net->flags[source] & SPIKE_MP_DRIVEN);
    uint32_t k = net->divisor && net->flags[source] & SPIKE_DIVIDES ? net->divisor[source] : 1;
    int64_t one = (int64_t)1 << net->fraction_bits, units[CHUNK];
    uint32_t target[CHUNK];
    for (int64_t at = first; at < end; at += CHUNK) {
        int n = end - at < CHUNK ? (int)(end - at) : CHUNK;
        if (net->wide) {
            const struct spike_wide *y = (const struct spike_wide *)net->synapses + at;
            for (int i = 0; i < n; i++) {
                target[i] = y[i].target;
                units[i] = (int32_t)y[i].weight * (own ? y[i].psp : psp) * one;
            }
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
        if (net->wide_sums)
            for (int i = 0; i < n; i++)
                add_64((int64_t *)net->sums + target[i], units[i]);
        else
            for (int i = 0; i < n; i++)
                add_32((int32_t *)net->sums + target[i], (int32_t)units[i]);
    }
}

static uint64_t deliver_part(const struct spike_tick_args *a, int part) {
    const struct spike_net *net = &a->net;
    size_t each = net->wide ? sizeof(struct spike_wide) : sizeof(spike_packed);
    uint32_t n = a->before.counts->fired;
    bool plain = !net->wide && !net->wide_sums && !net->divisor;
    uint64_t events = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t source = a->before.ids[i];
        int64_t first, end;
        if (i + 2 * AHEAD < n) {
            __builtin_prefetch(&net->row[a->before.ids[i + 2 * AHEAD]], 0, 3);
            __builtin_prefetch(&net->live[a->before.ids[i + 2 * AHEAD]], 0, 3);
            if (net->parts > 1)
                __builtin_prefetch(&net->cut[(int64_t)a->before.ids[i + 2 * AHEAD] * (net->parts - 1)], 0, 3);
        }
        if (i + AHEAD < n)
            fetch_segment(net, a->before.ids[i + AHEAD], part, each);
        segment_of(net, source, part, &first, &end);
        events += (uint64_t)(end - first);
        if (plain) {
            const spike_packed *y = net->synapses;
            int64_t next = 0, next_end = 0;
            if (i + 1 < n)
                segment_of(net, a->before.ids[i + 1], part, &next, &next_end);
            deliver_packed(net->sums, y + first, end - first, y + next, next_end - next,
                           (int32_t)a->before.psp[i] << net->fraction_bits);
        } else
            deliver_any(net, source, a->before.psp[i], first, end);
    }
    return events;
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
    struct block b;
    for (uint32_t first = from; first < to; first += SPIKE_BLOCK) {
        bool injected = at < a->n_inject && a->inject_ids[at] < first + SPIKE_BLOCK;
        int64_t delivered[SPIKE_BLOCK];
        for (int i = 0; injected && i < SPIKE_BLOCK; i++) {
            int32_t narrow = net->wide_sums ? 0 : ((const int32_t *)net->sums)[first + (uint32_t)i];
            int64_t wide = net->wide_sums ? ((const int64_t *)net->sums)[first + (uint32_t)i] : narrow;
            delivered[i] = wide == (net->wide_sums ? SPIKE_NO_INPUT_64 : SPIKE_NO_INPUT_32) ? 0 : wide;
        }
        int32_t any =
            net->wide_sums ? take_64((int64_t *)net->sums + first, unit, &b) : take_32((int32_t *)net->sums + first, unit, &b);
        if (!any && !injected && !net->stale[first / SPIKE_BLOCK] && !(features & SPIKE_EVERY_TICK))
            continue;
        if (injected)
            inject_block(a, first, delivered, &at, unit, &b);
        any = run_block(net, first, tick, features, &b);
        candidates += b.candidates;
        if (any)
            listed = list_fired(a, first, &b, listed);
    }
    ret->fired = listed - from;
    ret->candidates = candidates;
}

static void spike_part(const struct spike_tick_args *a, int part, struct spike_part *ret) {
    uint32_t padded = (a->net.n + SPIKE_BLOCK - 1) / SPIKE_BLOCK * SPIKE_BLOCK;
    uint64_t from = (uint64_t)part * a->net.part_neurons, to = from + a->net.part_neurons;
    from = from < padded ? from : padded;
    to = to < padded ? to : padded;
    ret->events = deliver_part(a, part);
    switch (a->net.features & (SPIKE_PROBABILISTIC | SPIKE_LIMITED | SPIKE_EVERY_TICK)) {
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
        advance_part(a, (uint32_t)from, (uint32_t)to, SPIKE_PROBABILISTIC | SPIKE_LIMITED | SPIKE_EVERY_TICK, ret);
        break;
    }
}

const struct spike_kernels SPIKE_KERNELS = {.isa = SPIKE_ISA, .part = spike_part};

#endif
