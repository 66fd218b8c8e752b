/* Scan, convolution and norm kernels for any CPU: four lanes. */
#define SCAN_KERNELS scan_kernels_base
#define SCAN_ISA     "scalar"
#include "kernels/cpu/scan_body.h"
