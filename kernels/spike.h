/* spike: a network of integrate-and-fire neurons as op_spike_tick sees it, and the rule of one neuron in one tick. Shared by the
 * CPU kernels, the CUDA kernels and lib/burst/burst, so that all of them have the same rule and the same bits.
 *
 * One tick: every neuron that fired in the tick before delivers s·w·p to each target of its row, in whole units of 2^-f, to the sum
 * of the tick in which the synapse's delay ends; the sum of a neuron's input, delivered and injected, is turned into a float once;
 * neurons with an input ("candidates", also where it sums to 0) then change by spike_advance. Where a neuron has exponential
 * synapses the sum joins its current, and what the current gives is its input. Sums are integers, so neither threads nor their
 * order change a bit. Source: FEAGI's published tick, sequential CPU path, with the differences that docs/burst.md lists.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/philox.h"

#ifdef __CUDACC__
#define SPIKE_RULE static __device__ __forceinline__
#else
#define SPIKE_RULE static inline __attribute__((always_inline))
#endif

enum {
    SPIKE_BLOCK = 64,         /* neurons; every array of neurons is padded to a multiple, the padding not alive */
    SPIKE_MOST_FRACTION = 20, /* the largest f */
    SPIKE_PACKED_NEURONS = 1 << 23,
    SPIKE_SLACK = 16,        /* synapses' room behind the last row that kernels may read */
    SPIKE_UNLIMITED = 65535, /* of fire_limit */
    SPIKE_MOST_DELAY = 255,
    SPIKE_MOST_EVENTS = 64,   /* of Poisson input to a neuron in a tick */
    SPIKE_MOST_LISTS = 16,    /* that are merged into one */
    SPIKE_EVENT_STREAM = 905, /* RNG_EVENTS of base/rng.h */
};
#define SPIKE_MOST_NEURONS (UINT32_MAX - SPIKE_BLOCK)
/* Sums without any input hold this: no sum of inputs reaches it. */
#define SPIKE_NO_INPUT_32 INT32_MIN
#define SPIKE_NO_INPUT_64 INT64_MIN

enum spike_flag {
    SPIKE_ALIVE = 1,
    SPIKE_ACCUMULATES = 2, /* else its membrane is 0 when a tick begins */
    SPIKE_MP_DRIVEN = 4,   /* p of its synapses is its membrane when it fired, rounded half to even and clamped to 0..255 */
    SPIKE_DIVIDES = 8,     /* each of its synapses delivers s·w·p/k, k its divisor, rounded half to even */
};
/* Features that at least one neuron of the network uses; the kernels skip the others. */
enum spike_feature {
    SPIKE_PROBABILISTIC = 1, /* an excitability below 0.999 */
    SPIKE_LIMITED = 2,       /* a fire limit */
    SPIKE_EVERY_TICK = 4,    /* every neuron is a candidate in every tick */
    SPIKE_CURRENTS = 8,      /* exponential synapses */
    SPIKE_DRIVES = 16,       /* input of areas to all their neurons */
};

/* A packed synapse: the target in the upper 23 bits, s·w in the lower 9 as two's complement. All synapses of a row share p. */
typedef uint32_t spike_packed;
SPIKE_RULE uint32_t spike_packed_target(spike_packed y) { return y >> 9; }
SPIKE_RULE int32_t spike_packed_weight(spike_packed y) { return (int32_t)(y << 23) >> 23; }
SPIKE_RULE spike_packed spike_pack(uint32_t target, int32_t weight) { return target << 9 | ((uint32_t)weight & 511); }
/* The wide form, where synapses of a row differ in p, some synapse has a delay beyond one tick, or there are more than
 * SPIKE_PACKED_NEURONS neurons. */
struct spike_wide {
    uint32_t target;
    int16_t weight;     /* s·w */
    uint8_t psp, later; /* ticks that it arrives after the next one: its delay − 1 */
};

/* What each neuron of an area receives in each tick, in units of 2^-f: `constant`, and `event` for each of the Poisson events that
 * the tick draws: last[k] is the greatest of the 2^32 words with k events or fewer. */
struct spike_drive {
    int64_t constant, event;
    uint32_t last[SPIKE_MOST_EVENTS];
};

/* Read and written by the device as a tick follows another. */
struct spike_counts {
    uint64_t tick;   /* that has run */
    uint64_t events; /* synapses that delivered in it */
    uint32_t fired;  /* in it */
    uint32_t candidates;
};
/* Neurons that fired in a tick, ascending, with the p of their synapses. Room for all neurons; on CUDA for those that can fire. */
struct spike_fired {
    uint32_t *ids;
    uint8_t *psp;
    struct spike_counts *counts;
};

/* Everything in device memory but the scalars; a tick changes psp, v, current, countdown, fire_count, sums, touched and stale.
 * Arrays of neurons have n elements and their padding. The caller vouches for the contents: targets below n, no sum of |inputs| of
 * a neuron reaching 2^31 (2^63 with wide_sums) in units of 2^-f, fewer than 2^32 sums. */
struct spike_net {
    uint32_t n;
    uint32_t first, end; /* neurons that synapses reach and a tick advances, from a block's first on: all, or those of a shard */
    int fraction_bits;   /* f */
    unsigned features;
    bool wide;      /* synapses are struct spike_wide, else spike_packed */
    bool wide_sums; /* sums are int64, else int32 */
    bool hubs;      /* some row is longer than SPIKE_LONG_ROW */
    int delays;     /* the longest delay, 1 or more: sums of so many ticks; beyond 1 synapses are wide */
    int parts;      /* CPU: these neurons are cut into so many ranges of part_neurons each */
    uint32_t part_neurons;
    int64_t *row;      /* (n + 1) where rows begin; row i has room for row[i+1] − row[i] synapses */
    uint32_t *live;    /* (n) how many it has, sorted by target */
    uint32_t *span;    /* CPU: (n, SPIKE_SPAN_WORDS(parts)), see below */
    uint32_t *divisor; /* (n) k of sources that divide; NULL where none does */
    void *synapses;
    uint8_t *flags, *psp; /* psp changes for sources that are SPIKE_MP_DRIVEN */
    float *v;
    float *threshold, *threshold_limit, *leak, *excitability; /* threshold_limit: +infinity = none */
    uint16_t *refractory, *fire_limit, *snooze;               /* fire_limit: SPIKE_UNLIMITED = none */
    uint16_t *countdown, *fire_count;
    float *current, *current_leak, *current_gain; /* NULL where no neuron has exponential synapses; a gain of 0: these do not */
    uint32_t *area;                               /* SPIKE_DRIVES: places in `drive` */
    struct spike_drive *drive;                    /* SPIKE_DRIVES */
    uint64_t seed;                                /* of the events */
    void *sums; /* (delays, n) a ring: row t % delays has what arrives in tick t, and no input once t is over; CUDA: see below */
    uint32_t *touched; /* CUDA, wide sums: (delays, n/32) bits of the neurons that synapses reach; 0 once the tick is over */
    uint8_t *stale;    /* per block: some neuron in it does not accumulate and has a membrane other than +0 */
};
SPIKE_RULE uint32_t spike_padded(uint32_t n) { return (n + SPIKE_BLOCK - 1) / SPIKE_BLOCK * SPIKE_BLOCK; }
/* Where the sums of `later` ticks after this one begin; `now` is tick % delays. */
SPIKE_RULE uint32_t spike_sums_at(const struct spike_net *net, uint32_t now, uint32_t later) {
    uint32_t row = now + later;
    return (row >= (uint32_t)net->delays ? row - (uint32_t)net->delays : row) * spike_padded(net->n);
}
/* CUDA has a uint64 for each neuron also where sums are not wide: the sum in its upper half and the number of inputs in its lower
 * one, so that one addition delivers a synapse. 0: no input. */
enum { SPIKE_LONG_ROW = 4096 };
/* The span of a row has in one place what delivery looks up: where the row begins (int64), then for j from 0 to parts − 1 how many
 * of its synapses have targets below first + (j + 1)·part_neurons. */
#define SPIKE_SPAN_WORDS(parts) (2 + (parts))

/* The draw of a neuron in a tick: 32 bits. */
SPIKE_RULE uint32_t spike_hash(uint32_t id, uint32_t tick) {
    uint32_t seed = id * 2654435761u + tick * 1597334677u, s = seed * 747796405u + 2891336453u;
    uint32_t w = ((s >> ((s >> 28) + 4)) ^ s) * 277803737u;
    return (w >> 22) ^ w;
}

/* −1 if a neuron that may fire does fire, else 0. The probability is its excitability: always from 0.999 on, never at 0 or below.
 */
SPIKE_RULE int32_t spike_lucky(float excitability, uint32_t id, uint32_t tick) {
    float drawn = (float)spike_hash(id, tick) * 0x1p-32f;
    return -(int32_t)(excitability >= 0.999f) | (-(int32_t)(excitability > 0.0f) & -(int32_t)(drawn < excitability));
}

/* Words of four neurons in a tick, of which `id` is one: word id % 4 is its own. */
SPIKE_RULE void spike_event_words(uint64_t seed, uint32_t id, uint64_t tick, uint32_t ret[4]) {
    philox(seed, SPIKE_EVENT_STREAM, (uint32_t)tick, (tick >> 32) << 32 | id / 4, ret);
}
SPIKE_RULE int64_t spike_driven(const struct spike_drive *d, uint32_t word) {
    int events = 0;
    while (events < SPIKE_MOST_EVENTS && word > d->last[events])
        events++;
    return d->constant + events * d->event;
}

/* A tick of exponential synapses: the membrane gets what the current gives, and what arrives joins the current. */
SPIKE_RULE float spike_current(float *current, float leak, float gain, float arrived) {
    float was = *current, kept = was * (1.0f - leak);
    *current = kept + arrived;
    return was * gain;
}

/* All of a neuron that a tick reads or changes. */
struct spike_neuron {
    float v, threshold, threshold_limit, leak;
    int32_t refractory, fire_limit, snooze, countdown, fire_count;
};

/* One tick of a neuron, without branches: masks are 0 or −1. may: −1 for a candidate that is alive, for others 0, and nothing
 * changes. input: its sum. limits: whether fire_limit counts. *ret_x: the membrane it fires with. Returns −1 when it fires. */
SPIKE_RULE int32_t spike_advance(struct spike_neuron *u, float input, int32_t may, int32_t lucky, bool limits, float *ret_x) {
    int32_t resting = may & -(int32_t)(u->countdown > 0), active = may & ~resting;
    float x = u->v + input;
    int32_t hit = active & -(int32_t)(x >= u->threshold) & -(int32_t)(x <= u->threshold_limit);
    int32_t limited = limits ? -(int32_t)(u->fire_limit != SPIKE_UNLIMITED) : 0;
    int32_t full = limited & -(int32_t)(u->fire_count >= u->fire_limit), blocked = hit & full, fires = hit & ~full & lucky;
    int32_t decays = active & ~blocked & ~fires;
    u->countdown += resting;
    u->fire_count &= ~(resting & full & -(int32_t)(u->countdown == 0)) & ~blocked & ~(decays & limited);
    u->fire_count -= fires & limited;
    int32_t pause = u->refractory + (u->snooze & limited & -(int32_t)(u->fire_count >= u->fire_limit));
    pause = pause > 65535 ? 65535 : pause;
    u->countdown = fires ? pause : u->countdown;
    float faded = x * (1.0f - u->leak), v = active ? x : u->v;
    v = decays ? faded : v;
    u->v = fires ? 0.0f : v;
    *ret_x = x;
    return fires;
}

/* The p of a source that fired with membrane x. */
SPIKE_RULE uint8_t spike_psp_of(float x) {
    float clamped = x < 0.0f ? 0.0f : x > 255.0f ? 255.0f : x;
    return (uint8_t)(int32_t)__builtin_rintf(clamped);
}

/* The units that a synapse delivers: weight·2^f·p, divided by k if k > 1. Exact: the quotient of integers below 2^37 and 2^32 in
 * double is a half only where the true one is, and rounds to the side where it lies. */
SPIKE_RULE int64_t spike_divided(int64_t units, uint32_t k) { return (int64_t)__builtin_rint((double)units / (double)k); }
