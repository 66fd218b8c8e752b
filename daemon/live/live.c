#include "daemon/live/live.h"

#include "base/queue.h"
#include "daemon/live/live_loads.h"
#include "daemon/live/live_models.h"
#include "daemon/live/live_stream.h"
#include "detect/timeline.h"
#include "kernels/lanes.h"

enum { ALARM_HOP_CPU = 5 * FRONTEND_RATE_HZ, ALARM_HOP_CUDA = FRONTEND_RATE_HZ, OWNERS = 256, USED_HALF_S = 60 };

struct live {
    struct stream *stream;
    struct mailbox *reports;
    struct live_models models;
    struct live_loads loads;
    live_post_fn *serve; /* to the host of replays, or NULL */
    void *serve_ctx;
    struct eegring_limits viewer;
    struct live_delay delay;     /* of models for which LOAD names none */
    int64_t alarm_hop;           /* 256 Hz samples; of streams that ask for none */
    int lanes;                   /* threads that take samples in */
    struct live_stream *streams; /* all, the newest first */
    struct live_stream **due;    /* the line: those that may have something to do, at least; there is room for all */
    int n_streams, n_due, due_capacity;
    int64_t turns, looks;  /* looks: for streams of a batch */
    double now_s;          /* when the turn began */
    double used_s[OWNERS]; /* time on the device that each owner's live streams took lately; owners whose hashes meet are one */
    double used_at_s;      /* as of then */
    double pause_s;        /* until streams that are held back for others are due; INFINITY: none is */
};

/* ---- the line ---- */

static struct live_stream *after(struct live_stream *s) { return live_stream_turn(s)->next; }

/* Every stream with work is in the line: whatever may give it work calls this. */
static void line_up(struct live *l, struct live_stream *s) {
    if (live_stream_turn(s)->due)
        return;
    live_stream_turn(s)->due = true;
    l->due[l->n_due++] = s;
}

static void step_out(struct live *l, struct live_stream *s) {
    int i = 0;
    while (i < l->n_due && l->due[i] != s)
        i++;
    if (i < l->n_due)
        memmove(l->due + i, l->due + i + 1, (size_t)(--l->n_due - i) * sizeof *l->due);
    live_stream_turn(s)->due = false;
}

static int take_place(struct live *l, struct live_stream *s, struct err *err) {
    live_stream_turn(s)->next = l->streams;
    l->streams = s;
    if (l->n_streams++ < l->due_capacity)
        return 0;
    struct live_stream **more = realloc(l->due, 2 * (size_t)l->n_streams * sizeof *more);
    if (!more)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    l->due = more;
    l->due_capacity = 2 * l->n_streams;
    return 0;
}

static void unlink_stream(struct live *l, struct live_stream *s) {
    struct live_stream **link = &l->streams;
    while (*link && *link != s)
        link = &live_stream_turn(*link)->next;
    if (*link) {
        *link = after(s);
        l->n_streams--;
    }
    step_out(l, s);
}

/* ---- orders ---- */

/* The answer to LOAD; m is NULL after an error. */
static void answer_load(struct live *l, struct live_order *o, struct live_model *m, const struct err *err) {
    struct live_report *r = live_order_answer(o);
    str_copy(r->model, sizeof r->model, o->model);
    if (!m)
        r->err = *err;
    else if (m->pins || !detector_warm_up(m->detector, l->stream, 0, &r->err))
        r->opened = live_model_describe(m);
    if (m && !r->opened && !r->err.code)
        err_set(&r->err, ERR_EXHAUSTED, "out of memory for a model");
    if (r->opened) {
        m->pins++;
        m->max_delay_s = o->max_delay_ms < 0 ? -1 : (double)o->max_delay_ms / 1000;
    }
    live_report_post(r, l->reports);
}

static void answer_open(struct live *l, struct live_order *o, struct live_model *m, const struct err *err) {
    struct err own = m ? (struct err){0} : *err;
    if (m) {
        m->used = l->turns;
        live_stream_begin(o->stream, m, l->alarm_hop, o, &own);
        line_up(l, o->stream); /* chunks may wait already */
    }
    if (own.code)
        live_stream_fail(o->stream, &own);
}

/* The model of an OPEN or LOAD order is loaded, or cannot be had (m is NULL). */
static void answer(struct live *l, struct live_order *o, struct live_model *m, const struct err *err) {
    if (o->message.kind == LIVE_OPEN)
        answer_open(l, o, m, err);
    else
        answer_load(l, o, m, err);
    live_order_free(o);
}

/* LOAD wants the contents of its own file, for this host and the host of replays. */
static bool all_share(const struct message *orders) {
    while (orders && orders->kind == LIVE_OPEN)
        orders = orders->next;
    return !orders;
}

static void read_file(struct live *l, struct live_load *load) {
    int64_t bytes = -1, mtime_ns = -1;
    struct err err;
    if (all_share(load->asked))
        live_models_known(&l->models, load->path, &bytes, &mtime_ns);
    if (!live_loads_ask(&l->loads, load, bytes, mtime_ns, &err))
        return;
    for (struct message *m = live_loads_remove(&l->loads, load), *next; m; m = next) {
        next = m->next;
        answer(l, (struct live_order *)m, NULL, &err);
    }
}

/* An order that needs a model. The volume of a pinned one need not answer. */
static void find_model(struct live *l, struct live_order *o) {
    struct live_model *m = live_models_pinned(&l->models, live_load_path(o));
    struct live_prepared *served = live_models_served(&l->models, live_load_path(o));
    struct live_load *load = NULL;
    struct err err = {0};
    if (served && !(m = live_models_find(&l->models, served, true))) {
        served->asked_s = clock_s();
        live_models_load(&l->models, served, live_stream_open(o->stream)->model, &m, &err);
    }
    if (m || served || live_loads_add(&l->loads, o, &load, &err))
        answer(l, o, m, &err);
    else if (load)
        read_file(l, load);
}

/* Answers an order with what was read; false if the detector that was there when the file was asked for has made room for another.
 */
static bool use_file(struct live *l, struct live_order *o, struct live_prepared *p) {
    bool shared = o->message.kind == LIVE_OPEN;
    const char *name = shared ? live_stream_open(o->stream)->model : o->model;
    struct live_model *m = p->err.code ? NULL : live_models_find(&l->models, p, shared);
    if (!m && !p->err.code && !p->image)
        return false;
    if (!m && !p->err.code)
        live_models_load(&l->models, p, name, &m, &p->err);
    answer(l, o, m, &p->err);
    return true;
}

/* The contents of a model that serves go to the host of replays, which uploads them when a replay asks for the model; true if they
 * went. */
static bool pass_on(struct live *l, struct live_order *o) {
    if (!l->serve || !o->prepared->image || !live_models_pinned(&l->models, o->prepared->path))
        return false;
    o->message.kind = LIVE_SERVED;
    return l->serve(l->serve_ctx, o);
}

static void on_prepared(struct live *l, struct live_order *o) {
    struct message *due = NULL;
    struct live_load *load = live_loads_take(&l->loads, o->prepared->path, &due);
    if (!load)
        return;
    for (struct message *m; (m = due);) {
        due = m->next;
        if (!use_file(l, (struct live_order *)m, o->prepared))
            LIST_ADD_LAST(load->asked, m, next);
    }
    if (load->asked)
        read_file(l, load);
    else
        live_loads_remove(&l->loads, load);
}

static void on_unload(struct live *l, struct live_order *o) {
    struct live_report *r = live_order_answer(o);
    str_copy(r->model, sizeof r->model, o->model);
    bool last = live_models_unpin(&l->models, o->checkpoint);
    live_report_post(r, l->reports);
    o->message.kind = LIVE_UNSERVED;
    if (!last || !l->serve || !l->serve(l->serve_ctx, o))
        live_order_free(o);
}

static void on_close(struct live *l, struct live_order *o) {
    live_loads_drop(&l->loads, o->stream);
    unlink_stream(l, o->stream);
    live_stream_leave(o->stream);
    live_report_post(live_order_answer(o), l->reports); /* from now on the stream is its owner's */
}

static void on_open(struct live *l, struct live_order *o) {
    struct err err;
    live_stream_join(o->stream, l->models.device, l->reports, &l->viewer);
    if (take_place(l, o->stream, &err))
        answer(l, o, NULL, &err);
    else
        find_model(l, o);
}

void live_order(struct live *l, struct live_order *o) {
    switch ((enum live_order_kind)o->message.kind) {
    case LIVE_OPEN:
        on_open(l, o);
        return;
    case LIVE_SAVE:
        live_stream_save(o->stream, o);
        break;
    case LIVE_LOAD:
        find_model(l, o);
        return;
    case LIVE_PREPARED:
        on_prepared(l, o);
        if (pass_on(l, o))
            return;
        break;
    case LIVE_SERVED:
        live_models_serve(&l->models, o);
        return;
    case LIVE_UNSERVED:
        live_models_unserve(&l->models, o->checkpoint);
        break;
    case LIVE_UNLOAD:
        on_unload(l, o);
        return;
    case LIVE_CLOSE:
        on_close(l, o);
        break;
    case LIVE_WAKE:
        if (live_stream_runnable(o->stream)) /* else there may be no room for it (take_place) */
            line_up(l, o->stream);
        break;
    case LIVE_CHUNK:
    case LIVE_GAP:
    case LIVE_FINISH:
        if (live_stream_queue(o->stream, o)) {
            line_up(l, o->stream);
            return;
        }
        break;
    }
    live_order_free(o);
}

/* ---- shares of time ---- */

static double *used_by(struct live *l, const struct live_stream *s) { return &l->used_s[live_stream_open(s)->owner % OWNERS]; }

/* The streams of a batch took so long together. */
static void charge(struct live *l, struct live_stream *const *who, int n, double seconds) {
    const double left = exp2((l->used_at_s - l->now_s) / USED_HALF_S);
    for (int i = 0; i < OWNERS; i++)
        l->used_s[i] *= left;
    l->used_at_s = l->now_s;
    for (int i = 0; i < n; i++)
        *used_by(l, who[i]) += seconds / n;
    for (int i = 0; i < n; i++)
        atomic_store(&live_stream_turn(who[i])->owner_us, (int64_t)(*used_by(l, who[i]) * 1e6));
}

/* The time of the owner that took least, of those with streams in the line. */
static double least_used(struct live *l) {
    double least = INFINITY;
    for (int i = 0; i < l->n_due; i++)
        if (live_stream_has_work(l->due[i]) && live_stream_is_live(l->due[i], l->now_s))
            least = fmin(least, *used_by(l, l->due[i]));
    return least;
}

/* ---- whose turn it is ---- */

struct choice {
    struct live_stream *who[LIVE_MAX_BATCH];
    double since[LIVE_MAX_BATCH]; /* of live streams: ascending */
    double oldest;                /* since when one of them has waited */
    int n;
};

/* Live streams: who has waited longest is first, so that the nearest deadline is met first; a stream counts as later by the time
 * that its owner took more than others. */
static void insert(struct choice *c, struct live_stream *s, double since, int most) {
    int i = c->n < most ? c->n++ : most - 1;
    for (; i > 0 && c->since[i - 1] > since; i--) {
        c->who[i] = c->who[i - 1];
        c->since[i] = c->since[i - 1];
    }
    c->who[i] = s;
    c->since[i] = since;
}

/* At most so many of the line that this look has not found yet; replays in turn. Those without work leave the line. */
static void choose_due(struct live *l, const struct live_model *m, bool realtime, int most, struct choice *ret) {
    const double least = realtime ? least_used(l) : 0;
    int kept = 0;
    ret->n = 0;
    ret->oldest = INFINITY;
    for (int i = 0; i < l->n_due; i++) {
        struct live_stream *s = l->due[i];
        struct live_turn *turn = live_stream_turn(s);
        if (!(turn->due = live_stream_has_work(s)))
            continue;
        l->due[kept++] = s;
        if (live_stream_model(s) != m || live_stream_is_live(s, l->now_s) != realtime || turn->looked == l->looks)
            continue;
        const double waits = realtime ? live_stream_waiting_since_s(s) : 0, since = realtime ? waits + *used_by(l, s) - least : 0;
        ret->oldest = fmin(ret->oldest, waits);
        if (ret->n < most || (realtime && since < ret->since[most - 1]))
            insert(ret, s, since, most);
    }
    l->n_due = kept;
}

static double delay_of(const struct live *l, const struct live_model *m) {
    if (m->max_delay_s >= 0)
        return m->max_delay_s;
    const int64_t ms = m->steps ? l->delay.steps_ms : l->delay.windows_ms;
    return m->streams < l->delay.least_streams ? 0 : (double)ms / 1000;
}

/* True while streams of a batch that is not full wait for others that fall due within the model's delay. */
static bool holds(struct live *l, const struct live_model *m, const struct choice *c) {
    const double waited = c->n ? l->now_s - c->oldest : 0, delay = delay_of(l, m);
    if (!c->n || c->n == m->most || waited < 0 || waited >= delay)
        return false;
    l->pause_s = fmin(l->pause_s, delay - waited);
    return true;
}

struct absorbing {
    struct live_stream *const *who;
    int windows;
};

static int absorb(const void *ctx, int64_t i, int lane, struct err *err) {
    const struct absorbing *a = ctx;
    (void)lane, (void)err; /* a stream keeps its error */
    live_stream_absorb(a->who[i], a->windows);
    return 0;
}

/* The samples that wait, side by side where several streams have some. Replays go on without new ones while their windows fill a
 * batch: else each batch, which takes the windows of one stream first, would leave one stream with room for samples. */
static void absorb_all(const struct live *l, const struct choice *c, int windows) {
    const struct absorbing a = {c->who, windows};
    int64_t waiting = 0;
    int busy = 0;
    for (int i = 0; i < c->n; i++) {
        busy += live_stream_absorbs(c->who[i], windows);
        waiting += timeline_waiting(live_stream_timeline(c->who[i]));
    }
    if (windows > 1 && waiting >= windows)
        return;
    lanes_run(&(struct lanes_work){absorb, &a, 0, c->n, busy > 1 ? l->lanes : 1}, NULL);
}

/* Streams of a model with a window that waits: live ones at most as many as its batches have windows, replays until their windows
 * fill a batch. A replay waits with so many; each lane has one to take samples from, and not more, so that a step stays short. */
static int gather(struct live *l, const struct live_model *m, bool realtime, struct live_stream **who,
                  struct timeline **timelines) {
    const int lanes = l->lanes < LIVE_MAX_BATCH ? l->lanes : LIVE_MAX_BATCH, most = realtime || lanes < m->most ? m->most : lanes;
    struct choice c;
    int64_t waiting = 0;
    int n = 0;
    l->looks++;
    for (bool first = true; n < most && (realtime || waiting < m->most); first = false) {
        choose_due(l, m, realtime, most - n, &c);
        if (!c.n || (first && realtime && holds(l, m, &c)))
            break;
        absorb_all(l, &c, realtime ? 1 : m->most);
        for (int i = 0; i < c.n; i++) {
            struct live_stream *s = c.who[i];
            live_stream_turn(s)->looked = l->looks;
            if (live_stream_ready(s)) {
                who[n] = s;
                timelines[n] = live_stream_timeline(s);
                waiting += timeline_waiting(timelines[n++]);
            } else {
                live_stream_settle(s);
            }
        }
    }
    return n;
}

/* One batch of one model's waiting windows; false when none waits. */
static bool run_batch(struct live *l, struct live_model *m, bool realtime) {
    struct timeline *timelines[LIVE_MAX_BATCH];
    struct live_stream *who[LIVE_MAX_BATCH];
    struct err err = {0};
    int n = gather(l, m, realtime, who, timelines);
    if (!n)
        return false;
    int64_t windows = 0;
    double start_s = clock_s();
    if (realtime)
        device_live_begin(l->models.device);
    else
        stream_give_way(l->stream); /* windows side by side have streams of their own */
    if (!m->steps)
        mailbox_flush(l->reports); /* windows may take seconds, and the loop can go on with what was taken in */
    int rc = detector_run(m->detector, l->stream, timelines, n, m->most, &windows, &err);
    if (realtime)
        device_live_end(l->models.device);
    double end_s = clock_s();
    if (realtime)
        charge(l, who, n, end_s - start_s);
    m->used = l->turns;
    metric_add(m->windows, (double)windows);
    metric_observe(m->batch, (double)windows);
    metric_observe(m->compute, end_s - start_s);
    for (int i = 0; i < n; i++) {
        double newest_s = live_stream_newest_s(who[i]);
        if (rc)
            live_stream_fail(who[i], &err);
        else
            live_stream_settle(who[i]);
        if (realtime && !rc && !isnan(newest_s))
            metric_observe(m->lag, end_s - newest_s);
    }
    step_out(l, who[0]); /* it was served first, and with all of the batch where it had so many */
    line_up(l, who[0]);
    return true;
}

static bool run_class(struct live *l, bool realtime) {
    bool ran = false;
    for (int i = 0; i < LIVE_MAX_MODELS; i++)
        if (l->models.items[i].detector && l->models.items[i].streams)
            ran |= run_batch(l, &l->models.items[i], realtime);
    return ran;
}

enum live_step live_step(struct live *l) {
    l->turns++;
    l->now_s = clock_s();
    l->pause_s = INFINITY;
    if (run_class(l, true))
        return LIVE_RAN_REALTIME;
    if (!isinf(l->pause_s)) /* a batch of replays would take longer */
        return LIVE_IDLE;
    return run_class(l, false) ? LIVE_RAN_REPLAY : LIVE_IDLE;
}

int64_t live_pause_ms(const struct live *l) { return isinf(l->pause_s) ? -1 : (int64_t)ceil(1000 * l->pause_s); }

/* ---- its life ---- */

struct live *live_new(const struct live_config *config) {
    struct live *l = calloc(1, sizeof *l);
    struct device_info info;
    if (!l)
        return NULL;
    device_describe(config->device, &info);
    l->reports = config->reports;
    l->alarm_hop = info.is_async ? ALARM_HOP_CUDA : ALARM_HOP_CPU;
    l->loads = (struct live_loads){.loader = config->loader, .post = config->post, .ctx = config->post_ctx};
    l->models = (struct live_models){SAME_MEMBERS(*config, device, metrics, memory_limit_bytes),
                                     .batch = config->batch ? config->batch : LIVE_BATCH_CPU, .may_be_fp32 = config->may_be_fp32};
    l->models.alone = config->lanes <= 1;
    l->models.batch_steps = config->batch_steps ? config->batch_steps : l->models.batch;
    str_copy(l->models.device_name, sizeof l->models.device_name, info.name);
    l->pause_s = INFINITY;
    COPY_MEMBERS(*l, *config, serve, serve_ctx, viewer, delay);
    l->lanes = config->lanes > 1 ? config->lanes : 1;
    if (stream_open(config->device, config->priority, &l->stream, NULL)) {
        free(l);
        return NULL;
    }
    l->models.stream = l->stream;
    return l;
}

void live_free(struct live *l) {
    if (!l)
        return;
    live_loads_done(&l->loads);
    while (l->streams) {
        struct live_stream *s = l->streams;
        l->streams = after(s);
        live_stream_leave(s);
    }
    live_models_done(&l->models);
    stream_close(l->stream);
    free(l->due);
    free(l);
}
