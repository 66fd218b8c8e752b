#include <complex.h>

#include "base/subnormals.h"
#include "eeg/dsp.h"
#include "eeg/dsp_kernel.h"
#include "eeg/half.h"
#include "eeg/half_rows.h"
#include "skip.h"
#include "unit/cmocka_all.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static double complex response(const struct dsp_section *sections, int n, double hz) {
    double complex z = cexp(-I * 2 * M_PI * hz / 256), h = 1;
    for (int s = 0; s < n; s++)
        h *= (sections[s].b[0] + sections[s].b[1] * z + sections[s].b[2] * z * z) /
             (1 + sections[s].a[1] * z + sections[s].a[2] * z * z);
    return h;
}

struct point {
    double hz, re, im;
};

static void assert_response(const struct dsp_section *sections, int n, const struct point *points, int n_points) {
    for (int i = 0; i < n_points; i++)
        assert_true(cabs(response(sections, n, points[i].hz) - (points[i].re + I * points[i].im)) < 1e-9);
}

/* Numbers from scipy.signal 1.10: butter(3, [lo, hi], 'bandpass', fs=256, output='sos') and sosfreqz. */
static void the_band_pass_is_the_butterworth_of_scipy(void **state) {
    (void)state;
    static const struct point wide[] = {{0.3, -0.20280555197392, -0.057838893285115}, {0.5, -0.499999999998864, 0.499999999999719},
                                        {1, 0.494213496345324, 0.860543996357439},    {10, 0.997168812687259, 0.0751954531016909},
                                        {60, 0.986371588128524, -0.164531983966281},  {120, -0.499999999999998, -0.499999999999998},
                                        {125, -0.036208688343544, 0.0375247336495153}};
    static const struct point narrow[] = {{5, -0.01930060818132, -0.0255447736569127},
                                          {8, -0.499999999999996, 0.499999999999999},
                                          {10, 0.986385734702737, 0.164447155567263},
                                          {13, -0.499999999999999, -0.500000000000002},
                                          {30, -0.0021148964436041, 0.00554776342600193}};
    struct dsp_section s[3];
    assert_int_equal(dsp_bandpass(0.5, 120, 256, s, NULL), 0);
    assert_response(s, 3, wide, COUNT(wide));
    assert_int_equal(dsp_bandpass(8, 13, 256, s, NULL), 0);
    assert_response(s, 3, narrow, COUNT(narrow));
    assert_int_equal(dsp_bandpass(0, 120, 256, s, NULL), ERR_INVALID);
    assert_int_equal(dsp_bandpass(0.5, 128, 256, s, NULL), ERR_INVALID);
    assert_int_equal(dsp_bandpass(30, 20, 256, s, NULL), ERR_INVALID);
}

static void the_notch_has_the_published_coefficients(void **state) {
    (void)state;
    struct dsp_section s;
    assert_int_equal(dsp_notch(50, 30, 256, &s, NULL), 0);
    const double b[3] = {.97995413, -.66027320, .97995413}, a[3] = {1, -.66027320, .95990825};
    for (int k = 0; k < 3; k++)
        assert_true(fabs(s.b[k] - b[k]) < 5e-9 && fabs(s.a[k] - a[k]) < 5e-9);
    assert_int_equal(dsp_notch(60, 30, 256, &s, NULL), 0);
    assert_true(fabs(s.b[1] + 0.191337215657) < 1e-11 && fabs(s.a[2] - 0.952079146701) < 1e-11);
    assert_int_equal(dsp_notch(128, 30, 256, &s, NULL), ERR_INVALID);
}

static void a_settled_cascade_answers_a_constant_with_silence(void **state) {
    (void)state;
    struct dsp_section sections[4];
    struct dsp_cascade c;
    double *rows = dsp_rows(1000, 8);
    assert_int_equal(dsp_bandpass(0.5, 120, 256, sections, NULL), 0);
    assert_int_equal(dsp_notch(50, 30, 256, &sections[3], NULL), 0);
    assert_int_equal(dsp_cascade_init(&c, sections, 4, 8, NULL), 0);
    for (int i = 0; i < 8000; i++)
        rows[i] = 1000.0 * (1 + i % 8);
    dsp_cascade_settle(&c, rows);
    dsp_cascade_run(&c, rows, 1000);
    for (int i = 0; i < 8000; i++)
        assert_true(fabs(rows[i]) < 1e-6);
    dsp_cascade_done(&c);
    free(rows);
}

/* Resample n source rows in pieces; returns the outputs of lane 0 (malloc'd). */
static double *resample(double rate, int64_t first, const double *x, int64_t n, int64_t chunk, int64_t *ret_n, int64_t *ret_first) {
    struct resampler *r = NULL;
    double *rows = dsp_rows(DSP_BLOCK, 8), *pulled = dsp_rows(64, 8),
           *out = malloc(sizeof *out * (size_t)((double)n * 256 / rate + 16));
    uint8_t marks[64];
    int64_t total = 0, at, got;
    assert_int_equal(resampler_new(rate, 8, &r, NULL), 0);
    resampler_start(r, first);
    for (int64_t done = 0; done <= n;) {
        int64_t take = n - done < chunk ? n - done : chunk;
        for (int64_t i = 0; i < take; i++)
            for (int lane = 0; lane < 8; lane++)
                rows[8 * i + lane] = x[done + i] * (lane == 0 ? 1 : -lane);
        if (take)
            resampler_push(r, rows, take, false);
        else
            resampler_end(r);
        while ((got = resampler_pull(r, pulled, marks, 64, &at)) > 0) {
            if (!total)
                *ret_first = at;
            assert_int_equal(at, *ret_first + total);
            for (int64_t i = 0; i < got; i++) {
                out[total++] = pulled[8 * i];
                assert_true(pulled[8 * i + 4] == -4 * pulled[8 * i]);
            }
        }
        if (!take)
            break;
        done += take;
    }
    resampler_free(r);
    free(rows);
    free(pulled);
    *ret_n = total;
    return out;
}

static const double rates[] = {12.8, 63.0167, 100, 128, 160, 200, 250, 256, 400, 487.5, 499.5, 500, 512, 1000, 2000, 2048, 20000};

static void a_sine_comes_out_at_its_own_time_and_size(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(rates); k++) {
        double rate = rates[k], lower = rate < 256 ? rate : 256;
        int64_t n = (int64_t)(rate * 20), n_out, first = 0;
        double *x = malloc(sizeof *x * (size_t)n);
        static const double shares[] = {0.02, 0.2, 0.45, 0.468}; /* of the lower rate: up to 120 of 256 Hz */
        for (int s = 0; s < COUNT(shares); s++) {
            double hz = shares[s] * lower, worst = 0;
            for (int64_t i = 0; i < n; i++)
                x[i] = sin(2 * M_PI * hz * (double)i / rate + 0.3);
            double *y = resample(rate, 0, x, n, DSP_BLOCK, &n_out, &first);
            assert_int_equal(first, 0);
            assert_int_equal(n_out, (int64_t)ceil((double)n * 256 / rate - 1e-9));
            int64_t margin = (int64_t)(41 / lower * 256) + 1; /* edges hold the first and last value */
            for (int64_t i = margin; i < n_out - margin; i++)
                worst = fmax(worst, fabs(y[i] - sin(2 * M_PI * hz * (double)i / 256 + 0.3)));
            if (!(worst < 1e-3))
                fail_msg("%g Hz source, %g Hz sine: error %g", rate, hz, worst);
            free(y);
        }
        free(x);
    }
}

static void what_would_alias_is_removed(void **state) {
    (void)state;
    for (int k = 0; k < COUNT(rates); k++) {
        double rate = rates[k];
        if (rate < 400)
            continue;
        int64_t n = (int64_t)(rate * 4), n_out, first;
        double *x = malloc(sizeof *x * (size_t)n), worst = 0;
        for (int64_t i = 0; i < n; i++)
            x[i] = sin(2 * M_PI * 140 * (double)i / rate);
        double *y = resample(rate, 0, x, n, 177, &n_out, &first);
        for (int64_t i = 60; i < n_out - 60; i++)
            worst = fmax(worst, fabs(y[i]));
        assert_true(worst < 3e-4);
        free(y);
        free(x);
    }
}

static void a_constant_stays_exact_up_to_rounding_and_edges_are_held(void **state) {
    (void)state;
    double x[500];
    for (int i = 0; i < 500; i++)
        x[i] = 123456;
    for (int k = 0; k < COUNT(rates); k++) {
        int64_t n_out, first;
        double *y = resample(rates[k], 0, x, 500, 37, &n_out, &first);
        for (int64_t i = 0; i < n_out; i++)
            assert_true(fabs(y[i] - 123456) < 1e-9 * 123456);
        free(y);
    }
}

static void chunks_of_any_size_give_the_same_bits(void **state) {
    (void)state;
    static const int64_t chunks[] = {1, 7, 100, DSP_BLOCK};
    double x[3000];
    for (int i = 0; i < 3000; i++)
        x[i] = fmod(i * 7919.0, 997) - 500;
    for (int k = 0; k < COUNT(rates); k++) {
        double *reference = NULL;
        int64_t n_reference = 0;
        for (int c = 0; c < COUNT(chunks); c++) {
            int64_t n_out, first;
            double *y = resample(rates[k], 1001, x, rates[k] > 3000 ? 3000 : 1500, chunks[c], &n_out, &first);
            assert_int_equal(first, (int64_t)ceil(1001 * 256 / rates[k] - 1e-9));
            if (!reference) {
                reference = y;
                n_reference = n_out;
                continue;
            }
            assert_int_equal(n_out, n_reference);
            assert_memory_equal(y, reference, sizeof *y * (size_t)n_out);
            free(y);
        }
        free(reference);
    }
}

static void a_source_at_256_hz_passes_unchanged(void **state) {
    (void)state;
    double x[2000];
    int64_t n_out, first;
    for (int i = 0; i < 2000; i++)
        x[i] = i * 0.1;
    double *y = resample(256, 5, x, 2000, 133, &n_out, &first);
    assert_int_equal(n_out, 2000);
    assert_int_equal(first, 5);
    assert_memory_equal(x, y, sizeof x);
    free(y);
}

static void rates_become_the_nearest_small_fraction_or_are_refused(void **state) {
    (void)state;
    struct resampler *r = NULL;
    struct err err;
    assert_int_equal(resampler_new(0, 8, &r, &err), ERR_INVALID);
    assert_int_equal(resampler_new(NAN, 8, &r, &err), ERR_INVALID);
    assert_int_equal(resampler_new(1e9, 8, &r, &err), ERR_INVALID);
    int64_t up, down;
    assert_int_equal(resampler_new(487.5, 8, &r, NULL), 0);
    resampler_free(r);
    assert_int_equal(dsp_ratio(487.5, &up, &down, NULL), 0);
    assert_int_equal(up, 512);
    assert_int_equal(down, 975);
}

/* The rate that computes its taps anew is the costly one, however fast the machine; common rates cost nearly nothing beside it. */
static void a_rate_without_a_table_costs_the_most(void **state) {
    (void)state;
    const double odd = dsp_cost(65521.37, 1), tabled = dsp_cost(65536, 1), common = dsp_cost(512, 1);
    assert_true(odd > tabled && tabled > common && common > 0);
    assert_true(dsp_cost(256, 19) == 0);
    assert_true(dsp_cost(512, 32) > dsp_cost(512, 1));
    assert_true(isinf(dsp_cost(0.5, 1)) && isinf(dsp_cost(NAN, 1)));
    print_message("seconds of a processor per second of EEG: 65521.37 Hz %.3g, 65536 Hz %.3g, 512 Hz %.3g\n", odd, tabled, common);
}

static void instruction_sets_give_the_same_bits(void **state) {
    (void)state;
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl"))
        skip_because(SKIP_HARDWARE, "this CPU has no AVX-512");
    const struct dsp_kernel *wide[3] = {&dsp_kernel_baseline, &dsp_kernel_avx2, &dsp_kernel_avx512};
    enum { LANES = 40, ROWS = 300, SECTIONS = 5 };
    struct dsp_section sections[SECTIONS];
    double *rows[3], *state_of[3], *out[3], taps[ROWS];
    assert_int_equal(dsp_bandpass(1, 70, 256, sections, NULL), 0);
    assert_int_equal(dsp_notch(50, 30, 256, &sections[3], NULL), 0);
    assert_int_equal(dsp_notch(60, 30, 256, &sections[4], NULL), 0);
    for (int v = 0; v < 3; v++) {
        rows[v] = dsp_rows(ROWS, LANES);
        state_of[v] = dsp_rows(2 * SECTIONS, LANES);
        out[v] = dsp_rows(1, LANES);
        for (int i = 0; i < ROWS * LANES; i++)
            rows[v][i] = fmod(i * 7919.0, 997) / 7 - 70;
        for (int i = 0; i < ROWS; i++)
            taps[i] = 1.0 / (i + 3);
        wide[v]->fir(taps, ROWS, rows[v], LANES, out[v]);
        wide[v]->cascade(sections, SECTIONS, state_of[v], LANES, rows[v], ROWS);
    }
    for (int lane = 0; lane < LANES; lane++) { /* and plain scalar arithmetic */
        double sum = 0;
        for (int t = 0; t < ROWS; t++)
            sum += taps[t] * (fmod((t * LANES + lane) * 7919.0, 997) / 7 - 70);
        assert_true(sum == out[0][lane]);
    }
    for (int v = 1; v < 3; v++) {
        assert_memory_equal(rows[0], rows[v], sizeof(double) * ROWS * LANES);
        assert_memory_equal(state_of[0], state_of[v], sizeof(double) * 2 * SECTIONS * LANES);
        assert_memory_equal(out[0], out[v], sizeof(double) * LANES);
    }
    for (int v = 0; v < 3; v++) {
        free(rows[v]);
        free(state_of[v]);
        free(out[v]);
    }
}

static void halves_round_to_nearest_even_and_read_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7c00; h++) { /* every finite value, and what lies between it and the next */
        float low = half_to_f32((uint16_t)h), high = half_to_f32((uint16_t)(h + 1));
        assert_int_equal(half_from_f32(low), h);
        assert_int_equal(half_from_f32(-low), h | 0x8000);
        if (h + 1 == 0x7c00)
            break;
        float middle = (low + high) / 2;
        assert_int_equal(half_from_f32(middle), h + (h & 1));
        assert_int_equal(half_from_f32(nextafterf(middle, 0)), h);
        assert_int_equal(half_from_f32(nextafterf(middle, INFINITY)), h + 1);
    }
    assert_int_equal(half_from_f32(60000), 0x7b53);
    assert_int_equal(half_from_f32(65519), 0x7bff);
    assert_int_equal(half_from_f32(65520), 0x7c00);
    assert_int_equal(half_from_f32(INFINITY), 0x7c00);
    assert_true(isnan(half_to_f32(half_from_f32(NAN))));
    assert_true(half_to_f32(1) == 0x1p-24f);
}

static void rows_of_halves_are_converted_as_each_is(void **state) {
    enum { ALL = 1 << 16, MOST = 19 };
    static uint16_t halves[ALL], back[ALL];
    static float floats[ALL];
    (void)state;
    for (int flushed = 0; flushed < 2; flushed++) {
        unsigned was = flushed ? subnormals_flush() : subnormals_keep();
        for (int h = 0; h < ALL; h++)
            halves[h] = (uint16_t)h;
        for (size_t at = 0, n = 1; at < ALL; at += n, n = n % MOST + 1)
            half_to_floats(halves + at, n < ALL - at ? n : ALL - at, floats + at);
        half_from_floats(floats, ALL, back);
        for (int h = 0; h < ALL; h++) {
            const float f = half_to_f32((uint16_t)h);
            assert_true(isnan(f) ? isnan(floats[h]) : !memcmp(&f, &floats[h], sizeof f));
            assert_true(isnan(f) ? isnan(half_to_f32(back[h])) : back[h] == h);
        }
        for (int h = 0; h < ALL; h++) { /* and what lies between: a float with these upper bits */
            const uint32_t bits = (uint32_t)h << 16 | (uint32_t)h * 40503u % 65536;
            memcpy(&floats[h], &bits, sizeof bits);
        }
        for (size_t at = 0, n = 1; at < ALL; at += n, n = n % MOST + 1)
            half_from_floats(floats + at, n < ALL - at ? n : ALL - at, back + at);
        for (int h = 0; h < ALL; h++)
            assert_int_equal(back[h], half_from_f32(floats[h]));
        subnormals_restore(was);
    }
}

/* Rows of any width and stride, at the very end of their memory, and what lies beyond the limit. */
static void blocks_of_rows_are_converted_as_each_value_is(void **state) {
    enum { ROWS = 5, MOST = 27, EXTRA = 3 };
    (void)state;
    for (int channels = 1; channels <= MOST; channels++)
        for (int stride = channels; stride <= channels + EXTRA; stride++) {
            const size_t size = (size_t)((ROWS - 1) * stride + channels), lanes = (size_t)dsp_lanes(channels);
            OWNED_MEMORY uint16_t *halves = malloc(size * sizeof *halves);
            OWNED_MEMORY double *values = malloc(ROWS * lanes * sizeof *values);
            const struct half_rows rows = {halves, stride, channels, ROWS};
            for (size_t i = 0; i < size; i++)
                halves[i] = (uint16_t)(i * 40503u % 0x7c00 | (i % 3 ? 0 : 0x8000));
            half_rows_to_doubles(&rows, values);
            for (size_t i = 0; i < ROWS * lanes; i++) {
                const size_t row = i / lanes, c = i % lanes;
                const double is = c < (size_t)channels ? (double)half_to_f32(halves[row * (size_t)stride + c]) : 0;
                assert_memory_equal(&is, &values[i], sizeof is);
                values[i] = i % 11 == 3 ? 1e6 : i % 11 == 7 ? -1e6 : values[i] * 1.0003;
            }
            half_rows_clamped(values, 1000, &rows);
            for (int i = 0; i < ROWS * channels; i++) {
                const double v = values[(size_t)(i / channels) * lanes + (size_t)(i % channels)];
                const uint16_t is = half_from_f32((float)fmin(fmax(v, -1000), 1000));
                assert_int_equal(halves[i / channels * stride + i % channels], is);
            }
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_band_pass_is_the_butterworth_of_scipy),
        cmocka_unit_test(the_notch_has_the_published_coefficients),
        cmocka_unit_test(a_settled_cascade_answers_a_constant_with_silence),
        cmocka_unit_test(a_sine_comes_out_at_its_own_time_and_size),
        cmocka_unit_test(what_would_alias_is_removed),
        cmocka_unit_test(a_constant_stays_exact_up_to_rounding_and_edges_are_held),
        cmocka_unit_test(chunks_of_any_size_give_the_same_bits),
        cmocka_unit_test(a_source_at_256_hz_passes_unchanged),
        cmocka_unit_test(rates_become_the_nearest_small_fraction_or_are_refused),
        cmocka_unit_test(a_rate_without_a_table_costs_the_most),
        cmocka_unit_test(instruction_sets_give_the_same_bits),
        cmocka_unit_test(halves_round_to_nearest_even_and_read_back),
        cmocka_unit_test(rows_of_halves_are_converted_as_each_is),
        cmocka_unit_test(blocks_of_rows_are_converted_as_each_value_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
