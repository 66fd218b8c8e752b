/* Alarms of beds, their answers and their escalation, with the test's clocks; what a restart takes back from the journal. */

#include "daemon/alarms/desk.h"
#include "unit/ward_fixture.h"

static void nobody_answers_and_each_step_is_taken_once(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    pass(w, MINUTE - 1000);
    assert_int_equal(a->step, 0);
    pass(w, 1000);
    assert_int_equal(a->step, 1);
    pass(w, 2 * MINUTE);
    assert_int_equal(a->step, 2);
    assert_null(technical(w, ALARM_UNANSWERED));
    pass(w, 2 * MINUTE);
    assert_int_equal(a->step, 3);
    assert_string_equal(technical(w, ALARM_UNANSWERED)->bed, "bed-7");
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 3);
    assert_int_equal(w->rows[w->n - 2].step, 3);
    assert_string_equal(w->rows[w->n - 2].alarm, a->id);
    assert_int_equal(w->rows[w->n - 1].kind, JOURNAL_TECHNICAL_ON);
    assert_int_equal(acknowledge(w, a), 0);
    pass(w, 1000);
    assert_null(technical(w, ALARM_UNANSWERED));
    pass(w, MINUTE / 2);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 3);
}

static void an_end_without_an_answer_neither_closes_nor_stops_the_escalation(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    pass(w, 20 * 1000);
    off(w, "bed-7", "ended");
    assert_true(alarm_is_open(a) && !a->cut);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_LOW);
    pass(w, MINUTE);
    assert_int_equal(a->step, 1);
    assert_true(w->rows[w->n - 1].kind == JOURNAL_ESCALATED && w->rows[w->n - 1].until_ms == a->off_ms);
    assert_int_equal(acknowledge(w, a), 0);
    assert_false(alarm_is_open(a));
    assert_string_equal(a->answered.person, "Ana B");
}

static void monitoring_that_stops_in_an_alarm_is_no_end(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    off(w, "bed-7", "electrodes");
    assert_true(a->cut && alarm_is_open(a));
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    assert_string_equal(a->why, "electrodes");
    pass(w, 4 * MINUTE);
    assert_int_equal(a->step, 2);
}

static void acknowledging_ends_the_sound_and_keeps_the_tile_until_it_is_over(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    assert_int_equal(acknowledge(w, a), 0);
    assert_int_equal(acknowledge(w, a), 0);
    assert_int_equal(rows_of(w, JOURNAL_ANSWERED), 1);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
    assert_true(alarm_is_open(a));
    pass(w, 4 * MINUTE);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 0);
    off(w, "bed-7", "ended");
    assert_false(alarm_is_open(a));
}

static void an_alarm_of_a_replay_is_as_long_as_in_its_recording(void **state) {
    struct ward *w = *state;
    struct journal_entry e = {
        .kind = JOURNAL_ALARM_ON, .start_s = 10, NOW(w), .session = "replayed", .client = "night", .alarm = "replayed-2560"};
    alarm_entry_take(w->all, &e, &w->now);
    const struct alarm *a = alarms_find(w->all, e.alarm);
    pass(w, 1000);
    assert_int_equal(alarm_length_ms(a, w->now.boot_ms), 1000); /* where it ends is not known yet */
    e = (struct journal_entry){
        .kind = JOURNAL_ALARM_OFF, .start_s = 90.5, NOW(w), .session = "replayed", .client = "night", .detail = "ended"};
    alarm_entry_take(w->all, &e, &w->now);
    assert_int_equal(alarm_length_ms(a, w->now.boot_ms), 80500);
}

static void a_seizure_of_five_minutes_alarms_again(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, a->id);
    assert_int_equal(acknowledge(w, a), 0);
    pass(w, 5 * MINUTE - 1000);
    assert_false(a->status);
    pass(w, 1000);
    assert_true(a->status);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    const struct journal_entry *row = &w->rows[w->n - 1]; /* who looks for the answer finds that it is none any more */
    assert_true(row->kind == JOURNAL_ANSWERED && str_starts(row->detail, "forgotten: ") && row->untold);
    assert_string_equal(row->person, "token:nurse");
    pass(w, MINUTE / 2);
    restart(w, 0);
    a = alarms_find(w->all, id);
    assert_true(!a->answered.at_ms && a->status);
    assert_string_equal(a->before.person, "Ana B");
    pass(w, MINUTE / 2);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 1); /* its minute began when the answer was forgotten */
    assert_int_equal(rows_of(w, JOURNAL_ANSWERED), 2);
    assert_int_equal(acknowledge(w, a), 0);
    restart(w, 1000);
    assert_true(alarms_find(w->all, id)->answered.at_ms && alarms_find(w->all, id)->status);
    pass(w, 20 * MINUTE);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 1);
}

static void marks_and_notes_are_kept_and_corrected_by_further_rows(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    struct alarm_answer note = {.action = ALARM_NOTED, .note = "chewing: no seizure via habit by bed"};
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_MARK, .mark = ALARM_TRUE}), 0);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_MARK, .mark = ALARM_FALSE}), 0);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_MARK, .mark = ALARM_FALSE}), 0);
    assert_int_equal(answer(w, a, &note), 0);
    assert_int_equal(rows_of(w, JOURNAL_ANSWERED), 3);
    assert_int_equal(acknowledge(w, a), 0);
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, a->id);
    restart(w, MINUTE);
    a = alarms_find(w->all, id);
    assert_int_equal(a->mark, ALARM_FALSE);
    assert_string_equal(a->note, note.note);
    assert_int_equal(a->noted.at_ms, note.author.at_ms);
    assert_string_equal(a->answered.by, "token:nurse");
    assert_string_equal(a->answered.person, "Ana B");
    assert_string_equal(a->answered.via, "page");
}

static void a_restart_goes_on_with_the_escalation_where_it_was(void **state) {
    struct ward *w = *state;
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, on(w, "bed-7", 10)->id);
    pass(w, MINUTE);
    restart(w, MINUTE);
    const struct alarm *a = alarms_find(w->all, id);
    assert_int_equal(a->step, 1);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    pass(w, MINUTE - 1000);
    assert_int_equal(a->step, 1);
    pass(w, 1000);
    assert_int_equal(a->step, 2);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 2);
}

static void a_clock_that_is_set_moves_no_step(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    w->now.wall_ms -= 400LL * 24 * 3600 * 1000;
    pass(w, MINUTE);
    assert_int_equal(a->step, 1);
    w->now.wall_ms += 800LL * 24 * 3600 * 1000;
    pass(w, MINUTE);
    assert_int_equal(a->step, 1);
}

static void told(struct ward *w, const struct alarm *a, int step, int hook, bool delivered) {
    const struct alarms_told t = {.id = a->id, .step = step, .hook = hook, .delivered = delivered, .people = 1u << 1 | 1u << 2};
    alarms_hear(w->all, &t, &w->now);
}

/* Hook 0 is a log book; people hear of the alarm by the hooks 1 and 2. */
static void the_next_step_comes_early_when_nobody_could_be_told(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    told(w, a, 0, 0, false);
    told(w, a, 0, 1, false);
    assert_int_equal(a->step, 0);
    told(w, a, 0, 2, false);
    assert_int_equal(a->step, 1);
    told(w, a, 0, 2, false); /* of the step before */
    told(w, a, 1, 1, true);
    told(w, a, 1, 2, false); /* somebody has heard */
    assert_int_equal(a->step, 1);
    pass(w, MINUTE);
    assert_int_equal(a->step, 1);
    pass(w, 2 * MINUTE);
    assert_int_equal(a->step, 2);
}

static void an_alarm_that_begins_again_keeps_its_answers_in_another_session(void **state) {
    struct ward *w = *state;
    const struct alarm *a = on(w, "bed-7", 10);
    assert_int_equal(acknowledge(w, a), 0);
    off(w, "bed-7", "cut");
    pass(w, 1000);
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 1, NOW(w), .live = true, .session = "next"};
    str_copy(e.alarm, sizeof e.alarm, a->id);
    alarm_entry_take(w->all, &e, &w->now);
    assert_true(!a->off_ms && !a->cut && a->answered.at_ms);
    alarm_entry_take(w->all, &w->rows[0], &w->now); /* the snapshot of the stream before, after a restart */
    assert_string_equal(a->session, "next");
    struct journal_entry end = {.kind = JOURNAL_ALARM_OFF, NOW(w), .start_s = NAN, .session = "next", .detail = "ended"};
    alarm_entry_take(w->all, &end, &w->now);
    assert_false(alarm_is_open(a));
}

static void an_alarm_is_the_same_within_the_rejoin_of_its_bed(void **state) {
    struct ward *w = *state;
    struct alarms_plan with = plan;
    char id[JOURNAL_ALARM], next[JOURNAL_ALARM];
    with.rejoin_ms = MINUTE;
    alarms_free(w->all);
    w->all = alarms_new(&with, keep_row, w);
    report_on(w, start_of("s1", "bed-7", 10, w), id);
    assert_string_equal(id, "s1-2560");
    report_off(w, id, "s1", 20);
    report_on(w, start_of("s1", "bed-7", 79, w), next);
    assert_string_equal(next, id); /* by the samples of its session */
    report_off(w, id, "s1", 80);
    w->now.boot_ms += MINUTE - 1;
    w->now.wall_ms += MINUTE - 1;
    struct alarms_start start = start_of("s2", "bed-7", 5, w);
    start.alone = false; /* two streams of the bed send: neither has the alarm of the other */
    alarms_name(w->all, &start, &w->now, next);
    assert_string_equal(next, "s2-1280");
    start = start_of("s2", "bed-8", 5, w);
    alarms_name(w->all, &start, &w->now, next);
    assert_string_equal(next, "s2-1280");
    const struct alarm *a = report_on(w, start_of("s2", "bed-7", 5, w), next);
    assert_string_equal(next, id);
    assert_int_equal(a->again, 2);
    report_off(w, id, "s1", 90); /* the session before ends: that is not its alarm any more */
    assert_int_equal(a->off_ms, 0);
    report_off(w, id, "s2", 4); /* and an older change than the one that is known is none */
    assert_int_equal(a->off_ms, 0);
    report_off(w, id, "s2", 6);
    assert_true(a->off_ms > 0);
    w->now.boot_ms += MINUTE + 1;
    w->now.wall_ms += MINUTE + 1;
    report_on(w, start_of("s3", "bed-7", 5, w), next);
    assert_string_equal(next, "s3-1280");
    report_off(w, next, "s3", 6);
    report_on(w, start_of("s4", "brrctl", 5, w), next); /* a program's own name is no bed */
    report_off(w, next, "s4", 6);
    report_on(w, start_of("s5", "brrctl", 5, w), next);
    assert_string_equal(next, "s5-1280");
    for (int i = 0; i < 8; i++) { /* of several alarms that are over the one that ended last */
        report_on(w, start_of("s6", "bed-6", 100 * i, w), id);
        w->now.boot_ms += 10;
        w->now.wall_ms += 10;
        report_off(w, id, "s6", 100 * i + 1);
    }
    report_on(w, start_of("s7", "bed-6", 5, w), next);
    assert_string_equal(next, id);
}

/* Of journal and snapshot the newer one counts, whichever comes first. */
static void the_newest_change_counts_in_either_order(void **state) {
    struct ward *w = *state;
    for (int order = 0; order < 2; order++) {
        char id[JOURNAL_ALARM];
        str_format(id, sizeof id, "s%d-2560", order);
        char session[8];
        str_format(session, sizeof session, "s%d", order);
        struct alarms_start start = start_of(session, "bed-7", 10, w);
        start.id = id;
        for (int i = 0; i < 2; i++) {
            if (i == order)
                alarms_began(w->all, &start, &w->now); /* of the snapshot */
            else {
                alarms_began(w->all, &start, &w->now);
                report_off(w, id, session, 30); /* of the journal */
            }
        }
        assert_true(alarms_find(w->all, id)->off_ms > 0);
    }
}

/* The journal is read while streams go on: they know which alarms are on, it knows the answers and what nobody streams any more. */
static void what_is_read_late_joins_what_streams_reported(void **state) {
    struct ward *w = *state;
    struct alarms *live = w->all, *past = alarms_new(&plan, NULL, NULL);
    char same[JOURNAL_ALARM], gone[JOURNAL_ALARM], before[JOURNAL_ALARM], now_on[JOURNAL_ALARM];
    w->all = past;
    alarms_restore(past, true);
    const struct alarm *a = report_on(w, start_of("s1", "bed-1", 10, w), same);
    assert_int_equal(acknowledge(w, a), 0);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_NOTED, .note = "chewing"}), 0);
    report_off(w, same, "s1", 20);
    report_on(w, start_of("s3", "bed-3", 10, w), before);
    a = report_on(w, start_of("s2", "bed-2", 10, w), gone);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_SILENCE, .for_ms = 5 * MINUTE}), 0);
    w->all = live;
    report_on(w, start_of("s3", "bed-3", 50, w), now_on);
    struct alarms_start again = start_of("s1", "bed-1", 10, w);
    again.id = same;
    assert_non_null(alarms_began(live, &again, &w->now));
    for (int i = 0; i < 4; i++) /* one at a time */
        assert_int_equal(alarms_merge(live, past, 1, &w->now), i == 3);
    alarms_free(past);
    a = alarms_find(live, same);
    assert_true(!a->off_ms && a->answered.at_ms);
    assert_string_equal(a->note, "chewing");
    a = alarms_find(live, gone);
    assert_ptr_equal(alarms_on_in(live, "s2"), a);
    assert_true(alarm_is_silent(a, w->now.boot_ms));
    a = alarms_find(live, before); /* the stream alarms again since: this one is over, and nobody knows since when */
    assert_true(a->off_ms && a->cut);
    assert_string_equal(alarms_on_in(live, "s3")->id, now_on);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 0);
    pass(w, MINUTE);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 3); /* of those that nobody has answered */
    report_on(w, start_of("s4", "bed-4", 1, w), gone);
    assert_false(alarm_is_silent(alarms_on_in(live, "s2"), w->now.boot_ms)); /* a new alarm ends silences, also those of before */
}

static void an_answer_does_not_cover_what_begins_long_after_it(void **state) {
    struct ward *w = *state;
    struct alarms_plan with = plan;
    char id[JOURNAL_ALARM];
    with.rejoin_ms = 10 * MINUTE;
    alarms_free(w->all);
    w->all = alarms_new(&with, keep_row, w);
    const struct alarm *a = report_on(w, start_of("s1", "bed-7", 10, w), id);
    assert_int_equal(acknowledge(w, a), 0);
    report_off(w, id, "s1", 20);
    pass(w, MINUTE);
    report_on(w, start_of("s1", "bed-7", 90, w), id);
    assert_true(a->answered.at_ms && a->again == 1);
    report_off(w, id, "s1", 91);
    pass(w, 5 * MINUTE);
    report_on(w, start_of("s1", "bed-7", 400, w), id);
    assert_true(!a->answered.at_ms && a->again == 2 && !a->off_ms);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_HIGH);
    pass(w, 1000); /* who is called first is called at once */
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 1);
    assert_true(str_starts(w->rows[w->n - 1].detail, "on again, 2 times since "));
    assert_non_null(strstr(w->rows[w->n - 1].detail, "; Ana B acknowledged it before, at "));
    assert_int_equal(w->rows[w->n - 1].until_ms, 0);
    assert_int_equal(acknowledge(w, a), 0);
    report_off(w, id, "s1", 401);
    report_on(w, start_of("s1", "bed-7", 402, w), id);
    assert_true(a->answered.at_ms); /* at most once in five minutes */
}

static int place_of(void *asked, const char *session) {
    static const int places[] = {SESSION_GONE, SESSION_HERE, SESSION_ELSEWHERE, SESSION_PLACE_UNKNOWN};
    return *(bool *)asked ? places[session[1] - '1'] : SESSION_PLACE_ASKED;
}

static void alarms_whose_streams_are_not_here_are_cut_at_the_start(void **state) {
    struct desk *d = NULL;
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &d, NULL), 0);
    for (int i = 1; i <= 4; i++) {
        struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 1, .value = 0.9, .live = true};
        e.received_ms = desk_now().wall_ms - 36 * 3600 * 1000LL; /* the daemon was away for longer than streams wait */
        str_format(e.session, sizeof e.session, "s%d", i);
        journal_alarm_id(e.session, 256, e.alarm);
        desk_note(d, &e);
    }
    assert_false(desk_register(d).settle(d, place_of, &(bool){false}));
    assert_int_equal(alarms_find(desk_alarms(d), "s1-256")->off_ms, 0);
    assert_true(desk_register(d).settle(d, place_of, &(bool){true}));
    assert_null(alarms_find(desk_alarms(d), "s3-256")); /* another daemon has it: neither it nor its answer has ended */
    const struct alarm *gone = alarms_find(desk_alarms(d), "s1-256"), *here = alarms_find(desk_alarms(d), "s2-256");
    assert_true(gone->off_ms && gone->cut && alarm_is_open(gone)); /* cut is not answered */
    assert_string_equal(alarms_find(desk_alarms(d), "s4-256")->why, "not known whether another daemon has it");
    assert_int_equal(here->off_ms, 0);
    desk_free(d);
}

static int permit(void *ctx, const char *principal, const char *bed, struct err *err) {
    (void)ctx, (void)bed, (void)err;
    return strcmp(principal, "token:other") ? 0 : ERR_NOT_FOUND;
}

static void an_id_may_be_cut_where_one_open_alarm_has_it(void **state) {
    static const char *const ids[] = {"abcdef-1", "abcdeg-1", "abcdeg-2"};
    struct desk *d = NULL;
    struct err err;
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &d, NULL), 0);
    for (int i = 0; i < 3; i++) {
        struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 1, .live = true, .received_ms = desk_now().wall_ms};
        str_format(e.session, sizeof e.session, "s%d", i);
        str_copy(e.principal, sizeof e.principal, i ? "token:icu" : "token:other");
        str_copy(e.alarm, sizeof e.alarm, ids[i]);
        desk_note(d, &e);
    }
    static const struct {
        const char *given;
        int rc;
    } cases[] = {{"abcdeg", ERR_INVALID}, {"abcde", ERR_NOT_FOUND}, {"abcdef", ERR_NOT_FOUND}, {"abcdeg-2", 0}, {"abcdeg-", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct desk_order o = {.kind = DESK_ANSWER, .permit = permit};
        str_copy(o.id, sizeof o.id, cases[i].given);
        assert_int_equal(desk_do(d, &o, &err), cases[i].rc);
        if (i == 3) { /* answered and over: it is open no more */
            struct journal_entry e = {.kind = JOURNAL_ALARM_OFF, .start_s = 2, .session = "s2", .received_ms = desk_now().wall_ms};
            str_copy(e.alarm, sizeof e.alarm, ids[2]);
            desk_note(d, &e);
        }
        if (i == 4)
            assert_string_equal(o.id, "abcdeg-1");
    }
    desk_free(d);
}

static void tests_within_a_millisecond_have_ids_of_their_own(void **state) {
    struct ward *w = *state;
    struct journal_entry a, b;
    alarm_entry_test("bed-1", "uid:0", &w->now, 1, &a);
    alarm_entry_test("bed-2", "uid:0", &w->now, 2, &b);
    assert_string_not_equal(a.alarm, b.alarm);
    assert_string_not_equal(a.session, b.session);
}

static void a_bed_of_the_roster_is_lost_once_whoever_streamed_it(void **state) {
    struct ward *w = *state;
    static const char *const roster[] = {"bed-7"};
    struct alarms_plan with = plan;
    with.roster = roster;
    with.n_roster = 1;
    alarms_free(w->all);
    w->all = alarms_new(&with, keep_row, w);
    hold(w, ALARM_LOST, "bed-7", 16 * 1000);
    const struct alarm *a = technical(w, ALARM_LOST);
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, a->id);
    const struct alarms_cause none = {.kind = ALARM_LOST, .bed = "bed-7", .principal = "", .session = "", .why = "no stream"};
    alarms_round_begin(w->all); /* its stream has expired */
    alarms_round_put(w->all, &none, &w->now);
    alarms_round_end(w->all, &w->now);
    assert_string_equal(technical(w, ALARM_LOST)->id, id);
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_OFF), 0);
}

/* A lost stream that expires is not heard again: its alarm goes without saying that it is over. */
static void a_lost_stream_that_ends_is_gone_and_not_over(void **state) {
    struct ward *w = *state;
    hold(w, ALARM_LOST, "bed-7", 16 * 1000);
    struct journal_entry e = {.kind = JOURNAL_ENDED, .session = "s"};
    alarm_entry_take(w->all, &e, &w->now);
    pass(w, 1000);
    assert_int_equal(w->rows[w->n - 1].kind, JOURNAL_TECHNICAL_OFF);
    assert_string_equal(w->rows[w->n - 1].detail, "lost: " ALARMS_GONE);
    for (enum alarm_kind kind = ALARM_LATE; kind < ALARM_KINDS; kind++) { /* nobody has seen to it */
        if (kind == ALARM_TWICE || kind == ALARM_RECEIVER || kind == ALARM_JOURNAL)
            continue;
        for (int other = 0; other < 2; other++) {
            struct alarms_cause next = {.kind = kind, .bed = "bed-7", .principal = "token:a", .session = "t"};
            struct journal_entry last = {.kind = JOURNAL_ENDED};
            char said[100];
            hold(w, kind, "bed-7", 181 * 1000);
            next.why = "why";
            str_copy(last.session, sizeof last.session, other ? next.session : "s");
            if (other) {
                alarm_entry_take(w->all, &e, &w->now);
                alarms_round_begin(w->all);
                assert_true(alarms_round_put(w->all, &next, &w->now));
                alarms_round_end(w->all, &w->now);
            }
            alarm_entry_take(w->all, &last, &w->now);
            pass(w, 1000);
            assert_int_equal(w->rows[w->n - 1].kind, JOURNAL_TECHNICAL_OFF);
            str_format(said, sizeof said, "%s: " ALARMS_ENDED, alarm_kind_name(kind));
            assert_string_equal(w->rows[w->n - 1].detail, said);
        }
    }
    hold(w, ALARM_TWICE, "bed-7", 16 * 1000);
    alarm_entry_take(w->all, &e, &w->now);
    pass(w, 1000);
    assert_string_equal(w->rows[w->n - 1].detail, "twice: why");
}

static void replays_sound_and_escalate_never(void **state) {
    struct ward *w = *state;
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 1, .received_ms = w->now.wall_ms, .session = "replay"};
    alarm_entry_take(w->all, &e, &w->now);
    const struct alarm *a = alarms_find(w->all, "replay-256");
    assert_true(alarm_is_open(a));
    pass(w, 10 * MINUTE);
    assert_int_equal(a->step, 0);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
}

static void a_technical_alarm_begins_after_its_delay_and_ends_with_its_cause(void **state) {
    struct ward *w = *state;
    hold(w, ALARM_NO_SIGNAL, "bed-7", 20 * 1000);
    assert_null(technical(w, ALARM_NO_SIGNAL));
    hold(w, ALARM_NO_SIGNAL, "bed-7", 1000);
    const struct alarm *a = technical(w, ALARM_NO_SIGNAL);
    assert_int_equal(alarm_length_ms(a, w->now.boot_ms), 20 * 1000); /* its cause is so old */
    assert_int_equal(w->rows[w->n - 1].on_ms, w->now.wall_ms - 20 * 1000);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_LOW);
    assert_int_equal(acknowledge(w, a), 0);
    assert_int_equal(alarm_sound(a, w->now.boot_ms), ALARM_QUIET);
    assert_int_equal(answer(w, a, &(struct alarm_answer){.action = ALARM_MARK, .mark = ALARM_TRUE}), ERR_INVALID);
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, a->id);
    pass(w, 1000);
    assert_null(technical(w, ALARM_NO_SIGNAL));
    hold(w, ALARM_NO_SIGNAL, "bed-7", 21 * 1000);
    a = technical(w, ALARM_NO_SIGNAL);
    assert_string_not_equal(a->id, id); /* another one, which nobody has answered */
    assert_int_equal(a->answered.at_ms, 0);
}

/* On before over, unanswered before answered, patients before the equipment, what is closed last. */
static void lists_begin_with_what_somebody_must_look_at(void **state) {
    static const struct alarm list[] = {
        {.live = true},
        {.live = true, .answered.at_ms = 1},
        {.live = true, .off_ms = 1},
        {.live = true, .test = true},
        {.live = true, .test = true, .answered.at_ms = 1},
        {.live = true, .test = true, .off_ms = 1},
        {.kind = ALARM_LOST},
        {.kind = ALARM_LOST, .answered.at_ms = 1},
        {.live = true, .off_ms = 1, .answered.at_ms = 1},
    };
    (void)state;
    for (int i = 0; i < 9; i++)
        assert_int_equal(alarm_rank(&list[i]), i);
    assert_int_equal(alarm_rank(&(struct alarm){.off_ms = 1}), 8); /* a replay waits for nobody */
}

/* Only rows are appended: one when it begins, its answers, one when it is over. */
static void a_technical_alarm_goes_on_after_a_restart_until_its_cause_is_over(void **state) {
    struct ward *w = *state;
    hold(w, ALARM_ELECTRODES, "bed-7", 31 * 1000);
    const struct alarm *a = technical(w, ALARM_ELECTRODES);
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, a->id);
    assert_string_equal(w->rows[0].detail, "electrodes: why");
    assert_int_equal(acknowledge(w, a), 0);
    restart(w, 5000);
    a = technical(w, ALARM_ELECTRODES);
    assert_string_equal(a->id, id);
    assert_string_equal(a->bed, "bed-7");
    assert_string_equal(a->why, "why");
    assert_string_equal(a->answered.person, "Ana B");
    pass(w, ALARMS_RETURN_MS - 2000); /* the stream is back, and its channels are not yet known to be flat */
    hold(w, ALARM_ELECTRODES, "bed-7", 1000);
    assert_string_equal(technical(w, ALARM_ELECTRODES)->id, id);
    pass(w, 1000);
    assert_null(technical(w, ALARM_ELECTRODES));
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_ON), 1);
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_OFF), 1);
    assert_string_equal(w->rows[w->n - 1].alarm, id);
    restart(w, 1000);
    assert_null(technical(w, ALARM_ELECTRODES));
    hold(w, ALARM_LOST, "bed-8", 16 * 1000);
    restart(w, 1000);
    pass(w, ALARMS_RETURN_MS + 1000); /* its cause went while the daemon was away */
    assert_null(technical(w, ALARM_LOST));
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_OFF), 2);
}

static void a_bed_in_standby_has_no_technical_alarms_until_its_end(void **state) {
    struct ward *w = *state;
    struct err err;
    const struct alarm_author ana = {.by = "token:nurse", .person = "Ana", .via = "brrctl", .at_ms = w->now.wall_ms}, *who;
    assert_int_equal(alarms_standby(w->all, "bed-7", w->now.wall_ms + 25 * 60 * MINUTE, &ana, &w->now, &err), ERR_INVALID);
    assert_int_equal(alarms_standby(w->all, "bed-7", w->now.wall_ms - 1, &ana, &w->now, &err), ERR_INVALID);
    assert_int_equal(alarms_standby(w->all, "bed-7", w->now.wall_ms + 2 * MINUTE, &ana, &w->now, &err), 0);
    hold(w, ALARM_LOST, "bed-7", MINUTE);
    assert_null(technical(w, ALARM_LOST));
    restart(w, 0);
    assert_true(alarms_in_standby(w->all, "bed-7", &w->now, &who) > w->now.wall_ms);
    assert_string_equal(who->person, "Ana");
    assert_int_equal(alarm_sound(on(w, "bed-7", 3), w->now.boot_ms), ALARM_HIGH); /* a patient's alarm goes through */
    hold(w, ALARM_LOST, "bed-7", MINUTE + 20 * 1000);
    assert_int_equal(alarms_in_standby(w->all, "bed-7", &w->now, NULL), 0);
    assert_non_null(technical(w, ALARM_LOST));
}

static void closed_alarms_make_room_and_open_ones_stay(void **state) {
    struct ward *w = *state;
    const struct alarms_start start = {.id = "open-1", .session = "open", .bed = "b", .principal = "p", .model = "m", .live = true};
    assert_non_null(alarms_began(w->all, &start, &w->now));
    for (int i = 0; i < ALARMS_MAX + 10; i++) {
        char id[JOURNAL_ALARM];
        struct alarms_start replay = start;
        str_format(id, sizeof id, "r-%d", i);
        replay.id = id;
        replay.session = "replay";
        replay.live = false;
        assert_non_null(alarms_began(w->all, &replay, &w->now));
        alarms_ended(w->all, &(struct alarms_end){.id = id, .session = "replay", .why = "ended", .at_s = NAN, .off_ms = 1},
                     &w->now);
    }
    assert_non_null(alarms_find(w->all, "open-1"));
    assert_null(alarms_find(w->all, "r-0"));
    assert_null(alarms_find(w->all, "r-10"));
    assert_non_null(alarms_find(w->all, "r-11"));
}

/* The others' alarms are older, and wait for an answer as well. */
static void beds_that_alarm_without_end_take_no_place_of_others(void **state) {
    struct ward *w = *state;
    for (int i = 0; i < ALARMS_MAX + 20; i++) {
        char id[JOURNAL_ALARM], bed[16];
        str_format(id, sizeof id, "a-%d", i);
        str_format(bed, sizeof bed, "bed-%d", i % 100);
        const struct alarms_start start = {.id = id,
                                           .session = id,
                                           .bed = i == 11 ? "quiet" : bed,
                                           .principal = i < 10 ? "token:ward" : "token:broken",
                                           .model = "m",
                                           .live = true};
        assert_non_null(alarms_began(w->all, &start, &w->now));
    }
    assert_non_null(alarms_find(w->all, "a-0"));
    assert_non_null(alarms_find(w->all, "a-9"));
    assert_null(alarms_find(w->all, "a-10"));
    assert_non_null(alarms_find(w->all, "a-11")); /* of a bed of the same client that has one alone */
    assert_null(alarms_find(w->all, "a-12"));
}

static void one_caller_takes_a_share_of_the_standbys(void **state) {
    struct ward *w = *state;
    const struct alarm_author all[] = {{.by = "token:broken"}, {.by = "token:ward"}};
    const int64_t until_ms = w->now.wall_ms + MINUTE;
    struct alarms *alone = alarms_new(&plan, NULL, NULL);
    char bed[16];
    for (int i = 0; i < ALARMS_STANDBYS; i++) {
        str_format(bed, sizeof bed, "bed-%d", i);
        assert_int_equal(alarms_standby(alone, bed, until_ms, &all[0], &w->now, NULL), i < ALARMS_STANDBYS / 4 ? 0 : ERR_EXHAUSTED);
    }
    assert_int_equal(alarms_standby(alone, bed, until_ms, &all[1], &w->now, NULL), 0);
    assert_int_equal(alarms_standby(alone, "bed-0", until_ms + 1, &all[0], &w->now, NULL), 0);
    alarms_restore(alone, true);
    assert_int_equal(alarms_standby(alone, "bed-of-an-earlier-version", until_ms, &all[0], &w->now, NULL), 0);
    alarms_restore(alone, false);
    alarms_free(alone);
}

/* A row of an answer that the journal has is not written again when the alarm is back from another daemon. */
static void an_alarm_that_was_at_another_daemon_comes_back_with_its_answer(void **state) {
    struct ward *w = *state;
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, on(w, "bed-7", 10)->id);
    assert_int_equal(acknowledge(w, alarms_find(w->all, id)), 0);
    pass(w, 20 * 1000);
    struct journal_entry *back = &w->rows[w->n + 1];
    w->rows[w->n] = *back = w->rows[0];
    w->rows[w->n].kind = JOURNAL_MOVED;
    back->start_s += 20;
    back->received_ms += 20 * 1000;
    back->boot_ms += 20 * 1000;
    str_copy(back->person, sizeof back->person, "token:nurse");
    w->n += 2;
    restart(w, 1000);
    assert_string_equal(alarms_find(w->all, id)->answered.person, "Ana B");
    pass(w, 2 * MINUTE);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 0);
    *back->person = '\0'; /* the answer did not cover it any more */
    restart(w, 0);
    assert_false(alarms_find(w->all, id)->answered.at_ms);
    w->n--;
    restart(w, 0);
    assert_null(alarms_find(w->all, id)); /* it is still there */
    off(w, "bed-7", "ended");
    str_copy(w->rows[w->n - 1].alarm, sizeof w->rows[0].alarm, id);
    restart(w, 0);
    assert_true(alarms_find(w->all, id)->off_ms); /* it was here when it ended */
}

/* An hour by the wall clock alone makes no status of an alarm to which somebody has answered a moment ago. */
static void an_answer_outlives_a_restart_under_a_stepped_clock(void **state) {
    struct ward *w = *state;
    static const int64_t steps[] = {3600 * 1000, -86400 * INT64_C(1000), 20 * 86400 * INT64_C(1000), 5000, -5000};
    const int64_t since_ms = w->now.boot_ms;
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, on(w, "bed-7", 10)->id);
    assert_int_equal(acknowledge(w, alarms_find(w->all, id)), 0);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        w->now.wall_ms += steps[i];
        restart(w, 1000);
        const struct alarm *a = alarms_find(w->all, id);
        pass(w, 2000);
        assert_true(a->on_boot_ms == since_ms && a->answered.at_ms && !a->status && !a->step);
        w->now.wall_ms -= steps[i];
    }
    pass(w, since_ms + 5 * MINUTE - w->now.boot_ms); /* this one is a status, and its answer counts whatever the clock says */
    assert_false(alarms_find(w->all, id)->answered.at_ms);
    w->now.wall_ms -= 3600 * 1000;
    assert_int_equal(acknowledge(w, alarms_find(w->all, id)), 0);
    w->now.wall_ms += 3600 * 1000;
    restart(w, 1000);
    assert_true(alarms_find(w->all, id)->status && alarms_find(w->all, id)->answered.at_ms);
    for (int i = 0; i < w->n; i++)
        w->rows[i].boot_ms = 0;
    w->now.boot_ms = 5000; /* after another boot only the wall clock says how old it is */
    restart(w, 0);
    assert_int_equal(w->now.boot_ms - alarms_find(w->all, id)->on_boot_ms, w->now.wall_ms - w->rows[0].received_ms);
}

/* So are the steps of the escalation, and what is left of a standby. */
static void steps_and_standbys_outlive_a_restart_under_a_stepped_clock(void **state) {
    struct ward *w = *state;
    const struct alarm_author ana = {.by = "token:nurse", .at_ms = w->now.wall_ms, .boot_ms = w->now.boot_ms};
    char id[JOURNAL_ALARM];
    str_copy(id, sizeof id, on(w, "bed-7", 10)->id);
    for (int minutes = 60; minutes; minutes = minutes == 60 ? 2 : 0) /* the second one replaces the first */
        assert_int_equal(alarms_standby(w->all, "bed-9", w->now.wall_ms + minutes * MINUTE, &ana, &w->now, NULL), 0);
    pass(w, MINUTE - 2000);
    w->now.wall_ms += 3600 * 1000;
    restart(w, 1000);
    assert_true(!alarms_find(w->all, id)->step && alarms_in_standby(w->all, "bed-9", &w->now, NULL));
    pass(w, 1000);
    assert_int_equal(alarms_find(w->all, id)->step, 1);
    w->now.wall_ms -= 7200 * 1000;
    restart(w, 1000);
    pass(w, 2 * MINUTE - 2000);
    assert_true(alarms_find(w->all, id)->step == 1 && !alarms_in_standby(w->all, "bed-9", &w->now, NULL));
    pass(w, 1000);
    restart(w, 1000);
    assert_true(alarms_find(w->all, id)->step == 2 && !alarms_in_standby(w->all, "bed-9", &w->now, NULL));
}

static void a_test_takes_the_way_of_an_alarm(void **state) {
    struct ward *w = *state;
    struct journal_entry e;
    alarm_entry_test("bed-7", "uid:0", &w->now, 1, &e);
    alarm_entry_take(w->all, &e, &w->now);
    const struct alarm *a = alarms_find(w->all, e.alarm);
    assert_true(a->test && a->live);
    pass(w, MINUTE);
    assert_int_equal(a->step, 1);
}

static void count_ends(void *ctx, const struct alarms_row *row) { *(int *)ctx += row->kind == ALARMS_ROW_TECHNICAL_OFF; }

/* The rows of thousands of beds that are heard again at the same moment are written in several turns of the loop. */
static void a_round_ends_no_more_than_the_loop_can_bear(void **state) {
    struct alarms_now t = {.boot_ms = 1000000, .wall_ms = 1800000000000};
    int ends = 0;
    char bed[16];
    (void)state;
    struct alarms *all = alarms_new(&plan, count_ends, &ends);
    for (int round = 0; round < 11; round++, t.boot_ms += 60000, t.wall_ms += 60000) { /* ALARMS_ADDED begin in each */
        alarms_round_begin(all);
        for (int i = 0; i < 600; i++) {
            str_format(bed, sizeof bed, "bed-%d", i);
            alarms_round_put(
                all, &(struct alarms_cause){.kind = ALARM_LOST, .bed = bed, .principal = "p", .session = "", .why = ""}, &t);
        }
        alarms_round_end(all, &t);
    }
    alarms_round_begin(all);
    for (int before = 0; alarms_round_end(all, &t); before = ends)
        assert_in_range(ends - before, 1, 64);
    assert_int_equal(ends, 600);
    alarms_free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_ward(nobody_answers_and_each_step_is_taken_once),
        cmocka_unit_test(lists_begin_with_what_somebody_must_look_at),
        in_ward(an_end_without_an_answer_neither_closes_nor_stops_the_escalation),
        in_ward(monitoring_that_stops_in_an_alarm_is_no_end),
        in_ward(acknowledging_ends_the_sound_and_keeps_the_tile_until_it_is_over),
        in_ward(an_alarm_of_a_replay_is_as_long_as_in_its_recording),
        in_ward(a_seizure_of_five_minutes_alarms_again),
        in_ward(marks_and_notes_are_kept_and_corrected_by_further_rows),
        in_ward(a_restart_goes_on_with_the_escalation_where_it_was),
        in_ward(a_clock_that_is_set_moves_no_step),
        in_ward(the_next_step_comes_early_when_nobody_could_be_told),
        in_ward(an_alarm_that_begins_again_keeps_its_answers_in_another_session),
        in_ward(an_alarm_is_the_same_within_the_rejoin_of_its_bed),
        in_ward(the_newest_change_counts_in_either_order),
        in_ward(what_is_read_late_joins_what_streams_reported),
        in_ward(an_answer_does_not_cover_what_begins_long_after_it),
        cmocka_unit_test(alarms_whose_streams_are_not_here_are_cut_at_the_start),
        cmocka_unit_test(an_id_may_be_cut_where_one_open_alarm_has_it),
        in_ward(tests_within_a_millisecond_have_ids_of_their_own),
        in_ward(a_bed_of_the_roster_is_lost_once_whoever_streamed_it),
        in_ward(a_lost_stream_that_ends_is_gone_and_not_over),
        in_ward(replays_sound_and_escalate_never),
        in_ward(a_technical_alarm_begins_after_its_delay_and_ends_with_its_cause),
        in_ward(a_technical_alarm_goes_on_after_a_restart_until_its_cause_is_over),
        in_ward(a_bed_in_standby_has_no_technical_alarms_until_its_end),
        in_ward(closed_alarms_make_room_and_open_ones_stay),
        in_ward(beds_that_alarm_without_end_take_no_place_of_others),
        in_ward(one_caller_takes_a_share_of_the_standbys),
        in_ward(an_answer_outlives_a_restart_under_a_stepped_clock),
        in_ward(an_alarm_that_was_at_another_daemon_comes_back_with_its_answer),
        in_ward(steps_and_standbys_outlive_a_restart_under_a_stepped_clock),
        in_ward(a_test_takes_the_way_of_an_alarm),
        cmocka_unit_test(a_round_ends_no_more_than_the_loop_can_bear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
