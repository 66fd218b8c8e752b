#include "score/interval.h"
#include "unit/cmocka_all.h"

static void near(struct interval got, double low, double high, double within) {
    assert_float_equal(got.low, low, within);
    assert_float_equal(got.high, high, within);
}

/* Wilson, E. B. (1927) as in Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29. */
static void shares_have_the_interval_of_wilson(void **state) {
    (void)state;
    near(interval_share(81, 263), 0.2553, 0.3662, 5e-5);
    near(interval_share(15, 148), 0.0624, 0.1605, 5e-5);
    near(interval_share(0, 20), 0, 0.1611, 5e-5);
    near(interval_share(1, 29), 0.0061, 0.1718, 5e-5);
    near(interval_share(0, 0), 0, 1, 0);
}

/* Garwood's exact limits: 0: 0 to 3.69; 3: 0.62 to 8.77; 10: 4.80 to 18.39; 100: 81.36 to 121.63. */
static void counts_have_nearly_the_exact_poisson_interval(void **state) {
    (void)state;
    near(interval_count(0), 0, 3.69, 0.06);
    near(interval_count(3), 0.62, 8.77, 0.05);
    near(interval_count(10), 4.80, 18.39, 0.05);
    near(interval_count(100), 81.36, 121.63, 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(shares_have_the_interval_of_wilson),
                                       cmocka_unit_test(counts_have_nearly_the_exact_poisson_interval)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
