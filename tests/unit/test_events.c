/* Post-processing: the incremental form against a naive one over whole arrays, for random traces, settings and chunk sizes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/rng.h"
#include "model/events.h"

enum { MAX_SAMPLES = 20000, MAX_EVENTS = 4096 };
static uint64_t seed;

static int64_t to_samples(double s) {
    return (int64_t)llround(s * 256);
}

static void naive_hysteresis(const struct events_config *c, const float *p, int64_t n, uint8_t *mask) {
    bool on = false;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        mask[i] = on;
        if (!on) {
            count = p[i] >= c->on ? count + 1 : 0;
            if (count == c->min_onset) {
                on = true;
                for (int64_t k = i - count + 1; k <= i; k++)
                    mask[k] = 1;
                count = 0;
            }
        } else {
            count = p[i] < c->off ? count + 1 : 0;
            if (count == c->min_offset) {
                on = false;
                mask[i] = 0;
                count = 0;
            }
        }
    }
}

static void rank_filter(const uint8_t *in, uint8_t *out, int64_t n, int64_t k, bool maximum) {
    for (int64_t i = 0; i < n; i++) {
        out[i] = !maximum;
        for (int64_t j = i - k / 2; j <= i + k / 2; j++)
            if (j >= 0 && j < n && in[j] == (maximum ? 1 : 0))
                out[i] = maximum;
    }
}

/* Events of one segment, appended to out. */
static int64_t naive(const struct events_config *c, const float *p, int64_t first, int64_t n, struct event *out, int64_t count) {
    static uint8_t a[MAX_SAMPLES], b[MAX_SAMPLES];
    naive_hysteresis(c, p + first, n, a);
    rank_filter(a, b, n, c->opening, false);
    rank_filter(b, a, n, c->opening, true);
    rank_filter(a, b, n, c->closing, true);
    rank_filter(b, a, n, c->closing, false);
    int64_t spans[MAX_EVENTS][2], k = 0;
    for (int64_t i = 0; i < n;) {
        int64_t start = i;
        while (i < n && a[i] == a[start])
            i++;
        if (!a[start] || i - start < to_samples(c->min_duration_s))
            continue;
        if (k && start - spans[k - 1][1] <= to_samples(c->merge_gap_s)) {
            spans[k - 1][1] = i;
        } else {
            spans[k][0] = start;
            spans[k++][1] = i;
        }
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t at = spans[i][0]; at < spans[i][1]; at += to_samples(c->max_duration_s)) {
            int64_t end = at + to_samples(c->max_duration_s) < spans[i][1] ? at + to_samples(c->max_duration_s) : spans[i][1];
            double sum = 0;
            for (int64_t j = at; j < end; j++)
                sum += (double)p[first + j];
            out[count++] = (struct event){first + at, first + end, (float)(sum / (double)(end - at))};
        }
    return count;
}

struct sink {
    struct event items[MAX_EVENTS];
    int64_t count;
};

static void collect(void *ctx, const struct event *e) {
    struct sink *s = ctx;
    assert_true(s->count < MAX_EVENTS);
    s->items[s->count++] = *e;
}

static void random_trace(struct rng *rng, float *p, int64_t n) {
    double level = 0.5;
    for (int64_t i = 0; i < n; i++) {
        if (rng_uniform(rng) < 0.004)
            level = rng_uniform(rng) < 0.5 ? 0.95 : 0.05;
        p[i] = (float)fmin(1, fmax(0, level + 0.12 * rng_normal(rng)));
    }
}

static struct events_config random_config(struct rng *rng) {
    struct events_config c;
    events_config_default(&c);
    c.on = 0.5 + 0.4 * rng_uniform(rng);
    c.off = c.on * (0.5 + 0.5 * rng_uniform(rng));
    c.min_onset = 1 + (int64_t)rng_below(rng, 40);
    c.min_offset = 1 + (int64_t)rng_below(rng, 60);
    c.opening = 1 + 2 * (int64_t)rng_below(rng, 30);
    c.closing = 1 + 2 * (int64_t)rng_below(rng, 60);
    c.min_duration_s = 0.5 * rng_uniform(rng);
    c.max_duration_s = 1 + 4 * rng_uniform(rng);
    c.merge_gap_s = rng_uniform(rng) < 0.3 ? 0 : 0.6 * rng_uniform(rng);
    return c;
}

static void incremental_equals_whole_for_any_chunking(void **state) {
    (void)state;
    static float p[MAX_SAMPLES];
    static struct event want[MAX_EVENTS];
    static struct sink got;
    struct rng rng;
    rng_init(&rng, seed, RNG_SYNTH, 0);
    int64_t events = 0;
    for (int round = 0; round < 400; round++) {
        int64_t n = 1 + (int64_t)rng_below(&rng, MAX_SAMPLES - 1), cut = (int64_t)rng_below(&rng, (uint64_t)n + 1);
        struct events_config c = random_config(&rng);
        random_trace(&rng, p, n);
        int64_t count = naive(&c, p, 0, cut, want, 0);
        count = naive(&c, p, cut, n - cut, want, count);
        got.count = 0;
        struct events *e = events_new(&c, collect, &got);
        for (int64_t at = 0; at < n;) {
            int64_t step = 1 + (int64_t)rng_below(&rng, rng_below(&rng, 2) ? 10 : 6000), end = at < cut ? cut : n;
            step = at + step > end ? end - at : step;
            assert_int_equal(events_push(e, p + at, step, NULL), 0);
            at += step;
            if (at == cut)
                assert_int_equal(events_break(e, cut, NULL), 0);
        }
        assert_int_equal(events_finish(e, NULL), 0);
        events_free(e);
        events += count;
        if (got.count != count)
            fail_msg("seed %llu round %d: %lld events, expected %lld", (unsigned long long)seed, round, (long long)got.count,
                     (long long)count);
        for (int64_t i = 0; i < count; i++) {
            assert_int_equal(got.items[i].first, want[i].first);
            assert_int_equal(got.items[i].end, want[i].end);
            assert_true(fabsf(got.items[i].confidence - want[i].confidence) < 1e-6f);
        }
    }
    print_message("%lld events compared (seed %llu)\n", (long long)events, (unsigned long long)seed);
    assert_true(events > 1000);
}

static void nan_gaps_split_events(void **state) {
    (void)state;
    static float p[4096];
    for (int i = 0; i < 4096; i++)
        p[i] = i >= 1900 && i < 2000 ? NAN : 0.95f;
    struct events_config c;
    events_config_default(&c);
    struct event *events = NULL;
    int64_t n = 0;
    assert_int_equal(events_find(&c, p, 4096, &events, &n, NULL), 0);
    assert_int_equal(n, 2);
    assert_int_equal(events[0].first, 0);
    assert_int_equal(events[0].end, 1900);
    assert_int_equal(events[1].first, 2000);
    assert_int_equal(events[1].end, 4096);
    free(events);
}

static void alarm_switches_the_moment_the_rule_holds(void **state) {
    (void)state;
    struct alarm_rule rule = {.on = 0.8, .off = 0.5, .min_onset = 3, .min_offset = 2};
    static const float p[] = {0.9f, 0.9f, 0.7f, 0.9f, 0.9f, 0.9f, 0.4f, 0.6f, 0.4f, 0.4f, 0.9f};
    static const int want[] = {0, 0, 0, 0, 0, 1, 0, 0, 0, -1, 0};
    for (size_t i = 0; i < sizeof p / sizeof *p; i++)
        assert_int_equal(alarm_rule_push(&rule, p[i]), want[i]);
}

int main(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = getenv("BRR_TEST_SEED") ? strtoull(getenv("BRR_TEST_SEED"), NULL, 10) : (uint64_t)now.tv_nsec;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(incremental_equals_whole_for_any_chunking),
        cmocka_unit_test(nan_gaps_split_events),
        cmocka_unit_test(alarm_switches_the_moment_the_rule_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
