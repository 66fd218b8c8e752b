/* Spike kernels for AVX2. */
#define SPIKE_KERNELS spike_kernels_avx2
#define SPIKE_ISA     "avx2"
#include "kernels/cpu/spike_body.h"
