#include "base/trusted_time.h"
#include "unit/cmocka_all.h"

static void both_units_are_the_same_monotonic_clock(void **state) {
    (void)state;
    double s = clock_s();
    int64_t ms = clock_ms();
    double later = clock_s();
    assert_true(s <= later);
    assert_true((double)ms >= floor(s * 1e3) && (double)ms <= later * 1e3);
}

static void wall_time_is_that_of_the_calendar(void **state) {
    (void)state;
    time_t before = time(NULL);
    int64_t ms = clock_wall_ms();
    assert_in_range(ms / 1000, (uintmax_t)before, (uintmax_t)time(NULL) + 1);
}

/* Deadlines carry into the next second, whatever the present fraction is. */
static void deadlines_are_so_far_away_as_asked(void **state) {
    (void)state;
    static const int64_t waits[] = {0, 1, 999, 1000, 1001, 123456};
    for (int round = 0; round < 2000; round++) {
        int64_t wait = waits[round % 6];
        double from = clock_s();
        struct timespec t = clock_after_ms(wait);
        double at = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec, to = clock_s();
        assert_in_range(t.tv_nsec, 0, 999999999);
        assert_true(at >= from + (double)wait * 1e-3 - 1e-6 && at <= to + (double)wait * 1e-3 + 1e-6);
    }
}

static void a_condition_waits_until_its_monotonic_deadline(void **state) {
    (void)state;
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    clock_cond_init(&cond);
    struct timespec until = clock_after_ms(30);
    double start = clock_s();
    int rc = 0;
    pthread_mutex_lock(&lock);
    while (!rc)
        rc = pthread_cond_timedwait(&cond, &lock, &until);
    pthread_mutex_unlock(&lock);
    assert_int_equal(rc, ETIMEDOUT);
    assert_true(clock_s() - start >= 0.029);
    pthread_cond_destroy(&cond);
}

static void a_misspelt_time_zone_is_known_as_such(void **state) {
    (void)state;
    static const char *const good[] = {"UTC", "", "CET-1CEST,M3.5.0,M10.5.0/3", "<+03>-3", "EST5EDT"};
    static const char *const bad[] = {"Europe/Berln", "Berlin", "CET1CEST/x", "/no/such/file", ":CET-1"};
    for (int i = 0; i < 5; i++) {
        setenv("TZ", good[i], 1);
        assert_true(clock_zone_known());
        setenv("TZ", bad[i], 1);
        assert_false(clock_zone_known());
    }
    unsetenv("TZ");
    assert_true(clock_zone_known());
}

static void local_time_has_its_zone(void **state) {
    char text[32];
    (void)state;
    setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
    tzset();
    assert_string_equal(local_time(INT64_C(1800000000000), LOCAL_TIME, text, sizeof text), "2027-01-15 09:00:00 CET");
    assert_string_equal(local_time(INT64_C(1815000000000), LOCAL_TIME, text, sizeof text), "2027-07-08 00:40:00 CEST");
    assert_string_equal(clock_utc(INT64_C(1800000000000), CLOCK_ISO, text, sizeof text), "2027-01-15T08:00:00Z");
    unsetenv("TZ");
    tzset();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_units_are_the_same_monotonic_clock),
        cmocka_unit_test(wall_time_is_that_of_the_calendar),
        cmocka_unit_test(local_time_has_its_zone),
        cmocka_unit_test(a_misspelt_time_zone_is_known_as_such),
        cmocka_unit_test(deadlines_are_so_far_away_as_asked),
        cmocka_unit_test(a_condition_waits_until_its_monotonic_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
