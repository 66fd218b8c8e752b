/* env: switches in the environment of a process. */
#ifndef BRR_BASE_ENV_H
#define BRR_BASE_ENV_H
#include <stdbool.h>

/* True if the variable is exactly "1". */
bool env_is_one(const char *name);

#endif
