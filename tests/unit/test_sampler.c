#include "corpus_fixture.h"
#include "unit/cmocka_all.h"
#include "windows/sampler.h"

static char folder[4096], root[4200], cache[4200];
static struct manifest *corpus;

static int set_up(void **state) {
    (void)state;
    corpus_make(folder, root, cache);
    struct manifest_config config = corpus_config(root, cache);
    return manifest_open(&config, NULL, NULL, &corpus, NULL);
}

static int tear_down(void **state) {
    (void)state;
    manifest_close(corpus);
    fixture_remove(folder);
    return 0;
}

static void the_published_counts_give_the_published_epoch(void **state) {
    (void)state;
    const struct balance_counts found = {13095, 6759, 232235};
    const struct balance_config balance = {0.3, 2.5, true, 0, 0};
    struct balance_counts used;
    balance_plan(&found, &balance, &used);
    assert_int_equal(used.partial, 13095);
    assert_int_equal(used.full, 3928);
    assert_int_equal(used.none, 32737);
    int64_t total = used.partial + used.full + used.none;
    assert_int_equal(total, 49760);
    assert_int_equal(llround(1000.0 * (double)(used.partial + used.full) / (double)total), 342);
}

static void the_balance_never_takes_more_than_there_is(void **state) {
    (void)state;
    const struct balance_config balance = {0.3, 2.5, true, 0, 0};
    struct balance_counts used;
    balance_plan(&(struct balance_counts){100, 5, 40}, &balance, &used);
    assert_int_equal(used.full, 5);
    assert_int_equal(used.none, 40);
    balance_plan(&(struct balance_counts){0, 10, 1000}, &balance, &used); /* full ones take P's place */
    assert_int_equal(used.partial, 0);
    assert_int_equal(used.full, 10);
    assert_int_equal(used.none, 25);
    balance_plan(&(struct balance_counts){0, 0, 1000}, &balance, &used);
    assert_int_equal(used.none, 0);
}

static struct sampler *open_sampler(uint64_t seed, bool redraw) {
    static const uint8_t role[5] = {1, 1, 1, 1, 2};
    const struct balance_config balance = {0.5, 2.5, redraw, 0, 0};
    struct sampler *s = NULL;
    assert_int_equal(sampler_new(corpus, role, &balance, seed, &s, NULL), 0);
    return s;
}

static int class_of(struct window_ref ref) {
    struct recording_info info;
    recording_info(manifest_entry(corpus, ref.entry)->recording, &info);
    return (int)manifest_count_window(&info, ref.start, CORPUS_WINDOW).class;
}

static void an_epoch_shows_the_planned_classes_without_repetition(void **state) {
    (void)state;
    struct sampler *s = open_sampler(42, true);
    struct balance_counts found, used;
    sampler_counts(s, &found, &used);
    assert_int_equal(found.partial, 8);
    assert_int_equal(found.full, 16);
    assert_int_equal(found.none, 47 * 2 + 59 + 29);
    assert_int_equal(used.full, 4);
    assert_int_equal(used.none, 20);
    assert_int_equal(sampler_epoch_windows(s), 32);
    for (int64_t epoch = 0; epoch < 5; epoch++) {
        int64_t classes[3] = {0};
        for (int64_t i = 0; i < 32; i++) {
            struct window_ref a = sampler_at(s, epoch, i);
            assert_true(a.entry < 4); /* the validation recording is never shown */
            classes[class_of(a)]++;
            for (int64_t j = 0; j < i; j++) {
                struct window_ref b = sampler_at(s, epoch, j);
                assert_false(a.entry == b.entry && a.start == b.start);
            }
        }
        assert_int_equal(classes[WINDOW_PARTIAL], 8);
        assert_int_equal(classes[WINDOW_FULL], 4);
        assert_int_equal(classes[WINDOW_NONE], 20);
    }
    double prior, ratio;
    sampler_ratios(s, &prior, &ratio);
    assert_true(fabs(ratio - 12.0 / 32) < 1e-12);
    /* Partial windows hold 0.5 + 1.5 + 1.5 + 0.5 of 2 s each, twice; full ones are all seizure. */
    assert_true(fabs(prior - (8 + 8) / 64.0) < 1e-12);
    sampler_free(s);
}

static void a_window_depends_only_on_seed_epoch_and_index(void **state) {
    (void)state;
    struct sampler *a = open_sampler(7, true), *b = open_sampler(7, true), *other = open_sampler(8, true);
    int differences = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t i = 0; i < 32; i++) {
            struct window_ref x = sampler_at(a, epoch, i), z = sampler_at(other, epoch, i);
            struct window_ref y = sampler_at(b, 2 - epoch, 31 - i); /* b walks backwards */
            struct window_ref again = sampler_at(a, 2 - epoch, 31 - i);
            assert_true(y.entry == again.entry && y.start == again.start);
            differences += x.entry != z.entry || x.start != z.start;
        }
    assert_true(differences > 60);
    sampler_free(a);
    sampler_free(b);
    sampler_free(other);
}

static void jitter_moves_whole_windows_within_their_segment(void **state) {
    (void)state;
    struct sampler *plain = open_sampler(7, true), *a = open_sampler(7, true), *b = open_sampler(7, true);
    sampler_set_jitter(a);
    sampler_set_jitter(b);
    int moved = 0, early = 0;
    for (int64_t epoch = 0; epoch < 3; epoch++)
        for (int64_t i = 0; i < 32; i++) {
            struct window_ref x = sampler_at(plain, epoch, i), y = sampler_at(a, epoch, i);
            struct recording_info info;
            recording_info(manifest_entry(corpus, y.entry)->recording, &info);
            assert_int_equal(x.entry, y.entry);
            assert_true(llabs(y.start - x.start) <= CORPUS_HOP / 2);
            assert_int_equal(window_valid(info.segments, info.n_segments, y.start, CORPUS_WINDOW), CORPUS_WINDOW);
            moved += y.start != x.start;
            early += y.start < x.start;
            struct window_ref again = sampler_at(b, 2 - epoch, 31 - i), same = sampler_at(a, 2 - epoch, 31 - i);
            assert_true(again.entry == same.entry && again.start == same.start);
        }
    assert_true(moved > 80 && early > 20 && early < 70);
    sampler_free(plain);
    sampler_free(a);
    sampler_free(b);
}

/* Set of windows of an epoch as a bit per (entry, start). */
static void mark(struct sampler *s, int64_t epoch, uint8_t seen[5][64]) {
    memset(seen, 0, 5 * 64);
    for (int64_t i = 0; i < sampler_epoch_windows(s); i++) {
        struct window_ref ref = sampler_at(s, epoch, i);
        seen[ref.entry][ref.start / CORPUS_HOP] = 1;
    }
}

static void background_is_redrawn_each_epoch_only_when_asked(void **state) {
    (void)state;
    uint8_t first[5][64], second[5][64];
    struct sampler *s = open_sampler(3, true);
    mark(s, 0, first);
    mark(s, 1, second);
    assert_memory_not_equal(first, second, sizeof first);
    sampler_free(s);
    s = open_sampler(3, false);
    mark(s, 0, first);
    mark(s, 1, second);
    assert_memory_equal(first, second, sizeof first);
    int moved = 0;
    for (int64_t i = 0; i < 32; i++)
        moved += sampler_at(s, 0, i).start != sampler_at(s, 1, i).start;
    assert_true(moved > 16); /* in another order */
    sampler_free(s);
}

static struct sampler *open_balanced(const struct balance_config *balance) {
    static const uint8_t role[5] = {1, 1, 1, 1, 2};
    struct sampler *s = NULL;
    assert_int_equal(sampler_new(corpus, role, balance, 5, &s, NULL), 0);
    return s;
}

static void half_of_the_background_comes_from_the_hard_windows(void **state) {
    (void)state;
    const struct balance_config balance = {0.5, 2.5, true, 0, 0.5};
    struct sampler *s = open_balanced(&balance), *resumed = open_balanced(&balance), *plain = open_sampler(5, true);
    struct window_ref hard[30];
    int64_t n = 0, found = 0, wanted = sampler_hard_wanted(s);
    const struct window_ref *background = sampler_background(s, &found);
    uint8_t seen[5][64], is_hard[5][64] = {{0}};
    assert_int_equal(wanted, 20);
    assert_int_equal(found, 47 * 2 + 59 + 29);
    for (int64_t i = 0; i < 32; i++) { /* without hard windows nothing changes */
        struct window_ref x = sampler_at(s, 0, i), y = sampler_at(plain, 0, i);
        assert_true(x.entry == y.entry && x.start == y.start);
    }
    for (; n < wanted; n++) {
        hard[n] = background[(n * 37 + 11) % found];
        is_hard[hard[n].entry][hard[n].start / CORPUS_HOP] = 1;
    }
    hard[n++] = hard[3];                                 /* twice */
    hard[n++] = (struct window_ref){0, 22 * CORPUS_HOP}; /* no background */
    hard[n++] = (struct window_ref){-1, 0};              /* nothing at all */
    assert_int_equal(sampler_set_hard(s, hard, n, NULL), 0);
    assert_int_equal(sampler_set_hard(resumed, hard, n, NULL), 0);
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        int64_t shown = 0, classes[3] = {0}, different = 0;
        mark(s, epoch, seen);
        for (int e = 0; e < 5; e++)
            for (int w = 0; w < 64; w++) {
                shown += seen[e][w] && is_hard[e][w];
                different += seen[e][w];
            }
        assert_int_equal(shown, 10); /* half of 20, of 20 hard ones */
        assert_int_equal(different, 32);
        for (int64_t i = 0; i < 32; i++) {
            struct window_ref x = sampler_at(s, 3 - epoch, i), y = sampler_at(resumed, 3 - epoch, i);
            assert_true(x.entry == y.entry && x.start == y.start);
            classes[class_of(x)]++;
        }
        assert_true(classes[WINDOW_PARTIAL] == 8 && classes[WINDOW_FULL] == 4 && classes[WINDOW_NONE] == 20);
    }
    assert_int_equal(sampler_set_hard(s, NULL, 0, NULL), 0);
    for (int64_t i = 0; i < 32; i++) {
        struct window_ref x = sampler_at(s, 1, i), y = sampler_at(plain, 1, i);
        assert_true(x.entry == y.entry && x.start == y.start);
    }
    sampler_free(s);
    sampler_free(resumed);
    sampler_free(plain);
}

static void no_patient_shows_more_partial_windows_than_it_may(void **state) {
    (void)state;
    static const uint8_t role[5] = {1, 1, 1, 1, 2};
    const struct balance_config balance = {0.5, 2.5, true, 3, 0};
    struct sampler *s = open_balanced(&balance);
    struct balance_counts found, used;
    int64_t ever[5][64] = {{0}};
    int different = 0;
    sampler_counts(s, &found, &used);
    assert_true(found.partial == 8 && used.partial == 6 && used.full == 3 && used.none == 15);
    assert_int_equal(balance_partial(corpus, role, &balance), 6);
    assert_int_equal(balance_partial(corpus, role, &(struct balance_config){0.5, 2.5, true, 0, 0}), 8);
    for (int64_t epoch = 0; epoch < 12; epoch++) {
        int64_t of_patient[5] = {0};
        for (int64_t i = 0; i < sampler_epoch_windows(s); i++) {
            struct window_ref ref = sampler_at(s, epoch, i);
            if (class_of(ref) != WINDOW_PARTIAL)
                continue;
            of_patient[ref.entry]++;
            ever[ref.entry][ref.start / CORPUS_HOP]++;
        }
        assert_true(of_patient[0] == 3 && of_patient[1] == 3);
    }
    for (int e = 0; e < 2; e++)
        for (int w = 0; w < 64; w++)
            different += ever[e][w] > 0;
    assert_int_equal(different, 8); /* each is shown sooner or later */
    sampler_free(s);
}

static void a_training_set_without_seizures_is_refused(void **state) {
    (void)state;
    static const uint8_t role[5] = {0, 0, 1, 1, 0};
    const struct balance_config balance = {0.3, 2.5, true, 0, 0};
    struct sampler *s = NULL;
    struct err err;
    assert_int_equal(sampler_new(corpus, role, &balance, 1, &s, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "88 windows without seizure"));
    assert_null(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_counts_give_the_published_epoch),
        cmocka_unit_test(the_balance_never_takes_more_than_there_is),
        cmocka_unit_test(an_epoch_shows_the_planned_classes_without_repetition),
        cmocka_unit_test(a_window_depends_only_on_seed_epoch_and_index),
        cmocka_unit_test(jitter_moves_whole_windows_within_their_segment),
        cmocka_unit_test(background_is_redrawn_each_epoch_only_when_asked),
        cmocka_unit_test(half_of_the_background_comes_from_the_hard_windows),
        cmocka_unit_test(no_patient_shows_more_partial_windows_than_it_may),
        cmocka_unit_test(a_training_set_without_seizures_is_refused),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
