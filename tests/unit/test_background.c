/* The level of a person's background against its definition, computed the plain way. */

#include "unit/cmocka_all.h"

#include "base/rng.h"
#include "eeg/background.h"

enum { S = BACKGROUND_BLOCKS_PER_S };
static const double PRIOR = 1.4;

static struct rng rng;

static double near(double level) { return level + 0.1 * rng_normal(&rng); }

static void hear(struct background *b, double level, int seconds) {
    for (int i = 0; i < seconds * S; i++)
        background_hear(b, near(level));
}

static struct background stranger(void) {
    struct background b;
    rng_init(&rng, 7, RNG_SYNTH, 0);
    background_start(&b, PRIOR, true);
    return b;
}

static double normal_share(double x, double median, double deviation) { return 0.5 * erfc((median - x) / (deviation * sqrt(2))); }

/* The smallest x of a fine grid below which 40 % of everything lie. */
static double plain(const double *heard, int n, double known, double worth) {
    for (double x = -3;; x += 1e-4) {
        double below = 5 * S * normal_share(x, PRIOR, 0.6) + worth * normal_share(x, known, 0.2);
        for (int i = 0; i < n; i++)
            below += heard[i] <= x;
        if (below >= 0.4 * (5 * S + worth + n))
            return x < PRIOR ? x : PRIOR;
    }
}

static void the_first_minute_is_a_quantile_of_the_prior_and_of_what_was_heard(void **state) {
    (void)state;
    static double heard[BACKGROUND_LEARNED];
    struct background b = stranger();
    assert_true(b.level == PRIOR && background_left_s(&b) == BACKGROUND_LEARN_S);
    for (int i = 0; i < 20 * S; i++) {
        heard[i] = near(i % 3 ? 0.2 : 2.5);
        background_hear(&b, heard[i]);
        if (i % 37 == 0)
            assert_float_equal(b.level, plain(heard, i + 1, 0, 0), 2e-4);
    }
    assert_int_equal(background_left_s(&b), 40);
    background_resume(&b, 600); /* ten minutes: 10 s of the 20 */
    const double known = b.known;
    assert_true(fabs(b.worth - 10 * S) < 1e-9 && background_left_s(&b) == BACKGROUND_LEARN_S);
    for (int i = 0; i < 10 * S; i++) {
        heard[i] = near(0.9);
        background_hear(&b, heard[i]);
    }
    assert_float_equal(b.level, plain(heard, 10 * S, known, 10 * S), 2e-4);
}

static void a_quiet_person_is_known_after_twenty_seconds(void **state) {
    (void)state;
    struct background b = stranger();
    hear(&b, PRIOR - 1.2, 20);
    assert_true(b.level < PRIOR - 1.1);
}

static void what_begins_loud_is_no_background(void **state) {
    (void)state;
    struct background b = stranger();
    hear(&b, PRIOR + 1, BACKGROUND_LEARN_S);
    assert_true(b.level == PRIOR && background_left_s(&b) == 0);
    hear(&b, PRIOR + 1, 240);                         /* and then by a factor of 2 in 240 s */
    assert_float_equal(b.level, PRIOR + M_LN2, 0.01); /* more slowly at the end, which is near */
}

static void after_a_gap_the_level_goes_on_and_lets_another_person_in(void **state) {
    (void)state;
    struct background b = stranger();
    hear(&b, PRIOR - 1.2, 120);
    const double before = b.level;
    background_resume(&b, 60);
    assert_true(fabs(b.level - before) < 0.1);
    struct background loud = stranger();
    hear(&loud, PRIOR - 1.2, 60);
    hear(&loud, PRIOR + 0.6, 1200);
    assert_true(loud.level > PRIOR + 0.3);
    background_resume(&loud, 60);
    hear(&loud, PRIOR - 1.2, 30);
    assert_true(loud.level < PRIOR - 1);
}

static void one_that_does_not_learn_follows_from_its_prior_on(void **state) {
    (void)state;
    struct background b;
    background_start(&b, PRIOR, false);
    for (int i = 0; i < 240 * S; i++)
        background_hear(&b, PRIOR - 2);
    assert_float_equal(b.level, PRIOR - M_LN2, 1e-9);
    assert_int_equal(background_left_s(&b), 0);
}

static void a_snapshot_goes_on_to_the_bit_and_a_corrupt_one_is_refused(void **state) {
    (void)state;
    struct background b = stranger(), other;
    struct str saved;
    str_init(&saved, 1 << 20);
    hear(&b, 0.3, 70);
    background_resume(&b, 30);
    hear(&b, 0.5, 7);
    background_pack(&b, &(struct packer){.to = &saved});
    background_start(&other, PRIOR, true);
    struct packer in = {.from = unpack_of(saved.data, saved.len)};
    background_pack(&other, &in);
    assert_true(unpack_done(&in.from));
    for (int i = 0; i < 80 * S; i++) {
        const double value = near(0.1);
        background_hear(&b, value);
        background_hear(&other, value);
        assert_true(other.level == b.level);
    }
    for (size_t len = 0; len < saved.len; len += 7) {
        in.from = unpack_of(saved.data, len);
        background_pack(&other, &in);
        assert_true(in.from.failed);
    }
    saved.data[saved.len - 1] = 0x7f; /* the largest of the values is no longer one: they stay sorted, it is none */
    saved.data[saved.len - 2] = (char)0xf8;
    in.from = unpack_of(saved.data, saved.len);
    background_pack(&other, &in);
    assert_true(in.from.failed);
    str_done(&saved);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_minute_is_a_quantile_of_the_prior_and_of_what_was_heard),
        cmocka_unit_test(a_quiet_person_is_known_after_twenty_seconds),
        cmocka_unit_test(what_begins_loud_is_no_background),
        cmocka_unit_test(after_a_gap_the_level_goes_on_and_lets_another_person_in),
        cmocka_unit_test(one_that_does_not_learn_follows_from_its_prior_on),
        cmocka_unit_test(a_snapshot_goes_on_to_the_bit_and_a_corrupt_one_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
