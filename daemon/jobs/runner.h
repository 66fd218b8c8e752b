/* runner: one attempt at a job, from its file to its result, on the calling thread. It opens the job's stores and models, resumes
 * from the newest checkpoint of the job's directory, and saves when a checkpoint is due, shortly before the time limit, and when it
 * is to stop. It knows nothing of queues, records or clients; the daemon's thread of jobs (jobs/worker.h) and `brrd run` call it.
 */
#pragma once

#include "base/metrics.h"
#include "daemon/models/source.h"

/* The wish that an attempt ends soon. Any thread. */
struct runner_wish {
    atomic_int stop; /* enum stop_reason; the first wish counts */
    atomic_bool now; /* stop is not NONE */
};
void runner_wish_init(struct runner_wish *wish);
void runner_wish_stop(struct runner_wish *wish, enum stop_reason why);

struct runner_config {
    const char *version; /* of this program, for what its files say about themselves; NULL: they say none */
    struct device *device;
    struct source_config source;   /* its cache_dir is also the folder of the window cache */
    int64_t default_wall_clock_ms; /* for jobs without a limit; -1 = none */
    double price_per_hour;         /* of the device, for limits.cost; 0 = not known */
    const char *currency;          /* of the price */
    int64_t memory_limit_bytes;    /* device memory for one job; 0 = no limit */
    struct metrics *metrics;       /* may be NULL */
    struct world *world;           /* the ranks that share the job; NULL: none. Rank 0's clock and all ranks' wishes decide, and its
                                    * process alone writes into the job's directory */
    bool contended;                /* as task_env.contended */
    struct file_cell *file;        /* as task_env.file */
    struct turn_at turn;           /* as task_env.turn */
};

/* The jobs that a cluster gets together, as one array; borrowed. */
struct runner_array {
    const char *name, *directory;   /* the id and the directory of the first job */
    int index, n;                   /* the job's place among the n */
    const char *const *directories; /* of all; NULL: no job of the array any more */
};

/* The job; the texts are borrowed. */
struct runner_job {
    const char *id;                      /* for messages and the folder of uploads */
    const char *directory;               /* exists */
    const char *data_root;               /* "" if the kind has none */
    const char *yaml, *file, *overrides; /* job_parse */
    const struct runner_array *array;    /* for executors in clusters; NULL: none */
    int64_t device_ms;                   /* of earlier attempts, which limits.cost counts too */
};

/* Who hears of the attempt: on the runner's thread, or on one of an upload for log lines. A refused checkpoint cannot be recorded:
 * the job then ends with EXHAUSTED. */
struct runner_owner {
    task_report_fn *report;
    void *ctx;
};
/* The error of a job with limits.cost where devices have no price. */
int runner_price_unknown(struct err *err);
/* How long a job may take in all for its limits.cost at this price; -1: any time. */
int64_t runner_cost_ms(double cost, double price_per_hour);
/* Runs the attempt to its end, which is the last report. */
void runner_run(const struct runner_config *config, const struct runner_job *job, const struct runner_owner *owner,
                struct runner_wish *wish);
