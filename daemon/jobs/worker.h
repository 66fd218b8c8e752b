/* worker: the thread that owns the device. It drives one task at a time in short steps, runs the windows of streams before and
 * between them (live/live.h), and tells the loop what happens through mailboxes. Nice +10. All functions belong to the loop thread,
 * but those that say so. */
#ifndef BRR_DAEMON_JOBS_WORKER_H
#define BRR_DAEMON_JOBS_WORKER_H
#include "daemon/jobs/job.h"
#include "daemon/live/live.h"
#include "daemon/models/source.h"

enum worker_stop { WORKER_STOP_NONE, WORKER_STOP_CANCEL, WORKER_STOP_TIME_LIMIT, WORKER_STOP_SHUTDOWN };

/* What the worker says; free with worker_report_free. */
enum worker_report_kind {
    WORKER_RUNNING, /* preparation is over */
    WORKER_PROGRESS,
    WORKER_LOG,
    WORKER_NOTICE, /* text: what people should know while it runs */
    WORKER_CHECKPOINT,
    WORKER_DONE, /* the task ended: rc 0 and result; or stopped; or err */
};
struct worker_report {
    struct message message; /* message.kind is the report's kind */
    char job_id[JOB_ID_SIZE];
    struct task_progress progress;
    enum task_level level;
    char *text; /* LOG, NOTICE: line; DONE: result JSON or NULL */
    struct task_checkpoint checkpoint;
    int rc;
    enum worker_stop stopped;
    bool has_checkpoint;
    struct jobfile_limits limits; /* DONE: of the job file; zeros when it could not be read */
    double energy_j;              /* DONE: drawn by the device meanwhile; NaN when it does not tell */
    struct err err;
};
void worker_report_free(struct worker_report *r);

struct worker_config {
    const char *device;
    int threads;
    struct source_config source;   /* its cache_dir is also that of the windows */
    int64_t default_wall_clock_ms; /* of jobs without a limit; -1 = none */
    int64_t memory_limit_bytes;    /* of one job; 0 = nine tenths of the device */
    struct metrics *metrics;       /* may be NULL */
    mailbox_wake_fn *wake;         /* called on the worker's thread when reports wait */
    void *wake_ctx;
};
struct worker;
/* Opens the device on its own thread; returns when it is open or failed. */
int worker_start(const struct worker_config *config, struct worker **ret, struct err *err);
/* Stops a running task as for shutdown, joins. */
void worker_stop(struct worker *w);
/* Begin a job; PRECONDITION while one runs. The worker copies what it needs. */
int worker_run(struct worker *w, const struct job *job, struct err *err);
/* Ask the running task to end soon; a checkpoint comes first except for a cancel. */
void worker_interrupt(struct worker *w, enum worker_stop why);
struct worker_report *worker_take(struct worker *w); /* NULL when none waits */
/* An order for the streams; false when the device has too many waiting already (the order is still the caller's). */
bool worker_post(struct worker *w, struct live_order *o);
struct live_report *worker_take_live(struct worker *w); /* NULL when none waits */
void worker_device(const struct worker *w, struct device_info *ret);
/* Whether a fault has taken the device from this process for good (device_lost). Any thread. */
bool worker_lost(const struct worker *w);
/* What the device tells of itself (device_health). Any thread. */
void worker_health(const struct worker *w, struct device_health *ret);
int64_t worker_memory_limit(const struct worker *w);       /* bytes one job may use */
int64_t worker_default_wall_clock(const struct worker *w); /* ms one attempt of a job without a limit may take; -1 = none */
/* Steps and slices done since start, for the watchdog. Any thread. */
int64_t worker_beats(const struct worker *w);

#endif
