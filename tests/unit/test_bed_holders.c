/* Who holds a bed of the roster, and its alarm when that changes. */

#include "unit/ward_fixture.h"

static void the_first_who_streams_a_bed_holds_it_until_it_is_gone(void **state) {
    struct ward *w = *state;
    static const char *const roster[] = {"bed-7"};
    const struct alarms_plan held = {.roster = roster, .n_roster = 1, .hold_ms = 2 * MINUTE};
    alarms_free(w->all);
    w->all = alarms_new(&held, keep_row, w);
    assert_true(alarms_holds(w->all, "token:x", "bed-7")); /* nobody holds it */
    assert_false(alarms_holds(w->all, "token:x", "bed-8"));
    alarms_streams(w->all, "token:x", "bed-7", 2000, &w->now); /* streams of snapshots are found in any order */
    alarms_streams(w->all, "token:bed-7", "bed-7", 1000, &w->now);
    alarms_streams(w->all, "token:x", "bed-7", 2000, &w->now);
    assert_true(alarms_holds(w->all, "token:bed-7", "bed-7"));
    assert_false(alarms_holds(w->all, "token:x", "bed-7"));
    const struct alarm *a = on(w, "bed-7", 10);
    const struct alarms_rule rule = {.bed = "bed-7", .off = true}; /* of the bed, which the other's stream is not */
    assert_true(alarms_use_rules(w->all, &rule, 1));
    const struct alarms_start start = {
        .id = "x", .session = "x", .bed = "bed-7", .principal = "token:x", .model = "", .live = true};
    assert_int_equal(alarms_began(w->all, &start, &w->now)->due_boot_ms, 0);
    assert_true(alarms_use_rules(w->all, NULL, 0));
    pass(w, 3 * MINUTE); /* it is gone, and its alarm is open */
    alarms_streams(w->all, "token:x", "bed-7", 2000, &w->now);
    assert_false(alarms_holds(w->all, "token:x", "bed-7"));
    off(w, "bed-7", "ended");
    assert_int_equal(acknowledge(w, a), 0);
    alarms_streams(w->all, "token:x", "bed-7", 2000, &w->now);
    assert_true(alarms_holds(w->all, "token:x", "bed-7"));
    assert_false(alarms_holds(w->all, "token:bed-7", "bed-7"));
}

/* ctx: the name of the token that has the bed among its names. */
static int token_has(void *ctx, const char *principal, const char *bed) {
    return (void)bed, !strcmp(*(const char **)ctx, principal);
}

static void a_new_token_of_a_bed_goes_on_with_its_alarm_and_answer(void **state) {
    struct ward *w = *state;
    static const char *const roster[] = {"bed-7"};
    const char *token = "token:icu";
    const struct alarms_plan held = {
        .roster = roster, .n_roster = 1, .hold_ms = 2 * MINUTE, .rejoin_ms = MINUTE, .named = token_has, .named_ctx = &token};
    char id[JOURNAL_ALARM], next[JOURNAL_ALARM];
    alarms_free(w->all);
    w->all = alarms_new(&held, keep_row, w);
    alarms_streams(w->all, "token:icu", "bed-7", 1000, &w->now);
    const struct alarm *a = report_on(w, start_of("s1", "bed-7", 10, w), id);
    assert_int_equal(acknowledge(w, a), 0);
    struct alarms_start start = start_of("s2", "bed-7", 5, w);
    start.principal = "token:x"; /* does not hold the bed */
    report_on(w, start, next);
    assert_string_equal(next, "s2-1280");
    report_off(w, next, "s2", 6);
    token = "token:bed-7"; /* the staff made another one for the bed */
    start.principal = "token:bed-7";
    start.session = "s3";
    alarms_streams(w->all, "token:bed-7", "bed-7", 2000, &w->now);
    report_on(w, start, next);
    assert_string_equal(next, "s3-1280"); /* the stream of the one before is heard */
    report_off(w, next, "s3", 6);
    pass(w, 2 * MINUTE);
    alarms_look_at_bed(w->all, id, false);
    start.session = "s4";
    report_on(w, start, next);
    assert_string_equal(next, id);
    assert_true(a->answered.at_ms && !a->off_ms);
    assert_string_equal(a->principal, "token:bed-7");
}

static void a_row_keeps_who_holds_a_bed_over_a_restart(void **state) {
    struct ward *w = *state;
    static const char *const roster[] = {"bed-7"};
    const struct alarms_plan before = plan;
    plan.roster = roster;
    plan.n_roster = 1;
    plan.hold_ms = 2 * MINUTE;
    restart(w, 0);
    for (int i = 0; i < 3; i++, pass(w, 1000))
        alarms_streams(w->all, "token:bed-7", "bed-7", 2000, &w->now);
    assert_int_equal(rows_of(w, JOURNAL_HOLDER), 1);
    restart(w, MINUTE);
    alarms_streams(w->all, "token:x", "bed-7", 1000, &w->now); /* an older stream, whose client comes back first */
    assert_false(alarms_holds(w->all, "token:x", "bed-7"));
    alarms_streams(w->all, "token:bed-7", "bed-7", 3000, &w->now);
    assert_true(alarms_holds(w->all, "token:bed-7", "bed-7"));
    assert_int_equal(rows_of(w, JOURNAL_HOLDER), 1);
    pass(w, 24 * 60 * MINUTE);
    alarms_streams(w->all, "token:bed-7", "bed-7", 3000, &w->now);
    assert_int_equal(rows_of(w, JOURNAL_HOLDER), 2); /* none is older than what a start reads */
    restart(w, MINUTE);
    pass(w, 3 * MINUTE);
    alarms_streams(w->all, "token:x", "bed-7", 1000, &w->now); /* the holder has not come back */
    assert_true(alarms_holds(w->all, "token:x", "bed-7"));
    restart(w, MINUTE);
    assert_false(alarms_holds(w->all, "token:bed-7", "bed-7"));
    plan = before;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_ward(the_first_who_streams_a_bed_holds_it_until_it_is_gone),
        in_ward(a_new_token_of_a_bed_goes_on_with_its_alarm_and_answer),
        in_ward(a_row_keeps_who_holds_a_bed_over_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
