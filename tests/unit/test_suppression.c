/* Burst suppression: against a reference that sees the whole recording at once, for any chunks, gaps and snapshots; against closed
 * forms of the recursion; and the rules of runs, channels and windows one by one. */

#include "base/rng.h"
#include "detect/suppression.h"
#include "eeg/half.h"
#include "seed.h"
#include "unit/cmocka_all.h"

enum { RATE = 256, SHORT = 128, MAX_S = 200, MAX_T = MAX_S * RATE, MAX_C = 19, MAX_REPORTS = MAX_S + 2, MAX_SEGMENTS = 1000 };

struct report {
    int64_t sample, observed;
    float ratio, bursts, channel_ratio[MAX_C], channel_bursts[MAX_C];
};
struct segment {
    int64_t first, end;
};
struct result {
    struct report reports[MAX_REPORTS];
    struct segment segments[MAX_SEGMENTS];
    int n_reports, n_segments;
    struct suppression_totals totals;
    int64_t pushed, latest; /* how many samples after its end a report came at most */
};

static uint16_t rows[MAX_T * MAX_C];
static bool has[MAX_T]; /* has data */
static struct result want, got;

/* ---- the reference: labels of the whole recording, then counts ---- */

static uint8_t active[MAX_C + 1][MAX_T], quiet[MAX_C + 1][MAX_T], burst[MAX_C + 1][MAX_T]; /* burst: one begins here */

static void mark_active(int channels, int64_t first, int64_t end) {
    double keep = exp(-1 / (0.1047 * 256));
    for (int c = 0; c < channels; c++) {
        double mean = half_to_f32(rows[first * channels + c]), variance = 0;
        for (int64_t t = first; t < end; t++) {
            double x = half_to_f32(rows[t * channels + c]);
            mean = keep * mean + (1 - keep) * x;
            variance = keep * variance + (1 - keep) * (x - mean) * (x - mean);
            active[c][t] = variance >= 12.5;
        }
    }
    for (int64_t t = first; t < end; t++) {
        int n = 0;
        for (int c = 0; c < channels; c++)
            n += active[c][t];
        active[channels][t] = n >= 0.6 * channels - 1e-9;
    }
}

/* Suppressions of a track, then its bursts: runs of the rest that begin at the end of a suppression. */
static void mark_runs(const uint8_t *a, uint8_t *q, uint8_t *b, int64_t first, int64_t end) {
    for (int64_t t = first, run; t < end; t = run) {
        for (run = t; run < end && a[run] == a[t]; run++)
            ;
        if (!a[t] && run - t >= SHORT)
            memset(q + t, 1, (size_t)(run - t));
    }
    for (int64_t t = first + 1; t < end; t++) {
        int64_t run = t;
        while (run < end && !q[run])
            run++;
        if (q[t - 1] && !q[t]) {
            /* What is quiet at the very end is not known to go on as activity. */
            int64_t certain = run;
            while (run == end && certain > t && !a[certain - 1])
                certain--;
            b[t] = certain - t >= SHORT;
        }
    }
}

static void expect_report(int channels, int64_t sample) {
    struct report *r = &want.reports[want.n_reports++];
    int64_t from = sample > 60 * RATE ? sample - 60 * RATE : 0;
    memset(r, 0, sizeof *r);
    r->sample = sample;
    for (int64_t t = from; t < sample; t++)
        r->observed += has[t];
    for (int k = 0; k <= channels; k++) {
        int64_t suppressed = 0, bursts = 0;
        for (int64_t t = from; t < sample; t++) {
            suppressed += quiet[k][t];
            bursts += burst[k][t];
        }
        *(k < channels ? &r->channel_ratio[k] : &r->ratio) = (float)((double)suppressed / (double)r->observed);
        *(k < channels ? &r->channel_bursts[k] : &r->bursts) = (float)((double)(bursts * 60 * RATE) / (double)r->observed);
    }
}

static void expect(int channels, int64_t samples) {
    memset(&want, 0, sizeof want);
    memset(active, 0, sizeof active);
    memset(quiet, 0, sizeof quiet);
    memset(burst, 0, sizeof burst);
    for (int64_t t = 0, end; t < samples; t = end) {
        for (end = t; end < samples && has[end] == has[t]; end++)
            ;
        if (!has[t])
            continue;
        mark_active(channels, t, end);
        for (int k = 0; k <= channels; k++)
            mark_runs(active[k], quiet[k], burst[k], t, end);
    }
    for (int64_t t = 0; t < samples; t++) {
        want.totals.observed += has[t];
        want.totals.suppressed += quiet[channels][t];
        want.totals.bursts += burst[channels][t];
        bool before = t > 0 && quiet[channels][t - 1] && has[t - 1], now = quiet[channels][t];
        if (now && !before)
            want.segments[want.n_segments++].first = t;
        if (now)
            want.segments[want.n_segments - 1].end = t + 1;
        if ((t + 1) % RATE == 0 && has[t])
            expect_report(channels, t + 1);
    }
}

/* ---- the module ---- */

static int on_report(void *ctx, const struct suppression_report *r, struct err *err) {
    struct result *to = ctx;
    (void)err;
    assert_in_range(to->n_reports, 0, MAX_REPORTS - 1);
    struct report *at = &to->reports[to->n_reports++];
    memset(at, 0, sizeof *at);
    *at = (struct report){.sample = r->sample, .observed = r->observed, .ratio = r->ratio, .bursts = r->bursts_per_minute};
    memcpy(at->channel_ratio, r->channel_ratio, (size_t)r->channels * sizeof(float));
    memcpy(at->channel_bursts, r->channel_bursts, (size_t)r->channels * sizeof(float));
    int64_t late = 0; /* samples with data: no push tells of a gap */
    for (int64_t t = r->sample; t < to->pushed; t++)
        late += has[t];
    to->latest = late > to->latest ? late : to->latest;
    return 0;
}

static int on_segment(void *ctx, int64_t first, int64_t end, struct err *err) {
    struct result *to = ctx;
    (void)err;
    assert_in_range(to->n_segments, 0, MAX_SEGMENTS - 1);
    to->segments[to->n_segments++] = (struct segment){first, end};
    return 0;
}

static const struct suppression_sink sink = {.ctx = &got, .report = on_report, .segment = on_segment};

static struct suppression *restored(struct suppression *s, int channels) {
    struct str state;
    struct err err;
    str_init(&state, 1 << 20);
    suppression_pack(s, &(struct packer){.to = &state}, &err);
    assert_true(str_ok(&state));
    suppression_free(s);
    assert_int_equal(suppression_new(channels, &sink, &s, &err), 0);
    struct packer in = {.from = unpack_of(state.data, state.len)};
    assert_int_equal(suppression_pack(s, &in, &err), 0);
    assert_true(unpack_done(&in.from));
    str_done(&state);
    return s;
}

/* Chunks of up to `chunk` samples; with rng, of random lengths, and saved and restored now and then. */
static void run(int channels, int64_t samples, int64_t chunk, struct rng *rng) {
    struct suppression *s = NULL;
    struct err err;
    memset(&got, 0, sizeof got);
    assert_int_equal(suppression_new(channels, &sink, &s, &err), 0);
    for (int64_t t = 0; t < samples;) {
        int64_t n = 0, most = rng ? 1 + (int64_t)rng_below(rng, (uint64_t)chunk) : chunk;
        while (t + n < samples && n < most && has[t + n] == has[t])
            n++;
        got.pushed = t + n;
        if (has[t])
            assert_int_equal(suppression_push(s, rows + t * channels, n, t, &err), 0);
        if (!rng || rng_below(rng, 4) == 0)
            assert_int_equal(suppression_give(s, rng ? t + n - SUPPRESSION_LATEST : t + n, &err), 0);
        t += n;
        if (rng && rng_below(rng, 8) == 0)
            s = restored(s, channels);
    }
    assert_int_equal(suppression_finish(s, &err), 0);
    assert_int_equal(suppression_give(s, samples, &err), 0);
    suppression_totals(s, &got.totals);
    suppression_free(s);
}

static void compare(const char *what, int channels) {
    if (got.n_reports != want.n_reports || got.n_segments != want.n_segments)
        fail_msg("%s: %d reports and %d suppressions, expected %d and %d", what, got.n_reports, got.n_segments, want.n_reports,
                 want.n_segments);
    for (int i = 0; i < want.n_segments; i++)
        if (got.segments[i].first != want.segments[i].first || got.segments[i].end != want.segments[i].end)
            fail_msg("%s: suppression %d is [%lld, %lld), expected [%lld, %lld)", what, i, (long long)got.segments[i].first,
                     (long long)got.segments[i].end, (long long)want.segments[i].first, (long long)want.segments[i].end);
    for (int i = 0; i < want.n_reports; i++) {
        const struct report *g = &got.reports[i], *w = &want.reports[i];
        if (g->sample != w->sample || g->observed != w->observed || g->ratio != w->ratio || g->bursts != w->bursts)
            fail_msg("%s: report %d at %lld of %lld samples: %g, %g; expected at %lld of %lld: %g, %g", what, i,
                     (long long)g->sample, (long long)g->observed, (double)g->ratio, (double)g->bursts, (long long)w->sample,
                     (long long)w->observed, (double)w->ratio, (double)w->bursts);
        assert_memory_equal(g->channel_ratio, w->channel_ratio, (size_t)channels * sizeof(float));
        assert_memory_equal(g->channel_bursts, w->channel_bursts, (size_t)channels * sizeof(float));
    }
    assert_memory_equal(&got.totals, &want.totals, sizeof want.totals);
}

/* ---- signals ---- */

static void fill(int channels, int64_t first, int64_t end, float uv) {
    for (int64_t t = first; t < end; t++) {
        has[t] = true;
        for (int c = 0; c < channels; c++)
            rows[t * channels + c] = half_from_f32(t % 2 ? uv : -uv);
    }
}

static void clear(void) {
    memset(rows, 0, sizeof rows);
    memset(has, 0, sizeof has);
}

/* Noise whose amplitude changes at random times, around the threshold as often as far from it, with gaps. */
static void draw(struct rng *rng, int channels, int64_t samples) {
    clear();
    for (int64_t t = 0; t < samples;) {
        int64_t n = 1 + (int64_t)rng_below(rng, rng_below(rng, 2) ? 200 : 2500);
        bool data = rng_below(rng, 12) != 0;
        float uv = powf(10, (float)(2.2 * rng_uniform(rng) - 0.3));
        for (int64_t end = t + n < samples ? t + n : samples; t < end; t++) {
            has[t] = data;
            for (int c = 0; c < channels; c++) {
                float own = uv * (0.5f + (float)c / (float)channels);
                rows[t * channels + c] = half_from_f32(data ? own * (float)(2 * rng_uniform(rng) - 1) : 0);
            }
        }
    }
}

static void any_chunks_gaps_and_snapshots_give_what_the_whole_gives(void **state) {
    (void)state;
    static const int counts[] = {1, 2, 5, 19};
    int64_t reports = 0, segments = 0, bursts = 0;
    struct rng rng;
    rng_init(&rng, test_seed(), 31, 0);
    for (int round = 0; round < 12; round++) {
        int channels = counts[round % 4];
        int64_t samples = (100 + (int64_t)rng_below(&rng, MAX_S - 100)) * RATE + (int64_t)rng_below(&rng, RATE);
        samples = samples < MAX_T ? samples : MAX_T;
        char what[96];
        draw(&rng, channels, samples);
        expect(channels, samples);
        reports += want.n_reports;
        segments += want.n_segments;
        bursts += want.totals.bursts;
        static const int64_t chunks[] = {1, 100, 20000};
        for (int i = 0; i < 4; i++) {
            snprintf(what, sizeof what, "round %d, %d channels, chunks %d", round, channels, i);
            run(channels, samples, i < 3 ? chunks[i] : 700, i < 3 ? NULL : &rng);
            compare(what, channels);
            if (i == 0)
                assert_in_range(got.latest, 0, SUPPRESSION_LATEST);
        }
    }
    assert_true(reports > 500 && segments > 40 && bursts > 20);
}

/* Rows with more behind the channels, and reports without them. */
static void the_recording_alone_has_the_reports_of_all(void **state) {
    enum { C = 5, STRIDE = 9, SAMPLES = 90 * RATE + 17 };
    static uint16_t wide[SAMPLES * STRIDE];
    struct suppression_sink alone = sink;
    struct suppression *s = NULL;
    struct rng rng;
    (void)state;
    rng_init(&rng, test_seed(), 32, 0);
    draw(&rng, C, SAMPLES);
    memset(has, 1, sizeof has);
    expect(C, SAMPLES);
    alone.stride = STRIDE;
    alone.whole_only = true;
    memset(&got, 0, sizeof got);
    assert_int_equal(suppression_new(C, &alone, &s, NULL), 0);
    for (int t = 0; t < SAMPLES; t++)
        for (int c = 0; c < STRIDE; c++)
            wide[t * STRIDE + c] = c < C ? rows[t * C + c] : 0x7c00;
    for (int t = 0, n; t < SAMPLES; t += n) {
        n = t % 97 + 1 < SAMPLES - t ? t % 97 + 1 : SAMPLES - t;
        got.pushed = t + n;
        assert_int_equal(suppression_push(s, wide + t * STRIDE, n, t, NULL), 0);
        assert_int_equal(suppression_give(s, t + n, NULL), 0);
    }
    assert_int_equal(suppression_finish(s, NULL), 0);
    assert_int_equal(suppression_give(s, SAMPLES, NULL), 0);
    suppression_totals(s, &got.totals);
    suppression_free(s);
    for (int i = 0; i < want.n_reports; i++) { /* of the channels there are none */
        memset(want.reports[i].channel_ratio, 0, sizeof want.reports[i].channel_ratio);
        memset(want.reports[i].channel_bursts, 0, sizeof want.reports[i].channel_bursts);
    }
    assert_true(want.n_reports > 80);
    compare("the recording alone", C);
}

static void the_constant_is_that_of_the_forgetting_time(void **state) {
    (void)state;
    assert_true(fabs(SUPPRESSION_KEEP - exp(-1 / (SUPPRESSION_FORGET_S * SUPPRESSION_RATE_HZ))) < 1e-15);
    assert_true(fabs(exp(-1 / (SUPPRESSION_FORGET_S * 200)) - 0.9534) < 5e-5); /* as published, at 200 Hz */
}

/* ±40 µV sample by sample for 2 s, then 8 s flat: the variance falls by b a sample from where the burst left it. */
static void a_burst_fades_as_the_closed_form_says(void **state) {
    (void)state;
    clear();
    for (int64_t t = 0; t < 100 * RATE; t += 10 * RATE) {
        fill(1, t, t + 8 * RATE, 0);
        fill(1, t + 8 * RATE, t + 10 * RATE, 40);
    }
    run(1, 100 * RATE, 64, NULL);
    /* The mean of ±A settles at ±A·(1−b)/(1+b), so that x − mean = ±A·2b/(1+b). */
    double b = SUPPRESSION_KEEP, settled = pow(40 * 2 * b / (1 + b), 2);
    int64_t fades = (int64_t)ceil(log(settled / 12.5) / -log(b));
    assert_int_equal(got.n_segments, 10);
    assert_int_equal(got.segments[0].first, 0);
    for (int i = 0; i < 10; i++) {
        if (i)
            assert_in_range(got.segments[i].first - i * 10 * RATE, fades - 3, fades + 3);
        assert_in_range(got.segments[i].end - (i * 10 + 8) * RATE, 0, 2); /* (1−b)·1600 ≥ 12.5 at once */
    }
    const struct report *last = &got.reports[got.n_reports - 1];
    assert_int_equal(last->sample, 100 * RATE);
    assert_int_equal(last->observed, 60 * RATE);
    assert_true(last->bursts == 6);
    assert_true(fabsf(last->ratio - (float)(8 * RATE - fades) / (10 * RATE)) < 5.0f / (10 * RATE));
    assert_int_equal(got.totals.bursts, 10);
}

static void a_flat_line_is_suppressed_and_continuous_activity_is_not(void **state) {
    (void)state;
    for (int on = 0; on < 2; on++) {
        clear();
        fill(3, 0, 70 * RATE, on ? 30 : 1);
        run(3, 70 * RATE, 1000, NULL);
        assert_int_equal(got.n_reports, 70);
        assert_int_equal(got.n_segments, !on);
        for (int i = 0; i < 70; i++) {
            assert_true(got.reports[i].ratio == (on ? 0 : 1) && got.reports[i].bursts == 0);
            assert_int_equal(got.reports[i].observed, (i < 60 ? i + 1 : 60) * RATE);
        }
    }
}

/* Activity of 12 of 19 channels is that of the recording, of 11 it is not. */
static void the_recording_is_active_where_sixty_percent_of_its_channels_are(void **state) {
    (void)state;
    for (int on = 11; on <= 12; on++) {
        clear();
        fill(19, 0, 20 * RATE, 0);
        for (int64_t t = 10 * RATE; t < 20 * RATE; t++)
            for (int c = 0; c < on; c++)
                rows[t * 19 + c] = half_from_f32(t % 2 ? 50 : -50);
        run(19, 20 * RATE, 256, NULL);
        const struct report *last = &got.reports[19];
        assert_true(on == 12 ? last->ratio < 0.51f && last->bursts == 3 : last->ratio == 1 && last->bursts == 0);
        assert_true(last->channel_ratio[0] < 0.51f && last->channel_bursts[0] == 3 && last->channel_ratio[18] == 1);
    }
}

/* Three samples of ±25 µV, at growing distances from a burst, are active for less than half a second. */
static void short_runs_are_neither_suppressions_nor_bursts(void **state) {
    (void)state;
    int discharges = 0;
    for (int64_t pause = 60; pause < 300; pause += 7) {
        clear();
        fill(1, 0, 4 * RATE, 0);
        fill(1, 4 * RATE, 6 * RATE, 40);
        fill(1, 6 * RATE, 6 * RATE + pause, 0);
        fill(1, 6 * RATE + pause, 6 * RATE + pause + 3, 25);
        fill(1, 6 * RATE + pause + 3, 12 * RATE, 0);
        expect(1, 12 * RATE);
        int64_t gap = 0, spike = 0, t = 6 * RATE;
        while (active[0][t])
            t++;
        for (; t < 12 * RATE && !active[0][t]; t++)
            gap++;
        for (; t < 12 * RATE && active[0][t]; t++)
            spike++;
        run(1, 12 * RATE, 50, NULL);
        compare("short runs", 1);
        discharges += spike && spike < SHORT;
        assert_int_equal(got.n_segments, spike && gap >= SHORT ? 3 : 2);
        assert_int_equal(got.totals.bursts, 1); /* the discharge is none */
    }
    assert_true(discharges > 10);
}

static void a_gap_ends_a_suppression_and_no_second_without_data_is_reported(void **state) {
    (void)state;
    clear();
    fill(2, 100, 20 * RATE + 30, 0);
    fill(2, 90 * RATE + 200, 100 * RATE, 0);
    run(2, 100 * RATE, 77, NULL);
    assert_int_equal(got.n_segments, 2);
    assert_int_equal(got.segments[0].first, 100);
    assert_int_equal(got.segments[0].end, 20 * RATE + 30);
    assert_int_equal(got.segments[1].first, 90 * RATE + 200);
    assert_int_equal(got.segments[1].end, 100 * RATE);
    assert_int_equal(got.n_reports, 30); /* 1..20 s and 91..100 s */
    for (int i = 0; i < 30; i++) {
        assert_int_equal(got.reports[i].sample, (i < 20 ? i + 1 : i + 71) * RATE);
        assert_true(got.reports[i].ratio == 1 && got.reports[i].bursts == 0);
    }
    assert_int_equal(got.reports[0].observed, 156);
    assert_int_equal(got.reports[20].observed, 56); /* the first stretch left the window */
}

static void samples_that_go_back_and_wrong_channel_counts_are_refused(void **state) {
    (void)state;
    struct suppression *s = NULL;
    struct err err;
    assert_int_equal(suppression_new(0, &sink, &s, &err), ERR_INVALID);
    assert_int_equal(suppression_new(65, &sink, &s, &err), ERR_INVALID);
    assert_null(s);
    clear();
    fill(1, 0, 300, 1);
    assert_int_equal(suppression_new(1, &sink, &s, &err), 0);
    assert_int_equal(suppression_push(s, rows, 300, 0, &err), 0);
    assert_int_equal(suppression_push(s, rows, 300, 299, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "299"));
    assert_int_equal(suppression_push(s, rows, 300, 300, &err), 0);
    suppression_free(s);
    suppression_free(NULL);
}

static int failing(void *ctx, const struct suppression_report *r, struct err *err) {
    (void)ctx;
    return r->sample == 512 ? err_set(err, ERR_UNAVAILABLE, "the reader went away") : 0;
}

static void the_error_of_a_callback_is_returned(void **state) {
    (void)state;
    struct suppression *s = NULL;
    struct err err;
    const struct suppression_sink fails = {.report = failing};
    clear();
    fill(1, 0, 1024, 0);
    assert_int_equal(suppression_new(1, &fails, &s, &err), 0);
    assert_int_equal(suppression_push(s, rows, 1024, 0, &err), 0);
    assert_int_equal(suppression_give(s, 511, &err), 0);
    assert_int_equal(suppression_give(s, 512, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.message, "the reader went away");
    suppression_free(s);
}

/* Whatever the bytes, a load fails or leaves an object that can be used. */
static void corrupt_snapshots_are_refused_or_harmless(void **state) {
    (void)state;
    struct suppression *s = NULL;
    struct err err;
    struct str saved;
    struct rng rng;
    rng_init(&rng, test_seed(), 32, 0);
    str_init(&saved, 1 << 20);
    draw(&rng, 3, 80 * RATE);
    memset(&got, 0, sizeof got);
    assert_int_equal(suppression_new(3, &sink, &s, &err), 0);
    for (int64_t t = 0; t < 80 * RATE; t++)
        if (has[t])
            assert_int_equal(suppression_push(s, rows + t * 3, 1, t, &err), 0);
    suppression_pack(s, &(struct packer){.to = &saved}, &err);
    suppression_free(s);
    uint8_t *bytes = malloc(saved.len);
    int refused = 0;
    for (int round = 0; round < 4000; round++) {
        size_t len = saved.len;
        memcpy(bytes, saved.data, len);
        if (round % 4 == 0)
            len = rng_below(&rng, len);
        else
            for (uint64_t k = rng_below(&rng, 3); k < 3; k++)
                bytes[rng_below(&rng, len)] = (uint8_t)rng_u32(&rng);
        memset(&got, 0, sizeof got);
        assert_int_equal(suppression_new(round % 5 ? 3 : 4, &sink, &s, &err), 0);
        struct packer in = {.from = unpack_of(bytes, len)};
        assert_int_equal(suppression_pack(s, &in, &err), 0);
        if (in.from.failed)
            refused++;
        else if (!suppression_push(s, rows, 2 * RATE, INT64_C(1) << 40, &err) && !suppression_finish(s, &err) && round % 3)
            assert_int_equal(suppression_give(s, (INT64_C(1) << 40) - 1, &err), 0);
        suppression_free(s);
    }
    assert_true(refused > 1500);
    free(bytes);
    str_done(&saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_chunks_gaps_and_snapshots_give_what_the_whole_gives),
        cmocka_unit_test(the_recording_alone_has_the_reports_of_all),
        cmocka_unit_test(the_constant_is_that_of_the_forgetting_time),
        cmocka_unit_test(a_burst_fades_as_the_closed_form_says),
        cmocka_unit_test(a_flat_line_is_suppressed_and_continuous_activity_is_not),
        cmocka_unit_test(the_recording_is_active_where_sixty_percent_of_its_channels_are),
        cmocka_unit_test(short_runs_are_neither_suppressions_nor_bursts),
        cmocka_unit_test(a_gap_ends_a_suppression_and_no_second_without_data_is_reported),
        cmocka_unit_test(samples_that_go_back_and_wrong_channel_counts_are_refused),
        cmocka_unit_test(the_error_of_a_callback_is_returned),
        cmocka_unit_test(corrupt_snapshots_are_refused_or_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
