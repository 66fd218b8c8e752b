/* slurm: an attempt at a job as a job of a Slurm cluster, on the calling thread. The job's directory is on a file system that the
 * nodes see under the same path. There the batch script leaves what it does (events.jsonl, `brrd run --json`) and, at the very end,
 * its exit code (exit), which is the truth; squeue, which forgets jobs, is asked for the reason of a wait and for jobs that end
 * without a word.
 *
 * Slurm's job is called brrd-ID-ATTEMPT, and its working directory is the job's. The attempt is recorded (slurm) before sbatch, and
 * looked for by name and directory before sbatch is called, so that a daemon that dies in between submits it once. A daemon that
 * stops leaves Slurm's job alone; the next one follows it further. */
#pragma once
#include "daemon/jobs/runner.h"

/* A cluster: an entry of `executors` in daemon.yaml. */
struct slurm_config {
    const char *name;         /* what job files call it */
    const char *partition;    /* NULL: Slurm's default */
    const char *script;       /* the batch script, deploy/slurm/train.sbatch */
    const char *config;       /* a daemon.yaml for the ranks: stores, device, threads; NULL: none */
    int64_t jobs;             /* at most so many of this daemon at a time */
    const char **environment; /* patterns of the daemon's variables that its commands and jobs get; NULL ends them */
};

/* stopped CANCEL: scancel has ended it; SHUTDOWN, PREEMPT: it goes on without this daemon. Errors: PRECONDITION and INVALID for a
 * submission that Slurm does not take and for a job that fails for good; UNAVAILABLE for one that was lost, or tried in vain. */
void slurm_run(const struct slurm_config *config, const struct runner_job *job, const struct runner_owner *owner,
               struct runner_wish *wish);
