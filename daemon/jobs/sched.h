/* sched: all jobs of the daemon: the queue (priority, then order of submission), the one that runs, and those that ended. Moves
 * states, keeps the database true before anybody is told, restarts after faults, goes on after a crash. A job for whose data the
 * volume of the cache has no room is paused: queued, passed over, and tried again when there is room, or once in a while.
 * Loop thread. */
#ifndef BRR_DAEMON_JOBS_SCHED_H
#define BRR_DAEMON_JOBS_SCHED_H
#include "daemon/jobs/jobdb.h"
#include "daemon/jobs/worker.h"

enum { SCHED_MAX_JOBS = 100000 };

struct sched_config {
    const char *database, *results_dir, *data_dir, *cache_dir;
    bool local_paths;
    const struct source_store *stores;
    int n_stores;
    int64_t max_queued;
    int64_t keep_finished_ms; /* ended jobs older than this are forgotten, their files stay; -1 = never */
    /* The file of a model REF (jobs/models.h), resolved when a job that names one is submitted; path has 4096 bytes. */
    int (*resolve_model)(void *ctx, const char *ref, char *path, struct err *err);
    /* Told after every change of a job (progress too); may be NULL. */
    void (*changed)(void *ctx, const struct job *job);
    /* A log line of a job. */
    void (*logged)(void *ctx, const struct job *job, const char *level, const char *text);
    void *ctx;
};
struct sched;
/* Loads the database; jobs that ran when the daemon died are queued again. */
int sched_open(const struct sched_config *config, struct worker *worker, struct sched **ret, struct err *err);
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
int sched_cancel(struct sched *s, const char *id, const struct job **ret, struct err *err);
/* overrides: further "limits.…=value" assignments. */
int sched_resume(struct sched *s, const char *id, const char *const *overrides, int n, const struct job **ret, struct err *err);
/* Take what the worker reported and start the next job when the device is free. */
void sched_turn(struct sched *s);
/* Once in a while: ended jobs that are old enough are forgotten. */
void sched_tick(struct sched *s);
/* No more starts; a running job checkpoints and goes back to the queue. */
void sched_drain(struct sched *s);
/* The same for a device that has gone bad, but the daemon stays: `why` is the reason of what waits from now on. */
void sched_hold(struct sched *s, const char *why);
int sched_paused(const struct sched *s); /* jobs that wait for room on the cache volume */
bool sched_idle(const struct sched *s);  /* nothing runs */
/* The job's data.source as a directory the daemon may read, or as it is when it names a bucket or, for a detect job, one file of a
 * store (fetched when the job runs): INVALID, DENIED, NOT_FOUND, UNSUPPORTED say why not. */
int sched_resolve_source(const struct sched *s, const struct jobfile *job, char *buf, size_t size, struct err *err);
struct jobdb *sched_db(struct sched *s);

#endif
