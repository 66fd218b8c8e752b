/* Timelines against traces computed all at once from the same filtered samples: record trace, alarm trace, events and alarms, for
 * any chunking and batching. */
#include "unit/timeline_fixture.h"

static void any_chunking_and_batching_gives_the_trace_of_the_whole(void **state) {
    (void)state;
    static const int64_t chunks[] = {1, 7, 256, 20000};
    const struct source *sources[] = {&at_256, &at_200};
    for (int s = 0; s < 2; s++) {
        expect(sources[s], 64);
        assert_int_equal(truth.n_segments, 4 - s);
        assert_true(want.n_suppressed > 30 && want.suppressed[20].ratio > 0.1f && want.suppressed[20].bursts > 3);
        assert_true(want.n_events > 10 && want.n_alarms > 10);
        assert_true(n_dead ? want.n_deaf > 5 : !want.n_deaf);
        for (int i = 0; i < 4; i++)
            for (int batch = 1; batch <= 5; batch += 4) {
                char what[96];
                snprintf(what, sizeof what, "%g Hz, chunks of %lld, batches of %d", sources[s]->rate, (long long)chunks[i], batch);
                stream(sources[s], 64, chunks[i], batch, false);
                compare(what);
            }
    }
}

static void passes_are_shared_only_where_the_windows_coincide(void **state) {
    (void)state;
    expect(&at_256, 0);
    int64_t record = want.windows;
    expect(&at_256, 256); /* every full window of the grid ends at a multiple of the alarm hop */
    int64_t both = want.windows;
    stream(&at_256, 256, 256, 1, false);
    compare("alarm hop = hop");
    int64_t alarms = 0, tails = 0;
    for (int s = 0; s < truth.n_segments; s++) {
        int64_t length = truth.segments[s].end - truth.segments[s].first;
        alarms += length / 256;
        tails += length < 1024 || (length - 1024) % 256;
    }
    assert_int_equal(both, alarms + tails);
    assert_true(both < record + alarms);
    file.model.window = 1040; /* 1040 + 256k is never a multiple of 128 */
    expect(&at_256, 128);
    alarms = 0;
    for (int s = 0; s < truth.n_segments; s++)
        alarms += (truth.segments[s].end - truth.segments[s].first) / 128;
    int64_t grid = window_grid(truth.segments, truth.n_segments, 1040, 256, NULL);
    assert_int_equal(want.windows, grid + alarms);
    stream(&at_256, 128, 1000, 3, false);
    compare("windows that never coincide");
    expect(&at_256, 0);
    stream(&at_256, 0, 1000, 3, false);
    compare("no alarm trace");
    assert_int_equal(got.n_alarms, 0);
}

static void first_values_come_after_one_window_and_final_ones_every_hop(void **state) {
    (void)state;
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = 128};
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(&at_256);
    const float *uv[C];
    clear(&got);
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    for (int64_t at = 0; at < 4096; at += 64) {
        make_chunk(at, 64, 256, chunk_buffer, uv);
        push(t, uv, 64, 1);
        drain(t, 1);
        int64_t now = timeline_samples(t); /* the frontend may hold a few samples back */
        assert_int_equal(got.record_end, now < 1024 ? 0 : (now - 1024) / 256 * 256 + 256);
        int64_t alarmed = now / 128 * 128;
        assert_true(!alarmed || !isnan(got.provisional[alarmed - 1]));
        assert_true(isnan(got.provisional[alarmed]));
    }
    assert_true(timeline_samples(t) > 4000);
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

static void a_full_queue_refuses_without_losing_a_sample(void **state) {
    (void)state;
    expect(&at_256, 2); /* thousands of alarm windows */
    stream(&at_256, 2, 20000, 16, true);
    compare("one push per segment, run at the end");
    stream(&at_256, 2, 50, 16, true);
    compare("small pushes against a full queue");
}

static void a_restored_timeline_goes_on_to_the_bit(void **state) {
    (void)state;
    static const struct {
        int64_t chunk, alarm_hop;
        int every;
        bool lazy;
    } ways[] = {{1, 64, 37, false}, {7, 64, 1, false}, {256, 0, 1, false}, {1000, 128, 1, true}, {20000, 2, 1, true}};
    const struct source *sources[] = {&at_256, &at_200};
    for (int s = 0; s < 2; s++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            char what[96];
            expect(sources[s], ways[i].alarm_hop);
            restore_every = ways[i].every;
            stream(sources[s], ways[i].alarm_hop, ways[i].chunk, 5, ways[i].lazy);
            restore_every = 0;
            snprintf(what, sizeof what, "%g Hz, chunks of %lld, restored after every %d", sources[s]->rate,
                     (long long)ways[i].chunk, ways[i].every);
            compare(what);
        }
}

static void a_snapshot_of_another_stream_is_refused(void **state) {
    (void)state;
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct str bytes;
    struct timeline *first = half_way(d, &bytes), *t = NULL;
    static float x[MAX_WINDOW * MAX_INPUTS];
    struct err err = {0};
    assert_true(timeline_take(first, x));
    assert_int_equal(timeline_save(first, &bytes, &err), ERR_PRECONDITION);
    timeline_free(first);
    struct timeline_sink sink = sink_of(&got);
    const struct {
        int64_t alarm_hop;
        const struct source *source;
    } others[] = {{128, &at_200}, {64, &at_256}};
    for (int i = 0; i < 2; i++) {
        struct timeline_options options = {.alarm_hop = others[i].alarm_hop};
        struct frontend_source source = source_of(others[i].source);
        struct unpack in = unpack_of(bytes.data, bytes.len);
        assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
        assert_int_equal(timeline_load(t, &in, &err), ERR_DATA_LOSS);
        assert_int_equal(timeline_status(t, NULL), ERR_DATA_LOSS);
        timeline_free(t);
    }
    str_done(&bytes);
    detector_close(d);
    device_close(dev);
}

/* The container's checksum finds corrupt snapshots; this is the second line: they never make the program read or write outside. */
static void a_corrupt_snapshot_is_refused_or_harmless(void **state) {
    (void)state;
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline_options options = {.alarm_hop = 64};
    struct timeline_sink none = {0};
    struct frontend_source source = source_of(&at_200);
    struct str bytes;
    const float *uv[C];
    timeline_free(half_way(d, &bytes));
    int refused = 0, tries = 0;
    for (size_t at = 0; at < bytes.len; at += at < 2000 ? 1 : 997)
        for (int kind = 0; kind < 3; kind++, tries++) {
            struct timeline *t = NULL;
            struct unpack in = unpack_of(bytes.data, kind ? bytes.len : at);
            char kept = bytes.data[at];
            bytes.data[at] = (char)(kind == 1 ? ~kept : kept + 1);
            assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &none, &t, NULL, NULL), 0);
            if (timeline_load(t, &in, NULL)) {
                refused++;
            } else {
                make_chunk(0, 300, 200, chunk_buffer, uv);
                if (!timeline_push(t, uv, 300, NULL))
                    drain(t, 5);
            }
            timeline_free(t);
            bytes.data[at] = kept;
        }
    assert_true(refused > tries / 3);
    str_done(&bytes);
    detector_close(d);
    device_close(dev);
}

static void a_cached_recording_gives_what_the_stream_gave(void **state) {
    (void)state;
    char folder[256], path[512];
    struct recording_writer *w = NULL;
    struct recording *rec = NULL;
    expect(&at_256, 64);
    fixture_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/rec", folder);
    assert_int_equal(recording_writer_open(path, C, columns(), &w, NULL), 0);
    for (int s = 0; s < truth.n_segments; s++) {
        const struct window_span *seg = &truth.segments[s];
        for (int64_t t = seg->first, end; t < seg->end; t = end) {
            for (end = t; end < seg->end && truth.held[end] == truth.held[t]; end++)
                ;
            assert_int_equal(recording_writer_rows(w, row_of(t), end - t, t, t == seg->first, truth.held[t], NULL), 0);
        }
    }
    struct recording_facts facts = {.key = "k",
                                    .source = "s",
                                    .montage = "m",
                                    .label_source = "none",
                                    .note = "",
                                    .duration_s = (double)truth.end / 256,
                                    .samples = truth.end};
    assert_int_equal(recording_writer_commit(w, &facts, NULL), 0);
    assert_int_equal(recording_open(path, &rec, NULL), 0);
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline *t = NULL;
    struct timeline_options options = {.alarm_hop = 64};
    struct timeline_sink sink = sink_of(&got);
    clear(&got);
    assert_int_equal(timeline_new_cached(&detector_info(d)->file, rec, &options, &sink, &t, NULL), 0);
    struct err err;
    assert_int_equal(timeline_finish(t, &err), ERR_PRECONDITION);
    drain(t, 5);
    assert_true(timeline_done(t));
    got.windows = timeline_windows(t);
    compare("cached");
    timeline_free(t);
    detector_close(d);
    device_close(dev);
    recording_close(rec);
    fixture_remove(folder);
}

static void a_failing_sink_ends_its_timeline_with_that_error(void **state) {
    (void)state;
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline *t = NULL;
    struct timeline_options options = {0};
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(&at_256);
    struct err err = {0};
    const float *uv[C];
    clear(&got);
    got.fail_after = 512;
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    make_chunk(0, 4000, 256, chunk_buffer, uv);
    push(t, uv, 4000, 1);
    drain(t, 1);
    assert_int_equal(got.record_end, 512);
    assert_int_equal(timeline_status(t, &err), ERR_UNAVAILABLE);
    assert_string_equal(err.message, "the reader went away");
    assert_int_equal(timeline_push(t, uv, 100, &err), ERR_UNAVAILABLE);
    assert_false(timeline_ready(t, &err));
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

/* The first window of the fixture's source. */
static void first_window(float *x) {
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline *t = NULL;
    struct timeline_options options = {0};
    struct timeline_sink sink = {0};
    struct frontend_source source = source_of(&at_256);
    const float *uv[C];
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, NULL), 0);
    make_chunk(0, 1100, 256, chunk_buffer, uv);
    assert_int_equal(timeline_push(t, uv, 1100, NULL), 0);
    assert_true(timeline_take(t, x));
    timeline_free(t);
    detector_close(d);
    device_close(dev);
}

/* A network of five channels on a recording that has its first, third and fifth. */
static void channels_that_a_recording_lacks_are_zeros_of_the_network(void **state) {
    enum { WHOLE = 5, ABSENT = 1 << 1 | 1 << 3 };
    static const int normalizes[] = {FRONTEND_WINDOW, FRONTEND_CAUSAL, FRONTEND_ENVELOPE, FRONTEND_BASELINES};
    static float part[1024 * (5 * C + 1)], spread[1024 * (5 * WHOLE + 1)];
    (void)state;
    for (int k = 0; k < (int)(sizeof normalizes / sizeof *normalizes); k++) {
        set_up(normalizes[k]);
        int own = file.model.in_channels, inputs = frontend_inputs(normalizes[k], WHOLE);
        first_window(part);
        file.model.in_channels = inputs;
        file.absent = ABSENT;
        first_window(spread);
        for (int i = 0; i < 1024; i++)
            for (int c = 0, next = 0; c < inputs; c++) {
                bool absent = c < frontend_rows(normalizes[k]) * WHOLE && (ABSENT >> c % WHOLE & 1);
                assert_true(spread[i * inputs + c] == (absent ? 0 : part[i * own + next]));
                next += !absent;
            }
    }
}

static void impossible_settings_are_refused(void **state) {
    (void)state;
    struct device *dev = NULL;
    struct detector *d = make_detector(&dev);
    struct timeline *t = NULL;
    struct timeline_sink sink = sink_of(&got);
    struct frontend_source source = source_of(&at_256);
    struct err err = {0};
    struct timeline_options options = {.alarm_hop = 100};
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "divisor"));
    options.alarm_hop = 64;
    source.n_labels = 2; /* C3 is not there */
    assert_int_equal(timeline_new(&detector_info(d)->file, &source, &options, &sink, &t, NULL, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "C3"));
    detector_close(d);
    device_close(dev);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(any_chunking_and_batching_gives_the_trace_of_the_whole, setup),
        cmocka_unit_test_setup(any_chunking_and_batching_gives_the_trace_of_the_whole, setup_envelope),
        cmocka_unit_test_setup(any_chunking_and_batching_gives_the_trace_of_the_whole, setup_feature),
        cmocka_unit_test_setup(any_chunking_and_batching_gives_the_trace_of_the_whole, setup_dead),
        cmocka_unit_test_setup(any_chunking_and_batching_gives_the_trace_of_the_whole, setup_causal),
        cmocka_unit_test_setup(passes_are_shared_only_where_the_windows_coincide, setup),
        cmocka_unit_test_setup(first_values_come_after_one_window_and_final_ones_every_hop, setup),
        cmocka_unit_test_setup(a_full_queue_refuses_without_losing_a_sample, setup),
        cmocka_unit_test_setup(a_restored_timeline_goes_on_to_the_bit, setup),
        cmocka_unit_test_setup(a_restored_timeline_goes_on_to_the_bit, setup_envelope),
        cmocka_unit_test_setup(a_restored_timeline_goes_on_to_the_bit, setup_feature),
        cmocka_unit_test_setup(a_restored_timeline_goes_on_to_the_bit, setup_dead),
        cmocka_unit_test_setup(a_snapshot_of_another_stream_is_refused, setup),
        cmocka_unit_test_setup(a_snapshot_of_another_stream_is_refused, setup_envelope),
        cmocka_unit_test_setup(a_corrupt_snapshot_is_refused_or_harmless, setup),
        cmocka_unit_test_setup(a_corrupt_snapshot_is_refused_or_harmless, setup_envelope),
        cmocka_unit_test_setup(a_corrupt_snapshot_is_refused_or_harmless, setup_feature),
        cmocka_unit_test_setup(a_cached_recording_gives_what_the_stream_gave, setup),
        cmocka_unit_test_setup(a_cached_recording_gives_what_the_stream_gave, setup_envelope),
        cmocka_unit_test_setup(a_cached_recording_gives_what_the_stream_gave, setup_feature),
        cmocka_unit_test_setup(a_cached_recording_gives_what_the_stream_gave, setup_dead),
        cmocka_unit_test_setup(a_failing_sink_ends_its_timeline_with_that_error, setup),
        cmocka_unit_test(channels_that_a_recording_lacks_are_zeros_of_the_network),
        cmocka_unit_test_setup(impossible_settings_are_refused, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
