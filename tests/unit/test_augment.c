/* Random changes of training windows: pure functions of seed, epoch and place; what they do to a window; and the op that does it,
 * on BRR_TEST_DEVICE. */

#include "base/rng.h"
#include "kernels/op.h"
#include "unit/cmocka_all.h"
#include "windows/augment.h"

enum { B = 5, T = 300, MOST = 2 * 19, WINDOW = 2048 };

static struct err err;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static const struct augment_config all = {
    .enabled = true, .jitter = true, .mirror = 0.5, .drop_channels = 0.1, .gain = 2, .left_pad = 0.3};

static struct augment make(const char *montage, int normalize, uint64_t seed) {
    struct augment a;
    ok(augment_init(&a, &all, &(struct frontend_config){.montage = montage, .normalize = normalize}, WINDOW, seed, &err));
    return a;
}

static void left_and_right_are_exchanged_in_every_montage(void **state) {
    (void)state;
    static const char *const montages[] = {"referential-19", "bipolar-18"};
    for (int m = 0; m < 2; m++) {
        struct augment a = make(montages[m], FRONTEND_ENVELOPE, 1);
        const char *const *names = NULL;
        int n = 0, middle = 0;
        ok(montage_channels(montages[m], &names, &n, &err));
        assert_true(a.mirrors && a.inputs == 2 * n);
        for (int c = 0; c < n; c++) {
            assert_int_equal(a.partner[a.partner[c]], c);
            assert_int_equal(a.partner[n + c], n + a.partner[c]);
            middle += a.partner[c] == c;
            if (!strcmp(names[c], "Fp1") || !strcmp(names[c], "T5-O1"))
                assert_string_equal(names[a.partner[c]], m ? "T6-O2" : "Fp2");
        }
        assert_int_equal(middle, m ? 2 : 3);
        montage_channels_free(names);
    }
    struct augment lopsided = make("custom:Fp1,F3,Cz", FRONTEND_WINDOW, 1);
    assert_false(lopsided.mirrors); /* F4 is missing */
    float factor[3];
    for (int i = 0; i < 50; i++) {
        struct augment_draw draw = {.factor = factor};
        augment_draw(&lopsided, 0, i, &draw);
        assert_int_equal(draw.mirrored, 0);
    }
}

static void a_draw_depends_on_seed_epoch_and_place_alone(void **state) {
    (void)state;
    struct augment a = make("bipolar-18", FRONTEND_ENVELOPE, 7), other = make("bipolar-18", FRONTEND_ENVELOPE, 8);
    float f[36], g[36], h[36], k[36];
    int same = 0;
    for (int i = 0; i < 100; i++) {
        struct augment_draw once = {.factor = f}, again = {.factor = g}, epoch = {.factor = h}, seed = {.factor = k};
        augment_draw(&a, 3, i, &once);
        augment_draw(&a, 3, (i + 50) % 100, &again); /* in any order */
        augment_draw(&a, 3, i, &again);
        augment_draw(&a, 4, i, &epoch);
        augment_draw(&other, 3, i, &seed);
        assert_memory_equal(f, g, sizeof f);
        assert_true(once.mirrored == again.mirrored && once.pad == again.pad);
        same += !memcmp(f, h, sizeof f) + !memcmp(f, k, sizeof f);
        assert_int_equal(augment_jitter(7, 3, i, 256), augment_jitter(7, 3, i, 256));
    }
    assert_int_equal(same, 0);
}

static void draws_have_the_shares_that_were_asked_for(void **state) {
    (void)state;
    enum { N = 4000 };
    struct augment a = make("bipolar-18", FRONTEND_ENVELOPE, 11);
    float factor[36];
    double mirrored = 0, padded = 0, dropped = 0, low = 9, high = 0, reach = 0;
    for (int i = 0; i < N; i++) {
        struct augment_draw draw = {.factor = factor};
        augment_draw(&a, 0, i, &draw);
        mirrored += draw.mirrored;
        padded += draw.pad > 0;
        assert_true(draw.pad >= 0 && draw.pad < WINDOW * AUGMENT_PAD_SHARE);
        for (int c = 0; c < 18; c++) {
            dropped += factor[c] == 0;
            assert_true(factor[18 + c] == (factor[c] != 0));
            low = factor[c] > 0 && (double)factor[c] < low ? (double)factor[c] : low;
            high = (double)factor[c] > high ? (double)factor[c] : high;
        }
        double jitter = (double)augment_jitter(5, 1, i, 256);
        assert_true(fabs(jitter) <= 128);
        reach = fmax(reach, fabs(jitter));
    }
    assert_true(fabs(mirrored / N - 0.5) < 0.05 && fabs(padded / N - 0.3) < 0.05 && fabs(dropped / (18.0 * N) - 0.1) < 0.01);
    assert_true(low >= 0.5 && low < 0.51 && high <= 2 && high > 1.95 && reach > 120);
}

static void up_to_so_many_channels_are_taken_away_in_half_of_the_windows(void **state) {
    enum { N = 2000, MOST_MISSING = 10 };
    (void)state;
    struct augment a = make("bipolar-18", FRONTEND_BASELINES, 3);
    float factor[37];
    int windows = 0, sizes[MOST_MISSING + 1] = {0}, of_channel[18] = {0};
    a.config.drop_channels = 0;
    a.config.most_missing = MOST_MISSING;
    for (int i = 0; i < N; i++) {
        struct augment_draw draw = {.factor = factor};
        int gone = 0;
        augment_draw(&a, 0, i, &draw);
        for (int c = 0; c < 18; c++) {
            assert_true((factor[c] == 0) == (factor[18 + c] == 0) && a.partner[18 + c] == 18 + a.partner[c]);
            gone += factor[c] == 0;
            of_channel[c] += factor[c] == 0;
        }
        assert_true(gone <= MOST_MISSING && factor[36] == 1 && a.partner[36] == 36);
        windows += gone > 0;
        sizes[gone]++;
    }
    assert_true(abs(windows - N / 2) < 100);
    for (int k = 1; k <= MOST_MISSING; k++)
        assert_true(abs(sizes[k] - N / 20) < 50);
    for (int c = 0; c < 18; c++) /* 5.5 of 18 in half of them */
        assert_true(abs(of_channel[c] - 306) < 90);
    a.config.most_missing = 18;
    assert_int_equal(augment_init(&a, &a.config, &(struct frontend_config){.montage = "bipolar-18"}, WINDOW, 1, &err), ERR_INVALID);
}

/* The op against its definition. */
static void windows_are_changed_as_was_drawn(void **state) {
    (void)state;
    static float x[B * T * MOST], want[B * T * MOST], factor[B * MOST];
    static uint8_t labels[B * T], expected[B * T];
    static const int32_t pad[B] = {0, 7, 0, T, 299}, mirrored[B] = {0, 1, 1, 1, 0};
    struct augment a = make("referential-19", FRONTEND_ENVELOPE, 3);
    struct rng rng;
    rng_init(&rng, 9, RNG_SYNTH, 0);
    for (int i = 0; i < B * T * MOST; i++)
        x[i] = (float)rng_normal(&rng);
    for (int i = 0; i < B * MOST; i++)
        factor[i] = i % 7 ? (float)rng_uniform(&rng) + 0.5f : 0;
    for (int i = 0; i < B * T; i++)
        labels[i] = (uint8_t)(i % 3);
    for (int b = 0; b < B; b++)
        for (int t = 0; t < T; t++) {
            bool padding = t < pad[b];
            expected[b * T + t] = padding ? 2 : labels[b * T + t];
            for (int c = 0; c < MOST; c++)
                want[(b * T + t) * MOST + c] =
                    padding ? 0 : x[(b * T + t) * MOST + (mirrored[b] ? a.partner[c] : c)] * factor[b * MOST + c];
        }
    const char *name = getenv("BRR_TEST_DEVICE");
    struct device *device = NULL;
    struct stream *s = NULL;
    ok(device_open(name ? name : "cpu", 0, &device, &err));
    ok(stream_open(device, STREAM_NORMAL, &s, &err));
    const struct {
        const void *data;
        size_t bytes;
    } in[] = {{x, sizeof x},
              {labels, sizeof labels},
              {factor, sizeof factor},
              {a.partner, MOST * sizeof *a.partner},
              {mirrored, sizeof mirrored},
              {pad, sizeof pad}};
    void *there[6];
    for (int i = 0; i < 6; i++) {
        ok(device_alloc(device, in[i].bytes, &there[i], &err));
        ok(stream_to_device(s, there[i], in[i].data, in[i].bytes, &err));
    }
    struct augment_args args = {.x = tensor_3d(there[0], DTYPE_F32, B, T, MOST),
                                .labels = tensor_2d(there[1], DTYPE_U8, B, T),
                                .factor = tensor_2d(there[2], DTYPE_F32, B, MOST),
                                .partner = there[3],
                                .mirrored = there[4],
                                .pad = there[5]};
    ok(op_augment(s, &args, &err));
    ok(stream_to_host(s, x, there[0], sizeof x, &err));
    ok(stream_to_host(s, labels, there[1], sizeof labels, &err));
    ok(stream_sync(s, &err));
    for (int i = 0; i < B * T * MOST; i++)
        assert_true(x[i] == want[i]);
    assert_memory_equal(labels, expected, sizeof labels);
    args.pad = NULL;
    assert_int_equal(op_augment(s, &args, &err), ERR_INVALID);
    for (int i = 0; i < 6; i++)
        device_free(device, there[i]);
    stream_close(s);
    device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left_and_right_are_exchanged_in_every_montage),
        cmocka_unit_test(a_draw_depends_on_seed_epoch_and_place_alone),
        cmocka_unit_test(draws_have_the_shares_that_were_asked_for),
        cmocka_unit_test(up_to_so_many_channels_are_taken_away_in_half_of_the_windows),
        cmocka_unit_test(windows_are_changed_as_was_drawn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
