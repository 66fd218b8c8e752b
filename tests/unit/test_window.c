#include <sys/resource.h>

#include "eeg/feature.h"
#include "eeg/half.h"
#include "eeg_fixture.h"
#include "skip.h"
#include "unit/cmocka_all.h"
#include "unit/edf_writer.h"
#include "windows/manifest.h"
#include "windows/recording.h"
#include "windows/window.h"
#include "windows/window_kernel.h"

enum { WINDOW = 15360, HOP = 2560 };

static int64_t grid(int64_t length, int64_t *starts) {
    struct window_span segment = {1000, 1000 + length};
    return window_grid(&segment, 1, WINDOW, HOP, starts);
}

static void the_grid_covers_every_sample_and_pads_only_the_last_window(void **state) {
    (void)state;
    int64_t starts[64];
    assert_int_equal(grid(0, NULL), 0);
    assert_int_equal(grid(1, starts), 1);
    assert_int_equal(starts[0], 1000);
    assert_int_equal(grid(WINDOW - 1, NULL), 1);
    assert_int_equal(grid(WINDOW, NULL), 1);
    assert_int_equal(grid(WINDOW + 1, starts), 2); /* a tail of one sample gets a window at the next grid point */
    assert_int_equal(starts[1], 1000 + HOP);
    assert_int_equal(grid(WINDOW + HOP, NULL), 2);
    assert_int_equal(grid(WINDOW + HOP + 1, NULL), 3);
    assert_int_equal(grid(WINDOW + 3 * HOP, starts), 4);
    assert_int_equal(starts[3], 1000 + 3 * HOP);
    const struct window_span two[] = {{0, WINDOW + 1}, {50000, 50100}};
    assert_int_equal(window_grid(two, 2, WINDOW, HOP, starts), 3);
    assert_int_equal(starts[2], 50000);
    assert_int_equal(window_valid(two, 2, HOP, WINDOW), WINDOW + 1 - HOP);
    assert_int_equal(window_valid(two, 2, 50000, WINDOW), 100);
    assert_int_equal(window_valid(two, 2, 40000, WINDOW), 0);
    assert_int_equal(window_valid(two, 2, 50100, WINDOW), 0);
}

/* The rule written out: mean and population deviation in double, max(s, 0.1 µV), clip ±10. */
static void reference(const uint16_t *rows, int64_t valid, int channels, int c, double *mean, double *scale) {
    double sum = 0, square = 0;
    for (int64_t i = 0; i < valid; i++)
        sum += (double)half_to_f32(rows[i * channels + c]);
    *mean = sum / (double)valid;
    for (int64_t i = 0; i < valid; i++)
        square += pow((double)half_to_f32(rows[i * channels + c]) - *mean, 2);
    *scale = 1 / fmax(sqrt(square / (double)valid), 0.1);
}

static void fill_rows(uint16_t *rows, int64_t n, int channels) {
    for (int64_t i = 0; i < n * channels; i++)
        rows[i] =
            half_from_f32((float)(fixture_sample((int)(i % channels), i / channels, 256) * (1 + (double)(i % channels)) + 300));
}

static void windows_are_normalised_over_their_valid_samples(void **state) {
    (void)state;
    static const int channel_counts[] = {1, 2, 18, 19, 64};
    static const int64_t lengths[] = {1, 7, 8, 1000, 15359, WINDOW};
    uint16_t *rows = malloc(sizeof *rows * WINDOW * 64);
    float *x = malloc(sizeof *x * WINDOW * 64), *left = malloc(sizeof *left * WINDOW * 64);
    for (size_t k = 0; k < sizeof channel_counts / sizeof *channel_counts; k++)
        for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
            int channels = channel_counts[k];
            int64_t valid = lengths[l];
            fill_rows(rows, valid, channels);
            window_normalise(rows, valid, channels, WINDOW, false, x);
            window_normalise(rows, valid, channels, WINDOW, true, left);
            assert_memory_equal(x, left + (WINDOW - valid) * channels, sizeof *x * (size_t)(valid * channels));
            for (int64_t i = valid * channels; i < WINDOW * channels; i++)
                assert_true(x[i] == 0 && left[i - valid * channels] == 0);
            for (int c = 0; c < channels; c++) {
                double mean, scale;
                reference(rows, valid, channels, c, &mean, &scale);
                for (int64_t i = 0; i < valid; i++) {
                    double z = ((double)half_to_f32(rows[i * channels + c]) - mean) * scale;
                    z = fmax(-10, fmin(10, z));
                    assert_true(fabs(z - (double)x[i * channels + c]) < 1e-6);
                }
            }
        }
    free(rows);
    free(x);
    free(left);
}

static void flat_channels_stay_small_and_spikes_are_clipped(void **state) {
    (void)state;
    uint16_t rows[2000];
    float x[2000];
    for (int i = 0; i < 1000; i++) {
        rows[2 * i] = half_from_f32(i == 500 ? 0.05f : 0);
        rows[2 * i + 1] = half_from_f32(i == 500 ? 60000.0f : 0);
    }
    window_normalise(rows, 1000, 2, 1000, false, x);
    assert_true(fabsf(x[1000]) < 0.51f && fabsf(x[0]) < 0.01f);
    assert_true(x[1001] == 10);
}

static void instruction_sets_give_the_same_bits(void **state) {
    (void)state;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("f16c") || !__builtin_cpu_supports("avx512vl"))
        skip_because(SKIP_HARDWARE, "this CPU has no AVX-512");
    const struct window_kernel *kernels[] = {&window_kernel_baseline, &window_kernel_avx2, &window_kernel_avx512};
    enum { GROUPS = 100, PERIOD = 8 * 19 };
    uint16_t rows[GROUPS * PERIOD];
    double sums[3][PERIOD] = {{0}}, squares[3][PERIOD] = {{0}}, plain[PERIOD] = {0}, mean[PERIOD], scale[PERIOD];
    static float x[3][GROUPS * PERIOD];
    fill_rows(rows, GROUPS * 8, 19);
    for (int e = 0; e < PERIOD; e++) {
        mean[e] = 300 + e / 7.0;
        scale[e] = 1 / (50 + e / 3.0);
    }
    for (int k = 0; k < 3; k++) {
        kernels[k]->sum(rows, GROUPS, PERIOD, sums[k]);
        kernels[k]->square(rows, GROUPS, PERIOD, mean, squares[k]);
        kernels[k]->apply(rows, GROUPS, PERIOD, mean, scale, x[k]);
    }
    for (int i = 0; i < GROUPS * PERIOD; i++) {
        double v = (double)half_to_f32(rows[i]), d = v - mean[i % PERIOD];
        plain[i % PERIOD] += d * d;
        assert_true(x[0][i] == window_clip(d * scale[i % PERIOD]));
    }
    assert_memory_equal(plain, squares[0], sizeof plain);
    for (int k = 1; k < 3; k++) {
        assert_memory_equal(squares[0], squares[k], sizeof plain);
        assert_memory_equal(sums[0], sums[k], sizeof plain);
        assert_memory_equal(x[0], x[k], sizeof x[0]);
    }
}

/* 18 blocks of 16 samples are in the first segment, beside 100 held samples. */
static int open_measured(const char *path, int64_t n, struct recording **ret) {
    static double m[32] = {3, -2, 1};
    const struct feature_blocks measured[FEATURE_MEASURES] = {{.n = 0}, {.m = m, .n = n}};
    const struct recording_facts facts = {
        .key = "k", .source = "s", .montage = "m", .label_source = "none", .note = "", .faults = "", .samples = 1000};
    struct recording_writer *w = NULL;
    uint16_t rows[3 * 401] = {0};
    assert_int_equal(recording_writer_open(path, 3, 3, &w, NULL), 0);
    assert_int_equal(recording_writer_rows(w, rows, 301, 0, true, false, NULL), 0);
    assert_int_equal(recording_writer_rows(w, rows, 100, 301, false, true, NULL), 0);
    assert_int_equal(recording_writer_rows(w, rows, 301, 500, true, false, NULL), 0);
    recording_writer_measures(w, measured);
    assert_int_equal(recording_writer_commit(w, &facts, NULL), 0);
    return recording_open(path, ret, NULL);
}

static void what_features_measured_lies_beside_the_rows(void **state) {
    char folder[4096], path[4200];
    struct recording *rec = NULL;
    (void)state;
    fixture_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/a.win", folder);
    assert_int_equal(open_measured(path, 18, &rec), 0);
    assert_null(recording_measures(rec, FRONTEND_LINE_LENGTH));
    assert_null(recording_measures(rec, FRONTEND_WARD));
    const double *m = recording_measures(rec, FRONTEND_BAND_POWER);
    assert_true(m && m[0] > 2.9 && m[1] < -1.9 && m[2] > 0.9);
    recording_close(rec);
    assert_int_equal(open_measured(path, 17, &rec), ERR_DATA_LOSS);
    assert_int_equal(open_measured(path, 19, &rec), ERR_DATA_LOSS);
}

static void a_written_recording_reads_back(void **state) {
    (void)state;
    char folder[4096], path[4200];
    fixture_folder(folder, sizeof folder);
    snprintf(path, sizeof path, "%s/a.win", folder);
    struct recording_writer *w = NULL;
    struct recording *rec = NULL;
    struct recording_info info;
    struct err err;
    uint16_t rows[3 * 700];
    fill_rows(rows, 700, 3);
    assert_int_equal(recording_writer_open(path, 3, 3, &w, NULL), 0);
    assert_int_equal(recording_writer_rows(w, rows, 300, 0, true, false, NULL), 0);
    assert_int_equal(recording_writer_rows(w, rows + 900, 100, 300, false, true, NULL), 0);
    assert_int_equal(recording_writer_rows(w, rows + 1200, 100, 900, false, false, &err), ERR_INVALID);
    assert_int_equal(recording_writer_rows(w, rows + 1200, 300, 1000, true, false, NULL), 0);
    const struct window_span seizures[] = {{250, 350}, {1100, 1200}};
    struct recording_facts facts = {.key = "k",
                                    .source = "s",
                                    .montage = "m",
                                    .label_source = "bids-tsv",
                                    .note = "a \"note\"",
                                    .faults = "file ends early",
                                    .labelled = true,
                                    .duration_s = 5.5,
                                    .samples = 1408,
                                    .seizures = seizures,
                                    .n_seizures = 2};
    assert_int_equal(recording_writer_commit(w, &facts, NULL), 0);
    assert_int_equal(recording_open(path, &rec, &err), 0);
    recording_info(rec, &info);
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.samples, 1408);
    assert_int_equal(info.n_segments, 2);
    assert_int_equal(info.segments[0].end, 400);
    assert_int_equal(info.segments[1].first, 1000);
    assert_int_equal(info.n_held, 1);
    assert_int_equal(info.held[0].first, 300);
    assert_int_equal(info.n_seizures, 2);
    assert_string_equal(info.note, "a \"note\"");
    assert_string_equal(info.label_source, "bids-tsv");
    assert_true(info.labelled && info.duration_s == 5.5);
    float x[3 * 256], expected[3 * 256];
    uint8_t labels[256];
    int64_t valid = 0;
    assert_int_equal(window_read(rec, 200, 256, x, labels, &valid, NULL), 0);
    assert_int_equal(valid, 200);
    window_normalise(rows + 600, 200, 3, 256, false, expected);
    assert_memory_equal(x, expected, sizeof x);
    for (int i = 0; i < 256; i++)
        assert_int_equal(labels[i], i >= 100 && i < 200 ? WINDOW_LABEL_MASKED : i >= 50 && i < 150);
    assert_int_equal(window_read(rec, 1044, 256, x, labels, &valid, NULL), 0);
    assert_int_equal(valid, 256);
    window_normalise(rows + 1200 + 3 * 44, 256, 3, 256, false, expected);
    assert_memory_equal(x, expected, sizeof x);
    assert_int_equal(window_read(rec, 500, 256, x, labels, &valid, &err), ERR_RANGE);
    recording_close(rec);
    /* Any damage is seen. */
    char *data;
    size_t len;
    assert_int_equal(fsio_read(path, 1 << 20, &data, &len, NULL), 0);
    static const size_t cuts[] = {0, 10, 64, 95, 2000};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_int_equal(fsio_write_atomic(path, data, cuts[i], NULL), 0);
        assert_int_equal(recording_open(path, &rec, &err), ERR_DATA_LOSS);
    }
    free(data);
    fixture_remove(folder);
}

static const struct frontend_config frontend = {
    "referential-19", 50, {0.5, 120}, 2, FRONTEND_WINDOW, FRONTEND_REFERENCE_RECORDED, NULL, NULL, false, false};

static struct window_build request(const char *edf, const char *cache) {
    return (struct window_build){
        .recording_path = edf, .cache_dir = cache, .frontend = frontend, .labels = "auto", .unlabeled = "error"};
}

static void a_recording_is_built_once_and_again_when_anything_changes(void **state) {
    (void)state;
    char folder[4096], edf[4200], cache[4200], first[4096], again[4096];
    fixture_folder(folder, sizeof folder);
    snprintf(edf, sizeof edf, "%s/data/sub-01_eeg.edf", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    struct fixture f = {fixture_referential,
                        19,
                        200,
                        100,
                        NULL,
                        FIXTURE_EVENTS "20.5\t30\tsz\tn/a\tn/a\tn/a\t100\n90\t50\tsz_foc_ia\tn/a\tn/a\tn/a\t100\n"};
    fixture_write(edf, &f);
    struct window_build b = request(edf, cache);
    bool skipped = true;
    struct err err = {0};
    int64_t size, mtime, mtime_again;
    if (window_build(&b, first, sizeof first, &skipped, &err))
        fail_msg("%s (%s)", err.message, err.cause);
    assert_false(skipped);
    struct recording *rec = NULL;
    struct recording_info info;
    assert_int_equal(recording_open(first, &rec, NULL), 0);
    recording_info(rec, &info);
    assert_int_equal(info.samples, 25600);
    assert_int_equal(info.n_segments, 1);
    assert_int_equal(info.segments[0].end, 25600);
    assert_int_equal(info.n_seizures, 2);
    assert_int_equal(info.seizures[0].first, 5248);
    assert_int_equal(info.seizures[0].end, 12928);
    assert_int_equal(info.seizures[1].first, 23040);
    assert_int_equal(info.seizures[1].end, 25600); /* not past the recording's end */
    assert_string_equal(info.label_source, "bids-tsv");
    recording_close(rec);
    assert_int_equal(fsio_size(first, &size, &mtime, NULL), 0);
    assert_int_equal(window_build(&b, again, sizeof again, NULL, NULL), 0);
    assert_string_equal(first, again);
    assert_int_equal(fsio_size(first, &size, &mtime_again, NULL), 0);
    assert_int_equal(mtime, mtime_again); /* not written again */
    b.rebuild = true;
    usleep(20000);
    assert_int_equal(window_build(&b, again, sizeof again, NULL, NULL), 0);
    assert_int_equal(fsio_size(first, &size, &mtime_again, NULL), 0);
    assert_true(mtime_again > mtime);
    b.rebuild = false;
    /* Every setting and the labels' content are part of the key. */
    struct window_build other = b;
    other.frontend.notch_hz = 60;
    assert_int_equal(window_build(&other, again, sizeof again, NULL, NULL), 0);
    assert_string_not_equal(first, again);
    other = b;
    other.frontend.montage = "bipolar-18";
    assert_int_equal(window_build(&other, again, sizeof again, NULL, NULL), 0);
    assert_string_not_equal(first, again);
    f.events = FIXTURE_EVENTS "20.5\t31\tsz\tn/a\tn/a\tn/a\t100\n";
    char events[4200];
    snprintf(events, sizeof events, "%s/data/sub-01_events.tsv", folder);
    assert_int_equal(fsio_write_atomic(events, f.events, strlen(f.events), NULL), 0);
    assert_int_equal(window_build(&b, again, sizeof again, NULL, NULL), 0);
    assert_string_not_equal(first, again);
    /* A damaged cache file is replaced. */
    assert_int_equal(fsio_write_atomic(again, "x", 1, NULL), 0);
    assert_int_equal(window_build(&b, again, sizeof again, NULL, NULL), 0);
    assert_int_equal(recording_open(again, &rec, NULL), 0);
    recording_close(rec);
    fixture_remove(folder);
}

static void unlabelled_recordings_follow_the_rule_given(void **state) {
    (void)state;
    char folder[4096], edf[4200], cache[4200], path[4096];
    fixture_folder(folder, sizeof folder);
    snprintf(edf, sizeof edf, "%s/x.edf", folder);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    struct fixture f = {fixture_referential, 19, 256, 5, NULL, NULL};
    fixture_write(edf, &f);
    struct window_build b = request(edf, cache);
    struct err err;
    bool skipped = false;
    assert_int_equal(window_build(&b, path, sizeof path, &skipped, &err), ERR_NOT_FOUND);
    assert_non_null(strstr(err.cause, "data.unlabeled"));
    b.unlabeled = "skip";
    assert_int_equal(window_build(&b, path, sizeof path, &skipped, &err), 0);
    assert_true(skipped);
    b.unlabeled = "background";
    assert_int_equal(window_build(&b, path, sizeof path, &skipped, &err), 0);
    assert_false(skipped);
    struct recording *rec;
    struct recording_info info;
    assert_int_equal(recording_open(path, &rec, NULL), 0);
    recording_info(rec, &info);
    assert_false(info.labelled);
    assert_string_equal(info.label_source, "none");
    assert_int_equal(info.n_seizures, 0);
    recording_close(rec);
    b.unlabeled = "maybe";
    assert_int_equal(window_build(&b, path, sizeof path, &skipped, &err), ERR_INVALID);
    fixture_remove(folder);
}

/* An hour that is sparse but for one sample of the first channel in the middle, in this many records. */
static void write_hour(const char *path, int records) {
    char number[16], duration[16];
    struct str bytes;
    struct written_signal signals[19];
    for (int c = 0; c < 19; c++)
        signals[c] = (struct written_signal){.label = fixture_referential[c], .samples = 3600 / records * 256};
    snprintf(duration, sizeof duration, "%d", 3600 / records);
    snprintf(number, sizeof number, "%d", records);
    str_init(&bytes, 1 << 20);
    edf_write_header(&(struct written_file){.n_signals = 19, .signals = signals, .records = number, .duration = duration}, false,
                     &bytes);
    assert_int_equal(fsio_write_atomic(path, bytes.data, bytes.len, NULL), 0);
    assert_int_equal(truncate(path, (off_t)bytes.len + 3600L * 256 * 19 * 2), 0);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)bytes.len + 1800L * 256 * 2 * (records > 1 ? 19 : 1), SEEK_SET), 0);
    assert_int_equal(fwrite("\x00\x10", 1, 2, f), 2);
    fclose(f);
    str_done(&bytes);
}

static void one_long_record_takes_no_more_memory_than_many(void **state) {
    (void)state;
    char folder[4096], edf[4200], path[4096];
    fixture_folder(folder, sizeof folder);
    struct rusage before, after;
    struct recording *recs[2];
    for (int i = 0; i < 2; i++) {
        struct err err = {0};
        snprintf(edf, sizeof edf, "%s/%d.edf", folder, i);
        write_hour(edf, i ? 1 : 3600);
        struct window_build b = request(edf, folder);
        b.unlabeled = "background";
        getrusage(RUSAGE_SELF, &before);
        if (window_build(&b, path, sizeof path, NULL, &err))
            fail_msg("%s (%s)", err.message, err.cause);
        getrusage(RUSAGE_SELF, &after);
        assert_int_equal(recording_open(path, &recs[i], NULL), 0);
    }
    assert_memory_equal(recording_rows(recs[0], 0, 0), recording_rows(recs[1], 0, 0), 3600 * 256 * 19 * sizeof(uint16_t));
    const uint16_t *row = recording_rows(recs[0], 0, 1800 * 256);
    assert_true(row[0] != row[-19]); /* the sample is there */
    recording_close(recs[0]);
    recording_close(recs[1]);
    assert_true(after.ru_maxrss - before.ru_maxrss < 32 << 10); /* KiB; as floats the record has 70 MB */
    fixture_remove(folder);
}

static void gaps_of_a_discontinuous_file_are_held_or_split(void **state) {
    (void)state;
    char folder[4096], edf[4200], path[4096];
    fixture_folder(folder, sizeof folder);
    snprintf(edf, sizeof edf, "%s/d_eeg.edf", folder);
    /* 1 s records: one second missing after 3 s (held), six seconds after 6 s (new segment). */
    static const double onsets[] = {0, 1, 2, 4, 5, 12, 13, 14};
    struct fixture f = {fixture_referential, 19, 256, 8, onsets, FIXTURE_EVENTS "1\t2\tsz\tn/a\tn/a\tn/a\t15\n"};
    fixture_write(edf, &f);
    struct window_build b = request(edf, folder);
    struct err err = {0};
    if (window_build(&b, path, sizeof path, NULL, &err))
        fail_msg("%s (%s)", err.message, err.cause);
    struct recording *rec;
    struct recording_info info;
    assert_int_equal(recording_open(path, &rec, NULL), 0);
    recording_info(rec, &info);
    assert_int_equal(info.n_segments, 2);
    assert_int_equal(info.segments[0].first, 0);
    assert_int_equal(info.segments[0].end, 6 * 256);
    assert_int_equal(info.segments[1].first, 12 * 256);
    assert_int_equal(info.segments[1].end, 15 * 256);
    assert_int_equal(info.samples, 15 * 256);
    assert_int_equal(info.n_held, 1);
    assert_int_equal(info.held[0].first, 3 * 256);
    assert_int_equal(info.held[0].end, 4 * 256);
    enum { LENGTH = 8 * 256 };
    float *x = calloc((size_t)LENGTH * (size_t)info.channels, sizeof *x);
    uint8_t labels[LENGTH];
    int64_t valid = 0;
    assert_non_null(x);
    assert_int_equal(window_read(rec, 0, LENGTH, x, labels, &valid, NULL), 0);
    assert_int_equal(valid, 6 * 256);
    assert_int_equal(labels[255], 0);
    assert_int_equal(labels[256], 1); /* the seizure, 1 to 3 s */
    assert_int_equal(labels[3 * 256], WINDOW_LABEL_MASKED);
    assert_int_equal(labels[4 * 256 - 1], WINDOW_LABEL_MASKED);
    assert_int_equal(labels[4 * 256], 0);
    free(x);
    recording_close(rec);
    fixture_remove(folder);
}

static void unknown_seconds_are_masked(void **state) {
    (void)state;
    char folder[4096], edf[4200];
    fixture_folder(folder, sizeof folder);
    snprintf(edf, sizeof edf, "%s/u_eeg.edf", folder);
    static const double onsets[] = {0, 1, 2, 3, 4, 5, 6, 8, 9}; /* a second is missing, which is held */
    struct fixture f = {
        fixture_referential, 19, 256, 9, onsets, FIXTURE_EVENTS "0\t2\tunknown\n6\t1.5\tunknown\n2\t2\tsz\n20\t5\tunknown\n"};
    fixture_write(edf, &f);
    struct window_build b = request(edf, folder);
    struct err err = {0};
    struct recording *rec = NULL;
    struct recording_info info;
    bool skipped = false;
    if (window_plan(&b, &rec, &skipped, &err))
        fail_msg("%s (%s)", err.message, err.cause);
    recording_info(rec, &info);
    assert_int_equal(info.n_unknown, 2); /* the one past the end is not there */
    assert_int_equal(info.n_held, 1);
    assert_int_equal(info.n_masked, 2); /* 0 to 2 s, and 6 to 8 s of which the last half is held alone */
    assert_int_equal(info.masked[0].end, 2 * 256);
    assert_int_equal(info.masked[1].first, 6 * 256);
    assert_int_equal(info.masked[1].end, 8 * 256);
    enum { LENGTH = 10 * 256 };
    float *x = calloc((size_t)LENGTH * (size_t)info.channels, sizeof *x);
    uint8_t labels[LENGTH];
    int64_t valid = 0;
    assert_non_null(x);
    if (window_read(rec, 0, LENGTH, x, labels, &valid, &err)) /* what was built is what was planned */
        fail_msg("%s (%s)", err.message, err.cause);
    for (int i = 0; i < LENGTH; i++)
        assert_int_equal(labels[i], i < 2 * 256 || (i >= 6 * 256 && i < 8 * 256) ? WINDOW_LABEL_MASKED : i < 4 * 256);
    struct window_count count = manifest_count_window(&info, 0, 4 * 256);
    assert_int_equal(count.valid, 2 * 256);
    assert_int_equal(count.seizure, 2 * 256);
    assert_int_equal(count.class, WINDOW_FULL); /* of what is known */
    free(x);
    recording_close(rec);
    fixture_remove(folder);
}

static void holes_are_gaps_in_recordings_without_a_seizure(void **state) {
    (void)state;
    char folder[4096], edf[4200];
    fixture_folder(folder, sizeof folder);
    snprintf(edf, sizeof edf, "%s/h_eeg.edf", folder);
    for (int seizure = 0; seizure < 2; seizure++) {
        struct fixture f = {fixture_referential,
                            19,
                            256,
                            130,
                            NULL,
                            seizure ? FIXTURE_EVENTS "1\t2\tsz\tn/a\tn/a\tn/a\t130\n"
                                    : FIXTURE_EVENTS "0\t130\tbckg\tn/a\tn/a\tn/a\t130\n"};
        fixture_write(edf, &f);
        for (int fill = 2; fill <= 10; fill += 8) {
            struct window_build b = request(edf, folder);
            struct err err = {0};
            struct recording *rec = NULL;
            struct recording_info info;
            bool skipped = false;
            int64_t missing = 0;
            b.hole_every_s = 40;
            b.frontend.fill_gap_s = fill;
            if (window_plan(&b, &rec, &skipped, &err) || recording_load(rec, &err)) /* loading checks it against the plan */
                fail_msg("%s (%s)", err.message, err.cause);
            recording_info(rec, &info);
            for (int i = 0; i < info.n_held; i++)
                missing += info.held[i].end - info.held[i].first;
            for (int i = 1; i < info.n_segments; i++)
                missing += info.segments[i].first - info.segments[i - 1].end;
            if (seizure)
                assert_int_equal(missing, 0);
            else
                assert_in_range(missing, 2 * 10 * 256, 4 * 10 * 256);
            assert_true(seizure || (fill == 10 ? info.n_held >= 2 : info.n_segments >= 3 && !info.n_held));
            recording_close(rec);
        }
    }
    fixture_remove(folder);
}

static void real_recordings_with_gaps_and_labels_are_cached(void **state) {
    (void)state;
    char folder[4096], edf[4096], path[4096];
    if (!fixture_real("chbmit/chb01_18_gap_D.edf", edf, sizeof edf))
        skip_without_eeg();
    fixture_folder(folder, sizeof folder);
    struct window_build b = request(edf, folder);
    b.labels = "edf-annotations";
    struct err err = {0};
    if (window_build(&b, path, sizeof path, NULL, &err))
        fail_msg("%s (%s)", err.message, err.cause);
    struct recording *rec;
    struct recording_info info;
    assert_int_equal(recording_open(path, &rec, NULL), 0);
    recording_info(rec, &info);
    assert_int_equal(info.n_segments, 2);
    assert_int_equal(info.segments[1].first, 20 * 256);
    assert_int_equal(info.n_seizures, 1);
    assert_int_equal(info.seizures[0].first, 20 * 256);
    assert_int_equal(info.seizures[0].end, 30 * 256);
    assert_non_null(strstr(info.note, "minimum-norm inverse"));
    recording_close(rec);
    fixture_remove(folder);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* test_window --bench: one hour of 23 channels at 256 Hz into the cache, then windows out of it. */
static int bench(void) {
    char folder[4096], edf[4200], path[4096];
    const char *labels[23];
    fixture_folder(folder, sizeof folder);
    snprintf(edf, sizeof edf, "%s/h_eeg.edf", folder);
    for (int c = 0; c < 23; c++)
        labels[c] = c < 19 ? fixture_referential[c] : c == 19 ? "ECG" : c == 20 ? "A1" : c == 21 ? "A2" : "Photic";
    struct fixture f = {labels, 23, 256, 3600, NULL, FIXTURE_EVENTS "100\t60\tsz\tn/a\tn/a\tn/a\t3600\n"};
    fixture_write(edf, &f);
    struct window_build b = request(edf, folder);
    double began = now_ms();
    if (window_build(&b, path, sizeof path, NULL, NULL))
        return 1;
    printf("hour of EDF into the cache: %.3f s\n", (now_ms() - began) / 1e3);
    struct recording *rec;
    if (recording_open(path, &rec, NULL))
        return 1;
    float *x = malloc(sizeof *x * WINDOW * 19);
    uint8_t *y = malloc(WINDOW);
    int64_t valid;
    double best = 1e9, total = 0;
    int n = 0;
    for (int round = 0; round < 3; round++)
        for (int64_t start = 0; start + WINDOW <= 3600 * 256; start += HOP) {
            began = now_ms();
            window_read(rec, start, WINDOW, x, y, &valid, NULL);
            double took = now_ms() - began;
            best = took < best ? took : best;
            total += round ? took : 0;
            n += round > 0;
        }
    printf("window_read of 60 s × 19 channels: best %.4f ms, mean %.4f ms\n", best, total / n);
    free(x);
    free(y);
    recording_close(rec);
    fixture_remove(folder);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--bench"))
        return bench();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_features_measured_lies_beside_the_rows),
        cmocka_unit_test(the_grid_covers_every_sample_and_pads_only_the_last_window),
        cmocka_unit_test(windows_are_normalised_over_their_valid_samples),
        cmocka_unit_test(flat_channels_stay_small_and_spikes_are_clipped),
        cmocka_unit_test(instruction_sets_give_the_same_bits),
        cmocka_unit_test(a_written_recording_reads_back),
        cmocka_unit_test(a_recording_is_built_once_and_again_when_anything_changes),
        cmocka_unit_test(unlabelled_recordings_follow_the_rule_given),
        cmocka_unit_test(one_long_record_takes_no_more_memory_than_many),
        cmocka_unit_test(gaps_of_a_discontinuous_file_are_held_or_split),
        cmocka_unit_test(unknown_seconds_are_masked),
        cmocka_unit_test(holes_are_gaps_in_recordings_without_a_seizure),
        cmocka_unit_test(real_recordings_with_gaps_and_labels_are_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
