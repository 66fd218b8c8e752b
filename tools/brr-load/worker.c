/* One thread of brr-load: a loop of libbrr with many sessions, each pushing its chunks at their times. */

#include "base/base.h"
#include "base/needed.h"
#include "base/rng.h"
#include "brr-load/load.h"

struct session {
    struct worker *w;
    brr_stream *stream;
    uint32_t seed;
    char name[24];                    /* of its bed */
    double opening_s, start_s, due_s; /* due: of the next chunk */
    int64_t chunk, chunks;            /* the next one, and all */
    double *pushed_s;                 /* (chunks): when each was pushed */
    int64_t acked;                    /* chunks that were acknowledged */
    int64_t next_seq, source_samples; /* source_samples: of the summary, -1 = none */
    bool finished, over;
};

struct run {
    struct worker *w;
    struct session *sessions;
    brr_loop *loop;
    brr_client **clients;
    int64_t n_clients, chunk_samples, begun, over;
    float *uv;
};

static void fail(struct failures *f, const struct brr_error *err) {
    const char *reason = *err->reason ? err->reason : brr_code_name(err->code);
    int i = 0;
    while (i < f->n_rows && strcmp(f->row[i].reason, reason) != 0)
        i++;
    if (i == LOAD_REASONS)
        return;
    if (i == f->n_rows) {
        str_copy(f->row[i].reason, sizeof f->row[i].reason, reason);
        str_copy(f->row[i].message, sizeof f->row[i].message, err->message);
        f->n_rows++;
    }
    f->row[i].n++;
}

static int64_t chunk_samples(const struct plan *p) { return llround(p->chunk_ms * LOAD_RATE_HZ / 1000); }

/* ---- what the handler hears ---- */

/* When the next chunk is due: at its end in real time, later by the jitter. */
static void schedule(struct session *s) {
    const struct plan *p = s->w->plan;
    double chunk_s = (double)chunk_samples(p) / LOAD_RATE_HZ;
    double late = rng_unit_f64(rng_philox(s->seed, RNG_SYNTH, 2000, (uint64_t)s->chunk).v[0], 0) * p->jitter_ms / 1000;
    s->due_s = s->start_s + chunk_s + (double)s->chunk * (p->every_s > 0 ? p->every_s : chunk_s) + late;
}

static void on_opened(void *ctx, brr_stream *stream) {
    struct session *s = ctx;
    (void)stream;
    s->start_s = clock_s();
    s->w->outcome.opened++;
    times_add(&s->w->outcome.open, (s->start_s - s->opening_s) * 1000);
    schedule(s);
}

/* The time since the chunk with source sample `end` - 1 was pushed. */
static void add_lag(struct session *s, struct times *t, int64_t end) {
    int64_t chunk = (end - 1) / chunk_samples(s->w->plan);
    if (end > 0 && chunk < s->chunk && s->pushed_s[chunk] > 0)
        times_add(t, (clock_s() - s->pushed_s[chunk]) * 1000);
}

static void on_result(struct session *s, const struct brr_message *m) {
    struct outcome *o = &s->w->outcome;
    const struct brr_stream_info *info = brr_stream_info(s->stream);
    o->results++;
    o->events += m->n_events;
    o->results_missing += m->seq != s->next_seq;
    s->next_seq = m->seq + 1;
    if (m->gap)
        o->samples_lost += m->samples;
    else if (!s->finished) /* the newest window that it is the mean of begins one hop before its end */
        add_lag(s, &o->result_lag, m->first + m->samples + llround((info->window_s - info->hop_s) * LOAD_RATE_HZ));
}

/* Chunks that wait for their acknowledgement while the connection is cut say nothing about the daemon. */
static void on_reconnected(struct session *s) {
    for (int64_t i = 0; i < s->chunk; i++)
        s->pushed_s[i] = 0;
    s->acked = s->chunk;
}

static void on_message(void *ctx, brr_stream *stream, const struct brr_message *m) {
    struct session *s = ctx;
    (void)stream;
    if (m->kind == BRR_RESULT)
        on_result(s, m);
    else if (m->kind == BRR_ALARM)
        s->w->outcome.alarms++;
    else if (m->kind == BRR_PROVISIONAL)
        add_lag(s, &s->w->outcome.alarm_lag, m->first + m->samples);
    else if (m->kind == BRR_SUMMARY)
        s->source_samples = m->summary.source_samples;
    else if (m->kind == BRR_RECONNECTED)
        on_reconnected(s);
}

static void on_acked(void *ctx, brr_stream *stream) {
    struct session *s = ctx;
    struct brr_stream_counts counts;
    brr_stream_counts(stream, &counts);
    for (; s->acked < s->chunk && (s->acked + 1) * chunk_samples(s->w->plan) <= counts.received; s->acked++)
        times_add(&s->w->outcome.ack, (clock_s() - s->pushed_s[s->acked]) * 1000);
}

static void on_ended(void *ctx, brr_stream *stream, const struct brr_error *err) {
    struct session *s = ctx;
    struct outcome *o = &s->w->outcome;
    struct brr_stream_counts counts;
    brr_stream_counts(stream, &counts);
    o->samples_sent += counts.pushed;
    o->samples_lost += counts.pushed - (s->source_samples >= 0 ? s->source_samples : counts.received);
    o->reconnects += counts.reconnects;
    if (err) {
        o->failed++;
        fail(&o->failures, err);
    } else {
        o->finished++;
    }
    s->over = true;
    s->stream = NULL;
    brr_stream_close(stream);
}

/* ---- the run ---- */

static int open_clients(struct run *r) {
    const struct plan *p = r->w->plan;
    int64_t each = p->connections ? (p->connections + p->threads - 1) / p->threads : r->w->n;
    r->n_clients = each < r->w->n ? each : r->w->n;
    r->clients = needed(calloc((size_t)r->n_clients + 1, sizeof(*r->clients)));
    int rc = 0;
    for (int64_t i = 0; i < r->n_clients && !rc; i++)
        rc = brr_connect_with(&p->connect, &r->clients[i], &r->w->err);
    return rc;
}

static int open_session(struct run *r, int64_t i) {
    const struct plan *p = r->w->plan;
    struct session *s = &r->sessions[i];
    const struct brr_stream_config config = {.model = p->model,
                                             .channels = load_labels,
                                             .n_channels = LOAD_CHANNELS,
                                             .rate_hz = LOAD_RATE_HZ,
                                             .client_name = s->name,
                                             .realtime = 1,
                                             .want_probabilities = 1,
                                             SAME_MEMBERS(*p, alarm_hop_s, no_resume)};
    const struct brr_handler handler = {.ctx = s, .opened = on_opened, .message = on_message, .acked = on_acked, .ended = on_ended};
    *s = (struct session){.w = r->w,
                          .seed = (uint32_t)(p->seed + r->w->first + i),
                          .due_s = INFINITY,
                          .source_samples = -1,
                          .opening_s = clock_s(),
                          .chunks = (int64_t)ceil(p->seconds * LOAD_RATE_HZ / (double)r->chunk_samples)};
    str_format(s->name, sizeof s->name, "brr-load-%lld", (long long)(r->w->first + i + 1));
    s->pushed_s = needed(calloc((size_t)s->chunks, sizeof *s->pushed_s));
    return brr_loop_open(r->loop, r->clients[i % r->n_clients], &config, &handler, &s->stream, &r->w->err);
}

/* The chunk that is due; false when the library has no room for it: it is tried again in a hundredth of a second. */
static void push(struct run *r, struct session *s) {
    struct brr_error err;
    signal_fill(r->w->bank, s->seed, s->chunk * r->chunk_samples, r->chunk_samples, r->uv);
    int rc = brr_stream_push(s->stream, r->uv, r->chunk_samples, 0, &err);
    if (rc == BRR_AGAIN) {
        r->w->outcome.refused_pushes++;
        s->due_s = clock_s() + 0.01;
        return;
    }
    if (rc) { /* on_ended says why */
        s->due_s = INFINITY;
        return;
    }
    s->pushed_s[s->chunk++] = clock_s();
    schedule(s);
    if (s->chunk == s->chunks) {
        s->finished = true;
        s->due_s = INFINITY;
        brr_stream_finish(s->stream, &err);
    }
}

/* Pushes what is due; the time of the next chunk. */
static double push_due(struct run *r) {
    double next = INFINITY, now = clock_s();
    r->over = 0;
    for (int64_t i = 0; i < r->begun; i++) {
        struct session *s = &r->sessions[i];
        if (!s->over && s->due_s <= now)
            push(r, s);
        next = !s->over && s->due_s < next ? s->due_s : next;
        r->over += s->over;
    }
    return next;
}

/* Opens the sessions whose time has come; the time of the next one. */
static int open_due(struct run *r, double start_s, double *next) {
    const struct plan *p = r->w->plan;
    *next = INFINITY;
    for (; r->begun < r->w->n; r->begun++) {
        double due_s = start_s + p->ramp_s * (double)(r->w->first + r->begun) / (double)p->sessions;
        if (due_s > clock_s()) {
            *next = due_s;
            return 0;
        }
        int rc = open_session(r, r->begun);
        if (rc)
            return rc;
        brr_loop_run(r->loop, 0);
    }
    return 0;
}

static int run_all(struct run *r) {
    double next = 0, opening = 0, start_s = clock_s();
    int rc = 0;
    while (!rc && r->over < r->w->n) {
        double now = clock_s();
        if (now >= opening && (rc = open_due(r, start_s, &opening)))
            break;
        if (now >= next || isinf(next))
            next = push_due(r);
        next = opening < next ? opening : next;
        double wait_ms = isinf(next) ? 20 : (next - clock_s()) * 1000;
        int64_t opened = r->w->outcome.opened;
        brr_loop_run(r->loop, wait_ms <= 0 ? 0 : wait_ms > 20 ? 20 : (int64_t)ceil(wait_ms));
        next = r->w->outcome.opened > opened ? 0 : next; /* one that has just opened may be due earlier */
    }
    return rc;
}

void *worker_run(void *worker) {
    struct worker *w = worker;
    struct run r = {.w = w, .chunk_samples = chunk_samples(w->plan)};
    r.sessions = needed(calloc((size_t)w->n + 1, sizeof *r.sessions));
    r.uv = needed(malloc(sizeof *r.uv * (size_t)(r.chunk_samples * LOAD_CHANNELS)));
    w->rc = brr_loop_new(&r.loop, &w->err);
    if (!w->rc)
        w->rc = open_clients(&r);
    if (!w->rc)
        w->rc = run_all(&r);
    brr_loop_free(r.loop);
    for (int64_t i = 0; i < r.n_clients && r.clients; i++)
        brr_disconnect(r.clients[i]);
    for (int64_t i = 0; i < w->n && r.sessions; i++)
        free(r.sessions[i].pushed_s);
    FREE_MEMBERS(r, clients, sessions, uv);
    return NULL;
}
