/* sched: all jobs of the daemon: the queue (priority, then order of submission), the one that runs, and those that ended. It moves
 * their states and writes each change to the database before anybody is told (ledger.h); while that cannot be written nothing
 * starts.
 * A job that ended by a fault, or ran when the daemon died, is started again after a while that doubles each time it makes no
 * progress; each such restart is charged to limits.restarts, and above that the job is failed with the cause. A shutdown and a
 * cache volume that is full charge nothing: the job of the latter is paused (queued, passed over, and tried again when there is
 * room, or once in a while). Loop thread. */
#ifndef BRR_DAEMON_JOBS_SCHED_H
#define BRR_DAEMON_JOBS_SCHED_H
#include "daemon/db/db.h"
#include "daemon/jobs/worker.h"
#include "daemon/models/places.h"

enum { SCHED_MAX_JOBS = 100000 };

struct sched_config {
    struct db *db;               /* borrowed */
    const struct places *places; /* borrowed */
    const char *cache_dir;
    int64_t max_queued, max_jobs; /* max_jobs 0: SCHED_MAX_JOBS */
    int64_t keep_finished_ms;     /* ended jobs older than this are forgotten, their files stay; -1 = never */
    /* The file of a model REF (models/models.h), resolved when a job that names one is submitted; path has 4096 bytes. */
    int (*resolve_model)(void *ctx, const char *ref, char *path, struct err *err);
    /* Told after every change of a job (progress too); may be NULL. */
    void (*changed)(void *ctx, const struct job *job);
    /* A log line of a job. */
    void (*logged)(void *ctx, const struct job *job, const char *level, const char *text);
    void *ctx;
    /* The device worker (jobs/worker.h): starts a job, or asks the one that runs to end soon. */
    int (*run)(void *worker, const struct job *job, struct err *err);
    void (*interrupt)(void *worker, enum worker_stop why);
    void *worker;
    const char *device, *versions; /* recorded with the jobs that run */
    int64_t (*wall_ms)(void);      /* NULL: clock_wall_ms */
};
struct sched;
/* Loads the jobs. Those that ran when the daemon died are queued again or, above limits.restarts, failed. */
int sched_open(const struct sched_config *config, struct sched **ret, struct err *err);
void sched_close(struct sched *s);
struct sched_request {
    const char *yaml, *file, *request_id;
    const char *const *overrides;
    int n_overrides;
};
/* Parses, checks and queues. Same non-empty request_id = the same job. notices through visit (may be NULL). */
int sched_submit(struct sched *s, const struct sched_request *request, void (*notice)(void *ctx, const char *text), void *ctx,
                 const struct job **ret, struct err *err);
const struct job *sched_get(const struct sched *s, const char *id); /* NULL when unknown */
int sched_count(const struct sched *s);
const struct job *sched_at(const struct sched *s, int index);     /* order of submission */
int sched_position(const struct sched *s, const struct job *job); /* from 1 in the queue, else 0 */
/* A job that waits is cancelled at once. One that runs ends soon, and is cancelled then unless its work was done before, even if
 * the daemon dies meanwhile. Errors (of submit and resume too): what the database answers, in which case nothing has changed. */
int sched_cancel(struct sched *s, const char *id, const struct job **ret, struct err *err);
/* overrides: further "limits.…=value" assignments. */
int sched_resume(struct sched *s, const char *id, const char *const *overrides, int n, const struct job **ret, struct err *err);
/* A report of the worker, which stays the caller's. */
void sched_report(struct sched *s, struct worker_report *r);
/* Starts the next job when the device is free; after every report and now and then. */
void sched_turn(struct sched *s);
/* Every second or so: writes to the database what could not be written, and forgets ended jobs that are old enough. */
void sched_tick(struct sched *s);
/* No more starts; a running job checkpoints and goes back to the queue. */
void sched_drain(struct sched *s);
/* The same for a device that has gone bad, but the daemon stays: `why` is the reason of what waits from now on. */
void sched_hold(struct sched *s, const char *why);
bool sched_writable(const struct sched *s); /* false: the database could not be written, and nothing starts */
int sched_paused(const struct sched *s);    /* jobs that wait for room on the cache volume */
bool sched_idle(const struct sched *s);     /* nothing runs */
/* The file that the job names by a key, resolved; "" for the URL of an object, which is fetched when the job runs. */
int sched_resolve_ref(const struct sched *s, const struct jobfile_ref *ref, char path[4096], struct err *err);

#endif
