/* The average reference and the input "baseline" of a frontend: the same for a recording against any reference, in chunks of any
 * size and across snapshots; electrodes without contact stay flat in the channels, which stay as recorded. */

#include "detect/contact.h"
#include "eeg/feature.h"
#include "eeg/frontend.h"
#include "eeg/half.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { C = 19, SECONDS = 20, N = SECONDS * 256, INPUTS = 2 * C + 1, COLUMNS = C + INPUTS, MAX_LABELS = 19 };

/* The double banana in electrodes of fixture_referential. */
static const int banana[18][2] = {{0, 4},   {4, 5},   {5, 6},   {6, 7},   {0, 1},   {1, 2},   {2, 3},   {3, 7}, {11, 12},
                                  {12, 13}, {13, 14}, {14, 18}, {11, 15}, {15, 16}, {16, 17}, {17, 18}, {8, 9}, {9, 10}};
static const char *const banana_labels[] = {"FP1-F7", "F7-T3", "T3-T5", "T5-O1",  "FP1-F3", "F3-C3", "C3-P3", "P3-O1", "FP2-F4",
                                            "F4-C4",  "C4-P4", "P4-O2", "FP2-F8", "F8-T4",  "T4-T6", "T6-O2", "FZ-CZ", "CZ-PZ"};

struct heard {
    int columns;
    int64_t rows;
    uint16_t values[N * COLUMNS];
};

static int hear(void *ctx, const uint16_t *from, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct heard *h = ctx;
    (void)first, (void)segment_start, (void)held, (void)err;
    memcpy(h->values + h->rows * h->columns, from, sizeof *from * (size_t)(n * h->columns));
    h->rows += n;
    return 0;
}

enum recorded { AGAINST_ONE, LINKED_EARS, BIPOLAR, FOUR_FLAT };
static float samples[MAX_LABELS][N];

static double potential(int electrode, int64_t i) {
    double t = (double)i / 256;
    return fixture_sample(electrode, i, 256) * (1 + 0.05 * electrode) * (t < 10 ? 1 : 3);
}

/* The left chains, the midline and the right chains are three parts that no bipolar channel connects: their means are lost. */
static void remove_means(double v[C]) {
    static const int parts[][2] = {{0, 8}, {8, 11}, {11, C}};
    for (int p = 0; p < 3; p++) {
        double mean = 0;
        for (int e = parts[p][0]; e < parts[p][1]; e++)
            mean += v[e] / (parts[p][1] - parts[p][0]);
        for (int e = parts[p][0]; e < parts[p][1]; e++)
            v[e] -= mean;
    }
}

/* The same head, recorded in several ways. */
static void record(enum recorded how) {
    for (int64_t i = 0; i < N; i++) {
        double v[C];
        for (int e = 0; e < C; e++)
            v[e] = potential(e, i);
        remove_means(v);
        for (int e = 0; e < C; e++) {
            double reference = how == LINKED_EARS ? 70 * sin((double)i / 37) + 0.1 * v[5] : v[9];
            samples[e][i] = (float)(how == FOUR_FLAT && e >= 15 ? 0 : v[e] - reference);
        }
        for (int k = 0; how == BIPOLAR && k < 18; k++)
            samples[k][i] = (float)(v[banana[k][0]] - v[banana[k][1]]);
    }
}

static struct frontend_config config = {.montage = "referential-19",
                                        .notch_hz = 50,
                                        .bandpass_hz = {0.5, 70},
                                        .fill_gap_s = 2,
                                        .normalize = FRONTEND_BASELINE,
                                        .reference = FRONTEND_REFERENCE_AVERAGE};

static struct frontend *open_frontend(bool bipolar, struct heard *h) {
    struct frontend *f = NULL;
    struct frontend_report report;
    struct err err = {0};
    struct frontend_source source = {bipolar ? banana_labels : fixture_referential, bipolar ? 18 : C, 256};
    if (frontend_new(&config, &source, hear, h, &f, &report, &err))
        fail_msg("%s", err.message);
    h->columns = report.output_columns;
    return f;
}

static void push(struct frontend *f, int64_t from, int64_t to, int64_t chunk) {
    const int *sources;
    const float *uv[MAX_LABELS];
    int n_sources = frontend_sources(f, &sources);
    for (int64_t at = from, n; at < to; at += n) {
        n = to - at < chunk ? to - at : chunk;
        for (int s = 0; s < n_sources; s++)
            uv[s] = samples[sources[s]] + at;
        assert_int_equal(frontend_push(f, uv, n, NULL), 0);
    }
}

static void hear_all(bool bipolar, int64_t chunk, struct heard *h) {
    memset(h, 0, sizeof *h);
    struct frontend *f = open_frontend(bipolar, h);
    push(f, 0, N, chunk);
    assert_int_equal(frontend_finish(f, NULL), 0);
    frontend_free(f);
    assert_true(h->rows == N && h->columns == COLUMNS);
}

static float value(const struct heard *h, int64_t row, int column) { return half_to_f32(h->values[row * h->columns + column]); }

static void inputs_are_the_same_whatever_the_reference_of_the_recording(void **state) {
    (void)state;
    static struct heard one, other;
    record(AGAINST_ONE);
    hear_all(false, N, &one);
    for (enum recorded how = LINKED_EARS; how <= BIPOLAR; how++) {
        record(how);
        hear_all(how == BIPOLAR, N, &other);
        for (int64_t i = 0; i < N; i++)
            for (int c = C; c < COLUMNS; c++)
                assert_true(fabsf(value(&one, i, c) - value(&other, i, c)) < 0.02f);
    }
    config.reference = FRONTEND_REFERENCE_RECORDED;
    record(LINKED_EARS);
    hear_all(false, N, &other);
    config.reference = FRONTEND_REFERENCE_AVERAGE;
    int differ = 0;
    for (int64_t i = 0; i < N; i++)
        for (int c = C; c < COLUMNS; c++)
            differ += fabsf(value(&one, i, c) - value(&other, i, c)) > 0.1f;
    assert_true(differ > N * INPUTS / 4); /* without the average they are not */
}

static void chunks_and_snapshots_change_no_bit(void **state) {
    (void)state;
    static struct heard whole, chunked;
    struct str bytes;
    record(LINKED_EARS);
    hear_all(false, N, &whole);
    hear_all(false, 37, &chunked);
    assert_memory_equal(&whole, &chunked, sizeof whole);
    memset(&chunked, 0, sizeof chunked);
    struct frontend *f = open_frontend(false, &chunked);
    push(f, 0, N / 3, 100);
    str_init(&bytes, 1 << 20);
    assert_int_equal(frontend_pack(f, &(struct packer){.to = &bytes}, NULL), 0);
    frontend_free(f);
    f = open_frontend(false, &chunked);
    struct packer in = {.from = unpack_of(bytes.data, bytes.len)};
    assert_int_equal(frontend_pack(f, &in, NULL), 0);
    assert_true(unpack_done(&in.from));
    push(f, N / 3, N, 999);
    assert_int_equal(frontend_finish(f, NULL), 0);
    frontend_free(f);
    str_done(&bytes);
    assert_memory_equal(&whole, &chunked, sizeof whole);
}

static void the_last_input_is_the_feature_of_line_length(void **state) {
    (void)state;
    static struct heard h;
    static uint16_t want[N];
    struct feature *feature = NULL;
    config.reference = FRONTEND_REFERENCE_RECORDED;
    record(AGAINST_ONE);
    hear_all(false, 500, &h);
    config.reference = FRONTEND_REFERENCE_AVERAGE;
    assert_int_equal(feature_new(FRONTEND_LINE_LENGTH, C, &feature, NULL), 0);
    feature_start(feature, h.values);
    feature_run(feature, (struct feature_rows){h.values, N, COLUMNS, false}, (struct feature_output){want, 1});
    feature_free(feature);
    for (int64_t i = 0; i < N; i++)
        assert_int_equal(h.values[i * COLUMNS + COLUMNS - 1], want[i]);
    assert_true(half_to_f32(want[12 * 256]) > 0.7f); /* three times the amplitude since the tenth second */
}

static void electrodes_without_contact_stay_flat_beside_the_average(void **state) {
    (void)state;
    static struct heard h;
    record(FOUR_FLAT);
    hear_all(false, 1000, &h);
    for (int64_t i = 0; i < N; i++)
        for (int c = 15; c < C; c++)
            assert_true(value(&h, i, c) == 0);
    assert_true(fabsf(value(&h, N - 1, C + 16)) > 0); /* against the average they are not flat */
    struct contact *contact = contact_new(C);
    contact_start(contact, 0);
    assert_int_equal(contact_push(contact, h.values, COLUMNS, N, NULL), 0);
    assert_true(contact_bad(contact, 5 * 256));
    contact_free(contact);
}

static void settings_without_an_average_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *montage, *says;
        int normalize;
    } cases[] = {{"referential-19", "needs normalize", FRONTEND_WINDOW},
                 {"referential-19", "needs normalize", FRONTEND_LINE_LENGTH},
                 {"bipolar-18", "difference", FRONTEND_ENVELOPE},
                 {"custom:Fp1,F3-C3", "F3-C3", FRONTEND_CAUSAL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct frontend_config c = config;
        struct err err = {0};
        c.montage = cases[i].montage;
        c.normalize = cases[i].normalize;
        assert_int_equal(frontend_check(&c, &err), ERR_INVALID);
        assert_non_null(strstr(err.message, cases[i].says));
    }
    assert_int_equal(frontend_check(&config, NULL), 0);
    assert_true(frontend_reference_from_name("average") == FRONTEND_REFERENCE_AVERAGE && frontend_reference_from_name("A1") < 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inputs_are_the_same_whatever_the_reference_of_the_recording),
        cmocka_unit_test(chunks_and_snapshots_change_no_bit),
        cmocka_unit_test(the_last_input_is_the_feature_of_line_length),
        cmocka_unit_test(electrodes_without_contact_stay_flat_beside_the_average),
        cmocka_unit_test(settings_without_an_average_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
