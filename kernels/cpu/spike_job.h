/* spike_job: the table of spike kernels that each instruction set fills in. Internal to kernels/cpu. */
#pragma once
#include "kernels/lanes.h"
#include "kernels/op.h"

/* Result of one range of targets. Its fired neurons lie in the new list from the index of the range's first neuron on. */
struct spike_part {
    uint32_t fired, candidates;
    uint64_t events;
    char pad[48]; /* threads write side by side */
};

struct spike_tick {
    const struct spike_tick_args *args;
    struct spike_part *parts;
};

struct spike_kernels {
    const char *isa;
    /* Of a struct spike_tick: delivers the spikes of the tick before to the targets of one range, then advances the neurons of that
     * range. */
    lanes_item *part;
};
extern const struct spike_kernels spike_kernels_base, spike_kernels_avx2, spike_kernels_avx512;
