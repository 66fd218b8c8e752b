/* Scan, convolution and norm kernels for AVX2 with FMA: eight lanes. */
#define SCAN_KERNELS scan_kernels_avx2
#define SCAN_ISA     "avx2"
#include "kernels/cpu/scan_body.h"
