#include "daemon/jobs/job_metrics.h"

static void show_value(struct job_metrics *m, const struct kind_metric *k, const struct job *job) {
    double value;
    memcpy(&value, (const char *)&job->progress + k->offset, sizeof value);
    metric_set(metrics_series(m->metrics, k->family.name, job->id), value);
}

static void follow_step(struct job_metrics *m, const struct job_metrics_slot *slot, const struct kind_metric *k,
                        const struct job *job) {
    const struct task_progress *p = &job->progress;
    struct metric *series = k->source == KIND_METRIC_VALUE ? NULL : metrics_series(m->metrics, k->family.name, slot->device);
    switch (k->source) {
    case KIND_METRIC_VALUE:
        show_value(m, k, job);
        break;
    case KIND_METRIC_STEPS:
        metric_add(series, (double)(p->step - slot->steps));
        break;
    case KIND_METRIC_STEP_TIME:
        metric_observe(series, p->step_s);
        break;
    case KIND_METRIC_FIRST_STEP:
        if (slot->first_step_ms != job->started_ms)
            metric_observe(series, (double)(clock_wall_ms() - job->started_ms) / 1000);
        break;
    }
}

static void drop(struct job_metrics *m, const struct task_kind *kind, const char *job) {
    for (const struct kind_metric *k = kind->metrics; k && k->family.name; k++)
        if (k->source == KIND_METRIC_VALUE)
            metrics_drop(m->metrics, k->family.name, job);
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->at[i].job, job))
            m->at[i].job[0] = '\0';
}

/* The place of the job's device. */
static struct job_metrics_slot *slot_of(struct job_metrics *m, const struct job *job) {
    int i = 0;
    while (i < m->n && strcmp(m->at[i].device, job->on) != 0)
        i++;
    if (i == SLOTS_MAX)
        return NULL;
    if (i == m->n)
        str_copy(m->at[m->n++].device, sizeof m->at[i].device, job->on);
    return &m->at[i];
}

static void follow_running(struct job_metrics *m, const struct task_kind *kind, const struct job *job) {
    const struct task_progress *p = &job->progress;
    struct job_metrics_slot *slot = slot_of(m, job);
    if (!slot)
        return;
    if (strcmp(slot->job, job->id) != 0) {
        str_copy(slot->job, sizeof slot->job, job->id);
        slot->steps = p->step - 1;
    }
    for (const struct kind_metric *k = kind->metrics; k && k->family.name && p->step > slot->steps; k++)
        follow_step(m, slot, k, job);
    slot->first_step_ms = job->started_ms;
    slot->steps = p->step > slot->steps ? p->step : slot->steps;
}

void job_metrics_follow(struct job_metrics *m, const struct job *job) {
    const struct task_kind *kind = task_kind_find(job->kind);
    const struct task_progress *p = &job->progress;
    if (!kind)
        return;                                                        /* of a later version */
    if (job->state == JOB_RUNNING && p->step > 0 && !isnan(p->step_s)) /* a step of this attempt */
        follow_running(m, kind, job);
    if (job_is_over(job->state))
        drop(m, kind, job->id);
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
