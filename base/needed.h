/* needed: memory that a command-line program cannot go on without: it ends where a library returns an error. Not for libraries, nor
 * for the daemon once it serves. */
#pragma once
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* needed(calloc(…)), needed(realloc(…)), needed(strdup(…)): what the allocation returned, never NULL. */
static inline void *needed(void *memory) {
    if (memory)
        return memory;
    fprintf(stderr, "%s: out of memory\n", program_invocation_short_name);
    _exit(EXIT_FAILURE);
}
