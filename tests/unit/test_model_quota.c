/* model_quota: how fast one principal may go from model to model. */
#include "daemon/live/model_quota.h"

#include "unit/cmocka_all.h"
#include "unit/session_fixture.h"

static int take_numbered(struct model_quota *q, const char *principal, int model, int64_t now_ms, struct err *err) {
    char path[32];
    snprintf(path, sizeof path, "/m/%d", model);
    return model_quota_take(q, principal, path, now_ms, err);
}

static void a_principal_goes_through_few_models_a_minute(void **state) {
    static struct model_quota q;
    struct err err = {0};
    (void)state;
    for (int round = 0; round < 3; round++) /* the same models again cost nothing */
        for (int i = 0; i < MODEL_QUOTA; i++)
            assert_int_equal(take_numbered(&q, "uid:1", i, 1000, &err), 0);
    assert_int_equal(take_numbered(&q, "uid:1", MODEL_QUOTA, 1000, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, "uid:1 has opened streams of 8 models"));
    assert_int_equal(take_numbered(&q, "uid:2", MODEL_QUOTA, 1000, &err), 0); /* another's are another's */
    assert_int_equal(take_numbered(&q, "uid:1", 0, 1000 + MODEL_QUOTA_MS - 1, &err), 0);
    assert_int_equal(take_numbered(&q, "uid:1", MODEL_QUOTA, 1000 + MODEL_QUOTA_MS - 1, &err), ERR_EXHAUSTED);
    for (int i = MODEL_QUOTA; i < 2 * MODEL_QUOTA - 1; i++) /* all but model 0 were used a minute ago */
        assert_int_equal(take_numbered(&q, "uid:1", i, 1000 + MODEL_QUOTA_MS, &err), 0);
    assert_int_equal(take_numbered(&q, "uid:1", 2 * MODEL_QUOTA, 1000 + MODEL_QUOTA_MS, &err), ERR_EXHAUSTED);
}

static void rows_of_all_principals_are_bounded(void **state) {
    static struct model_quota q;
    char principal[32];
    (void)state;
    for (int i = 0; i < MODEL_QUOTA_ROWS; i++) {
        snprintf(principal, sizeof principal, "uid:%d", i);
        assert_int_equal(take_numbered(&q, principal, i, 1, NULL), 0);
    }
    assert_int_equal(take_numbered(&q, "uid:x", 0, 1, NULL), ERR_EXHAUSTED);
    assert_int_equal(take_numbered(&q, "uid:x", 0, 1 + MODEL_QUOTA_MS, NULL), 0);
}

/* A client that goes from model to model: each costs the device an upload. */
static void sessions_of_ever_other_models_are_refused_unless_they_serve(void **state) {
    struct bench *b = *state;
    struct live_open open = own_open;
    struct session_request wanted = {.open = &open, .principal = "uid:1"};
    struct session *s = NULL;
    struct err err;
    char path[32];
    open.checkpoint = path;
    for (int i = 0; i <= MODEL_QUOTA; i++) {
        snprintf(path, sizeof path, "/m/%d", i);
        assert_int_equal(session_open(b->all, &wanted, &sink, &b->owner, &s, &err), i < MODEL_QUOTA ? 0 : ERR_EXHAUSTED);
    }
    assert_non_null(strstr(err.message, "models that do not serve"));
    assert_int_equal(count_orders(b, LIVE_OPEN), MODEL_QUOTA);
    wanted.served = true;
    assert_int_equal(session_open(b->all, &wanted, &sink, &b->owner, &s, &err), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_principal_goes_through_few_models_a_minute), cmocka_unit_test(rows_of_all_principals_are_bounded),
        cmocka_unit_test_setup_teardown(sessions_of_ever_other_models_are_refused_unless_they_serve, set_up_late_many, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
