/* sweep_record: the jobs of a sweep in a file, so that the same command, given again, goes on with them. */
#pragma once
#include "client/brrctl/jobs/sweep_state.h"

/* Writes the jobs of all members, replacing the file. */
int sweep_record_write(const struct sweep *s, const char *path, struct err *err);
/* Gives the first `n` members the jobs of the file; a file that is not there gives none. PRECONDITION: it is of another sweep,
 * whose job file, overrides, grid or patients differ. */
int sweep_record_read(struct sweep *s, int n, const char *path, struct err *err);
