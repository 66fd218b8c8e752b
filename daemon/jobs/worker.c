#include "daemon/jobs/worker.h"

#include "daemon/hosts/host.h"
#include "daemon/hosts/niceness.h"

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
    int64_t device_ms, priority;
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
    struct order *order;              /* running */
    struct file_cell own_file, *file; /* in which the job is; file: own_file, or that of config */
};

void worker_report_free(struct worker_report *r) {
    if (!r)
        return;
    free(r->text);
    free(r->end.result);
    free(r);
}

static struct worker_report *report_new(const char *job_id, enum task_report_kind kind) {
    struct worker_report *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->report = (struct task_report){.kind = kind, .progress = &r->progress, .checkpoint = &r->checkpoint, .end = &r->end};
    str_copy(r->job_id, sizeof r->job_id, job_id);
    return r;
}

/* Progress may be dropped when the loop is behind; everything else waits for room. */
static void post(struct worker *w, struct worker_report *r) {
    if (!r)
        return;
    bool posted =
        r->report.kind == TASK_PROGRESS ? mailbox_post(w->reports, &r->message) : mailbox_post_wait(w->reports, &r->message, -1);
    if (!posted)
        worker_report_free(r);
}

/* The end waits until the worker is free again (run_order). */
static void keep_end(struct order *o, struct task_end *end) {
    o->done->end = *end;
    end->result = NULL;
}

/* A checkpoint has a report that was made before, should memory be short. */
static struct worker_report *checkpoint_report(struct order *o) {
    struct worker_report *r = report_new(o->id, TASK_CHECKPOINT);
    if (r)
        return r;
    r = o->checkpoint;
    o->checkpoint = NULL;
    return r;
}

/* The owner of the job, or of its first rank. */
static int on_report(void *ctx, const struct task_report *report) {
    struct worker *w = ctx;
    struct order *o = w->order;
    if (report->kind == TASK_END)
        return keep_end(o, report->end), 0;
    struct worker_report *r = report->kind == TASK_CHECKPOINT ? checkpoint_report(o) : report_new(o->id, report->kind);
    if (!r)
        return ERR_EXHAUSTED;
    if (report->kind == TASK_PROGRESS)
        r->progress = *report->progress;
    if (report->kind == TASK_CHECKPOINT)
        r->checkpoint = *report->checkpoint;
    r->report.level = report->level;
    r->report.text = r->text = report->text ? strdup(report->text) : NULL;
    post(w, r);
    if (report->kind == TASK_CHECKPOINT && !o->checkpoint)
        o->checkpoint = report_new(o->id, TASK_CHECKPOINT);
    return 0;
}

/* The owner of all other ranks, which report the same. */
static int on_rank_report(void *ctx, const struct task_report *report) {
    if (report->kind == TASK_END)
        keep_end(((struct worker *)ctx)->order, report->end);
    return 0;
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
    if (own && own->end.rc && (!t->rc || t->rc == ERR_UNAVAILABLE)) {
        COPY_MEMBERS(*t, own->end, rc, err);
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
    if (done && done->end.rc) { /* rank 0 may know only that another rank has ended */
        done->end.rc = t->rc == ERR_UNAVAILABLE && wanted ? ERR_CANCELLED : t->rc;
        done->end.err = t->err;
    }
    team_free(t);
    return done;
}

static void run_order(struct worker *w) {
    struct order *o = w->order;
    struct runner_config config = w->config.runner;
    struct world *world = o->team ? &o->team->ranks[o->rank] : NULL;
    const struct runner_job job = {
        o->id, o->directory, o->data_root, o->yaml, o->file, o->overrides, o->array.n ? &o->array : NULL, o->device_ms};
    const struct runner_owner owner = {o->rank ? on_rank_report : on_report, w};
    config.world = world;
    config.file = o->rank ? NULL : w->file;
    if (o->rank)
        config.metrics = NULL;
    turns_join(config.turn, o->priority);
    w->config.executor->run(&w->config.places, &config, &job, &owner, &w->wish);
    file_cell_set(w->file, NULL);
    if (world)
        world_close(world, !o->done->end.rc);
    turns_leave(config.turn);
    struct worker_report *r = o->done;
    o->done = NULL;
    atomic_store(&w->busy, false);
    post(w, o->team ? team_leave(o->team, o->rank, r, atomic_load(&w->wish.now)) : r);
}

static void order_free(struct order *o) {
    if (!o)
        return;
    FREE_MEMBERS(*o, yaml, file, overrides);
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

static struct message *close_thread(void *state) {
    struct worker *w = state;
    stream_close(w->stream);
    return NULL;
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
    file_cell_init(&w->own_file);
    w->config = *config;
    w->file = config->file ? config->file : &w->own_file;
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
    worker_interrupt(w, STOP_SHUTDOWN);
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
    COPY_MEMBERS(*o, *job, device_ms, priority);
    o->done = report_new(job->id, TASK_END);
    o->checkpoint = report_new(job->id, TASK_CHECKPOINT);
    COPY_TEXTS(*o, *job, id, directory, data_root);
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
        done->end.rc = err_set(&done->end.err, ERR_EXHAUSTED, "cannot hand job %s to its threads", job->id);
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

void worker_interrupt(struct worker *w, enum stop_reason why) { runner_wish_stop(&w->wish, why); }

void worker_waits(struct worker *w, int64_t at_least_ms, char *buf, size_t size) {
    file_cell_describe(w->file, at_least_ms, buf, size);
}

struct worker_report *worker_take(struct worker *w) {
    return (struct worker_report *)mailbox_take(w->reports);
}
int64_t worker_default_wall_clock(const struct worker *w) { return w->config.runner.default_wall_clock_ms; }
