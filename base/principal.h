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

/* As people read it: "ana" of "token:ana"; others unchanged. */
static inline const char *principal_words(const char *principal) {
    static const char token[] = "token:";
    return strncmp(principal, token, sizeof token - 1) ? principal : principal + sizeof token - 1;
}

/* The caller as people read it beside the name of its bed: "" where the token has the bed's name. */
static inline const char *principal_beside(const char *principal, const char *bed) {
    const char *words = principal_words(principal);
    return words != principal && !strcmp(words, bed) ? "" : words;
}

/* The same beside a detail of the journal, such as "acknowledge via page by Ana: a note": "" where it names the person. */
static inline const char *principal_of_detail(const char *principal, const char *detail) {
    const char *by = strstr(detail, " by "), *note = strstr(detail, ": ");
    return by && (!note || by < note) ? "" : principal_words(principal);
}

/* How much of `most` places or bytes one caller may have. shared: callers have tokens, and the last tenth, at least one, is for
 * others. */
static inline int64_t principal_share(int64_t most, bool shared) {
    return !shared || most < 2 ? most : most - (most < 20 ? 1 : most / 10);
}
