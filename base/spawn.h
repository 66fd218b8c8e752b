/* spawn: starts another program. Any thread. */
#pragma once
#include <sys/types.h>

#include "base/err.h"

/* Starts words[0], found in PATH, with the arguments behind it (NULL ends them), in a process group of its own and with default
 * signals. input and output are descriptors, which stay the caller's; output takes standard output and error; −1 is /dev/null. No
 * other descriptor is passed on. The caller waits for *ret. NOT_FOUND: there is no such program. */
int spawn_start(const char *const *words, int input, int output, pid_t *ret, struct err *err);
/* The same with this environment ("NAME=value", NULL ends it) in place of the caller's. */
int spawn_start_in(const char *const *words, const char *const *environment, int input, int output, pid_t *ret, struct err *err);
/* An environment for a program: `set` ("NAME=value") and, of this process's variables, those whose names match one of the patterns
 * (fnmatch). NULL ends both lists, and either may be NULL. One allocation, which the caller frees; NULL when out of memory. */
const char **spawn_environment(const char *const *set, const char *const *patterns);
