/* ledger: writes changes of jobs to the database. A change that a client requests fails if it cannot be written. A change that has
 * already happened stays in memory and is written as soon as the database is writable again; until then no job should start. Loop
 * thread. */
#ifndef BRR_DAEMON_JOBS_LEDGER_H
#define BRR_DAEMON_JOBS_LEDGER_H
#include "daemon/jobs/jobdb.h"

/* Maximum number of checkpoints waiting to be recorded; beyond it the oldest are dropped, with a log line. */
enum { LEDGER_MAX_CHECKPOINTS = 256 };

struct ledger {
    struct db *db;
    bool broken; /* the most recent write failed, or the volume of the database does not answer */
    struct ledger_checkpoint *oldest, *newest;
    int waiting;
};
void ledger_init(struct ledger *l, struct db *db); /* db is borrowed */
void ledger_done(struct ledger *l);

/* Writes something, so that `broken` says from the start whether the database can be written. */
void ledger_probe(struct ledger *l);
/* Writes a requested change of the job. On failure *job is restored to *before, and the error is returned. */
int ledger_commit(struct ledger *l, struct job *job, const struct job *before, struct err *err);
/* Inserts a new job and the number of the next job in one transaction. */
int ledger_insert(struct ledger *l, const struct job *job, int64_t next_sequence, struct err *err);
/* Writes a change of the job that has happened, now or later (job->unsaved). */
void ledger_record(struct ledger *l, struct job *job);
/* Same as ledger_record, with a checkpoint that the job has written. */
void ledger_checkpoint(struct ledger *l, struct job *job, const struct task_checkpoint *c, int64_t now_ms);
/* Removes jobs from the database, all or none, in one transaction. */
int ledger_forget(struct ledger *l, struct job *const *jobs, int n, struct err *err);
/* Removes a job from the database and records its folder, which is to be removed next; "" = it has none. */
int ledger_remove(struct ledger *l, const struct job *job, const char *folder, struct err *err);
/* Call every second. Sees whether the volume of the database answers; if the ledger is broken, writes everything that waits, and
 * clears `broken` on success. */
void ledger_retry(struct ledger *l, struct job *const *jobs, int count);

#endif
