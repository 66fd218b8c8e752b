/* identity: what a job is, beside its checkpoints: its kind and every key that changes its results, in DIRECTORY/identity.json. A
 * folder in use is asked whose it is before anything in it is read, replaced or removed. Any thread; blocks in files. */
#pragma once

#include "work/jobfile.h"

/* Checks that the folder is this job's, and with `write` makes it so if it is nobody's. PRECONDITION names the other kind, or the
 * keys whose values differ, with both values. A folder without identity.json is nobody's: older versions wrote none. */
int identity_claim(const struct jobfile *job, const char *directory, bool write, struct err *err);
