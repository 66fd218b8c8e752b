/* When an alarm of a bed is silent, held back by a rule of the bed, or blind; who holds a bed of the roster. */

#include "daemon/alarms/desk.h"
#include "unit/ward_fixture.h"

static void silence_is_sound_alone_and_ends_by_time_or_a_new_alarm(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = 11 * MINUTE}), ERR_INVALID);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = MINUTE / 2}), 0);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
    assert_true(alarm_is_waiting(a) && alarm_is_silent(a, w->now.boot_ms));
    assert_int_equal(a->silent_ms, w->now.wall_ms + MINUTE / 2);
    assert_string_equal(a->silenced.person, "Ana B");
    pass(w, MINUTE / 2);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = 10 * MINUTE}), 0);
    pass(w, MINUTE / 2);
    assert_int_equal(a->step, 1);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
    on(w, "bed-8", 3);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
}

/* Nobody answers either; whose technical alarm it is does not depend on which one began first. */
static void a_test_takes_no_place_of_an_alarm_that_nobody_answers(void **state) {
    struct ward *w = *state;
    for (int first = 0; first < 2; first++) {
        struct journal_entry e;
        const struct alarm *a = first ? NULL : on(w, "bed-7", 10);
        alarm_entry_test("bed-7", "token:bed-7", &w->now, first, &e);
        alarm_entry_take(w->all, &e, &w->now);
        const struct alarm *test = alarms_find(w->all, e.alarm);
        pass(w, first ? 6 * MINUTE : 0);
        assert_int_equal(first, technical(w, ALARM_UNANSWERED) != NULL);
        a = a ? a : on(w, "bed-7", 1000);
        pass(w, 6 * MINUTE);
        assert_string_equal(technical(w, ALARM_UNANSWERED)->why, a->id);
        assert_string_equal(technical(w, ALARM_UNANSWERED)->session, a->session);
        assert_int_equal(acknowledge(w, a), 0);
        pass(w, 1000);
        assert_int_equal(w->rows[w->n - 1].kind, JOURNAL_TECHNICAL_OFF);
        assert_non_null(strstr(w->rows[w->n - 1].detail, a->id));
        pass(w, 1000);
        assert_string_equal(technical(w, ALARM_UNANSWERED)->why, test->id);
        assert_int_equal(acknowledge(w, test), 0);
        pass(w, 1000);
        assert_null(technical(w, ALARM_UNANSWERED));
        off(w, "bed-7", "ended");
    }
}

/* Of bed-3 nobody is told; of bed-4 when its alarm has been on for ten seconds. */
static void standby_hides_no_alarm_that_nobody_answers(void **state) {
    struct ward *w = *state;
    struct err err;
    const struct alarm_author ana = {.by = "token:nurse", .at_ms = w->now.wall_ms};
    on(w, "bed-7", 10);
    assert_int_equal(alarms_standby(w->all, "bed-7", w->now.wall_ms + 60 * MINUTE, &ana, &w->now, &err), 0);
    pass(w, 6 * MINUTE);
    assert_non_null(technical(w, ALARM_UNANSWERED));
}

static void a_rule_of_a_bed_holds_its_alarms_back(void **state) {
    struct ward *w = *state;
    struct alarms_rule rules[] = {{.bed = "bed-3", .off = true}, {.bed = "bed-4", .least_ms = 10 * 1000}};
    plan.rules = rules; /* a restart has them too */
    plan.n_rules = 2;
    assert_true(alarms_use_rules(w->all, rules, 2));
    assert_true(alarms_are_off(w->all, "bed-3") && !alarms_are_off(w->all, "bed-4"));
    const struct alarm *never = on(w, "bed-3", 10), *late = on(w, "bed-4", 10), *other = on(w, "bed-7", 10);
    assert_int_equal(alarm_sound(other, w->now.boot_ms), ALARM_HIGH);
    pass(w, 9 * 1000);
    assert_true(alarm_is_open(late) && !alarm_is_waiting(late));
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 3);
    pass(w, 1000);
    assert_int_equal(alarm_sound(late, w->now.boot_ms), ALARM_HIGH);
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 4);
    assert_string_equal(w->rows[w->n - 1].alarm, late->id);
    assert_string_equal(w->rows[w->n - 1].detail, "people are told: no rule of its bed holds it back any more");
    str_copy(w->rows[w->n - 1].detail, JOURNAL_DETAIL, "people are told: it has been on for the least duration of its bed");
    pass(w, MINUTE);
    assert_int_equal(late->step, 1);
    assert_int_equal(never->step, 0);
    assert_int_equal(alarm_sound(never, w->now.boot_ms), ALARM_QUIET);
    off(w, "bed-3", "ended");
    assert_false(alarm_is_open(never));
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, late->id);
    restart(w, 1000);
    late = alarms_find(w->all, id);
    assert_true(late && alarm_is_waiting(late)); /* people were told before the restart, and are not told again */
    pass(w, 2000);
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 4);
    off(w, "bed-4", "ended");
    const struct alarm *brief = on(w, "bed-4", 300);
    pass(w, 5000);
    off(w, "bed-4", "ended");
    pass(w, 10 * 1000);
    assert_false(alarm_is_open(brief));
    const struct alarm *freed = on(w, "bed-4", 600);
    assert_true(alarms_use_rules(w->all, NULL, 0)); /* the rule is gone: what it held back is told */
    pass(w, 1000);
    assert_int_equal(alarm_sound(freed, w->now.boot_ms), ALARM_HIGH);
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 7);
    plan.n_rules = 0;
}

/* The stream of bed-4 reports the end of its alarm, after so many seconds of its samples. */
static void off_at(struct ward *w, const char *why, double at_s) {
    struct journal_entry e = {.kind = JOURNAL_ALARM_OFF, NOW(w), .start_s = at_s, .live = true, .session = "session-of-bed-4"};
    str_copy(e.detail, sizeof e.detail, why);
    alarm_entry_take(w->all, &e, &w->now);
}

static void an_alarm_that_a_rule_holds_back_is_told_when_it_was_not_brief(void **state) {
    struct ward *w = *state;
    const struct alarms_rule rules[] = {{.bed = "bed-4", .least_ms = 10 * 1000}}, off_rule[] = {{.bed = "bed-4", .off = true}};
    assert_true(alarms_use_rules(w->all, rules, 1));
    const struct alarm *a = on(w, "bed-4", 10);
    off_at(w, "ended", 19);
    assert_false(alarm_is_waiting(a));
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 1);
    a = on(w, "bed-4", 100); /* a minute of samples that came at once, after an outage */
    off_at(w, "ended", 160);
    assert_true(alarm_is_waiting(a));
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 3);
    assert_string_equal(w->rows[w->n - 1].alarm, a->id);
    a = on(w, "bed-4", 1000); /* nobody knows how it went on */
    off_at(w, "electrodes", 1001);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 5);
    a = on(w, "bed-4", 2000); /* it ends before the tick that would have told it */
    w->now.boot_ms += 10500, w->now.wall_ms += 10500;
    off_at(w, "ended", NAN);
    assert_true(alarm_is_waiting(a));
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 7);
    assert_true(alarms_use_rules(w->all, off_rule, 1));
    a = on(w, "bed-4", 3000);
    off_at(w, "electrodes", 3100);
    assert_false(alarm_is_open(a));
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 8);
}

/* An alarm that was too brief is on again when no rule holds it back any more. */
static void an_alarm_that_is_told_when_it_is_on_again_ends_silences_and_escalates_from_then(void **state) {
    struct ward *w = *state;
    const struct alarms_rule rules[] = {{.bed = "bed-4", .least_ms = 10 * MINUTE}};
    assert_true(alarms_use_rules(w->all, rules, 1));
    const struct alarm *a = on(w, "bed-4", 10), *other = on(w, "bed-7", 10);
    off_at(w, "ended", 20);
    assert_int_equal(answer(w, other, &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = 10 * MINUTE}), 0);
    pass(w, 2 * MINUTE);
    assert_true(alarms_use_rules(w->all, NULL, 0));
    assert_int_equal(alarm_sound(other, w->now.boot_ms), ALARM_QUIET);
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 30, NOW(w), .live = true, .session = "session-of-bed-4"};
    str_copy(e.alarm, sizeof e.alarm, a->id);
    str_copy(e.client, sizeof e.client, "bed-4");
    alarm_entry_take(w->all, &e, &w->now);
    assert_true(alarm_is_waiting(a));
    assert_int_equal(alarm_sound(other, w->now.boot_ms), ALARM_HIGH);
    pass(w, MINUTE - 1000);
    assert_int_equal(a->step, 0);
    pass(w, 1000);
    assert_int_equal(a->step, 1);
}

/* What ended a silence, by time alone, ends it in what a restart reads as well. */
static void a_silence_that_is_over_does_not_come_back(void **state) {
    struct ward *w = *state;
    struct alarms_rule rule = {.bed = "bed-4", .least_ms = 10 * 1000};
    char id[JOURNAL_ALARM], lasting[JOURNAL_ALARM];
    plan.rules = &rule;
    plan.n_rules = 1;
    assert_true(alarms_use_rules(w->all, &rule, 1));
    str_copy(id, sizeof id, on(w, "bed-7", 10)->id);
    assert_int_equal(answer(w, alarms_find(w->all, id), &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = 10 * MINUTE}), 0);
    on(w, "bed-4", 10);
    pass(w, 9 * 1000);
    assert_int_equal(alarm_sound(alarms_find(w->all, id), w->now.boot_ms), ALARM_QUIET);
    pass(w, 1000); /* the alarm of bed-4 falls due: it is new to people */
    assert_int_equal(alarm_sound(alarms_find(w->all, id), w->now.boot_ms), ALARM_HIGH);
    restart(w, 1000);
    assert_int_equal(alarm_sound(alarms_find(w->all, id), w->now.boot_ms), ALARM_HIGH);
    str_copy(lasting, sizeof lasting, on(w, "bed-8", 10)->id);
    pass(w, 4 * MINUTE);
    const struct alarm *a = alarms_find(w->all, lasting);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = 10 * MINUTE}), 0);
    assert_int_equal(acknowledge(w, a), 0);
    pass(w, MINUTE); /* it has been on for five minutes */
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    restart(w, 1000);
    assert_int_equal(alarm_sound(alarms_find(w->all, lasting), w->now.boot_ms), ALARM_HIGH);
    plan.n_rules = 0;
}

/* At five minutes it sounds again: an answer given then covers what is on again within five more. */
static void an_answer_to_a_status_covers_what_follows_its_sound(void **state) {
    struct ward *w = *state;
    for (int i = 0; i < 4; i++) {
        const bool answered_before = i & 1, restarted = i & 2;
        char bed[16], id[JOURNAL_ALARM];
        str_format(bed, sizeof bed, "bed-%d", i);
        str_copy(id, sizeof id, on(w, bed, 10)->id);
        if (answered_before)
            assert_int_equal(acknowledge(w, alarms_find(w->all, id)), 0);
        pass(w, 5 * MINUTE + 25 * 1000);
        const struct alarm *a = alarms_find(w->all, id);
        assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
        assert_int_equal(acknowledge(w, a), 0);
        off(w, bed, "ended");
        if (restarted)
            restart(w, 1000);
        pass(w, 20 * 1000);
        const int escalated = rows_of(w, JOURNAL_ESCALATED);
        struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 400, .value = 0.9, NOW(w), .live = true};
        str_format(e.session, sizeof e.session, "session-of-%s", bed);
        str_copy(e.client, sizeof e.client, bed);
        str_copy(e.alarm, sizeof e.alarm, id);
        alarm_entry_take(w->all, &e, &w->now);
        a = alarms_find(w->all, id);
        assert_true(!a->off_ms && a->again == 1);
        assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
        pass(w, MINUTE);
        assert_int_equal(rows_of(w, JOURNAL_ESCALATED), escalated);
        off(w, bed, "ended");
    }
}

static struct journal_entry end_of(const struct journal_entry *on, double at_s) {
    struct journal_entry e = *on;
    e.kind = JOURNAL_ALARM_OFF;
    e.start_s = at_s;
    e.detail[0] = '\0';
    return e;
}

/* The rows say what was held back: the rules may be others after a restart. */
static void what_a_rule_held_back_that_a_restart_takes_away_is_told(void **state) {
    struct ward *w = *state;
    const struct alarms_rule rules[] = {{.bed = "bed-3", .off = true}, {.bed = "bed-4", .least_ms = 10 * MINUTE}};
    static const char *const beds[] = {"bed-3", "bed-4", "bed-3", "bed-7"};
    const struct alarms_now now = desk_now();
    struct desk *d = NULL;
    char ids[4][JOURNAL_ALARM];
    assert_int_equal(desk_new(&(struct desk_config){.plan = {.rules = (void *)(uintptr_t)rules, .n_rules = 2}}, &d, NULL), 0);
    for (int i = 0; i < 4; i++) { /* the third ends before */
        struct journal_entry *e = &w->rows[w->n++];
        *e = (struct journal_entry){.kind = JOURNAL_ALARM_ON, .start_s = 10, .value = 0.9, .live = true};
        e->received_ms = now.wall_ms, e->boot_ms = now.boot_ms;
        str_format(e->session, sizeof e->session, "s%d", i);
        str_copy(e->client, sizeof e->client, beds[i]);
        journal_alarm_id(e->session, 2560, e->alarm);
        str_copy(ids[i], sizeof ids[i], e->alarm);
        desk_note(d, e);
        assert_int_equal(e->untold, i < 3);
    }
    w->rows[w->n++] = end_of(&w->rows[2], 20);
    desk_free(d);
    w->now = now;
    for (int late = 0; late < 2; late++) { /* the stream has reported it again before the journal is read */
        const int n = w->n;
        plan.rules = (void *)(uintptr_t)rules;
        plan.n_rules = 2;
        restart(w, 1000);
        for (int i = 0; i < 4; i++)
            assert_int_equal(alarm_is_waiting(alarms_find(w->all, ids[i])), i == 3);
        plan.n_rules = 0;
        restart(w, 1000);
        if (late) {
            struct alarms *past = w->all;
            struct journal_entry again = w->rows[0];
            w->all = alarms_new(&plan, keep_row, w);
            again.detail[0] = '\0';
            alarm_entry_take(w->all, &again, &w->now);
            assert_true(alarms_merge(w->all, past, ROWS, &w->now));
            alarms_free(past);
        }
        pass(w, 1000);
        for (int i = 0; i < 4; i++)
            assert_int_equal(alarm_sound(alarms_find(w->all, ids[i]), w->now.boot_ms), i == 2 ? ALARM_QUIET : ALARM_HIGH);
        assert_int_equal(w->n, n + 2); /* hooks are told by these rows */
        assert_true(w->rows[n].kind == JOURNAL_ALARM_ON && !w->rows[n].untold);
        w->n = late ? w->n : n;
    }
    restart(w, 0);
    pass(w, 1000);
    assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 6); /* once */
}

/* People were told, and the next start has a rule that would have held the alarm back. */
static void a_rule_that_a_restart_adds_holds_nothing_back_that_was_told(void **state) {
    struct ward *w = *state;
    const struct alarms_rule rules[] = {{.bed = "bed-3", .off = true}, {.bed = "bed-4", .least_ms = 10 * MINUTE}};
    char ids[2][JOURNAL_ALARM];
    str_copy(ids[0], sizeof ids[0], on(w, "bed-3", 10)->id);
    str_copy(ids[1], sizeof ids[1], on(w, "bed-4", 10)->id);
    for (int late = 0; late < 2; late++) { /* the stream has reported it again before the journal is read */
        plan.rules = (void *)(uintptr_t)rules;
        plan.n_rules = 2;
        restart(w, 1000);
        if (late) {
            struct alarms *past = w->all;
            w->all = alarms_new(&plan, keep_row, w);
            for (int i = 0; i < 2; i++)
                alarm_entry_take(w->all, &w->rows[i], &w->now);
            assert_true(alarms_merge(w->all, past, ROWS, &w->now));
            alarms_free(past);
        }
        for (int i = 0; i < 2; i++)
            assert_int_equal(alarm_sound(alarms_find(w->all, ids[i]), w->now.boot_ms), ALARM_HIGH);
        pass(w, MINUTE);
        for (int i = 0; i < 2; i++)
            assert_int_equal(alarms_find(w->all, ids[i])->step, 1);
        assert_int_equal(rows_of(w, JOURNAL_ALARM_ON), 2);
        plan.n_rules = 0;
    }
    const struct alarm *a = on(w, "bed-4", 20); /* one that begins now is held back */
    assert_true(alarms_use_rules(w->all, rules, 2));
    off(w, "bed-4", "ended");
    a = on(w, "bed-4", 300);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
}

static void an_alarm_is_blind_while_nobody_hears_the_bed(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    alarms_look_at_bed(w->all, a->id, true);
    assert_false(a->blind);
    alarms_look_at_bed(w->all, a->id, false);
    assert_true(a->blind);
    off(w, "bed-7", "expired"); /* that says more */
    assert_false(a->blind);
    alarms_look_at_bed(w->all, a->id, false);
    assert_false(a->blind);
}

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

static void a_bed_that_is_lost_is_its_next_holders(void **state) {
    struct ward *w = *state;
    static const char *const roster[] = {"bed-7"};
    static const struct alarms_cause lost = {
        .kind = ALARM_LOST, .bed = "bed-7", .principal = "", .session = "", .why = "no stream"};
    const char *token = "token:a";
    const struct alarms_plan held = {.roster = roster, .n_roster = 1, .named = token_has, .named_ctx = &token};
    alarms_free(w->all);
    w->all = alarms_new(&held, keep_row, w);
    alarms_streams(w->all, "token:a", "bed-7", 1000, &w->now);
    hold(w, ALARM_LOST, "bed-7", 16 * 1000);
    assert_string_equal(technical(w, ALARM_LOST)->principal, "token:a");
    token = "token:b"; /* it does not stream yet */
    w->now.boot_ms += MINUTE;
    alarms_streams(w->all, "token:a", "bed-7", 1000, &w->now);
    alarms_round_begin(w->all);
    assert_true(alarms_round_put(w->all, &lost, &w->now));
    assert_string_equal(technical(w, ALARM_LOST)->principal, "");
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_ON), 1);
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

/* After a restart: one whose stream is connected is back, one that nobody hears is not. */
static void only_a_stream_that_is_connected_is_back(void **state) {
    struct ward *w = *state;
    for (int back = 0; back < 2; back++) {
        const struct alarms_cause stream = {.bed = "bed-7", .principal = "token:a", .session = "s", .why = ""};
        hold(w, ALARM_LOST, "bed-7", 16 * 1000);
        restart(w, 1000);
        if (back)
            alarms_round_back(w->all, &stream);
        pass(w, back ? 1000 : ALARMS_RETURN_MS + 1000);
        assert_int_equal(w->rows[w->n - 1].kind, JOURNAL_TECHNICAL_OFF);
        assert_string_equal(w->rows[w->n - 1].detail, back ? "lost: why" : "lost: " ALARMS_GONE);
    }
}

/* An end by standby says no more than that; a receiver has none, whatever its name. */
static void what_standby_ends_is_not_over(void **state) {
    struct ward *w = *state;
    struct err err;
    const struct alarm_author ana = {.by = "token:nurse", .at_ms = w->now.wall_ms};
    hold(w, ALARM_NO_SIGNAL, "bed-7", 21 * 1000);
    assert_int_equal(alarms_standby(w->all, "bed-7", w->now.wall_ms + 60 * MINUTE, &ana, &w->now, &err), 0);
    hold(w, ALARM_NO_SIGNAL, "bed-7", 1000);
    assert_int_equal(w->rows[w->n - 1].kind, JOURNAL_TECHNICAL_OFF);
    assert_string_equal(w->rows[w->n - 1].detail, "no_signal: " ALARMS_STANDS);
    hold(w, ALARM_RECEIVER, "bed-7", 16 * 1000);
    assert_non_null(technical(w, ALARM_RECEIVER));
}

/* ---- many steps at once ---- */

struct steps {
    int many, few; /* of the caller with many alarms, and of the other one */
};
static void count_step(void *ctx, const struct alarms_row *row) {
    struct steps *steps = ctx;
    if (row->kind == ALARMS_ROW_ESCALATED || row->kind == ALARMS_ROW_TECHNICAL_ON)
        ++*(!strcmp(row->alarm->principal, "token:icu") ? &steps->many : &steps->few);
}

static void a_caller_with_many_alarms_takes_its_steps_in_several_ticks(void **state) {
    struct ward *w = *state;
    struct steps steps = {0};
    char names[201][16], id[JOURNAL_ALARM];
    alarms_free(w->all);
    assert_non_null(w->all = alarms_new(&plan, count_step, &steps));
    for (int i = 0; i <= 200; i++) {
        str_format(names[i], sizeof names[i], "bed-%d", i);
        struct alarms_start start = start_of(names[i], names[i], 1, w);
        start.principal = i < 200 ? "token:icu" : "token:ward";
        assert_non_null(report_on(w, start, id));
    }
    pass(w, MINUTE - 1000);
    assert_int_equal(steps.many + steps.few, 0);
    for (int tick = 1; tick <= 5; tick++) {
        pass(w, 1000);
        assert_int_equal(steps.few, 1); /* at once, wherever it is among the others */
        assert_int_equal(steps.many, tick * ALARMS_ADDED < 200 ? tick * ALARMS_ADDED : 200);
    }
}

static void a_caller_with_many_technical_alarms_has_them_in_several_seconds(void **state) {
    struct ward *w = *state;
    struct steps steps = {0};
    char names[201][16];
    alarms_free(w->all);
    assert_non_null(w->all = alarms_new(&plan, count_step, &steps));
    for (int second = 0; second < 21; second++) {
        w->now.boot_ms += 1000;
        w->now.wall_ms += 1000;
        alarms_tick(w->all, &w->now);
        alarms_round_begin(w->all);
        for (int i = 0; i <= 200; i++) {
            str_format(names[i], sizeof names[i], "bed-%d", i);
            const char *principal = i < 200 ? "token:icu" : "token:ward";
            alarms_round_put(w->all,
                             &(struct alarms_cause){
                                 .kind = ALARM_LOST, .bed = names[i], .principal = principal, .session = names[i], .why = "why"},
                             &w->now);
        }
        alarms_round_end(w->all, &w->now);
        const int after = second < 15 ? 0 : (second - 14) * ALARMS_ADDED;
        assert_int_equal(steps.few, second >= 15);
        assert_int_equal(steps.many, after < 200 ? after : 200);
    }
}

static void count_call(void *ctx, const struct alarms_row *row) { *(int *)ctx += row->kind == ALARMS_ROW_ESCALATED; }

/* A switch fails where one caller has all beds. Technical alarms are put between two ticks. */
static void a_call_does_not_wait_behind_technical_alarms(void **state) {
    struct ward *w = *state;
    char bed[16], id[JOURNAL_ALARM];
    int calls = 0;
    alarms_free(w->all);
    assert_non_null(w->all = alarms_new(&plan, count_call, &calls));
    assert_non_null(report_on(w, start_of("s", "bed-x", 1, w), id));
    for (int second = 1; second <= 60; second++) {
        w->now.boot_ms += 1000;
        alarms_tick(w->all, &w->now);
        assert_int_equal(calls, second == 60);
        const struct alarms_now later = {.boot_ms = w->now.boot_ms + 300, .wall_ms = w->now.wall_ms};
        alarms_round_begin(w->all);
        for (int i = 0; i < 200 && second > 43; i++) {
            str_format(bed, sizeof bed, "bed-%d", i);
            (void)alarms_round_put(
                w->all, &(struct alarms_cause){.kind = ALARM_LOST, .bed = bed, .principal = "token:icu", .session = bed, .why = ""},
                &later);
        }
        alarms_round_end(w->all, &later);
    }
}

static void count_first(void *ctx, const struct alarms_row *row) {
    *(int *)ctx += row->kind == ALARMS_ROW_ESCALATED && !strcmp(row->alarm->bed, "bed-new");
}

/* Many alarms that nobody answered are called again and again, each time before the newer one is looked at. */
static void a_call_does_not_wait_behind_repeats(void **state) {
    struct ward *w = *state;
    struct alarms_plan often = plan;
    char bed[16], id[JOURNAL_ALARM];
    int calls = 0;
    often.repeat_ms = 1000;
    alarms_free(w->all);
    assert_non_null(w->all = alarms_new(&often, count_first, &calls));
    for (int i = 0; i < 2 * ALARMS_ADDED; i++) {
        str_format(bed, sizeof bed, "bed-%d", i);
        assert_non_null(report_on(w, start_of(bed, bed, 1, w), id));
    }
    pass(w, 10 * MINUTE);
    assert_non_null(report_on(w, start_of("s", "bed-new", 1, w), id));
    pass(w, MINUTE);
    assert_int_equal(calls, 1);
    pass(w, 2 * MINUTE);
    assert_int_equal(calls, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_ward(a_test_takes_no_place_of_an_alarm_that_nobody_answers),
        in_ward(standby_hides_no_alarm_that_nobody_answers),
        in_ward(silence_is_sound_alone_and_ends_by_time_or_a_new_alarm),
        in_ward(a_rule_of_a_bed_holds_its_alarms_back),
        in_ward(an_alarm_that_a_rule_holds_back_is_told_when_it_was_not_brief),
        in_ward(an_alarm_that_is_told_when_it_is_on_again_ends_silences_and_escalates_from_then),
        in_ward(a_silence_that_is_over_does_not_come_back),
        in_ward(an_answer_to_a_status_covers_what_follows_its_sound),
        in_ward(what_a_rule_held_back_that_a_restart_takes_away_is_told),
        in_ward(a_rule_that_a_restart_adds_holds_nothing_back_that_was_told),
        in_ward(an_alarm_is_blind_while_nobody_hears_the_bed),
        in_ward(the_first_who_streams_a_bed_holds_it_until_it_is_gone),
        in_ward(a_bed_that_is_lost_is_its_next_holders),
        in_ward(a_new_token_of_a_bed_goes_on_with_its_alarm_and_answer),
        in_ward(a_row_keeps_who_holds_a_bed_over_a_restart),
        in_ward(only_a_stream_that_is_connected_is_back),
        in_ward(what_standby_ends_is_not_over),
        in_ward(a_caller_with_many_alarms_takes_its_steps_in_several_ticks),
        in_ward(a_caller_with_many_technical_alarms_has_them_in_several_seconds),
        in_ward(a_call_does_not_wait_behind_technical_alarms),
        in_ward(a_call_does_not_wait_behind_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
