#include "daemon/jobs/worker.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fsio.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/hosts/host.h"
#include "daemon/jobs/upload.h"
#include "daemon/models/model_lease.h"
#include "run/estimate.h"

enum { REPORTS_MAX = 4096, NICE = 10, WALL_MARGIN_MS = 3000 };
enum { MAX_RESULT = 1 << 20 };
enum { PACED_REPORTS = 5 }; /* the first ones tell little */

/* A copy of the job for the thread. */
struct order {
    struct message message;
    char id[JOB_ID_SIZE], directory[2048], data_root[2048];
    char *yaml, *file, *overrides;
    struct worker_report *done;       /* made before the job begins, so that its end can be told even when memory is short */
    struct worker_report *checkpoint; /* the same for its next checkpoint; NULL once used, until another one can be made */
    bool unreported;                  /* a checkpoint could not be reported */
};

struct worker {
    struct worker_config config;
    struct host *host;
    struct device *device;
    struct stream *stream; /* open as long as the thread lives: it sets the thread's arithmetic and team (stream_open) */
    struct mailbox *reports;
    atomic_int stop;      /* enum worker_stop */
    atomic_bool stop_now; /* for the task's preparation */
    atomic_bool busy;
    struct order *order;      /* running */
    struct upload *upload;    /* of its checkpoints; may be NULL */
    struct model_lease lease; /* the model it names by URL */
    bool has_checkpoint;
    int64_t checkpoint_ms;     /* newest */
    const struct jobfile *job; /* running */
    int64_t start_ms;          /* of the attempt */
    int paced;                 /* reports of progress that told how long it will take */
};

void worker_report_free(struct worker_report *r) {
    if (!r)
        return;
    free(r->text);
    free(r);
}

static struct worker_report *report_of(const char *job_id, enum worker_report_kind kind) {
    struct worker_report *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->message.kind = (int)kind;
    str_copy(r->job_id, sizeof r->job_id, job_id);
    return r;
}

static struct worker_report *report_new(struct worker *w, enum worker_report_kind kind) { return report_of(w->order->id, kind); }

/* Progress may be dropped when the loop is behind; everything else waits for room. */
static void post(struct worker *w, struct worker_report *r) {
    if (!r)
        return;
    bool posted =
        r->message.kind == WORKER_PROGRESS ? mailbox_post(w->reports, &r->message) : mailbox_post_wait(w->reports, &r->message, -1);
    if (!posted)
        worker_report_free(r);
}

/* Once per attempt, when its pace is known: that it will not end before its limit. */
static void look_at_limit(struct worker *w, const struct task_progress *p) {
    char text[400];
    if (!isfinite(p->eta_s) || p->eta_s <= 0 || ++w->paced != PACED_REPORTS)
        return;
    double seconds = (double)(clock_ms() - w->start_ms) / 1000 + p->eta_s;
    if (!estimate_past_limit(w->job, w->config.default_wall_clock_ms, seconds, text, sizeof text))
        return;
    struct worker_report *r = report_new(w, WORKER_NOTICE);
    if (r)
        r->text = strdup(text);
    post(w, r);
}

static void on_progress(void *ctx, const struct task_progress *p) {
    struct worker *w = ctx;
    struct worker_report *r = report_new(w, WORKER_PROGRESS);
    if (r)
        r->progress = *p;
    post(w, r);
    look_at_limit(w, p);
}

static void on_log(void *ctx, enum task_level level, const char *text) {
    struct worker *w = ctx;
    struct worker_report *r = report_new(w, WORKER_LOG);
    if (r) {
        r->level = level;
        r->text = strdup(text);
    }
    post(w, r);
}

static void on_checkpoint(void *ctx, const struct task_checkpoint *c) {
    struct worker *w = ctx;
    struct worker_report *r = report_new(w, WORKER_CHECKPOINT);
    if (!r) {
        r = w->order->checkpoint;
        w->order->checkpoint = NULL;
    }
    if (r)
        r->checkpoint = *c;
    else
        w->order->unreported = true;
    w->has_checkpoint = true;
    w->checkpoint_ms = clock_ms();
    if (w->upload)
        upload_add(w->upload, c->path);
    post(w, r);
}

/* A job whose checkpoints cannot be recorded does not go on: when it is resumed, it reports them again. */
static int check_reported(struct worker *w, struct err *err) {
    if (!w->order->checkpoint)
        w->order->checkpoint = report_new(w, WORKER_CHECKPOINT);
    return w->order->unreported
               ? err_set(err, ERR_EXHAUSTED, "out of memory to record a checkpoint of job %s; its files are intact, resume the job",
                         w->order->id)
               : 0;
}

/* The model that the job names by URL. */
static int on_model(void *ctx, const char *url, struct task_model *ret, struct err *err) {
    struct worker *w = ctx;
    model_lease_drop(&w->lease);
    int rc = model_lease_take(&w->config.source, url, &w->stop_now, &w->lease, err);
    if (rc)
        return rc;
    str_copy(ret->path, sizeof ret->path, w->lease.path);
    str_copy(ret->sha256, sizeof ret->sha256, w->lease.sha256);
    return 0;
}

/* Steps until the task is done, fails or must stop. */
static int drive(struct worker *w, const struct jobfile *job, const struct task_work *work, void *task, int64_t start_ms,
                 struct err *err) {
    int64_t limit = job->limits.wall_clock_ms > 0 ? job->limits.wall_clock_ms : w->config.default_wall_clock_ms;
    int64_t margin = limit / 10 < WALL_MARGIN_MS ? limit / 10 : WALL_MARGIN_MS;
    enum task_status status = TASK_MORE;
    int rc = 0;
    w->checkpoint_ms = clock_ms();
    while (!rc && status == TASK_MORE && atomic_load(&w->stop) == WORKER_STOP_NONE) {
        if (!(rc = work->step(task, &status, err)))
            rc = check_reported(w, err);
        int64_t now = clock_ms();
        if (limit > 0 && status == TASK_MORE && now - start_ms >= limit - margin)
            worker_interrupt(w, WORKER_STOP_TIME_LIMIT);
        if (!rc && status == TASK_MORE && work->checkpoint && job->checkpoint.every_ms > 0 &&
            now - w->checkpoint_ms >= job->checkpoint.every_ms) {
            rc = work->checkpoint(task, err);
            w->checkpoint_ms = clock_ms();
        }
    }
    int stop = atomic_load(&w->stop);
    if (!rc && status == TASK_MORE && work->checkpoint && (stop == WORKER_STOP_TIME_LIMIT || stop == WORKER_STOP_SHUTDOWN))
        rc = work->checkpoint(task, err);
    if (!rc)
        rc = check_reported(w, err);
    if (!rc && status == TASK_DONE)
        atomic_store(&w->stop, WORKER_STOP_NONE);
    return rc;
}

static int open_upload(struct worker *w, const struct jobfile *job, struct err *err) {
    const struct upload_config config = {
        w->config.source.stores, w->config.source.n_stores, job->checkpoint.upload, w->order->id, on_log, w};
    if (!job->checkpoint.upload || !strcmp(job->checkpoint.upload, "none"))
        return 0;
    return upload_open(&config, &w->upload, err);
}

/* What a task finds when it opens: its folder without what a kill has left there, and its recordings. */
static int prepare(struct worker *w, const struct jobfile *job, struct task_env *env, struct source **ret, struct err *err) {
    int rc = fsio_remove_temporaries(env->directory, err);
    if (rc || (rc = open_upload(w, job, err)))
        return rc;
    return source_open(&w->config.source, job, env, ret, err);
}

/* After the task has closed. Uploads end before the job does, unless somebody wants it to stop. */
static void wind_up(struct worker *w, struct source *source) {
    static const struct timespec turn = {.tv_nsec = 20 * 1000 * 1000};
    while (w->upload && !atomic_load(&w->stop_now) && !upload_idle(w->upload))
        nanosleep(&turn, NULL);
    upload_close(w->upload);
    w->upload = NULL;
    source_close(source);
    model_lease_drop(&w->lease);
}

/* Joules since `before`, in the metrics too. */
static double spent(struct worker *w, const struct device_health *before, const char *kind) {
    struct device_health now;
    device_health(w->device, &now);
    double joules = device_health_energy(before, &now);
    if (!isnan(joules) && w->config.metrics)
        metric_add(metrics_series(w->config.metrics, "brrd_job_energy_joules_total", kind), joules);
    return joules;
}

/* The result object, into the report of the end. */
static int take_result(struct worker *w, const struct task_work *work, void *task, struct err *err) {
    struct str text;
    struct json_writer json;
    str_init(&text, MAX_RESULT);
    json_writer_init(&json, &text);
    work->result(task, &json, NULL);
    bool whole = str_ok(&text) && text.len;
    w->order->done->text = whole ? str_take(&text) : NULL;
    str_done(&text);
    return w->order->done->text
               ? 0
               : err_set(err, ERR_EXHAUSTED, "the result of job %s is larger than 1 MiB, or memory is short", w->order->id);
}

static void run_order(struct worker *w) {
    struct device_health before;
    struct arena arena;
    struct jobfile job;
    struct err err = {0};
    void *task = NULL;
    int64_t start_ms = clock_ms();
    arena_init(&arena, 32u << 20);
    w->has_checkpoint = false;
    w->job = &job;
    w->start_ms = start_ms;
    w->paced = 0;
    device_health(w->device, &before);
    struct task_env env = {.device = w->device,
                           .directory = w->order->directory,
                           .cache_dir = w->config.source.cache_dir,
                           .data_root = w->order->data_root,
                           .memory_limit_bytes = w->config.memory_limit_bytes,
                           .stop = &w->stop_now,
                           .ctx = w,
                           .progress = on_progress,
                           .log = on_log,
                           .checkpoint = on_checkpoint,
                           .model = on_model};
    struct source *source = NULL;
    int rc = job_parse(w->order->yaml, w->order->file, w->order->overrides, &arena, &job, &err);
    const struct task_work *work = rc ? NULL : task_work_of(job.kind);
    if (!rc)
        rc = prepare(w, &job, &env, &source, &err);
    if (!rc)
        rc = work->open(&job, &env, &task, &err);
    if (rc)
        (void)err_in_cache(&err); /* indexes and windows; of results there is nothing yet */
    if (!rc) {
        post(w, report_new(w, WORKER_RUNNING));
        rc = drive(w, &job, work, task, start_ms, &err);
    }
    if (!rc && atomic_load(&w->stop) == WORKER_STOP_NONE)
        rc = take_result(w, work, task, &err);
    if (work)
        work->close(task);
    wind_up(w, source);
    struct worker_report *r = w->order->done;
    w->order->done = NULL;
    r->rc = rc;
    r->err = err;
    r->stopped = (enum worker_stop)atomic_load(&w->stop);
    r->has_checkpoint = w->has_checkpoint;
    r->energy_j = work ? spent(w, &before, job.kind->name) : NAN;
    if (work)
        r->limits = job.limits;
    w->job = NULL;
    arena_done(&arena);
    atomic_store(&w->busy, false);
    post(w, r);
}

static void order_free(struct order *o) {
    if (!o)
        return;
    free(o->yaml);
    free(o->file);
    free(o->overrides);
    worker_report_free(o->done);
    worker_report_free(o->checkpoint);
    free(o);
}

/* ---- the thread ---- */

static int open_thread(void *ctx, void **ret, struct err *err) {
    struct worker *w = ctx;
    *ret = w;
    return stream_open(w->device, STREAM_NORMAL, &w->stream, err);
}

static void take_order(void *state, struct message *m) {
    struct worker *w = state;
    w->order = (struct order *)m; /* message is the first member */
    run_order(w);
    order_free(w->order);
    w->order = NULL;
}

static bool nothing_due(void *state) {
    (void)state;
    return false;
}

static void close_thread(void *state, void *ctx) {
    (void)ctx;
    stream_close(((struct worker *)state)->stream);
}

static const struct host_work job_work = {
    .name = "job", .nice = NICE, .open = open_thread, .order = take_order, .step = nothing_due, .close = close_thread};

int worker_start(const struct worker_config *config, struct worker **ret, struct err *err) {
    struct worker *w = calloc(1, sizeof *w);
    struct mailbox *reports = mailbox_new(REPORTS_MAX, config->wake, config->wake_ctx);
    int rc = w && reports ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the thread of jobs");
    if (!rc) {
        w->config = *config;
        w->device = config->device;
        w->reports = reports;
        rc = host_start(&job_work, w, &w->host, err);
    }
    if (rc) {
        mailbox_free(reports);
        free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void worker_stop(struct worker *w) {
    if (!w)
        return;
    worker_interrupt(w, WORKER_STOP_SHUTDOWN);
    mailbox_close(w->reports); /* nobody takes any more: posts fail at once */
    host_stop(w->host);
    for (struct worker_report *r; (r = worker_take(w));)
        worker_report_free(r);
    mailbox_free(w->reports);
    free(w);
}

int worker_run(struct worker *w, const struct job *job, struct err *err) {
    if (atomic_load(&w->busy))
        return err_set(err, ERR_PRECONDITION, "the device is busy with another job");
    struct order *o = calloc(1, sizeof *o);
    if (o) {
        o->yaml = strdup(job->yaml);
        o->file = strdup(job->file);
        o->overrides = strdup(job->overrides);
        o->done = report_of(job->id, WORKER_DONE);
        o->checkpoint = report_of(job->id, WORKER_CHECKPOINT);
        str_copy(o->id, sizeof o->id, job->id);
        str_copy(o->directory, sizeof o->directory, job->directory);
        str_copy(o->data_root, sizeof o->data_root, job->data_root);
    }
    atomic_store(&w->stop, WORKER_STOP_NONE);
    atomic_store(&w->stop_now, false);
    atomic_store(&w->busy, true);
    if (!o || !o->yaml || !o->file || !o->overrides || !o->done || !o->checkpoint || !host_post(w->host, &o->message)) {
        atomic_store(&w->busy, false);
        order_free(o);
        return err_set(err, ERR_EXHAUSTED, "cannot hand job %s to its thread", job->id);
    }
    return 0;
}

void worker_interrupt(struct worker *w, enum worker_stop why) {
    int none = WORKER_STOP_NONE;
    atomic_compare_exchange_strong(&w->stop, &none, (int)why);
    atomic_store(&w->stop_now, true);
}

struct worker_report *worker_take(struct worker *w) {
    return (struct worker_report *)mailbox_take(w->reports);
}
int64_t worker_default_wall_clock(const struct worker *w) { return w->config.default_wall_clock_ms; }
