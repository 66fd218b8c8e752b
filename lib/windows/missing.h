/* missing: what is said of samples that are no numbers, in whose place the last number is held (quality_hold). Pure, any thread. */
#pragma once

#include "base/base.h"

/* Says how many of the samples of n channels, `samples` of each, are no numbers: "" without any. INVALID if one lacks more than
 * half. */
struct missing_channel {
    const char *name;
    const int64_t *n; /* how many it lacks */
};
int missing_describe(const struct missing_channel *channels, int n, int64_t samples, char *text, size_t size, struct err *err);
