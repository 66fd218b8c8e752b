#include "daemon/jobs/worker.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/fsio.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/jobs/errand.h"
#include "daemon/jobs/upload.h"
#include "daemon/models/model_lease.h"
#include "run/estimate.h"

enum { REPORTS_MAX = 4096, ORDERS_MAX = 1 << 17, NICE = 10, WALL_MARGIN_MS = 3000, REPLAY_SLICE_MS = 500, BEAT_MS = 1000 };
enum { ORDER_JOB = -1, ERRAND_ENDED = -2 }; /* orders; the others are those of live/live_message.h and burst/networks.h */
enum { MAX_RESULT = 1 << 20 };
enum { PACED_REPORTS = 5 }; /* the first ones tell little */
#define MOST_SHARE_S   1.0  /* of networks between two steps of a job */
#define LENT_SHARE     9.0  /* a step lends live windows so many times what it has used itself, */
#define LENT_AT_ONCE_S 1.0  /* and this much before */
enum { TURN_BATCHES = 64 }; /* of streams, before a step of the job; with LIVE_MAX_BATCH windows each, 256 */

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
    pthread_t thread;
    struct worker_config config;
    struct device *device;
    struct device_info info;
    struct mailbox *orders, *reports, *live_reports, *network_answers;
    struct live *live;          /* the thread's */
    struct networks *networks;  /* the thread's */
    struct message *unanswered; /* orders of networks that the thread left when it ended */
    struct errand *errand;      /* the thread of the job's file work */
    bool errand_ended;
    bool preparing;
    atomic_bool closing;  /* no more orders come */
    atomic_int stop;      /* enum worker_stop */
    atomic_bool stop_now; /* for the task's preparation */
    atomic_bool busy;
    _Atomic int64_t beats;
    pthread_mutex_t lock;
    pthread_cond_t started;
    bool ready;
    struct err start_err;
    struct order *order;      /* running */
    struct upload *upload;    /* of its checkpoints; may be NULL */
    struct model_lease lease; /* the model it names by URL */
    bool has_checkpoint;
    int64_t checkpoint_ms;     /* newest */
    const struct jobfile *job; /* running */
    int64_t start_ms;          /* of the attempt */
    int paced;                 /* reports of progress that told how long it will take */
    bool lends; /* the job's code runs: live windows may run between its ops, streams and networks during its file work */
    double step_s, lent_s; /* when its step began; how much of it live windows took */
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

/* message is the first member of each. */
static void take_order(struct worker *w, struct message *m) {
    if (m->kind == ERRAND_ENDED)
        w->errand_ended = true;
    else if (m->kind == ORDER_JOB)
        w->order = (struct order *)m;
    else if (m->kind >= NETWORK_CREATE)
        networks_order(w->networks, (struct network_order *)m);
    else
        live_order(w->live, (struct live_order *)m);
}

/* Orders that came in; at most one job's order is among them, and it begins when this returns. */
static void take_orders(struct worker *w) {
    for (struct message *m; (m = mailbox_take(w->orders));)
        take_order(w, m);
}

/* Live windows until none waits, then replays. With a job or networks at hand replays get a slice of the time only, and after
 * TURN_BATCHES it is their turn whatever waits. */
static void serve_streams(struct worker *w) {
    int64_t end_ms = clock_ms() + REPLAY_SLICE_MS;
    for (int batches = 1;; batches++) {
        take_orders(w);
        enum live_step ran = live_step(w->live);
        bool turn = batches >= TURN_BATCHES || (ran == LIVE_RAN_REPLAY && clock_ms() >= end_ms);
        if (ran == LIVE_IDLE || ((w->order || networks_waiting(w->networks)) && turn))
            return;
        atomic_fetch_add(&w->beats, 1);
    }
}

/* Streams, then networks: for as long as the streams took or the job's newest step, at least a slice. Live windows interrupt them.
 */
static void serve(struct worker *w, double step_s) {
    double begun = clock_s();
    bool lends = w->lends;
    w->lends = false; /* inside a step, what runs here yields to nobody */
    serve_streams(w);
    double now = clock_s(), end = now + fmin(fmax(step_s, now - begun), MOST_SHARE_S);
    while (networks_step(w->networks) && clock_s() < end) {
        atomic_fetch_add(&w->beats, 1);
        take_orders(w);
        for (int batches = 0; batches < TURN_BATCHES && live_step_realtime(w->live); batches++)
            atomic_fetch_add(&w->beats, 1);
    }
    w->lends = lends;
}

/* Between two ops of the job's step: the orders that came in, and live windows until none waits or the job has lent its share. */
static void on_yield(void *ctx) {
    struct worker *w = ctx;
    if (!w->lends)
        return;
    double begun = clock_s(), own = begun - w->step_s - w->lent_s, until = begun + LENT_SHARE * own + LENT_AT_ONCE_S - w->lent_s;
    w->lends = false;
    for (take_orders(w); clock_s() < until && live_step_realtime(w->live); take_orders(w))
        atomic_fetch_add(&w->beats, 1);
    w->lent_s += clock_s() - begun;
    w->lends = true;
}

/* device_lend: the job's file work on the thread for errands, streams and networks here meanwhile. Their own files are read here:
 * only a job lends. */
static int on_lend(void *ctx, device_work_fn *work, void *arg, struct err *err) {
    struct worker *w = ctx;
    double begun = clock_s();
    if (!w->lends)
        return work(arg, err);
    w->lends = w->errand_ended = false;
    errand_begin(w->errand, work, arg, err);
    while (!w->errand_ended && !atomic_load(&w->closing)) {
        serve(w, 0);
        atomic_fetch_add(&w->beats, 1);
        bool busy = w->errand_ended || live_waiting(w->live) || networks_waiting(w->networks);
        struct message *m = busy ? NULL : mailbox_wait(w->orders, BEAT_MS);
        if (m)
            take_order(w, m);
    }
    int rc = errand_end(w->errand);
    if (!w->errand_ended)
        take_orders(w);             /* its message, if it came before the mailbox was closed */
    w->step_s += clock_s() - begun; /* it is no time of the device */
    w->lends = true;
    return rc;
}

/* The job's code begins to run here. */
static void begin_lending(struct worker *w) {
    w->lends = true;
    w->step_s = clock_s();
    w->lent_s = 0;
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
    atomic_fetch_add(&w->beats, 1);
    post(w, r);
    look_at_limit(w, p);
    bool here = pthread_equal(pthread_self(), w->thread);    /* else this is lent work, and streams run there */
    if (here && (w->preparing || !strcmp(p->phase, "load"))) /* long, and made of no steps */
        serve(w, 0);
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

struct leasing {
    struct worker *worker;
    const char *url;
};

static int take_lease(void *arg, struct err *err) {
    const struct leasing *l = arg;
    struct worker *w = l->worker;
    model_lease_drop(&w->lease);
    return model_lease_take(&w->config.source, l->url, &w->stop_now, &w->lease, err);
}

/* The model that the job names by URL. */
static int on_model(void *ctx, const char *url, struct task_model *ret, struct err *err) {
    struct worker *w = ctx;
    int rc = device_lend(w->device, take_lease, &(struct leasing){w, url}, err);
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
    double step_s = 0;
    int rc = 0;
    w->checkpoint_ms = clock_ms();
    while (!rc && status == TASK_MORE && atomic_load(&w->stop) == WORKER_STOP_NONE) {
        serve(w, step_s);
        begin_lending(w);
        if (!(rc = work->step(task, &status, err)))
            rc = check_reported(w, err);
        step_s = clock_s() - w->step_s - w->lent_s;
        atomic_fetch_add(&w->beats, 1);
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
struct supply {
    struct worker *worker;
    const struct jobfile *job;
    struct task_env *env;
    struct source *source;
};

static int prepare(void *arg, struct err *err) {
    struct supply *p = arg;
    struct worker *w = p->worker;
    int rc = fsio_remove_temporaries(p->env->directory, err);
    if (!rc)
        rc = open_upload(w, p->job, err);
    return rc ? rc : source_open(&w->config.source, p->job, p->env, &p->source, err);
}

/* After it has closed. Uploads end before the job does, unless somebody wants it to stop. */
static int wind_up(void *arg, struct err *err) {
    static const struct timespec turn = {.tv_nsec = 20 * 1000 * 1000};
    struct supply *p = arg;
    struct worker *w = p->worker;
    (void)err;
    while (w->upload && !atomic_load(&w->stop_now) && !upload_idle(w->upload))
        nanosleep(&turn, NULL);
    upload_close(w->upload);
    w->upload = NULL;
    source_close(p->source);
    model_lease_drop(&w->lease);
    return 0;
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
    struct supply supply = {.worker = w, .job = &job, .env = &env};
    int rc = job_parse(w->order->yaml, w->order->file, w->order->overrides, &arena, &job, &err);
    const struct task_work *work = rc ? NULL : task_work_of(job.kind);
    w->preparing = true;
    begin_lending(w);
    if (!rc)
        rc = device_lend(w->device, prepare, &supply, &err);
    if (!rc)
        rc = work->open(&job, &env, &task, &err);
    w->preparing = false;
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
    device_lend(w->device, wind_up, &supply, NULL);
    w->lends = false;
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

static int open_networks(struct worker *w, struct err *err) {
    const struct networks_config config = {.device = w->device,
                                           .most = w->config.max_networks,
                                           .most_bytes =
                                               w->config.networks_bytes ? w->config.networks_bytes : w->info.total_bytes / 2,
                                           .answers = w->network_answers,
                                           .metrics = w->config.metrics};
    w->networks = networks_new(&config);
    return w->networks ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the networks of %s", w->config.device);
}

static void *worker_main(void *arg) {
    struct worker *w = arg;
    setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* sockets and live data come first */
    int rc = device_open(w->config.device, w->config.threads, &w->device, &w->start_err);
    if (!rc)
        device_describe(w->device, &w->info);
    if (!rc) {
        device_yield_to(w->device, on_yield, w);
        device_lend_to(w->device, on_lend, w);
    }
    if (!w->config.memory_limit_bytes)
        w->config.memory_limit_bytes = w->info.total_bytes * 9 / 10;
    if (!rc && !(w->live = live_new(w->device, w->live_reports, w->config.metrics, w->config.memory_limit_bytes))) {
        device_close(w->device);
        rc = err_set(&w->start_err, ERR_EXHAUSTED, "out of memory for the streams of %s", w->config.device);
    }
    if (!rc && ((rc = open_networks(w, &w->start_err)) || (rc = errand_open(w->orders, ERRAND_ENDED, &w->errand, &w->start_err)))) {
        networks_free(w->networks, &w->unanswered);
        live_free(w->live);
        device_close(w->device);
    }
    pthread_mutex_lock(&w->lock);
    w->ready = true;
    pthread_cond_signal(&w->started);
    pthread_mutex_unlock(&w->lock);
    if (rc)
        return NULL;
    for (;;) {
        bool busy = live_waiting(w->live) || networks_waiting(w->networks);
        struct message *m = busy ? mailbox_take(w->orders) : mailbox_wait(w->orders, -1);
        if (m)
            take_order(w, m);
        else if (!busy)
            break; /* closed and empty */
        serve(w, 0);
        if (!w->order)
            continue;
        run_order(w);
        order_free(w->order);
        w->order = NULL;
    }
    errand_close(w->errand);
    networks_free(w->networks, &w->unanswered);
    live_free(w->live);
    device_close(w->device);
    return NULL;
}

int worker_start(const struct worker_config *config, struct worker **ret, struct err *err) {
    struct worker *w = calloc(1, sizeof *w);
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the device worker");
    w->config = *config;
    w->orders = mailbox_new(ORDERS_MAX, NULL, NULL);
    w->reports = mailbox_new(REPORTS_MAX, config->wake, config->wake_ctx);
    w->live_reports = mailbox_new(REPORTS_MAX, config->wake, config->wake_ctx);
    w->network_answers = mailbox_new(REPORTS_MAX, config->wake, config->wake_ctx);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->started, NULL);
    if (!w->orders || !w->reports || !w->live_reports || !w->network_answers || pthread_create(&w->thread, NULL, worker_main, w)) {
        mailbox_free(w->orders);
        mailbox_free(w->reports);
        mailbox_free(w->live_reports);
        mailbox_free(w->network_answers);
        free(w);
        return err_set(err, ERR_EXHAUSTED, "cannot start the device worker");
    }
    pthread_mutex_lock(&w->lock);
    while (!w->ready)
        pthread_cond_wait(&w->started, &w->lock);
    pthread_mutex_unlock(&w->lock);
    if (w->start_err.code) {
        int rc = w->start_err.code;
        if (err)
            *err = w->start_err;
        worker_stop(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void worker_stop(struct worker *w) {
    if (!w)
        return;
    worker_interrupt(w, WORKER_STOP_SHUTDOWN);
    atomic_store(&w->closing, true);
    mailbox_close(w->orders);
    mailbox_close(w->reports); /* nobody takes any more: posts fail at once */
    mailbox_close(w->live_reports);
    mailbox_close(w->network_answers);
    pthread_join(w->thread, NULL);
    for (struct worker_report *r; (r = worker_take(w));)
        worker_report_free(r);
    for (struct live_report *r; (r = worker_take_live(w));)
        live_report_free(r);
    for (struct network_order *o; (o = worker_take_network(w));)
        o->done(o);
    while (w->unanswered) {
        struct network_order *o = (struct network_order *)w->unanswered;
        w->unanswered = w->unanswered->next;
        o->done(o);
    }
    mailbox_free(w->orders);
    mailbox_free(w->reports);
    mailbox_free(w->live_reports);
    mailbox_free(w->network_answers);
    pthread_cond_destroy(&w->started);
    pthread_mutex_destroy(&w->lock);
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
    if (o)
        o->message.kind = ORDER_JOB;
    atomic_store(&w->stop, WORKER_STOP_NONE);
    atomic_store(&w->stop_now, false);
    atomic_store(&w->busy, true);
    if (!o || !o->yaml || !o->file || !o->overrides || !o->done || !o->checkpoint || !mailbox_post(w->orders, &o->message)) {
        atomic_store(&w->busy, false);
        order_free(o);
        return err_set(err, ERR_EXHAUSTED, "cannot hand job %s to the device worker", job->id);
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
void worker_device(const struct worker *w, struct device_info *ret) { *ret = w->info; }
bool worker_lost(const struct worker *w) { return device_lost(w->device); }
void worker_health(const struct worker *w, struct device_health *ret) { device_health(w->device, ret); }
int64_t worker_memory_limit(const struct worker *w) { return w->config.memory_limit_bytes; }

int64_t worker_default_wall_clock(const struct worker *w) { return w->config.default_wall_clock_ms; }
int64_t worker_beats(const struct worker *w) { return atomic_load(&w->beats); }

bool worker_post(struct worker *w, struct live_order *o) { return mailbox_post(w->orders, &o->message); }
struct live_report *worker_take_live(struct worker *w) {
    return (struct live_report *)mailbox_take(w->live_reports);
}

bool worker_post_network(struct worker *w, struct network_order *o) { return mailbox_post(w->orders, &o->message); }
struct network_order *worker_take_network(struct worker *w) {
    return (struct network_order *)mailbox_take(w->network_answers);
}
