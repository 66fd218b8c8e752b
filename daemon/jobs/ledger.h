/* ledger: writes changes of jobs to the database, on a thread of its own (db/db_writer.h). Memory is the truth: a change happens
 * there, and the caller acknowledges it to others when ledger_await says that it is in the file. A change that cannot be written
 * stays in memory and is written as soon as the database is writable again; until then the ledger is broken, no job starts, and
 * further requests are refused. Loop thread. */
#pragma once
#include "daemon/db/db_writer.h"
#include "daemon/jobs/jobdb.h"

/* Maximum number of checkpoints waiting to be recorded; beyond it the oldest are dropped, with a log line. */
enum { LEDGER_MAX_CHECKPOINTS = 256 };

struct ledger_config {
    struct db *db;          /* lent */
    const struct err *lost; /* not NULL: db takes the place of a database that is lost, and no job is recorded; why */
    mailbox_wake_fn *wake;
    void *wake_ctx;
    struct job *(*find)(void *ctx, const char *id); /* NULL: it is gone */
    /* ledger_start has ended. */
    void (*started)(void *ctx, struct job *job, int rc);
    /* ledger_forget or ledger_remove has ended; in the order in which the jobs were given. */
    void (*forgotten)(void *ctx, const char (*ids)[JOB_ID_SIZE], int n, int rc);
    void *ctx;
};

struct ledger {
    struct ledger_config config;
    struct db_writer *writer;
    bool broken;    /* the most recent write failed, or the volume of the database does not answer */
    bool retrying;  /* all that waits is being written */
    struct err why; /* broken: the reason */
    struct ledger_checkpoint *oldest, *newest;
    int waiting;
};
/* Writes something, so that `broken` says from the start whether the database can be written. */
int ledger_open(struct ledger *l, const struct ledger_config *config, struct err *err);
void ledger_close(struct ledger *l); /* writes what it can */

/* Writes a requested change of the job. While the ledger is broken, *job is restored to *before, and the reason is returned. */
int ledger_commit(struct ledger *l, struct job *job, const struct job *before, struct err *err);
/* The same, of a job that starts once this is written (config.started). */
int ledger_start(struct ledger *l, struct job *job, const struct job *before, struct err *err);
/* Inserts a new job and the number of the next job. */
int ledger_insert(struct ledger *l, struct job *job, int64_t next_sequence, struct err *err);
/* Writes a change of the job that has happened, now or later (job->unsaved). */
void ledger_record(struct ledger *l, struct job *job);
/* Same as ledger_record, with a checkpoint that the job has written. */
void ledger_checkpoint(struct ledger *l, struct job *job, const struct task_checkpoint *c, int64_t now_ms);
/* Removes jobs from the database, all or none. */
int ledger_forget(struct ledger *l, struct job *const *jobs, int n, struct err *err);
/* Removes a job from the database and records its folder, which is to be removed next; "" = it has none. */
int ledger_remove(struct ledger *l, const struct job *job, const char *folder, struct err *err);
/* Call every second. Sees whether the volume of the database answers; if the ledger is broken, writes everything that waits, and
 * clears `broken` on success. */
void ledger_retry(struct ledger *l, struct job *const *jobs, int count);
