/* versions: versions of this build and of the libraries it uses. Any thread. */
#ifndef BRR_DAEMON_VERSIONS_H
#define BRR_DAEMON_VERSIONS_H
#include "daemon/rpc/services.h"

const char *versions_own(void);
const char *versions_revision(void);
/* Libraries as linked at run time, and the versions that CUDA devices depend on. Returns the number of rows written. */
size_t versions_list(struct service_library *rows, size_t max);

#endif
