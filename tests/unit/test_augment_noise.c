/* Noise and missing bands of training windows: pure functions of seed, epoch and place; what is in the tables; and the op that adds
 * them, on BRR_TEST_DEVICE. */

#include "base/rng.h"
#include "kernels/op.h"
#include "unit/cmocka_all.h"
#include "windows/augment_noise.h"

enum { B = 4, T = 700, SIGNALS = 5, COLUMNS = 11, WINDOW = 2048, CHANNELS = 18 };

static struct err err;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static struct augment make(double muscle, double mains, double band_stop, uint64_t seed) {
    const struct augment_config config = {
        .enabled = true, .gain = 1, .muscle = muscle, .mains = mains, .band_stop = band_stop, .noise = 0.5};
    struct augment a;
    ok(augment_init(&a, &config, &(struct frontend_config){.montage = "bipolar-18", .normalize = FRONTEND_ENVELOPE}, WINDOW, seed,
                    &err));
    return a;
}

static void noise_depends_on_seed_epoch_and_place_alone(void **state) {
    (void)state;
    struct augment a = make(1, 1, 1, 7), other = make(1, 1, 1, 8);
    for (int i = 0; i < 100; i++) {
        struct augment_noise once, again, epoch, seed, next;
        augment_noise_draw(&a, 3, i, &once);
        augment_noise_draw(&a, 3, (i + 50) % 100, &again); /* in any order */
        augment_noise_draw(&a, 3, i, &again);
        augment_noise_draw(&a, 4, i, &epoch);
        augment_noise_draw(&a, 3, i + 1, &next);
        augment_noise_draw(&other, 3, i, &seed);
        assert_memory_equal(&once, &again, sizeof once);
        assert_true(memcmp(&once, &epoch, sizeof once) && memcmp(&once, &seed, sizeof once) && memcmp(&once, &next, sizeof once));
    }
}

static void noise_has_the_shares_that_were_asked_for(void **state) {
    (void)state;
    enum { N = 4000 };
    struct augment a = make(0.25, 0.5, 0.75, 11);
    double muscle = 0, fifty = 0, sixty = 0, stops = 0, hit = 0, loudest = 0;
    for (int i = 0; i < N; i++) {
        struct augment_noise noise;
        augment_noise_draw(&a, 0, i, &noise);
        bool bursts = noise.period > 0;
        assert_true(!bursts || (noise.length >= 64 && noise.length < 512 && noise.period >= 256 && noise.period < 2560 &&
                                noise.burst >= 0 && noise.burst < noise.period));
        muscle += bursts;
        fifty += noise.step == 200;
        sixty += noise.step == 240;
        stops += noise.band[0] != 0;
        for (int c = 0; c < CHANNELS; c++) {
            const struct augment_noise_channel *k = &noise.channels[c];
            assert_true(k->offset >= 0 && k->offset < AUGMENT_NOISE_SAMPLES && k->phase >= 0 && k->phase < AUGMENT_WAVE_SAMPLES);
            assert_true((bursts || k->muscle == 0) && (noise.step || k->mains == 0));
            hit += k->muscle > 0;
            loudest = fmax(loudest, fmax((double)k->muscle, (double)k->mains));
        }
    }
    assert_true(fabs(muscle / N - 0.25) < 0.03 && fabs(stops / N - 0.75) < 0.03);
    assert_true(fabs(fifty / N - 0.25) < 0.03 && fabs(sixty / N - 0.25) < 0.03);
    assert_true(fabs(hit / (muscle * CHANNELS) - 1.0 / 3) < 0.03);
    assert_true(loudest <= 0.5 && loudest > 0.49);
}

/* Power of the table at frequency bin k. */
static double power_at(const float *x, int k) {
    double re = 0, im = 0;
    for (int i = 0; i < AUGMENT_NOISE_SAMPLES; i++) {
        double angle = 2 * M_PI * (double)((int64_t)k * i % AUGMENT_NOISE_SAMPLES) / AUGMENT_NOISE_SAMPLES;
        re += (double)x[i] * cos(angle);
        im += (double)x[i] * sin(angle);
    }
    return re * re + im * im;
}

static void muscle_noise_lies_between_20_and_100_hz(void **state) {
    (void)state;
    static float noise[AUGMENT_NOISE_SAMPLES], again[AUGMENT_NOISE_SAMPLES], wave[AUGMENT_WAVE_SAMPLES];
    double sum = 0, inside = 0, outside = 0;
    ok(augment_noise_tables(3, noise, wave, &err));
    ok(augment_noise_tables(3, again, wave, &err));
    assert_memory_equal(noise, again, sizeof noise);
    for (int i = 0; i < AUGMENT_NOISE_SAMPLES; i++)
        sum += (double)noise[i] * (double)noise[i];
    assert_true(fabs(sum / AUGMENT_NOISE_SAMPLES - 1) < 1e-5);
    for (int k = 1; k < AUGMENT_NOISE_SAMPLES / 2; k += 37) { /* 32 bins per Hz */
        double hz = k / 32.0, power = power_at(noise, k);
        if (hz > 25 && hz < 90)
            inside = fmax(inside, power);
        if (hz < 8 || hz > 120)
            outside = fmax(outside, power);
    }
    assert_true(outside < 0.05 * inside); /* no seam either: it would be white */
    for (int i = 0; i < AUGMENT_WAVE_SAMPLES; i++)
        assert_true(fabs((double)wave[i] - M_SQRT2 * sin(2 * M_PI * i / AUGMENT_WAVE_SAMPLES)) < 1e-6);
}

/* A sine in the middle of the band vanishes, one far from it stays. */
static void a_missing_band_is_missing(void **state) {
    (void)state;
    struct augment a = make(0, 0, 1, 5);
    for (int i = 0; i < 50; i++) {
        struct augment_noise noise;
        augment_noise_draw(&a, 0, i, &noise);
        const float *b = noise.band;
        double zero = acos(fmin(1, fmax(-1, -(double)b[1] / (2 * (double)b[0])))); /* radians per sample */
        for (int far = 0; far < 2; far++) {
            double s0 = 0, s1 = 0, power = 0, w = !far ? zero : zero > 1 ? 0.01 : 3;
            for (int t = 0; t < 6000; t++) {
                double v = sin(w * t), y = (double)b[0] * v + s0;
                s0 = (double)b[1] * v - (double)b[3] * y + s1;
                s1 = (double)b[2] * v - (double)b[4] * y;
                power += t >= 3000 ? y * y / 3000 : 0;
            }
            assert_true(far ? power > 0.3 : power < 1e-4);
        }
    }
}

/* The definition in op.h, with the rounding of float. */
static void change(float *x, const struct noise_window *w, const struct noise_channel *k, const float *noise, const float *wave) {
    float s0 = 0, s1 = 0;
    for (int t = w->first; t < w->end; t++) {
        float ramp = 0;
        int at = w->period && t >= w->burst ? (t - w->burst) % w->period : INT32_MAX;
        if (at < w->length)
            ramp = fminf(fminf((float)(at + 1), (float)(w->length - at)), (float)NOISE_RAMP) / (float)NOISE_RAMP;
        volatile float muscle = k->muscle * ramp, mains = k->mains * wave[(k->phase + t * w->step) % NOISE_WAVE];
        muscle = muscle * noise[(k->offset + t) % NOISE_SAMPLES];
        volatile float v = x[t * COLUMNS] + muscle;
        v = v + mains;
        volatile float p = w->band[0] * v, y = p + s0, q = w->band[1] * v, r = w->band[3] * y;
        volatile float difference = q - r;
        s0 = difference + s1;
        q = w->band[2] * v;
        r = w->band[4] * y;
        s1 = q - r;
        x[t * COLUMNS] = w->band[0] != 0 ? y : v;
    }
}

static void windows_get_the_noise_that_was_drawn(void **state) {
    (void)state;
    static float x[B * T * COLUMNS], want[B * T * COLUMNS], noise[NOISE_SAMPLES], wave[NOISE_WAVE];
    static const struct noise_window windows[B] = {
        {.first = 0, .end = T, .burst = 5, .length = 200, .period = 300, .step = 200, .band = {0.9F, -1.5F, 0.9F, -1.5F, 0.8F}},
        {.first = 123, .end = 650, .burst = 256, .length = 70, .period = 257, .step = 240},
        {.first = 700, .end = 700, .step = 200},
        {.first = 1, .end = 2, .band = {0.9F, 0, 0.9F, 0, 0.8F}},
    };
    static struct noise_channel channels[B * SIGNALS];
    ok(augment_noise_tables(3, noise, wave, &err));
    struct rng rng;
    rng_init(&rng, 9, RNG_SYNTH, 0);
    for (int i = 0; i < B * T * COLUMNS; i++)
        want[i] = x[i] = (float)rng_normal(&rng);
    for (int i = 0; i < B * SIGNALS; i++)
        channels[i] = (struct noise_channel){(float)(i % 3), (float)(i % 4) * 0.3F, (int32_t)rng_below(&rng, NOISE_SAMPLES),
                                             (int32_t)rng_below(&rng, NOISE_WAVE)};
    for (int b = 0; b < B; b++)
        for (int c = 0; c < SIGNALS; c++)
            change(want + b * T * COLUMNS + c, &windows[b], &channels[b * SIGNALS + c], noise, wave);
    const char *name = getenv("BRR_TEST_DEVICE");
    struct device *device = NULL;
    struct stream *s = NULL;
    ok(device_open(name ? name : "cpu", 0, &device, &err));
    ok(stream_open(device, STREAM_NORMAL, &s, &err));
    const struct {
        const void *data;
        size_t bytes;
    } in[] = {{x, sizeof x}, {windows, sizeof windows}, {channels, sizeof channels}, {noise, sizeof noise}, {wave, sizeof wave}};
    void *there[5];
    for (int i = 0; i < 5; i++) {
        ok(device_alloc(device, in[i].bytes, &there[i], &err));
        ok(stream_to_device(s, there[i], in[i].data, in[i].bytes, &err));
    }
    struct noise_args args = {.x = tensor_3d(there[0], DTYPE_F32, B, T, COLUMNS),
                              .signals = SIGNALS,
                              .windows = there[1],
                              .channels = there[2],
                              .noise = there[3],
                              .wave = there[4]};
    ok(op_noise(s, &args, &err));
    ok(stream_to_host(s, x, there[0], sizeof x, &err));
    ok(stream_sync(s, &err));
    for (int i = 0; i < B * T * COLUMNS; i++)
        assert_true(x[i] == want[i]);
    args.signals = COLUMNS + 1;
    assert_int_equal(op_noise(s, &args, &err), ERR_INVALID);
    args.signals = SIGNALS;
    args.wave = NULL;
    assert_int_equal(op_noise(s, &args, &err), ERR_INVALID);
    for (int i = 0; i < 5; i++)
        device_free(device, there[i]);
    stream_close(s);
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_depends_on_seed_epoch_and_place_alone), cmocka_unit_test(noise_has_the_shares_that_were_asked_for),
        cmocka_unit_test(muscle_noise_lies_between_20_and_100_hz),     cmocka_unit_test(a_missing_band_is_missing),
        cmocka_unit_test(windows_get_the_noise_that_was_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
