/* quota: how many calls may be open: in all, and of one caller. The role admin has a reserve and no limit of its own, so that Drain
 * and Doctor are answered whatever others do. */
#pragma once

#include "trust/token.h"

struct quota_limits {
    int calls;    /* limits.calls */
    int sessions; /* of limits.sessions, of one caller */
};
/* Open calls, the new one included. */
struct quota_use {
    int calls, of_caller, of_method; /* of_method: of this caller and method */
};
/* True, with an EXHAUSTED error that names the limit, if a new call is one too many. Health.Check is always answered. */
bool quota_exceeded(const struct quota_limits *limits, const struct quota_use *use, enum role role, const char *path,
                    struct err *err);
