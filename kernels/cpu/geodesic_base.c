/* The networks of the geodesic ops for any CPU: four lanes. */
#define GEODESIC_KERNELS geodesic_kernels_base
#define GEODESIC_ISA     "scalar"
#include "kernels/cpu/geodesic_body.h"
