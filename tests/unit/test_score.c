/* Scores against cases worked by hand. tests/golden/test_score_golden.py compares random annotations with a second implementation.
 */

#include "unit/cmocka_all.h"

#include "base/rng.h"
#include "score/score.h"
#include "score/score_alarms.h"
#include "score/score_sweep.h"
#include "seed.h"

enum { MAX = 8 };
struct pair {
    double duration_s;
    struct score_event ref[MAX], hyp[MAX];
};

static int count_of(const struct score_event *e) {
    int n = 0;
    while (n < MAX && (e[n].onset_s != 0 || e[n].end_s != 0))
        n++;
    return n;
}

/* Lists end at the first {0, 0}. */
static void score_pair(const struct pair *p, struct score_counts ret[SCORE_KINDS]) {
    struct score_recording rec = {"case", "s", p->duration_s, p->ref, p->hyp, count_of(p->ref), count_of(p->hyp), NULL, 0, NULL, 0};
    assert_int_equal(score_recording(&rec, ret, NULL), 0);
}

static void check(enum score_kind kind, const struct pair *p, double tp, double fp, double ref) {
    struct score_counts c[SCORE_KINDS];
    score_pair(p, c);
    if (fabs(c[kind].tp - tp) > 1e-6 || fabs(c[kind].fp - fp) > 1e-6 || c[kind].ref != ref)
        fail_msg("%s: tp %.7g fp %.7g ref %g, expected %.7g %.7g %g", score_kind_name(kind), c[kind].tp, c[kind].fp, c[kind].ref,
                 tp, fp, ref);
    assert_true(fabs(c[kind].tp + c[kind].fn - ref) < 1e-9);
}

static void szcore_tolerates_30_s_before_and_60_s_after(void **state) {
    (void)state;
    check(SCORE_EVENT, &(struct pair){1000, {{100, 130}}, {{75, 80}}}, 1, 0, 1);
    check(SCORE_EVENT, &(struct pair){1000, {{100, 130}}, {{60, 70}}}, 0, 1, 1);
    check(SCORE_EVENT, &(struct pair){1000, {{100, 130}}, {{60, 71}}}, 1, 0, 1);
    check(SCORE_EVENT, &(struct pair){1000, {{100, 130}}, {{189, 220}}}, 1, 0, 1);
    check(SCORE_EVENT, &(struct pair){1000, {{100, 130}}, {{190, 220}}}, 0, 1, 1);
}

static void szcore_merges_gaps_below_90_s(void **state) {
    (void)state;
    check(SCORE_EVENT, &(struct pair){4000, {{100, 110}, {199, 210}}, {{0, 0}}}, 0, 0, 1);
    check(SCORE_EVENT, &(struct pair){4000, {{100, 110}, {200, 210}}, {{0, 0}}}, 0, 0, 2);
    check(SCORE_EVENT, &(struct pair){4000, {{0, 0}}, {{100, 110}, {199, 210}, {299, 301}}}, 0, 1, 0);
    check(SCORE_EVENT, &(struct pair){4000, {{0, 0}}, {{100, 110}, {199, 210}, {300, 301}}}, 0, 2, 0);
}

static void szcore_splits_above_300_s_and_a_long_false_alarm_counts_as_several(void **state) {
    (void)state;
    check(SCORE_EVENT, &(struct pair){4000, {{100, 800}}, {{0, 0}}}, 0, 0, 3);
    check(SCORE_EVENT, &(struct pair){4000, {{100, 400}}, {{0, 0}}}, 0, 0, 1);
    check(SCORE_EVENT, &(struct pair){4000, {{0, 0}}, {{100, 1101}}}, 0, 4, 0);
    /* The seizure's window ends at 1190: the pieces 1000..1300 touch it, 1300..1600 and 1600..1700 do not. */
    check(SCORE_EVENT, &(struct pair){4000, {{1100, 1130}}, {{1000, 1700}}}, 1, 2, 1);
}

static void szcore_truncates_to_whole_seconds(void **state) {
    (void)state;
    check(SCORE_SAMPLE, &(struct pair){100, {{10.2, 10.9}}, {{20.9, 21.1}}}, 0, 1, 0);
    check(SCORE_EVENT, &(struct pair){100, {{10.2, 10.9}}, {{0, 0}}}, 0, 0, 0);
    check(SCORE_SAMPLE, &(struct pair){100.9, {{98.5, 100.9}}, {{99.99, 100.9}}}, 1, 0, 2);
    struct score_counts c[SCORE_KINDS];
    score_pair(&(struct pair){100.9, {{0, 0}}, {{0, 0}}}, c);
    assert_true(c[SCORE_EVENT].duration_s == 100 && c[SCORE_TAES].duration_s == 100.9);
}

static void sample_scores_count_seconds(void **state) {
    (void)state;
    check(SCORE_SAMPLE, &(struct pair){1000, {{100, 130}}, {{120, 150}}}, 10, 20, 30);
}

static void f1_is_zero_for_a_missed_seizure_and_undefined_only_without_anything(void **state) {
    (void)state;
    struct score s;
    score_from_counts(&(struct score_counts){.fn = 1, .ref = 1, .duration_s = 3600}, &s);
    assert_true(s.f1 == 0 && s.sensitivity == 0 && isnan(s.precision) && s.false_alarms_per_24h == 0);
    score_from_counts(&(struct score_counts){.fp = 2, .duration_s = 3600}, &s);
    assert_true(s.f1 == 0 && isnan(s.sensitivity) && s.precision == 0 && s.false_alarms_per_24h == 48);
    score_from_counts(&(struct score_counts){.duration_s = 3600}, &s);
    assert_true(isnan(s.f1));
    score_from_counts(&(struct score_counts){.tp = 3, .fp = 1, .fn = 1, .ref = 4, .duration_s = 86400}, &s);
    assert_true(s.f1 == 0.75 && s.precision == 0.75 && s.sensitivity == 0.75 && s.false_alarms_per_24h == 1);
}

static void any_overlap_has_no_tolerance(void **state) {
    (void)state;
    check(SCORE_ANY_OVERLAP, &(struct pair){1000, {{100, 130}}, {{90, 100}}}, 0, 1, 1);
    check(SCORE_ANY_OVERLAP, &(struct pair){1000, {{100, 130}}, {{90, 100.01}}}, 1, 0, 1);
    check(SCORE_ANY_OVERLAP, &(struct pair){1000, {{100, 130}, {140, 150}}, {{90, 200}}}, 2, 0, 2);
    check(SCORE_ANY_OVERLAP, &(struct pair){1000, {{100, 200}}, {{110, 120}, {130, 140}, {300, 310}}}, 1, 1, 1);
    check(SCORE_ANY_OVERLAP, &(struct pair){1000, {{300, 310}, {100, 110}}, {{305, 306}, {20, 30}}}, 1, 1, 2); /* any order */
}

static void taes_counts_shares(void **state) {
    (void)state;
    check(SCORE_TAES, &(struct pair){1000, {{100, 150}}, {{95, 155}}}, 1, 0.2, 1);
    check(SCORE_TAES, &(struct pair){1000, {{100, 150}}, {{110, 120}}}, 0.2, 0, 1);
    check(SCORE_TAES, &(struct pair){1000, {{100, 150}}, {{140, 400}}}, 0.2, 1, 1);
    check(SCORE_TAES, &(struct pair){1000, {{100, 200}}, {{110, 130}, {150, 210}}}, 0.7, 0.1, 1);
    /* A long hypothesis: the second reference is missed, and spent for the hypothesis after it. */
    check(SCORE_TAES, &(struct pair){1000, {{100, 110}, {120, 130}}, {{100, 130}}}, 1, 1, 2);
    check(SCORE_TAES, &(struct pair){1000, {{100, 110}, {120, 130}}, {{100, 125}, {126, 135}}}, 1, 2, 2);
    /* The first hypothesis ends inside the first reference; the second starts there and reaches into the next one, which stays free
     * for a third. */
    check(SCORE_TAES, &(struct pair){1000, {{100, 200}, {210, 220}}, {{110, 120}, {150, 215}, {216, 220}}}, 0.1 + 0.5 + 0.4, 0.15,
          2);
    /* Two short annotations of 30 and 60 minutes with a false alarm each. */
    check(SCORE_TAES,
          &(struct pair){
              1800, {{42.2786, 81.776}, {234.5, 267.89}, {1234, 1289.45}}, {{40, 85}, {235, 265}, {1235.5, 1290}, {1500, 1510}}},
          1 + 30 / 33.39 + 53.95 / 55.45, 5.5026 / 39.4974 + 0.55 / 55.45 + 1, 3);
    check(SCORE_TAES, &(struct pair){3600, {{100, 150}, {500, 600}}, {{95, 155}, {502, 598}, {3000, 3010}}}, 1.96, 1.2, 2);
}

static void events_that_make_no_sense_are_refused(void **state) {
    (void)state;
    const struct score_event bad[] = {{10, 5}, {NAN, 5}, {1, INFINITY}};
    struct score_counts c[SCORE_KINDS];
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        struct score_recording rec = {"file.edf", "s", 100, bad + i, NULL, 1, 0, NULL, 0, NULL, 0};
        assert_int_equal(score_recording(&rec, c, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "file.edf: reference event 1"));
    }
    struct score_recording rec = {"file.edf", "s", 0, NULL, NULL, 0, 0, NULL, 0, NULL, 0};
    assert_int_equal(score_recording(&rec, c, &err), ERR_INVALID);
}

static void unsure_time_is_masked(void **state) {
    (void)state;
    const struct score_event ref[] = {{100, 130}}, unsure[] = {{120, 220}, {600, 660}};
    const struct score_event hyp[] = {{105, 125}, {610, 620}, {650, 700}, {1000, 1010}};
    struct score_recording rec = {"a", "a", 3600, ref, hyp, 1, 4, unsure, 2, NULL, 0};
    struct score_counts c[SCORE_KINDS];
    assert_int_equal(score_recording(&rec, c, NULL), 0);
    assert_true(c[SCORE_EVENT].tp == 1 && c[SCORE_EVENT].fp == 1 && c[SCORE_EVENT].ref == 1);
    assert_true(c[SCORE_ANY_OVERLAP].tp == 1 && c[SCORE_ANY_OVERLAP].fp == 1);
    assert_true(c[SCORE_SAMPLE].tp == 20 && c[SCORE_SAMPLE].fp == 10 && c[SCORE_SAMPLE].fn == 10);
    assert_true(c[SCORE_SAMPLE].duration_s == 3600 - 90 - 60 && c[SCORE_TAES].duration_s == 3600 - 90 - 60);
    const double at[] = {125, 615, 1000};
    const struct score_alarms alarms = {"a", 3600, ref, at, 1, 3, unsure, 2};
    struct score_alarm_report r;
    assert_int_equal(score_alarms(&alarms, 1, &r, NULL), 0);
    assert_true(r.alarmed == 1 && r.false_alarms == 1);
    score_alarm_report_done(&r);
}

static void gaps_count_in_no_hours(void **state) {
    (void)state;
    const struct score_event ref[] = {{100, 130}, {890, 910}}, unsure[] = {{1000, 2000}};
    const struct score_event hyp[] = {{105, 125}, {940, 950}, {86000, 86010}}, gaps[] = {{900, 86400}};
    struct score_recording rec = {"a", "a", 90000, ref, hyp, 2, 3, unsure, 1, gaps, 1};
    struct score_counts c[SCORE_KINDS];
    assert_int_equal(score_recording(&rec, c, NULL), 0);
    for (int k = 0; k < SCORE_KINDS; k++)
        assert_true(c[k].duration_s == 900 + 3600);
    assert_true(c[SCORE_EVENT].tp == 2 && c[SCORE_EVENT].fp == 1 && c[SCORE_EVENT].ref == 2); /* counts are those of the span */
    assert_true(c[SCORE_SAMPLE].tp == 20 && c[SCORE_SAMPLE].fp == 0 && c[SCORE_SAMPLE].fn == 20);
    rec.n_gaps = 0;
    assert_int_equal(score_recording(&rec, c, NULL), 0);
    assert_true(c[SCORE_EVENT].duration_s == 89000 && c[SCORE_EVENT].fp == 1);
    assert_true(score_recorded_s(90000, gaps, 1) == 4500);
}

static void subjects_are_averaged_and_recordings_pooled(void **state) {
    (void)state;
    const struct score_event seizure[] = {{100, 130}}, two[] = {{100, 130}, {600, 630}}, wrong[] = {{600, 630}};
    const struct score_recording recs[] = {
        {"a1", "a", 3600, seizure, seizure, 1, 1, NULL, 0, NULL, 0}, /* a: 2 of 3 found, no false alarm */
        {"b1", "b", 7200, seizure, wrong, 1, 1, NULL, 0, NULL, 0},   /* b: nothing found, one false alarm */
        {"a2", "a", 3600, two, seizure, 2, 1, NULL, 0, NULL, 0},
        {"c1", "c", 3600, NULL, NULL, 0, 0, NULL, 0, NULL, 0}, /* c: undefined but for its false alarms */
    };
    struct score_report r;
    assert_int_equal(score_all(recs, 4, &r, NULL), 0);
    assert_int_equal(r.n_subjects, 3);
    const struct score *p = &r.pooled[SCORE_EVENT], *m = &r.subject_mean[SCORE_EVENT];
    assert_true(p->counts.tp == 2 && p->counts.fp == 1 && p->counts.ref == 4 && p->counts.duration_s == 18000);
    assert_true(p->sensitivity == 0.5 && fabs(p->false_alarms_per_24h - 4.8) < 1e-12);
    assert_true(fabs(m->sensitivity - (2.0 / 3 + 0) / 2) < 1e-12);
    assert_true(fabs(m->f1 - (0.8 + 0) / 2) < 1e-12);
    assert_true(fabs(m->precision - 0.5) < 1e-12);
    assert_true(fabs(m->false_alarms_per_24h - (0 + 12 + 0) / 3.0) < 1e-12);
    score_report_done(&r);
}

static void auroc_equals_counting_pairs(void **state) {
    (void)state;
    enum { N = 600 };
    static struct auroc a;
    float p[N];
    uint8_t label[N];
    struct rng rng;
    rng_init(&rng, 7, RNG_SYNTH, 0);
    double wins = 0, pairs = 0;
    for (int i = 0; i < N; i++) {
        label[i] = rng_uniform(&rng) < 0.3;
        p[i] = (float)floor(fmin(255, 150 * rng_uniform(&rng) + 60 * label[i])) / 256; /* many ties */
    }
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++)
            if (label[i] && !label[k]) {
                wins += p[i] > p[k] ? 1 : p[i] == p[k] ? 0.5 : 0;
                pairs++;
            }
    assert_true(isnan(auroc_value(&a)));
    for (int i = 0; i < N; i++)
        auroc_add_run(&a, p[i], label[i], 1);
    assert_true(fabs(auroc_value(&a) - wins / pairs) < 1e-12);
}

struct ranked {
    float p;
    uint8_t label;
};

static int by_p(const void *a, const void *b) {
    const float x = ((const struct ranked *)a)->p, y = ((const struct ranked *)b)->p;
    return (x > y) - (x < y);
}

/* By ranks: ties count half. */
static double auroc_of_ranks(struct ranked *s, int n) {
    double positives = 0, negatives = 0, wins = 0;
    qsort(s, (size_t)n, sizeof *s, by_p);
    for (int i = 0, end; i < n; i = end) {
        double tied[2] = {0};
        for (end = i; end < n && s[end].p == s[i].p; end++)
            tied[s[end].label]++;
        wins += tied[1] * (negatives + tied[0] / 2);
        positives += tied[1];
        negatives += tied[0];
    }
    return wins / (positives * negatives);
}

static void auroc_is_that_of_ranks_wherever_the_probabilities_lie(void **state) {
    (void)state;
    enum { N = 200000, CASES = 5 };
    static struct auroc a[CASES];
    struct ranked *s = malloc(N * sizeof *s);
    struct rng rng;
    assert_non_null(s);
    rng_init(&rng, test_seed(), RNG_SYNTH, 0);
    for (int c = 0; c < CASES; c++) {
        for (int i = 0; i < N; i++) {
            const uint8_t label = rng_uniform(&rng) < 0.02;
            const double u = rng_uniform(&rng) + 0.3 * label;
            const float p[CASES] = {(float)(1 / (1 + exp(6 - 9 * u))), /* a network: most of it near 0 */
                                    (float)(1e-6 * pow(u / 1.3, 4)),   /* all below 1e-6 */
                                    1 - (float)(1e-3 * (1 - u / 1.3)), /* all above .999 */
                                    i % 7   ? (float)u / 1.3F
                                    : i % 2 ? 0.0F
                                            : 1.0F,             /* the ends too */
                                    (float)((int)(3 * u)) / 4}; /* a few values, with ties among all of them */
            s[i] = (struct ranked){p[c], label};
            auroc_add_run(&a[c], p[c], label, 1);
        }
        const double want = auroc_of_ranks(s, N), most = auroc_error_most(&a[c]);
        assert_true(fabs(auroc_value(&a[c]) - want) <= (c < 3 ? 1e-5 : most));
        assert_true(fabs(auroc_value(&a[c]) - want) <= most + 1e-12);
        assert_true(c != 4 || most <= 0); /* equal probabilities are no error */
        if (c < 3)
            assert_true(most <= 3e-4);
    }
    free(s);
}

/* An hour with seizures at 600 and 2400 s, each a plateau of its own height, and false plateaus. */
enum { HOUR = 3600 * 256 };
static void plateau(float *p, int first_s, int end_s, float value) {
    for (int64_t i = first_s * 256; i < (int64_t)end_s * 256; i++)
        p[i] = value;
}

static const struct score_event two_seizures[] = {{600, 660}, {2400, 2460}};

static float *make_trace(void) {
    float *p = malloc(HOUR * sizeof *p);
    plateau(p, 0, 3600, 0.30f);
    plateau(p, 600, 660, 0.44f);
    plateau(p, 2400, 2460, 0.40f);
    plateau(p, 1200, 1210, 0.42f); /* a false alarm better than the second seizure */
    plateau(p, 1800, 1810, 0.36f);
    plateau(p, 3000, 3010, 0.36f);
    return p;
}

/* One pair of thresholds alone. */
static struct score try_at(const struct score_trace *trace, const struct events_config *base, double threshold) {
    struct events_config config = *base;
    struct score_counts sums[SCORE_KINDS] = {{0}};
    struct score score;
    struct event *events = NULL;
    int64_t n = 0;
    config.on = config.off = threshold;
    assert_int_equal(events_find(&config, trace->p, trace->n, &events, &n, NULL), 0);
    assert_int_equal(score_apply(trace, events, n, sums, NULL), 0);
    score_from_counts(&sums[SCORE_EVENT], &score);
    free(events);
    return score;
}

static void sweep_all(const struct score_trace *traces, int n, const struct score_search *search, struct score_sweep *ret) {
    bool done = false;
    assert_int_equal(score_sweep_begin(traces, n, search, ret, NULL), 0);
    while (!done)
        assert_int_equal(score_sweep_step(ret, &done, NULL), 0);
}

static void sweep_applies_every_threshold(void **state) {
    (void)state;
    float *p = make_trace();
    struct score_trace trace = {"r", "s", p, HOUR, 3600, two_seizures, 2, NULL, 0, NULL, 0, NULL, 0};
    struct events_config base;
    struct score_search search;
    struct score_sweep s;
    events_config_default(&base);
    score_search_default(&search, &base);
    assert_true(try_at(&trace, &base, 0.43).counts.tp == 1 && try_at(&trace, &base, 0.43).counts.fp == 0);
    assert_true(try_at(&trace, &base, 0.39).counts.tp == 2 && try_at(&trace, &base, 0.39).counts.fp == 1);
    assert_true(try_at(&trace, &base, 0.35).counts.tp == 2 && try_at(&trace, &base, 0.35).counts.fp == 3);
    sweep_all(&trace, 1, &search, &s);
    for (int i = 0; i < 32 && s.points[i].off == s.points[i].on; i++) {
        struct score alone = try_at(&trace, &base, s.points[i].on);
        assert_memory_equal(&alone, &s.points[i].scores[SCORE_EVENT], sizeof alone);
    }
    assert_true(s.n > 5 && s.n <= 5 * 32);
    for (int i = 0; i < SCORE_LIMITS; i++) /* one false alarm in an hour is 24 a day: only the first seizure keeps the limits */
        assert_true(s.sensitivity_at[i] == 0.5);
    const struct score_point *best = &s.points[score_sweep_best(&s, 0)];
    assert_true(fabs(best->scores[SCORE_EVENT].f1 - 0.8) < 1e-12); /* both and one false alarm, 4/5; the first alone gives 2/3 */
    assert_true(best->on > 0.36 && best->on <= 0.40 + 1e-4);
    assert_true(score_sweep_best(&s, 10) == score_sweep_best(&s, 0)); /* an hour cannot tell 10 in 24 h from one false alarm */
    for (int i = 0; i < s.n; i++)                                     /* six such hours can */
        for (int k = 0; k < SCORE_KINDS; k++) {
            struct score *score = &s.points[i].scores[k];
            score->counts.duration_s *= 6;
            score->counts.fp *= 6;
        }
    best = &s.points[score_sweep_best(&s, 10)];
    assert_true(best->on > 0.42 && best->scores[SCORE_EVENT].counts.tp == 1);
    score_sweep_done(&s);
    free(p);
}

static const float *segments_p;
static int loads;

static int give_segments(void *ctx, int i, const float **ret_p, struct err *err) {
    (void)ctx, (void)err;
    assert_int_equal(i, 0);
    loads++;
    *ret_p = segments_p;
    return 0;
}

/* The segments alone, one NaN between two, give what the whole of file time gives. */
static void gaps_take_no_samples(void **state) {
    (void)state;
    static const struct score_span segments[] = {{256, 1000 * 256}, {1100 * 256, 2000 * 256}, {2500 * 256, 3500 * 256}};
    float *p = malloc(HOUR * sizeof *p), *whole = make_trace();
    int64_t n = 0;
    for (int s = 0; s < 3; n += segments[s].end - segments[s].first, s++) {
        if (s)
            p[n++] = NAN;
        memcpy(p + n, whole + segments[s].first, (size_t)(segments[s].end - segments[s].first) * sizeof *p);
        for (int64_t i = s ? segments[s - 1].end : 0; i < segments[s].first; i++)
            whole[i] = NAN;
    }
    for (int64_t i = segments[2].end; i < HOUR; i++)
        whole[i] = NAN;
    assert_int_equal(score_trace_length(segments, 3), n);
    struct score_trace spread = {"r", "s", whole, HOUR, 3600, two_seizures, 2, NULL, 0, NULL, 0, NULL, 0};
    struct score_trace dense = {"r", "s", NULL, n, 3600, two_seizures, 2, segments, 3, NULL, 0, NULL, 0};
    struct events_config base;
    struct score_search search;
    struct score_sweep want, got;
    events_config_default(&base);
    score_search_default(&search, &base);
    sweep_all(&spread, 1, &search, &want);
    segments_p = p;
    search.load = give_segments;
    sweep_all(&dense, 1, &search, &got);
    assert_true(loads >= 2 && want.n == got.n && want.n > 3);
    assert_memory_equal(want.points, got.points, (size_t)want.n * sizeof *want.points);
    struct event events[] = {{.first = 0, .end = 1},
                             {.first = segments[0].end - 257, .end = segments[0].end - 256},
                             {.first = segments[0].end - 255, .end = segments[0].end}};
    score_trace_to_time(&dense, events, 3);
    assert_true(events[0].first == 256 && events[1].end == segments[0].end && events[2].first == segments[1].first);
    score_sweep_done(&want);
    score_sweep_done(&got);
    free(p);
    free(whole);
}

static void the_best_point_is_found_even_from_compressed_probabilities(void **state) {
    (void)state;
    float *p = make_trace();
    plateau(p, 1200, 1210, 0.30f);
    for (int64_t i = 0; i < HOUR; i++)
        p[i] = 0.2f + (p[i] - 0.3f) * 0.05f; /* everything between 0.200 and 0.207 */
    struct score_trace trace = {"r", "s", p, HOUR, 3600, two_seizures, 2, NULL, 0, NULL, 0, NULL, 0};
    struct events_config base;
    struct score_search search;
    struct score_sweep s;
    events_config_default(&base);
    base.closing = 33;
    score_search_default(&search, &base);
    sweep_all(&trace, 1, &search, &s);
    const struct score_point *best = &s.points[score_sweep_best(&s, 0)];
    assert_true(best->scores[SCORE_EVENT].f1 == 1);
    assert_true(best->on > 0.203 && best->on <= 0.2051 && best->off <= best->on);
    score_sweep_done(&s);
    trace.n_ref = 0;
    sweep_all(&trace, 1, &search, &s);
    assert_int_equal(score_sweep_best(&s, 0), -1);
    score_sweep_done(&s);
    free(p);
}

/* Recordings of several lengths, one of a single sample and one longer than a call tries all pairs on. */
static void points_sum_over_the_recordings(void **state) {
    (void)state;
    float *p = make_trace();
    struct score_trace traces[] = {{"a", "s", p, HOUR, 3600, two_seizures, 2, NULL, 0, NULL, 0, NULL, 0},
                                   {"b", "s", p, 1, 1.0 / 256, NULL, 0, NULL, 0, NULL, 0, NULL, 0},
                                   {"c", "t", p, HOUR / 4, 900, two_seizures, 1, NULL, 0, NULL, 0, NULL, 0}};
    struct events_config base;
    struct score_search search;
    struct score_sweep s;
    events_config_default(&base);
    score_search_default(&search, &base);
    sweep_all(traces, 3, &search, &s);
    for (int i = 0; i < s.n && s.points[i].off == s.points[i].on; i++) {
        double tp = 0, fp = 0;
        for (int k = 0; k < 3; k++) {
            tp += try_at(&traces[k], &base, s.points[i].on).counts.tp;
            fp += try_at(&traces[k], &base, s.points[i].on).counts.fp;
        }
        assert_true(s.points[i].scores[SCORE_EVENT].counts.tp == tp && s.points[i].scores[SCORE_EVENT].counts.fp == fp);
        assert_true(s.points[i].scores[SCORE_EVENT].counts.ref == 3);
    }
    score_sweep_done(&s);
    free(p);
}

/* Points with these event F1 (sample F1 0.5 unless given) at on = 0.15, 0.35, 0.55, 0.75, 0.95; ratios one after another. */
static int best_of(const double *event, const double *sample, const double *false_alarms, int n, int64_t references, double limit) {
    struct score_point points[20] = {{0}};
    struct score_sweep s = {.points = points, .n = n};
    for (int i = 0; i < n; i++) {
        points[i].on = 0.2 * (i % 5) + 0.15;
        points[i].scores[SCORE_EVENT] = (struct score){
            .f1 = event[i], .counts = {.fp = false_alarms ? false_alarms[i] : 0, .ref = (double)references, .duration_s = 86400}};
        points[i].scores[SCORE_SAMPLE].f1 = sample ? sample[i] : 0.5;
    }
    return score_sweep_best(&s, limit);
}

static void of_thresholds_that_are_as_good_but_for_chance_the_middle_is_taken(void **state) {
    (void)state;
    assert_int_equal(best_of((double[]){0.95, 0.90, 0.86, 0.6, 0.2}, NULL, NULL, 5, 10, 0), 1);
    assert_int_equal(best_of((double[]){0.95, 0.90, 0.86, 0.6, 0.2}, NULL, NULL, 5, 40, 0), 1); /* more seizures, less chance */
    assert_int_equal(best_of((double[]){0.95, 0.90, 0.86, 0.6, 0.2}, NULL, NULL, 5, 4000, 0), 0);
    assert_int_equal(best_of((double[]){0.2, 0.2, 0.2, 0.6, 0.9}, NULL, NULL, 5, 10, 0), 4);
    assert_int_equal(best_of((double[]){0.9, 0.9, 0.9, 0.2, 0.2}, (double[]){0.7, 0.7, 0.4, 0.3, 0.3}, NULL, 5, 10, 0), 1);
    assert_int_equal(best_of((double[]){0.9, 0.9, 0.9, 0.9, 0.2}, (double[]){0.9, 0.89, 0.881, 0.75, 0.3}, NULL, 5, 10, 0), 1);
    assert_int_equal(best_of((double[]){0.9, 0.9, 0.9, 0.9, 0.2}, (double[]){0.9, 0.87, 0.87, 0.75, 0.3}, NULL, 5, 10, 0), 0);
    assert_int_equal(best_of((double[]){0.2, 0.3, 0.9, 0.3, 0.2, 0.2, 0.3, 0.9, 0.3, 0.2},
                             (double[]){0.5, 0.5, 0.50, 0.5, 0.5, 0.5, 0.5, 0.55, 0.5, 0.5}, NULL, 10, 10, 0),
                     7); /* of equal ones that which covers the seizures best */
    assert_int_equal(best_of((double[]){0.9, 0.9, 0.9, 0.6, 0.6}, NULL, (double[]){9, 9, 9, 1, 1}, 5, 10, 2), 4);
    assert_int_equal(best_of((double[]){0.9, 0.9, 0.9, 0.6, 0.6}, NULL, (double[]){9, 9, 3, 1, 1}, 5, 10, 2.1), 2);
    assert_int_equal(best_of((double[]){0.9, 0.9, 0.9, 0, 0}, NULL, (double[]){9, 9, 9, 1, 1}, 5, 10, 2), 1); /* none within */
    assert_int_equal(best_of((double[]){0, 0, NAN, 0, 0}, NULL, NULL, 5, 10, 0), -1);
}

static void gaps_are_no_candidates_and_no_events(void **state) {
    (void)state;
    float *p = make_trace();
    plateau(p, 600, 660, NAN);
    struct score_trace trace = {"r", "s", p, HOUR, 3600, two_seizures, 2, NULL, 0, NULL, 0, NULL, 0};
    struct events_config base;
    double on[16];
    int n = 0;
    events_config_default(&base);
    assert_int_equal(score_candidates(&trace, 1, &(struct score_search){.candidates = 16}, on, &n, NULL), 0);
    for (int i = 0; i < n; i++)
        assert_true(on[i] < 0.43 && (!i || on[i] > on[i - 1]));
    assert_true(try_at(&trace, &base, 0.39).counts.tp == 1 && try_at(&trace, &base, 0.39).counts.ref == 2);
    plateau(p, 0, 3600, NAN);
    assert_int_equal(score_candidates(&trace, 1, &(struct score_search){.candidates = 16}, on, &n, NULL), 0);
    assert_int_equal(n, 0);
    free(p);
}

static void alarms_have_a_delay_and_their_own_false_alarms(void **state) {
    (void)state;
    const struct score_event ref[] = {{100, 160}, {1000, 1060}, {2000, 2030}, {3000, 3030}};
    const double at[] = {75, 110, 500, 1010, 1050, 2090};
    const struct score_alarms recs[] = {{"a", 3600, ref, at, 4, 6, NULL, 0}, {"b", 82800, NULL, at, 0, 2, NULL, 0}};
    struct score_alarm_report r;
    assert_int_equal(score_alarms(recs, 2, &r, NULL), 0);
    assert_true(r.references == 4 && r.alarmed == 3 && r.alarms == 8 && r.false_alarms == 3);
    assert_true(r.hours == 24 && r.false_alarms_per_24h == 3 && r.sensitivity == 0.75);
    assert_int_equal(r.n_delays, 3);
    assert_true(r.delay_p50_s == 10); /* 10, 10, 90: the alarm 25 s before the first onset is not counted */
    assert_true(fabs(r.delay_p95_s - (10 + 0.9 * 80)) < 1e-9);
    score_alarm_report_done(&r);
    assert_int_equal(score_alarms(recs + 1, 1, &r, NULL), 0);
    assert_true(isnan(r.delay_p50_s) && isnan(r.sensitivity));
    score_alarm_report_done(&r);
    const struct score_alarms early = {"c", 3600, ref, at, 1, 1, NULL, 0};
    assert_int_equal(score_alarms(&early, 1, &r, NULL), 0);
    assert_true(r.alarmed == 1 && r.n_delays == 0 && isnan(r.delay_p50_s));
    score_alarm_report_done(&r);
}

static void events_have_an_onset_error(void **state) {
    (void)state;
    const struct score_event ref[] = {{100, 160}, {1000, 1060}, {2000, 2030}}, late = {110, 120};
    /* 4 s late and 6 s early (the earliest of three events counts); an event that only touches the third seizure finds nothing */
    const struct score_event hyp[] = {{104, 130}, {1020, 1030}, {994, 1010}, {1040, 1050}, {1990, 2000}};
    const struct score_recording recs[] = {{"a1", "a", 3600, ref, hyp, 3, 5, NULL, 0, NULL, 0},
                                           {"b1", "b", 3600, ref, &late, 1, 1, NULL, 0, NULL, 0}};
    struct score_report r;
    assert_int_equal(score_all(recs, 2, &r, NULL), 0);
    assert_int_equal(r.onsets.n, 3);
    assert_true(r.onsets.p50_s == 6 && fabs(r.onsets.p90_s - (6 + 0.8 * 4)) < 1e-9);
    score_report_done(&r);
    assert_int_equal(score_all(&(struct score_recording){"d", "d", 60, NULL, NULL, 0, 0, NULL, 0, NULL, 0}, 1, &r, NULL), 0);
    assert_true(r.onsets.n == 0 && isnan(r.onsets.p50_s));
    score_report_done(&r);
}

static struct json *parsed(struct str *text) {
    struct json *root = NULL;
    struct err err = {0};
    if (json_parse(str_cstr(text), text->len, "scores", &root, &err))
        fail_msg("%s in %s", err.message, str_cstr(text));
    str_done(text);
    return root;
}

static double value_at(const struct json *j, const char *a, const char *b, const char *c) {
    return json_f64(json_get(json_get(json_get(j, a), b), c), -1);
}

static void a_report_says_definition_hours_and_every_score(void **state) {
    (void)state;
    const struct score_event seizure[] = {{100, 130}}, wrong[] = {{600, 630}};
    const struct score_recording recs[] = {{"a1", "a", 3600, seizure, seizure, 1, 1, NULL, 0, NULL, 0},
                                           {"b1", "b", 7200, seizure, wrong, 1, 1, NULL, 0, NULL, 0}};
    struct score_report r;
    struct str text;
    struct json_writer w;
    assert_int_equal(score_all(recs, 2, &r, NULL), 0);
    str_init(&text, 1 << 16);
    json_writer_init(&w, &text);
    score_report_json(&r, &w);
    struct json *j = parsed(&text);
    assert_string_equal(json_str(json_get(j, "definition"), ""), SCORE_DEFINITION);
    assert_true(json_f64(json_get(j, "hours"), 0) == 3);
    assert_true(json_i64(json_get(json_get(j, "onset_error"), "seizures"), 0) == 1);
    assert_true(json_f64(json_get(json_get(j, "onset_error"), "p90_s"), -1) == 0);
    static const char *const kinds[] = {"event", "sample", "any_overlap", "taes"};
    for (int k = 0; k < SCORE_KINDS; k++) {
        assert_string_equal(score_kind_name((enum score_kind)k), kinds[k]);
        assert_true(value_at(j, "pooled", kinds[k], "sensitivity") == r.pooled[k].sensitivity);
        assert_true(value_at(j, "pooled", kinds[k], "fp") == r.pooled[k].counts.fp);
        assert_true(value_at(j, "subject_mean", kinds[k], "f1") == r.subject_mean[k].f1);
        assert_true(value_at(json_get(j, "per_subject"), "a", kinds[k], "f1") == 1);
        assert_true(value_at(json_get(j, "per_subject"), "b", kinds[k], "tp") == 0);
    }
    json_free(j);
    score_report_done(&r);
}

static void a_sweep_is_written_with_all_its_points(void **state) {
    (void)state;
    float *p = make_trace();
    struct score_trace traces[] = {{"empty", "s", NULL, 0, 10, NULL, 0, NULL, 0, NULL, 0, NULL, 0},
                                   {"r", "s", p, HOUR, 3600, two_seizures, 2, NULL, 0, NULL, 0, NULL, 0}};
    struct events_config base;
    struct score_search search;
    struct score_sweep s;
    struct str text;
    struct json_writer w;
    bool done = false;
    events_config_default(&base);
    score_search_default(&search, &base);
    sweep_all(traces, 2, &search, &s);
    assert_int_equal(score_sweep_step(&s, &done, NULL), 0); /* when all is tried there is nothing to do */
    assert_true(done);
    str_init(&text, 1 << 20);
    json_writer_init(&w, &text);
    json_begin_object(&w, NULL);
    score_sweep_json(&s, &w, "sweep");
    json_end(&w, '}');
    struct json *root = parsed(&text);
    const struct json *j = json_get(root, "sweep"), *points = json_get(j, "points");
    assert_true(json_f64(json_get(json_get(j, "sensitivity_at_fa_per_24h"), "2.5"), -1) == 0.5);
    assert_int_equal(json_count(points), s.n);
    for (int i = 0; i < s.n; i++) {
        const struct json *point = json_at(points, (size_t)i);
        const struct score *e = &s.points[i].scores[SCORE_EVENT];
        assert_true(json_f64(json_get(point, "on"), -1) == s.points[i].on);
        assert_true(json_f64(json_get(point, "off"), -1) == s.points[i].off);
        assert_true(json_f64(json_get(point, "sensitivity"), -1) == e->sensitivity);
        assert_true(json_f64(json_get(point, "false_alarms_per_24h"), -1) == e->false_alarms_per_24h);
    }
    json_free(root);
    score_sweep_done(&s);
    free(p);
}

static void sweeps_out_of_their_limits_are_errors(void **state) {
    (void)state;
    struct events_config base;
    struct score_search search;
    struct score_sweep s = {0};
    struct err err = {0};
    double on[SCORE_MAX_CANDIDATES + 1];
    int n = -1;
    events_config_default(&base);
    const int counts[] = {-1, 1, SCORE_MAX_CANDIDATES + 1};
    for (int i = 0; i < 3; i++) {
        score_search_default(&search, &base);
        search.candidates = counts[i];
        assert_int_equal(score_candidates(NULL, 0, &(struct score_search){.candidates = counts[i]}, on, &n, &err), ERR_INVALID);
        assert_int_equal(score_sweep_begin(NULL, 0, &search, &s, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "expected 2 to 64"));
    }
    const int ratios[] = {0, SCORE_MAX_RATIOS + 1};
    for (int i = 0; i < 2; i++) {
        score_search_default(&search, &base);
        search.n_off_ratios = ratios[i];
        assert_int_equal(score_sweep_begin(NULL, 0, &search, &s, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, "expected 1 to 8"));
    }
    assert_int_equal(n, -1);
    assert_int_equal(score_sweep_best(&s, 0), -1);
}

static void alarms_are_written_with_their_delays(void **state) {
    (void)state;
    const struct score_event ref[] = {{100, 160}, {1000, 1060}};
    const double at[] = {110, 500};
    const struct score_alarms rec = {"a", 43200, ref, at, 2, 2, NULL, 0};
    struct score_alarm_report r;
    struct str text;
    struct json_writer w;
    assert_int_equal(score_alarms(&rec, 1, &r, NULL), 0);
    str_init(&text, 1 << 16);
    json_writer_init(&w, &text);
    json_begin_object(&w, NULL);
    score_alarm_report_json(&r, &w, "alarms");
    json_end(&w, '}');
    struct json *root = parsed(&text);
    static const struct {
        const char *key;
        double want;
    } values[] = {{"references", 2},           {"alarmed", 1},      {"alarms", 2},
                  {"false_alarms", 1},         {"hours", 12},       {"sensitivity", 0.5},
                  {"false_alarms_per_24h", 2}, {"delay_p50_s", 10}, {"delay_p95_s", 10}};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        assert_true(json_f64(json_get(json_get(root, "alarms"), values[i].key), -1) == values[i].want);
    json_free(root);
    score_alarm_report_done(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(szcore_tolerates_30_s_before_and_60_s_after),
        cmocka_unit_test(szcore_merges_gaps_below_90_s),
        cmocka_unit_test(szcore_splits_above_300_s_and_a_long_false_alarm_counts_as_several),
        cmocka_unit_test(szcore_truncates_to_whole_seconds),
        cmocka_unit_test(sample_scores_count_seconds),
        cmocka_unit_test(f1_is_zero_for_a_missed_seizure_and_undefined_only_without_anything),
        cmocka_unit_test(any_overlap_has_no_tolerance),
        cmocka_unit_test(taes_counts_shares),
        cmocka_unit_test(events_that_make_no_sense_are_refused),
        cmocka_unit_test(unsure_time_is_masked),
        cmocka_unit_test(gaps_count_in_no_hours),
        cmocka_unit_test(subjects_are_averaged_and_recordings_pooled),
        cmocka_unit_test(auroc_equals_counting_pairs),
        cmocka_unit_test(auroc_is_that_of_ranks_wherever_the_probabilities_lie),
        cmocka_unit_test(sweep_applies_every_threshold),
        cmocka_unit_test(gaps_take_no_samples),
        cmocka_unit_test(the_best_point_is_found_even_from_compressed_probabilities),
        cmocka_unit_test(points_sum_over_the_recordings),
        cmocka_unit_test(of_thresholds_that_are_as_good_but_for_chance_the_middle_is_taken),
        cmocka_unit_test(gaps_are_no_candidates_and_no_events),
        cmocka_unit_test(alarms_have_a_delay_and_their_own_false_alarms),
        cmocka_unit_test(events_have_an_onset_error),
        cmocka_unit_test(a_report_says_definition_hours_and_every_score),
        cmocka_unit_test(a_sweep_is_written_with_all_its_points),
        cmocka_unit_test(sweeps_out_of_their_limits_are_errors),
        cmocka_unit_test(alarms_are_written_with_their_delays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
