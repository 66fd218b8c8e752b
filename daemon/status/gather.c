#include "daemon/status/gather.h"

#include "base/order.h"
#include "daemon/status/gather_parts.h"

enum { LOOK_MS = 200, SCANNED_JOBS = 5000 };

int gather_new(const struct gather_source *source, struct status_board *board, struct gather **ret, struct err *err) {
    struct gather *g = calloc(1, sizeof *g);
    if (!g || !(g->beds = beds_new(source->sessions))) {
        free(g);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the status pages");
    }
    g->source = *source;
    g->board = board;
    if ((source->n_beds && !(g->seen = calloc((size_t)source->n_beds, sizeof *g->seen))) ||
        !(g->places = map_new((size_t)source->n_beds + 1))) {
        gather_free(g);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the status pages");
    }
    for (int i = source->n_beds; i > 0; i--)
        (void)map_put(g->places, source->beds[i - 1], (void *)(intptr_t)i, NULL);
    *ret = g;
    return 0;
}

void gather_free(struct gather *g) {
    if (!g)
        return;
    sessions_walk_stop(g->source.sessions, &g->walk);
    status_drop(g->making);
    map_free(g->open, NULL);
    beds_free(g->beds);
    free(g->seen);
    map_free(g->places, NULL);
    free(g);
}

/* ---- devices, volumes, hooks ---- */

static void put_device(const struct gather *g, int i, struct status *to) {
    struct status_device *d = &to->devices[to->n_devices++];
    const struct device_fault *bad = device_watch_fault(g->source.watches[i]);
    device_hosts_describe(device_set_at(g->source.devices, i), &d->info);
    device_watch_latest(g->source.watches[i], &d->health);
    if (bad)
        d->fault = *bad;
    if (d->health.reported)
        return;
    d->health = (struct device_health){.memory_used_bytes = d->info.is_async ? -1 : g->machine.memory_used,
                                       .memory_total_bytes = d->info.is_async ? -1 : g->machine.memory_total,
                                       .utilization = g->machine.busy,
                                       .temperature_c = NAN,
                                       .power_w = NAN};
}

static double gauge(const struct gather *g, const char *family, const char *volume) {
    const struct metric *series = metrics_series(g->source.metrics, family, volume);
    return series ? metric_value(series) : -1;
}

/* Sizes are those of the metrics, so that nothing waits for a volume here. */
static void put_volumes(const struct gather *g, struct status *to) {
    for (int i = 0; i < g->source.n_volumes; i++) {
        const struct gather_volume *v = &g->source.volumes[i];
        const double size = gauge(g, "brrd_volume_size_bytes", v->name);
        to->volumes[to->n_volumes++] =
            (struct status_volume){SAME_MEMBERS(*v, name, path), .answers = volume_look(v->volume),
                                   .free_bytes = size > 0 ? (int64_t)gauge(g, "brrd_volume_free_bytes", v->name) : -1,
                                   .size_bytes = size > 0 ? (int64_t)size : -1};
    }
}

static double attempts(const struct gather *g, const char *hook, const char *result) {
    char labels[HOOK_NAME + 16];
    str_format(labels, sizeof labels, "%s\x1f%s", hook, result);
    const struct metric *series = metrics_series(g->source.metrics, "brrd_hook_attempts_total", labels);
    return series ? metric_value(series) : 0;
}

static void put_hooks(const struct gather *g, struct status *to) {
    for (int i = 0; i < hooks_count(g->source.hooks) && to->n_hooks < STATUS_HOOKS; i++) {
        const char *name = hooks_at(g->source.hooks, i)->name;
        struct status_hook *hook = &to->hooks[to->n_hooks++];
        *hook = (struct status_hook){.name = name,
                                     .delivered = attempts(g, name, "delivered"),
                                     .failed = attempts(g, name, "failed"),
                                     .dropped = attempts(g, name, "dropped")};
        hooks_describe(g->source.hooks, i, &hook->state);
    }
}

/* ---- jobs ---- */

/* Running before waiting jobs, those in the order of the queue, the rest by submission. */
static int by_turn(const void *a, const void *b) {
    const struct job *l = *(const struct job *const *)a, *r = *(const struct job *const *)b;
    const int active = job_is_active(l->state), order = job_is_active(r->state) - active;
    return order_then(order, active ? order_i64(l->created_ms, r->created_ms) : job_precedes(r, l) - job_precedes(l, r));
}

static void put_job(const struct gather *g, struct status *to, const struct job *job) {
    struct status_job *out = &to->jobs[to->n_jobs++];
    *out = (struct status_job){*job, sched_position(g->source.sched, job)};
    out->job.yaml = out->job.file = out->job.overrides = out->job.request_id = NULL;
    out->job.result = job->result ? arena_strdup(&to->arena, job->result) : NULL;
}

void gather_jobs(const struct gather *g, struct status *to) {
    const struct sched *sched = g->source.sched;
    const struct job *open[STATUS_JOBS - STATUS_ENDED_JOBS];
    const int all = sched_count(sched), room = all < STATUS_JOBS ? all : STATUS_JOBS;
    int n = 0;
    to->losses = g->losses;
    to->left_jobs = all;
    if (!all || !(to->jobs = arena_alloc(&to->arena, (size_t)room * sizeof *to->jobs)))
        return;
    for (; n < sched_open_count(sched) && n < STATUS_JOBS - STATUS_ENDED_JOBS; n++)
        open[n] = sched_open_at(sched, n);
    qsort(open, (size_t)n, sizeof(struct job *), by_turn);
    for (int i = 0; i < n; i++)
        put_job(g, to, open[i]);
    for (int i = all - 1; i >= 0 && i > all - 1 - SCANNED_JOBS && to->n_jobs < n + STATUS_ENDED_JOBS; i--)
        if (job_is_over(sched_at(sched, i)->state))
            put_job(g, to, sched_at(sched, i));
    to->left_jobs = all - to->n_jobs;
}

/* The losses of the running job at even distances: when there is no more room, every second one goes. */
static void follow_losses(struct gather *g) {
    struct status_losses *l = &g->losses;
    const struct job *job = NULL;
    for (int i = 0; i < sched_open_count(g->source.sched) && !job; i++)
        if (job_is_active(sched_open_at(g->source.sched, i)->state))
            job = sched_open_at(g->source.sched, i);
    if (!job)
        return;
    const struct task_progress *p = &job->progress;
    if (strcmp(l->job, job->id) != 0 || p->step < l->step) {
        *l = (struct status_losses){.every = 1};
        str_copy(l->job, sizeof l->job, job->id);
    }
    if (isnan(p->loss) || p->step - l->step < l->every)
        return;
    if (l->n == STATUS_LOSSES) {
        for (int i = 0; i < STATUS_LOSSES / 2; i++)
            l->values[i] = l->values[2 * i + 1];
        l->n = STATUS_LOSSES / 2;
        l->every = l->every * 2 > (p->step - l->first) / l->n ? l->every * 2 : (p->step - l->first) / l->n;
    }
    l->first = l->n ? l->first : p->step;
    l->step = p->step;
    l->values[l->n++] = (float)p->loss;
}

/* ---- models ---- */

static int count_streams(const struct status *to, const char *model) {
    int n = 0;
    for (int i = 0; i < to->n_streams + to->n_folded; i++) {
        const struct status_stream *s = &to->streams[i];
        n += *s->bed.session_id && !s->bed.ended_ms && !strcmp(s->bed.model, model);
    }
    return n;
}

static void put_models(const struct gather *g, struct status *to) {
    int n = models_count(g->source.models);
    to->models = arena_alloc(&to->arena, ((size_t)n + 1) * sizeof *to->models);
    for (int i = 0; to->models && i < n; i++) {
        const struct served_model *m = models_at(g->source.models, i);
        struct live_opened *opened = m->opened ? arena_alloc(&to->arena, sizeof *opened) : NULL;
        const char *devices = device_set_names(g->source.devices, m->devices, &to->arena);
        struct status_model *out = &to->models[to->n_models++];
        *out = (struct status_model){*m, devices, count_streams(to, m->name)};
        if (opened)
            *opened = *m->opened;
        out->served.opened = opened;
    }
}

/* ---- all of it ---- */

/* tick: of each second, not in between. */
static void begin_status(struct gather *g, bool tick) {
    struct status *to = g->making = status_new(g->board);
    if (!to)
        return;
    g->begun_ms = clock_ms();
    g->tick = tick;
    g->step = 0;
    COPY_MEMBERS(*to, g->source, version, revision, notice);
    to->taken_ms = clock_wall_ms();
    to->uptime_s = (g->begun_ms - g->source.start_ms) / 1000;
    COPY_MEMBERS(*to, g->machine, cpu, resident_bytes);
    to->journal_fails = journal_is_failing(g->source.journal);
    to->database_fails = !sched_writable(g->source.sched);
    for (int i = 0; i < device_set_count(g->source.devices); i++)
        put_device(g, i, to);
    put_volumes(g, to);
    put_hooks(g, to);
    gather_jobs(g, to);
    gather_alarms(g, to);
}

static void put_beds(struct gather *g, struct status *to) {
    gather_roster(g, to);
    map_free(g->open, NULL);
    g->open = NULL;
}

/* The next part of the status that is being made, of which each may take a turn. */
static void make_next(struct gather *g) {
    struct status *to = g->making;
    const struct alarms_now now = desk_now();
    const int step = g->step++;
    if ((step == 0 && gather_streams(g, to)) || (step == 3 && g->tick && gather_causes(g, to, &now)))
        g->step = step; /* it goes on */
    else if (step == 1)
        gather_fold(to);
    else if (step == 2)
        put_beds(g, to);
    else if (step == 4)
        put_models(g, to);
    else if (step == 5)
        status_sort(to);
    if (step < 6)
        return;
    g->making = NULL;
    status_publish(g->board, to);
    if (g->due)
        begin_status(g, true);
    g->due = false;
}

static void work(struct gather *g) {
    const int64_t until_ms = clock_ms() + GATHER_TURN_MS;
    while (g->making && (!g->source.wake || clock_ms() < until_ms))
        make_next(g);
    if (g->making)
        g->source.wake(g->source.wake_ctx);
}

void gather_tick(struct gather *g) {
    machine_look(&g->machine);
    follow_losses(g);
    beds_tick(g->beds);
    beds_changed(g->beds);
    g->due = g->making;
    if (!g->due)
        begin_status(g, true);
    if (g->source.wake)
        g->source.wake(g->source.wake_ctx); /* a tick has enough to do */
    else
        work(g);
}

void gather_look(struct gather *g) {
    const bool due = g && !g->making && clock_ms() - g->begun_ms >= LOOK_MS; /* else the next look or tick has it */
    if (due && (beds_changed(g->beds) | (g->source.desk && alarms_changed(desk_alarms(g->source.desk)))))
        begin_status(g, false);
    if (g && g->making)
        work(g);
}

const struct status *gather_newest(const struct gather *g) { return status_newest(g->board); }

const char *gather_state(const struct gather *g, const char *session) {
    const struct bed *b = beds_find(g->beds, session);
    return b ? status_mood_name(b->mood) : "";
}
