/* restore: `brrd --restore`, a daemon made of a backup (daemon/backup). */
#pragma once
#include "daemon/config.h"

/* Makes a daemon of the backup in `directory`: checks every file against the manifest first, then copies models and streams to
 * paths.results, and last the database to jobs.database, with paths of the old daemon changed to those of this one; a job that was
 * running is queued again. Until the end a daemon refuses to start there (paths_restoring); a restore that was cut off is run
 * again. Prints what it did.
 * PRECONDITION: a daemon runs; there is a database already; the backup is of a later schema. DATA_LOSS: a file is missing or is not
 * what the manifest says. */
int restore_run(const struct config *config, const char *directory, struct err *err);
