/* removal: deletes jobs that have ended: first the record of the job, then its folder. The folder is recorded until it is gone, so
 * that a later process can finish the removal (jobs/retention.h). Loop thread, except removal_files. */
#pragma once
#include "daemon/jobs/jobdb.h"
#include "daemon/jobs/sched.h"
#include "daemon/models/models.h"

/* Borrowed. */
struct removal {
    struct sched *sched;
    struct db *db; /* read only */
    const struct models *models;
};

/* 0 if the job may be deleted. PRECONDITION, with the reason: it has not ended, a checkpoint of it is pinned or serves, or a job
 * that has not ended names one. */
int removal_check(const struct removal *r, const struct job *job, struct err *err);
/* Checks, and removes the record; the folder stays until that is recorded (sched_await). ret_folder (2048 bytes) is the job's
 * folder, for removal_files, or "" if it is not one that the daemon made. */
int removal_record(const struct removal *r, const char *id, char ret_folder[2048], struct err *err);
/* Removes the folder of a job without a record. Any thread; blocks. */
int removal_files(const char *folder, struct err *err);
/* Call after removal_files succeeded: nothing of the job is left. */
void removal_end(const struct removal *r, const char *id);
