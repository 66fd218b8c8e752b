#include "daemon/jobs/executor.h"

static void run_here(const struct runner_config *runner, const struct slurm_config *slurm, const struct runner_job *job,
                     const struct runner_events *events, struct runner_wish *wish, struct runner_end *ret) {
    (void)slurm;
    runner_run(runner, job, events, wish, ret);
}

static void run_in_slurm(const struct runner_config *runner, const struct slurm_config *slurm, const struct runner_job *job,
                         const struct runner_events *events, struct runner_wish *wish, struct runner_end *ret) {
    (void)runner;
    slurm_run(slurm, job, events, wish, ret);
}

const struct executor executor_local = {.kind = "local", .on_device = true, .run = run_here};
const struct executor executor_slurm = {.kind = "slurm", .on_device = false, .run = run_in_slurm};
