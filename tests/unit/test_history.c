/* The amplitude history against its definition, computed the plain way, and through the frontend in chunks of any size. */

#include "base/rng.h"
#include "eeg/dsp.h"
#include "eeg/frontend.h"
#include "eeg/half.h"
#include "eeg/half_rows.h"
#include "eeg/history.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { C = 3, LANES = 8, N = 40 * DSP_RATE_HZ, COLUMNS = 2 * C, MOST = 2 * C };

static double rows[N * LANES];
static uint16_t got[N * MOST];

/* Noise of 5, 30 and 40 µV; the second channel is silent for ten seconds. */
static void make_rows(void) {
    static const double uv[C] = {5, 30, 40};
    struct rng rng;
    rng_init(&rng, 6, RNG_SYNTH, 0);
    for (int t = 0; t < N; t++)
        for (int c = 0; c < C; c++)
            rows[t * LANES + c] = c == 1 && t / (10 * DSP_RATE_HZ) == 2 ? 0 : uv[c] * rng_normal(&rng);
}

static struct history *make(bool envelope) {
    struct history *h = NULL;
    assert_int_equal(history_new(C, LANES, envelope, &h, NULL), 0);
    return h;
}

static void run(struct history *h, int from, int to, int chunk, int stride) {
    for (int n; from < to; from += n) {
        n = to - from < chunk ? to - from : chunk;
        history_run(h, rows + from * LANES, n, false, (struct history_output){got + from * stride, stride});
    }
}

static float at(int t, int column) { return half_to_f32(got[t * COLUMNS + column]); }

/* x² of all earlier samples with their weights, and the prior with its own; no sample here is large enough to be limited. */
static double scale(int t, int c) {
    const double decay = exp(-1.0 / (600 * 256));
    double power = 0, weight = 0;
    for (int k = 0; k <= t; k++) {
        double w = pow(decay, t - k);
        power += w * rows[k * LANES + c] * rows[k * LANES + c];
        weight += w;
    }
    double prior = 2560 * pow(decay, t + 1);
    return sqrt((power + prior * 400) / (weight + prior));
}

static void the_signal_is_in_proportion_to_its_decaying_mean_square(void **state) {
    (void)state;
    struct history *h = make(true);
    make_rows();
    history_start(h, rows, 0);
    run(h, 0, N, DSP_BLOCK, COLUMNS);
    for (int t = 0; t < N; t += t < 4 ? 1 : 997)
        for (int c = 0; c < C; c++) {
            double want = asinh(rows[t * LANES + c] / scale(t, c));
            assert_true(fabs((double)at(t, c) - want) <= 1e-3 * fabs(want) + 1e-6);
        }
    history_free(h);
}

/* Compares column `column` of got, whose rows have `columns` values, with the envelope of channel c by its definition. */
static void compare_envelope(int c, const double *y, double prior, double offset, int columns, int column) {
    const double decay = exp(-1.0 / (600 * 256));
    double length = 2560 * prior, weight = 2560;
    for (int t = 0; t < N; t++) {
        double step = fabs(y[t * LANES + c] - (t ? y[(t - 1) * LANES + c] : 0)), m = 0;
        length = decay * length + fmin(step, 10 * fmax(length / weight, offset));
        weight = decay * weight + 1;
        if (t % 1009)
            continue;
        for (int k = t - 255; k <= t; k++)
            m += k < 0 ? prior : fabs(y[k * LANES + c] - (k ? y[(k - 1) * LANES + c] : 0));
        double want = log((m / 256 + offset) / (length / weight + offset));
        assert_true(fabs((double)half_to_f32(got[t * columns + column]) - want) <= 2e-3 * fabs(want) + 1e-3);
    }
}

static const double *banded(double low, double high) {
    static _Alignas(64) double y[N * LANES];
    struct dsp_section sections[3];
    struct dsp_cascade band;
    assert_int_equal(dsp_bandpass(low, high, DSP_RATE_HZ, sections, NULL), 0);
    assert_int_equal(dsp_cascade_init(&band, sections, 3, LANES, NULL), 0);
    memcpy(y, rows, sizeof y);
    dsp_cascade_settle(&band, rows);
    dsp_cascade_run(&band, y, N);
    dsp_cascade_done(&band);
    return y;
}

static void the_envelope_is_the_last_second_in_proportion_to_the_last_minutes(void **state) {
    (void)state;
    struct history *h = make(true);
    make_rows();
    history_start(h, rows, 0);
    run(h, 0, N, DSP_BLOCK, COLUMNS);
    const double *y = banded(1, 25);
    for (int c = 0; c < C; c++)
        compare_envelope(c, y, 3, 0.3, COLUMNS, C + c);
    assert_true(at(29 * 256, C + 1) < -2 && at(39 * 256, C + 1) > 0); /* silent for ten seconds, then not */
    history_free(h);
}

static void an_artefact_does_not_hide_the_next_minutes(void **state) {
    (void)state;
    struct history *h = make(true);
    make_rows();
    for (int t = 10 * DSP_RATE_HZ; t < 11 * DSP_RATE_HZ; t++)
        rows[t * LANES] = t % 16 < 8 ? 3000 : -3000;
    history_start(h, rows, 0);
    run(h, 0, N, DSP_BLOCK, COLUMNS);
    double power = 0;
    for (int t = 20 * DSP_RATE_HZ; t < 30 * DSP_RATE_HZ; t++)
        power += sinh((double)at(t, 0)) * sinh((double)at(t, 0)) / (10 * DSP_RATE_HZ);
    assert_true(sqrt(power) > 0.03); /* 5 µV; with the artefact in full the scale would be 500 µV */
    history_free(h);
}

static void silence_of_any_length_ends(void **state) {
    (void)state;
    struct history *h = make(true);
    static double silent[DSP_BLOCK * LANES];
    static uint16_t to[DSP_BLOCK * COLUMNS];
    make_rows();
    history_start(h, silent, 0);
    for (int i = 0; i < 20 * 3600; i++) /* 20 h */
        history_run(h, silent, DSP_BLOCK, false, (struct history_output){to, COLUMNS});
    run(h, 0, N, DSP_BLOCK, COLUMNS);
    double power = 0;
    for (int t = N - DSP_RATE_HZ; t < N; t++)
        power += sinh((double)at(t, 2)) * sinh((double)at(t, 2)) / DSP_RATE_HZ;
    assert_true(isfinite(power) && sqrt(power) < 10);
    history_free(h);
}

static void held_rows_leave_the_history_as_it_was(void **state) {
    (void)state;
    struct history *h = make(true), *without = make(true);
    static double held[DSP_BLOCK * LANES];
    static uint16_t to[DSP_BLOCK * COLUMNS], after[DSP_BLOCK * COLUMNS];
    make_rows();
    history_start(h, rows, 0);
    run(h, 0, 5000, DSP_BLOCK, COLUMNS);
    history_run(h, held, DSP_BLOCK, true, (struct history_output){to, COLUMNS});
    for (int i = 0; i < DSP_BLOCK; i++)
        for (int c = 0; c < C; c++) {
            assert_int_equal(half_to_f32(to[i * COLUMNS + c]), 0);
            assert_int_equal(to[i * COLUMNS + C + c], got[4999 * COLUMNS + C + c]);
        }
    history_start(without, rows, 0);
    run(without, 0, 5000, DSP_BLOCK, COLUMNS);
    history_run(h, rows + 5000 * LANES, DSP_BLOCK, false, (struct history_output){to, COLUMNS});
    history_run(without, rows + 5000 * LANES, DSP_BLOCK, false, (struct history_output){after, COLUMNS});
    for (int i = 0; i < DSP_BLOCK; i++)
        assert_memory_equal(to + i * COLUMNS, after + i * COLUMNS, C * sizeof *to); /* the same scale */
    history_free(h);
    history_free(without);
}

static void chunks_and_snapshots_change_no_bit(void **state) {
    (void)state;
    static uint16_t whole[N * MOST];
    for (int k = 0; k < 2; k++) {
        struct history *h = make(k);
        make_rows();
        history_start(h, rows, 0);
        run(h, 0, N, DSP_BLOCK, MOST);
        memcpy(whole, got, sizeof whole);
        history_start(h, rows, 0); /* forgets all that it saw */
        run(h, 0, 3001, 7, MOST);
        struct str bytes;
        str_init(&bytes, 1 << 20);
        history_pack(h, &(struct packer){.to = &bytes});
        history_free(h);
        struct packer in = {.from = unpack_of(bytes.data, bytes.len)};
        h = make(k);
        history_pack(h, &in);
        assert_true(unpack_done(&in.from));
        run(h, 3001, N, 100, MOST);
        assert_memory_equal(got, whole, sizeof whole);
        in.from = unpack_of(bytes.data, bytes.len - 1);
        history_pack(h, &in);
        assert_true(in.from.failed);
        str_done(&bytes);
        history_free(h);
    }
}

/* ---- through the frontend ---- */

enum { ROWS = 30000 };
struct heard {
    int columns;
    int64_t rows, segments[8];
    int n_segments;
    uint16_t values[ROWS * (3 * C + 1)];
};

static int hear(void *ctx, const uint16_t *from, int64_t n, int64_t first, bool segment_start, bool held, struct err *err) {
    struct heard *h = ctx;
    (void)first, (void)held, (void)err;
    if (segment_start)
        h->segments[h->n_segments++] = h->rows;
    memcpy(h->values + h->rows * h->columns, from, sizeof *from * (size_t)(n * h->columns));
    h->rows += n;
    return 0;
}

/* 20 s, a gap that is held, 10 s, a gap that ends the segment, 12 s. */
static void stream(int normalize, int chunk, struct heard *h) {
    static const char *const labels[C] = {"Fp1", "F3", "C3"};
    static const int steps[] = {20 * 200, -200, 10 * 200, -20 * 200, 12 * 200};
    struct frontend_config config = {"custom:Fp1,F3,C3",          50,   {0.5, 70}, 2,     normalize,
                                     FRONTEND_REFERENCE_RECORDED, NULL, NULL,      false, false};
    struct frontend *f = NULL;
    struct frontend_report report;
    static float data[C][4000];
    const float *uv[C] = {data[0], data[1], data[2]};
    memset(h, 0, sizeof *h);
    assert_int_equal(frontend_new(&config, &(struct frontend_source){labels, C, 200}, hear, h, &f, &report, NULL), 0);
    h->columns = report.output_columns;
    int64_t now = 0;
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (steps[i] < 0)
            assert_int_equal(frontend_gap(f, -steps[i], NULL), 0);
        for (int done = 0, n; done < steps[i]; done += n, now += n) {
            n = steps[i] - done < chunk ? steps[i] - done : chunk;
            for (int c = 0; c < C; c++)
                for (int k = 0; k < n; k++)
                    data[c][k] = (float)fixture_sample(c, (now + k) % (10 * 200), 200);
            assert_int_equal(frontend_push(f, uv, n, NULL), 0);
        }
    }
    assert_int_equal(frontend_finish(f, NULL), 0);
    frontend_free(f);
}

static void rows_begin_with_the_microvolt_of_before_and_restart_with_a_segment(void **state) {
    (void)state;
    static struct heard plain, all, chunked;
    stream(FRONTEND_WINDOW, 4000, &plain);
    assert_int_equal(plain.columns, C);
    for (int normalize = FRONTEND_CAUSAL; normalize <= FRONTEND_BASELINES; normalize++) {
        stream(normalize, 4000, &all);
        stream(normalize, 33, &chunked);
        assert_int_equal(all.columns, frontend_columns(normalize, C));
        assert_int_equal(all.columns, C + frontend_inputs(normalize, C));
        assert_true(all.rows == plain.rows && all.n_segments == 2);
        assert_memory_equal(&all, &chunked, sizeof all);
        for (int64_t i = 0; i < all.rows; i++)
            assert_memory_equal(all.values + i * all.columns, plain.values + i * C, C * sizeof *all.values);
    }
    /* The second segment begins with the same samples as the first one. */
    assert_memory_equal(all.values, all.values + all.segments[1] * all.columns,
                        (size_t)(9 * 256 * all.columns) * sizeof *all.values);
}

/* Also of values beside those that lie between two binary16 numbers, where the rounding is hardest. */
static void many_asinh_and_log_have_the_bits_of_libm(void **state) {
    (void)state;
    double x[HALF_ASINH_MOST], positive[HALF_ASINH_MOST];
    uint16_t asinhs[HALF_ASINH_MOST], logs[HALF_ASINH_MOST];
    struct rng rng;
    rng_init(&rng, 9, RNG_SYNTH, 0);
    for (int round = 0; round < 20000; round++) {
        const int n = 1 + (int)rng_below(&rng, HALF_ASINH_MOST);
        for (int i = 0; i < n; i++) {
            const uint16_t half = (uint16_t)rng_below(&rng, 0x4a00); /* up to 12 */
            const double between = ((double)half_to_f32(half) + (double)half_to_f32((uint16_t)(half + 1))) / 2;
            const double beside = between + ((double)rng_below(&rng, 9) - 4) * 2e-13 * (double)rng_below(&rng, 3);
            x[i] = rng_below(&rng, 2) ? sinh(beside) : 20 * rng_normal(&rng) * pow(10, rng_normal(&rng));
            x[i] = rng_below(&rng, 2) ? x[i] : -x[i];
            positive[i] = rng_below(&rng, 2) ? exp(rng_below(&rng, 2) ? beside : -beside) : fabs(x[i]);
        }
        if (round % 100 == 0) {
            const double special[] = {NAN, -0.0, 0, 60000, INFINITY, 1e300};
            x[0] = positive[0] = special[round / 100 % 6];
        }
        half_asinh(x, n, asinhs);
        for (int i = 0; i < n; i++)
            assert_int_equal(asinhs[i], half_from_f32((float)asinh(x[i])));
        half_log(positive, n, logs);
        for (int i = 0; i < n; i++)
            assert_int_equal(logs[i], half_from_f32((float)log(positive[i])));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_signal_is_in_proportion_to_its_decaying_mean_square),
        cmocka_unit_test(the_envelope_is_the_last_second_in_proportion_to_the_last_minutes),
        cmocka_unit_test(an_artefact_does_not_hide_the_next_minutes),
        cmocka_unit_test(silence_of_any_length_ends),
        cmocka_unit_test(many_asinh_and_log_have_the_bits_of_libm),
        cmocka_unit_test(held_rows_leave_the_history_as_it_was),
        cmocka_unit_test(chunks_and_snapshots_change_no_bit),
        cmocka_unit_test(rows_begin_with_the_microvolt_of_before_and_restart_with_a_segment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
