/* Scan, convolution and norm kernels for AVX-512: sixteen lanes. */
#define SCAN_KERNELS scan_kernels_avx512
#define SCAN_ISA     "avx512"
#include "kernels/cpu/scan_body.h"
