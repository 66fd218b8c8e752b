#include "daemon/rpc/quota.h"

#include "unit/cmocka_all.h"

static const struct quota_limits limits = {.calls = 2000, .sessions = 900};
static const char run[] = "/brr.v1.Stream/Run", list[] = "/brr.v1.Jobs/List", drain[] = "/brr.v1.Admin/Drain";

static bool refused(struct quota_use use, enum role role, const char *path) {
    struct err err = {0};
    bool exceeded = quota_exceeded(&limits, &use, role, path, &err);
    assert_int_equal(err.code, exceeded ? ERR_EXHAUSTED : 0);
    return exceeded;
}

static void a_full_daemon_still_answers_its_admin_and_health_checks(void **state) {
    (void)state;
    assert_false(refused((struct quota_use){1984, 1, 1}, ROLE_READ, list));
    assert_true(refused((struct quota_use){1985, 1, 1}, ROLE_SUBMIT, list));
    assert_false(refused((struct quota_use){2000, 1, 1}, ROLE_ADMIN, drain));
    assert_true(refused((struct quota_use){2001, 1, 1}, ROLE_ADMIN, drain));
    assert_false(refused((struct quota_use){5000, 1, 1}, ROLE_READ, "/grpc.health.v1.Health/Check"));
    assert_true(refused((struct quota_use){2001, 1, 1}, ROLE_READ, "/grpc.health.v1.Health/Watch"));
}

static void one_caller_leaves_calls_and_sessions_to_others(void **state) {
    (void)state;
    assert_false(refused((struct quota_use){1700, 1600, 1}, ROLE_READ, list));
    assert_true(refused((struct quota_use){1700, 1601, 1}, ROLE_READ, list));
    assert_false(refused((struct quota_use){1700, 1700, 1}, ROLE_ADMIN, list));
    assert_false(refused((struct quota_use){900, 900, 900}, ROLE_STREAM, run));
    assert_true(refused((struct quota_use){901, 901, 901}, ROLE_STREAM, run));
    assert_false(refused((struct quota_use){16, 16, 16}, ROLE_READ, "/brr.v1.Metrics/Watch"));
    assert_true(refused((struct quota_use){17, 17, 17}, ROLE_READ, "/brr.v1.Metrics/Watch"));
    assert_true(refused((struct quota_use){17, 17, 17}, ROLE_READ, "/grpc.health.v1.Health/Watch"));
}

static void small_limits_leave_room_for_everybody(void **state) {
    const struct quota_limits few = {.calls = 8, .sessions = 1};
    (void)state;
    assert_false(quota_exceeded(&few, &(struct quota_use){1, 1, 1}, ROLE_STREAM, run, NULL));
    assert_false(quota_exceeded(&few, &(struct quota_use){7, 7, 1}, ROLE_READ, list, NULL));
    assert_true(quota_exceeded(&few, &(struct quota_use){8, 1, 1}, ROLE_READ, list, NULL));
    assert_false(quota_exceeded(&few, &(struct quota_use){8, 8, 1}, ROLE_ADMIN, list, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_daemon_still_answers_its_admin_and_health_checks),
        cmocka_unit_test(one_caller_leaves_calls_and_sessions_to_others),
        cmocka_unit_test(small_limits_leave_room_for_everybody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
