/* grpc_faults: published faults of gRPC that a client can trigger over the network, by version. Any thread. */
#pragma once
#include "base/base.h"

/* Writes the names of the faults that this version ("1.51.1") has, "CVE-2023-1428, CVE-2023-4785", into ret; "" if it has none, or
 * is not understood. A distribution may have fixed them under the same version. */
void grpc_faults(const char *version, char *ret, size_t size);
