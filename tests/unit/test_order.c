/* order: numbers near their limits, NaN and equal strings have a place. */
#include "base/order.h"

#include "unit/cmocka_all.h"

static void numbers_at_their_limits_are_compared(void **state) {
    (void)state;
    assert_true(order_i64(INT64_MIN, INT64_MAX) < 0 && order_i64(INT64_MAX, INT64_MIN) > 0 && !order_i64(INT64_MIN, INT64_MIN));
    assert_true(order_u64(0, UINT64_MAX) < 0 && order_u64(UINT64_MAX, 0) > 0 && !order_u64(UINT64_MAX, UINT64_MAX));
    assert_true(order_i64(INT64_MAX - 1, INT64_MAX) < 0 && order_u64(UINT64_MAX, UINT64_MAX - 1) > 0);
    assert_true(order_f64(-INFINITY, INFINITY) < 0 && order_f64(INFINITY, -INFINITY) > 0 && !order_f64(INFINITY, INFINITY));
    assert_true(order_f64(1, 1 + 0x1p-52) < 0 && order_f64(-0x1p-1074, 0x1p-1074) < 0 && !order_f64(-0., 0.));
}

static void a_nan_comes_last(void **state) {
    (void)state;
    assert_true(order_f64(NAN, INFINITY) > 0 && order_f64(-INFINITY, NAN) < 0 && !order_f64(NAN, -(double)NAN));
    double values[] = {NAN, 2, -INFINITY, NAN, INFINITY, -1};
    const double want[] = {-INFINITY, -1, 2, INFINITY};
    SORT(values, 6, order_f64s);
    assert_memory_equal(values, want, sizeof want);
    assert_true(isnan(values[4]) && isnan(values[5]));
    float floats[] = {(float)NAN, 1, -2};
    SORT(floats, 3, order_f32s);
    assert_true(floats[0] == -2 && floats[1] == 1 && isnan(floats[2]));
}

static void whole_numbers_and_strings_are_sorted(void **state) {
    (void)state;
    uint32_t small[] = {UINT32_MAX, 0, 1};
    uint64_t large[] = {UINT64_MAX, 0, UINT64_MAX - 1}, missing = 2;
    const char *names[] = {"b", "", "a", "b"}, *key = "b";
    SORT(small, 3, order_u32s);
    assert_true(small[0] == 0 && small[1] == 1 && small[2] == UINT32_MAX);
    SORT(large, 3, order_u64s);
    assert_true(large[0] == 0 && large[1] == UINT64_MAX - 1 && large[2] == UINT64_MAX);
    assert_null(bsearch(&missing, large, 3, sizeof *large, order_u64s));
    SORT(names, 4, order_strings);
    assert_string_equal(names[0], "");
    assert_string_equal(names[1], "a");
    assert_true(!strcmp(names[2], "b") && !strcmp(names[3], "b") && bsearch(&key, names, 4, sizeof *names, order_strings));
}

static void no_items_are_sorted(void **state) {
    (void)state;
    double *none = NULL, one = 3;
    size_t n = 0;
    SORT(none, n, order_f64s);
    SORT(none, -1, order_f64s);
    SORT(&one, 1, order_f64s);
    assert_true(!none && one == 3);
}

static void the_second_order_decides_where_the_first_is_equal(void **state) {
    (void)state;
    assert_true(order_then(-1, 1) < 0 && order_then(1, -1) > 0 && order_then(0, -1) < 0 && !order_then(0, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_at_their_limits_are_compared),
        cmocka_unit_test(a_nan_comes_last),
        cmocka_unit_test(whole_numbers_and_strings_are_sorted),
        cmocka_unit_test(no_items_are_sorted),
        cmocka_unit_test(the_second_order_decides_where_the_first_is_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
