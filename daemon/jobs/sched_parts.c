#include "daemon/jobs/sched_parts.h"

#include "base/log.h"
#include "daemon/jobs/array.h"

int64_t sched_wall_ms(const struct sched *s) { return s->config.wall_ms ? s->config.wall_ms() : clock_wall_ms(); }
int64_t sched_steady_ms(const struct sched *s) { return s->config.steady_ms ? s->config.steady_ms() : clock_ms(); }

void sched_tell(struct sched *s, const struct job *job) {
    if (s->config.changed)
        s->config.changed(s->config.ctx, job);
}

void sched_announce(struct sched *s, const struct job *job) {
    log_info("job", "job=%s kind=%s state=%s reason=\"%s\"", job->id, job->kind, job_state_name(job->state), job->reason);
    sched_tell(s, job);
}

void sched_log(struct sched *s, const struct job *job, const char *level, const char *text) {
    if (s->config.logged)
        s->config.logged(s->config.ctx, job, level, text);
}

/* A text that does not fit is cut. */
static void take_data(struct job *job, const struct job_data *data) {
    str_copy(job->source, sizeof job->source, data->source ? data->source : "");
    *job->fold = '\0';
    if (data->split_folds)
        str_format(job->fold, sizeof job->fold, "%lld of %lld", (long long)data->split_fold, (long long)data->split_folds);
    for (size_t i = 0; !data->split_folds && i < data->split_test.count; i++) {
        const size_t n = strlen(job->fold);
        str_format(job->fold + n, sizeof job->fold - n, "%s%s", i ? ", " : "", data->split_test.items[i]);
    }
}

void sched_take_demands(struct job *job, const struct jobfile *file) {
    job->remote = file->executor != NULL;
    job->devices = job->remote ? 1 : (int)file->devices;
    str_copy(job->wanted, sizeof job->wanted, file->executor ? file->executor : file->device ? file->device : "");
    str_copy(job->after, sizeof job->after, file->after ? file->after : "");
    job->preemptible = file->limits.preemptible;
    if (file->data)
        take_data(job, file->data);
    job->infers = file->kind->infers;
    array_read(job, file);
}

struct jobfile_limits sched_read_demands(struct job *job) {
    OWNED(arena_done) struct arena arena = arena_of(SCHED_JOB_FILE_BYTES);
    struct jobfile file = {0};
    if (job_parse(job->yaml, job->file, job->overrides, &arena, &file, NULL))
        return (struct jobfile_limits){0};
    sched_take_demands(job, &file);
    return file.limits;
}

static int find_open(const struct sched *s, const struct job *job) {
    int i = 0;
    while (i < s->n_open && s->open[i] != job)
        i++;
    return i;
}

void sched_list_open(struct sched *s, struct job *job) {
    int i = find_open(s, job);
    if (job_is_over(job->state) && i < s->n_open)
        memmove(s->open + i, s->open + i + 1, (size_t)(--s->n_open - i) * sizeof *s->open);
    else if (!job_is_over(job->state) && i == s->n_open)
        s->open[s->n_open++] = job;
}

void sched_move_until(struct sched *s, struct job *job, enum job_state to, const char *reason, int64_t retry_ms) {
    struct err err;
    const char *held = to == JOB_QUEUED ? slots_held_for(&s->slots, job) : "";
    if (job_move(job, to, *held ? held : reason, sched_wall_ms(s), &err))
        log_error("a job cannot change its state", "job=%s error=\"%s\"", job->id, err.message);
    job->retry_ms = retry_ms;
    if (slots_of(&s->slots, job))
        slots_of(&s->slots, job)->waits[0] = '\0';
    sched_list_open(s, job);
    ledger_record(&s->ledger, job);
    sched_announce(s, job);
}

void sched_move(struct sched *s, struct job *job, enum job_state to, const char *reason) {
    sched_move_until(s, job, to, reason, 0);
}

void sched_interrupt(struct sched *s, const struct job *job, enum stop_reason why) {
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i].job == job)
            s->config.interrupt(s->config.worker, i, why);
}
