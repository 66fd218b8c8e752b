/* env: switches in the environment of a process. */
#pragma once
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* True if the variable is exactly "1". */
static inline bool env_is_one(const char *name) {
    const char *value = getenv(name);
    return value && !strcmp(value, "1");
}
