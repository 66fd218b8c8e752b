/* jobref: finds a job by its id or the beginning of it, and the model file of a reference to a job: "job:ID" (its best checkpoint,
 * else its last), "job:ID@best", "job:ID@last", "job:ID@STEP". Only "job:ID@0" stands for the network before the first step. Loop
 * thread. */
#pragma once
#include "daemon/jobs/sched.h"

/* The job of this id, or the only one whose id begins with it (at least JOBREF_PREFIX characters). NOT_FOUND; INVALID: several do.
 */
enum { JOBREF_PREFIX = 4 };
int jobref_find(const struct sched *sched, const char *id, const struct job **ret, struct err *err);

struct jobref {
    char path[4096], spare[4096]; /* as recorded; spare: the link of a pin, where the file was pruned, or "" */
    char owner[JOB_OWNER_SIZE];   /* of the job; "" = unknown */
    struct err absent;            /* the error when neither is there */
};
/* No file is looked at; the id must be whole. INVALID for a malformed REF, NOT_FOUND when there is no such job or checkpoint. */
int jobref_resolve(const struct sched *sched, struct db *db, const char *ref, struct jobref *ret, struct err *err);
