/* The features of models without a network against their definition, computed the plain way, and through the frontend. */

#include "base/rng.h"
#include "eeg/dsp.h"
#include "eeg/feature.h"
#include "eeg/frontend.h"
#include "eeg/half.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { C = 4, LANES = 8, STRIDE = C + 1, N = 60 * DSP_RATE_HZ };

static uint16_t rows[N * STRIDE], got[N], again[N];

/* Noise of 10 to 25 µV, three times as large in the last twenty seconds. */
static void make_rows(void) {
    struct rng rng;
    rng_init(&rng, 6, RNG_SYNTH, 0);
    for (int t = 0; t < N; t++)
        for (int c = 0; c < C; c++)
            rows[t * STRIDE + c] = half_from_f32((float)((10 + 5 * c) * rng_normal(&rng)) * (t > N * 2 / 3 ? 3 : 1));
}

static struct feature *make(int normalize) {
    struct feature *f = NULL;
    assert_int_equal(feature_new(normalize, C, &f, NULL), 0);
    return f;
}

static void run(struct feature *f, int from, int to, int chunk, uint16_t *out) {
    for (int n; from < to; from += n) {
        n = to - from < chunk ? to - from : chunk;
        feature_run(f, (struct feature_rows){rows + from * STRIDE, n, STRIDE, false}, (struct feature_output){out + from, 1});
    }
}

static void whole(int normalize, int chunk, uint16_t *out) {
    struct feature *f = make(normalize);
    feature_start(f, rows);
    run(f, 0, N, chunk, out);
    feature_free(f);
}

/* ---- the definition ---- */

static double filtered[N][C];

static void filter(double low, double high) {
    struct dsp_section sections[3];
    struct dsp_cascade band;
    double *row = dsp_rows(1, LANES);
    assert_int_equal(dsp_bandpass(low, high, DSP_RATE_HZ, sections, NULL), 0);
    assert_int_equal(dsp_cascade_init(&band, sections, 3, LANES, NULL), 0);
    for (int t = 0; t < N; t++) {
        for (int c = 0; c < C; c++)
            row[c] = (double)half_to_f32(rows[t * STRIDE + c]);
        if (t == 0)
            dsp_cascade_settle(&band, row);
        dsp_cascade_run(&band, row, 1);
        memcpy(filtered[t], row, sizeof filtered[t]);
    }
    dsp_cascade_done(&band);
    free(row);
}

static double middle(double *v) {
    for (int i = 0; i < C; i++)
        for (int k = i + 1; k < C; k++)
            if (v[k] < v[i]) {
                double swap = v[i];
                v[i] = v[k];
                v[k] = swap;
            }
    return (v[1] + v[2]) / 2;
}

/* M after sample t, which ends a block. */
static double line_length(int t) {
    double m[C] = {0};
    for (int c = 0; c < C; c++) {
        for (int k = t - 255; k <= t; k++)
            m[c] += k < 0 ? 4 : fabs(filtered[k][c] - (k ? filtered[k - 1][c] : 0));
        m[c] /= 256;
    }
    return middle(m);
}

static double band_power(int t) {
    double m[C] = {0};
    for (int c = 0; c < C; c++) {
        for (int k = t - 511; k <= t; k++)
            m[c] += k < 0 ? 400 : filtered[k][c] * filtered[k][c];
        m[c] = sqrt(m[c] / 512);
    }
    return middle(m);
}

static void check_definition(int normalize, double prior, double (*measure)(int t)) {
    double level = log(prior + 0.3), want = 0;
    whole(normalize, N, got);
    for (int t = 0; t < N; t++) {
        if (t % 16 == 15) {
            double now = log(measure(t) + 0.3), distance = now - level;
            double pull = distance > 0.25 ? 1 : distance < -0.25 ? -1 : distance / 0.25;
            level += pull * log(2) / (240 * 16);
            want = now - level;
        }
        assert_float_equal(half_to_f32(got[t]), want, 2e-3 + 1e-3 * fabs(want));
    }
    assert_true(half_to_f32(got[N - 1]) > half_to_f32(got[N / 2]) + 0.5f);
}

static void line_length_is_the_median_step_beside_its_past(void **state) {
    (void)state;
    filter(1, 25);
    check_definition(FRONTEND_LINE_LENGTH, 4, line_length);
}

static void band_power_is_the_median_root_mean_square_beside_its_past(void **state) {
    (void)state;
    filter(2.5, 8);
    check_definition(FRONTEND_BAND_POWER, 20, band_power);
}

static void the_feature_of_both_is_their_mean_by_slopes(void **state) {
    (void)state;
    static uint16_t both[N];
    whole(FRONTEND_LINE_LENGTH, N, got);
    whole(FRONTEND_BAND_POWER, N, again);
    whole(FRONTEND_BASELINES, N, both);
    for (int t = 0; t < N; t++) { /* 10 z − 3 is the mean of the log-odds 10 a − 3 and 6 b − 3 */
        double want = (half_to_f32(got[t]) + 0.6 * half_to_f32(again[t])) / 2;
        assert_float_equal(half_to_f32(both[t]), want, 1e-3 * (1 + fabs(want)));
    }
    assert_true(half_to_f32(both[N - 1]) > half_to_f32(both[N / 2]) + 0.5f);
    whole(FRONTEND_WARD, N, got);
    assert_memory_equal(got, both, sizeof got); /* that of a network that begins as ward */
}

/* ---- state ---- */

static void chunks_and_snapshots_change_no_bit(void **state) {
    (void)state;
    for (int i = 0; i < 9; i++) {
        int normalize = i < 8 ? FRONTEND_BASELINES + i / 2 : FRONTEND_WARD;
        struct feature *f = make(normalize), *other = make(normalize), *chunked = make(normalize);
        struct str saved;
        struct feature *const all[] = {f, other, chunked};
        for (int k = 0; k < 3 && (i % 2 || i == 8); k++)
            feature_learn(all[k]);
        for (int k = 0; k < 3 && i == 8; k++)
            feature_hold(all[k]);
        feature_start(f, rows);
        run(f, 0, N, N, got);
        feature_start(chunked, rows);
        run(chunked, 0, N, 37, again);
        assert_memory_equal(got, again, sizeof got);
        str_init(&saved, 1 << 20);
        feature_start(f, rows);
        run(f, 0, 1003, 1003, again);
        feature_pack(f, &(struct packer){.to = &saved});
        struct packer in = {.from = unpack_of(str_cstr(&saved), saved.len)};
        feature_pack(other, &in);
        assert_true(unpack_done(&in.from));
        run(other, 1003, N, 999, again);
        assert_memory_equal(got, again, sizeof got);
        feature_free(f);
        feature_free(other);
        feature_free(chunked);
        str_done(&saved);
    }
}

/* ---- a person's own background ---- */

/* Seconds of the noise times `factor`; the feature at the end of the last. */
static float hear(struct feature *f, float factor, int seconds) {
    static uint16_t part[DSP_RATE_HZ * STRIDE], out[DSP_RATE_HZ];
    for (int s = 0; s < seconds; s++) {
        for (int i = 0; i < DSP_RATE_HZ * STRIDE; i++)
            part[i] = half_from_f32(half_to_f32(rows[(s % 20) * DSP_RATE_HZ * STRIDE + i]) * factor);
        feature_run(f, (struct feature_rows){part, DSP_RATE_HZ, STRIDE, false}, (struct feature_output){out, 1});
    }
    return half_to_f32(out[DSP_RATE_HZ - 1]);
}

static void a_quiet_seizure_is_heard_after_seconds_and_after_a_gap(void **state) {
    (void)state;
    const float quiet = 0.25F, seizure = 0.6F;
    struct feature *f = make(FRONTEND_BASELINES), *before = make(FRONTEND_BASELINES);
    feature_learn(f);
    feature_start(f, rows);
    feature_start(before, rows);
    hear(f, quiet, 20);
    hear(before, quiet, 20);
    assert_true(feature_learning_s(f) >= 40 && feature_learning_s(f) <= 42 && feature_learning_s(before) == 0);
    assert_true(hear(f, seizure, 5) > 0.4F && hear(before, seizure, 5) < 0);
    hear(f, quiet, 60);
    assert_int_equal(feature_learning_s(f), 0);
    feature_resume(f, rows, 60);
    assert_int_equal(feature_learning_s(f), 60);
    assert_true(hear(f, seizure, 5) > 0.4F);
    feature_free(f);
    feature_free(before);
}

static struct feature *ward(bool holds) {
    struct feature *f = make(FRONTEND_WARD);
    feature_learn(f);
    if (holds)
        feature_hold(f);
    feature_start(f, rows);
    hear(f, 0.25F, 120);
    return f;
}

/* As f, through a snapshot. */
static struct feature *copied(struct feature *f) {
    struct feature *copy = make(FRONTEND_WARD);
    struct str saved = str_of(1 << 20);
    feature_learn(copy);
    feature_hold(copy);
    feature_pack(f, &(struct packer){.to = &saved});
    feature_free(f);
    struct packer in = {.from = unpack_of(str_cstr(&saved), saved.len)};
    feature_pack(copy, &in);
    assert_true(unpack_done(&in.from));
    str_done(&saved);
    return copy;
}

static void a_seizure_of_half_an_hour_does_not_become_the_background(void **state) {
    (void)state;
    const float seizure = 0.6F;
    struct feature *f = ward(true), *before = ward(false);
    assert_true(hear(f, seizure, 120) > 0.4F && hear(before, seizure, 120) > 0.28F);
    f = copied(f);
    assert_true(hear(f, seizure, 1640) > 0.4F && hear(before, seizure, 1640) < 0.1F);
    assert_true(hear(f, seizure, 600) < 0.1F); /* half an hour is over: this is the person now, without a pause of a minute */
    assert_true(hear(f, 0.25F, 600) < 0.1F && hear(f, seizure, 300) > 0.4F); /* and that is the next event */
    assert_true(hear(f, 0.25F, 20) < 0.1F);
    feature_free(f);
    feature_free(before);
}

/* Pauses that are shorter than the movement do not let it in; longer ones do. */
static void movement_with_long_pauses_becomes_the_background(void **state) {
    (void)state;
    float left[2];
    for (int k = 0; k < 2; k++) {
        struct feature *f = ward(true);
        for (int i = 0; i < 40; i++) {
            hear(f, 0.6F, 6);
            hear(f, 0.25F, k ? 10 : 4);
        }
        left[k] = hear(f, 0.6F, 4);
        feature_free(f);
    }
    assert_true(left[0] > 0.5F && left[1] < 0.45F);
}

static void a_gap_ends_an_event(void **state) {
    (void)state;
    struct feature *f = ward(true);
    hear(f, 0.6F, 60);
    feature_resume(f, rows, 60);
    hear(f, 0.6F, 120);
    assert_true(hear(f, 0.6F, 240) < 0.28F);
    feature_free(f);
}

static void flat_and_impossible_signal_is_not_heard(void **state) {
    (void)state;
    struct feature *f = make(FRONTEND_BASELINES);
    feature_learn(f);
    feature_start(f, rows);
    hear(f, 1e-4F, 30);
    assert_true(!feature_hears(f) && feature_learning_s(f) == 60);
    hear(f, 300, 30);
    assert_true(!feature_hears(f) && feature_learning_s(f) == 60);
    hear(f, 0.25F, 30);
    assert_true(feature_hears(f) && feature_learning_s(f) <= 33);
    const float usual = hear(f, 0.25F, 60);
    hear(f, 1e-4F, 60);
    assert_float_equal(hear(f, 0.25F, 20), usual, 0.05);
    feature_free(f);
}

/* ---- baselines that stay ---- */

static void held_rows_leave_the_feature_as_it_was(void **state) {
    (void)state;
    struct feature *f = make(FRONTEND_LINE_LENGTH);
    uint16_t held[700];
    feature_start(f, rows);
    run(f, 0, 2000, 2000, got);
    feature_run(f, (struct feature_rows){rows + 2000 * STRIDE, 700, STRIDE, true}, (struct feature_output){held, 1});
    for (int i = 0; i < 700; i++)
        assert_int_equal(held[i], got[1999]);
    feature_free(f);
}

/* With rows that are held, and a second segment, whose channels count again. */
static void run_segments(struct feature *f, const double *given, uint16_t *out) {
    feature_start(f, rows);
    if (given)
        feature_give(f, given);
    run(f, 0, 2005, 700, out);
    feature_run(f, (struct feature_rows){rows + 2005 * STRIDE, 300, STRIDE, true}, (struct feature_output){out + 2005, 1});
    run(f, 2305, 9000, 700, out);
    feature_resume(f, rows + 9000 * STRIDE, 20);
    run(f, 9000, N, 700, out);
    feature_free(f);
}

static void noted_blocks_stand_for_the_channels(void **state) {
    static const int single[FEATURE_MEASURES] = {FRONTEND_LINE_LENGTH, FRONTEND_BAND_POWER};
    struct feature_blocks noted[FEATURE_MEASURES] = {{0}};
    struct feature *both = make(FRONTEND_WARD);
    (void)state;
    feature_learn(both);
    feature_hold(both);
    feature_note(both, noted);
    run_segments(both, NULL, got);
    for (int k = 0; k < FEATURE_MEASURES; k++) {
        assert_true(feature_is_measured(&noted[k]));
        assert_int_equal(noted[k].n, (9000 - 300) / FEATURE_BLOCK);
        struct feature *of_channels = make(single[k]), *of_blocks = make(single[k]);
        feature_learn(of_channels);
        feature_learn(of_blocks);
        run_segments(of_channels, NULL, got);
        run_segments(of_blocks, noted[k].m, again);
        assert_memory_equal(got, again, sizeof got);
        free(noted[k].m);
    }
}

static void one_silent_or_wild_channel_moves_little(void **state) {
    (void)state;
    whole(FRONTEND_LINE_LENGTH, N, got);
    for (int t = 0; t < N; t++)
        rows[t * STRIDE] = half_from_f32(t % 2 ? 60000 : -60000);
    whole(FRONTEND_LINE_LENGTH, N, again);
    for (int t = DSP_RATE_HZ; t < N; t++)
        assert_true(fabsf(half_to_f32(got[t]) - half_to_f32(again[t])) < 0.5f);
    make_rows();
}

static void corrupt_state_is_refused(void **state) {
    (void)state;
    struct feature *f = make(FRONTEND_BASELINES), *other = make(FRONTEND_BASELINES);
    struct str saved;
    str_init(&saved, 1 << 20);
    feature_start(f, rows);
    run(f, 0, 1000, 1000, got);
    feature_pack(f, &(struct packer){.to = &saved});
    for (size_t len = 0; len < saved.len; len += 97) {
        struct packer in = {.from = unpack_of(str_cstr(&saved), len)};
        feature_pack(other, &in);
        assert_true(in.from.failed);
    }
    for (size_t at = 8; at < saved.len; at += 61) { /* bytes of anything: refused or not, the sums stay in range */
        char *bytes = malloc(saved.len);
        memcpy(bytes, str_cstr(&saved), saved.len);
        memset(bytes + at, 0x7f, saved.len - at < 64 ? saved.len - at : 64);
        struct packer in = {.from = unpack_of(bytes, saved.len)};
        feature_pack(other, &in);
        if (!in.from.failed)
            run(other, 1000, 3000, 512, again);
        free(bytes);
    }
    feature_free(f);
    feature_free(other);
    str_done(&saved);
}

/* ---- through the frontend ---- */

struct heard {
    uint16_t values[N * (C + 1)];
    int64_t rows;
    int columns, segments;
};

static int keep(void *ctx, const uint16_t *values, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct heard *h = ctx;
    (void)first, (void)held, (void)err;
    h->segments += segment_start;
    memcpy(h->values + h->rows * h->columns, values, (size_t)(n * h->columns) * sizeof *values);
    h->rows += n;
    return 0;
}

/* Goes on from its saved state. */
static struct frontend *restored(struct frontend *f, const struct frontend_config *config, const struct frontend_source *source,
                                 struct heard *h) {
    struct frontend *other = NULL;
    struct str saved;
    str_init(&saved, 1 << 20);
    assert_int_equal(frontend_pack(f, &(struct packer){.to = &saved}, NULL), 0);
    assert_int_equal(frontend_new(config, source, keep, h, &other, NULL, NULL), 0);
    struct packer in = {.from = unpack_of(saved.data, saved.len)};
    assert_int_equal(frontend_pack(other, &in, NULL), 0);
    assert_true(unpack_done(&in.from));
    str_done(&saved);
    frontend_free(f);
    return other;
}

/* Another recording of the person, five seconds after the first one. */
static struct frontend *another(struct frontend *f, const struct frontend_config *config, const struct frontend_source *source,
                                struct heard *h) {
    struct frontend *other = NULL;
    struct str saved = str_of(1 << 20);
    assert_int_equal(frontend_finish(f, NULL), 0);
    assert_int_equal(frontend_save_background(f, &(struct packer){.to = &saved}), config->learn_background);
    assert_int_equal(frontend_new(config, source, keep, h, &other, NULL, NULL), 0);
    assert_false(frontend_save_background(other, &(struct packer){.to = &saved})); /* it has heard nobody */
    struct packer in = {.from = unpack_of(saved.data, saved.len)};
    assert_true(frontend_load_background(other, &in, 5) && unpack_done(&in.from));
    str_done(&saved);
    frontend_free(f);
    return other;
}

/* Ten seconds, a gap that ends the segment, and the same ten seconds. In small chunks it goes on from its saved state after each.
 * apart: the second ten seconds are another recording, which is told what was learned. */
static bool learns, apart;

static void stream_of(int normalize, bool quiet_first, int chunk, struct heard *h) {
    static const char *const labels[] = {"Fp1", "F3", "C3", "P3"};
    const struct frontend_config config = {.montage = "custom:Fp1,F3,C3,P3",
                                           .notch_hz = 50,
                                           .bandpass_hz = {0.5, 120},
                                           .fill_gap_s = 2,
                                           .normalize = normalize,
                                           .learn_background = learns};
    const struct frontend_source source = {labels, C, 200};
    struct frontend_report report;
    struct frontend *f = NULL;
    static float data[C][2000];
    const float *uv[C];
    memset(h, 0, sizeof *h);
    assert_int_equal(frontend_new(&config, &source, keep, h, &f, &report, NULL), 0);
    h->columns = report.output_columns;
    for (int part = 0; part < 2; part++) {
        if (part && apart)
            f = another(f, &config, &source, h);
        for (int at = 0, n; at < 2000; at += n) {
            n = 2000 - at < chunk ? 2000 - at : chunk;
            for (int c = 0; c < C; c++) {
                uv[c] = data[c];
                for (int k = 0; k < n; k++)
                    data[c][k] = (float)fixture_sample(c, at + k, 200) * (quiet_first && at + k < 1000 ? 0.25F : 1);
            }
            assert_int_equal(frontend_push(f, uv, n, NULL), 0);
            f = chunk < 100 ? restored(f, &config, &source, h) : f;
        }
        assert_int_equal(frontend_gap(f, 1000, NULL), 0);
    }
    assert_int_equal(frontend_finish(f, NULL), 0);
    frontend_free(f);
}

static void stream(int normalize, int chunk, struct heard *h) { stream_of(normalize, false, chunk, h); }

static void rows_hold_one_column_more_which_restarts_with_a_segment(void **state) {
    (void)state;
    static struct heard plain, all, chunked;
    stream(FRONTEND_WINDOW, 2000, &plain);
    for (int normalize = FRONTEND_LINE_LENGTH; normalize <= FRONTEND_WARD; normalize++) {
        stream(normalize, 2000, &all);
        stream(normalize, 33, &chunked);
        assert_true(frontend_is_feature(normalize) && all.columns == C + 1 && frontend_inputs(normalize, C) == 1);
        assert_true(all.segments == 2 && all.rows == plain.rows && all.rows == 2 * 2560);
        assert_memory_equal(&all, &chunked, sizeof all);
        for (int64_t i = 0; i < all.rows; i++)
            assert_memory_equal(all.values + i * all.columns, plain.values + i * C, C * sizeof *all.values);
        assert_memory_equal(all.values, all.values + 2560 * all.columns, (size_t)(2560 * all.columns) * sizeof *all.values);
        struct feature *f = make(normalize); /* what the column is made of is what the row says */
        feature_start(f, all.values);
        feature_run(f, (struct feature_rows){all.values, 2560, all.columns, false}, (struct feature_output){got, 1});
        for (int i = 0; i < 2560; i++)
            assert_int_equal(got[i], all.values[i * all.columns + C]);
        feature_free(f);
    }
}

static void what_was_learned_goes_on_after_a_gap(void **state) {
    (void)state;
    static struct heard whole_run, chunked, plain;
    for (int normalize = FRONTEND_CAUSAL; normalize <= FRONTEND_WARD; normalize++) {
        learns = true;
        stream_of(normalize, true, 2000, &whole_run);
        stream_of(normalize, true, 33, &chunked);
        apart = true;
        stream_of(normalize, true, 2000, &plain);
        assert_memory_equal(&whole_run, &plain, sizeof plain);
        learns = apart = false;
        stream_of(normalize, true, 2000, &plain);
        assert_memory_equal(&whole_run, &chunked, sizeof whole_run);
        const int64_t second = 2560 * whole_run.columns, bytes = second * (int64_t)sizeof *whole_run.values;
        assert_memory_equal(plain.values, plain.values + second, (size_t)bytes); /* forgets all */
        assert_memory_not_equal(whole_run.values, whole_run.values + second, (size_t)bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_length_is_the_median_step_beside_its_past),
        cmocka_unit_test(band_power_is_the_median_root_mean_square_beside_its_past),
        cmocka_unit_test(the_feature_of_both_is_their_mean_by_slopes),
        cmocka_unit_test(chunks_and_snapshots_change_no_bit),
        cmocka_unit_test(a_quiet_seizure_is_heard_after_seconds_and_after_a_gap),
        cmocka_unit_test(a_seizure_of_half_an_hour_does_not_become_the_background),
        cmocka_unit_test(movement_with_long_pauses_becomes_the_background),
        cmocka_unit_test(a_gap_ends_an_event),
        cmocka_unit_test(flat_and_impossible_signal_is_not_heard),
        cmocka_unit_test(what_was_learned_goes_on_after_a_gap),
        cmocka_unit_test(held_rows_leave_the_feature_as_it_was),
        cmocka_unit_test(noted_blocks_stand_for_the_channels),
        cmocka_unit_test(one_silent_or_wild_channel_moves_little),
        cmocka_unit_test(corrupt_state_is_refused),
        cmocka_unit_test(rows_hold_one_column_more_which_restarts_with_a_segment),
    };
    make_rows();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
