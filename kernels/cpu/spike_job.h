/* spike_job: the table of spike kernels that each instruction set fills in. Internal to kernels/cpu. */
#pragma once
#include "kernels/op.h"

/* Result of one range of targets. Its fired neurons lie in the new list from the index of the range's first neuron on. */
struct spike_part {
    uint32_t fired, candidates;
    uint64_t events;
    char pad[48]; /* threads write side by side */
};

struct spike_kernels {
    const char *isa;
    /* Delivers the spikes of the tick before to the targets of one range, then advances the neurons of that range. */
    void (*part)(const struct spike_tick_args *a, int part, struct spike_part *ret);
};
extern const struct spike_kernels spike_kernels_base, spike_kernels_avx2, spike_kernels_avx512;
