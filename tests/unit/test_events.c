/* Post-processing: the incremental form against a naive one over whole arrays, for random traces, settings and chunk sizes. */

#include "base/order.h"
#include "base/rng.h"
#include "detect/alarms.h"
#include "seed.h"
#include "unit/cmocka_all.h"

enum { MAX_SAMPLES = 200000, MAX_EVENTS = 4096, ROUNDS = 3000 };
static uint64_t seed;

static int64_t to_samples(double s) { return (int64_t)llround(s * 256); }

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

static float naive_confidence(const struct events_config *c, const float *p, int64_t n) {
    static float sorted[MAX_SAMPLES];
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)p[i];
    memcpy(sorted, p, (size_t)n * sizeof *p);
    qsort(sorted, (size_t)n, sizeof *sorted, order_f32s);
    if (c->confidence == EVENT_CONFIDENCE_PEAK)
        return sorted[n - 1];
    if (c->confidence == EVENT_CONFIDENCE_PERCENTILE)
        return sorted[(int64_t)floor((double)(n - 1) * c->percentile)];
    return (float)(sum / (double)n);
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
        if (!a[start])
            continue;
        for (int64_t at = start; start > 0 && at - start < to_samples(c->lookback_s) && p[first + start - 1] >= c->off;)
            start--;
        if (i - start < to_samples(c->min_duration_s))
            continue;
        if (k && start - spans[k - 1][1] <= to_samples(c->merge_gap_s)) {
            spans[k - 1][1] = i;
        } else {
            spans[k][0] = start;
            spans[k++][1] = i;
        }
    }
    for (int64_t i = 0; i < k; i++) {
        for (int64_t at = spans[i][0]; at < spans[i][1]; at += to_samples(c->max_duration_s)) {
            int64_t end = at + to_samples(c->max_duration_s) < spans[i][1] ? at + to_samples(c->max_duration_s) : spans[i][1];
            out[count++] = (struct event){
                .first = first + at, .end = first + end, .confidence = naive_confidence(c, p + first + at, end - at)};
        }
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
    c.lookback_s = rng_uniform(rng) < 0.3 ? 0 : 2 * rng_uniform(rng);
    c.confidence = (enum event_confidence)rng_below(rng, 3);
    c.percentile = rng_uniform(rng);
    assert_int_equal(events_config_check(&c, NULL), 0);
    return c;
}

static void fill(float *p, int64_t first, int64_t end, float value) {
    for (int64_t i = first; i < end; i++)
        p[i] = value;
}

static int64_t find(const struct events_config *c, const float *p, int64_t n, struct event *ret) {
    struct event *events = NULL;
    int64_t count = 0;
    assert_int_equal(events_find(c, p, n, &events, &count, NULL), 0);
    assert_true(count <= 8);
    for (int64_t i = 0; i < count; i++)
        ret[i] = events[i];
    free(events);
    return count;
}

/* 0.5 s above `on` are needed and are marked from their first sample; the 256th low sample ends the event and is the first that is
 * not marked; 255 low samples do not end it. */
/* The same events in another object, as after a restart. */
static struct events *restarted(struct events *e, const struct events_config *c, struct sink *sink) {
    struct str text;
    str_init(&text, 4 << 20);
    events_pack(e, &(struct packer){.to = &text}, NULL);
    events_free(e);
    struct events *again = events_new(c, collect, sink);
    struct packer in = {.from = unpack_of(str_cstr(&text), text.len)};
    assert_int_equal(events_pack(again, &in, NULL), 0);
    assert_true(unpack_done(&in.from));
    str_done(&text);
    return again;
}

static void a_quiet_trace_is_not_saved(void **state) {
    (void)state;
    struct events_config c;
    struct str text;
    static float p[MAX_SAMPLES];
    static struct sink got;
    events_config_default(&c);
    c.lookback_s = 60;
    struct events *e = events_new(&c, collect, &got);
    str_init(&text, 4 << 20);
    assert_int_equal(events_push(e, p, MAX_SAMPLES, NULL), 0);
    events_pack(e, &(struct packer){.to = &text}, NULL);
    assert_true(text.len < 256 + sizeof *p * 2 * (size_t)c.closing);
    str_done(&text);
    events_free(e);
}

static void incremental_equals_whole_for_any_chunking(void **state) {
    (void)state;
    static float p[MAX_SAMPLES];
    static struct event want[MAX_EVENTS];
    static struct sink got;
    struct rng rng;
    rng_init(&rng, seed, RNG_SYNTH, 0);
    int64_t events = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = 1 + (int64_t)rng_below(&rng, round % 10 ? 3000 : 20000), cut = (int64_t)rng_below(&rng, (uint64_t)n + 1);
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
            if (rng_below(&rng, 8) == 0)
                e = restarted(e, &c, &got);
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

static int64_t below(struct rng *rng, int64_t n) { return (int64_t)rng_below(rng, (uint64_t)n); }

/* Runs of levels at and beside the thresholds, or of gaps, many of them as long as what is counted to. */
static void draw_levels(struct rng *rng, const struct events_config *c, float *to, int64_t n) {
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

/* One trace under several pairs of thresholds. */
static void a_trace_with_blocks_gives_the_events_of_the_stream(void **state) {
    (void)state;
    enum { MOST = 20000, PAIRS = 3, TRACES = 1500 };
    static float p[MOST];
    struct rng rng;
    int64_t found = 0;
    rng_init(&rng, seed, 2, 0);
    for (int round = 0; round < TRACES; round++) {
        int64_t n = 1 + below(&rng, round % 10 ? 5000 : MOST);
        struct events_config c = random_config(&rng);
        struct events_trace trace = {0};
        draw_levels(&rng, &c, p, n);
        assert_int_equal(events_trace_init(&trace, p, n, NULL), 0);
        for (int pair = 0; pair < PAIRS; pair++, c.on *= 0.9, c.off *= 0.75) {
            struct event *spans = NULL, *expected = NULL;
            int64_t count = 0, n_expected = 0;
            assert_int_equal(events_find_spans(&c, &trace, &spans, &count, NULL), 0);
            assert_int_equal(events_find(&c, p, n, &expected, &n_expected, NULL), 0);
            if (count != n_expected)
                fail_msg("seed %llu, round %d, pair %d: %lld events, expected %lld", (unsigned long long)seed, round, pair,
                         (long long)count, (long long)n_expected);
            for (int64_t i = 0; i < count; i++)
                if (spans[i].first != expected[i].first || spans[i].end != expected[i].end)
                    fail_msg("seed %llu, round %d, pair %d: event %lld is [%lld, %lld), expected [%lld, %lld)",
                             (unsigned long long)seed, round, pair, (long long)i, (long long)spans[i].first,
                             (long long)spans[i].end, (long long)expected[i].first, (long long)expected[i].end);
            found += count;
            free(spans);
            free(expected);
        }
        events_trace_done(&trace);
    }
    assert_true(found > TRACES);
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

static void a_recording_may_have_more_events_than_65536(void **state) {
    (void)state;
    enum { EVENTS = 70000, LENGTH = 4 };
    float *p = malloc((size_t)EVENTS * 2 * LENGTH * sizeof *p);
    struct event *events = NULL;
    int64_t n = 0;
    struct events_config c;
    events_config_default(&c);
    c.min_onset = c.min_offset = c.opening = c.closing = 1;
    c.min_duration_s = c.merge_gap_s = 0;
    for (int64_t i = 0; i < (int64_t)EVENTS * 2 * LENGTH; i++)
        p[i] = i / LENGTH % 2 ? 1 : 0;
    assert_int_equal(events_find(&c, p, (int64_t)EVENTS * 2 * LENGTH, &events, &n, NULL), 0);
    assert_int_equal(n, EVENTS);
    assert_int_equal(events[EVENTS - 1].first, (int64_t)EVENTS * 2 * LENGTH - LENGTH);
    free(events);
    free(p);
}

static void hysteresis_switches_at_the_exact_sample(void **state) {
    (void)state;
    static float p[8192];
    struct events_config c;
    struct event e[8];
    events_config_default(&c);
    fill(p, 0, 8192, 0.1f);
    fill(p, 1000, 3000, 0.9f);
    assert_int_equal(find(&c, p, 8192, e), 1);
    assert_int_equal(e[0].first, 1000);
    assert_int_equal(e[0].end, 3255);
    fill(p, 3255, 3256, 0.79f); /* 255 low samples, then one that is not below off */
    assert_int_equal(find(&c, p, 8192, e), 1);
    assert_int_equal(e[0].end, 3256 + 255);
    fill(p, 0, 8192, 0.1f);
    fill(p, 1000, 1127, 0.9f); /* one sample short of min_onset */
    assert_int_equal(find(&c, p, 8192, e), 0);
    fill(p, 1000, 1128, 0.9f); /* marked 1000..1382, shorter than 3 s */
    assert_int_equal(find(&c, p, 8192, e), 0);
    c.min_duration_s = 383.0 / 256;
    assert_int_equal(find(&c, p, 8192, e), 1);
    c.min_duration_s = 384.0 / 256;
    assert_int_equal(find(&c, p, 8192, e), 0);
}

static void an_event_begins_where_the_trace_rose_to_off(void **state) {
    (void)state;
    static float p[8192];
    struct events_config c;
    struct event e[8];
    events_config_default(&c);
    fill(p, 0, 8192, 0.1f);
    fill(p, 500, 1500, 0.8f); /* above off, below on */
    fill(p, 1500, 3000, 0.9f);
    assert_int_equal(find(&c, p, 8192, e), 1);
    assert_int_equal(e[0].first, 1500);
    c.lookback_s = 60;
    assert_int_equal(find(&c, p, 8192, e), 1);
    assert_int_equal(e[0].first, 500);
    c.lookback_s = 2;
    assert_int_equal(find(&c, p, 8192, e), 1);
    assert_int_equal(e[0].first, 1500 - 512);
    fill(p, 1200, 1201, 0.7f); /* below off */
    assert_int_equal(find(&c, p, 8192, e), 1);
    assert_int_equal(e[0].first, 1201);
}

static void events_two_seconds_apart_merge_and_a_sample_more_keeps_them_apart(void **state) {
    (void)state;
    static float p[16384];
    struct events_config c;
    struct event e[8];
    events_config_default(&c);
    for (int more = 0; more < 2; more++) {
        fill(p, 0, 16384, 0.1f);
        fill(p, 1000, 3000, 0.9f); /* marked to 3255 */
        fill(p, 3255 + 512 + more, 6000, 1.0f);
        assert_int_equal(find(&c, p, 16384, e), more ? 2 : 1);
        assert_int_equal(e[0].first, 1000);
        assert_int_equal(e[more].end, 6255);
        if (!more) { /* over the merged span, the gap included */
            double mean = (2000 * 0.9 + (double)(255 + 512 + 255) * 0.1 + (6000 - 3255 - 512) * 1.0) / (6255 - 1000);
            assert_true(fabs((double)e[0].confidence - mean) < 1e-5);
        }
    }
}

static void long_events_are_cut_into_pieces_of_600_s(void **state) {
    (void)state;
    static float p[1300 * 256];
    struct events_config c;
    struct event e[8];
    events_config_default(&c);
    fill(p, 0, 1300 * 256, 0.1f);
    fill(p, 2560, 2560 + 1250 * 256, 0.9f);
    assert_int_equal(find(&c, p, 1300 * 256, e), 3);
    assert_int_equal(e[0].first, 2560);
    assert_int_equal(e[0].end, 2560 + 153600);
    assert_int_equal(e[1].first, e[0].end);
    assert_int_equal(e[1].end, 2560 + 2 * 153600);
    assert_int_equal(e[2].end, 2560 + 1250 * 256 + 255);
    fill(p, 2560 + 600 * 256 - 255, 1300 * 256, 0.1f); /* exactly 600 s: one piece */
    assert_int_equal(find(&c, p, 1300 * 256, e), 1);
    assert_int_equal(e[0].end - e[0].first, 153600);
}

/* An event is given out when a merge has become impossible, not when the recording ends; a very long one piece by piece. */
static void events_are_given_out_as_soon_as_they_are_final(void **state) {
    (void)state;
    static float high[256], low[256];
    static struct sink got;
    struct events_config c;
    events_config_default(&c);
    fill(high, 0, 256, 0.9f);
    fill(low, 0, 256, 0.1f);
    got.count = 0;
    struct events *e = events_new(&c, collect, &got);
    for (int s = 0; s < 10; s++)
        assert_int_equal(events_push(e, high, 256, NULL), 0);
    for (int s = 0; s < 4; s++) { /* marked to 10 s + 255 samples; a run 2 s later would still merge */
        assert_int_equal(got.count, s >= 3);
        assert_int_equal(events_push(e, low, 256, NULL), 0);
    }
    assert_int_equal(got.count, 1);
    for (int s = 0; s < 3600; s++)
        assert_int_equal(events_push(e, high, 256, NULL), 0);
    assert_true(got.count >= 4);
    assert_int_equal(got.items[1].first, 14 * 256);
    assert_int_equal(got.items[1].end, 14 * 256 + 153600);
    events_free(e);
}

static void a_probability_that_is_no_number_is_refused(void **state) {
    (void)state;
    const float p[2] = {0.5f, NAN};
    static struct sink got;
    struct events_config c;
    struct err err = {0};
    events_config_default(&c);
    struct events *e = events_new(&c, collect, &got);
    assert_int_equal(events_push(e, p, 2, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "sample 1"));
    events_free(e);
}

static void settings_travel_through_json_and_bad_ones_are_refused(void **state) {
    (void)state;
    struct str text;
    struct json_writer w;
    struct json *j = NULL;
    struct events_config c, back;
    struct err err = {0};
    events_config_default(&c);
    c.on = 0.812345678901;
    c.closing = 77;
    c.confidence = EVENT_CONFIDENCE_PERCENTILE;
    c.lookback_s = 30;
    str_init(&text, 4096);
    json_writer_init(&w, &text);
    events_config_to_json(&c, &w, NULL);
    assert_int_equal(json_parse(str_cstr(&text), text.len, "events", &j, NULL), 0);
    assert_int_equal(events_config_from_json(j, &back, NULL), 0);
    assert_true(back.on == c.on && back.off == c.off && back.min_onset == c.min_onset && back.min_offset == c.min_offset);
    assert_true(back.opening == c.opening && back.closing == c.closing && back.merge_gap_s == c.merge_gap_s);
    assert_true(back.min_duration_s == c.min_duration_s && back.max_duration_s == c.max_duration_s);
    assert_true(back.confidence == c.confidence && back.percentile == c.percentile && back.lookback_s == c.lookback_s);
    json_free(j);
    str_done(&text);
    static const char *const bad[] = {"{\"on\":0.5,\"off\":0.6}", "{\"opening\":10}",   "{\"confidence\":\"median\"}",
                                      "{\"min_onset\":0}",        "{\"percentile\":2}", "{\"max_duration_s\":2}",
                                      "{\"lookback_s\":-1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(json_parse(bad[i], strlen(bad[i]), "events", &j, NULL), 0);
        assert_int_equal(events_config_from_json(j, &back, &err), ERR_INVALID);
        json_free(j);
    }
}

static void thresholds_may_be_others_than_the_models(void **state) {
    struct events_config base, c;
    (void)state;
    events_config_default(&base);
    assert_int_equal(events_config_with(&base, 0, 0, &c, NULL), 0);
    assert_true(c.on == base.on && c.off == base.off);
    assert_int_equal(events_config_with(&base, 0.9, 0, &c, NULL), 0);
    assert_true(c.on == 0.9 && c.off == base.off);
    assert_int_equal(events_config_with(&base, 0.3, 0, &c, NULL), 0); /* off is at most on */
    assert_true(c.on == 0.3 && c.off == 0.3 && c.min_onset == base.min_onset);
    assert_int_equal(events_config_with(&base, 0, 0.5, &c, NULL), 0);
    assert_true(c.on == base.on && c.off == 0.5);
    assert_int_equal(events_config_with(&base, 0.3, 0.5, &c, NULL), ERR_INVALID);
    assert_int_equal(events_config_with(&base, 1, 0, &c, NULL), ERR_INVALID);
    assert_int_equal(events_config_with(&base, NAN, 0, &c, NULL), ERR_INVALID);
}

int main(void) {
    seed = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(thresholds_may_be_others_than_the_models),
        cmocka_unit_test(incremental_equals_whole_for_any_chunking),
        cmocka_unit_test(a_quiet_trace_is_not_saved),
        cmocka_unit_test(a_trace_with_blocks_gives_the_events_of_the_stream),
        cmocka_unit_test(nan_gaps_split_events),
        cmocka_unit_test(a_recording_may_have_more_events_than_65536),
        cmocka_unit_test(hysteresis_switches_at_the_exact_sample),
        cmocka_unit_test(an_event_begins_where_the_trace_rose_to_off),
        cmocka_unit_test(events_two_seconds_apart_merge_and_a_sample_more_keeps_them_apart),
        cmocka_unit_test(long_events_are_cut_into_pieces_of_600_s),
        cmocka_unit_test(events_are_given_out_as_soon_as_they_are_final),
        cmocka_unit_test(a_probability_that_is_no_number_is_refused),
        cmocka_unit_test(settings_travel_through_json_and_bad_ones_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
