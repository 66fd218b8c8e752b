#include "client/brrctl/lsl/lsl_timeline.h"
#include "unit/cmocka_all.h"

enum { RATE = 256 };

/* n samples with true stamps from start_s on, shifted by off_s; they arrive when they are due, in chunks of 8. Returns missing
 * samples that were declared, -1 = none was, and adds held and late ones. */
static int64_t feed(struct lsl_timeline *t, int64_t n, double start_s, double off_s) {
    int64_t declared = 0, gap;
    for (int64_t i = 0; i < n; i++) {
        double at_s = start_s + (double)i / RATE;
        lsl_timeline_add(t, at_s + off_s, start_s + (double)(i | 7) / RATE, &gap);
        declared += gap;
    }
    return declared;
}

static void samples_of_a_steady_sender_follow_each_other(void **state) {
    (void)state;
    struct lsl_timeline t;
    lsl_timeline_init(&t, RATE);
    assert_int_equal(feed(&t, 100000, 1000, 0), 0);
    assert_true(t.position == 100000 && !t.held && !t.gaps && !t.late);
    assert_true(fabs(lsl_timeline_rate(&t) - RATE) < 1e-6);
}

static void jitter_below_half_a_second_is_no_gap(void **state) {
    (void)state;
    struct lsl_timeline t;
    lsl_timeline_init(&t, RATE);
    assert_int_equal(feed(&t, 1000, 0, 0), 0);
    for (int k = 0; k < 20; k++) { /* a sender that was held up stamps 100 samples late, then it has caught up */
        assert_int_equal(feed(&t, 100, 1000.0 / RATE + k * 2.0, 0.4), 0);
        assert_int_equal(feed(&t, 412, 1000.0 / RATE + k * 2.0 + 100.0 / RATE, 0), 0);
    }
    assert_true(t.position == 1000 + 20 * 512 && !t.gaps);
}

static void missing_samples_become_a_gap_of_their_length(void **state) {
    (void)state;
    static const int64_t lost[] = {100, 300, 5000};
    for (int k = 0; k < 3; k++) {
        struct lsl_timeline t;
        lsl_timeline_init(&t, RATE);
        feed(&t, 1000, 0, 0);
        int64_t gap = feed(&t, 1000, (double)(1000 + lost[k]) / RATE, 0);
        assert_int_equal(gap, lost[k]);
        assert_true(t.position == 2000 + lost[k] && t.gaps == 1 && t.gap_samples == lost[k]);
    }
}

/* Four seconds of samples, then two without, again and again: never ten seconds between two gaps. */
static void the_rate_of_the_stamps_is_measured_over_gaps(void **state) {
    (void)state;
    static const double rate_hz = 256.5;
    struct lsl_timeline t;
    int64_t gap;
    lsl_timeline_init(&t, RATE);
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < 4 * RATE; i++) {
            const double at_s = 6 * k + i / rate_hz;
            lsl_timeline_add(&t, at_s, at_s, &gap);
        }
        assert_true(k < 2 ? isnan(lsl_timeline_rate(&t)) : fabs(lsl_timeline_rate(&t) - rate_hz) < 0.01);
    }
    assert_int_equal(t.gaps, 5);
}

static void a_clock_that_jumps_costs_a_sample(void **state) {
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct lsl_timeline t;
        lsl_timeline_init(&t, RATE);
        feed(&t, 2000, 0, 0);
        assert_in_range(feed(&t, 2000, 2000.0 / RATE, sign * 200000.0), 1, 8);
        assert_true(t.gaps == 1 && t.position >= 4001 && t.position <= 4008 && !t.held);
        assert_int_equal(feed(&t, 2000, 4000.0 / RATE, sign * 200000.0), 0);
    }
}

static void a_silence_is_a_gap_while_it_lasts(void **state) {
    (void)state;
    struct lsl_timeline t;
    int64_t gap, declared = 0;
    lsl_timeline_init(&t, RATE);
    assert_int_equal(lsl_timeline_silence(&t, 5), 0); /* before the first sample */
    feed(&t, 2560, 100, 0);
    for (double now_s = 110; now_s < 120; now_s += 0.01)
        declared += lsl_timeline_silence(&t, now_s);
    assert_in_range(declared, 9 * RATE, 10 * RATE);
    int64_t before = t.position;
    assert_int_equal(lsl_timeline_add(&t, 115, 120, &gap), LSL_LATE); /* its place is in the gap */
    assert_true(t.position == before && t.late == 1);
    assert_int_equal(lsl_timeline_add(&t, 120, 120.01, &gap), LSL_GAP);
    assert_int_equal(t.position, 20 * RATE + 1); /* true to the sample */
    assert_int_equal(feed(&t, 1000, 120 + 1.0 / RATE, 0), 0);
    assert_int_equal(t.gaps, 1);
}

static void after_a_silence_any_clock_is_taken(void **state) {
    (void)state;
    for (int sign = -1; sign <= 1; sign += 2) {
        struct lsl_timeline t;
        int64_t gap;
        lsl_timeline_init(&t, RATE);
        feed(&t, 2560, 100, 0);
        int64_t declared = lsl_timeline_silence(&t, 114);
        assert_in_range(declared, 4 * RATE - 8, 4 * RATE + 8);
        assert_int_equal(lsl_timeline_add(&t, 114 + sign * 200000.0, 114.01, &gap), LSL_FOLLOWS);
        assert_int_equal(t.position, 2561 + declared);
        assert_int_equal(feed(&t, 2000, 114 + 1.0 / RATE, sign * 200000.0), 0);
    }
}

static void drift_is_a_gap_each_quarter_of_a_second(void **state) {
    (void)state;
    struct lsl_timeline t;
    int64_t gap, declared = 0;
    lsl_timeline_init(&t, RATE);
    for (int64_t i = 0; i < 256 * 600; i++) { /* 255 Hz: 2.3 s late in ten minutes */
        lsl_timeline_add(&t, (double)i / 255, (double)i / 255, &gap);
        declared += gap;
    }
    assert_in_range(declared, 2 * RATE, 3 * RATE);
    assert_in_range(t.gaps, 7, 10);
    assert_true(fabs((double)(t.position + t.held) / RATE - 256 * 600 / 255.0) < 0.8);
}

/* Stamps of n samples that come `rate_hz` in a second in chunks of `chunk`; inside a chunk they repeat what is declared. */
static double measured(int64_t n, double rate_hz, int64_t chunk, double declared_hz, double jitter_s) {
    static double stamps[8192];
    assert_true(n <= 8192);
    for (int64_t i = 0; i < n; i++) {
        int64_t begin = i / chunk * chunk;
        stamps[i] =
            1000 + (double)begin / rate_hz + (double)(i - begin) / declared_hz + jitter_s * sin(7.0 * (double)(begin / chunk));
    }
    return lsl_timeline_measure(stamps, n, declared_hz);
}

static void the_rate_of_the_stamps_is_measured_whatever_is_declared(void **state) {
    (void)state;
    static const int64_t chunks[] = {1, 8, 25, 100};
    for (int i = 0; i < 4; i++) {
        assert_true(fabs(measured(1250, 125, chunks[i], 250, 0.002) - 125) < 1e-9); /* half of what is declared */
        assert_true(fabs(measured(2000, 200, chunks[i], 256, 0.002) - 200) < 1e-9);
        assert_true(fabs(measured(5000, 500, chunks[i], 250, 0.002) - 500) < 1e-9);
        assert_true(fabs(measured(2560, 256, chunks[i], 256, 0.002) - 256) < 1e-9);
    }
    assert_true(isnan(measured(100, 125, 1, 250, 0))); /* less than a second */
    static double stamps[1250];
    for (int i = 0; i < 1250; i++)
        stamps[i] = i / 125.0 + (i > 600 ? 30 : 0); /* a gap is no other rate */
    assert_true(fabs(lsl_timeline_measure(stamps, 1250, 250) - 125) < 1e-9);
    for (int i = 0; i < 1250; i++)
        stamps[i] = i / 250.0 + (i > 300 ? 200000 : 0) + (i > 900 ? 3 : 0); /* as declared, with a clock that was set and a gap */
    assert_true(fabs(lsl_timeline_measure(stamps, 1250, 250) - 250) < 1e-9);
    for (int i = 0; i < 1250; i++)
        stamps[i] = 5; /* a clock that stands still */
    assert_true(isnan(lsl_timeline_measure(stamps, 1250, 250)));
}

static void a_day_that_is_missing_is_sent_as_its_last_minute(void **state) {
    const int64_t day = 86400 * 256, minute = 60 * 256;
    (void)state;
    assert_int_equal(lsl_timeline_resume(100, 100, minute), 100);
    assert_int_equal(lsl_timeline_resume(100, 100 + minute, minute), 100);
    assert_int_equal(lsl_timeline_resume(100, 100 + day, minute), 100 + day - minute);
    assert_int_equal(lsl_timeline_resume(500, 100, minute), 500); /* these were sent before */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_of_a_steady_sender_follow_each_other),
        cmocka_unit_test(jitter_below_half_a_second_is_no_gap),
        cmocka_unit_test(missing_samples_become_a_gap_of_their_length),
        cmocka_unit_test(the_rate_of_the_stamps_is_measured_over_gaps),
        cmocka_unit_test(a_clock_that_jumps_costs_a_sample),
        cmocka_unit_test(a_silence_is_a_gap_while_it_lasts),
        cmocka_unit_test(after_a_silence_any_clock_is_taken),
        cmocka_unit_test(drift_is_a_gap_each_quarter_of_a_second),
        cmocka_unit_test(the_rate_of_the_stamps_is_measured_whatever_is_declared),
        cmocka_unit_test(a_day_that_is_missing_is_sent_as_its_last_minute),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
