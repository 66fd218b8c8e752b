/* executor: what runs an attempt at a job. Three rows: a thread of this daemon, on one of its devices (jobs/runner.h), a child of
 * it (jobs/process.h), and a Slurm cluster (jobs/slurm.h). The thread of the attempt (jobs/worker.h) calls run, which blocks until
 * the attempt has ended. */
#pragma once
#include "daemon/jobs/process.h"
#include "daemon/jobs/slurm.h"

/* Each row uses its own; borrowed. */
struct executor_places {
    const struct process_config *process;
    const struct slurm_config *cluster;
};

struct executor {
    const char *kind;
    bool on_device; /* the attempt needs a device of this daemon, and ends with the daemon */
    void (*run)(const struct executor_places *places, const struct runner_config *runner, const struct runner_job *job,
                const struct runner_owner *owner, struct runner_wish *wish);
};
extern const struct executor executor_local, executor_process, executor_slurm;
