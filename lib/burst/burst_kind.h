/* burst_kind: the configuration of a job of kind burst, as its keys write it (burst_kind.c). */
#pragma once

#include "base/base.h"
#include "base/options.h"

enum burst_fired { BURST_FIRED_NPY, BURST_FIRED_TSV, BURST_FIRED_NONE };

struct burst_config {
    const char *file; /* network or snapshot; NULL: generated from the next rows */
    int generate;     /* enum wiring_kind */
    int64_t neurons, synapses, layers, seed, psp, refractory;
    double inhibitory, threshold, leak, excitability, power;
    struct option_numbers weights, delays; /* lowest and highest */
    bool every_tick;
    const char *injections;          /* table of injections; NULL = none */
    const char *recording, *montage; /* EDF or BDF file, encoded as injections (burst_encoder.h); NULL = none */
    double notch_hz, delta_uv;
    int64_t samples_per_tick;
    double random_rate, potential; /* random injections of each neuron in each tick, 0 = none; potential of one */
    int64_t random_seed;
    int64_t ticks;
    int fired;                            /* enum burst_fired */
    int64_t rates_every, membranes_every; /* ticks; 0 = none */
    int64_t ledger;                       /* newest ticks whose spikes are written; 0 = none */
};
