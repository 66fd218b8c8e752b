/* The self-tests of a device: the CPU passes them, with any number of threads. */

#include "burst/selftest_tick.h"
#include "nn/selftest.h"
#include "unit/cmocka_all.h"

static void the_cpu_passes_both_tests_with_any_number_of_threads(void **state) {
    (void)state;
    struct err err = {0};
    int64_t fired = 0;
    for (int threads = 1; threads <= 3; threads++) {
        struct selftest scan;
        struct selftest_tick tick;
        if (selftest_scan("cpu", threads, &scan, &err) || selftest_tick("cpu", threads, &tick, &err))
            fail_msg("%s", err.message);
        assert_int_equal(tick.ticks, 40);
        assert_in_range(tick.fired, 1000, 39000); /* neither silent nor without rest */
        assert_true(tick.events > tick.fired);
        assert_true(threads == 1 || tick.fired == fired);
        fired = tick.fired;
    }
}

static void a_device_that_is_not_there_is_an_error(void **state) {
    (void)state;
    struct selftest_tick tick;
    struct err err = {0};
    assert_true(selftest_tick("abacus", 1, &tick, &err) != 0);
    assert_true(err.message[0] != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_passes_both_tests_with_any_number_of_threads),
        cmocka_unit_test(a_device_that_is_not_there_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
