/* The networks of the geodesic ops for AVX2: eight lanes. */
#define GEODESIC_KERNELS geodesic_kernels_avx2
#define GEODESIC_ISA     "avx2"
#include "kernels/cpu/geodesic_body.h"
