/* Alarms of beds whose streams go from one daemon to another one, or on after a restart. */

#include "daemon/alarms/alarms_parts.h"
#include "daemon/alarms/desk.h"
#include "unit/ward_fixture.h"

/* The processor time for which the onsets of so many beds, all of which have an alarm, keep the loop. */
static int64_t onsets_take_ns(const struct ward *w, int beds) {
    struct alarms *all = alarms_new(&plan, NULL, NULL);
    struct timespec from, to;
    char id[JOURNAL_ALARM] = "", bed[16];
    for (int again = 0; again < 2; again++) {
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
        for (int i = 0; i < beds; i++) {
            str_format(bed, sizeof bed, "bed-%d", i);
            struct alarms_start start = start_of(bed, bed, 10 + 100 * again, w);
            alarms_name(all, &start, &w->now, id);
            start.id = id;
            assert_true(again || alarms_began(all, &start, &w->now));
        }
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    }
    alarms_free(all);
    return (to.tv_sec - from.tv_sec) * 1000000000 + to.tv_nsec - from.tv_nsec;
}

/* Sixteen times as many beds take sixteen times as long, not 256 times. */
static void an_onset_looks_at_the_alarms_of_no_other_bed(void **state) {
    int64_t few_ns = INT64_MAX, many_ns = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        const int64_t of_few = onsets_take_ns(*state, ALARMS_MAX / 16), of_many = onsets_take_ns(*state, ALARMS_MAX);
        few_ns = of_few < few_ns ? of_few : few_ns;
        many_ns = of_many < many_ns ? of_many : many_ns;
    }
    printf("onsets of %d beds take %.2f ms\n", ALARMS_MAX, (double)many_ns / 1e6);
    assert_true(many_ns < 64 * few_ns);
}

/* The stream alone knows its last alarm: it comes from another daemon, with a snapshot. */
static void an_onset_that_another_daemon_computes_again_is_the_same_alarm(void **state) {
    struct ward *w = *state;
    struct alarms_plan with = plan;
    char id[JOURNAL_ALARM];
    with.rejoin_ms = MINUTE;
    alarms_free(w->all);
    w->all = alarms_new(&with, keep_row, w);
    struct alarms_start start = start_of("s1", "bed-7", 130, w);
    start.before = "s1-2560";
    start.before_s = 70;
    report_on(w, start, id);
    assert_string_equal(id, "s1-33280"); /* too long ago */
    start.session = "s2";
    start.bed = "bed-8";
    start.before_s = 71;
    report_on(w, start, id);
    assert_string_equal(id, "s1-2560");
    alarms_moved(w->all, "s2", &w->now);
    start.session = "s3";
    start.bed = "bed-9"; /* it went with a newer stream */
    alarms_name(w->all, &start, &w->now, id);
    assert_string_equal(id, "s3-33280");
}

/* Somebody had acknowledged it here before it went away, or did so at the other daemon. */
static void an_alarm_that_comes_back_at_its_next_onset_has_its_answer(void **state) {
    struct ward *w = *state;
    struct alarms_plan with = plan;
    char id[JOURNAL_ALARM];
    with.rejoin_ms = MINUTE;
    for (int there = 0; there < 2; there++) {
        alarms_free(w->all);
        w->all = alarms_new(&with, keep_row, w);
        const struct alarm *a = report_on(w, start_of("s1", "bed-7", 10, w), id);
        if (!there)
            assert_int_equal(acknowledge(w, a), 0);
        alarms_moved(w->all, "s1", &w->now);
        pass(w, 20 * 1000);
        if (there) {
            alarms_restore(w->all, true); /* the snapshot brings it */
            assert_int_equal(acknowledge(w, alarms_away(w->all, id)), 0);
            alarms_restore(w->all, false);
        }
        struct alarms_start again = start_of("s1", "bed-7", 30, w);
        again.before = "s1-2560";
        again.before_s = 20;
        a = report_on(w, again, id);
        assert_string_equal(a->id, "s1-2560");
        assert_string_equal(a->answered.person, "Ana B");
        assert_true(a->again == 1 && !a->off_ms && a->start_s == 10);
        pass(w, 2 * MINUTE);
        assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 0);
    }
}

/* The snapshot of a stream that the bed had before says that the alarm is on in it. */
static void an_alarm_that_moved_is_not_taken_back_by_an_older_stream(void **state) {
    struct ward *w = *state;
    struct alarms_plan with = plan;
    char id[JOURNAL_ALARM];
    with.rejoin_ms = MINUTE;
    alarms_free(w->all);
    w->all = alarms_new(&with, keep_row, w);
    struct alarms_start older = start_of("s1", "bed-7", 10, w);
    report_on(w, older, id);
    pass(w, 10 * 1000);
    struct alarms_start newer = start_of("s2", "bed-7", 5, w);
    assert_string_equal(report_on(w, newer, id)->session, "s2");
    for (int restarted = 0; restarted < 2; restarted++) {
        alarms_moved(w->all, "s2", &w->now);
        if (restarted) { /* its rows are read once more */
            struct alarms *past = w->all;
            w->all = alarms_new(&with, keep_row, w);
            assert_true(alarms_merge(w->all, past, ROWS, &w->now));
            alarms_free(past);
        }
        older.id = newer.id = id;
        assert_null(alarms_began(w->all, &older, &w->now));
        assert_null(alarms_find(w->all, id));
        assert_non_null(alarms_began(w->all, &newer, &w->now)); /* it comes back with its stream */
        alarms_restore(w->all, !restarted);
    }
    pass(w, 2 * MINUTE);
    assert_int_equal(rows_of(w, JOURNAL_ESCALATED), 1);
}

/* What one daemon gives of the alarm that is on in s1, the other one takes. */
static bool give(struct desk *from, struct desk *to) {
    struct journal_entry list[SESSION_GIVEN], taken[SESSION_GIVEN];
    OWNED(str_done) struct str data = str_of(1 << 16);
    const int n = desk_register(from).give(from, "s1", list);
    journal_entries_pack(list, n, &data);
    assert_int_equal(journal_entries_unpack(data.data, data.len - 1, taken, SESSION_GIVEN), -1);
    assert_int_equal(journal_entries_unpack(data.data, data.len, taken, SESSION_GIVEN), n);
    return desk_register(to).receive(to, taken, n);
}

static void an_alarm_goes_after_its_stream_to_the_daemon_that_has_it(void **state) {
    struct desk *from = NULL, *to = NULL;
    struct journal_entry e = {
        .kind = JOURNAL_ALARM_ON, .start_s = 10, .value = 0.9, .live = true, .session = "s1", .client = "bed-7"};
    struct alarm_answer answer = {.action = ALARM_ACKNOWLEDGE, .author = {.by = "token:nurse", .person = "Ana B"}};
    const struct alarms_now now = desk_now();
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &from, NULL), 0);
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &to, NULL), 0);
    e.received_ms = now.wall_ms - MINUTE;
    e.boot_ms = now.boot_ms - MINUTE;
    journal_alarm_id(e.session, 2560, e.alarm);
    desk_note(from, &e);
    answer.author.at_ms = now.wall_ms;
    answer.author.boot_ms = now.boot_ms;
    assert_int_equal(alarms_answer(desk_alarms(from), e.alarm, &answer, &now, NULL), 0);
    assert_true(give(from, to));
    const struct alarm *a = alarms_on_in(desk_alarms(to), "s1");
    assert_non_null(a);
    assert_string_equal(a->id, e.alarm);
    assert_string_equal(a->answered.person, "Ana B");
    assert_true(a->start_s == 10 && a->on_ms == e.received_ms);
    e.kind = JOURNAL_ALARM_OFF;
    e.start_s = 20;
    desk_note(to, &e);
    assert_true(give(from, to)); /* its stream has gone on here since */
    assert_true(a->off_ms && !alarms_on_in(desk_alarms(to), "s1"));
    desk_free(from);
    desk_free(to);
}

/* The daemon that has the stream knew an older onset only, and ended the alarm with the stream, whose client did not come. */
static void an_alarm_that_comes_after_the_end_of_its_stream_is_over(void **state) {
    struct desk *from = NULL, *to = NULL;
    struct journal_entry e = {
        .kind = JOURNAL_ALARM_ON, .start_s = 10, .value = 0.9, .live = true, .session = "s1", .client = "bed-7"};
    const struct alarms_now now = desk_now();
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &from, NULL), 0);
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &to, NULL), 0);
    journal_alarm_id(e.session, 2560, e.alarm);
    for (int i = 0; i < 5; i++) { /* on; off, there alone; on again, there alone; cut, here alone; on again, there alone */
        struct journal_entry change = e;
        change.kind = i % 2 ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON;
        change.start_s = i == 3 ? 15 : 10 * (i + 1);
        change.received_ms = now.wall_ms - (5 - i) * 1000;
        change.boot_ms = now.boot_ms - (5 - i) * 1000;
        str_copy(change.detail, sizeof change.detail, i == 1 ? "ended" : i == 3 ? "expired" : "");
        struct journal_entry copy = change;
        if (i != 3)
            desk_note(from, &change);
        if (i == 0 || i == 3)
            desk_note(to, &copy);
        if (i == 3) {
            assert_true(give(from, to));
            const struct alarm *a = alarms_find(desk_alarms(to), e.alarm);
            assert_true(a->off_ms && !a->again && !alarms_on_in(desk_alarms(to), "s1"));
        }
    }
    assert_true(give(from, to)); /* this onset is newer than the end: its samples went elsewhere */
    const struct alarm *a = alarms_on_in(desk_alarms(to), "s1");
    assert_true(a && a->changed_s == 50 && a->on_ms == now.wall_ms - 5000 && a->onset_boot_ms == now.boot_ms - 1000);
    desk_free(from);
    desk_free(to);
}

/* The stream, which goes on from an older snapshot, finds once more what came before: people know that the alarm is on. */
static void what_came_before_an_onset_that_was_given_is_not_told(void **state) {
    struct desk *d = NULL;
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .live = true, .session = "s1", .client = "bed-7"};
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &d, NULL), 0);
    journal_alarm_id(e.session, 2560, e.alarm);
    for (int i = 0; i < 5; i++) { /* the newest onset first; then all */
        static const double at_s[] = {30, 10, 20, 30, 40};
        struct journal_entry change = e;
        change.kind = i == 2 || i == 4 ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON;
        change.start_s = at_s[i];
        change.received_ms = desk_now().wall_ms;
        desk_note(d, &change);
        assert_int_equal(change.untold, i == 1 || i == 2);
    }
    desk_free(d);
}

/* It is on again when it comes to a daemon that knows nothing of it. */
static void an_alarm_that_is_on_again_keeps_the_times_of_both_onsets(void **state) {
    struct desk *from = NULL, *to = NULL;
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .live = true, .session = "s1", .client = "bed-7"}, given[SESSION_GIVEN];
    const struct alarms_now now = desk_now();
    (void)state;
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &from, NULL), 0);
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &to, NULL), 0);
    journal_alarm_id(e.session, 2560, e.alarm);
    for (int i = 0; i < 3; i++) {
        struct journal_entry change = e;
        change.kind = i % 2 ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON;
        change.start_s = 10 * (i + 1);
        change.received_ms = now.wall_ms - (3 - i) * 1000;
        desk_note(from, &change);
    }
    assert_int_equal(desk_register(from).give(from, "s1", given), 1);
    assert_true(given[0].received_ms == now.wall_ms - 1000 && given[0].on_ms == now.wall_ms - 3000);
    assert_true(give(from, to));
    const struct alarm *a = alarms_on_in(desk_alarms(to), "s1");
    assert_true(a && a->on_ms == now.wall_ms - 3000 && a->onset_boot_ms - a->on_boot_ms == 2000);
    desk_free(from);
    desk_free(to);
}

/* The other daemon has computed the onset again, and did not know the alarm of the bed that it joined. */
static void an_alarm_that_comes_under_another_id_ends_none_that_is_on(void **state) {
    struct desk *d[2];
    struct journal_entry e = {
        .kind = JOURNAL_ALARM_ON, .start_s = 10, .value = 0.9, .live = true, .session = "s1", .client = "bed-7"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &d[i], NULL), 0);
        e.received_ms = desk_now().wall_ms - MINUTE;
        e.boot_ms = desk_now().boot_ms - MINUTE;
        journal_alarm_id(i ? e.session : "s0", 2560, e.alarm);
        desk_note(d[i], &e);
    }
    for (int i = 0; i < 2; i++) {
        assert_true(give(d[0], d[1]));
        const struct alarm *a = alarms_on_in(desk_alarms(d[1]), "s1");
        assert_non_null(a);
        assert_true(!strcmp(a->id, e.alarm) && !a->off_ms && a->changed_s == 10);
    }
    desk_free(d[0]);
    desk_free(d[1]);
}

/* As the snapshot of the stream takes it to the other daemon. */
static int take_along(struct desk *from, struct desk *to, const struct journal_entry *of) {
    struct journal_entry list[SESSION_DESCRIBED];
    const int n = desk_register(from).describe(from, of, list);
    for (int i = 0; i < n; i++) {
        COPY_TEXTS(list[i], *of, session, client, principal);
        desk_register(to).take(to, &list[i]);
    }
    return n;
}

static int whose(void *ctx, const char *principal, const char *bed) { return (void)ctx, (void)bed, !strcmp(principal, "token:a"); }

/* The newest change counts at both daemons, also where the stream goes back and forth, and after what was ended is forgotten. */
static void the_standby_of_a_bed_goes_with_its_stream(void **state) {
    static const char *const roster[] = {"bed-7"};
    const struct desk_config config = {.plan = {.roster = roster, .n_roster = 1, .named = whose}};
    const struct journal_entry of = {.session = "s", .client = "bed-7", .principal = "token:a"};
    const struct journal_entry strangers = {.session = "x", .client = "bed-7", .principal = "token:x"};
    struct alarm_author ana = {.by = "token:nurse", .person = "Ana B", .via = "page"};
    const struct alarm_author *who = NULL;
    struct desk *d[2] = {NULL};
    const struct alarms_now now = desk_now();
    const int64_t until_ms = now.wall_ms + 60 * MINUTE;
    (void)state;
    ana.at_ms = now.wall_ms - 10000;
    ana.boot_ms = now.boot_ms - 10000;
    for (int i = 0; i < 2; i++)
        assert_int_equal(desk_new(&config, &d[i], NULL), 0);
    assert_int_equal(take_along(d[0], d[1], &of), 0);
    assert_int_equal(alarms_standby(desk_alarms(d[0]), "bed-7", until_ms, &ana, &now, NULL), 0);
    assert_int_equal(take_along(d[0], d[1], &strangers), 0);
    assert_int_equal(take_along(d[0], d[1], &of), 1);
    assert_int_equal(alarms_in_standby(desk_alarms(d[1]), "bed-7", &now, &who), until_ms);
    assert_string_equal(who->person, "Ana B");
    ana.at_ms -= 500 * MINUTE; /* the wall clock there is behind */
    ana.boot_ms += 1000;
    assert_int_equal(alarms_standby(desk_alarms(d[1]), "bed-7", 0, &ana, &now, NULL), 0);
    for (int i = 0; i < 5; i++) { /* there and back */
        assert_int_equal(take_along(d[!(i % 2)], d[i % 2], &of), 1);
        assert_true(i < 1 || !alarms_in_standby(desk_alarms(d[1]), "bed-7", &now, NULL));
        assert_true(!alarms_in_standby(desk_alarms(d[0]), "bed-7", &now, NULL));
    }
    ana.boot_ms += 1000;
    assert_int_equal(alarms_standby(desk_alarms(d[0]), "bed-7", until_ms + 1, &ana, &now, NULL), 0);
    assert_int_equal(take_along(d[0], d[1], &of), 1);
    assert_int_equal(alarms_in_standby(desk_alarms(d[1]), "bed-7", &now, NULL), until_ms + 1);
    ana.boot_ms += 1000; /* a shorter one, whose end comes there */
    const struct alarms_now later = {.wall_ms = now.wall_ms + 2 * MINUTE, .boot_ms = now.boot_ms + 2 * MINUTE};
    assert_int_equal(alarms_standby(desk_alarms(d[1]), "bed-7", now.wall_ms + MINUTE, &ana, &now, NULL), 0);
    alarms_tick(desk_alarms(d[1]), &later);
    assert_int_equal(take_along(d[1], d[0], &of), 1);
    assert_true(!alarms_in_standby(desk_alarms(d[0]), "bed-7", &now, NULL));
    struct journal_entry old[SESSION_DESCRIBED]; /* a snapshot from before the end of one that began after that */
    ana.boot_ms += 1000;
    assert_int_equal(alarms_standby(desk_alarms(d[0]), "bed-7", until_ms, &ana, &now, NULL), 0);
    assert_int_equal(desk_register(d[0]).describe(d[0], &of, old), 1);
    ana.boot_ms += 1000;
    assert_int_equal(alarms_standby(desk_alarms(d[0]), "bed-7", 0, &ana, &now, NULL), 0);
    assert_int_equal(take_along(d[0], d[1], &of), 1);
    COPY_TEXTS(old[0], of, session, client, principal);
    desk_register(d[1]).take(d[1], &old[0]);
    assert_true(!alarms_in_standby(desk_alarms(d[1]), "bed-7", &now, NULL));
    desk_free(d[0]);
    desk_free(d[1]);
}

/* Standbys that somebody ended are no standbys: they take no share, and make room. */
static void a_standby_that_was_ended_takes_no_room(void **state) {
    struct ward *w = *state;
    const struct alarm_author callers[] = {{.by = "token:a", .at_ms = w->now.wall_ms}, {.by = "token:b", .at_ms = w->now.wall_ms}};
    const int64_t until_ms = w->now.wall_ms + MINUTE;
    struct alarms *alone = alarms_new(&plan, NULL, NULL);
    const struct alarm_author *who = NULL;
    char bed[16];
    for (int i = 0; i < 2 * ALARMS_STANDBYS; i++) {
        str_format(bed, sizeof bed, "bed-%d", i);
        assert_int_equal(alarms_standby(alone, bed, until_ms, &callers[0], &w->now, NULL), 0);
        assert_int_equal(alarms_standby(alone, bed, 0, &callers[0], &w->now, NULL), 0);
    }
    assert_int_equal(alarms_standby(alone, "bed", until_ms, &callers[1], &w->now, NULL), 0);
    assert_true(!alarms_in_standby(alone, bed, &w->now, &who) && who);
    w->now.boot_ms += ALARMS_STANDBY_MS;
    alarms_tick(alone, &w->now);
    who = NULL;
    assert_true(!alarms_in_standby(alone, bed, &w->now, &who) && !who);
    alarms_free(alone);
}

/* Its newest onset named no channels, so the stream that goes on knows none; also where the alarm goes after its stream. */
static void the_channels_of_an_earlier_onset_go_with_an_alarm(void **state) {
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 10, .live = true, .session = "s1", .client = "bed-7"};
    struct desk *d[3] = {NULL};
    const struct alarms_now now = desk_now();
    (void)state;
    journal_alarm_id(e.session, 2560, e.alarm);
    for (int i = 0; i < 3; i++)
        assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &d[i], NULL), 0);
    for (int i = 0; i < 3; i++) {
        e.kind = i % 2 ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON;
        e.start_s = 10 * (i + 1);
        e.received_ms = now.wall_ms - (3 - i) * 1000;
        str_copy(e.where, sizeof e.where, i ? "" : "left: F7-T3");
        str_copy(e.detail, sizeof e.detail, i == 1 ? "ended" : "");
        struct journal_entry copy = e;
        desk_note(d[0], &copy);
    }
    assert_string_equal(alarms_find(desk_alarms(d[0]), e.alarm)->where, "left: F7-T3");
    struct journal_entry again = e; /* the snapshot's */
    desk_note(d[1], &again);
    assert_string_equal(alarms_find(desk_alarms(d[1]), e.alarm)->where, "");
    assert_int_equal(take_along(d[0], d[1], &e), 1);
    assert_string_equal(alarms_find(desk_alarms(d[1]), e.alarm)->where, "left: F7-T3");
    assert_true(give(d[1], d[2]));
    assert_string_equal(alarms_find(desk_alarms(d[2]), e.alarm)->where, "left: F7-T3");
    for (int i = 0; i < 3; i++)
        desk_free(d[i]);
}

/* The stream goes to another daemon, where its alarms are on under the same ids; that nothing was heard of it is over. */
static void technical_alarms_go_with_their_stream(void **state) {
    struct ward *w = *state;
    struct desk *to = NULL;
    struct journal_entry list[SESSION_DESCRIBED];
    char ids[2][JOURNAL_ALARM];
    assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &to, NULL), 0);
    for (int i = 0; i < 2; i++) {
        const enum alarm_kind kind = i ? ALARM_LOST : ALARM_ELECTRODES;
        hold(w, kind, "bed-7", 31 * 1000);
        const struct alarm *a = technical(w, kind);
        assert_non_null(a);
        str_copy(ids[i], sizeof ids[i], a->id);
        alarm_entry_make(&(struct alarms_row){.kind = ALARMS_ROW_TECHNICAL_ON, .alarm = a, .at_ms = a->on_ms}, &list[0]);
        assert_true(list[0].number == w->rows[w->n - 1].number && list[0].number >= 0); /* hooks know what was told by it */
        list[0].received_ms = list[0].on_ms = desk_now().wall_ms - MINUTE;
        desk_register(to).take(to, &list[0]);
        a = alarms_find(desk_alarms(to), ids[i]);
        assert_true(i ? !a : a && a->kind == kind && a->on_ms == list[0].on_ms && !strcmp(a->session, "s"));
        assert_int_equal(list[0].kind, i ? JOURNAL_TECHNICAL_OFF : JOURNAL_TECHNICAL_ON); /* both daemons say that it is over */
    }
    const struct journal_entry of = {.session = "s", .client = "bed-7", .principal = "token:a"};
    assert_int_equal(desk_register(to).describe(to, &of, list), 1); /* it may go on to a third one */
    assert_string_equal(list[0].alarm, ids[0]);
    desk_free(to);
    const int ended = rows_of(w, JOURNAL_TECHNICAL_OFF);
    alarms_moved(w->all, "s", &w->now);
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_OFF), ended + 1);
    assert_string_equal(w->rows[w->n - 1].alarm, ids[1]);
    hold(w, ALARM_ELECTRODES, "bed-7", 31 * 1000);
    alarms_moved(w->all, "s", &w->now);
    assert_null(technical(w, ALARM_ELECTRODES));
    pass(w, MINUTE);
    assert_int_equal(rows_of(w, JOURNAL_TECHNICAL_OFF), ended + 1);
}

/* Neither daemon knows whether samples come again: the client that came to the other one may have none. */
static void no_signal_is_not_over_because_its_stream_moved(void **state) {
    static const enum alarm_kind kinds[] = {ALARM_LOST, ALARM_NO_SIGNAL};
    struct ward *w = *state;
    for (int i = 0; i < 2; i++) {
        struct desk *to = NULL;
        struct alarms_cause cause;
        struct journal_entry e;
        assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &to, NULL), 0);
        hold(w, kinds[i], "bed-7", 31 * 1000);
        alarm_entry_make(
            &(struct alarms_row){.kind = ALARMS_ROW_TECHNICAL_ON, .alarm = technical(w, kinds[i]), .at_ms = w->now.wall_ms}, &e);
        desk_register(to).take(to, &e);
        assert_true(e.kind == JOURNAL_TECHNICAL_OFF && alarm_entry_cause(&e, &cause) && cause.kind == kinds[i]);
        assert_int_equal(alarms_is_over(cause.why), !i);
        alarms_moved(w->all, "s", &w->now);
        const struct journal_entry *row = &w->rows[w->n - 1];
        assert_true(row->kind == JOURNAL_TECHNICAL_OFF && alarm_entry_cause(row, &cause) && cause.kind == kinds[i]);
        assert_int_equal(alarms_is_over(cause.why), !i);
        desk_free(to);
    }
}

/* By its number a hook knows that another daemon has told of it. */
static void a_step_has_one_number_at_all_daemons(void **state) {
    struct ward *w = *state;
    int64_t numbers[2][2] = {{0}};
    for (int daemon = 0; daemon < 2; daemon++) {
        alarms_free(w->all);
        w->all = alarms_new(&plan, keep_row, w);
        const int before = w->n;
        on(w, "bed-7", 10);
        pass(w, (3 + daemon) * MINUTE);
        for (int i = before; i < w->n; i++)
            if (w->rows[i].kind == JOURNAL_ESCALATED)
                numbers[daemon][w->rows[i].step - 1] = w->rows[i].number;
    }
    for (int step = 0; step < 2; step++)
        assert_true(numbers[0][step] > 0 && numbers[0][step] == numbers[1][step]);
    assert_true(numbers[0][0] != numbers[0][1]);
}

/* By the number of an earlier step people would have been told of it. */
static void no_step_has_the_number_of_an_earlier_one(void **state) {
    struct ward *w = *state;
    struct alarms_row row = {.kind = ALARMS_ROW_ESCALATED, .alarm = on(w, "bed-7", 10), .step = 1};
    struct journal_entry first, last, later;
    alarm_entry_make(&row, &first);
    row.step = 65535;
    alarm_entry_make(&row, &last);
    row.step = 65537;
    alarm_entry_make(&row, &later);
    assert_true(first.number > 0 && last.number == first.number + 2 * 65534);
    assert_int_equal(later.number, -1); /* the desk gives it one of its own */
}

/* Also after a restart, whether its stream or the journal's rows come first. */
static void an_onset_that_names_no_channels_leaves_those_of_an_earlier_one(void **state) {
    static const char *const wheres[] = {"left: F7-T3", "", "right: F8-T4", ""};
    struct ward *w = *state;
    const struct alarm *a = NULL;
    for (int i = 0; i < 4; i++) {
        struct journal_entry e = {
            .kind = JOURNAL_ALARM_ON, .start_s = 100 * i, NOW(w), .live = true, .session = "s", .alarm = "s-0"};
        str_copy(e.where, sizeof e.where, wheres[i]);
        w->rows[w->n++] = e;
        alarm_entry_take(w->all, &e, &w->now);
        a = alarms_find(w->all, "s-0");
        assert_string_equal(a->where, wheres[i / 2 * 2]);
        pass(w, 1000);
        if (i == 3)
            break;
        e.kind = JOURNAL_ALARM_OFF;
        e.start_s += 50;
        str_copy(e.detail, sizeof e.detail, "ended");
        w->rows[w->n++] = e;
        alarm_entry_take(w->all, &e, &w->now);
    }
    assert_int_equal(a->again, 3);
    restart(w, 1000);
    assert_string_equal(alarms_find(w->all, "s-0")->where, wheres[2]);
    struct alarms *past = w->all;
    w->all = alarms_new(&plan, keep_row, w);
    alarm_entry_take(w->all, &w->rows[w->n - 1], &w->now); /* of the stream's snapshot */
    assert_string_equal(alarms_find(w->all, "s-0")->where, "");
    assert_true(alarms_merge(w->all, past, ROWS, &w->now));
    alarms_free(past);
    assert_string_equal(alarms_find(w->all, "s-0")->where, wheres[2]);
}

static int place_of(void *place, const char *session) { return (void)session, *(const int *)place; }

/* Nobody has seen to it; its cause does not show itself within a minute. */
static void a_fault_is_not_over_because_a_restart_did_not_find_its_stream(void **state) {
    static const int places[] = {SESSION_GONE, SESSION_PLACE_UNKNOWN, SESSION_HERE};
    static const struct alarms_cause cause = {.kind = ALARM_CLOCK, .bed = "bed-7", .principal = "p", .session = "s", .why = "why"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct desk *d = NULL;
        size_t cursor = 0;
        void *at = NULL;
        const struct alarms_now now = desk_now();
        assert_int_equal(desk_new(&(struct desk_config){.journal = NULL}, &d, NULL), 0);
        alarms_restore(desk_alarms(d), true);
        assert_non_null(alarms_technical(desk_alarms(d), "clock-1", &cause, now.wall_ms, &now));
        alarms_restore(desk_alarms(d), false);
        assert_true(desk_register(d).settle(d, place_of, (void *)(uintptr_t)&places[i]));
        assert_true(alarms_each(desk_alarms(d)->technical, &cursor, &at));
        assert_int_equal(((const struct technical *)at)->gone, places[i] != SESSION_HERE);
        desk_free(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_ward(an_onset_looks_at_the_alarms_of_no_other_bed),
        in_ward(an_onset_that_another_daemon_computes_again_is_the_same_alarm),
        in_ward(an_alarm_that_comes_back_at_its_next_onset_has_its_answer),
        in_ward(an_alarm_that_moved_is_not_taken_back_by_an_older_stream),
        in_ward(an_alarm_goes_after_its_stream_to_the_daemon_that_has_it),
        in_ward(an_alarm_that_comes_after_the_end_of_its_stream_is_over),
        in_ward(what_came_before_an_onset_that_was_given_is_not_told),
        in_ward(an_alarm_that_is_on_again_keeps_the_times_of_both_onsets),
        in_ward(technical_alarms_go_with_their_stream),
        in_ward(no_signal_is_not_over_because_its_stream_moved),
        in_ward(a_fault_is_not_over_because_a_restart_did_not_find_its_stream),
        in_ward(an_alarm_that_comes_under_another_id_ends_none_that_is_on),
        in_ward(the_standby_of_a_bed_goes_with_its_stream),
        in_ward(a_standby_that_was_ended_takes_no_room),
        in_ward(the_channels_of_an_earlier_onset_go_with_an_alarm),
        in_ward(a_step_has_one_number_at_all_daemons),
        in_ward(no_step_has_the_number_of_an_earlier_one),
        in_ward(an_onset_that_names_no_channels_leaves_those_of_an_earlier_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
