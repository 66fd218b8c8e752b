#include "unit/cmocka_all.h"

#include "train/best.h"

static bool offer(struct best *b, int64_t step, double rank, double chance, bool *ret_gain) {
    struct best_value v = {.metric = -rank, .rank = rank, .chance = chance};
    return best_offer(b, step, &v, ret_gain);
}

static int64_t kept(const double *metrics, int n, double chance) {
    struct best b;
    bool gain;
    best_init(&b);
    for (int i = 0; i < n; i++)
        offer(&b, i + 1, metrics[i], chance, &gain);
    return b.step;
}

static void before_the_first_rank_no_step_is_kept_not_even_step_0(void **state) {
    struct best b;
    bool gain;
    (void)state;
    best_init(&b);
    assert_true(b.step == STEP_NONE && !best_keeps(&b, 0, 1));
    assert_true(!offer(&b, 0, NAN, 0, &gain) && b.step == STEP_NONE);
    assert_true(offer(&b, 0, 0.5, 0, &gain) && b.step == 0 && best_keeps(&b, 0, 1));
}

static void the_highest_is_kept_and_of_equal_ones_the_newest(void **state) {
    (void)state;
    assert_int_equal(kept((double[]){0.5, 0.9, 0.7}, 3, 0), 2);
    assert_int_equal(kept((double[]){0.5, 0.9, 0.9}, 3, 0), 3);
    assert_int_equal(kept((double[]){0.5, 0.9, 0.9 - 1e-7}, 3, 0), 3);
    assert_int_equal(kept((double[]){-3, -1, -2}, 3, 0), 2); /* a loss, negated */
}

static void within_chance_the_newest_is_kept(void **state) {
    (void)state;
    assert_int_equal(kept((double[]){0.5, 1.0, 0.95, 0.8}, 4, 0.1), 3);
    assert_int_equal(kept((double[]){0.5, 1.0, 0.95, 0.8}, 4, 0.01), 2);
}

/* Each within chance of the one before it, the last far below the highest. */
static void what_is_kept_does_not_creep_down(void **state) {
    (void)state;
    assert_int_equal(kept((double[]){1.0, 0.94, 0.88, 0.82, 0.76}, 5, 0.1), 2);
}

static void a_gain_is_a_new_height(void **state) {
    (void)state;
    struct best b;
    bool gain;
    best_init(&b);
    assert_true(offer(&b, 1, 0.8, 0.1, &gain) && gain);
    assert_true(offer(&b, 2, 0.75, 0.1, &gain) && !gain);
    assert_true(b.step == 2 && b.metric == -0.75 && b.highest == 0.8);
    assert_true(offer(&b, 3, 0.78, 0.1, &gain) && !gain);
    assert_true(offer(&b, 4, 0.81, 0.1, &gain) && gain);
    assert_false(offer(&b, 5, 0.2, 0.1, &gain) || gain);
    assert_int_equal(b.step, 4);
}

static void what_is_no_number_is_never_kept(void **state) {
    (void)state;
    struct best b;
    bool gain;
    best_init(&b);
    assert_false(offer(&b, 1, NAN, 0.1, &gain) || gain);
    assert_false(offer(&b, 2, INFINITY, 0.1, &gain) || gain);
    assert_int_equal(b.step, STEP_NONE);
    assert_true(offer(&b, 3, 0.1, 0.1, &gain) && gain);
    assert_false(offer(&b, 4, NAN, 0.1, &gain) || gain);
    assert_int_equal(b.step, 3);
}

/* The steps kept out of 1, 2, 3, …, with the ranks r. */
static void assert_keeps(const double *r, int n, int64_t keep, const char *expected) {
    struct best b;
    bool gain;
    char text[128] = "";
    best_init(&b);
    for (int i = 0; i < n; i++)
        offer(&b, i + 1, r[i], 0.1, &gain);
    for (int i = 0; i < n; i++)
        if (best_keeps(&b, i + 1, keep))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", i + 1);
    assert_string_equal(text, expected);
}

static void the_best_and_the_highest_others_are_kept(void **state) {
    (void)state;
    const double ranks[] = {0.2, 0.9, 0.4, 0.9, 0.85, NAN, 0.1}; /* the best is 5: within chance the newest */
    assert_keeps(ranks, 7, 1, "5 ");
    assert_keeps(ranks, 7, 2, "4 5 ");
    assert_keeps(ranks, 7, 3, "2 4 5 ");
    assert_keeps(ranks, 7, 4, "2 3 4 5 ");
    assert_keeps(ranks, 7, BEST_MAX, "1 2 3 4 5 7 ");
    double many[40];
    for (int i = 0; i < 40; i++)
        many[i] = i;
    assert_keeps(many, 40, 3, "38 39 40 ");
    for (int i = 0; i < 40; i++)
        many[i] = -i;
    assert_keeps(many, 40, 3, "1 2 3 ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_rank_no_step_is_kept_not_even_step_0),
        cmocka_unit_test(the_highest_is_kept_and_of_equal_ones_the_newest),
        cmocka_unit_test(within_chance_the_newest_is_kept),
        cmocka_unit_test(what_is_kept_does_not_creep_down),
        cmocka_unit_test(a_gain_is_a_new_height),
        cmocka_unit_test(the_best_and_the_highest_others_are_kept),
        cmocka_unit_test(what_is_no_number_is_never_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
