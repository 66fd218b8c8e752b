/* The networks of the geodesic ops for AVX-512: sixteen lanes. */
#define GEODESIC_KERNELS geodesic_kernels_avx512
#define GEODESIC_ISA     "avx512"
#include "kernels/cpu/geodesic_body.h"
