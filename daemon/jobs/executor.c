#include "daemon/jobs/executor.h"

static void run_here(const struct executor_places *places, const struct runner_config *runner, const struct runner_job *job,
                     const struct runner_owner *owner, struct runner_wish *wish) {
    (void)places;
    runner_run(runner, job, owner, wish);
}

/* Ranks of one job exchange their sums in this process. */
static void run_in_process(const struct executor_places *places, const struct runner_config *runner, const struct runner_job *job,
                           const struct runner_owner *owner, struct runner_wish *wish) {
    if (runner->world)
        runner_run(runner, job, owner, wish);
    else
        process_run(places->process, runner, job, owner, wish);
}

static void run_in_slurm(const struct executor_places *places, const struct runner_config *runner, const struct runner_job *job,
                         const struct runner_owner *owner, struct runner_wish *wish) {
    (void)runner;
    slurm_run(places->cluster, job, owner, wish);
}

const struct executor executor_local = {.kind = "local", .on_device = true, .run = run_here};
const struct executor executor_process = {.kind = "process", .on_device = true, .run = run_in_process};
const struct executor executor_slurm = {.kind = "slurm", .on_device = false, .run = run_in_slurm};
