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
/* The jobs in order of submission, at most `max` of them: those that have not ended first, then the newest that have. visit owns
 * each. *ret_left: how many stayed in the database. */
int jobdb_load(struct db *db, int64_t max, int (*visit)(void *ctx, struct job *job, struct err *err), void *ctx, int64_t *ret_left,
               struct err *err);
/* The number of the next job: larger than that of any job before, forgotten ones too. */
int jobdb_sequence(struct db *db, int64_t *ret, struct err *err);
int jobdb_save_sequence(struct db *db, int64_t next, struct err *err);
/* Forgets a job and its checkpoints; files stay. */
int jobdb_remove_job(struct db *db, const char *job_id, struct err *err);

struct jobdb_checkpoint {
    char job_id[JOB_ID_SIZE];
    struct task_checkpoint c;
    int64_t created_ms;
    bool pinned;
    char kept[4096]; /* pinned: the link that keeps its file; "" for a pin of an earlier version */
};
/* Inserts the checkpoint, or changes its record, which keeps its time, and its metric if the file is the same and the new one is
 * unknown. */
int jobdb_add_checkpoint(struct db *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err);
/* Checkpoints of a job ("" = all) whose file still exists, oldest first; the path of a pinned one that was pruned is the link that
 * keeps it. Until visit returns other than 0, which is returned. */
int jobdb_checkpoints(struct db *db, const char *job_id, int (*visit)(void *ctx, const struct jobdb_checkpoint *c), void *ctx,
                      struct err *err);
int jobdb_remove_checkpoint(struct db *db, const char *job_id, int64_t step, struct err *err);
/* kept: the link that keeps its file from now on. */
int jobdb_pin(struct db *db, const char *job_id, int64_t step, const char *kept, struct err *err);
int jobdb_unpin(struct db *db, const char *job_id, int64_t step, struct err *err);

#endif
