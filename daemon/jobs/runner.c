#include "daemon/jobs/runner.h"

#include "daemon/jobs/job.h"
#include "daemon/jobs/upload.h"
#include "daemon/models/model_file.h"
#include "kernels/device_rates.h"
#include "kernels/profile.h"
#include "work/estimate.h"
#include "work/identity.h"
#include "work/job_source.h"

enum { WALL_MARGIN_MS = 3000, MAX_RESULT = 1 << 20, ARENA_BYTES = 32 << 20 };
enum { POINT_LIMIT_MS = 15 * 60 * 1000 }; /* until all ranks are at a point, while others read, save or validate */
enum { PACED_REPORTS = 5 };               /* the first ones tell little */

struct runner {
    const struct runner_config *config;
    const struct runner_job *order;
    const struct runner_owner *owner;
    struct runner_wish *wish;
    struct task_env env;
    struct jobfile job;
    const struct task_work *work;
    void *task;
    struct source *source;
    struct upload *upload;   /* of its checkpoints; may be NULL */
    struct model_file lease; /* the model it names by URL */
    bool has_checkpoint, unrecorded;
    int64_t start_ms, checkpoint_ms; /* newest checkpoint, or the start */
    int paced;                       /* reports of progress that told how long it will take */
};

void runner_wish_init(struct runner_wish *wish) {
    atomic_store(&wish->stop, STOP_NONE);
    atomic_store(&wish->now, false);
}

void runner_wish_stop(struct runner_wish *wish, enum stop_reason why) {
    int none = STOP_NONE;
    atomic_compare_exchange_strong(&wish->stop, &none, (int)why);
    atomic_store(&wish->now, true);
}

/* ---- what a task reports ---- */

static int report(const struct runner *r, const struct task_report *what) { return r->owner->report(r->owner->ctx, what); }

static bool is_shared(const struct runner *r) { return r->config->world && r->config->world->size > 1; }
static int ranks_of(const struct runner *r) { return is_shared(r) ? r->config->world->size : 1; }

/* Once per attempt, when its pace is known: what it costs, and that it will not end before its limit. */
static void look_at_limit(struct runner *r, const struct task_progress *p) {
    char text[400];
    if (!isfinite(p->eta_s) || p->eta_s <= 0 || ++r->paced != PACED_REPORTS)
        return;
    double seconds = (double)(clock_ms() - r->start_ms) / 1000 + p->eta_s;
    const struct estimate_cost cost = {.seconds = seconds * ranks_of(r) + (double)r->order->device_ms / 1000,
                                       .per_hour = r->config->price_per_hour,
                                       .budget = r->job.limits.cost,
                                       .currency = r->config->currency,
                                       .steps = p->steps,
                                       .jobs = 1};
    if (*estimate_cost_text(&cost, text, sizeof text))
        report(r, &(struct task_report){.kind = cost.budget > 0 ? TASK_NOTICE : TASK_LOG, .level = TASK_INFO, .text = text});
    if (estimate_past_limit(&r->job, r->config->default_wall_clock_ms, seconds, text, sizeof text))
        report(r, &(struct task_report){.kind = TASK_NOTICE, .text = text});
}

/* What the task reports, passed on. */
static int on_report(void *ctx, const struct task_report *what) {
    struct runner *r = ctx;
    const int rc = report(r, what);
    if (what->kind == TASK_PROGRESS)
        look_at_limit(r, what->progress);
    if (what->kind != TASK_CHECKPOINT)
        return rc;
    r->unrecorded |= rc != 0;
    r->has_checkpoint = true;
    r->checkpoint_ms = clock_ms();
    if (r->upload)
        upload_add(r->upload, what->checkpoint->path);
    return rc;
}

static void on_upload_log(void *ctx, enum task_level level, const char *text) {
    report(ctx, &(struct task_report){.kind = TASK_LOG, .level = level, .text = text});
}

/* The model that the job names by URL. */
static int on_model(void *ctx, const char *url, struct task_model *ret, struct err *err) {
    struct runner *r = ctx;
    model_file_release(&r->lease);
    int rc = model_file_lease(&r->config->source, url, &r->wish->now, &r->lease, err);
    if (rc)
        return rc;
    COPY_TEXTS(*ret, r->lease, path, sha256);
    return 0;
}

/* ---- points ---- */

static int check_recorded(const struct runner *r, struct err *err) {
    return r->unrecorded
               ? err_set(err, ERR_EXHAUSTED, "out of memory to record a checkpoint of job %s; its files are intact, resume the job",
                         r->order->id)
               : 0;
}

static int save(struct runner *r, struct err *err) {
    task_file(&r->env, r->env.directory);
    int rc = r->work->checkpoint ? r->work->checkpoint(r->task, err) : 0;
    task_file(&r->env, NULL);
    r->checkpoint_ms = clock_ms();
    return rc ? rc : check_recorded(r, err);
}

int64_t runner_cost_ms(double cost, double price_per_hour) {
    return cost > 0 && price_per_hour > 0 ? (int64_t)fmin(3.6e6 * cost / price_per_hour, (double)INT32_MAX * 1000) : -1;
}

/* True shortly before the limit, so that there is time to save. */
static bool is_near(int64_t limit_ms, int64_t spent_ms) {
    int64_t margin = limit_ms / 10 < WALL_MARGIN_MS ? limit_ms / 10 : WALL_MARGIN_MS;
    return limit_ms >= 0 && spent_ms >= limit_ms - margin;
}

static void look_at_clock(struct runner *r) {
    int64_t limit = r->job.limits.wall_clock_ms > 0 ? r->job.limits.wall_clock_ms : r->config->default_wall_clock_ms;
    int64_t spent_ms = clock_ms() - r->start_ms;
    if (is_near(runner_cost_ms(r->job.limits.cost, r->config->price_per_hour * ranks_of(r)),
                r->order->device_ms / ranks_of(r) + spent_ms))
        runner_wish_stop(r->wish, STOP_COST_LIMIT);
    if (limit > 0 && is_near(limit, spent_ms))
        runner_wish_stop(r->wish, STOP_TIME_LIMIT);
}

static bool is_writer(const struct runner *r) { return !r->config->world || r->config->world->rank == 0; }

/* What a rank wishes at a point. */
struct point_wish {
    int stop; /* enum stop_reason */
    bool save;
};

/* All ranks stop and save together: when any wishes to stop, and when rank 0 has a checkpoint due. */
static int agree(struct runner *r, struct point_wish *own, struct err *err) {
    struct world *w = r->config->world;
    struct point_wish all[WORLD_MAX];
    all[w->rank] = *own;
    int rc = world_gather(w, all, sizeof *all, POINT_LIMIT_MS, err);
    for (int i = 0; !rc && i < w->size; i++)
        if (own->stop == STOP_NONE)
            own->stop = all[i].stop;
    if (rc)
        return rc;
    own->save = all[0].save;
    if (own->stop != STOP_NONE)
        runner_wish_stop(r->wish, (enum stop_reason)own->stop);
    return 0;
}

static int on_point(void *ctx, struct err *err) {
    struct runner *r = ctx;
    int rc = check_recorded(r, err);
    if (rc)
        return rc;
    look_at_clock(r);
    int64_t every_ms = r->job.checkpoint.every_ms;
    struct point_wish wish = {atomic_load(&r->wish->stop), every_ms > 0 && clock_ms() - r->checkpoint_ms >= every_ms};
    if (is_shared(r) && (rc = agree(r, &wish, err)))
        return rc;
    int stop = wish.stop;
    if (stop == STOP_CANCEL)
        return TASK_STOP;
    if (stop != STOP_NONE)
        return (rc = save(r, err)) ? rc : TASK_STOP;
    return wish.save ? save(r, err) : 0;
}

/* ---- the attempt ---- */

static int open_upload(struct runner *r, struct err *err) {
    const struct source_config *source = &r->config->source;
    const char *to = r->job.checkpoint.upload;
    const struct upload_config config = {source->stores, source->n_stores, to, r->order->id, on_upload_log, r};
    return !to || !strcmp(to, "none") ? 0 : upload_open(&config, &r->upload, err);
}

int runner_price_unknown(struct err *err) {
    return err_set(err, ERR_PRECONDITION,
                   "limits.cost: what a device costs is not known here; set devices_price_per_hour in the daemon's "
                   "configuration");
}

static int check_limits(const struct runner *r, struct err *err) {
    if (r->job.limits.cost > 0 && !(r->config->price_per_hour > 0))
        return runner_price_unknown(err);
    struct device_info device;
    device_describe(r->config->device, &device);
    return task_check(&r->job, &device, ranks_of(r), err);
}

static int open_task(struct runner *r, struct err *err) {
    task_file(&r->env, r->env.directory);
    int rc = check_limits(r, err);
    if (rc || (rc = identity_claim(&r->job, r->env.directory, is_writer(r), err)) ||
        (is_writer(r) &&
         ((!r->env.contended && (rc = fsio_remove_temporaries(r->env.directory, err))) || (rc = open_upload(r, err)))))
        return rc;
    task_file(&r->env, *r->env.data_root ? r->env.data_root : NULL);
    if ((rc = source_open(&r->config->source, &r->job, &r->env, &r->source, err)))
        return rc;
    task_file(&r->env, NULL);
    return r->work->open(&r->job, &r->env, &r->task, err);
}

/* Uploads end before the job does, unless somebody wants it to stop. */
static void close_task(struct runner *r) {
    static const struct timespec turn = {.tv_nsec = 20 * 1000 * 1000};
    task_file(&r->env, r->env.directory);
    r->work->close(r->task);
    task_file(&r->env, NULL);
    for (; r->upload && !atomic_load(&r->wish->now) && !upload_idle(r->upload); look_at_clock(r))
        nanosleep(&turn, NULL);
    upload_close(r->upload);
    source_close(r->source);
    model_file_release(&r->lease);
}

/* The result object. */
static int take_result(struct runner *r, char **ret, struct err *err) {
    OWNED(str_done) struct str text = str_of(MAX_RESULT);
    struct json_writer json = json_to(&text);
    r->work->result(r->task, &json, NULL);
    *ret = str_ok(&text) && text.len ? str_take(&text) : NULL;
    return *ret ? 0 : err_set(err, ERR_EXHAUSTED, "the result of job %s is larger than 1 MiB, or memory is short", r->order->id);
}

/* With BRR_PROFILE=1: where the job's time went, op by op, beside the speed that the device has at its end. */
static int tell_profile(struct runner *r, struct err *err) {
    struct stream *stream = NULL;
    struct rates rates;
    OWNED(str_done) struct str table = str_of(1 << 20);
    int rc = stream_open(r->config->device, STREAM_NORMAL, &stream, err);
    rc = rc ? rc : rates_measure(stream, &rates, err);
    rc = rc ? rc : profile_table(r->env.profile, &rates, &table, err);
    stream_close(stream);
    char *rest = NULL, *text = rc ? NULL : str_take(&table);
    for (char *line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest))
        report(r, &(struct task_report){.kind = TASK_LOG, .level = TASK_INFO, .text = line});
    free(text);
    return rc;
}

/* From the opened task to its result, or to the point where it was stopped. */
static int carry_out(struct runner *r, struct task_end *ret) {
    report(r, &(struct task_report){.kind = TASK_RUNNING});
    r->checkpoint_ms = clock_ms();
    int rc = r->work->run(r->task, &ret->err);
    if (!rc && r->env.profile && (rc = tell_profile(r, &ret->err)))
        return rc;
    if (rc == TASK_STOP) {
        ret->stopped = (enum stop_reason)atomic_load(&r->wish->stop);
        return 0;
    }
    if (rc || (rc = check_recorded(r, &ret->err)))
        return rc;
    return take_result(r, &ret->result, &ret->err);
}

static void attempt(struct runner *r, struct task_end *ret) {
    ret->limits = r->job.limits;
    r->work = task_work_of(r->job.kind);
    ret->rc = open_task(r, &ret->err);
    if (ret->rc)
        (void)err_in_cache(&ret->err); /* indexes and windows; of results there is nothing yet */
    else
        ret->rc = carry_out(r, ret);
    if (ret->rc) /* a failure that a wish to stop has caused, or overtaken */
        ret->stopped = (enum stop_reason)atomic_load(&r->wish->stop);
    close_task(r);
    char kept[4096];
    if (!ret->rc && ret->stopped == STOP_NONE && is_writer(r) && !fsio_join(kept, sizeof kept, r->env.directory, TASK_KEPT, NULL))
        (void)fsio_remove_tree(kept, NULL); /* what stays goes with the directory */
    ret->has_checkpoint = r->has_checkpoint;
}

/* Joules since `before`, in the metrics too. */
static double spent(const struct runner *r, const struct device_health *before) {
    struct device_health now;
    device_health(r->config->device, &now);
    double joules = device_health_energy(before, &now);
    if (!isnan(joules) && r->config->metrics)
        metric_add(metrics_series(r->config->metrics, "brrd_job_energy_joules_total", r->job.kind->name), joules);
    return joules;
}

void runner_run(const struct runner_config *config, const struct runner_job *job, const struct runner_owner *owner,
                struct runner_wish *wish) {
    struct device_health before;
    OWNED(arena_done) struct arena arena = arena_of(ARENA_BYTES);
    struct task_end end = {.energy_j = NAN};
    struct runner r = {.config = config, .order = job, .owner = owner, .wish = wish, .start_ms = clock_ms()};
    r.env = (struct task_env){.device = config->device,
                              SAME_MEMBERS(*config, version, world, contended, memory_limit_bytes, file, turn),
                              SAME_MEMBERS(*job, directory, data_root),
                              .cache_dir = config->source.cache_dir,
                              .stop = &wish->now,
                              .ctx = &r,
                              .report = on_report,
                              .point = on_point,
                              .model = on_model};
    const char *profile = getenv("BRR_PROFILE");
    r.env.profile = profile && !strcmp(profile, "1") ? profile_new() : NULL;
    device_health(config->device, &before);
    end.rc = job_parse(job->yaml, job->file, job->overrides, &arena, &r.job, &end.err);
    if (end.rc == 0)
        end.rc = job_source_place(&r.job, job->data_root, &arena, &end.err);
    if (!end.rc) {
        attempt(&r, &end);
        end.energy_j = spent(&r, &before);
    }
    task_file(&r.env, NULL);
    report(&r, &(struct task_report){.kind = TASK_END, .end = &end});
    free(end.result);
    profile_free(r.env.profile);
}
