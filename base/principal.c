#include "base/principal.h"

#include <stddef.h>
#include <string.h>

bool principal_is_same(const char *principal, const char *other) {
    static const char more[] = ",certificate:";
    const char *a = strstr(principal, more), *b = strstr(other, more);
    const size_t n = a ? (size_t)(a - principal) : strlen(principal), m = b ? (size_t)(b - other) : strlen(other);
    return n == m && !strncmp(principal, other, n);
}
