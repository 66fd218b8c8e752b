#include "daemon/live/live.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/queue.h"
#include "base/str.h"
#include "daemon/live/live_loads.h"
#include "daemon/live/live_models.h"
#include "daemon/live/live_stream.h"

enum { ALARM_HOP_CPU = 5 * FRONTEND_RATE_HZ, ALARM_HOP_CUDA = FRONTEND_RATE_HZ };

struct live {
    struct stream *stream;
    struct mailbox *reports;
    struct live_models models;
    struct live_loads loads;
    live_post_fn *serve; /* to the host of replays, or NULL */
    void *serve_ctx;
    struct eegring_limits viewer;
    int64_t alarm_hop;           /* 256 Hz samples; of streams that ask for none */
    struct live_stream *streams; /* the line */
    int64_t turns, looks;        /* looks: for streams of a batch */
    double now_s;                /* when the turn began */
};

/* ---- the line ---- */

static struct live_stream *after(struct live_stream *s) { return live_stream_turn(s)->next; }

static void enqueue(struct live *l, struct live_stream *s) {
    struct live_stream **end = &l->streams;
    while (*end)
        end = &live_stream_turn(*end)->next;
    *end = s;
    live_stream_turn(s)->next = NULL;
}

static void unlink_stream(struct live *l, struct live_stream *s) {
    struct live_stream **link = &l->streams;
    while (*link && *link != s)
        link = &live_stream_turn(*link)->next;
    if (*link)
        *link = after(s);
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
    if (r->opened)
        m->pins++;
    live_report_post(r, l->reports);
}

static void answer_open(struct live *l, struct live_order *o, struct live_model *m, const struct err *err) {
    struct err own = m ? (struct err){0} : *err;
    if (m) {
        m->used = l->turns;
        live_stream_begin(o->stream, m, l->alarm_hop, o, &own);
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

void live_order(struct live *l, struct live_order *o) {
    switch ((enum live_order_kind)o->message.kind) {
    case LIVE_OPEN:
        enqueue(l, o->stream);
        live_stream_join(o->stream, l->models.device, l->reports, &l->viewer);
        find_model(l, o);
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
        break;
    case LIVE_CHUNK:
    case LIVE_GAP:
    case LIVE_FINISH:
        if (live_stream_queue(o->stream, o))
            return;
        break;
    }
    live_order_free(o);
}

/* ---- whose turn it is ---- */

static bool wants(const struct live *l, const struct live_stream *s, const struct live_model *m, bool realtime) {
    return live_stream_model(s) == m && live_stream_runnable(s) && live_stream_is_live(s, l->now_s) == realtime;
}

/* Live streams: who has waited longest is next, so that the nearest deadline is met first. Replays: in turn. NULL: none waits. */
static struct live_stream *pick(struct live *l, const struct live_model *m, bool realtime) {
    struct live_stream *best = NULL;
    double since = INFINITY;
    for (struct live_stream *s = l->streams; s; s = after(s)) {
        if (!wants(l, s, m, realtime) || live_stream_turn(s)->looked == l->looks)
            continue;
        if (!realtime)
            return s;
        double own = live_stream_waiting_since_s(s);
        if (own < since) {
            since = own;
            best = s;
        }
    }
    return best;
}

/* Streams of a model with a window that waits, at most as many as its batches have windows. A replay waits with so many. */
static int gather(struct live *l, const struct live_model *m, bool realtime, struct live_stream **who,
                  struct timeline **timelines) {
    int n = 0;
    l->looks++;
    for (struct live_stream *s; n < m->most && (s = pick(l, m, realtime));) {
        live_stream_turn(s)->looked = l->looks;
        live_stream_absorb(s, realtime ? 1 : m->most);
        if (live_stream_ready(s)) {
            who[n] = s;
            timelines[n++] = live_stream_timeline(s);
        } else {
            live_stream_settle(s);
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
    int rc = detector_run(m->detector, l->stream, timelines, n, m->most, &windows, &err);
    if (realtime)
        device_live_end(l->models.device);
    double end_s = clock_s();
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
    unlink_stream(l, who[0]); /* it was served first, and with all of the batch where it had so many */
    enqueue(l, who[0]);
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
    if (run_class(l, true))
        return LIVE_RAN_REALTIME;
    return run_class(l, false) ? LIVE_RAN_REPLAY : LIVE_IDLE;
}

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
    l->models = (struct live_models){.device = config->device,
                                     .metrics = config->metrics,
                                     .memory_limit_bytes = config->memory_limit_bytes,
                                     .batch = config->batch ? config->batch : LIVE_BATCH_CPU,
                                     .may_be_fp32 = config->may_be_fp32};
    str_copy(l->models.device_name, sizeof l->models.device_name, info.name);
    l->serve = config->serve;
    l->serve_ctx = config->serve_ctx;
    l->viewer = config->viewer;
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
    free(l);
}
