#include "daemon/jobs/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/niceness.h"
#include "base/str.h"
#include "base/world.h"
#include "daemon/hosts/host.h"
#include "daemon/jobs/job.h"

enum { REPORTS_MAX = 4096, ARRAY_BYTES = 4 << 20 };

/* The workers that share a job, as ranks of one world. */
struct team {
    pthread_mutex_t lock;
    int left; /* that have not ended */
    int rc;   /* the first error that is no consequence of another rank's end */
    struct err err;
    struct worker_report *done; /* of the first worker */
    struct world ranks[];
};

/* A copy of the job for the thread. */
struct order {
    struct message message;
    struct team *team; /* NULL: the worker has the job for itself */
    int rank;
    char id[JOB_ID_SIZE], directory[2048], data_root[2048];
    char *yaml, *file, *overrides;
    struct arena arena; /* of array */
    struct runner_array array;
    struct worker_report *done;       /* made before the job begins, so that its end can be told even when memory is short */
    struct worker_report *checkpoint; /* the same for its next checkpoint; NULL once used, until another one can be made */
};

struct worker {
    struct worker_config config;
    struct host *host;
    struct stream *stream; /* open as long as the thread lives: it sets the thread's arithmetic and team (stream_open) */
    struct mailbox *reports;
    struct runner_wish wish;
    atomic_bool busy;
    struct order *order; /* running */
    struct {             /* the file or folder in which the task is; since_ms 0: none */
        pthread_mutex_t lock;
        char path[512];
        int64_t since_ms, since_wall_ms;
    } file;
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

/* ---- events of the runner ---- */

static void on_running(void *ctx) {
    struct worker *w = ctx;
    post(w, report_new(w, WORKER_RUNNING));
}

static void on_progress(void *ctx, const struct task_progress *p) {
    struct worker *w = ctx;
    struct worker_report *r = report_new(w, WORKER_PROGRESS);
    if (r)
        r->progress = *p;
    post(w, r);
}

static void post_text(struct worker *w, enum worker_report_kind kind, enum task_level level, const char *text) {
    struct worker_report *r = report_new(w, kind);
    if (r) {
        r->level = level;
        r->text = strdup(text);
    }
    post(w, r);
}

static void on_log(void *ctx, enum task_level level, const char *text) { post_text(ctx, WORKER_LOG, level, text); }
static void on_notice(void *ctx, const char *text) { post_text(ctx, WORKER_NOTICE, TASK_INFO, text); }

static void on_file(void *ctx, const char *path) {
    struct worker *w = ctx;
    char shown[sizeof w->file.path];
    str_copy(shown, sizeof shown, path ? path : "");
    for (char *end = shown; (end = strchr(end, '\n'));) /* the folders of several sources */
        *end = ' ';
    pthread_mutex_lock(&w->file.lock);
    if (path && (!w->file.since_ms || strcmp(w->file.path, shown) != 0)) {
        str_copy(w->file.path, sizeof w->file.path, shown);
        w->file.since_ms = clock_ms();
        w->file.since_wall_ms = clock_wall_ms();
    } else if (!path) {
        w->file.since_ms = 0;
    }
    pthread_mutex_unlock(&w->file.lock);
}

static bool on_checkpoint(void *ctx, const struct task_checkpoint *c) {
    struct worker *w = ctx;
    struct order *o = w->order;
    struct worker_report *r = report_new(w, WORKER_CHECKPOINT);
    if (!r) {
        r = o->checkpoint;
        o->checkpoint = NULL;
    }
    if (!r)
        return false;
    r->checkpoint = *c;
    post(w, r);
    if (!o->checkpoint)
        o->checkpoint = report_new(w, WORKER_CHECKPOINT);
    return true;
}

/* ---- the thread ---- */

static void team_free(struct team *t) {
    worker_report_free(t->done);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* A rank has ended. The last one gets the report, which it posts; the team is gone then. */
static struct worker_report *team_leave(struct team *t, int rank, struct worker_report *own, bool wanted) {
    pthread_mutex_lock(&t->lock);
    if (own && own->rc && (!t->rc || t->rc == ERR_UNAVAILABLE)) {
        t->rc = own->rc;
        t->err = own->err;
    }
    if (!rank)
        t->done = own;
    else
        worker_report_free(own);
    const bool last = --t->left == 0;
    pthread_mutex_unlock(&t->lock);
    if (!last)
        return NULL;
    struct worker_report *done = t->done;
    t->done = NULL;
    if (done && done->rc) { /* rank 0 may know only that another rank has ended */
        done->rc = t->rc == ERR_UNAVAILABLE && wanted ? ERR_CANCELLED : t->rc;
        done->err = t->err;
    }
    team_free(t);
    return done;
}

static bool keep_quiet_checkpoint(void *ctx, const struct task_checkpoint *c) { return (void)ctx, (void)c, true; }
static void keep_quiet(void *ctx) { (void)ctx; }
static void keep_quiet_progress(void *ctx, const struct task_progress *p) { (void)ctx, (void)p; }
static void keep_quiet_log(void *ctx, enum task_level level, const char *text) { (void)ctx, (void)level, (void)text; }
static void keep_quiet_notice(void *ctx, const char *text) { (void)ctx, (void)text; }

/* The events of all ranks but the first, which announces the same ones. */
static const struct runner_events quiet = {.running = keep_quiet,
                                           .progress = keep_quiet_progress,
                                           .log = keep_quiet_log,
                                           .notice = keep_quiet_notice,
                                           .checkpoint = keep_quiet_checkpoint};

static void run_order(struct worker *w) {
    struct order *o = w->order;
    struct runner_config config = w->config.runner;
    struct world *world = o->team ? &o->team->ranks[o->rank] : NULL;
    const struct runner_job job = {
        o->id, o->directory, o->data_root, o->yaml, o->file, o->overrides, o->array.n ? &o->array : NULL};
    const struct runner_events events = {.ctx = w,
                                         .running = on_running,
                                         .progress = on_progress,
                                         .log = on_log,
                                         .notice = on_notice,
                                         .file = on_file,
                                         .checkpoint = on_checkpoint};
    struct runner_end end;
    config.world = world;
    if (o->rank)
        config.metrics = NULL;
    w->config.executor->run(&config, w->config.cluster, &job, o->rank ? &quiet : &events, &w->wish, &end);
    on_file(w, NULL);
    if (world)
        world_close(world, !end.rc);
    struct worker_report *r = o->done;
    o->done = NULL;
    r->rc = end.rc;
    r->err = end.err;
    r->stopped = end.stopped;
    r->has_checkpoint = end.has_checkpoint;
    r->limits = end.limits;
    r->energy_j = end.energy_j;
    r->text = end.result;
    atomic_store(&w->busy, false);
    post(w, o->team ? team_leave(o->team, o->rank, r, atomic_load(&w->wish.now)) : r);
}

static void order_free(struct order *o) {
    if (!o)
        return;
    free(o->yaml);
    free(o->file);
    free(o->overrides);
    arena_done(&o->arena);
    worker_report_free(o->done);
    worker_report_free(o->checkpoint);
    free(o);
}

static int open_thread(void *ctx, void **ret, struct err *err) {
    struct worker *w = ctx;
    *ret = w;
    return !w->config.executor->on_device ? 0 : stream_open(w->config.runner.device, STREAM_NORMAL, &w->stream, err);
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
    struct worker *w = state;
    if (w->stream)
        stream_close(w->stream);
}

static const struct host_work job_work = {.name = "job",
                                          .niceness = NICENESS_OTHER,
                                          .open = open_thread,
                                          .order = take_order,
                                          .step = nothing_due,
                                          .close = close_thread};

int worker_start(const struct worker_config *config, struct worker **ret, struct err *err) {
    struct worker *w = calloc(1, sizeof *w);
    struct mailbox *reports = mailbox_new(REPORTS_MAX, config->wake, config->wake_ctx);
    int rc;
    if (!w || !reports) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for the thread of jobs");
        goto fail;
    }
    pthread_mutex_init(&w->file.lock, NULL);
    w->config = *config;
    if (!w->config.executor)
        w->config.executor = &executor_local;
    w->reports = reports;
    if ((rc = host_start(&job_work, w, &w->host, err)))
        goto fail;
    *ret = w;
    return 0;
fail:
    mailbox_free(reports);
    free(w);
    return rc;
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

static struct order *order_new(const struct job *job) {
    struct order *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    arena_init(&o->arena, ARRAY_BYTES);
    o->yaml = strdup(job->yaml);
    o->file = strdup(job->file);
    o->overrides = strdup(job->overrides);
    o->done = report_of(job->id, WORKER_DONE);
    o->checkpoint = report_of(job->id, WORKER_CHECKPOINT);
    str_copy(o->id, sizeof o->id, job->id);
    str_copy(o->directory, sizeof o->directory, job->directory);
    str_copy(o->data_root, sizeof o->data_root, job->data_root);
    if (o->yaml && o->file && o->overrides && o->done && o->checkpoint)
        return o;
    order_free(o);
    return NULL;
}

static bool start(struct worker *w, struct order *o) {
    runner_wish_init(&w->wish);
    atomic_store(&w->busy, true);
    if (host_post(w->host, &o->message))
        return true;
    atomic_store(&w->busy, false);
    return false;
}

/* False when out of memory. */
static bool keep_array(struct order *o, const struct runner_array *array) {
    const char **directories = arena_alloc(&o->arena, (size_t)array->n * sizeof *directories);
    bool fits = directories != NULL;
    for (int i = 0; fits && i < array->n; i++)
        if (array->directories[i])
            fits = (directories[i] = arena_strdup(&o->arena, array->directories[i])) != NULL;
    o->array = *array;
    o->array.directories = directories;
    return fits && (o->array.name = arena_strdup(&o->arena, array->name)) &&
           (o->array.directory = arena_strdup(&o->arena, array->directory));
}

static int team_new(int n, struct team **ret, struct err *err) {
    struct team *t = calloc(1, sizeof *t + (size_t)n * sizeof *t->ranks);
    int rc = t ? world_threads(t->ranks, n, err) : err_set(err, ERR_EXHAUSTED, "out of memory for a job");
    if (rc) {
        free(t);
        return rc;
    }
    pthread_mutex_init(&t->lock, NULL);
    t->left = n;
    *ret = t;
    return 0;
}

/* A rank that does not begin has ended: the others hear of it, and the job fails. */
static void start_rank(struct worker *w, struct team *t, int rank, const struct job *job) {
    struct order *o = order_new(job);
    if (o) {
        o->team = t;
        o->rank = rank;
        if (start(w, o))
            return;
    }
    struct worker_report *done = o ? o->done : NULL;
    if (o)
        o->done = NULL;
    order_free(o);
    world_close(&t->ranks[rank], false);
    if (done)
        done->rc = err_set(&done->err, ERR_EXHAUSTED, "cannot hand job %s to its threads", job->id);
    post(w, team_leave(t, rank, done, false));
}

int worker_run(struct worker *w, const struct job *job, struct err *err) { return worker_run_shared(&w, 1, job, err); }

int worker_run_array(struct worker *w, const struct job *job, const struct runner_array *array, struct err *err) {
    if (atomic_load(&w->busy))
        return err_set(err, ERR_PRECONDITION, "the place in the cluster is taken by another job");
    struct order *o = order_new(job);
    if (o && keep_array(o, array) && start(w, o))
        return 0;
    order_free(o);
    return err_set(err, ERR_EXHAUSTED, "cannot hand job %s to its thread", job->id);
}

int worker_run_shared(struct worker *const *team, int n, const struct job *job, struct err *err) {
    struct team *t = NULL;
    int rc;
    for (int i = 0; i < n; i++)
        if (atomic_load(&team[i]->busy))
            return err_set(err, ERR_PRECONDITION, "the device is busy with another job");
    struct order *o = order_new(job);
    if (!o)
        return err_set(err, ERR_EXHAUSTED, "cannot hand job %s to its thread", job->id);
    if (n > 1 && (rc = team_new(n, &t, err))) {
        order_free(o);
        return rc;
    }
    o->team = t;
    if (!start(team[0], o)) {
        order_free(o);
        for (int i = 0; i < n && t; i++)
            world_close(&t->ranks[i], false);
        if (t)
            team_free(t);
        return err_set(err, ERR_EXHAUSTED, "cannot hand job %s to its thread", job->id);
    }
    for (int i = 1; i < n; i++)
        start_rank(team[i], t, i, job);
    return 0;
}

void worker_interrupt(struct worker *w, enum worker_stop why) { runner_wish_stop(&w->wish, why); }

void worker_waits(struct worker *w, int64_t at_least_ms, char *buf, size_t size) {
    char since[32];
    struct tm utc;
    pthread_mutex_lock(&w->file.lock);
    time_t wall_s = (time_t)(w->file.since_wall_ms / 1000);
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&wall_s, &utc));
    *buf = '\0';
    if (w->file.since_ms && clock_ms() - w->file.since_ms >= at_least_ms)
        str_format(buf, size, "waits for %s since %s", w->file.path, since);
    pthread_mutex_unlock(&w->file.lock);
}

struct worker_report *worker_take(struct worker *w) {
    return (struct worker_report *)mailbox_take(w->reports);
}
int64_t worker_default_wall_clock(const struct worker *w) { return w->config.runner.default_wall_clock_ms; }
