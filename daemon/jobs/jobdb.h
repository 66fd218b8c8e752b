/* jobdb: durable job and checkpoint records in SQLite (WAL, synchronous=FULL): what was acknowledged survives kill -9 and power
 * loss. The only user of SQLite. Loop thread. */
#ifndef BRR_DAEMON_JOBS_JOBDB_H
#define BRR_DAEMON_JOBS_JOBDB_H
#include "daemon/jobs/job.h"

struct jobdb;
/* Opens or creates; a second opener is refused (PRECONDITION) while the first lives. */
int jobdb_open(const char *path, struct jobdb **ret, struct err *err);
void jobdb_close(struct jobdb *db);
/* Insert or replace. */
int jobdb_save(struct jobdb *db, const struct job *job, struct err *err);
/* Every job in order of submission; visit owns it. */
int jobdb_load(struct jobdb *db, int (*visit)(void *ctx, struct job *job, struct err *err), void *ctx, struct err *err);
int jobdb_add_checkpoint(struct jobdb *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err);
/* Checkpoints of a job ("" = all) whose file still exists, oldest first. */
struct jobdb_checkpoint {
    char job_id[JOB_ID_SIZE];
    struct task_checkpoint c;
    int64_t created_ms;
    bool pinned;
};
int jobdb_checkpoints(struct jobdb *db, const char *job_id, int (*visit)(void *ctx, const struct jobdb_checkpoint *c), void *ctx,
                      struct err *err);
int jobdb_remove_checkpoint(struct jobdb *db, const char *job_id, int64_t step, struct err *err);
/* Pinned or not; path is where its file is from now on. */
int jobdb_pin(struct jobdb *db, const char *job_id, int64_t step, const char *path, bool pinned, struct err *err);
/* Forget a job and its checkpoints. */
int jobdb_remove_job(struct jobdb *db, const char *job_id, struct err *err);
/* Served names: model file and the REF it came from. */
int jobdb_serve(struct jobdb *db, const char *name, const char *path, const char *ref, struct err *err);
int jobdb_unserve(struct jobdb *db, const char *name, struct err *err);
int jobdb_served(struct jobdb *db, void (*visit)(void *ctx, const char *name, const char *path, const char *ref), void *ctx,
                 struct err *err);
const char *jobdb_library_version(void);

#endif
