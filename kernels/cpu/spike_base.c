/* Spike kernels for any processor. */
#define SPIKE_KERNELS spike_kernels_base
#define SPIKE_ISA     "scalar"
#include "kernels/cpu/spike_body.h"
