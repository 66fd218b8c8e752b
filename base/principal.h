/* principal: names of callers, such as "token:ana" or "uid:1000". Any thread. */
#pragma once
#include <stdbool.h>

/* True if both are one principal. Those of earlier versions, in snapshots, journals and jobs, may end in ",certificate:NAME". */
bool principal_is_same(const char *principal, const char *other);
