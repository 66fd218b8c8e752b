/* principal: names of callers, such as "token:ana" or "uid:1000". Any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The length of a name without what those of earlier versions, in snapshots, journals and jobs, may end in. */
static inline size_t principal_length(const char *principal) {
    const char *more = strstr(principal, ",certificate:");
    return more ? (size_t)(more - principal) : strlen(principal);
}

/* True if both are one principal. */
static inline bool principal_is_same(const char *principal, const char *other) {
    const size_t n = principal_length(principal);
    return n == principal_length(other) && !strncmp(principal, other, n);
}

/* How much of `most` places or bytes one caller may have, where callers have tokens: the last tenth, at least one, is for others.
 */
static inline int64_t principal_share(int64_t most) { return most < 2 ? most : most - (most < 20 ? 1 : most / 10); }
