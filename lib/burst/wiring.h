/* wiring: networks drawn from a seed: the same numbers give the same network on every machine and with any number of threads. Draws
 * are base/rng's, one sequence per source neuron (RNG_WIRING). */
#pragma once
#include "burst/connectome.h"

enum wiring_kind {
    WIRING_RANDOM,  /* every target drawn from all neurons */
    WIRING_RING,    /* neuron i reaches i + 1 … i + fan_out, around the end */
    WIRING_LAYERED, /* targets drawn from the next layer; the last layer reaches nobody; one area a layer */
};

struct wiring {
    enum wiring_kind kind;
    int64_t neurons, fan_out; /* synapses of each source */
    int layers;               /* of WIRING_LAYERED, 2 or more */
    uint64_t seed;
    double inhibitory;                   /* share of the sources whose synapses are all inhibitory, drawn */
    int weight_low, weight_high;         /* 0..255, drawn per synapse */
    int delay_low, delay_high;           /* 1..255 ticks, drawn per synapse */
    int psp;                             /* 0..255, of all synapses */
    float threshold, leak, excitability; /* of all neurons */
    int refractory;
    float power; /* of the first area */
    struct connectome_shard shard;
};

void wiring_default(struct wiring *w); /* 1,000 random neurons with 100 synapses each */
/* "random", "ring", "layered"; INVALID lists them. */
int wiring_kind_of(const char *name, enum wiring_kind *ret, struct err *err);
/* max_bytes as in connectome_new. */
int wiring_make(const struct wiring *w, int64_t max_bytes, struct connectome **ret, struct err *err);
