/* versions: versions of this build and of the libraries it uses. Any thread. */
#pragma once
#include "daemon/services/services.h"

const char *versions_own(void);
/* Libraries as linked at run time, and the versions that CUDA devices depend on. Returns the number of rows written. */
size_t versions_list(struct service_library *rows, size_t max);
/* "brrd 0.1.0 (1a2b3c), driver 580.1, grpc 1.51.1, …": this build, and the rows that are not absent. */
void versions_describe(const struct service_library *rows, size_t n, char *ret, size_t size);
/* Logs why there is no GPU, or which part of its software does not fit. */
void versions_log_parts(void);
