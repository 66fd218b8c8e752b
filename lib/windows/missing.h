/* missing: what is said of channels that lack samples, in whose place the last number is held (quality_hold), or whose samples
 * never change, or only together. Pure, any thread. */
#pragma once

#include "base/base.h"

/* Of a channel; begins with zeros. */
struct missing_count {
    int64_t n, moves; /* samples that are no numbers; numbers that differ from the one before, of which 2 are sure to be counted */
    float last;       /* number */
    bool compared, apart;
    float lowest, highest; /* differences from the channel before; apart: they have changed by 0.5 µV */
};
/* Counts the next n samples of a channel; beside_uv: those of the one before, or NULL. Returns whether some of them are no numbers.
 */
bool missing_look(struct missing_count *count, const float *uv, const float *beside_uv, int64_t n);

/* Says how many of the samples of n channels, `samples` of each, are no numbers, which channels are flat, and whether all have one
 * signal in common: "" without any. INVALID if one lacks more than half. */
struct missing_channel {
    const char *name;
    const struct missing_count *count;
};
int missing_describe(const struct missing_channel *channels, int n, int64_t samples, char *text, size_t size, struct err *err);
