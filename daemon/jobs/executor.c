#include "daemon/jobs/executor.h"

static void run_here(const struct runner_config *runner, const struct slurm_config *slurm, const struct runner_job *job,
                     const struct runner_owner *owner, struct runner_wish *wish) {
    (void)slurm;
    runner_run(runner, job, owner, wish);
}

static void run_in_slurm(const struct runner_config *runner, const struct slurm_config *slurm, const struct runner_job *job,
                         const struct runner_owner *owner, struct runner_wish *wish) {
    (void)runner;
    slurm_run(slurm, job, owner, wish);
}

const struct executor executor_local = {.kind = "local", .on_device = true, .run = run_here};
const struct executor executor_slurm = {.kind = "slurm", .on_device = false, .run = run_in_slurm};
