/* worker: the thread that owns the device. It runs one task at a time in short steps, runs the windows of streams before and
 * between these steps (live/live.h), gives spiking networks (burst/networks.h) as much time as the steps between which they tick,
 * and reports to the loop through mailboxes. Nice +10. Loop thread only, except where noted. */
#ifndef BRR_DAEMON_JOBS_WORKER_H
#define BRR_DAEMON_JOBS_WORKER_H
#include "daemon/burst/networks.h"
#include "daemon/jobs/job.h"
#include "daemon/live/live.h"
#include "daemon/models/source.h"

enum worker_stop { WORKER_STOP_NONE, WORKER_STOP_CANCEL, WORKER_STOP_TIME_LIMIT, WORKER_STOP_SHUTDOWN };

/* Reports of the worker; free with worker_report_free. */
enum worker_report_kind {
    WORKER_RUNNING, /* preparation is finished */
    WORKER_PROGRESS,
    WORKER_LOG,
    WORKER_NOTICE, /* text: a notice about the running job for people */
    WORKER_CHECKPOINT,
    WORKER_DONE, /* the task has ended: rc 0 and a result; or stopped; or err */
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
    struct jobfile_limits limits; /* DONE: limits of the job file; zeros if the file could not be read */
    double energy_j;              /* DONE: energy used by the device during the attempt; NaN if the device does not report it */
    struct err err;
};
void worker_report_free(struct worker_report *r);

struct worker_config {
    const char *device;
    int threads;
    struct source_config source;   /* its cache_dir is also the folder of the window cache */
    int64_t default_wall_clock_ms; /* for jobs without a limit; -1 = none */
    int64_t memory_limit_bytes;    /* device memory for one job; 0 = nine tenths of the device */
    int max_networks;              /* spiking networks; and the memory of all of them, 0 = half of the device */
    int64_t networks_bytes;
    struct metrics *metrics; /* may be NULL */
    mailbox_wake_fn *wake;   /* called on the worker's thread when reports are waiting */
    void *wake_ctx;
};
struct worker;
/* Starts the thread, which opens the device; returns when the device is open or has failed. */
int worker_start(const struct worker_config *config, struct worker **ret, struct err *err);
/* Stops a running task as for shutdown and joins the thread. */
void worker_stop(struct worker *w);
/* Starts a job; PRECONDITION while another job runs. The worker copies the parts of `job` that it needs. */
int worker_run(struct worker *w, const struct job *job, struct err *err);
/* Asks the running task to end soon; it writes a checkpoint first, except for a cancel. */
void worker_interrupt(struct worker *w, enum worker_stop why);
struct worker_report *worker_take(struct worker *w); /* NULL if no report is waiting */
/* Posts an order for the streams, and takes ownership of it; false if too many orders wait (the caller then still owns it). */
bool worker_post(struct worker *w, struct live_order *o);
struct live_report *worker_take_live(struct worker *w); /* NULL if no report is waiting */
/* The same for spiking networks; an order that was taken is answered by the same order. */
bool worker_post_network(struct worker *w, struct network_order *o);
struct network_order *worker_take_network(struct worker *w); /* NULL if no answer is waiting */
void worker_device(const struct worker *w, struct device_info *ret);
/* True if a fault has made the device unusable in this process (device_lost). Any thread. */
bool worker_lost(const struct worker *w);
/* The state that the device reports (device_health). Any thread. */
void worker_health(const struct worker *w, struct device_health *ret);
int64_t worker_memory_limit(const struct worker *w);       /* bytes that one job may use */
int64_t worker_default_wall_clock(const struct worker *w); /* time limit in ms of an attempt of a job without a limit; -1 = none */
/* Number of steps and slices since start, for the watchdog. Any thread. */
int64_t worker_beats(const struct worker *w);

#endif
