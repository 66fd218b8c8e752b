/* sched: all jobs of the daemon: the queue (by priority, then order of submission), the running jobs, one on each place of a device
 * at most (jobs/slots.h), and ended jobs. A job runs on the device that its file names, else on the one with the fewest jobs and
 * the most free memory. It changes their states and writes each change to the database before it notifies anybody (ledger.h); while
 * the database cannot be written, no job starts. A job that ended by a device fault, or ran when the daemon died, starts again
 * after a delay that doubles each time the job makes no progress. Each such restart counts against limits.restarts; above that
 * limit the job fails with the cause. Jobs that were active together in a crash are not charged: each starts again, and no other
 * starts before its first checkpoint or a minute of progress; in a crash until then it is charged alone. A shutdown or a full cache
 * volume counts no restart: on a full cache volume the job is paused (queued, passed over, and retried when there is room, and at
 * intervals). Loop thread. */
#pragma once
#include "daemon/db/db_writer.h"
#include "daemon/jobs/slots.h"
#include "daemon/jobs/submission.h"
#include "daemon/jobs/worker.h"

enum { SCHED_MAX_JOBS = 100000, SCHED_FORGET_MAX = 64 /* jobs at a time, in one transaction: the loop must not wait for long */ };

struct sched_config {
    struct db *db;          /* lent to a thread that writes (jobs/ledger.h), until sched_close */
    const struct err *lost; /* as ledger_config.lost: no job is taken, and none starts */
    mailbox_wake_fn *wake;  /* called when sched_turn has something to do; any thread. May be NULL */
    void *wake_ctx;
    struct submission_rules rules;
    const char *cache_dir;
    int64_t max_queued, max_jobs; /* max_jobs 0: SCHED_MAX_JOBS */
    int64_t keep_finished_ms;     /* ended jobs older than this are removed from the database, their files stay; -1 = never */
    /* Called after every change of a job, including progress; may be NULL. */
    void (*changed)(void *ctx, const struct job *job);
    /* Called for each line of a job's log; the callee writes it. May be NULL. */
    void (*logged)(void *ctx, const struct job *job, const char *level, const char *text);
    void *ctx;
    /* The workers (jobs/worker.h), one for each place: `run` starts a job, on all places for which sched_on gives it, the first
     * being `place`; `interrupt` asks the running job to end soon; `ended` follows when it has, for each place, while sched_on
     * still gives it. Places are indices below n_places. */
    int (*run)(void *worker, int place, const struct job *job, struct err *err);
    void (*interrupt)(void *worker, int place, enum stop_reason why);
    void (*ended)(void *worker, int place); /* may be NULL */
    /* As slots.room. */
    void (*room)(void *worker, int device, int64_t *ret_limit, int64_t *ret_free);
    void *worker;
    int n_places; /* 0: one */
    bool apart;   /* jobs run in processes of their own: they do not end the daemon, and are not charged for its end */
    struct {
        const char *name, *description; /* "cuda:0"; "cuda:0: NVIDIA H200", recorded with each job that runs there */
        bool remote;                    /* a place in the cluster of this name, for jobs that outlive the daemon */
        bool for_cancel;                /* as slot.for_cancel */
        bool further;                   /* a further place on the device whose first place is `device` */
        int device;
    } places[SLOTS_MAX];
    const char *versions;       /* recorded too */
    int64_t (*wall_ms)(void);   /* NULL: clock_wall_ms */
    int64_t (*steady_ms)(void); /* a clock that nobody sets, for time that is charged; NULL: clock_ms */
    int64_t (*boot_ms)(void);   /* NULL: trusted_boot_ms */
};
struct sched;
/* Loads the jobs. Jobs that ran when the daemon died are queued again or, above limits.restarts, failed. */
int sched_open(const struct sched_config *config, struct sched **ret, struct err *err);
void sched_close(struct sched *s);
/* Calls over when all changes so far are recorded, or cannot be (db_writer_await). */
void sched_await(struct sched *s, struct db_wait *wait, void (*over)(struct db_wait *wait, int rc, const struct err *err));
/* The thread that writes to the database, for other records. */
struct db_writer *sched_writer(const struct sched *s);
/* A submission takes four steps: draft_parse on any thread, this one, draft_place on any thread, and sched_accept. A repeated
 * non-empty request_id of the same owner gives the existing job, or the error for which it could not be recorded yet. The draft
 * stays the caller's. hidden: as for sched_check_after. */
int sched_admit(struct sched *s, struct draft *d, bool hidden, const struct job **ret_same, struct err *err);
/* A job to wait for (NULL: none) must be there, and may yet succeed. hidden: the caller does not see it, and hears what
 * it would hear of an unknown one. */
int sched_check_after(const struct sched *s, const char *id, bool hidden, struct err *err);
/* Records and queues the placed job; `notice` is called for each notice; may be NULL. The draft stays the caller's, to be discarded
 * and freed. A job that the queue did not take keeps its place in the draft: after an error, and when another submission with its
 * request_id came first, whose job is returned. */
int sched_accept(struct sched *s, struct draft *d, void (*notice)(void *ctx, const char *text), void *ctx, const struct job **ret,
                 struct err *err);
const struct job *sched_get(const struct sched *s, const char *id); /* NULL when unknown */
int sched_count(const struct sched *s);
const struct job *sched_at(const struct sched *s, int index); /* order of submission */
/* Those that have not ended, in no order. */
int sched_open_count(const struct sched *s);
const struct job *sched_open_at(const struct sched *s, int index);
int sched_position(const struct sched *s, const struct job *job); /* from 1 in the queue, else 0 */
/* Cancels a queued job at once. how: STOP_CANCEL, or STOP_SAVE_AND_CANCEL. A running job ends soon and is then cancelled unless its
 * work was already done, even if the daemon dies in between. Errors (of submit and resume too): the database cannot be written, and
 * nothing has changed. After success the change is acknowledged to others when sched_await says that it is recorded. */
int sched_cancel(struct sched *s, const char *id, enum stop_reason how, const struct job **ret, struct err *err);
/* overrides: additional "limits.…=value" assignments. */
int sched_resume(struct sched *s, const char *id, const char *const *overrides, int n, const struct job **ret, struct err *err);
/* Removes an ended job and its checkpoints from the database and the list, and records its folder as one to be removed ("" = none);
 * its files stay (jobs/removal.h). It leaves the list once that is recorded; until then it does not resume. */
int sched_remove(struct sched *s, const char *id, const char *folder, struct err *err);
/* Sets files_bytes of a job that has ended. */
void sched_measured(struct sched *s, const char *id, int64_t bytes);
/* Handles a report about the job that runs; the result is taken from an end. */
void sched_report(struct sched *s, const char *job_id, const struct task_report *r);
/* Shows `text` as the reason of the place's job, such as "waits for PATH since TIME"; "" shows the reason before again. Not
 * stored.
 */
void sched_waits(struct sched *s, int place, const char *text);
/* Hears of changes that were recorded, starts waiting jobs on free places, and tells a running job to make room for a waiting one
 * of higher priority, if it is preemptible. Call after every report, when woken, and at intervals. */
void sched_turn(struct sched *s);
/* Call about every second: writes changes that could not be written before, and forgets ended jobs that are old enough. */
void sched_tick(struct sched *s);
/* Starts no more jobs; the running jobs write checkpoints and return to the queue. */
void sched_drain(struct sched *s);
/* Same for a device that has gone bad, but the daemon keeps running; `why` becomes the reason of jobs that no other device can run.
 */
void sched_hold(struct sched *s, int device, const char *why);
bool sched_writable(const struct sched *s);                   /* false: the database cannot be written, so no job starts */
int sched_paused(const struct sched *s);                      /* number of jobs that wait for room on the cache volume */
struct volume *sched_cache(const struct sched *s);            /* the volume of the cache; borrowed */
bool sched_idle(const struct sched *s);                       /* no job is running */
const struct job *sched_on(const struct sched *s, int place); /* the place's job, or NULL */
int sched_jobs_on(const struct sched *s, int device);         /* number of running jobs of the device with this first place */
/* The next running job that shares the device of `job`, after `after` (NULL: the first one), or NULL. */
const struct job *sched_beside(const struct sched *s, const struct job *job, const struct job *after);
/* The open jobs that go to a cluster with this one, as one array, by index (NULL: none there), and the array's first job, which may
 * have ended. Returns the size of the array; 0: the job goes alone. */
int sched_array(const struct sched *s, const struct job *job, const struct job *ret[JOBFILE_MAX_ARRAY],
                const struct job **ret_head);
