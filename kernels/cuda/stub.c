#include "kernels/backend.h"

/* Linked where CUDA is not compiled in: there is no such backend, and device_open says so. */
const struct backend *cuda_backend(void) { return NULL; }
