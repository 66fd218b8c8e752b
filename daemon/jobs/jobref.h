/* jobref: finds the model file of a reference to a job: "job:ID" (its best checkpoint, else its last), "job:ID@best",
 * "job:ID@last", "job:ID@STEP". Loop thread. */
#ifndef BRR_DAEMON_JOBS_JOBREF_H
#define BRR_DAEMON_JOBS_JOBREF_H
#include "daemon/jobs/sched.h"

/* path has 4096 bytes. INVALID for a malformed REF, NOT_FOUND if the job or checkpoint does not exist. */
int jobref_resolve(const struct sched *sched, struct db *db, const char *ref, char path[4096], struct err *err);

#endif
