/* The rejecter of events: its features, and what its fit and its search say where there is nothing to fit. What they compute is
 * compared with NumPy by tests/golden/test_rejecter_golden.py. */

#include "score/score_rejecter.h"
#include "unit/cmocka_all.h"

enum { S = 256, SECONDS = 1200, MOST = 4 };
static float p[MOST][SECONDS * S];
static struct err err;

static void features_are_finite_for_every_probability(void **state) {
    (void)state;
    const float all[][2] = {{0, 0}, {1, 1}, {0.25f, 0.75f}};
    const double edge = log(1e-6 / (1 - 1e-6));
    const double want[][2] = {{edge, edge}, {-edge, -edge}, {0, log(3)}};
    for (int i = 0; i < 3; i++) {
        double f[REJECTER_FEATURES];
        rejecter_features(all[i], 2, f);
        assert_true(fabs(f[0] - want[i][0]) < 1e-9 && fabs(f[1] - want[i][1]) < 1e-9 && fabs(f[2] - log(2.0 / S)) < 1e-12);
    }
}

static void a_fit_takes_events_of_both_kinds(void **state) {
    (void)state;
    struct rejecter_event events[6] = {{{0, 0, 0}, true},  {{1, 0, 0}, true},  {{2, 0, 0}, true},
                                       {{3, 0, 0}, false}, {{4, 0, 0}, false}, {{5, 0, 0}, false}};
    struct event_rejecter r = {.on = 0.5, .off = 0.4};
    assert_int_equal(rejecter_fit(events, 6, &r, &err), 0);
    assert_true(r.on == 0.5 && r.weights[0] < -0.1 && r.weights[1] == 0 && r.weights[2] == 0);
    assert_true(rejecter_sum(&r, events[0].features) > 0 && rejecter_sum(&r, events[5].features) < 0);
    assert_int_equal(rejecter_fit(events, 5, &r, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "3 events in seizures and 2 false ones"));
    assert_int_equal(rejecter_fit(events, 0, &r, &err), ERR_PRECONDITION);
}

/* Traces of so many patients, each with seizures of 40 s at 0.95 from 100 s and 600 s, and false events of 4 s at `faint`. */
static int make(struct score_trace *traces, int n, int n_false, float faint) {
    static const struct score_event ref[] = {{100, 140}, {600, 640}};
    static const char *const names[MOST] = {"a", "b", "c", "d"};
    for (int k = 0; k < n; k++) {
        for (int64_t i = 0; i < SECONDS * S; i++) {
            int64_t s = i / S;
            bool inside = (s >= 100 && s < 140) || (s >= 600 && s < 640),
                 other = s >= 750 && s < 750 + n_false * 100 && (s - 750) % 100 < 4;
            p[k][i] = inside ? 0.95f : other ? faint : 0.05f;
        }
        traces[k] = (struct score_trace){
            .name = names[k], .subject = names[k], .p = p[k], .n = SECONDS * S, .duration_s = SECONDS, .ref = ref, .n_ref = 2};
    }
    return n;
}

/* Scores of two pairs, as a sweep has them. */
static void sweep(const struct score_trace *traces, int n, struct score_point points[2]) {
    const double on[2] = {0.97, 0.6}; /* the first finds nothing */
    for (int k = 0; k < 2; k++) {
        struct score_counts sums[SCORE_KINDS] = {{0}};
        struct events_config c;
        events_config_default(&c);
        c.on = points[k].on = on[k];
        c.off = points[k].off = on[k] / 2;
        for (int i = 0; i < n; i++) {
            struct event *events = NULL;
            int64_t count = 0;
            assert_int_equal(events_find(&c, traces[i].p, traces[i].n, &events, &count, &err), 0);
            assert_int_equal(score_apply(&traces[i], events, count, sums, &err), 0);
            free(events);
        }
        for (int kind = 0; kind < SCORE_KINDS; kind++)
            score_from_counts(&sums[kind], &points[k].scores[kind]);
    }
}

static struct score_rejecter search(int patients, int n_false, float faint, double target) {
    struct score_trace traces[MOST];
    struct score_point points[2];
    struct events_config c;
    struct score_rejecter r;
    const struct score_sweep all = {.points = points, .n = 2};
    events_config_default(&c);
    int n = make(traces, patients, n_false, faint);
    sweep(traces, n, points);
    const struct rejecter_search s = {.traces = traces, .n = n, .base = &c, .sweep = &all, .target_fa_per_24h = target};
    assert_int_equal(score_rejecter_begin(&s, &r, &err), 0);
    for (bool done = false; !done;)
        assert_int_equal(score_rejecter_step(&r, &done, &err), 0);
    assert_null(r.progress);
    return r;
}

static void a_rejecter_is_used_where_it_drops_false_events_of_patients_left_out(void **state) {
    (void)state;
    struct score_rejecter r = search(4, 2, 0.7f, 0);
    assert_true(r.used && !*r.why && r.on == 0.6 && r.usual_on == 0.6);
    assert_int_equal(r.seizures, 8);
    assert_int_equal(r.false_events, 8);
    assert_int_equal(r.patients, 4);
    assert_true(r.usual.counts.tp == 8 && r.usual.counts.fp == 8 && r.left_out.counts.tp == 8 && r.left_out.counts.fp == 0);
    assert_true(r.left_out.f1 == 1 && r.left_out.counts.duration_s == 4 * SECONDS);
    double seizure[3], false_event[3];
    rejecter_features(p[0] + 100 * S, 41 * S, seizure);
    rejecter_features(p[0] + 750 * S, 5 * S, false_event);
    assert_true(rejecter_sum(&r.rejecter, seizure) > 0 && rejecter_sum(&r.rejecter, false_event) < 0);
}

static void a_rejecter_that_is_not_used_says_why(void **state) {
    (void)state;
    static const struct {
        int patients, n_false;
        float faint;
        const char *says;
    } cases[] = {{4, 0, 0.7f, "8 events in seizures and 0 false ones; a fit takes at least 3 of each"},
                 {1, 2, 0.7f, "2 events in seizures and 2 false ones; a fit takes at least 3 of each"},
                 {2, 2, 0.7f, "without a 2 events in seizures and 2 false ones; a fit takes at least 3 of each"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct score_rejecter r = search(cases[i].patients, cases[i].n_false, cases[i].faint, 0);
        assert_false(r.used);
        assert_string_equal(r.why, cases[i].says);
        assert_false(rejecter_is_set(&r.rejecter));
    }
}

static void without_a_pair_that_finds_a_seizure_there_is_nothing_to_reject(void **state) {
    (void)state;
    struct score_point points[2] = {{.on = 0.5, .off = 0.5}, {.on = 0.6, .off = 0.6}};
    const struct score_sweep all = {.points = points, .n = 2};
    struct events_config c;
    struct score_rejecter r;
    bool done = false;
    events_config_default(&c);
    const struct score_counts none = {.fn = 3, .ref = 3, .duration_s = 3600};
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < SCORE_KINDS; k++)
            score_from_counts(&none, &points[i].scores[k]);
    assert_int_equal(score_rejecter_begin(&(struct rejecter_search){.base = &c, .sweep = &all}, &r, &err), 0);
    assert_int_equal(score_rejecter_step(&r, &done, &err), 0);
    assert_true(done && !r.used && strstr(r.why, "no pair of thresholds finds a seizure"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(features_are_finite_for_every_probability),
        cmocka_unit_test(a_fit_takes_events_of_both_kinds),
        cmocka_unit_test(a_rejecter_is_used_where_it_drops_false_events_of_patients_left_out),
        cmocka_unit_test(a_rejecter_that_is_not_used_says_why),
        cmocka_unit_test(without_a_pair_that_finds_a_seizure_there_is_nothing_to_reject),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
