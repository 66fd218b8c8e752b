#include "eeg/frontend.h"
#include "eeg/half.h"
#include "eeg_fixture.h"
#include "skip.h"
#include "tests/edf_records.h"
#include "unit/cmocka_all.h"

enum { MAX_ROWS = 200000, CHANNELS = 19 };

/* Everything a sink was given. */
struct heard {
    int channels;
    int64_t rows, first[MAX_ROWS];
    bool start[MAX_ROWS], held[MAX_ROWS], looked[MAX_ROWS]; /* looked: held, by who looks at them first */
    uint16_t *values;
    int answer; /* what the sink returns */
};

static int hear(void *ctx, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct heard *h = ctx;
    if (h->answer)
        return err_set(err, h->answer, "the listener left");
    assert_true(h->rows + n <= MAX_ROWS);
    memcpy(h->values + h->rows * h->channels, rows_f16, sizeof *rows_f16 * (size_t)(n * h->channels));
    for (int64_t i = 0; i < n; i++) {
        h->first[h->rows + i] = first + i;
        h->start[h->rows + i] = segment_start && i == 0;
        h->held[h->rows + i] = held;
    }
    h->rows += n;
    return 0;
}

static void look(void *ctx, const double *uv, int stride, int64_t n, int64_t first, const uint8_t *held) {
    struct heard *h = ctx;
    (void)uv;
    (void)stride;
    for (int64_t i = 0; i < n && first + i < MAX_ROWS; i++)
        h->looked[first + i] = held[i];
}

static struct heard *new_heard(int channels) {
    struct heard *h = calloc(1, sizeof *h);
    h->channels = channels;
    h->values = calloc((size_t)MAX_ROWS * (size_t)channels, sizeof *h->values);
    return h;
}

static void free_heard(struct heard *h) {
    free(h->values);
    free(h);
}

static const struct frontend_config config = {
    "referential-19", 50, {0.5, 120}, 2, FRONTEND_WINDOW, FRONTEND_REFERENCE_RECORDED, NULL, NULL, false, false};

static struct frontend *open_frontend(double rate, struct heard *h) {
    struct frontend *f = NULL;
    struct err err = {0};
    if (frontend_new(&config, &(struct frontend_source){fixture_referential, CHANNELS, rate}, hear, h, &f, NULL, &err))
        fail_msg("%s", err.message);
    frontend_show(f, look, h);
    return f;
}

/* Push samples [from, to) of the fixture's signal in chunks. */
static void push(struct frontend *f, double rate, int64_t from, int64_t to, int64_t chunk) {
    float *data = malloc(sizeof *data * (size_t)(CHANNELS * chunk));
    const float *uv[CHANNELS];
    for (int64_t at = from; at < to; at += chunk) {
        int64_t n = to - at < chunk ? to - at : chunk;
        for (int c = 0; c < CHANNELS; c++) {
            uv[c] = data + c * chunk;
            for (int64_t i = 0; i < n; i++)
                data[c * chunk + i] = (float)fixture_sample(c, at + i, rate);
        }
        assert_int_equal(frontend_push(f, uv, n, NULL), 0);
    }
    free(data);
}

/* 30 s with a short gap after 10 s, a long one after 20 s. */
static struct heard *run(double rate, int64_t chunk) {
    struct heard *h = new_heard(CHANNELS);
    struct frontend *f = open_frontend(rate, h);
    int64_t second = (int64_t)rate;
    push(f, rate, 0, 10 * second, chunk);
    assert_int_equal(frontend_gap(f, second, NULL), 0);
    push(f, rate, 11 * second, 20 * second, chunk);
    assert_int_equal(frontend_gap(f, 2 * second, NULL), 0);
    assert_int_equal(frontend_gap(f, 3 * second, NULL), 0); /* together longer than may be held */
    push(f, rate, 25 * second, 35 * second, chunk);
    assert_int_equal(frontend_finish(f, NULL), 0);
    frontend_free(f);
    return h;
}

static void chunks_of_any_size_give_the_same_bits(void **state) {
    (void)state;
    static const double rates[] = {256, 200, 512, 100};
    static const int64_t chunks[] = {1, 7, 256};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct heard *whole = run(rates[r], 20000);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            struct heard *h = run(rates[r], chunks[c]);
            assert_int_equal(h->rows, whole->rows);
            assert_memory_equal(h->values, whole->values, sizeof *h->values * (size_t)(h->rows * CHANNELS));
            assert_memory_equal(h->first, whole->first, sizeof *h->first * (size_t)h->rows);
            assert_memory_equal(h->start, whole->start, (size_t)h->rows);
            assert_memory_equal(h->held, whole->held, (size_t)h->rows);
            free_heard(h);
        }
        free_heard(whole);
    }
}

/* 35 s with gaps as above; in parts: each stretch waits in one, which is given out when the next one is there. */
static struct heard *run_parts(int normalize, int reference, bool in_parts) {
    struct frontend_config c = config;
    c.normalize = normalize;
    c.reference = reference;
    c.learn_background = true;
    struct heard *h = new_heard(frontend_columns(normalize, CHANNELS));
    struct frontend *f = NULL;
    struct frontend_part *part[2] = {frontend_part_new(), frontend_part_new()};
    assert_int_equal(frontend_new(&c, &(struct frontend_source){fixture_referential, CHANNELS, 200}, hear, h, &f, NULL, NULL), 0);
    for (int k = 0; k < 7; k++) {
        if (in_parts)
            frontend_wait(f, part[k % 2]);
        push(f, 200, k * 1000 + 100, (k + 1) * 1000, 333);
        if (k == 3)
            assert_int_equal(frontend_gap(f, 1000, NULL), 0);
        assert_int_equal(frontend_gap(f, 100, NULL), 0);
        assert_int_equal(frontend_give(f, part[(k + 1) % 2], NULL), 0);
    }
    assert_int_equal(frontend_give(f, part[0], NULL), 0);
    frontend_wait(f, NULL);
    assert_int_equal(frontend_finish(f, NULL), 0);
    for (int i = 0; i < 2; i++)
        frontend_part_free(f, part[i]);
    frontend_free(f);
    return h;
}

static void rows_that_waited_in_parts_are_those_that_did_not(void **state) {
    (void)state;
    static const int choices[][2] = {{FRONTEND_WINDOW, FRONTEND_REFERENCE_RECORDED},
                                     {FRONTEND_WARD, FRONTEND_REFERENCE_RECORDED},
                                     {FRONTEND_BASELINES, FRONTEND_REFERENCE_RECORDED},
                                     {FRONTEND_ENVELOPE, FRONTEND_REFERENCE_AVERAGE}};
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        struct heard *at_once = run_parts(choices[i][0], choices[i][1], false), *h = run_parts(choices[i][0], choices[i][1], true);
        assert_true(h->rows > 30 * FRONTEND_RATE_HZ);
        assert_int_equal(h->rows, at_once->rows);
        assert_memory_equal(h->values, at_once->values, sizeof *h->values * (size_t)(h->rows * h->channels));
        assert_memory_equal(h->first, at_once->first, sizeof *h->first * (size_t)h->rows);
        assert_memory_equal(h->start, at_once->start, (size_t)h->rows);
        assert_memory_equal(h->held, at_once->held, (size_t)h->rows);
        free_heard(at_once);
        free_heard(h);
    }
}

static void short_gaps_are_held_and_flagged_long_ones_end_the_segment(void **state) {
    (void)state;
    static const double rates[] = {256, 200, 512};
    for (size_t r = 0; r < sizeof rates / sizeof *rates; r++) {
        struct heard *h = run(rates[r], 1000);
        assert_int_equal(h->rows, 30 * 256); /* 20 s with the held second, then 10 s */
        for (int64_t i = 0; i < h->rows; i++) {
            assert_int_equal(h->first[i], i < 20 * 256 ? i : i + 5 * 256);
            assert_int_equal(h->start[i], i == 0 || i == 20 * 256);
            assert_int_equal(h->held[i], i >= 10 * 256 && i < 11 * 256);
            assert_int_equal(h->looked[h->first[i]], h->held[i]);
        }
        free_heard(h);
    }
}

static void a_segment_after_a_long_gap_is_filtered_as_if_it_stood_alone(void **state) {
    (void)state;
    struct heard *h = run(512, 1000), *alone = new_heard(CHANNELS);
    struct frontend *f = open_frontend(512, alone);
    push(f, 512, 25 * 512, 35 * 512, 999);
    assert_int_equal(frontend_finish(f, NULL), 0);
    assert_int_equal(alone->rows, 10 * 256);
    assert_int_equal(alone->first[0], 0);
    assert_memory_equal(alone->values, h->values + 20 * 256 * CHANNELS, sizeof *h->values * (size_t)(alone->rows * CHANNELS));
    frontend_free(f);
    free_heard(alone);
    free_heard(h);
}

static void a_gap_before_the_first_sample_only_shifts_time(void **state) {
    (void)state;
    struct heard *h = new_heard(CHANNELS);
    struct frontend *f = open_frontend(200, h);
    assert_int_equal(frontend_gap(f, 101, NULL), 0);
    push(f, 200, 0, 199, 64);
    assert_int_equal(frontend_finish(f, NULL), 0);
    /* Samples 101..299 at 200 Hz are 0.505 s to below 1.5 s: outputs 130 (0.5078 s) to 383. */
    assert_int_equal(h->first[0], 130);
    assert_int_equal(h->rows, 384 - 130);
    frontend_free(f);
    free_heard(h);
}

static void every_segment_gives_one_output_per_256th_of_a_second(void **state) {
    (void)state;
    static const struct {
        double rate;
        int64_t n;
    } cases[] = {{256, 1}, {256, 77}, {200, 1}, {200, 199}, {512, 511}, {1000, 3}, {100, 1}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        struct heard *h = new_heard(CHANNELS);
        struct frontend *f = open_frontend(cases[k].rate, h);
        push(f, cases[k].rate, 0, cases[k].n, 50);
        assert_int_equal(frontend_finish(f, NULL), 0);
        assert_int_equal(h->rows, (int64_t)ceil((double)cases[k].n * 256 / cases[k].rate));
        frontend_free(f);
        free_heard(h);
    }
}

static void huge_values_are_clamped_and_bad_ones_refused(void **state) {
    (void)state;
    struct heard *h = new_heard(CHANNELS);
    struct frontend *f = open_frontend(256, h);
    float data[CHANNELS][64] = {{0}};
    const float *uv[CHANNELS];
    struct err err;
    for (int c = 0; c < CHANNELS; c++)
        uv[c] = data[c];
    data[0][10] = 4e6f;
    data[1][10] = -4e6f;
    assert_int_equal(frontend_push(f, uv, 64, NULL), 0);
    float top = half_to_f32(h->values[10 * CHANNELS]), bottom = half_to_f32(h->values[10 * CHANNELS + 1]);
    assert_true(top == 60000 && bottom == -60000); /* 60,000 is a binary16 number */
    assert_true(half_to_f32(h->values[CHANNELS * 10 + 2]) == 0);
    data[5][3] = NAN;
    assert_int_equal(frontend_push(f, uv, 64, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "channel EEG T3-REF of the samples pushed holds NaN"));
    assert_int_equal(frontend_push(f, uv, 1, &err), ERR_PRECONDITION);
    frontend_free(f);
    free_heard(h);
}

static void an_error_of_the_sink_comes_back(void **state) {
    (void)state;
    struct heard *h = new_heard(CHANNELS);
    struct frontend *f = open_frontend(256, h);
    float zero[8] = {0};
    const float *uv[CHANNELS];
    struct err err;
    for (int c = 0; c < CHANNELS; c++)
        uv[c] = zero;
    h->answer = ERR_CANCELLED;
    assert_int_equal(frontend_push(f, uv, 8, &err), ERR_CANCELLED);
    assert_string_equal(err.message, "the listener left");
    frontend_free(f);
    free_heard(h);
}

static void impossible_settings_are_refused(void **state) {
    (void)state;
    struct frontend *f = NULL;
    struct frontend_config bad[] = {config, config, config, config, config};
    bad[0].montage = "custom:";
    bad[1].notch_hz = 55;
    bad[2].bandpass_hz[1] = 128;
    bad[3].fill_gap_s = -1;
    bad[4].montage = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(
            frontend_new(&bad[i], &(struct frontend_source){fixture_referential, CHANNELS, 256}, hear, NULL, &f, NULL, NULL),
            ERR_INVALID);
    assert_int_equal(frontend_new(&config, &(struct frontend_source){fixture_referential, CHANNELS, 0}, hear, NULL, &f, NULL, NULL),
                     ERR_INVALID);
    assert_int_equal(frontend_new(&config, &(struct frontend_source){fixture_referential, 12, 256}, hear, NULL, &f, NULL, NULL),
                     ERR_PRECONDITION);
    assert_null(f);
}

/* A whole EDF through a frontend. swap: exchange two source channels first. Returns what it heard; the frontend stays open. */
static struct heard *run_file(const char *path, const char *montage, bool swap, struct frontend **ret_f,
                              struct frontend_report *report) {
    struct eegfile *edf = NULL;
    struct err err = {0};
    struct frontend_config c = config;
    const char *labels[256];
    const int *used;
    float *uv[64];
    c.montage = montage;
    if (eegfile_open(path, &edf, &err))
        fail_msg("%s", err.message);
    const struct eeg_info *info = eegfile_info(edf);
    for (int i = 0; i < info->n_signals; i++)
        labels[i] = info->signals[i].label;
    if (swap) {
        const char *first = labels[1];
        labels[1] = labels[8];
        labels[8] = first;
    }
    struct heard *h = new_heard(!strcmp(montage, "bipolar-18") ? 18 : 19);
    if (frontend_new(&c, &(struct frontend_source){labels, info->n_signals, info->signals[0].rate_hz}, hear, h, ret_f, report,
                     &err))
        fail_msg("%s: %s", path, err.message);
    int n = frontend_sources(*ret_f, &used);
    int64_t spr = info->signals[0].samples_per_record, position = 0;
    for (int s = 0; s < info->n_segments; s++) {
        const struct eeg_segment *segment = &info->segments[s];
        int64_t start = llround(segment->start_s * info->signals[0].rate_hz), samples = segment->n_records * spr;
        if (start > position)
            assert_int_equal(frontend_gap(*ret_f, start - position, NULL), 0);
        for (int k = 0; k < n; k++) {
            uv[k] = malloc(sizeof(float) * (size_t)samples);
            assert_int_equal(edf_read(edf, used[k], segment->first_record, segment->n_records, uv[k], NULL), 0);
        }
        assert_int_equal(frontend_push(*ret_f, (const float *const *)uv, samples, &err), 0);
        for (int k = 0; k < n; k++)
            free(uv[k]);
        position = start + samples;
    }
    assert_int_equal(frontend_finish(*ret_f, NULL), 0);
    eegfile_close(edf);
    return h;
}

static void real_bipolar_files_serve_both_montages(void **state) {
    (void)state;
    char path[4096], note[256];
    struct frontend *f = NULL;
    struct frontend_report report;
    if (!fixture_real("chbmit/chb01_03_2986-3036.edf", path, sizeof path))
        skip_without_eeg();
    struct heard *bipolar = run_file(path, "bipolar-18", false, &f, &report);
    assert_int_equal(bipolar->rows, 50 * 256);
    assert_false(report.inverse_montage);
    assert_int_equal(report.used_channels, 18);
    assert_true(frontend_loops_close(f, note, sizeof note));
    frontend_free(f);
    struct heard *referential = run_file(path, "referential-19", false, &f, &report);
    assert_true(report.inverse_montage);
    assert_non_null(strstr(report.note, "minimum-norm inverse"));
    assert_true(frontend_loops_close(f, note, sizeof note));
    frontend_free(f);
    /* Differences of the estimated electrodes are the recorded derivations again (up to binary16 rounding and loop residuals). */
    double square = 0, error = 0;
    for (int64_t i = 0; i < bipolar->rows; i++) {
        const uint16_t *r = referential->values + i * 19, *b = bipolar->values + i * 18;
        double f7_t3 = half_to_f32(b[1]), got = half_to_f32(r[4]) - half_to_f32(r[5]);
        square += f7_t3 * f7_t3;
        error += (f7_t3 - got) * (f7_t3 - got);
    }
    assert_true(square > 1e4 && error < 1e-3 * square);
    free_heard(bipolar);
    free_heard(referential);
}

static void swapped_channels_of_a_real_bipolar_file_are_noticed(void **state) {
    (void)state;
    char path[4096], note[256];
    struct frontend *f = NULL;
    struct frontend_report report;
    if (!fixture_real("chbmit/crop301_a_mnelab.edf", path, sizeof path))
        skip_without_eeg();
    struct heard *h = run_file(path, "bipolar-18", true, &f, &report);
    assert_false(frontend_loops_close(f, note, sizeof note));
    assert_non_null(strstr(note, "chains"));
    frontend_free(f);
    free_heard(h);
}

/* Derivations that add up to zero; the first `flat` samples of F7-T3 are none, and its sign is wrong with `inverted`. */
static bool loops_close(const char *const names[18], int64_t flat, bool inverted, char note[256]) {
    enum { SAMPLES = 2048 };
    struct frontend_config c = config;
    struct frontend *f = NULL;
    float *data = malloc(sizeof *data * 18 * SAMPLES);
    const float *uv[18];
    c.montage = "bipolar-18";
    struct heard *h = new_heard(18);
    assert_int_equal(frontend_new(&c, &(struct frontend_source){names, 18, 256}, hear, h, &f, NULL, NULL), 0);
    for (int k = 0; k < 18; k++) {
        const char *minus = strchr(names[k], '-');
        const bool chosen = !strcmp(names[k], "F7-T3");
        double phase[2] = {0};
        for (const char *at = names[k]; *at; at++)
            phase[at > minus] += *at == '-' ? 0 : *at * *at;
        uv[k] = data + k * SAMPLES;
        for (int64_t i = 0; i < SAMPLES; i++) {
            const double v = 50 * (sin(0.1 * (double)i + phase[0]) - sin(0.1 * (double)i + phase[1]));
            data[k * SAMPLES + i] = (float)(chosen && i < flat ? 0.2 : chosen && inverted ? -v : v);
        }
    }
    struct str saved;
    str_init(&saved, 1 << 24);
    assert_int_equal(frontend_push(f, uv, SAMPLES, NULL), 0);
    const bool close = frontend_loops_close(f, note, 256);
    assert_int_equal(frontend_pack(f, &(struct packer){.to = &saved}, NULL), 0);
    frontend_free(f);
    assert_int_equal(frontend_new(&c, &(struct frontend_source){names, 18, 256}, hear, h, &f, NULL, NULL), 0);
    struct packer in = {.from = unpack_of(saved.data, saved.len)};
    assert_int_equal(frontend_pack(f, &in, NULL), 0);
    assert_int_equal(frontend_loops_close(f, note, 256), close);
    str_done(&saved);
    frontend_free(f);
    free(data);
    free_heard(h);
    return close;
}

static void flat_channels_are_not_taken_for_mislabelled_ones(void **state) {
    (void)state;
    const char *const *names;
    char note[256];
    int n = 0;
    assert_int_equal(montage_channels("bipolar-18", &names, &n, NULL), 0);
    assert_true(loops_close(names, 0, false, note));
    assert_true(loops_close(names, 1024, false, note));
    assert_true(loops_close(names, 2048, false, note));
    assert_false(loops_close(names, 0, true, note));
    assert_false(loops_close(names, 1024, true, note)); /* by the samples that it has */
    assert_non_null(strstr(note, "left chains"));
    montage_channels_free(names);
}

static void real_files_with_gaps_give_two_segments(void **state) {
    (void)state;
    char path[4096];
    struct frontend *f = NULL;
    struct frontend_report report;
    if (!fixture_real("chbmit/chb01_18_gap_D.edf", path, sizeof path))
        skip_without_eeg();
    struct heard *h = run_file(path, "referential-19", false, &f, &report);
    int starts = 0;
    for (int64_t i = 0; i < h->rows; i++)
        starts += h->start[i];
    assert_int_equal(starts, 2);
    assert_int_equal(h->rows, 20 * 256);
    assert_int_equal(h->first[10 * 256], 20 * 256);
    frontend_free(f);
    free_heard(h);
}

static void files_of_many_systems_meet_the_referential_montage(void **state) {
    (void)state;
    static const struct {
        const char *name;
        int interpolated;
    } files[] = {{"headers/siena_PN00-5_noise.edf", 0},        {"headers/siena_PN16-2_noise.edf", 0},
                 {"headers/szcore_unipolar_avg.edf", 0},       {"headers/szcore_bipolar.edf", 0},
                 {"headers/tuh_ar_a_aaaaapks_noise.edf", 2},   {"headers/tuh_ar_aaaaaool_noise.edf", 0},
                 {"headers/tuh_le_aaaaaaac_noise.edf", 0},     {"headers/seizeit1_P_ID10_noise.edf", 0},
                 {"format/restingeeg_30ch_250hz.edf", 0},      {"format/prerau_LE_20ch_350s.edf", 0},
                 {"format/eegmmidb_S001R01_64ch_160hz.edf", 0}};
    char path[4096];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct frontend *f = NULL;
        struct frontend_report report;
        if (!fixture_real(files[i].name, path, sizeof path))
            skip_without_eeg();
        struct heard *h = run_file(path, "referential-19", false, &f, &report);
        assert_int_equal(report.interpolated, files[i].interpolated);
        assert_int_equal(report.used_channels, 19 - files[i].interpolated);
        assert_false(report.inverse_montage);
        assert_true(h->rows >= 2 * 256);
        frontend_free(f);
        free_heard(h);
    }
}

/* test_frontend --filter RATE NOTCH: float32 samples of one channel on stdin, its binary16 output on stdout. */
static int put_half(void *ctx, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    (void)ctx, (void)first, (void)segment_start, (void)held;
    return fwrite(rows_f16, sizeof *rows_f16, (size_t)n, stdout) == (size_t)n ? 0 : err_set(err, ERR_INTERNAL, "cannot write");
}

static int filter_stdin(double rate, double notch) {
    struct frontend_config c = {"custom:Cz", notch, {0.5, 120}, 2,    FRONTEND_WINDOW, FRONTEND_REFERENCE_RECORDED,
                                NULL,        NULL,  false,      false};
    const char *labels[] = {"Cz"};
    struct frontend *f = NULL;
    float x[333];
    const float *uv[1] = {x};
    size_t n;
    int rc = frontend_new(&c, &(struct frontend_source){labels, 1, rate}, put_half, NULL, &f, NULL, NULL);
    while (!rc && (n = fread(x, sizeof *x, 333, stdin)) > 0)
        rc = frontend_push(f, uv, (int64_t)n, NULL);
    if (!rc)
        rc = frontend_finish(f, NULL);
    frontend_free(f);
    return rc ? 1 : 0;
}

int main(int argc, char **argv) {
    if (argc == 4 && !strcmp(argv[1], "--filter"))
        return filter_stdin(strtod(argv[2], NULL), strtod(argv[3], NULL));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_any_size_give_the_same_bits),
        cmocka_unit_test(rows_that_waited_in_parts_are_those_that_did_not),
        cmocka_unit_test(short_gaps_are_held_and_flagged_long_ones_end_the_segment),
        cmocka_unit_test(a_segment_after_a_long_gap_is_filtered_as_if_it_stood_alone),
        cmocka_unit_test(a_gap_before_the_first_sample_only_shifts_time),
        cmocka_unit_test(every_segment_gives_one_output_per_256th_of_a_second),
        cmocka_unit_test(huge_values_are_clamped_and_bad_ones_refused),
        cmocka_unit_test(an_error_of_the_sink_comes_back),
        cmocka_unit_test(impossible_settings_are_refused),
        cmocka_unit_test(real_bipolar_files_serve_both_montages),
        cmocka_unit_test(swapped_channels_of_a_real_bipolar_file_are_noticed),
        cmocka_unit_test(flat_channels_are_not_taken_for_mislabelled_ones),
        cmocka_unit_test(real_files_with_gaps_give_two_segments),
        cmocka_unit_test(files_of_many_systems_meet_the_referential_montage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
