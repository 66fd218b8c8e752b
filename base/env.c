#include "base/env.h"

#include <stdlib.h>
#include <string.h>

bool env_is_one(const char *name) {
    const char *value = getenv(name);
    return value && !strcmp(value, "1");
}
