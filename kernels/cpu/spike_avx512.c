/* Spike kernels for AVX-512. */
#define SPIKE_KERNELS spike_kernels_avx512
#define SPIKE_ISA     "avx512"
#include "kernels/cpu/spike_body.h"
