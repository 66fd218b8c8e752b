/* Rates that recorders write as rounded decimals. */

#include "unit/cmocka_all.h"

#include "formats/rate.h"

static void assert_rate(const char *text, bool interval, int64_t num, int64_t den) {
    struct exact_rate rate;
    if (!rate_of_decimal(text, interval, &rate) || rate.num != num || rate.den != den || rate.approximate)
        fail_msg("%s %s: %lld/%lld; expected %lld/%lld", text, interval ? "us" : "Hz", (long long)rate.num, (long long)rate.den,
                 (long long)num, (long long)den);
}

static void every_whole_rate_comes_back(void **state) {
    (void)state;
    for (int hz = 1; hz <= 4096; hz++)
        for (int digits = 6; digits <= 17; digits++) {
            char text[4][64];
            str_format(text[0], sizeof text[0], "%.*g", digits, 1e6 / hz);
            str_format(text[1], sizeof text[1], "%#.*g", digits, 1e6 / hz);
            str_format(text[2], sizeof text[2], "%.*g", digits, (double)hz);
            str_format(text[3], sizeof text[3], "%#.*g", digits, (double)hz);
            for (int i = 0; i < 4; i++)
                assert_rate(text[i], i < 2, hz, 1);
        }
}

static void a_decimal_is_a_fraction_only_where_it_is_far_simpler(void **state) {
    (void)state;
    assert_rate("255.99", false, 25599, 100);
    assert_rate("255.990", false, 25599, 100);
    assert_rate("128.3", false, 1283, 10);
    assert_rate("199.8", false, 999, 5);
    assert_rate("341.33", false, 1024, 3);
    assert_rate("333.3333333333333", false, 1000, 3);
    assert_rate("2.56e2", false, 256, 1);
    assert_rate("3333.333", true, 300, 1);
    assert_rate("3906", true, 256, 1);
    assert_rate("4883", true, 1024, 5);
    struct exact_rate rate;
    assert_true(rate_of_records("0.003333", 1, &rate) && rate.num == 300 && rate.den == 1);
    assert_true(rate_of_records("0.003906", 1, &rate) && rate.num == 256 && rate.den == 1);
    assert_true(rate_of_records("2", 999, &rate) && rate.num == 999 && rate.den == 2);
    assert_true(rate_of_records("9.59375", 959, &rate) && rate.num == 30688 && rate.den == 307);
    assert_true(rate_of_number(1000.0 / 3, false, &rate) && rate.num == 1000 && rate.den == 3);
    assert_true(rate_of_number((double)255.99F, true, &rate) && rate.num == 25599 && rate.den == 100);
    assert_true(rate_of_decimal("256.0123456789", false, &rate));
    static const char *const wrong[] = {"", "0", "-1", "1.2.3", "5e", "1e400", "much", "nan", "1e10"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_false(rate_of_decimal(wrong[i], false, &rate));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_whole_rate_comes_back),
        cmocka_unit_test(a_decimal_is_a_fraction_only_where_it_is_far_simpler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
