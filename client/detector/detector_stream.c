/* A stream of brr_detector.h: a timeline, and the results that nobody has taken yet. */

#include "client/detector/open_detector.h"
#include "detect/focus.h"
#include "detect/timeline.h"
#include "eeg/quality.h"

enum { PUSH_MOST = 4096 /* samples between two runs of the model */ };

/* An array that grows; begin again by n = 0. */
struct pile {
    void *data;
    int64_t n, room;
};

struct brr_detector_stream {
    brr_detector *detector;
    struct timeline *timeline;
    struct pile probabilities, events, channels, texts, alarms, rows;
    float *finite;                   /* PUSH_MOST samples of each channel that is read */
    float held[FRONTEND_MAX_LABELS]; /* of each: the last number (quality_hold) */
    double rate_hz;
    int64_t missing; /* source samples of the gap that is open */
    int64_t first;   /* sample of the oldest probability in the pile */
    bool taken;      /* the piles were given out, and begin again with the next call */
    bool gives_rows;
};

static int pile_add(struct pile *p, const void *items, int64_t n, size_t each, struct err *err) {
    if (p->n + n > p->room) {
        int64_t room = 2 * (p->n + n) + 64;
        void *grown = realloc(p->data, (size_t)room * each);
        if (!grown)
            return err_set(err, ERR_EXHAUSTED, "out of memory for the results of a stream");
        p->data = grown;
        p->room = room;
    }
    memcpy((char *)p->data + (size_t)p->n * each, items, (size_t)n * each);
    p->n += n;
    return 0;
}

static int add_probabilities(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    brr_detector_stream *s = ctx;
    if (!s->probabilities.n)
        s->first = first;
    return pile_add(&s->probabilities, p, n, sizeof *p, err);
}

static int add_event(void *ctx, const struct event *event, struct err *err) {
    brr_detector_stream *s = ctx;
    struct brr_detector_event e = {.first = event->first, .end = event->end, .confidence = event->confidence};
    const char *text = NULL; /* until they are given out */
    char channels[SIDE_LIST];
    int rc;
    focus_list(s->detector->info->file.montage, event->where, channels);
    if ((rc = pile_add(&s->channels, channels, 1, sizeof channels, err)) || (rc = pile_add(&s->texts, &text, 1, sizeof text, err)))
        return rc;
    return pile_add(&s->events, &e, 1, sizeof e, err);
}

static int add_alarm(void *ctx, const struct timeline_alarm *alarm, struct err *err) {
    brr_detector_stream *s = ctx;
    struct brr_detector_alarm a = {.sample = alarm->sample, .on = alarm->on, .probability = alarm->p};
    return pile_add(&s->alarms, &a, 1, sizeof a, err);
}

struct stream_opening {
    brr_detector_stream *to;
    struct brr_detector_source source;
};

static int open_timeline(void *context, struct err *err) {
    struct stream_opening *o = context;
    const struct modelfile *file = &o->to->detector->info->file;
    struct frontend_source source = {.labels = o->source.channels, .n_labels = o->source.n_channels, .rate_hz = o->source.rate_hz};
    struct timeline_sink sink = {.ctx = o->to, .probabilities = add_probabilities, .event = add_event, .alarm = add_alarm};
    if (o->source.rows)
        sink = (struct timeline_sink){.ctx = o->to};
    o->to->rate_hz = o->source.rate_hz;
    o->to->gives_rows = o->source.rows;
    struct events_config events;
    int rc = events_config_with(&file->events, o->source.on, o->source.off, &events, err);
    if (rc)
        return rc;
    struct timeline_options options = {.alarm_hop = (int64_t)(o->source.alarm_hop_s * FRONTEND_RATE_HZ + 0.5), .events = &events};
    const int *sources = NULL;
    if ((rc = timeline_new(file, &source, &options, &sink, &o->to->timeline, NULL, err)))
        return rc;
    const size_t n = (size_t)timeline_sources(o->to->timeline, &sources);
    o->to->finite = malloc(n * PUSH_MOST * sizeof *o->to->finite);
    return o->to->finite ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a stream of %zu channels", n);
}

static int check_source(const struct brr_detector_source *s, struct err *err) {
    if (s->n_channels < 1 || s->n_channels > FRONTEND_MAX_LABELS || !s->channels)
        return err_set(err, ERR_INVALID, "%d channels; expected 1 to %d, with their names", (int)s->n_channels,
                       FRONTEND_MAX_LABELS);
    if (!(s->alarm_hop_s >= 0 && s->alarm_hop_s <= 3600))
        return err_set(err, ERR_INVALID, "alarm_hop_s is %g; expected 0 to 3600", s->alarm_hop_s);
    return 0;
}

static int open_stream(brr_detector *detector, const struct brr_detector_source *source, brr_detector_stream *to, struct err *err) {
    struct stream_opening o = {.to = to};
    int rc;
    if (!to)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a stream");
    if (!detector)
        return err_set(err, ERR_INVALID, "a stream needs an open detector; expected one, not NULL");
    to->detector = detector;
    if ((rc = detector_arguments(source, &o.source, sizeof o.source, err)) || (rc = check_source(&o.source, err)))
        return rc;
    return work_thread_run(detector->thread, open_timeline, &o, err);
}

int brr_detector_stream_open(brr_detector *detector, const struct brr_detector_source *source, brr_detector_stream **ret,
                             struct brr_detector_error *err) {
    struct err e = {0};
    brr_detector_stream *s = calloc(1, sizeof *s);
    const int rc = open_stream(detector, source, s, &e);
    if (rc)
        brr_detector_stream_close(s);
    else
        *ret = s;
    return detector_report(rc, &e, err);
}

static int close_timeline(void *context, struct err *err) {
    (void)err;
    timeline_free(((brr_detector_stream *)context)->timeline);
    return 0;
}

void brr_detector_stream_close(brr_detector_stream *stream) {
    if (!stream)
        return;
    if (stream->timeline)
        work_thread_run(stream->detector->thread, close_timeline, stream, NULL);
    free(stream->probabilities.data);
    free(stream->events.data);
    free(stream->channels.data);
    free(stream->texts.data);
    free(stream->alarms.data);
    free(stream->rows.data);
    free(stream->finite);
    free(stream);
}

struct stream_change {
    brr_detector_stream *stream;
    const float *const *uv;
    int64_t n;
    int (*apply)(struct stream_change *c, struct err *err);
};

/* Windows as the network would take them; nothing is computed. */
static int keep_windows(brr_detector_stream *s, struct err *err) {
    const struct modelfile *file = &s->detector->info->file;
    int64_t samples = modelfile_window(file), n = samples * file->model.in_channels;
    OWNED_MEMORY float *x = calloc((size_t)n, sizeof *x);
    OWNED_MEMORY float *p = calloc((size_t)samples, sizeof *p);
    int rc;
    if (!x || !p)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the rows of a stream");
    while (timeline_ready(s->timeline, err) && timeline_take(s->timeline, x))
        if ((rc = pile_add(&s->rows, x, n, sizeof *x, err)) || (rc = timeline_complete(s->timeline, p, err)))
            return rc;
    return timeline_status(s->timeline, err);
}

static int run_windows(brr_detector_stream *s, struct err *err) {
    if (s->gives_rows)
        return keep_windows(s, err);
    int64_t windows = 1;
    int rc = 0;
    while (!rc && windows > 0 && timeline_ready(s->timeline, err))
        rc = detector_run(s->detector->detector, s->detector->stream, &s->timeline, 1, 0, &windows, err);
    return rc ? rc : timeline_status(s->timeline, err);
}

static int push_samples(struct stream_change *c, struct err *err) {
    brr_detector_stream *s = c->stream;
    const float *used[FRONTEND_MAX_LABELS];
    const int *sources = NULL;
    int n_sources = timeline_sources(s->timeline, &sources), rc;
    s->missing = c->n ? 0 : s->missing;
    for (int64_t at = 0, n; at < c->n; at += n) {
        n = c->n - at < PUSH_MOST ? c->n - at : PUSH_MOST;
        for (int i = 0; i < n_sources; i++) {
            float *x = s->finite + (size_t)i * PUSH_MOST;
            memcpy(x, c->uv[sources[i]] + at, (size_t)n * sizeof *x);
            for (int64_t k = 0; k < n; k++)
                (void)quality_hold(&x[k], &s->held[i]);
            used[i] = x;
        }
        if ((rc = timeline_push(s->timeline, used, n, err)) || (rc = run_windows(s, err)))
            return rc;
    }
    return 0;
}

/* A gap costs a probability for each of its samples, so that a wrong year would take all memory. */
static int push_gap(struct stream_change *c, struct err *err) {
    brr_detector_stream *s = c->stream;
    if ((double)s->missing + (double)c->n > 86400 * s->rate_hz)
        return err_set(err, ERR_RANGE, "a gap of %.1f days; expected at most 24 h: open a new stream after it",
                       ((double)s->missing + (double)c->n) / s->rate_hz / 86400);
    s->missing += c->n;
    return timeline_gap(s->timeline, c->n, err);
}

static int push_end(struct stream_change *c, struct err *err) {
    int rc = timeline_finish(c->stream->timeline, err);
    return rc ? rc : run_windows(c->stream, err);
}

static void begin_again(brr_detector_stream *s) {
    if (s->taken)
        s->probabilities.n = s->events.n = s->channels.n = s->texts.n = s->alarms.n = s->rows.n = 0;
}

static int apply_change(void *context, struct err *err) {
    struct stream_change *c = context;
    brr_detector_stream *s = c->stream;
    begin_again(s);
    s->taken = false;
    return c->apply(c, err);
}

static int change_stream(struct stream_change c, struct brr_detector_error *err) {
    struct err e = {0};
    int rc;
    if (!c.stream || (c.apply == push_samples && c.n > 0 && !c.uv))
        rc = err_set(&e, ERR_INVALID, "%s is NULL", c.stream ? "uv" : "the stream");
    else if (c.n < 0)
        rc = err_set(&e, ERR_INVALID, "%lld samples; expected 0 or more", (long long)c.n);
    else
        rc = work_thread_run(c.stream->detector->thread, apply_change, &c, &e);
    return detector_report(rc, &e, err);
}

int brr_detector_push(brr_detector_stream *stream, const float *const *uv, int64_t n, struct brr_detector_error *err) {
    return change_stream((struct stream_change){stream, uv, n, push_samples}, err);
}

int brr_detector_gap(brr_detector_stream *stream, int64_t missing, struct brr_detector_error *err) {
    return change_stream((struct stream_change){stream, NULL, missing, push_gap}, err);
}

int brr_detector_finish(brr_detector_stream *stream, struct brr_detector_error *err) {
    return change_stream((struct stream_change){stream, NULL, 0, push_end}, err);
}

struct taking {
    brr_detector_stream *stream;
    struct brr_detector_results results;
};

static int take_results(void *context, struct err *err) {
    struct taking *t = context;
    brr_detector_stream *s = t->stream;
    const struct modelfile *file = &s->detector->info->file;
    (void)err;
    begin_again(s);
    s->taken = true;
    t->results = (struct brr_detector_results){
        .first = s->first,
        .probabilities = s->probabilities.data,
        .n_probabilities = s->probabilities.n,
        .events = s->events.data,
        .n_events = s->events.n,
        .alarms = s->alarms.data,
        .n_alarms = s->alarms.n,
        .rows = s->rows.data,
        .window = modelfile_window(file),
        .columns = file->model.in_channels,
        .channels = s->texts.data,
    };
    for (int64_t i = 0; i < s->texts.n; i++)
        ((const char **)s->texts.data)[i] = (const char *)s->channels.data + i * SIDE_LIST;
    t->results.n_windows = s->rows.n / (t->results.window * t->results.columns);
    return 0;
}

int brr_detector_take(brr_detector_stream *stream, struct brr_detector_results *ret, struct brr_detector_error *err) {
    struct err e = {0};
    struct taking t = {.stream = stream};
    struct brr_detector_results known;
    int rc = stream ? detector_arguments(ret, &known, sizeof known, &e) : err_set(&e, ERR_INVALID, "the stream is NULL");
    if (rc)
        return detector_report(rc, &e, err);
    work_thread_run(stream->detector->thread, take_results, &t, &e);
    t.results.size = known.size;
    memcpy(ret, &t.results, known.size < sizeof t.results ? known.size : sizeof t.results);
    return 0;
}
