/* env: switches in the environment of a process. */
#pragma once
#include <stdbool.h>

/* True if the variable is exactly "1". */
bool env_is_one(const char *name);
