/* jobdb: the records of jobs and of their checkpoints in the daemon's database. Writes are durable when they return.
 * Loop thread. */
#pragma once
#include "daemon/db/db.h"
#include "daemon/jobs/job.h"

/* Call once before all other functions: creates the tables, or adds columns that tables of an earlier version lack. */
int jobdb_setup(struct db *db, struct err *err);
/* Inserts the job or replaces its record. */
int jobdb_save(struct db *db, const struct job *job, struct err *err);
/* Visits at most `max` jobs in order of submission. If there are more, jobs that have not ended are preferred, then the
 * newest ended jobs. visit takes ownership of each job. *ret_left: number of jobs not visited. */
int jobdb_load(struct db *db, int64_t max, int (*visit)(void *ctx, struct job *job, struct err *err), void *ctx, int64_t *ret_left,
               struct err *err);
/* The record of one job, the caller's to free; NOT_FOUND. The same connection rules as elsewhere: another thread uses
 * one of its own (jobdb_open_reader). */
int jobdb_get(struct db *db, const char *id, struct job **ret, struct err *err);
/* The job database once more, for another thread, to read. */
int jobdb_open_reader(const char *path, struct db **ret, struct err *err);
/* The number of the next job: larger than that of any earlier job, including forgotten ones. */
int jobdb_sequence(struct db *db, int64_t *ret, struct err *err);
int jobdb_save_sequence(struct db *db, int64_t next, struct err *err);
/* Removes a job and its checkpoints from the database, in the caller's transaction; files stay. */
int jobdb_remove_job(struct db *db, const char *job_id, struct err *err);

/* The folder of a removed job, recorded until its files are gone too. */
struct jobdb_removal {
    char job_id[JOB_ID_SIZE], folder[2048];
};
int jobdb_add_removal(struct db *db, const char *job_id, const char *folder, struct err *err);
int jobdb_end_removal(struct db *db, const char *job_id, struct err *err);
/* Visits every recorded removal. Stops when visit returns non-zero and returns that value. */
int jobdb_removals(struct db *db, int (*visit)(void *ctx, const struct jobdb_removal *r, struct err *err), void *ctx,
                   struct err *err);

struct jobdb_checkpoint {
    char job_id[JOB_ID_SIZE];
    struct task_checkpoint c;
    int64_t created_ms;
    bool pinned;
    char kept[4096]; /* pinned: the hard link that keeps the file; "" for a pin of an earlier version */
};
/* Inserts the checkpoint or updates its record. An update keeps the time, and it keeps the metric if the file is the
 * same and the new metric is unknown. */
int jobdb_add_checkpoint(struct db *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err);
/* Visits the recorded checkpoints of a job ("" = all jobs), oldest first, with their paths as recorded: no file is
 * looked at. Stops when visit returns non-zero and returns that value. */
int jobdb_records(struct db *db, const char *job_id, int (*visit)(void *ctx, const struct jobdb_checkpoint *c), void *ctx,
                  struct err *err);
/* The record of this step of a job, or the one whose file, or the link that keeps it, has this path. *ret_found is
 * false without a record, and *ret as it was. */
int jobdb_record(struct db *db, const char *job_id, int64_t step, struct jobdb_checkpoint *ret, bool *ret_found, struct err *err);
int jobdb_record_at(struct db *db, const char *path, struct jobdb_checkpoint *ret, bool *ret_found, struct err *err);
/* PRECONDITION if it is pinned, or has no record. */
int jobdb_remove_checkpoint(struct db *db, const char *job_id, int64_t step, struct err *err);
/* Marks a checkpoint as pinned; kept: the hard link that keeps its file. NOT_FOUND if it has no record. */
int jobdb_pin(struct db *db, const char *job_id, int64_t step, const char *kept, struct err *err);
/* *ret_step: of the first of the pinned checkpoints of a job; −1: it has none. A pin whose checkpoint has no record is
 * none. */
int jobdb_pinned(struct db *db, const char *job_id, int64_t *ret_step, struct err *err);
int jobdb_unpin(struct db *db, const char *job_id, int64_t step, struct err *err);
