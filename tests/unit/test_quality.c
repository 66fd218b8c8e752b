#include "eeg/quality.h"

#include "seed.h"
#include "unit/cmocka_all.h"

enum { CHANNELS = 5, RATE = 250, SECONDS = 20, SAMPLES = SECONDS * RATE };
enum { CLEAN, FLAT, CLIPPED, MISSING, NOISY };

struct signal {
    float x[CHANNELS][SAMPLES];
};

/* One channel of each kind; the flaws begin at second 5. */
static struct signal *make(void) {
    struct signal *s = malloc(sizeof *s);
    for (int i = 0; i < SAMPLES; i++) {
        float wave = (float)(60 * sin(0.3 * i) + 25 * sin(0.91 * i));
        bool late = i >= 5 * RATE;
        s->x[CLEAN][i] = wave;
        s->x[FLAT][i] = late ? 12.25f : wave;
        s->x[CLIPPED][i] = late ? fminf(fmaxf(4 * wave, -150), 150) : wave;
        s->x[MISSING][i] = late && i % 100 == 0 ? NAN : wave;
        s->x[NOISY][i] = late ? 20 * wave : wave;
    }
    return s;
}

static void push(struct quality *q, struct signal *s, int64_t first, int64_t end) {
    float *rows[CHANNELS];
    for (int c = 0; c < CHANNELS; c++)
        rows[c] = s->x[c] + first;
    assert_int_equal(quality_push(q, rows, end - first, NULL), 0);
}

static struct quality_report take(struct quality *q, double from_s, double to_s) {
    struct quality_report r;
    assert_int_equal(quality_take(q, (int64_t)(from_s * 256), (int64_t)(to_s * 256), &r, NULL), 0);
    return r;
}

static void each_flaw_is_found_where_it_is_and_nowhere_else(void **state) {
    (void)state;
    struct signal *s = make();
    struct quality *q = quality_new(CHANNELS, RATE, INFINITY);
    push(q, s, 0, SAMPLES);
    struct quality_report clean = take(q, 0, 5), bad = take(q, 5, 15);
    assert_int_equal(clean.n, 0);
    assert_true(clean.gap_fraction <= 0);
    assert_int_equal(bad.n, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(bad.channels[i].channel, i + 1);
        assert_int_equal(bad.channels[i].flaws, 1 << i);
    }
    assert_true(isfinite(s->x[MISSING][500 + 5 * RATE]) && s->x[MISSING][1300] <= s->x[MISSING][1299] &&
                s->x[MISSING][1300] >= s->x[MISSING][1299]); /* the last number is held */
    free(bad.channels);
    quality_free(q);
    free(s);
}

static void samples_at_the_limit_of_the_source_are_clipped(void **state) {
    (void)state;
    struct signal *s = make();
    struct quality *q = quality_new(CHANNELS, RATE, 85);
    push(q, s, 0, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        s->x[CLEAN][i] = i % 20 ? 40 : 85;
    struct quality *other = quality_new(CHANNELS, RATE, 85);
    push(other, s, 0, SAMPLES);
    struct quality_report r = take(q, 0, 4), at_limit = take(other, 0, 4);
    assert_int_equal(r.n, 0);
    assert_int_equal(at_limit.n, 1);
    assert_int_equal(at_limit.channels[0].flaws, QUALITY_CLIPPED);
    free(at_limit.channels);
    quality_free(q);
    quality_free(other);
    free(s);
}

static void samples_in_volts_are_noted_where_most_channels_have_them(void **state) {
    (void)state;
    struct signal *s = make();
    for (int i = 0; i < SAMPLES; i++)
        for (int c = 0; c < CHANNELS; c++)
            s->x[c][i] = c < 3 ? 60e-6F * sinf(0.3F * (float)(i + c)) : 2;
    struct quality *q = quality_new(CHANNELS, RATE, INFINITY);
    push(q, s, 0, SAMPLES);
    struct quality_report r = take(q, 0, 4);
    assert_int_equal(r.n, CHANNELS);
    for (int c = 0; c < CHANNELS; c++)
        assert_int_equal(r.channels[c].flaws, c < 3 ? QUALITY_FLAT | QUALITY_VOLTS : QUALITY_FLAT);
    assert_string_equal(quality_note(&r, CHANNELS), "the samples look like V, not µV");
    assert_string_equal(quality_note(&r, CHANNELS + 1), ""); /* half of them: electrodes that are off */
    struct str text = str_of(64);
    quality_put_flaws(&text, r.channels[0].flaws | QUALITY_MISSING);
    assert_string_equal(str_cstr(&text), " flat missing");
    str_done(&text);
    free(r.channels);
    quality_free(q);
    free(s);
}

/* Seconds of a segment that begins in the middle of one: they end in the next. */
static void what_is_told_of_a_channel_counts_where_its_samples_show_nothing(void **state) {
    (void)state;
    struct signal *s = make();
    struct quality *q = quality_new(CHANNELS, RATE, INFINITY);
    push(q, s, 0, 4 * RATE + 7);
    for (int64_t end = 256; end <= 4 * 256; end += 256)
        quality_tell(q, end, CLEAN, QUALITY_FLAT);     /* the seconds that are over */
    quality_tell(q, 4 * 256 + 5, CLEAN, QUALITY_FLAT); /* the one at hand */
    quality_tell(q, 4 * 256 + 5, NOISY, QUALITY_CLIPPED);
    struct quality_report r = take(q, 0, 4);
    assert_int_equal(r.n, 1);
    assert_int_equal(r.channels[0].channel, CLEAN);
    assert_int_equal(r.channels[0].flaws, QUALITY_FLAT);
    free(r.channels);
    struct str saved = str_of(1 << 20), told = str_of(1 << 20);
    quality_pack(q, &(struct packer){.to = &saved});
    quality_pack_told(q, &(struct packer){.to = &told});
    quality_free(q);
    q = quality_new(CHANNELS, RATE, INFINITY);
    struct packer in = {.from = unpack_of(saved.data, saved.len)}, more = {.from = unpack_of(told.data, told.len)};
    assert_true(quality_pack(q, &in));
    quality_pack_told(q, &more);
    assert_true(unpack_done(&in.from) && unpack_done(&more.from));
    str_done(&saved);
    str_done(&told);
    push(q, s, 4 * RATE + 7, 8 * RATE);
    quality_tell(q, 6 * 256, FLAT, QUALITY_CLIPPED); /* it is flat */
    assert_int_equal(quality_gap(q, RATE / 2, NULL), 0);
    quality_tell(q, 8 * 256 + 100, CLEAN, QUALITY_FLAT); /* samples are missing there */
    push(q, s, 8 * RATE + RATE / 2, 10 * RATE);
    r = take(q, 4, 5);
    assert_int_equal(r.n, 2);
    assert_int_equal(r.channels[0].flaws, QUALITY_FLAT);
    assert_int_equal(r.channels[1].flaws, QUALITY_CLIPPED);
    free(r.channels);
    r = take(q, 5, 7);
    assert_int_equal(r.n, 4);
    assert_int_equal(r.channels[0].flaws, QUALITY_FLAT);
    free(r.channels);
    r = take(q, 8, 9);
    assert_int_equal(r.n, 4);
    assert_int_equal(r.channels[0].channel, FLAT);
    free(r.channels);
    quality_free(q);
    free(s);
}

static void gaps_are_counted_also_where_they_last_a_day(void **state) {
    (void)state;
    struct signal *s = make();
    struct quality *q = quality_new(CHANNELS, RATE, INFINITY);
    push(q, s, 0, RATE);
    assert_int_equal(quality_gap(q, RATE / 2, NULL), 0); /* half of the second second */
    push(q, s, RATE, 3 * RATE + RATE / 2);
    struct quality_report r = take(q, 0, 4);
    assert_true(fabs(r.gap_fraction - 0.5 / 4) < 1e-9);
    free(r.channels);
    int64_t day = INT64_C(24) * 3600 * RATE;
    assert_int_equal(quality_gap(q, day, NULL), 0);
    push(q, s, 0, 2 * RATE);
    struct str saved;
    str_init(&saved, 1 << 20);
    quality_pack(q, &(struct packer){.to = &saved});
    assert_true(saved.len < 2000); /* nothing is kept of the seconds within */
    str_done(&saved);
    r = take(q, 24 * 3600 + 4, 24 * 3600 + 6);
    assert_true(r.gap_fraction <= 0 && !r.n);
    quality_free(q);
    free(s);
}

/* The reports of a stream in pushes of at most `most` samples with a gap in it, taken as soon as they can be; with `again`, through
 * a saved state each time. */
static void reports_of(uint64_t *rng, int64_t most, bool again, struct str *out) {
    struct signal *s = make();
    struct quality *q = quality_new(CHANNELS, RATE, INFINITY);
    int64_t at = 0, taken = 0, lost = 0;
    while (at < SAMPLES) {
        *rng = *rng * 6364136223846793005u + 1442695040888963407u;
        int64_t end = at + 1 + (int64_t)(*rng >> 33) % most;
        if (at < 2222 && end > 2222)
            end = 2222;
        end = end < SAMPLES ? end : SAMPLES;
        push(q, s, at, end);
        at = end;
        if (at == 2222)
            assert_int_equal(quality_gap(q, lost = 333, NULL), 0);
        for (; (taken + 2) * RATE + RATE / 4 <= at + lost; taken += 2) {
            struct quality_report r = take(q, (double)taken, (double)taken + 2);
            pack_f64(out, r.gap_fraction);
            pack_bytes(out, r.channels, (size_t)r.n * sizeof *r.channels);
            free(r.channels);
        }
        if (again) {
            struct str saved;
            str_init(&saved, 1 << 20);
            quality_pack(q, &(struct packer){.to = &saved});
            quality_free(q);
            q = quality_new(CHANNELS, RATE, INFINITY);
            struct packer in = {.from = unpack_of(saved.data, saved.len)};
            assert_true(quality_pack(q, &in) && unpack_done(&in.from));
            str_done(&saved);
        }
    }
    quality_free(q);
    free(s);
}

static void reports_depend_on_no_chunking_and_survive_a_snapshot(void **state) {
    (void)state;
    struct str wanted, got;
    uint64_t rng = test_seed();
    str_init(&wanted, 1 << 20);
    str_init(&got, 1 << 20);
    reports_of(&rng, SAMPLES, false, &wanted);
    assert_true(wanted.len > 400);
    for (int64_t most = 1; most < SAMPLES; most = most * 7 + 2)
        for (int again = 0; again < 2; again++) {
            str_clear(&got);
            reports_of(&rng, most, again, &got);
            assert_int_equal(got.len, wanted.len);
            assert_memory_equal(got.data, wanted.data, wanted.len);
        }
    str_done(&wanted);
    str_done(&got);
}

static void a_state_that_is_cut_is_refused(void **state) {
    (void)state;
    struct signal *s = make();
    struct quality *q = quality_new(CHANNELS, RATE, INFINITY);
    struct str saved;
    str_init(&saved, 1 << 20);
    push(q, s, 0, 3 * RATE + 10);
    quality_pack(q, &(struct packer){.to = &saved});
    for (size_t n = 0; n < saved.len; n++) {
        struct quality *other = quality_new(CHANNELS, RATE, INFINITY);
        struct packer in = {.from = unpack_of(saved.data, n)};
        assert_false(quality_pack(other, &in));
        quality_free(other);
    }
    str_done(&saved);
    quality_free(q);
    free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_flaw_is_found_where_it_is_and_nowhere_else),
        cmocka_unit_test(samples_at_the_limit_of_the_source_are_clipped),
        cmocka_unit_test(samples_in_volts_are_noted_where_most_channels_have_them),
        cmocka_unit_test(what_is_told_of_a_channel_counts_where_its_samples_show_nothing),
        cmocka_unit_test(gaps_are_counted_also_where_they_last_a_day),
        cmocka_unit_test(reports_depend_on_no_chunking_and_survive_a_snapshot),
        cmocka_unit_test(a_state_that_is_cut_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
