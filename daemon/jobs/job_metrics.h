/* job_metrics: updates the metric families of the kinds of job (work/kind.h) while a job runs. Loop thread. */
#pragma once
#include "daemon/jobs/slots.h"

struct job_metrics {
    struct metrics *metrics;
    struct job_metrics_slot {
        char device[32];       /* its name; the label of counters */
        char job[JOB_ID_SIZE]; /* the job whose gauges are shown, or "" */
        int64_t steps;         /* its steps counted so far */
        int64_t first_step_ms; /* start of the attempt whose first step was counted */
    } at[SLOTS_MAX];
    int n;
};

/* Call after each change of a job. */
void job_metrics_follow(struct job_metrics *m, const struct job *job);
/* Returns the daemon's families followed by those of all kinds, *ret_count in total; the caller frees the array. NULL when out of
 * memory. */
struct metric_family *job_metrics_families(const struct metric_family *own, size_t n_own, size_t *ret_count);
