/* ledger: writes what happens to jobs into the database. A change that somebody asked for is refused when it cannot be written. A
 * change that has happened already stays in memory then and is written as soon as the database can be written again; nothing should
 * start meanwhile. Loop thread. */
#ifndef BRR_DAEMON_JOBS_LEDGER_H
#define BRR_DAEMON_JOBS_LEDGER_H
#include "daemon/jobs/jobdb.h"

/* Checkpoints that wait to be recorded; of more the oldest are dropped, with a line in the log. */
enum { LEDGER_MAX_CHECKPOINTS = 256 };

struct ledger {
    struct db *db;
    bool broken; /* the newest write failed */
    struct ledger_checkpoint *oldest, *newest;
    int waiting;
};
void ledger_init(struct ledger *l, struct db *db); /* db is borrowed */
void ledger_done(struct ledger *l);

/* Writes a change of the job that was asked for. When that fails the job is again as *before, and the caller is told why. */
int ledger_commit(struct ledger *l, struct job *job, const struct job *before, struct err *err);
/* Inserts a new job and the number of the one after it, or neither. */
int ledger_insert(struct ledger *l, const struct job *job, int64_t next_sequence, struct err *err);
/* Writes a change of the job that has happened, now or later (job->unsaved). */
void ledger_record(struct ledger *l, struct job *job);
/* The same with a checkpoint that the job has written. */
void ledger_checkpoint(struct ledger *l, struct job *job, const struct task_checkpoint *c, int64_t now_ms);
/* If the ledger is broken: writes all that waits. It is whole again on success. */
void ledger_retry(struct ledger *l, struct job *const *jobs, int count);

#endif
