/* executor: what runs an attempt at a job. Two rows: this daemon, on one of its devices (jobs/runner.h), and a Slurm cluster
 * (jobs/slurm.h). The thread of the attempt (jobs/worker.h) calls run, which blocks until the attempt has ended. */
#ifndef BRR_DAEMON_JOBS_EXECUTOR_H
#define BRR_DAEMON_JOBS_EXECUTOR_H
#include "daemon/jobs/slurm.h"

struct executor {
    const char *kind;
    bool on_device; /* the attempt needs a device of this daemon, and dies with the daemon */
    /* Each row uses its own configuration. */
    void (*run)(const struct runner_config *runner, const struct slurm_config *slurm, const struct runner_job *job,
                const struct runner_owner *owner, struct runner_wish *wish);
};
extern const struct executor executor_local, executor_slurm;

#endif
