#include "daemon/jobs/job_metrics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

static void show_value(struct job_metrics *m, const struct kind_metric *k, const struct job *job) {
    double value;
    memcpy(&value, (const char *)&job->progress + k->offset, sizeof value);
    metric_set(metrics_series(m->metrics, k->family.name, job->id), value);
}

static void follow_step(struct job_metrics *m, const struct kind_metric *k, const struct job *job, bool first) {
    const struct task_progress *p = &job->progress;
    struct metric *series = k->source == KIND_METRIC_VALUE ? NULL : metrics_series(m->metrics, k->family.name, "");
    switch (k->source) {
    case KIND_METRIC_VALUE:
        show_value(m, k, job);
        break;
    case KIND_METRIC_STEPS:
        metric_add(series, (double)(p->step - m->steps));
        break;
    case KIND_METRIC_STEP_TIME:
        metric_observe(series, p->step_s);
        break;
    case KIND_METRIC_FIRST_STEP:
        if (first)
            metric_observe(series, (double)(clock_wall_ms() - job->started_ms) / 1000);
        break;
    }
}

static void drop(struct job_metrics *m, const struct task_kind *kind) {
    for (const struct kind_metric *k = kind->metrics; k && k->family.name; k++)
        if (k->source == KIND_METRIC_VALUE)
            metrics_drop(m->metrics, k->family.name, m->job);
    m->job[0] = '\0';
}

void job_metrics_follow(struct job_metrics *m, const struct job *job) {
    const struct task_kind *kind = task_kind_find(job->kind);
    const struct task_progress *p = &job->progress;
    if (!kind)
        return;                                                          /* of a later version */
    if (job->state == JOB_RUNNING && p->step > 0 && !isnan(p->step_s)) { /* a step of this attempt */
        if (strcmp(m->job, job->id)) {
            str_copy(m->job, sizeof m->job, job->id);
            m->steps = p->step - 1;
        }
        bool first = m->first_step_ms != job->started_ms;
        for (const struct kind_metric *k = kind->metrics; k && k->family.name && p->step > m->steps; k++)
            follow_step(m, k, job, first);
        m->first_step_ms = job->started_ms;
        m->steps = p->step > m->steps ? p->step : m->steps;
    }
    if (job_is_over(job->state) && !strcmp(m->job, job->id))
        drop(m, kind);
}

struct metric_family *job_metrics_families(const struct metric_family *own, size_t n_own, size_t *ret_count) {
    size_t n = n_own;
    for (int i = 0; i < task_kind_count; i++)
        for (const struct kind_metric *k = task_kinds[i]->metrics; k && k->family.name; k++)
            n++;
    struct metric_family *all = malloc(n * sizeof *all);
    if (!all)
        return NULL;
    memcpy(all, own, n_own * sizeof *all);
    *ret_count = n_own;
    for (int i = 0; i < task_kind_count; i++)
        for (const struct kind_metric *k = task_kinds[i]->metrics; k && k->family.name; k++)
            all[(*ret_count)++] = k->family;
    return all;
}
