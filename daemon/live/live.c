#include "daemon/live/live.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "daemon/live/live_models.h"
#include "infer/detector.h"
#include "infer/timeline.h"
#include "store/digest.h"

enum { ALARM_HOP_CPU = 5 * FRONTEND_RATE_HZ, ALARM_HOP_CUDA = FRONTEND_RATE_HZ, MAX_EVENTS_WAITING = 256, STATE_MAX = 128 << 20 };
#define ENDED_WAITS_S 30.0 /* how much later the last windows of an ended recording are due */

struct live_stream {
    void *owner;
    atomic_bool gone;
    _Atomic int64_t unreleased;     /* bytes of reports that the owner still holds */
    struct live_report *last_words; /* FAILED, made at birth: it is sent whatever memory is left */
    /* set at birth */
    struct live_open open; /* its texts are these */
    char checkpoint[LIVE_PATH], name[LIVE_NAME];
    char **labels;
    /* the worker's */
    struct live *live;
    struct live_model *model;
    struct timeline *timeline;
    struct message *first, *last; /* orders that wait for the windows before them */
    bool failed, finishing;
    struct live_report *summary;       /* the answer to FINISH, until it is due */
    int64_t looked;                    /* the look in which it was found last */
    double newest_s;                   /* when the newest chunk in the timeline was received */
    struct live_report *result;        /* under construction: its events follow its probabilities */
    int64_t next_result, next_alarm;   /* numbers */
    struct suppression_totals counted; /* in metrics */
    int64_t given;                     /* 256 Hz samples that results have covered */
    int64_t alarm_hop;                 /* 256 Hz samples, 0 = none */
    struct quality *quality;           /* of the used channels */
    float *scratch;                    /* used channels × samples of the newest chunk */
    int64_t scratch_floats;
    struct live_stream *next;
};

struct live {
    struct device *device;
    struct stream *stream;
    struct mailbox *reports;
    struct live_models models;
    struct live_stream *streams;
    int64_t turns, looks; /* looks: for streams of a batch */
};

/* ---- reports ---- */

/* The share of its stream's credit that a report takes; small reports are bounded by the orders they answer. */
static int64_t report_bytes(const struct live_report *r) {
    switch ((enum live_report_kind)r->message.kind) {
    case LIVE_RESULT:
    case LIVE_PROVISIONAL:
    case LIVE_ALARM:
        return live_report_bytes(r);
    default:
        return 0;
    }
}

static void post(struct live *l, struct live_report *r) {
    r->bytes = report_bytes(r);
    if (r->bytes)
        atomic_fetch_add(&r->stream->unreleased, r->bytes);
    if (!mailbox_post_wait(l->reports, &r->message, -1))
        live_report_free(r);
}

static struct live_report *take_answer(struct live_order *o) {
    struct live_report *r = o->answer;
    o->answer = NULL;
    return r;
}

static void flush_result(struct live_stream *s) {
    if (s->result)
        post(s->live, s->result);
    s->result = NULL;
}

static void fail(struct live_stream *s, const struct err *err) {
    if (s->failed)
        return;
    s->failed = true;
    flush_result(s);
    s->last_words->err = *err;
    post(s->live, s->last_words);
    s->last_words = NULL;
}

/* ---- a stream's handle ---- */

struct live_stream *live_stream_new(const struct live_open *open, void *owner) {
    struct live_stream *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->owner = owner;
    s->open = *open;
    str_copy(s->checkpoint, sizeof s->checkpoint, open->checkpoint);
    str_copy(s->name, sizeof s->name, open->model);
    s->labels = calloc((size_t)open->n_labels + 1, sizeof *s->labels);
    int n = 0;
    while (s->labels && n < open->n_labels && (s->labels[n] = strdup(open->labels[n])))
        n++;
    s->open.checkpoint = s->checkpoint;
    s->open.model = s->name;
    s->open.labels = (const char *const *)s->labels;
    s->open.n_labels = n;
    s->last_words = live_report_new(LIVE_FAILED, s);
    if (s->labels && n == open->n_labels && s->last_words)
        return s;
    live_stream_free(s);
    return NULL;
}

void live_stream_free(struct live_stream *s) {
    if (!s)
        return;
    for (int i = 0; i < s->open.n_labels; i++)
        free(s->labels[i]);
    free(s->labels);
    live_report_free(s->last_words);
    free(s);
}

void *live_stream_owner(const struct live_stream *s) { return s->owner; }
const struct live_open *live_stream_open(const struct live_stream *s) { return &s->open; }
void live_stream_abandon(struct live_stream *s) { atomic_store(&s->gone, true); }

bool live_stream_release(struct live_stream *s, int64_t bytes) {
    int64_t before = atomic_fetch_sub(&s->unreleased, bytes);
    return before >= LIVE_CREDIT_BYTES && before - bytes < LIVE_CREDIT_BYTES;
}

/* True if it may run: nothing ended it and its owner keeps up. */
static bool runnable(const struct live_stream *s) {
    return s->timeline && !s->failed && !atomic_load(&s->gone) && atomic_load(&s->unreleased) < LIVE_CREDIT_BYTES;
}

static struct live_opened *describe(const struct live_model *m) {
    struct live_opened *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->info = *detector_info(m->detector);
    str_copy(o->checkpoint, sizeof o->checkpoint, m->path);
    o->info.checkpoint = o->checkpoint;
    o->info.file.frontend.montage = o->info.file.montage;
    return o;
}

static void on_load(struct live *l, struct live_order *o) {
    struct live_report *r = take_answer(o);
    struct live_model *m = NULL;
    str_copy(r->model, sizeof r->model, o->model);
    int rc = live_models_load(&l->models, o->checkpoint, o->model, &m, &r->err);
    if (!rc && !m->pins)
        rc = detector_warm_up(m->detector, l->stream, &r->err);
    if (!rc && !(r->opened = describe(m)))
        rc = err_set(&r->err, ERR_EXHAUSTED, "out of memory for a model");
    if (!rc)
        m->pins++;
    post(l, r);
}

static void on_unload(struct live *l, struct live_order *o) {
    struct live_report *r = take_answer(o);
    str_copy(r->model, sizeof r->model, o->model);
    live_models_unpin(&l->models, o->checkpoint);
    post(l, r);
}

/* ---- what a timeline gives out ---- */

static int judge(struct live_stream *s, struct live_report *r, struct err *err) {
    const int *sources;
    int rc = quality_take(s->quality, r->first, r->first + r->samples, &r->quality, err);
    timeline_sources(s->timeline, &sources);
    for (int i = 0; i < r->quality.n; i++)
        r->quality.channels[i].channel = sources[r->quality.channels[i].channel];
    return rc;
}

/* The next result, of the samples [first, first + n). */
static struct live_report *result_new(struct live_stream *s, int64_t first, int64_t n) {
    struct live_report *r = live_report_new(LIVE_RESULT, s);
    if (!r)
        return NULL;
    r->seq = s->next_result++;
    r->first = first;
    r->samples = n;
    s->given = first + n;
    return r;
}

static int on_probabilities(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct live_stream *s = ctx;
    flush_result(s);
    struct live_report *r = result_new(s, first, n);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
    s->result = r;
    if (judge(s, r, err))
        return err->code;
    if (!s->open.want_probabilities)
        return 0;
    r->p = malloc((size_t)n * sizeof *p);
    if (!r->p)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
    memcpy(r->p, p, (size_t)n * sizeof *p);
    return 0;
}

static int on_gap(void *ctx, int64_t first, int64_t n, struct err *err) {
    struct live_stream *s = ctx;
    flush_result(s);
    for (int64_t end = first + n; first < end; first += n) {
        n = end - first < LIVE_MAX_SAMPLES ? end - first : LIVE_MAX_SAMPLES;
        struct live_report *r = result_new(s, first, n);
        if (!r)
            return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
        r->gap = true;
        post(s->live, r);
    }
    return 0;
}

static int on_event(void *ctx, const struct event *event, struct err *err) {
    struct live_stream *s = ctx;
    if (s->result && s->result->n_events >= MAX_EVENTS_WAITING)
        flush_result(s);
    if (!s->result)
        s->result = result_new(s, s->given, 0);
    struct event *events = s->result ? realloc(s->result->events, (size_t)(s->result->n_events + 1) * sizeof *events) : NULL;
    if (!events)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an event");
    s->result->events = events;
    events[s->result->n_events++] = *event;
    return 0;
}

static int on_suppression(void *ctx, const struct suppression_report *report, struct err *err) {
    struct live_stream *s = ctx;
    if (!s->result)
        s->result = result_new(s, s->given, 0);
    if (!s->result)
        return err_set(err, ERR_EXHAUSTED, "out of memory for burst suppression");
    struct live_report *r = s->result;
    size_t n = (size_t)r->n_suppression, channels = (size_t)report->channels;
    struct live_suppression *more = realloc(r->suppression, (n + 1) * sizeof *more);
    r->suppression = more ? more : r->suppression;
    float *values = more ? realloc(r->channel_suppression, (n + 1) * 2 * channels * sizeof *values) : NULL;
    if (!values)
        return err_set(err, ERR_EXHAUSTED, "out of memory for burst suppression");
    r->channel_suppression = values;
    more[n] = (struct live_suppression){report->sample, report->observed, report->ratio, report->bursts_per_minute};
    memcpy(values + 2 * n * channels, report->channel_ratio, channels * sizeof *values);
    memcpy(values + (2 * n + 1) * channels, report->channel_bursts, channels * sizeof *values);
    r->channels = report->channels;
    r->n_suppression++;
    return 0;
}

static void count_suppression(struct live_stream *s) {
    struct suppression_totals now;
    timeline_suppression(s->timeline, &now);
    metric_add(s->model->suppressed, (double)(now.suppressed - s->counted.suppressed) / FRONTEND_RATE_HZ);
    metric_add(s->model->bursts, (double)(now.bursts - s->counted.bursts));
    s->counted = now;
}

static int on_settled(void *ctx, struct err *err) {
    (void)err;
    count_suppression(ctx);
    flush_result(ctx);
    return 0;
}

static int on_alarm(void *ctx, enum alarm_kind kind, int64_t sample, float p, struct err *err) {
    struct live_stream *s = ctx;
    struct live_report *r = live_report_new(LIVE_ALARM, s);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an alarm");
    r->seq = s->next_alarm++;
    r->on = kind == ALARM_ON;
    r->first = sample;
    r->probability = p;
    r->wall_ms = clock_wall_ms();
    post(s->live, r);
    return 0;
}

static int on_provisional(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct live_stream *s = ctx;
    struct live_report *r = live_report_new(LIVE_PROVISIONAL, s);
    if (r && s->open.want_probabilities)
        r->p = malloc((size_t)n * sizeof *p);
    if (!r || (s->open.want_probabilities && !r->p)) {
        live_report_free(r);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a result");
    }
    r->first = first;
    r->samples = n;
    r->probability = p[n - 1];
    if (r->p)
        memcpy(r->p, p, (size_t)n * sizeof *p);
    post(s->live, r);
    return 0;
}

/* ---- opening and closing ---- */

static int64_t pick_alarm_hop(const struct live *l, const struct live_stream *s, const struct modelfile *file) {
    struct device_info info;
    if (s->open.alarm_hop_s < 0)
        return 0;
    if (s->open.alarm_hop_s > 0)
        return (int64_t)llround(s->open.alarm_hop_s * FRONTEND_RATE_HZ);
    device_describe(l->device, &info);
    int64_t hop = strcmp(info.name, "cpu") ? ALARM_HOP_CUDA : ALARM_HOP_CPU;
    return file->hop % hop == 0 && hop <= file->model.window ? hop : file->hop;
}

/* The state as bytes: what it was made with, the numbers, the timeline. */
static int save_state(struct live_stream *s, struct str *out, struct err *err) {
    pack_text(out, detector_info(s->model->detector)->sha256);
    pack_i64(out, s->alarm_hop);
    pack_i64(out, s->next_result);
    pack_i64(out, s->next_alarm);
    pack_i64(out, s->given);
    quality_save(s->quality, out);
    return timeline_save(s->timeline, out, err);
}

/* The first part of a saved state, before the timeline is made. */
static int load_numbers(struct live_stream *s, struct unpack *in, struct err *err) {
    const int64_t far = INT64_C(1) << 60;
    char sha256[DIGEST_HEX_SIZE];
    unpack_text(in, sha256, sizeof sha256);
    s->alarm_hop = unpack_i64(in, 0, far);
    s->next_result = unpack_i64(in, 0, far);
    s->next_alarm = unpack_i64(in, 0, far);
    s->given = unpack_i64(in, 0, far);
    if (in->failed)
        return err_set(err, ERR_DATA_LOSS, "the saved state of the stream is corrupt");
    if (strcmp(sha256, detector_info(s->model->detector)->sha256) != 0)
        return err_set(err, ERR_DATA_LOSS, "the saved state of the stream was made with another version of the model %s",
                       s->checkpoint);
    return 0;
}

static void on_save(struct live *l, struct live_stream *s, struct live_report *r) {
    struct str state;
    str_init(&state, STATE_MAX);
    if (!s->timeline || s->failed)
        err_set(&r->err, ERR_PRECONDITION, "the stream has ended");
    else if (!save_state(s, &state, &r->err)) {
        r->state_len = state.len;
        r->state = str_take(&state);
        if (!r->state)
            err_set(&r->err, ERR_EXHAUSTED, "out of memory for the state of a stream");
    }
    str_done(&state);
    post(l, r);
}

/* Where the source clips. */
static double clipping_uv(const struct live_open *open) { return open->format == LIVE_I16 ? INT16_MAX * open->scale_uv : INFINITY; }

/* A new timeline, or with `state` one that goes on from there. */
static int open_timeline(struct live *l, struct live_stream *s, struct live_opened *o, struct unpack *state, struct err *err) {
    struct frontend_source source = {.labels = s->open.labels, .n_labels = s->open.n_labels, .rate_hz = s->open.rate_hz};
    struct timeline_sink sink = {.ctx = s,
                                 .probabilities = on_probabilities,
                                 .gap = on_gap,
                                 .event = on_event,
                                 .alarm = on_alarm,
                                 .provisional = on_provisional,
                                 .suppression = on_suppression,
                                 .settled = on_settled};
    s->alarm_hop = pick_alarm_hop(l, s, &o->info.file);
    int rc = state ? load_numbers(s, state, err) : 0;
    struct timeline_options options = {.alarm_hop = s->alarm_hop};
    struct frontend_report report = {.note = ""};
    const int *sources = NULL;
    if (!rc)
        rc = timeline_new(&detector_info(s->model->detector)->file, &source, &options, &sink, &s->timeline, &report, err);
    if (!rc && !(s->quality = quality_new(timeline_sources(s->timeline, &sources), s->open.rate_hz, clipping_uv(&s->open))))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    if (!rc && state && !quality_load(s->quality, state))
        rc = err_set(err, ERR_DATA_LOSS, "the saved state of the stream is corrupt");
    if (!rc && state)
        rc = timeline_load(s->timeline, state, err);
    if (!rc && state && !unpack_done(state))
        rc = err_set(err, ERR_DATA_LOSS, "the saved state of the stream is corrupt");
    if (rc)
        return rc;
    timeline_suppression(s->timeline, &s->counted);
    o->n_sources = timeline_sources(s->timeline, &sources);
    for (int i = 0; i < o->n_sources; i++)
        o->sources[i] = sources[i];
    o->alarm_hop = options.alarm_hop;
    str_copy(o->note, sizeof o->note, report.note);
    return 0;
}

static void on_open(struct live *l, struct live_order *order) {
    struct live_stream *s = order->stream;
    struct unpack state = unpack_of(order->data, (size_t)order->data_bytes);
    struct err err = {0};
    s->live = l;
    s->next = NULL;
    struct live_stream **end = &l->streams;
    while (*end)
        end = &(*end)->next;
    *end = s;
    int rc = live_models_load(&l->models, s->checkpoint, s->name, &s->model, &err);
    if (!rc) {
        s->model->streams++;
        s->model->used = l->turns;
    }
    if (!rc && !(order->answer->opened = describe(s->model)))
        rc = err_set(&err, ERR_EXHAUSTED, "out of memory for a stream");
    if (!rc)
        rc = open_timeline(l, s, order->answer->opened, order->data ? &state : NULL, &err);
    if (rc)
        fail(s, &err);
    else
        post(l, take_answer(order));
}

static void drop_orders(struct live_stream *s) {
    while (s->first) {
        struct live_order *o = (struct live_order *)s->first;
        s->first = o->message.next;
        live_order_free(o);
    }
    s->last = NULL;
}

/* Windows that were ready and will never be looked at. */
static int64_t count_waiting(struct live_stream *s) {
    const struct seizure_config *c = &detector_info(s->model->detector)->file.model;
    float *x = malloc((size_t)c->window * (size_t)c->in_channels * sizeof *x);
    int64_t n = 0;
    while (x && timeline_take(s->timeline, x))
        n++;
    free(x);
    return n;
}

static void detach(struct live *l, struct live_stream *s) {
    struct live_stream **link = &l->streams;
    while (*link && *link != s)
        link = &(*link)->next;
    if (*link)
        *link = s->next;
    if (s->model && s->timeline)
        metric_add(s->model->dropped, (double)count_waiting(s));
    timeline_free(s->timeline);
    s->timeline = NULL;
    quality_free(s->quality);
    s->quality = NULL;
    if (s->model)
        s->model->streams--;
    s->model = NULL;
    drop_orders(s);
    live_report_free(s->result);
    live_report_free(s->summary);
    s->result = s->summary = NULL;
    free(s->scratch);
    s->scratch = NULL;
}

void live_order(struct live *l, struct live_order *o) {
    struct live_stream *s = o->stream;
    switch ((enum live_order_kind)o->message.kind) {
    case LIVE_OPEN:
        on_open(l, o);
        break;
    case LIVE_SAVE:
        on_save(l, s, take_answer(o));
        break;
    case LIVE_LOAD:
        on_load(l, o);
        break;
    case LIVE_UNLOAD:
        on_unload(l, o);
        break;
    case LIVE_CLOSE:
        detach(l, s);
        post(l, take_answer(o)); /* from now on the stream is its owner's */
        break;
    case LIVE_WAKE:
        break;
    case LIVE_CHUNK:
    case LIVE_GAP:
    case LIVE_FINISH:
        if (s->failed || atomic_load(&s->gone))
            break;
        o->message.next = NULL;
        if (s->last)
            s->last->next = &o->message;
        else
            s->first = &o->message;
        s->last = &o->message;
        return;
    }
    live_order_free(o);
}

/* ---- running ---- */

/* The used channels of a chunk as float rows in s->scratch. */
static int convert(struct live_stream *s, const struct live_order *o, float **rows, struct err *err) {
    const int *sources;
    int n_sources = timeline_sources(s->timeline, &sources);
    int64_t n = o->samples - o->skip;
    if (n_sources * n > s->scratch_floats) {
        float *scratch = realloc(s->scratch, (size_t)(n_sources * n) * sizeof *scratch);
        if (!scratch)
            return err_set(err, ERR_EXHAUSTED, "out of memory for a chunk of %lld samples", (long long)n);
        s->scratch = scratch;
        s->scratch_floats = n_sources * n;
    }
    for (int c = 0; c < n_sources; c++) {
        float *row = s->scratch + c * n;
        int64_t at = sources[c] * o->samples + o->skip;
        rows[c] = row;
        if (s->open.format == LIVE_F32_UV) {
            memcpy(row, o->data + at * 4, (size_t)n * sizeof *row);
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            const uint8_t *b = o->data + (at + i) * 2;
            row[i] = (float)((double)(int16_t)(b[0] | b[1] << 8) * s->open.scale_uv);
        }
    }
    return 0;
}

/* Feed the timeline until a window waits or nothing is left. */
static void absorb(struct live *l, struct live_stream *s) {
    float *rows[FRONTEND_MAX_LABELS];
    struct err err = {0};
    while (s->first && !s->failed && !timeline_ready(s->timeline, &err)) {
        struct live_order *o = (struct live_order *)s->first;
        int rc = 0;
        s->first = o->message.next;
        if (!s->first)
            s->last = NULL;
        if (o->message.kind == LIVE_FINISH) {
            s->finishing = true;
            s->summary = take_answer(o);
            rc = timeline_finish(s->timeline, &err);
        } else if (o->message.kind == LIVE_GAP) {
            if (!(rc = quality_gap(s->quality, o->samples, &err)))
                rc = timeline_gap(s->timeline, o->samples, &err);
        } else if (!(rc = convert(s, o, rows, &err)) && !(rc = quality_push(s->quality, rows, o->samples - o->skip, &err))) {
            s->newest_s = o->received_s;
            rc = timeline_push(s->timeline, (const float *const *)rows, o->samples - o->skip, &err);
        }
        if (rc) {
            fail(s, &err);
        } else if (o->answer) {
            o->answer->samples = o->samples - o->skip;
            o->answer->data_bytes = o->data_bytes;
            post(l, take_answer(o));
        }
        live_order_free(o);
    }
}

/* After windows were completed: failures and the end are seen. */
static void settle(struct live *l, struct live_stream *s) {
    struct err err = {0};
    if (timeline_status(s->timeline, &err)) {
        fail(s, &err);
    } else if (s->summary && timeline_done(s->timeline)) {
        s->summary->samples = timeline_samples(s->timeline);
        s->summary->windows = timeline_windows(s->timeline);
        timeline_suppression(s->timeline, &s->summary->totals);
        post(l, s->summary);
        s->summary = NULL;
    }
}

static bool wants(struct live_stream *s, const struct live_model *m, bool realtime) {
    return s->model == m && s->open.realtime == realtime && runnable(s);
}

/* When the samples were received that this stream has not been served for; INFINITY when nothing waits. The last windows of a
 * recording that has ended fall due together and can wait for those of others. */
static double waiting_since(struct live_stream *s) {
    struct err err;
    if (timeline_ready(s->timeline, &err))
        return s->newest_s + (s->finishing ? ENDED_WAITS_S : 0);
    for (const struct message *m = s->first; m; m = m->next)
        if (m->kind == LIVE_CHUNK)
            return ((const struct live_order *)m)->received_s;
    return s->first ? 0 : INFINITY;
}

/* Live streams: who has waited longest is next, so that the nearest deadline is met first. Replays: in turn. NULL: none waits. */
static struct live_stream *pick(struct live *l, const struct live_model *m, bool realtime) {
    struct live_stream *best = NULL;
    double since = INFINITY;
    for (struct live_stream *s = l->streams; s; s = s->next) {
        if (!wants(s, m, realtime) || s->looked == l->looks)
            continue;
        if (!realtime)
            return s;
        double own = waiting_since(s);
        if (own < since) {
            since = own;
            best = s;
        }
    }
    return best;
}

/* Streams of a model with a window that waits, at most LIVE_MAX_BATCH. */
static int gather(struct live *l, const struct live_model *m, bool realtime, struct live_stream **who,
                  struct timeline **timelines) {
    struct err err;
    int n = 0;
    l->looks++;
    for (struct live_stream *s; n < LIVE_MAX_BATCH && (s = pick(l, m, realtime));) {
        s->looked = l->looks;
        absorb(l, s);
        if (s->failed)
            continue;
        if (timeline_ready(s->timeline, &err)) {
            who[n] = s;
            timelines[n++] = s->timeline;
        } else {
            settle(l, s);
        }
    }
    return n;
}

/* To the end of the line. */
static void requeue(struct live *l, struct live_stream *s) {
    struct live_stream **link = &l->streams;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    s->next = NULL;
    while (*link)
        link = &(*link)->next;
    *link = s;
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
    int rc = detector_run(m->detector, l->stream, timelines, n, LIVE_MAX_BATCH, &windows, &err);
    double end_s = clock_s();
    m->used = l->turns;
    metric_add(m->windows, (double)windows);
    metric_observe(m->batch, (double)windows);
    metric_observe(m->compute, end_s - start_s);
    for (int i = 0; i < n; i++) {
        if (rc)
            fail(who[i], &err);
        else
            settle(l, who[i]);
        if (realtime && !rc && !who[i]->finishing)
            metric_observe(m->lag, end_s - who[i]->newest_s);
    }
    requeue(l, who[0]); /* it was served first, and with all of the batch where it had so many */
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
    if (run_class(l, true))
        return LIVE_RAN_REALTIME;
    return run_class(l, false) ? LIVE_RAN_REPLAY : LIVE_IDLE;
}

bool live_step_realtime(struct live *l) {
    l->turns++;
    return run_class(l, true);
}

bool live_waiting(const struct live *l) {
    struct err err;
    for (struct live_stream *s = l->streams; s; s = s->next)
        if (runnable(s) && (s->first || timeline_ready(s->timeline, &err)))
            return true;
    return false;
}

struct live *live_new(struct device *device, struct mailbox *reports, struct metrics *metrics, int64_t memory_limit_bytes) {
    struct live *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->device = device;
    l->reports = reports;
    l->models = (struct live_models){.device = device, .metrics = metrics, .memory_limit_bytes = memory_limit_bytes};
    if (stream_open(device, STREAM_HIGH, &l->stream, NULL)) {
        free(l);
        return NULL;
    }
    l->models.stream = l->stream;
    return l;
}

void live_free(struct live *l) {
    if (!l)
        return;
    while (l->streams)
        detach(l, l->streams);
    live_models_done(&l->models);
    stream_close(l->stream);
    free(l);
}
