/* job_metrics: the families of /metrics that the kinds of job feed (run/kind.h), kept true while a job runs. Loop thread. */
#ifndef BRR_DAEMON_JOBS_JOB_METRICS_H
#define BRR_DAEMON_JOBS_JOB_METRICS_H
#include "daemon/jobs/job.h"

struct job_metrics {
    struct metrics *metrics;
    char job[JOB_ID_SIZE]; /* whose gauges are shown, or "" */
    int64_t steps;         /* of it, counted so far */
    int64_t first_step_ms; /* start of the attempt whose first step was seen */
};

/* After each change of a job. */
void job_metrics_follow(struct job_metrics *m, const struct job *job);
/* The daemon's families and behind them those of all kinds; freed by the caller, *ret_count of them. NULL when out of memory. */
struct metric_family *job_metrics_families(const struct metric_family *own, size_t n_own, size_t *ret_count);

#endif
