/* op_hysteresis, op_morphology and detect/finder against the sample-by-sample rules of detect/events, sample for sample, over
 * random traces: values at and beside the thresholds, gaps, runs of just the lengths that count, at the ends of segments too.
 * BRR_TEST_DEVICE names another device than the CPU; fewer traces with BRR_TEST_MODEL=mini, for an emulated one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "detect/finder.h"
#include "kernels/op.h"
#include "seed.h"

enum { MOST = 20000, ROWS = 3 };

static struct err err;
static int rounds; /* an emulated device is slow */
static struct device *device;
static struct stream *stream;
static void *device_p, *device_mask, *device_thresholds;
static float p[ROWS * MOST];
static uint8_t mask[ROWS * MOST], want[MOST];

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}

static int open_place(void **state) {
    (void)state;
    const char *name = getenv("BRR_TEST_DEVICE"), *emulated = getenv("BRR_TEST_MODEL");
    rounds = emulated && !strcmp(emulated, "mini") ? 100 : 3000;
    return device_open(name ? name : "cpu", 0, &device, &err) || stream_open(device, STREAM_NORMAL, &stream, &err) ||
           device_alloc(device, sizeof p, &device_p, &err) || device_alloc(device, sizeof mask, &device_mask, &err) ||
           device_alloc(device, 2 * ROWS * sizeof(double), &device_thresholds, &err);
}

static int close_place(void **state) {
    (void)state;
    device_free(device, device_p);
    device_free(device, device_mask);
    device_free(device, device_thresholds);
    stream_close(stream);
    device_close(device);
    return 0;
}

static int64_t below(struct rng *rng, int64_t n) { return (int64_t)rng_below(rng, (uint64_t)n); }

/* Runs of levels around the thresholds, or of gaps, many of them as long as what is counted to. */
static void draw(struct rng *rng, const struct events_config *c, float *to, int64_t n) {
    const int64_t lengths[] = {1, c->min_onset, c->min_offset, c->opening, c->closing, c->opening / 2, c->closing / 2};
    const float levels[] = {(float)c->on, nextafterf((float)c->on, 0), (float)c->off, nextafterf((float)c->off, 0), 0, 1, NAN};
    bool gaps = below(rng, 2);
    for (int64_t i = 0; i < n;) {
        int64_t length = below(rng, 4) ? lengths[below(rng, 7)] + below(rng, 3) - 1 : below(rng, 200);
        float level = levels[below(rng, below(rng, gaps ? 4 : 1 << 20) ? 6 : 7)];
        for (; length > 0 && i < n; length--, i++)
            to[i] = level;
    }
}

/* Thresholds that floats hit exactly, and some that lie between two of them. */
static struct events_config draw_rules(struct rng *rng) {
    struct events_config c;
    events_config_default(&c);
    c.on = below(rng, 2) ? 0.5 : 0.86;
    c.off = below(rng, 3) ? c.on * 0.75 : c.on;
    c.min_onset = 1 + below(rng, below(rng, 2) ? 4 : 130);
    c.min_offset = 1 + below(rng, below(rng, 2) ? 4 : 260);
    c.opening = 1 + 2 * below(rng, below(rng, 2) ? 3 : 60);
    c.closing = 1 + 2 * below(rng, below(rng, 2) ? 3 : 60);
    return c;
}

/* The same rules without what comes after morphology. */
static struct events_config bare(const struct events_config *c) {
    struct events_config b = *c;
    b.min_duration_s = b.merge_gap_s = 0;
    b.max_duration_s = 86400;
    return b;
}

static void expect(const struct events_config *c, const float *row, int64_t n) {
    struct events_config b = bare(c);
    struct event *events = NULL;
    int64_t count = 0;
    ok(events_find(&b, row, n, &events, &count, &err));
    for (int64_t i = 0; i < n; i++)
        want[i] = isnan(row[i]) ? MASK_GAP : MASK_OFF;
    for (int64_t i = 0; i < count; i++)
        memset(want + events[i].first, MASK_ON, (size_t)(events[i].end - events[i].first));
    free(events);
}

/* Rows of n; p_rows 1: all of the first row. */
static void compute(const struct events_config *c, const struct events_config *rows, int64_t n, int p_rows) {
    double thresholds[2 * ROWS];
    for (int r = 0; r < ROWS; r++) {
        thresholds[r] = rows[r].on;
        thresholds[ROWS + r] = rows[r].off;
    }
    const double *on = device_thresholds;
    struct hysteresis_args latch = {.p = tensor_2d(device_p, DTYPE_F32, p_rows, n),
                                    .mask = tensor_2d(device_mask, DTYPE_U8, ROWS, n),
                                    .on = on,
                                    .off = on + ROWS,
                                    .min_onset = c->min_onset,
                                    .min_offset = c->min_offset};
    struct morphology_args shape = {.mask = latch.mask, .opening = c->opening, .closing = c->closing};
    ok(stream_to_device(stream, device_p, p, (size_t)(p_rows * n) * sizeof *p, &err));
    ok(stream_to_device(stream, device_thresholds, thresholds, sizeof thresholds, &err));
    ok(op_hysteresis(stream, &latch, &err));
    ok(op_morphology(stream, &shape, &err));
    ok(stream_to_host(stream, mask, device_mask, (size_t)(ROWS * n), &err));
    ok(stream_sync(stream, &err));
}

static void masks_are_those_of_the_rules_sample_by_sample(void **state) {
    (void)state;
    struct rng rng;
    uint64_t seed = test_seed();
    int64_t on = 0;
    rng_init(&rng, seed, 1, 0);
    for (int round = 0; round < rounds; round++) {
        int64_t n = 1 + below(&rng, round % 20 ? 2000 : MOST);
        int shared = round % 3 == 0;
        struct events_config c = draw_rules(&rng), rows[ROWS];
        for (int r = 0; r < ROWS; r++) {
            rows[r] = c;
            rows[r].on = r ? c.on * (1 - 0.1 * r) : c.on;
            rows[r].off = r ? rows[r].on * 0.9 : c.off;
            draw(&rng, &rows[r], p + (shared ? 0 : r * n), n);
        }
        compute(&c, rows, n, shared ? 1 : ROWS);
        for (int r = 0; r < ROWS; r++) {
            expect(&rows[r], p + (shared ? 0 : r * n), n);
            for (int64_t i = 0; i < n; i++)
                if (mask[r * n + i] != want[i])
                    fail_msg("seed %llu, round %d, row %d, sample %lld of %lld: %d, expected %d", (unsigned long long)seed, round,
                             r, (long long)i, (long long)n, mask[r * n + i], want[i]);
            on += memchr(want, MASK_ON, (size_t)n) != NULL;
        }
    }
    assert_true(on > rounds / 2); /* there was something to find */
}

static void a_finder_finds_the_events_of_the_whole_rule(void **state) {
    (void)state;
    struct rng rng;
    struct finder *f = NULL;
    uint64_t seed = test_seed();
    int64_t found = 0;
    rng_init(&rng, seed, 2, 0);
    ok(finder_new(stream, &f, &err));
    for (int round = 0; round < rounds / 5; round++) {
        int64_t n = 1 + below(&rng, round % 10 ? 5000 : MOST);
        struct events_config c = draw_rules(&rng);
        struct finder_pair pairs[ROWS];
        c.min_duration_s = (double)below(&rng, 3) / 4;
        c.merge_gap_s = (double)below(&rng, 3) / 4;
        c.max_duration_s = 1 + (double)below(&rng, 4);
        c.lookback_s = (double)below(&rng, 3) / 2;
        c.confidence = (enum event_confidence)below(&rng, 3);
        if (round % 2)
            c.rejecter = (struct event_rejecter){.bias = (double)below(&rng, 5) - 2, .weights = {1, -0.5, (double)below(&rng, 3)}};
        if (round % 2) /* a valid one has thresholds, which a finder's pairs replace */
            c.rejecter.on = c.rejecter.off = 0.5;
        draw(&rng, &c, p, n);
        for (int r = 0; r < ROWS; r++)
            pairs[r] = (struct finder_pair){c.on * (1 - 0.1 * r), c.on * (1 - 0.1 * r) * (r ? 0.8 : 1)};
        ok(finder_load(f, p, n, &err));
        ok(finder_try(f, &c, pairs, ROWS, &err));
        for (int r = 0; r < ROWS; r++) {
            struct event *all = NULL, *expected = NULL;
            int64_t count = 0, n_expected = 0;
            ok(finder_events(f, r, &all, &count, &err));
            c.on = pairs[r].on;
            c.off = pairs[r].off;
            ok(events_find(&c, p, n, &expected, &n_expected, &err));
            assert_int_equal(count, n_expected);
            for (int64_t i = 0; i < count; i++)
                if (all[i].first != expected[i].first || all[i].end != expected[i].end ||
                    memcmp(&all[i].confidence, &expected[i].confidence, sizeof(float)) != 0)
                    fail_msg("seed %llu, round %d, pair %d: event %lld is [%lld, %lld), expected [%lld, %lld)",
                             (unsigned long long)seed, round, r, (long long)i, (long long)all[i].first, (long long)all[i].end,
                             (long long)expected[i].first, (long long)expected[i].end);
            found += count;
            free(all);
            free(expected);
        }
    }
    assert_true(found > rounds / 5);
    finder_free(f);
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    const double *on = device_thresholds;
    struct hysteresis_args latch = {.p = tensor_2d(device_p, DTYPE_F32, 2, 10),
                                    .mask = tensor_2d(device_mask, DTYPE_U8, 3, 10),
                                    .on = on,
                                    .off = on,
                                    .min_onset = 1,
                                    .min_offset = 1};
    assert_int_equal(op_hysteresis(stream, &latch, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "p is f32 (2,10)"));
    latch.p.dim[0] = 3;
    latch.min_offset = 0;
    assert_int_equal(op_hysteresis(stream, &latch, &err), ERR_INVALID);
    struct morphology_args shape = {.mask = latch.mask, .opening = 3, .closing = 4};
    assert_int_equal(op_morphology(stream, &shape, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "odd"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_those_of_the_rules_sample_by_sample),
        cmocka_unit_test(a_finder_finds_the_events_of_the_whole_rule),
        cmocka_unit_test(wrong_calls_are_refused),
    };
    return cmocka_run_group_tests(tests, open_place, close_place);
}
