/* trusted_time: nothing is old because somebody set the clock. */
#include "base/trusted_time.h"

#include "unit/cmocka_all.h"

enum { DAY_MS = 24 * 3600 * 1000 };
static const int64_t YEAR_MS = INT64_C(365) * DAY_MS;

static void age_counts_after_a_steady_day(void **state) {
    (void)state;
    struct trusted_time t = {0};
    assert_false(trusted_time_look(&t, 1000, YEAR_MS, YEAR_MS));
    assert_false(trusted_time_look(&t, 1000 + DAY_MS - 1, YEAR_MS + DAY_MS - 1, YEAR_MS));
    assert_true(trusted_time_look(&t, 1000 + DAY_MS, YEAR_MS + DAY_MS + TRUSTED_STEP_MS, YEAR_MS)); /* set by an hour */
    assert_false(trusted_time_look(&t, 2000 + DAY_MS, 2 * YEAR_MS, YEAR_MS));                       /* by a year */
    assert_false(trusted_time_look(&t, 3000 + DAY_MS, YEAR_MS, YEAR_MS));                           /* and back */
    assert_false(trusted_time_look(&t, 2000 + 2 * DAY_MS, YEAR_MS + DAY_MS - 1000, YEAR_MS));
    assert_true(trusted_time_look(&t, 3000 + 2 * DAY_MS, YEAR_MS + DAY_MS, YEAR_MS));
    assert_int_equal(t.newest_ms, 2 * YEAR_MS);
}

/* What was there before a step is truly as old as the time since. */
static void a_short_age_counts_after_that_age(void **state) {
    (void)state;
    struct trusted_time t = {0};
    assert_false(trusted_time_look(&t, 0, YEAR_MS, 2000));
    assert_false(trusted_time_look(&t, 1999, YEAR_MS + 1999, 2000));
    assert_true(trusted_time_look(&t, 2000, YEAR_MS + 2000, 2000));
    assert_false(trusted_time_look(&t, 2100, 2 * YEAR_MS, 2000));
    assert_true(trusted_time_look(&t, 4100, 2 * YEAR_MS + 2000, 2000));
}

static void the_boot_has_an_id(void **state) {
    (void)state;
    char id[TRUSTED_BOOT_ID], again[TRUSTED_BOOT_ID];
    trusted_boot_id(id);
    trusted_boot_id(again);
    assert_string_equal(id, again);
    assert_true(trusted_boot_ms() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(age_counts_after_a_steady_day),
        cmocka_unit_test(a_short_age_counts_after_that_age),
        cmocka_unit_test(the_boot_has_an_id),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
