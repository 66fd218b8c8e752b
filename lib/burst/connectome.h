/* connectome: a network of spiking neurons, checked and packed for the burst engine (burst/burst.h): neurons as arrays, synapses as
 * rows by source, each row sorted by target. Made of plain arrays, as a network file has them, or drawn by a generator
 * (burst/wiring.h). Lies in host memory, one owner, one thread; nothing here reads or writes files.
 *
 * Meaning of the parameters: kernels/spike.h and docs/burst.md. */
#pragma once

#include "base/base.h"
#include "kernels/spike.h"

enum { CONNECTOME_NAME_SIZE = 64, CONNECTOME_MOST_AREAS = 4096, CONNECTOME_MOST_EVENTS = 16 };

struct connectome_area {
    char name[CONNECTOME_NAME_SIZE];
    bool psp_divide;    /* its neurons share each synapse's output among their synapses */
    bool mp_driven_psp; /* the output of its neurons follows their membrane when they fire */
    float power;        /* potential that its lowest neuron receives in every tick; 0 = none */
    float constant;     /* potential that each of its neurons receives in every tick */
    float event;        /* and for each of its Poisson events */
    double events;      /* mean of these in a tick, 0 to CONNECTOME_MOST_EVENTS */
};

/* A part of a network: all its neurons, and the synapses that end at those of a range, whole blocks of SPIKE_BLOCK. */
struct connectome_shard {
    int index, count; /* count 0: the whole */
};
/* Neurons of a shard; all but the last shards have `each`. */
struct connectome_range {
    uint32_t first, end, each;
};
static inline struct connectome_range connectome_cut(int64_t neurons, struct connectome_shard shard) {
    int64_t count = shard.count > 1 ? shard.count : 1, blocks = (neurons + SPIKE_BLOCK - 1) / SPIKE_BLOCK;
    int64_t each = (blocks + count - 1) / count * SPIKE_BLOCK, first = each * (count > 1 ? shard.index : 0), end = first + each;
    if (first >= neurons) /* fewer blocks than shards */
        first = end = 0;
    return (struct connectome_range){(uint32_t)first, (uint32_t)(end < neurons ? end : neurons), (uint32_t)each};
}

static inline void *connectome_copy(const void *array, size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    return p && bytes ? memcpy(p, array, bytes) : p;
}

/* The arrays of a network. Names and defaults are those of the file format; NULL stands for an array that is missing. */
struct connectome_arrays {
    int64_t neurons, synapses;
    const float *threshold; /* required */
    const float *v, *threshold_limit, *leak, *excitability;
    const float *current, *current_leak, *current_gain; /* exponential synapses, of neurons whose gain is not 0 */
    const uint16_t *refractory, *fire_limit, *snooze;
    const uint8_t *accumulate;
    const uint32_t *area;
    const uint32_t *src, *dst; /* required where there are synapses, as are the next three; in any order */
    const uint8_t *weight, *psp, *type;
    const uint8_t *delay;                /* 1 to 255 ticks; missing: 1 */
    const struct connectome_area *areas; /* at least one */
    int n_areas;
    uint64_t seed;                 /* of Poisson events */
    struct connectome_shard shard; /* to build */
};

/* Arrays of neurons in struct spike_net: type and name. */
#define CONNECTOME_NEURONS(X)                                                                                                      \
    X(float, v)                                                                                                                    \
    X(float, threshold)                                                                                                            \
    X(float, threshold_limit)                                                                                                      \
    X(float, leak)                                                                                                                 \
    X(float, excitability)                                                                                                         \
    X(uint16_t, refractory)                                                                                                        \
    X(uint16_t, fire_limit)                                                                                                        \
    X(uint16_t, snooze)                                                                                                            \
    X(uint16_t, countdown)                                                                                                         \
    X(uint16_t, fire_count)                                                                                                        \
    X(uint8_t, flags)                                                                                                              \
    X(uint8_t, psp)                                                                                                                \
    X(uint32_t, live)

/* The same for arrays that a network has with current_gain alone. */
#define CONNECTOME_CURRENTS(X)                                                                                                     \
    X(float, current)                                                                                                              \
    X(float, current_leak)                                                                                                         \
    X(float, current_gain)

/* Open for its owner to read; changed through the functions below. */
struct connectome {
    struct spike_net net;  /* of host memory, 64-byte aligned; sums, touched, stale and span are the engine's and NULL here */
    uint64_t *input_bound; /* (n) Σ |w·p| over a neuron's synapses, p = 255 of sources that are mp-driven */
    uint32_t *area;        /* (n) */
    uint8_t *base_psp;     /* (n) p of packed rows as given; net.psp is that or, of sources that are mp-driven, their last one */
    struct connectome_area *areas;
    uint32_t *area_first; /* (n_areas) lowest neuron, UINT32_MAX in an empty area */
    int n_areas;
    struct connectome_range own; /* neurons that its synapses reach */
    int64_t whole;               /* synapses of the network of which this may be a shard, as it was built */
    int64_t synapses;            /* that are there */
    int64_t capacity;            /* room for synapses */
    int64_t bytes;               /* of host memory */
};

/* Checks everything, then allocates; max_bytes bounds the memory (0: no bound). INVALID names array, index, what was found and what
 * was expected; EXHAUSTED names the bytes. */
int connectome_new(const struct connectome_arrays *arrays, int64_t max_bytes, struct connectome **ret, struct err *err);
void connectome_free(struct connectome *c); /* NULL is fine */
/* Bytes that a network of this size takes once it is built. */
int64_t connectome_bytes(int64_t neurons, int64_t synapses, bool wide);

/* Synapse i of a source's row, 0 ≤ i < net.live[source]. */
struct connectome_synapse {
    uint32_t target;
    int weight; /* s·w */
    uint8_t psp, delay;
};
struct connectome_synapse connectome_at(const struct connectome *c, uint32_t source, uint32_t i);
/* The synapses of a source that end at target: *ret_first and how many; 0 where there is none. */
uint32_t connectome_find(const struct connectome *c, uint32_t source, uint32_t target, uint32_t *ret_first);
/* New weight (0..255 with its sign) and p of synapse i; its delay stays. Where p differs from the rest of a packed row, all rows
 * become wide; EXHAUSTED leaves everything as it was. The caller scales afterwards. */
int connectome_put(struct connectome *c, uint32_t source, uint32_t i, int weight, uint8_t psp, struct err *err);
/* Takes the n synapses from `first` on out of their row. The divisor k of a source stays the same. */
void connectome_drop(struct connectome *c, uint32_t source, uint32_t first, uint32_t n);
/* How many synapses neuron i was built with, whether any neuron has lost some since, and the divisors that keep such numbers where
 * no area divides. */
uint32_t connectome_built(const struct connectome *c, uint32_t i);
bool connectome_has_lost(const struct connectome *c);
int connectome_make_divisors(struct connectome *c, struct err *err);

/* Makes sure that the sums of the net hold every possible input: if they do not, takes the largest number of fraction bits with
 * which they do, or 64-bit sums if there is none. With delays changed rows make sums 64-bit, and they keep f. Returns true if
 * anything changed. */
bool connectome_scale(struct connectome *c);
/* Sets net.features (enum spike_feature) again after neurons have changed. */
void connectome_scan_features(struct connectome *c);
/* The areas' flags to their neurons, and the bounds of their targets, after areas have changed; connectome_make_divisors comes
 * first where one divides. */
void connectome_apply_areas(struct connectome *c);

/* The arrays of a network file again, the synapses sorted by source and target: malloc'd, one free of *ret_memory for all. v is
 * the membrane as it is. */
int connectome_export(const struct connectome *c, struct connectome_arrays *ret, void **ret_memory, struct err *err);
