/* When a timeline raises no alarm, and the state of its alarms in snapshots. */
#include "unit/timeline_fixture.h"

/* Windows of a minute whose every sample is a seizure; a gap in the middle. */
static void no_alarm_comes_from_less_than_half_a_minute_of_signal(void **state) {
    (void)state;
    enum { MINUTE = 60 * 256, HOP = 5 * 256, PART = 40 * 256 };
    struct device *dev = NULL;
    static float x[MINUTE * C], ones[MINUTE];
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = HOP};
    struct timeline_sink sink = {.ctx = &got, .alarm = on_alarm, .provisional = on_provisional};
    struct frontend_source source = source_of(&at_256);
    const float *uv[C];
    file.model.window = MINUTE;
    file.hop = 10 * 256;
    struct detector *d = make_detector(&dev);
    for (int i = 0; i < MINUTE; i++)
        ones[i] = 1;
    clear(&got);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    for (int part = 0; part < 2; part++) {
        make_chunk(part * PART, PART, 256, chunk_buffer, uv);
        assert_int_equal(timeline_push(t, uv, PART, NULL), 0);
        assert_int_equal(timeline_gap(t, 700, NULL), 0);
    }
    assert_int_equal(timeline_finish(t, NULL), 0);
    while (timeline_take(t, x))
        assert_int_equal(timeline_complete(t, ones, NULL), 0);
    assert_int_equal(got.n_alarms, 4);
    for (int part = 0; part < 2; part++) {
        int64_t start = part * (PART + 700);
        const struct alarm *on = &got.alarms[2 * part], *off = on + 1;
        assert_true(on->on);
        assert_int_equal(on->known, start + 30 * 256); /* at the end of its window, wherever the segment began */
        assert_true(on->sample >= on->known - HOP && on->sample < on->known);
        assert_true(got.provisional[start] == 1); /* the trace begins at once */
        assert_true(!off->on && off->known == start + PART);
    }
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

/* A network that takes every beginning of a segment for a seizure: filters and history settle there. */
static void a_dropout_every_90_s_raises_no_alarm(void **state) {
    (void)state;
    enum { WINDOW = 60 * 256, HOP = 5 * 256, PART = 87 * 256, GAP = 3 * 256, PARTS = 10 };
    struct device *dev = NULL;
    static float x[WINDOW * C], p[WINDOW];
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = HOP};
    struct timeline_sink sink = {.ctx = &got, .alarm = on_alarm};
    struct frontend_source source = source_of(&at_256);
    static float tone[PART];
    const float *uv[C] = {tone, tone, tone};
    file.model.window = WINDOW;
    file.hop = 10 * 256;
    struct detector *d = make_detector(&dev);
    clear(&got);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    for (int i = 0; i < PART; i++)
        tone[i] = (float)fixture_sample(0, i, 256);
    int alarm_windows = 0;
    for (int part = 0; part < PARTS; part++) {
        assert_int_equal(timeline_push(t, uv, PART, NULL), 0);
        assert_int_equal(timeline_gap(t, GAP, NULL), 0);
        for (int window = 0; timeline_take(t, x); window++) {
            bool young = window < 5; /* it ends 5 to 25 s after the dropout */
            for (int i = 0; i < WINDOW; i++)
                p[i] = young ? 1 : 0.1f;
            assert_int_equal(timeline_complete(t, p, NULL), 0);
            alarm_windows += young;
        }
    }
    assert_int_equal(timeline_finish(t, NULL), 0);
    assert_int_equal(alarm_windows, 5 * PARTS);
    assert_int_equal(got.n_alarms, 0);
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

/* The network sees a seizure all the time; the electrodes come off for 20 s, then samples are missing, and at last the source ends.
 */
static void an_alarm_says_why_it_went_off(void **state) {
    (void)state;
    enum { WINDOW = 60 * 256, HOP = 5 * 256, PART = 70 * 256, OFF = 40 * 256, GAP = 3 * 256 };
    static const enum alarm_reason wanted[] = {ALARM_ELECTRODES, ALARM_GAP, ALARM_ENDED, ALARM_FINISHED};
    struct device *dev = NULL;
    static float x[WINDOW * C], p[WINDOW];
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = HOP};
    struct timeline_sink sink = {.ctx = &got, .alarm = on_alarm};
    struct frontend_source source = source_of(&at_256);
    struct event running;
    const float *uv[C];
    file.model.window = WINDOW;
    file.hop = 10 * 256;
    struct detector *d = make_detector(&dev);
    clear(&got);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    n_dead = C;
    dead_first = OFF;
    dead_end = OFF + 20 * 256;
    for (int part = 0; part < 4; part++) {
        make_chunk(part * PART, PART, 256, chunk_buffer, uv);
        assert_int_equal(timeline_push(t, uv, PART, NULL), 0);
        if (part == 1)
            assert_int_equal(timeline_gap(t, GAP, NULL), 0);
        if (part == 3)
            assert_int_equal(timeline_finish(t, NULL), 0);
        for (int window = 0; timeline_take(t, x); window++) {
            for (int i = 0; i < WINDOW; i++)
                p[i] = part == 3 && window < 2 ? 0 : 1;
            assert_int_equal(timeline_complete(t, p, NULL), 0);
        }
        assert_int_equal(timeline_running(t, &running), part != 3); /* the end of a source ends its events */
    }
    n_dead = 0;
    int offs = 0;
    for (int i = 0; i < got.n_alarms; i++)
        if (!got.alarms[i].on) {
            assert_true(offs < 4);
            assert_int_equal(got.alarms[i].reason, wanted[offs++]);
        }
    assert_int_equal(offs, 4);
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

static void a_snapshot_that_was_cut_is_refused(void **state) {
    (void)state;
    enum { MOST_CUT = 100 };
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline_options options = {.alarm_hop = 64};
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(&at_200);
    struct timeline *t = NULL;
    struct str bytes;
    timeline_free(half_way(d, &bytes));
    for (size_t cut = 0; cut <= MOST_CUT; cut++) {
        struct unpack in = unpack_of(bytes.data, bytes.len - cut);
        assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
        assert_int_equal(timeline_load(t, &in, NULL), cut ? ERR_DATA_LOSS : 0);
        timeline_free(t);
    }
    str_done(&bytes);
    detector_close(d);
    device_close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(no_alarm_comes_from_less_than_half_a_minute_of_signal, setup),
        cmocka_unit_test_setup(a_dropout_every_90_s_raises_no_alarm, setup),
        cmocka_unit_test_setup(an_alarm_says_why_it_went_off, setup),
        cmocka_unit_test_setup(a_snapshot_that_was_cut_is_refused, setup_dead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
