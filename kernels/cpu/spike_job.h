/* spike_job: the table of spike kernels that each instruction set fills in. Internal to kernels/cpu. */
#ifndef BRR_KERNELS_CPU_SPIKE_JOB_H
#define BRR_KERNELS_CPU_SPIKE_JOB_H
#include "kernels/op.h"

/* What one range of targets gave. Its fired neurons stand in the new list from the range's first neuron on. */
struct spike_part {
    uint32_t fired, candidates;
    uint64_t events;
    char pad[48]; /* threads write side by side */
};

struct spike_kernels {
    const char *isa;
    /* Delivers what was fired before to the targets of one range, then advances the neurons of that range. */
    void (*part)(const struct spike_tick_args *a, int part, struct spike_part *ret);
};
extern const struct spike_kernels spike_kernels_base, spike_kernels_avx2, spike_kernels_avx512;

#endif
