/* The newest EEG of a stream, for people: what it keeps, what is gone, the minute of an alarm, and a reader beside the writer. */

#include "base/rng.h"
#include "daemon/viewer/traces.h"
#include "unit/cmocka_all.h"

enum { RATE = 256, MINUTE = 60 * RATE, PATTERN = 6000 };
static const double POLE = 1 - 2 * 3.14159265358979 * 0.1 / RATE; /* of the high-pass */
static const struct eegring_limits limits = {.samples = MINUTE, .max_bytes = 1 << 24};

static struct eegring *ring_of(const char *montage) {
    struct eegring *r = NULL;
    assert_int_equal(eegring_new(montage, &limits, &r, NULL), 0);
    return r;
}

/* A signal whose stored samples are pattern(i), whatever the filter takes away: it begins at 0, as the filter does. */
static int16_t pattern(int64_t i) { return (int16_t)((i + PATTERN / 2) % PATTERN - PATTERN / 2); }

struct writer {
    struct eegring *ring;
    int64_t at;
    double in;
};

static void write_pattern(struct writer *w, int64_t n) {
    double uv[2 * RATE];
    for (int64_t part; n > 0; n -= part) {
        part = n < RATE ? n : RATE;
        for (int64_t i = 0; i < part; i++) {
            w->in = w->at + i ? w->in + pattern(w->at + i) * EEGRING_UV - POLE * pattern(w->at + i - 1) * EEGRING_UV : 0;
            uv[2 * i] = w->in;
            uv[2 * i + 1] = 5;
        }
        eegring_put(w->ring, uv, 2, part, w->at, NULL);
        w->at += part;
    }
}

static int16_t one(const struct eegring *r, int row, int64_t at) {
    int16_t value;
    eegring_copy(r, row, at, 1, &value);
    return value;
}

static void it_keeps_the_newest_minute(void **state) {
    (void)state;
    struct writer w = {.ring = ring_of("custom:Fp1,F3")};
    const char *const *names;
    struct eegring_state s;
    int16_t got[300];
    assert_int_equal(eegring_rows(w.ring, &names), 2);
    assert_string_equal(names[1], "F3");
    write_pattern(&w, 3 * MINUTE + 77);
    eegring_describe(w.ring, &s);
    assert_int_equal(s.kept.end, 3 * MINUTE + 77);
    assert_int_equal(s.kept.first, 2 * MINUTE + 77);
    assert_true(s.newest_wall_ms > 0);
    eegring_copy(w.ring, 0, s.kept.end - 300, 300, got);
    for (int i = 0; i < 300; i++)
        assert_in_range(got[i] - pattern(s.kept.end - 300 + i) + 1, 0, 2);
    eegring_copy(w.ring, 1, s.kept.end - 300, 300, got);
    assert_int_equal(got[299], 0); /* a constant has no part above 0.1 Hz */
    eegring_copy(w.ring, 0, s.kept.first - 10, 20, got);
    assert_true(got[9] == EEGRING_NONE && got[10] != EEGRING_NONE);
    eegring_copy(w.ring, 0, s.kept.end - 10, 20, got);
    assert_true(got[9] != EEGRING_NONE && got[10] == EEGRING_NONE);
    eegring_copy(w.ring, 0, INT64_C(1) << 52, 20, got);
    assert_int_equal(got[0], EEGRING_NONE);
    eegring_drop(w.ring);
    assert_int_equal(eegring_bytes(), 0);
}

static void a_gap_has_no_samples_and_large_values_stay_in_range(void **state) {
    (void)state;
    struct eegring *r = ring_of("custom:Fp1");
    double uv[RATE];
    for (int i = 0; i < RATE; i++)
        uv[i] = i % 2 ? 1e9 : -1e9;
    eegring_put(r, uv, 1, RATE, 1000, NULL); /* restored: it does not begin at 0 */
    assert_int_equal(one(r, 0, 1001), INT16_MAX);
    assert_int_equal(one(r, 0, 1002), EEGRING_LOWEST);
    assert_int_equal(one(r, 0, 999), EEGRING_NONE);
    eegring_put(r, uv, 1, RATE, 2000, NULL);
    assert_int_equal(one(r, 0, 1999), EEGRING_NONE);
    assert_int_equal(one(r, 0, 2000), 0); /* the filter begins anew */
    eegring_put(r, uv, 1, 10, 2000 + RATE + 10 * MINUTE, NULL);
    assert_int_equal(one(r, 0, 2000), EEGRING_NONE);
    assert_int_equal(one(r, 0, 2000 + RATE + 10 * MINUTE - 1), EEGRING_NONE);
    eegring_drop(r);
}

static void probabilities_are_the_highest_of_each_step(void **state) {
    (void)state;
    struct writer w = {.ring = ring_of("custom:Fp1,F3")};
    float p[128];
    int16_t got[3];
    write_pattern(&w, RATE);
    for (int i = 0; i < 128; i++)
        p[i] = i == 70 ? NAN : (float)i / 1000;
    eegring_put_p(w.ring, 64, p, 128);
    eegring_copy_p(w.ring, 0, 3, got);
    assert_true(got[0] == EEGRING_NONE && got[1] == 63 && got[2] == 127);
    write_pattern(&w, MINUTE);
    eegring_copy_p(w.ring, (MINUTE + RATE) / EEGRING_P_STEP - 3, 3, got); /* of the next lap, nothing of the first */
    assert_true(got[0] == EEGRING_NONE && got[1] == EEGRING_NONE && got[2] == EEGRING_NONE);
    eegring_put_p(w.ring, 64, p, 128); /* too late */
    eegring_copy_p(w.ring, 0, 3, got);
    assert_int_equal(got[1], EEGRING_NONE);
    eegring_drop(w.ring);
}

static void raise_alarm(struct writer *w) {
    const float p[64] = {0.9f};
    eegring_put_p(w->ring, w->at - 64, p, 64);
    eegring_put_mark(w->ring, &(struct eegring_mark){EEGRING_ALARM_ON, w->at, w->at, 7});
}

static void the_minutes_of_the_newest_alarms_stay(void **state) {
    (void)state;
    struct writer w = {.ring = ring_of("custom:Fp1,F3")};
    struct eegring_state s;
    int64_t alarms[EEGRING_PINS + 1];
    int16_t p;
    for (int i = 0; i <= EEGRING_PINS; i++) {
        write_pattern(&w, 3 * MINUTE);
        alarms[i] = w.at;
        raise_alarm(&w);
    }
    write_pattern(&w, 3 * MINUTE);
    eegring_describe(w.ring, &s);
    assert_int_equal(s.n_pins, EEGRING_PINS);
    for (int i = 1; i <= EEGRING_PINS; i++) {
        const struct eegring_span pin = s.pins[i - 1];
        assert_int_equal(pin.first, alarms[i] - EEGRING_PIN_BEFORE);
        assert_int_equal(pin.end, pin.first + EEGRING_PIN);
        for (int64_t at = pin.first; at < pin.end; at += 501)
            assert_in_range(one(w.ring, 0, at) - pattern(at) + 1, 0, 2);
        assert_int_equal(one(w.ring, 0, pin.end), EEGRING_NONE);
        eegring_copy_p(w.ring, alarms[i] / EEGRING_P_STEP - 1, 1, &p);
        assert_int_equal(p, 900);
    }
    assert_int_equal(one(w.ring, 0, alarms[0]), EEGRING_NONE);
    struct eegring_mark marks[EEGRING_MARKS];
    assert_int_equal(eegring_marks(w.ring, marks), EEGRING_PINS + 1);
    assert_true(marks[1].kind == EEGRING_ALARM_ON && marks[1].first == alarms[1] && marks[1].wall_ms == 7);
    for (int i = 0; i < 3 * EEGRING_MARKS; i++)
        eegring_put_mark(w.ring, &(struct eegring_mark){EEGRING_EVENT, i, i + 5, 8});
    assert_int_equal(eegring_marks(w.ring, marks), EEGRING_MARKS - 1);
    assert_int_equal(marks[EEGRING_MARKS - 2].first, 3 * EEGRING_MARKS - 1);
    eegring_drop(w.ring);
}

static void the_minutes_of_alarms_outlive_the_process(void **state) {
    (void)state;
    struct writer w = {.ring = ring_of("custom:Fp1,F3")};
    struct eegring *next = ring_of("custom:Fp1,F3"), *other = ring_of("custom:Fp1"), *broken = ring_of("custom:Fp1,F3");
    struct eegring_state was, is;
    struct eegring_mark marks[EEGRING_MARKS];
    struct str saved;
    int64_t alarm[EEGRING_PINS + 1];
    int16_t p;
    str_init(&saved, EEGRING_SAVED_BYTES);
    assert_int_equal(eegring_pinned(w.ring), 0);
    for (int i = 0; i <= EEGRING_PINS; i++) {
        write_pattern(&w, 3 * MINUTE);
        alarm[i] = w.at;
        raise_alarm(&w);
        const int64_t begun = eegring_pinned(w.ring);
        write_pattern(&w, RATE);
        assert_int_equal(eegring_pinned(w.ring), begun); /* a second more is not worth a file */
        write_pattern(&w, EEGRING_SAVE_STEP);
        assert_int_not_equal(eegring_pinned(w.ring), begun);
    }
    assert_true(eegring_save(w.ring, &saved));
    assert_int_equal(eegring_inherit(next, str_cstr(&saved), saved.len, NULL), 0);
    eegring_describe(w.ring, &was);
    eegring_describe(next, &is); /* before its client is back */
    assert_memory_equal(was.pins, is.pins, sizeof was.pins);
    assert_int_equal(is.kept.end, was.pins[EEGRING_PINS - 1].end);
    assert_int_equal(is.newest_wall_ms, was.newest_wall_ms);
    assert_int_equal(eegring_marks(next, marks), EEGRING_PINS + 1);
    assert_true(marks[1].kind == EEGRING_ALARM_ON && marks[1].first == alarm[1] && marks[1].wall_ms == 7);
    for (int round = 0; round < 2; round++) { /* and beside new samples */
        for (int i = 1; i <= EEGRING_PINS; i++) {
            for (int64_t at = is.pins[i - 1].first; at < was.pins[i - 1].end; at += 501)
                assert_int_equal(one(next, 0, at), one(w.ring, 0, at));
            eegring_copy_p(next, alarm[i] / EEGRING_P_STEP - 1, 1, &p);
            assert_int_equal(p, 900);
        }
        struct writer more = {.ring = next, .at = w.at + MINUTE};
        write_pattern(&more, RATE);
    }
    eegring_describe(next, &is);
    assert_int_equal(is.kept.first, w.at + MINUTE);
    assert_int_equal(is.n_pins, EEGRING_PINS);
    struct writer more = {.ring = next, .at = is.kept.end};
    raise_alarm(&more); /* the newest alarms stay */
    eegring_describe(next, &is);
    assert_int_equal(is.n_pins, EEGRING_PINS);
    assert_int_equal(is.pins[0].first, was.pins[1].first);
    assert_int_equal(eegring_inherit(other, str_cstr(&saved), saved.len, NULL), ERR_DATA_LOSS);
    for (size_t len = 0; len < saved.len; len += saved.len / 7)
        assert_int_equal(eegring_inherit(broken, str_cstr(&saved), len, NULL), ERR_DATA_LOSS);
    eegring_describe(broken, &is);
    assert_int_equal(is.n_pins, 0);
    str_done(&saved);
    eegring_drop(w.ring);
    eegring_drop(next);
    eegring_drop(other);
    eegring_drop(broken);
}

static void one_caller_leaves_memory_to_others(void **state) {
    struct eegring *rings[11] = {NULL};
    struct eegring_limits of = {.samples = MINUTE, .max_bytes = 1 << 30, .owner = 7};
    struct err err;
    (void)state;
    assert_int_equal(eegring_new("custom:Fp1,F3", &of, &rings[0], &err), 0);
    of.max_bytes = 10 * eegring_bytes();
    of.shared = true;
    for (int i = 1; i < 9; i++)
        assert_int_equal(eegring_new("custom:Fp1,F3", &of, &rings[i], &err), 0);
    assert_int_equal(eegring_new("custom:Fp1,F3", &of, &rings[9], &err), ERR_EXHAUSTED);
    of.owner = 8;
    assert_int_equal(eegring_new("custom:Fp1,F3", &of, &rings[9], &err), 0);
    of = (struct eegring_limits){.samples = MINUTE, .max_bytes = 11 * of.max_bytes / 10, .owner = 7}; /* without tokens */
    assert_int_equal(eegring_new("custom:Fp1,F3", &of, &rings[10], &err), 0);
    for (int i = 0; i < 11; i++)
        eegring_drop(rings[i]);
    assert_int_equal(eegring_bytes(), 0);
}

static void memory_is_bounded_over_all_streams(void **state) {
    (void)state;
    struct eegring *a = NULL, *b = NULL;
    struct err err;
    const struct eegring_limits none = {0}, small = {.samples = MINUTE, .max_bytes = 3 * MINUTE * 2};
    assert_int_equal(eegring_new("bipolar-18", &none, &a, &err), ERR_UNSUPPORTED);
    assert_int_equal(eegring_new("bipolar-18", &small, &a, &err), ERR_EXHAUSTED);
    assert_int_equal(eegring_new("nothing", &limits, &a, &err), ERR_INVALID);
    assert_int_equal(eegring_new("custom:Fp1,F3", &small, &a, &err), 0);
    assert_int_equal(eegring_new("custom:Fp1,F3", &small, &b, &err), ERR_EXHAUSTED);
    struct writer w = {.ring = a};
    write_pattern(&w, MINUTE);
    raise_alarm(&w); /* no room for its minute: the stream goes on */
    struct eegring_state s;
    eegring_describe(a, &s);
    assert_int_equal(s.n_pins, 0);
    eegring_drop(eegring_share(a));
    assert_true(eegring_bytes() > 0);
    assert_ptr_equal(eegring_mention(a), a);
    assert_true(eegring_hold(a));
    eegring_drop(a);
    eegring_drop(a);
    assert_int_equal(eegring_bytes(), 0); /* a mention keeps no EEG */
    assert_false(eegring_hold(a));
    eegring_unmention(a);
}

/* The rows in which each sample of a stream is held, all of them HELD_ALL, and NOT_SENT in its gaps. */
enum { HELD_ROWS = 3, HELD_ALL = 7, NOT_SENT = 8, HELD_SAMPLES = 2 * MINUTE };
struct held_truth {
    uint8_t at[HELD_SAMPLES + 1000];
};

/* Rows of random length, some of whose samples are held in all rows; before them spans of some rows, which may begin later and last
 * into the next ones or be empty; gaps. */
static struct eegring *write_held(uint64_t seed, struct held_truth *truth) {
    static const double uv[300 * HELD_ROWS];
    struct eegring *r = ring_of("custom:Fp1,F3,C3");
    struct rng rng;
    uint8_t held[300];
    int64_t behind = 0; /* the spans before */
    memset(truth, 0, sizeof *truth);
    rng_init(&rng, seed, 1, 0);
    for (int64_t at = 0, n; at < HELD_SAMPLES; at += n) {
        for (uint64_t gap = rng_below(&rng, 20) ? 0 : rng_below(&rng, 200); gap > 0; gap--)
            truth->at[at++] = NOT_SENT;
        if (!rng_below(&rng, 3)) {
            for (uint64_t spans = 1 + rng_below(&rng, 9); spans > 0; spans--) {
                const int64_t first = (at > behind ? at : behind) + (int64_t)rng_below(&rng, 90);
                const uint64_t rows = 1 + rng_below(&rng, HELD_ALL);
                behind = first + (int64_t)rng_below(&rng, 90);
                assert_true(eegring_hold_rows(r, rows, first, behind));
                for (int64_t i = first; i < behind && i < HELD_SAMPLES; i++)
                    truth->at[i] |= (uint8_t)rows;
            }
        }
        n = 1 + (int64_t)rng_below(&rng, 300);
        n = n < HELD_SAMPLES - at ? n : HELD_SAMPLES - at;
        for (int64_t i = 0; i < n; i++) {
            held[i] = rng_below(&rng, 50) ? i && held[i - 1] : !(i && held[i - 1]);
            truth->at[at + i] |= held[i] ? HELD_ALL : 0;
        }
        if (n > 0)
            eegring_put(r, uv, HELD_ROWS, n, at, held);
    }
    return r;
}

/* Rows in which a bin is held, read out of the spans of an answer. */
static unsigned answered(const struct json *spans, int64_t first) {
    unsigned rows = 0;
    for (size_t k = 0; k < json_count(spans); k++) {
        const struct json *span = json_at(spans, k);
        if (json_i64(json_at(span, 0), 0) > first || json_i64(json_at(span, 1), 0) <= first)
            continue;
        assert_int_equal(rows, 0); /* spans do not overlap */
        rows = json_count(span) == 2 ? HELD_ALL : 0;
        for (size_t i = 2; i < json_count(span); i++)
            rows |= 1U << json_i64(json_at(span, i), 0);
    }
    return rows;
}

static void check_answer(const struct eegring *r, struct traces_query q, const struct held_truth *truth) {
    const struct traces_stream stream = {.eeg = r};
    struct eegring_state s;
    struct json *head = NULL;
    struct str out;
    eegring_describe(r, &s);
    str_init(&out, TRACES_BYTES);
    assert_int_equal(traces_of_stream(&stream, &q, &out, NULL), 0);
    const char *end = memchr(out.data, '\n', out.len);
    assert_int_equal(json_parse(out.data, (size_t)(end - out.data), "head", &head, NULL), 0);
    const int16_t *values = (const int16_t *)(end + 1);
    const int64_t from = json_i64(json_get(head, "from"), 0), n = json_i64(json_get(head, "n"), 0) / q.bin;
    assert_int_equal((out.data + out.len - (end + 1)) / 2, n * HELD_ROWS * (q.bin > 1 ? 2 : 1));
    for (int64_t k = 0; k < n; k++) {
        unsigned rows = 0, measured = 0;
        for (int64_t i = from + k * q.bin; i < from + (k + 1) * q.bin && i < s.kept.end; i++)
            if (i >= s.kept.first && !(truth->at[i] & NOT_SENT)) {
                rows |= truth->at[i];
                measured |= HELD_ALL & ~truth->at[i];
            }
        assert_int_equal(answered(json_get(head, "held"), from + k * q.bin), rows);
        for (int row = 0; row < HELD_ROWS; row++)
            assert_int_equal(values[(row * n + k) * (q.bin > 1 ? 2 : 1)], measured >> row & 1 ? 0 : EEGRING_NONE);
    }
    json_free(head);
    str_done(&out);
}

static void held_samples_are_told_from_measured_ones(void **state) {
    (void)state;
    static struct held_truth truth;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct eegring *r = write_held(seed, &truth);
        struct traces_query q = {.from = HELD_SAMPLES - MINUTE - 100 + (int64_t)seed * 37, .n = 15 * RATE, .bin = 1};
        struct eegring_state s;
        eegring_describe(r, &s);
        for (int row = 0; row < HELD_ROWS; row++)
            for (int64_t i = s.kept.first; i < s.kept.end; i++)
                assert_int_equal(one(r, row, i), truth.at[i] & NOT_SENT ? EEGRING_NONE : truth.at[i] >> row & 1 ? EEGRING_HELD : 0);
        check_answer(r, q, &truth);
        check_answer(r, (struct traces_query){.from = -1, .n = MINUTE, .bin = 1 + 11 * (int64_t)seed}, &truth);
        eegring_drop(r);
    }
}

static atomic_bool ended;

static void *read_on(void *ctx) {
    struct eegring *r = ctx;
    static int16_t got[MINUTE];
    int64_t good = 0;
    while (!atomic_load(&ended) || !good) {
        struct eegring_state s;
        eegring_describe(r, &s);
        const int64_t first = s.kept.first, n = s.kept.end - first;
        eegring_copy(r, 0, first, n, got);
        for (int64_t i = 0; i < n; i++)
            if (got[i] != EEGRING_NONE && labs(got[i] - pattern(first + i)) > 1)
                return NULL; /* of another lap */
            else
                good += got[i] != EEGRING_NONE;
    }
    return r;
}

static void a_reader_never_gets_samples_of_another_lap(void **state) {
    (void)state;
    struct writer w = {.ring = ring_of("custom:Fp1,F3")};
    pthread_t reader;
    void *sound = NULL;
    write_pattern(&w, RATE);
    assert_false(pthread_create(&reader, NULL, read_on, w.ring));
    for (int i = 0; i < 60; i++)
        write_pattern(&w, MINUTE);
    atomic_store(&ended, true);
    pthread_join(reader, &sound);
    assert_non_null(sound);
    eegring_drop(w.ring);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_keeps_the_newest_minute),
        cmocka_unit_test(held_samples_are_told_from_measured_ones),
        cmocka_unit_test(a_gap_has_no_samples_and_large_values_stay_in_range),
        cmocka_unit_test(probabilities_are_the_highest_of_each_step),
        cmocka_unit_test(the_minutes_of_the_newest_alarms_stay),
        cmocka_unit_test(the_minutes_of_alarms_outlive_the_process),
        cmocka_unit_test(one_caller_leaves_memory_to_others),
        cmocka_unit_test(memory_is_bounded_over_all_streams),
        cmocka_unit_test(a_reader_never_gets_samples_of_another_lap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
