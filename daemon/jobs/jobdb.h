/* jobdb: the records of jobs and of their checkpoints in the daemon's database. Writes are durable when they return. Loop thread.
 */
#ifndef BRR_DAEMON_JOBS_JOBDB_H
#define BRR_DAEMON_JOBS_JOBDB_H
#include "daemon/db/db.h"
#include "daemon/jobs/job.h"

/* Once, before anything else here: makes the tables, or adds what those of an earlier version lack. */
int jobdb_setup(struct db *db, struct err *err);
/* Inserts the job or replaces its record. */
int jobdb_save(struct db *db, const struct job *job, struct err *err);
/* Every job in order of submission; visit owns it. */
int jobdb_load(struct db *db, int (*visit)(void *ctx, struct job *job, struct err *err), void *ctx, struct err *err);
/* Forgets a job and its checkpoints; files stay. */
int jobdb_remove_job(struct db *db, const char *job_id, struct err *err);

struct jobdb_checkpoint {
    char job_id[JOB_ID_SIZE];
    struct task_checkpoint c;
    int64_t created_ms;
    bool pinned;
};
/* Inserts the checkpoint or replaces its record. */
int jobdb_add_checkpoint(struct db *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err);
/* Checkpoints of a job ("" = all) whose file still exists, oldest first, until visit returns other than 0, which is returned. */
int jobdb_checkpoints(struct db *db, const char *job_id, int (*visit)(void *ctx, const struct jobdb_checkpoint *c), void *ctx,
                      struct err *err);
int jobdb_remove_checkpoint(struct db *db, const char *job_id, int64_t step, struct err *err);
/* Pinned or not; path is where its file is from now on. */
int jobdb_pin(struct db *db, const char *job_id, int64_t step, const char *path, bool pinned, struct err *err);

#endif
