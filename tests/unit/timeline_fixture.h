/* What the tests of timelines share: sources, what their traces must be, computed all at once from the same filtered samples, and
 * the streams that are compared with them. The network is a fixed function of the window; test_detector.c runs a real one. */
#pragma once

#include "base/base.h"
#include "detect/detector.h"
#include "detect/timeline.h"
#include "eeg/half.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"
#include "windows/recording.h"

enum { C = 3, MAX_COLUMNS = 3 * C, MAX_INPUTS = 2 * C, MAX_T = 40000, MAX_SEGMENTS = 8, MAX_ITEMS = 4096, MAX_WINDOW = 1040 };

static const char *const labels[] = {"EEG Fp1-REF", "EEG F3-REF", "EEG C3-REF"};

/* What a source does: push n samples, or (negative) miss some. Lengths are in samples of the source. */
struct source {
    double rate;
    int64_t steps[12];
};
/* A tail that is no multiple of anything; a gap of 1 s that is held; one of 10 s that ends the segment; a segment shorter than a
 * window; one of exactly a window. */
static const struct source at_256 = {256, {5003, -256, 2000, -2560, 700, -1000, 1024, -3000, 3333}};
static const struct source at_200 = {200, {4001, -150, 1500, -2000, 300, -900, 2777}};

struct truth {
    bool held[MAX_T];
    uint16_t rows[MAX_T * MAX_COLUMNS];
    struct window_span segments[MAX_SEGMENTS];
    int n_segments;
    int64_t end;
};

struct alarm {
    bool on;
    int64_t sample, known;
    enum alarm_reason reason;
};

/* A report of burst suppression, and the sample up to which probabilities were given out before it. */
struct suppressed {
    int64_t sample, observed, after;
    float ratio, bursts, channel[2 * C];
};

struct result {
    struct suppressed suppressed[MAX_ITEMS];
    int64_t n_suppressed;
    float record[MAX_T], provisional[MAX_T], judged[MAX_T];
    struct event events[MAX_ITEMS];
    struct alarm alarms[MAX_ITEMS];
    int64_t record_end, n_events, n_alarms, windows, n_deaf;
    int64_t fail_after; /* >0: the probabilities callback fails from this sample on */
};

static struct truth truth;
static struct result want, got;
static struct modelfile file;

static inline int columns(void) { return frontend_columns(file.frontend.normalize, C); }
static inline const uint16_t *row_of(int64_t sample) { return truth.rows + sample * columns(); }

static inline void make_window(int64_t from, int64_t valid, int64_t window, bool left, float *x) {
    if (columns() > C)
        window_cut(row_of(from), valid, (struct window_columns){columns(), file.model.in_channels}, window, left, x);
    else
        window_normalise(row_of(from), valid, C, window, left, x);
}

static inline struct frontend_source source_of(const struct source *s) { return (struct frontend_source){labels, C, s->rate}; }

static inline int collect_rows(void *ctx, const uint16_t *rows, int64_t n, int64_t first, bool segment_start, bool held,
                               struct err *err) {
    struct truth *t = ctx;
    (void)err;
    assert_true(first + n <= MAX_T);
    memset(t->held + first, held, (size_t)n);
    if (segment_start)
        t->segments[t->n_segments++] = (struct window_span){first, first};
    assert_int_equal(first, t->segments[t->n_segments - 1].end);
    t->segments[t->n_segments - 1].end = t->end = first + n;
    memcpy(t->rows + first * columns(), rows, (size_t)(n * columns()) * sizeof *rows);
    return 0;
}

/* So many channels are disconnected for these samples of the source. */
static int n_dead;
static int64_t dead_first, dead_end;

/* n source samples from `at` on: suppressed for half of the time. */
static inline void make_chunk(int64_t at, int64_t n, double rate, float *buffer, const float **uv) {
    for (int c = 0; c < C; c++) {
        uv[c] = buffer + c * n;
        for (int64_t i = 0; i < n; i++)
            buffer[c * n + i] = (float)fixture_sample(c, at + i, rate) * (fmod((double)(at + i) / rate, 5) < 2.5 ? 0.01f : 1);
        for (int64_t i = 0; c < n_dead && i < n; i++)
            if (at + i >= dead_first && at + i < dead_end)
                buffer[c * n + i] = 0;
    }
}

static float chunk_buffer[C * 20000];

static inline void make_truth(const struct source *s) {
    struct frontend *f = NULL;
    struct frontend_source source = source_of(s);
    const float *uv[C];
    memset(&truth, 0, sizeof truth);
    assert_int_equal(frontend_new(&file.frontend, &source, collect_rows, &truth, &f, NULL, NULL), 0);
    int64_t at = 0;
    for (int i = 0; s->steps[i]; i++)
        if (s->steps[i] > 0) {
            make_chunk(at, s->steps[i], s->rate, chunk_buffer, uv);
            assert_int_equal(frontend_push(f, uv, s->steps[i], NULL), 0);
            at += s->steps[i];
        } else {
            assert_int_equal(frontend_gap(f, -s->steps[i], NULL), 0);
        }
    assert_int_equal(frontend_finish(f, NULL), 0);
    frontend_free(f);
}

/* In place of the network: every probability depends on its place in the window and on all of it. */
static inline void probabilities(const float *x, int64_t window, float *p) {
    float sum = 0;
    int64_t n = file.model.in_channels;
    for (int64_t i = 0; i < window * n; i++)
        sum += x[i] * (float)(1 + i % 5);
    for (int64_t i = 0; i < window; i++)
        p[i] = 0.5f + 0.5f * sinf(0.02f * sum + x[i * n] + 0.5f * x[(window - 1 - i) * n + 2] + 0.002f * (float)i);
}

static inline void expect_record(void) {
    static int64_t starts[MAX_ITEMS];
    static float x[MAX_WINDOW * MAX_INPUTS], p[MAX_WINDOW];
    static int count[MAX_T];
    int64_t n = window_grid(truth.segments, truth.n_segments, file.model.window, file.hop, starts);
    memset(count, 0, sizeof count);
    memset(want.record, 0, sizeof want.record);
    for (int64_t k = 0; k < n; k++) {
        int64_t valid = window_valid(truth.segments, truth.n_segments, starts[k], file.model.window);
        make_window(starts[k], valid, file.model.window, false, x);
        probabilities(x, file.model.window, p);
        for (int64_t i = 0; i < valid; i++) {
            want.record[starts[k] + i] += p[i];
            count[starts[k] + i]++;
        }
    }
    for (int64_t i = 0; i < truth.end; i++)
        want.record[i] = count[i] ? want.record[i] / (float)count[i] : NAN;
    want.record_end = truth.end;
    want.windows = n;
}

/* Most of the C channels are flat or clipped in the newest second of the segment that is over at `end`. */
static inline bool is_deaf(int64_t first, int64_t end) {
    int bad = 0;
    int64_t second = first + ((end - first) / 256 - 1) * 256;
    for (int c = 0; second >= first && c < C; c++) {
        float lowest = INFINITY, highest = -INFINITY;
        int beyond = 0;
        for (int64_t i = second; i < second + 256; i++) {
            float x = half_to_f32(row_of(i)[c]);
            lowest = fminf(lowest, x);
            highest = fmaxf(highest, x);
            beyond += fabsf(x) > 2000;
        }
        bad += highest - lowest < 0.5f || beyond > 2;
    }
    return bad >= 2;
}

static inline void expect_alarms(int64_t alarm_hop) {
    static float x[MAX_WINDOW * MAX_INPUTS], p[MAX_WINDOW];
    int64_t window = file.model.window;
    for (int64_t i = 0; i < MAX_T; i++)
        want.provisional[i] = want.judged[i] = NAN;
    want.n_alarms = want.n_deaf = 0;
    for (int s = 0; alarm_hop && s < truth.n_segments; s++) {
        struct alarm_rule rule = {.run = 0};
        alarm_config_of_events(&file.events, &rule.config);
        int64_t first = truth.segments[s].first, last = truth.segments[s].end;
        for (int64_t end = first + alarm_hop; end <= last; end += alarm_hop) {
            int64_t valid = end - first < window ? end - first : window;
            make_window(end - valid, valid, window, true, x);
            probabilities(x, window, p);
            memcpy(want.provisional + end - alarm_hop, p + window - alarm_hop, (size_t)alarm_hop * sizeof *p);
            bool enough = valid == window || valid >= 30 * 256;
            bool deaf = is_deaf(first, end);
            want.n_deaf += deaf;
            for (int64_t i = end - alarm_hop; enough && i < end; i++) {
                want.judged[i] = deaf ? 0 : want.provisional[i];
                int change = alarm_rule_push(&rule, want.judged[i]);
                if (change)
                    want.alarms[want.n_alarms++] = (struct alarm){.on = change > 0, .sample = i, .known = end};
            }
            bool shared = end >= first + window && (end - window - first) % file.hop == 0;
            want.windows += !shared;
        }
        if (rule.active)
            want.alarms[want.n_alarms++] = (struct alarm){.on = false, .sample = last, .known = last};
    }
}

static inline int on_suppression(void *ctx, const struct suppression_report *report, struct err *err) {
    struct result *r = ctx;
    (void)err;
    assert_int_equal(report->channels, C);
    struct suppressed *at = &r->suppressed[r->n_suppressed++];
    memset(at, 0, sizeof *at);
    *at = (struct suppressed){.sample = report->sample,
                              .observed = report->observed,
                              .after = r->record_end,
                              .ratio = report->ratio,
                              .bursts = report->bursts_per_minute};
    memcpy(at->channel, report->channel_ratio, C * sizeof(float));
    memcpy(at->channel + C, report->channel_bursts, C * sizeof(float));
    return 0;
}

/* Where the probabilities stand when burst suppression at a sample is given out. */
static inline int64_t given_after(int64_t sample) {
    const struct window_span *seg = truth.segments;
    while (seg->end < sample)
        seg++;
    for (int64_t at = seg->first; at + file.model.window <= seg->end; at += file.hop)
        if (at + file.hop - SUPPRESSION_LATEST >= sample)
            return at + file.hop;
    return seg->end;
}

static inline int expect_report(void *ctx, const struct suppression_report *report, struct err *err) {
    struct result *r = ctx;
    r->record_end = given_after(report->sample);
    return on_suppression(ctx, report, err);
}

/* The detector over the same samples, one by one, without those that are held. */
static inline void expect_suppression(void) {
    const struct suppression_sink sink = {.ctx = &want, .report = expect_report};
    struct suppression *s = NULL;
    struct err err;
    int64_t record_end = want.record_end;
    want.n_suppressed = 0;
    assert_int_equal(suppression_new(C, &sink, &s, &err), 0);
    for (int i = 0; i < truth.n_segments; i++)
        for (int64_t t = truth.segments[i].first; t < truth.segments[i].end; t++)
            if (!truth.held[t])
                assert_int_equal(suppression_push(s, row_of(t), 1, t, &err), 0);
    assert_int_equal(suppression_finish(s, &err), 0);
    assert_int_equal(suppression_give(s, truth.end, &err), 0);
    suppression_free(s);
    want.record_end = record_end;
}

static inline void expect(const struct source *s, int64_t alarm_hop) {
    struct event *events = NULL;
    make_truth(s);
    expect_record();
    expect_alarms(alarm_hop);
    expect_suppression();
    assert_int_equal(events_find(&file.events, want.record, want.record_end, &events, &want.n_events, NULL), 0);
    assert_true(want.n_events < MAX_ITEMS);
    memcpy(want.events, events, (size_t)want.n_events * sizeof *events);
    free(events);
}

static inline int on_probabilities(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct result *r = ctx;
    assert_int_equal(first, r->record_end);
    if (r->fail_after && first >= r->fail_after)
        return err_set(err, ERR_UNAVAILABLE, "the reader went away");
    memcpy(r->record + first, p, (size_t)n * sizeof *p);
    r->record_end = first + n;
    return 0;
}

static inline int on_event(void *ctx, const struct event *event, struct err *err) {
    struct result *r = ctx;
    (void)err;
    assert_true(event->end <= r->record_end); /* never before its probabilities */
    r->events[r->n_events++] = *event;
    return 0;
}

static inline int on_alarm(void *ctx, const struct timeline_alarm *alarm, struct err *err) {
    struct result *r = ctx;
    (void)err;
    r->alarms[r->n_alarms++] = (struct alarm){alarm->on, alarm->sample, alarm->known, alarm->reason};
    return 0;
}

static inline int on_provisional(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct result *r = ctx;
    (void)err;
    memcpy(r->provisional + first, p, (size_t)n * sizeof *p);
    return 0;
}

static inline int on_judged(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct result *r = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        r->judged[first + i] = p ? p[i] : 0;
    return 0;
}

static inline void clear(struct result *r) {
    r->record_end = r->n_events = r->n_alarms = r->windows = r->fail_after = r->n_suppressed = 0;
    for (int64_t i = 0; i < MAX_T; i++)
        r->provisional[i] = r->judged[i] = NAN;
}

static inline struct timeline_sink sink_of(struct result *r) {
    return (struct timeline_sink){.ctx = r,
                                  .probabilities = on_probabilities,
                                  .event = on_event,
                                  .alarm = on_alarm,
                                  .provisional = on_provisional,
                                  .judged = on_judged,
                                  .suppression = on_suppression};
}

/* Run waiting windows, up to `batch` taken before the first is completed. Returns how many ran. */
static inline int64_t run_batch(struct timeline *t, int batch) {
    static float x[MAX_WINDOW * MAX_INPUTS], p[16][MAX_WINDOW];
    int taken = 0;
    while (taken < batch && timeline_take(t, x))
        probabilities(x, file.model.window, p[taken++]);
    for (int i = 0; i < taken; i++)
        if (timeline_complete(t, p[i], NULL))
            return i;
    return taken;
}

static inline void drain(struct timeline *t, int batch) {
    while (run_batch(t, batch) > 0)
        ;
}

static inline struct detector *make_detector(struct device **ret_device) {
    struct detector *d = NULL;
    assert_int_equal(device_open("cpu", 1, ret_device, NULL), 0);
    assert_int_equal(detector_wrap(*ret_device, NULL, &file, 1, &d, NULL), 0);
    return d;
}

/* A wide enough push when the queue is full: run some and send the same again. */
static inline void push(struct timeline *t, const float *const *uv, int64_t n, int batch) {
    struct err err;
    int rc;
    while ((rc = timeline_push(t, uv, n, &err)) == ERR_EXHAUSTED)
        assert_true(run_batch(t, batch) > 0);
    assert_int_equal(rc, 0);
}

/* Saves t, frees it, and loads the state into a new timeline, as another process would. */
static inline struct timeline *restored(struct timeline *t, const struct detector *d, const struct source *s, int64_t alarm_hop) {
    struct timeline_options options = {.alarm_hop = alarm_hop};
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(s);
    struct str state;
    struct err err = {0};
    str_init(&state, 16 << 20);
    assert_int_equal(timeline_save(t, &state, &err), 0);
    timeline_free(t);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    struct unpack in = unpack_of(state.data, state.len);
    if (timeline_load(t, &in, &err))
        fail_msg("%s", err.message);
    assert_true(unpack_done(&in));
    str_done(&state);
    return t;
}

/* >0: after every so many pushes the timeline is saved and restored. */
static int restore_every;

/* lazy: windows are run only when the queue is full and at the end. */
static inline void stream(const struct source *s, int64_t alarm_hop, int64_t chunk, int batch, bool lazy) {
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = alarm_hop};
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(s);
    const float *uv[C];
    clear(&got);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    int64_t at = 0;
    int pushes = 0;
    for (int i = 0; s->steps[i]; i++) {
        if (s->steps[i] < 0) {
            if (lazy)
                drain(t, batch);
            assert_int_equal(timeline_gap(t, -s->steps[i], NULL), 0);
        }
        for (int64_t done = 0; done < s->steps[i];) {
            int64_t n = s->steps[i] - done < chunk ? s->steps[i] - done : chunk;
            make_chunk(at, n, s->rate, chunk_buffer, uv);
            push(t, uv, n, batch);
            if (!lazy)
                drain(t, batch);
            done += n;
            at += n;
            if (restore_every && ++pushes % restore_every == 0)
                t = restored(t, d, s, alarm_hop);
        }
    }
    if (lazy)
        drain(t, batch);
    assert_int_equal(timeline_finish(t, NULL), 0);
    if (restore_every)
        t = restored(t, d, s, alarm_hop);
    drain(t, batch);
    assert_true(timeline_done(t));
    assert_int_equal(timeline_status(t, NULL), 0);
    assert_int_equal(timeline_samples(t), truth.end);
    got.windows = timeline_windows(t);
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

static inline void compare(const char *what) {
    if (got.record_end != want.record_end || memcmp(got.record, want.record, (size_t)want.record_end * sizeof(float)) != 0) {
        int64_t i = 0;
        while (i < want.record_end && !memcmp(&got.record[i], &want.record[i], sizeof(float)))
            i++;
        fail_msg("%s: record trace of %lld samples, expected %lld; differs from sample %lld: %.9g, expected %.9g", what,
                 (long long)got.record_end, (long long)want.record_end, (long long)i, (double)got.record[i],
                 (double)want.record[i]);
    }
    for (int64_t i = 0; i < truth.end; i++)
        if (memcmp(&got.provisional[i], &want.provisional[i], sizeof(float)) != 0)
            fail_msg("%s: alarm trace differs from sample %lld", what, (long long)i);
    for (int64_t i = 0; i < truth.end; i++)
        if (memcmp(&got.judged[i], &want.judged[i], sizeof(float)) != 0)
            fail_msg("%s: what the alarm rule takes differs from sample %lld", what, (long long)i);
    assert_int_equal(got.n_events, want.n_events);
    for (int64_t i = 0; i < want.n_events; i++)
        assert_true(got.events[i].first == want.events[i].first && got.events[i].end == want.events[i].end &&
                    got.events[i].confidence == want.events[i].confidence);
    assert_int_equal(got.n_alarms, want.n_alarms);
    for (int64_t i = 0; i < want.n_alarms; i++)
        assert_true(got.alarms[i].on == want.alarms[i].on && got.alarms[i].sample == want.alarms[i].sample &&
                    got.alarms[i].known == want.alarms[i].known);
    assert_int_equal(got.n_suppressed, want.n_suppressed);
    for (int64_t i = 0; i < want.n_suppressed; i++)
        if (memcmp(&got.suppressed[i], &want.suppressed[i], sizeof want.suppressed[i]) != 0)
            fail_msg("%s: burst suppression at sample %lld after %lld: %g, expected at %lld after %lld: %g", what,
                     (long long)got.suppressed[i].sample, (long long)got.suppressed[i].after, (double)got.suppressed[i].ratio,
                     (long long)want.suppressed[i].sample, (long long)want.suppressed[i].after, (double)want.suppressed[i].ratio);
    if (got.windows != want.windows)
        fail_msg("%s: %lld windows were run, expected %lld", what, (long long)got.windows, (long long)want.windows);
}

static inline int set_up(int normalize) {
    memset(&file, 0, sizeof file);
    n_dead = 0;
    assert_int_equal(seizure_preset(SEIZURE_TYPE_UNET, "tiny", frontend_inputs(normalize, C), &file.model, NULL), 0);
    file.model.window = 1024;
    file.hop = 256;
    struct frontend_config frontend = {"custom:Fp1,F3,C3",          50,   {0.5, 120}, 2,     normalize,
                                       FRONTEND_REFERENCE_RECORDED, NULL, NULL,       false, false};
    assert_int_equal(modelfile_set_frontend(&file, &frontend, NULL), 0);
    file.events = (struct events_config){.on = 0.6,
                                         .off = 0.5,
                                         .min_onset = 3,
                                         .min_offset = 4,
                                         .opening = 3,
                                         .closing = 5,
                                         .min_duration_s = 0.02,
                                         .max_duration_s = 1,
                                         .merge_gap_s = 0.02,
                                         .percentile = 0.75};
    return 0;
}

static inline int setup(void **state) {
    (void)state;
    return set_up(FRONTEND_WINDOW);
}

static inline int setup_causal(void **state) {
    (void)state;
    return set_up(FRONTEND_CAUSAL);
}

static inline int setup_envelope(void **state) {
    (void)state;
    return set_up(FRONTEND_ENVELOPE);
}

static inline int setup_feature(void **state) {
    (void)state;
    return set_up(FRONTEND_LINE_LENGTH);
}

/* Alarms that stay on, and a time in which two of three electrodes are off. */
static inline int setup_dead(void **state) {
    (void)state;
    dead_first = 1000;
    dead_end = 3600;
    int rc = set_up(FRONTEND_ENVELOPE);
    n_dead = 2;
    file.events.alarm_latch_s = 0.25;
    return rc;
}

/* A timeline in the middle of a stream with waiting windows, and its state. */
static inline struct timeline *half_way(const struct detector *d, struct str *state) {
    struct timeline_options options = {.alarm_hop = 64};
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(&at_200);
    struct timeline *t = NULL;
    const float *uv[C];
    clear(&got);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    make_chunk(0, 1800, 200, chunk_buffer, uv);
    push(t, uv, 1800, 5);
    run_batch(t, 7);
    str_init(state, 16 << 20);
    assert_int_equal(timeline_save(t, state, NULL), 0);
    return t;
}
