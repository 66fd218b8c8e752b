/* owed and telling: who is told next and of what, without a receiver: alarms that are on first, callers in turn; an alarm that goes
 * on is not over, and what is told of several at once is true of each. */
#include "daemon/hooks/hooks.h"
#include "daemon/hooks/owed.h"
#include "unit/entry_fixture.h"

enum { NOW_MS = 1000000 };
static int n_settled, n_dropped;
static void keep_settled(void *ctx, const struct journal_entry *e, const char *outcome) {
    (void)ctx, (void)e;
    n_settled++;
    n_dropped += str_starts(outcome, "dropped");
}

static struct owed owed_new(void) {
    struct owed o;
    assert_true(owed_init(&o));
    o.settled = keep_settled;
    o.stale_ms = 720 * 1000;
    n_settled = n_dropped = 0;
    return o;
}

/* An entry that is on the disk, made at that time. */
static bool owe_entry(struct owed *o, const struct journal_entry *e, int64_t made_ms) {
    struct journal_line *l = journal_line_new(e);
    l->made_ms = made_ms;
    atomic_store(&l->state, LINE_WRITTEN);
    const bool kept = owed_add(o, l, false, made_ms) != NULL;
    journal_line_drop(l);
    return kept;
}

static bool owe(struct owed *o, enum journal_kind kind, const char *principal, const char *bed, int64_t made_ms) {
    struct journal_entry e = entry(kind, bed, 512);
    str_copy(e.principal, sizeof e.principal, principal);
    if (kind == JOURNAL_TECHNICAL_ON)
        str_copy(e.detail, sizeof e.detail, "lost");
    e.live = kind != JOURNAL_EVENT; /* here: of a replay */
    return owe_entry(o, &e, made_ms);
}

static void taken(struct owed *o, struct telling *t) {
    const int settled = n_settled;
    owed_settle(o, t, "delivered");
    n_settled = settled;
}

/* Delivers what is next at once; the name of its bed. */
static const char *next_told(struct owed *o, int64_t now_ms, char text[TELLING_TEXT]) {
    static char bed[JOURNAL_CLIENT];
    struct telling t;
    int64_t when;
    struct owed_bed *b = owed_next(o, now_ms, HOOKS_AT_ONCE, &when);
    if (!b)
        return "";
    assert_true(owed_begin(o, b, now_ms, &t));
    str_copy(bed, sizeof bed, t.entry->client);
    telling_text(&t, text);
    taken(o, &t);
    owed_end(o, b, &t, false);
    owed_forget_if_done(o, b, now_ms);
    return bed;
}

static void alarms_come_first_callers_take_turns_and_the_longest_wait_is_next(void **state) {
    static const char *const want[] = {"a-0", "b-0", "a-1", "b-1", "a-2", "ended", "a-lost", "replay"};
    struct owed o = owed_new();
    char text[TELLING_TEXT];
    (void)state;
    owe(&o, JOURNAL_EVENT, "token:c", "replay", NOW_MS);
    owe(&o, JOURNAL_TECHNICAL_ON, "token:a", "a-lost", NOW_MS + 1);
    owe(&o, JOURNAL_ALARM_OFF, "token:d", "ended", NOW_MS + 2);
    for (int i = 0; i < 3; i++) {
        char bed[16];
        str_format(bed, sizeof bed, "a-%d", i);
        owe(&o, JOURNAL_ALARM_ON, "token:a", bed, NOW_MS + 3 + i);
    }
    owe(&o, JOURNAL_ALARM_ON, "token:b", "b-0", NOW_MS + 100);
    owe(&o, JOURNAL_ALARM_ON, "token:b", "b-1", NOW_MS + 101);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_string_equal(next_told(&o, NOW_MS + 60000, text), want[i]);
    assert_string_equal(next_told(&o, NOW_MS + 60000, text), "");
    owed_done(&o);
}

static void one_caller_has_half_of_the_attempts_while_others_wait(void **state) {
    struct owed o = owed_new();
    struct telling t[HOOKS_AT_ONCE];
    struct owed_bed *busy[HOOKS_AT_ONCE], *next;
    int64_t when;
    int n = 0;
    (void)state;
    for (int i = 0; i < 8; i++) {
        char bed[16];
        str_format(bed, sizeof bed, "a-%d", i);
        owe(&o, JOURNAL_ALARM_ON, "token:a", bed, NOW_MS);
    }
    owe(&o, JOURNAL_ALARM_ON, "token:b", "b", NOW_MS + 5);
    for (; n < HOOKS_AT_ONCE && (next = owed_next(&o, NOW_MS + 10, HOOKS_AT_ONCE, &when)); n++)
        assert_true(owed_begin(&o, busy[n] = next, NOW_MS + 10, &t[n]));
    assert_int_equal(n, 3); /* two of a, and b; the fourth waits for another caller */
    for (int i = 0; i < n; i++) {
        taken(&o, &t[i]);
        owed_end(&o, busy[i], &t[i], false);
    }
    owed_done(&o);
}

/* The receiver is down: a caller that alarms under ever new names loses its own, never the alarms of others. */
static void a_flood_of_names_drops_no_alarm_of_another(void **state) {
    struct owed o = owed_new();
    char text[TELLING_TEXT], bed[16];
    (void)state;
    assert_true(owe(&o, JOURNAL_ALARM_ON, "token:icu", "bed-1", NOW_MS));
    for (int i = 0; i < 2 * OWED_BEDS; i++) {
        str_format(bed, sizeof bed, "x-%d", i);
        owe(&o, JOURNAL_ALARM_ON, "token:flood", bed, NOW_MS + 1);
    }
    assert_int_equal(n_dropped, 2 * OWED_BEDS - (OWED_BEDS - OWED_BEDS / 10));
    assert_true(owe(&o, JOURNAL_ALARM_ON, "token:icu", "bed-2", NOW_MS + 2));
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "bed-1");
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "x-0");
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "bed-2");
    owed_done(&o);
}

static int64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Without tokens each bed is an owner. All of a large house alarm at once, on the loop's thread; the receiver is slow. */
static void a_storm_beyond_the_limit_costs_no_walk_for_each_bed(void **state) {
    enum { ROUNDS = 100 };
    struct owed o = owed_new();
    char bed[16];
    int64_t times[4] = {cpu_ns()}, when;
    (void)state;
    for (int i = 0; i < 2 * OWED_BEDS; i++) {
        str_format(bed, sizeof bed, "x-%d", i);
        assert_int_equal(owe(&o, JOURNAL_ALARM_ON, "uid:1", bed, NOW_MS), i < OWED_BEDS);
        if (i % OWED_BEDS == OWED_BEDS - 1)
            times[1 + i / OWED_BEDS] = cpu_ns();
    }
    assert_non_null(owed_next(&o, NOW_MS, HOOKS_AT_ONCE, &when));
    times[2] = cpu_ns();
    for (int i = 0; i < ROUNDS; i++)
        assert_non_null(owed_next(&o, NOW_MS, HOOKS_AT_ONCE, &when));
    times[3] = cpu_ns();
    printf("%d beds: %.2f ms; as many beyond the limit: %.2f ms; who is next: %.3f ms\n", OWED_BEDS,
           (double)(times[1] - times[0]) / 1e6, (double)(times[2] - times[1]) / 1e6, (double)(times[3] - times[2]) / 1e6 / ROUNDS);
    assert_true(times[2] - times[1] < 8 * (times[1] - times[0]));
    owed_done(&o);
}

/* What is over of one bed makes room for the alarm of another one, but not the bed that is on again since. */
static void an_alarm_that_is_on_takes_the_place_of_what_is_over(void **state) {
    struct owed o = owed_new();
    char bed[16], text[TELLING_TEXT];
    (void)state;
    for (int i = 0; i < OWED_BEDS; i++) {
        str_format(bed, sizeof bed, "x-%d", i);
        assert_true(owe(&o, i ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON, "uid:1", bed, NOW_MS));
    }
    str_format(bed, sizeof bed, "x-%d", OWED_BEDS - 1);
    struct journal_entry again = entry(JOURNAL_ALARM_ON, bed, 51200);
    str_copy(again.principal, sizeof again.principal, "uid:1");
    assert_true(owe_entry(&o, &again, NOW_MS));
    for (int i = 1; i < OWED_BEDS - 1; i++) {
        str_format(bed, sizeof bed, "y-%d", i);
        assert_true(owe(&o, JOURNAL_ALARM_ON, "uid:1", bed, NOW_MS + 1));
    }
    assert_int_equal(n_dropped, OWED_BEDS - 2);
    assert_false(owe(&o, JOURNAL_ALARM_ON, "uid:1", "z", NOW_MS + 1));
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "x-0");
    str_format(bed, sizeof bed, "x-%d", OWED_BEDS - 1);
    assert_string_equal(next_told(&o, NOW_MS + 10, text), bed);
    owed_done(&o);
}

/* The alarm ended in a session that was closed, and goes on in the next one of the bed. */
static void an_alarm_that_goes_on_in_another_session_is_not_over(void **state) {
    struct owed o = owed_new();
    char text[TELLING_TEXT];
    (void)state;
    struct journal_entry on = entry(JOURNAL_ALARM_ON, "bed-7", 512), off = entry(JOURNAL_ALARM_OFF, "bed-7", 1024), again = on;
    str_copy(again.session, sizeof again.session, "next");
    o.rejoin_ms = 60000;
    assert_true(owe_entry(&o, &on, NOW_MS));
    assert_string_equal(next_told(&o, NOW_MS, text), "bed-7");
    assert_true(owe_entry(&o, &off, NOW_MS + 1000));
    assert_false(owe_entry(&o, &again, NOW_MS + 2000));
    assert_int_equal(n_settled, 2);
    assert_string_equal(next_told(&o, NOW_MS + 100000, text), "");
    again.sounds = true; /* an answer does not cover it any more: people hear of it again */
    str_copy(again.detail, sizeof again.detail, "on again, 2 times since 10:03 CET; Ana acknowledged it before, at 10:04 CET");
    assert_true(owe_entry(&o, &off, NOW_MS + 3000) && owe_entry(&o, &again, NOW_MS + 4000));
    assert_string_equal(next_told(&o, NOW_MS + 4000, text), "bed-7");
    assert_non_null(strstr(text, ", on again, 2 times since 10:03 CET; Ana acknowledged it before, at 10:04 CET"));
    assert_string_equal(next_told(&o, NOW_MS + 100000, text), "");
    str_copy(off.detail, sizeof off.detail, "closed"); /* the attempt failed, and waits when the alarm is on again */
    assert_true(owe_entry(&o, &on, NOW_MS) && owe_entry(&o, &off, NOW_MS + 1));
    str_copy(again.alarm, sizeof again.alarm, "next-1");
    assert_true(owe_entry(&o, &again, NOW_MS + 2));
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "bed-7");
    assert_true(str_starts(text, "ALARM bed-7")); /* one message, with the newest state */
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "");
    owed_done(&o);
}

/* A stream that goes on from a snapshot brings an alarm that is over: nobody hears that it is on. */
static void an_end_that_a_stream_brings_along_waits_for_nothing(void **state) {
    struct owed o = owed_new();
    char text[TELLING_TEXT];
    const struct journal_entry e[] = {entry(JOURNAL_ALARM_ON, "bed-7", 512), entry(JOURNAL_ALARM_OFF, "bed-7", 1024)};
    (void)state;
    o.rejoin_ms = 60000;
    for (int i = 0; i < 2; i++) {
        struct journal_line *l = journal_line_new(&e[i]);
        l->again = true;
        l->made_ms = NOW_MS;
        assert_non_null(owed_add(&o, l, false, NOW_MS));
        atomic_store(&l->state, LINE_WRITTEN);
        journal_line_drop(l);
    }
    assert_string_equal(next_told(&o, NOW_MS + 10, text), "bed-7");
    assert_non_null(strstr(text, "the alarm was on"));
    owed_done(&o);
}

/* The token of a bed has changed, and the stream of the new one goes on with the alarm of the old one. */
static void an_alarm_that_goes_on_with_another_caller_is_the_same(void **state) {
    struct owed o = owed_new();
    char text[TELLING_TEXT];
    (void)state;
    struct journal_entry on = entry(JOURNAL_ALARM_ON, "bed-7", 512), again = on, called = on;
    struct journal_entry off = entry(JOURNAL_ALARM_OFF, "bed-7", 1024);
    str_copy(again.session, sizeof again.session, "next");
    str_copy(again.principal, sizeof again.principal, "token:new");
    o.rejoin_ms = 60000;
    assert_true(owe_entry(&o, &on, NOW_MS));
    assert_string_equal(next_told(&o, NOW_MS, text), "bed-7");
    assert_true(owe_entry(&o, &off, NOW_MS + 1000));
    assert_false(owe_entry(&o, &again, NOW_MS + 2000));
    assert_true(n_settled == 2 && !o.waiting);
    assert_string_equal(next_told(&o, NOW_MS + 100000, text), "");
    called.kind = JOURNAL_ESCALATED; /* nothing is told before the alarm goes on, and somebody answers */
    called.step = 1;
    assert_true(owe_entry(&o, &on, NOW_MS) && owe_entry(&o, &called, NOW_MS));
    again.kind = JOURNAL_ALARM_OFF;
    assert_true(owed_escalates(&o, &again));
    owed_answered(&o, &again);
    assert_false(owed_escalates(&o, &again));
    str_copy(again.detail, sizeof again.detail, "ended");
    assert_true(owe_entry(&o, &again, NOW_MS + 1000));
    assert_string_equal(next_told(&o, NOW_MS + 100000, text), "bed-7");
    assert_non_null(strstr(text, "bed-7 (new): the alarm was on "));
    assert_non_null(strstr(text, ", acknowledged"));
    assert_true(!o.waiting);
    owed_done(&o);
}

/* The daemon was killed while the end waited for alarms.rejoin; the stream goes on from a snapshot in which the alarm is on
 * (again), or from one before the alarm, which its samples make once more. */
static void an_alarm_that_is_reported_again_does_not_take_its_end(void **state) {
    (void)state;
    for (int again = 0; again < 2; again++) {
        struct owed o = owed_new();
        char text[TELLING_TEXT];
        struct journal_entry on = entry(JOURNAL_ALARM_ON, "bed-7", 512), off = entry(JOURNAL_ALARM_OFF, "bed-7", 1024);
        o.rejoin_ms = 60000;
        assert_true(owe_entry(&o, &off, NOW_MS));
        struct journal_line *l = journal_line_new(&on);
        l->again = again;
        l->made_ms = NOW_MS + 1000;
        assert_non_null(owed_add(&o, l, false, NOW_MS + 1000));
        atomic_store(&l->state, LINE_KNOWN);
        assert_int_equal(n_settled, 0);
        assert_string_equal(next_told(&o, NOW_MS + 60000, text), "bed-7");
        assert_non_null(strstr(text, "the alarm is over"));
        journal_line_drop(l);
        owed_done(&o);
    }
}

static void escalations_are_grouped_and_settled_by_an_answer_or_an_end(void **state) {
    struct owed o = owed_new();
    char text[TELLING_TEXT], bed[16];
    struct journal_entry e[6];
    (void)state;
    for (int i = 0; i < 6; i++) {
        str_format(bed, sizeof bed, "bed-%d", i);
        e[i] = entry(JOURNAL_ESCALATED, bed, 512);
        e[i].step = 1;
        e[i].on_ms = INT64_C(1800000000000) + i;
        assert_true(owe_entry(&o, &e[i], NOW_MS + i));
        if (!i) {
            assert_string_equal(next_told(&o, NOW_MS, text), "bed-0"); /* at once */
            assert_non_null(strstr(text, "bed-0 (icu): nobody has answered it, call 1, since 2027-01-15 08:00:00 UTC"));
        }
    }
    assert_string_equal(next_told(&o, NOW_MS + OWED_GROUP_MS - 1, text), "");
    owed_answered(&o, &e[1]);
    assert_int_equal(n_settled, 1);
    e[2].kind = JOURNAL_ALARM_OFF;
    assert_true(owed_escalates(&o, &e[2]));
    owed_settle_escalations(&o, &e[2], "not told: the alarm is over");
    assert_false(owed_escalates(&o, &e[2]));
    next_told(&o, NOW_MS + OWED_GROUP_MS, text);
    assert_string_equal(
        text, "ALARM: nobody has answered 3 alarms, call 1: bed-3, bed-4, bed-5, the oldest since 2027-01-15 08:00:00 UTC");
    assert_int_equal(n_settled, 2);
    struct journal_entry over = e[3]; /* it has been over for minutes */
    over.step = 2;
    over.until_ms = over.on_ms + 80 * 1000;
    str_copy(over.detail, sizeof over.detail, "on again, 1 time since 08:00 UTC; Ana acknowledged it before, at 08:00 UTC");
    assert_true(owe_entry(&o, &over, NOW_MS));
    next_told(&o, NOW_MS, text);
    assert_string_equal(text, "bed-3 (icu): the alarm was on 2027-01-15 08:00:00 - 08:01:20 UTC, not answered, call 2, on again, 1 "
                              "time since 08:00 UTC; Ana acknowledged it before, at 08:00 UTC");
    over.step = 3;
    over.until_ms = 0;
    *over.detail = '\0';
    str_copy(over.where, sizeof over.where, "left: F7-T3");
    assert_true(owe_entry(&o, &over, NOW_MS));
    next_told(&o, NOW_MS, text);
    assert_non_null(strstr(text, "answered it, call 3, since 2027-01-15 08:00:00 UTC, at the onset: left: F7-T3"));
    owed_done(&o);
}

/* The attempt that tells it fails after somebody has answered: it is not tried again. */
static void an_answer_ends_the_attempts_of_an_escalation(void **state) {
    struct owed o = owed_new();
    struct journal_entry e = entry(JOURNAL_ESCALATED, "bed-7", 512);
    struct telling t;
    int64_t when;
    (void)state;
    e.step = 2;
    assert_true(owe_entry(&o, &e, NOW_MS));
    struct owed_bed *b = owed_next(&o, NOW_MS, HOOKS_AT_ONCE, &when);
    assert_true(owed_begin(&o, b, NOW_MS, &t));
    owed_answered(&o, &e);
    assert_int_equal(n_settled, 0);
    owed_end(&o, b, &t, true);
    assert_true(n_settled == 1 && !o.waiting);
    owed_done(&o);
}

/* The processor time for which answers to the alarms of so many beds, of which one was called to in vain, keep the loop. */
static int64_t answering_takes_ns(int beds) {
    struct owed o = owed_new();
    struct journal_entry e = {0};
    char bed[16];
    for (int i = 0; i < beds; i++) {
        str_format(bed, sizeof bed, "bed-%d", i);
        e = entry(JOURNAL_ALARM_ON, bed, 512);
        assert_true(owe_entry(&o, &e, NOW_MS));
    }
    e.kind = JOURNAL_ESCALATED;
    assert_true(owe_entry(&o, &e, NOW_MS));
    const int64_t from_ns = cpu_ns();
    for (int i = 0; i < beds; i++) {
        str_format(bed, sizeof bed, "bed-%d", i);
        journal_alarm_id(bed, 512, e.alarm);
        e.kind = JOURNAL_ALARM_OFF;
        assert_int_equal(owed_escalates(&o, &e), i == beds - 1);
        owed_answered(&o, &e);
    }
    const int64_t took_ns = cpu_ns() - from_ns;
    assert_true(n_settled == 1 && o.waiting == beds);
    owed_done(&o);
    return took_ns;
}

/* Eight times as many beds take eight times as long, not 64 times. */
static void an_answer_looks_at_no_other_bed(void **state) {
    int64_t few_ns = INT64_MAX, many_ns = INT64_MAX;
    (void)state;
    for (int i = 0; i < 5; i++) {
        const int64_t of_few = answering_takes_ns(OWED_BEDS / 16), of_many = answering_takes_ns(OWED_BEDS / 2);
        few_ns = of_few < few_ns ? of_few : few_ns;
        many_ns = of_many < many_ns ? of_many : many_ns;
    }
    printf("answers to the alarms of %d beds take %.2f ms\n", OWED_BEDS / 2, (double)many_ns / 1e6);
    assert_true(many_ns < 24 * few_ns);
}

/* The attempt that tells of a beginning fails, and the alarm is answered, goes on in another caller's stream and ends meanwhile:
 * what waits of it is found in each of these states, and nothing is after the end. */
static void an_alarm_is_found_wherever_its_entries_are(void **state) {
    struct owed o = owed_new();
    struct journal_entry on = entry(JOURNAL_ALARM_ON, "bed-7", 512), called = on, off = entry(JOURNAL_ALARM_OFF, "bed-7", 1024);
    struct owed_bed *b[2];
    struct telling t[2];
    int64_t when;
    (void)state;
    called.kind = JOURNAL_ESCALATED;
    called.step = 1;
    str_copy(off.principal, sizeof off.principal, "token:new");
    assert_true(owe_entry(&o, &on, NOW_MS) && owe_entry(&o, &called, NOW_MS));
    for (int i = 0; i < 2; i++) {
        b[i] = owed_next(&o, NOW_MS, HOOKS_AT_ONCE, &when);
        assert_true(owed_begin(&o, b[i], NOW_MS, &t[i]));
    }
    assert_true(owed_escalates(&o, &off) && !o.waiting);
    owed_end(&o, b[0], &t[0], true); /* the one that is on its way no more, and the other one, are of one alarm */
    assert_true(owed_escalates(&o, &off) && o.waiting == 1);
    owed_settle_escalations(&o, &off, "not told: the alarm is over");
    assert_int_equal(n_settled, b[0]->key[0] == '\x1d');
    owed_end(&o, b[1], &t[1], true);
    assert_true(!owed_escalates(&o, &off) && n_settled == 1 && o.waiting == 1);
    assert_true(owe_entry(&o, &off, NOW_MS + 1000) && map_count(o.of_alarm) == 1);
    char text[TELLING_TEXT];
    assert_string_equal(next_told(&o, NOW_MS + 100000, text), "bed-7");
    assert_non_null(strstr(text, "the alarm was on "));
    assert_true(!o.waiting && !map_count(o.of_alarm));
    owed_done(&o);
}

/* No message about test alarms is one about alarms, whatever waits together. */
static void test_alarms_are_told_apart(void **state) {
    struct owed o = owed_new();
    char text[TELLING_TEXT];
    bool told_test = false, told_alarm = false, told_technical = false;
    const struct journal_entry e[] = {of_test_alarm(JOURNAL_ESCALATED, "bed-1", 1, ""),
                                      of_test_alarm(JOURNAL_ESCALATED, "bed-2", 2, ""),
                                      of_test_alarm(JOURNAL_TECHNICAL_ON, "bed-4", 3, "unanswered: test1-3"),
                                      entry(JOURNAL_ESCALATED, "bed-3", 512), entry(JOURNAL_ALARM_ON, "bed-1", 512)};
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(owe_entry(&o, &e[i], NOW_MS));
    for (int i = 0; i < 4; i++) {
        assert_true(*next_told(&o, NOW_MS + TELLING_GROUP_MS, text));
        told_test |= str_starts(text, "TEST ALARM: nobody has answered 2 alarms, call 1: bed-1, bed-2,");
        told_alarm |= str_starts(text, "ALARM bed-3 (icu): nobody has answered it");
        told_technical |= str_starts(text, "TEST bed-4: nobody answers");
    }
    assert_true(told_test && told_alarm && told_technical && !o.waiting);
    assert_true(owe_entry(&o, &e[0], NOW_MS) && owed_escalates(&o, &e[0]));
    owed_answered(&o, &e[0]);
    assert_true(n_settled == 1 && !o.waiting);
    owed_done(&o);
}

enum { FAIL_MS = 10, MOST = 256 };
/* The receiver answers no attempt until then; how many there are. Each takes a while, in which line (may be NULL) comes. */
static int failed_attempts(struct owed *o, int64_t now_ms, int64_t until_ms, struct journal_line *line) {
    int n = 0;
    while (now_ms < until_ms && n < MOST) {
        struct telling t;
        int64_t when_ms;
        struct owed_bed *b = owed_next(o, now_ms, HOOKS_AT_ONCE, &when_ms);
        if (!b) {
            now_ms = when_ms;
            continue;
        }
        assert_true(owed_begin(o, b, now_ms, &t));
        if (line)
            assert_non_null(owed_add(o, line, false, now_ms));
        line = NULL;
        now_ms += FAIL_MS;
        owed_put_off(b, now_ms, false);
        owed_end(o, b, &t, true);
        n++;
    }
    return n;
}

/* After 1, 2, 4, 8, 16, 32, 60, 60 … s, whatever waits in the bed besides. */
static void what_has_failed_is_tried_again_by_its_pauses(void **state) {
    static const struct {
        enum journal_kind kind;
        int state, at_once;                              /* attempts of the first half second */
    } besides[] = {{JOURNAL_ALARM_OFF, LINE_WRITTEN, 1}, /* waits for alarms.rejoin */
                   {JOURNAL_ALARM_ON, LINE_WAITS, 1},    /* waits for the disk */
                   {JOURNAL_ALARM_ON, LINE_WRITTEN, 2}}; /* waits for nothing, once */
    (void)state;
    for (size_t i = 0; i < sizeof besides / sizeof *besides; i++) {
        struct owed o = owed_new();
        struct journal_entry on = entry(JOURNAL_ALARM_ON, "bed-7", 512), e = entry(besides[i].kind, "bed-7", 1024);
        struct journal_line *l = journal_line_new(&e);
        o.rejoin_ms = 3600 * 1000;
        l->made_ms = NOW_MS;
        l->again = besides[i].state == LINE_WAITS;
        atomic_store(&l->state, besides[i].state);
        assert_true(owe_entry(&o, &on, NOW_MS));
        assert_int_equal(failed_attempts(&o, NOW_MS, NOW_MS + 500, l), besides[i].at_once);
        assert_int_equal(failed_attempts(&o, NOW_MS + 500, NOW_MS + 240 * 1000, NULL), 9 - besides[i].at_once);
        journal_line_drop(l);
        owed_done(&o);
    }
}

static void an_alarm_that_is_tried_again_says_that_it_was_answered(void **state) {
    struct owed o = owed_new();
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "bed-7", 512);
    struct telling t;
    char text[TELLING_TEXT];
    int64_t when;
    (void)state;
    assert_true(owe_entry(&o, &e, NOW_MS));
    struct owed_bed *b = owed_next(&o, NOW_MS, HOOKS_AT_ONCE, &when);
    assert_true(owed_begin(&o, b, NOW_MS, &t));
    owed_answered(&o, &e); /* while the attempt is on its way */
    owed_end(&o, b, &t, true);
    assert_string_equal(next_told(&o, NOW_MS, text), "bed-7");
    assert_non_null(strstr(text, ", acknowledged"));
    struct journal_line *l = journal_line_new(&e); /* before a restart */
    l->answered = true;
    l->made_ms = NOW_MS;
    atomic_store(&l->state, LINE_WRITTEN);
    assert_non_null(owed_add(&o, l, false, NOW_MS));
    next_told(&o, NOW_MS, text);
    assert_non_null(strstr(text, ", acknowledged"));
    l->answered = false;
    str_copy(l->entry.person, sizeof l->entry.person, "Ana"); /* it is on again, and her answer covers it */
    assert_non_null(owed_add(&o, l, false, NOW_MS));
    next_told(&o, NOW_MS, text);
    assert_non_null(strstr(text, ", acknowledged"));
    l->answered = true;
    l->entry.kind = JOURNAL_ESCALATED;
    assert_null(owed_add(&o, l, false, NOW_MS));
    assert_int_equal(n_settled, 1);
    journal_line_drop(l);
    owed_done(&o);
}

/* ---- what is told ---- */

/* After an outage of a day: what is on is told, with what began lately; what is over counts from its oldest entry. */
static void a_technical_alarm_that_is_on_is_never_too_old(void **state) {
    enum { LATER_MS = 2 * HOOKS_GIVE_UP_MS };
    const int64_t made_ms[] = {0, LATER_MS - 60000, LATER_MS - 50000, LATER_MS - 40000};
    struct journal_line lines[4] = {{.made_ms = 0}};
    struct telling_item items[4] = {{.next = NULL}}, *list = items;
    struct telling t;
    (void)state;
    for (int i = 0; i < 4; i++) {
        lines[i].entry = technical(i < 3 ? JOURNAL_TECHNICAL_ON : JOURNAL_TECHNICAL_OFF, i < 3 ? i : 2);
        lines[i].made_ms = made_ms[i];
        atomic_store(&lines[i].state, LINE_WRITTEN);
        items[i] = (struct telling_item){.next = i < 3 ? &items[i + 1] : NULL, .line = &lines[i]};
    }
    assert_true(telling_take(&list, LATER_MS, 0, &t));
    assert_true(t.is_on && t.made_ms == made_ms[1] && t.alarms == 2); /* the third one is over */
    assert_true(telling_take(&list, LATER_MS, 0, &t));
    assert_true(!t.is_on && t.made_ms == made_ms[2] && t.alarms == 1 && !list);
}

/* Two beds are lost; one is back, the other put in standby: no message says of it that it is back. */
static void what_is_not_over_is_told_apart_from_what_is(void **state) {
    struct journal_line lines[4] = {{.made_ms = 0}};
    struct telling_item items[4] = {{.next = NULL}}, *list = items;
    struct telling t;
    char text[TELLING_TEXT];
    (void)state;
    for (int i = 0; i < 4; i++) {
        lines[i].entry = technical(i < 2 ? JOURNAL_TECHNICAL_ON : JOURNAL_TECHNICAL_OFF, i % 2);
        atomic_store(&lines[i].state, LINE_WRITTEN);
        items[i] = (struct telling_item){.next = i < 3 ? &items[i + 1] : NULL, .line = &lines[i]};
    }
    str_copy(lines[3].entry.detail, sizeof lines[3].entry.detail, "lost: " ALARMS_STANDS);
    for (int i = 0; i < 2; i++) {
        assert_true(telling_take(&list, TELLING_GROUP_MS, 0, &t));
        assert_int_equal(t.alarms, 1);
        telling_text(&t, text);
        assert_string_equal(text, i ? "bed-1: connection lost, not over, the bed is in standby" : "bed-0: connection lost, back");
    }
    assert_null(list);
}

/* Sentences for people: names without their callers where these are the beds' own, times with their zone, how long it was. */
static void a_sentence_says_what_people_need(void **state) {
    struct journal_line line = {.entry = technical(JOURNAL_TECHNICAL_OFF, 7)};
    struct telling_item item = {.line = &line};
    struct telling t = {.items = &item, .entry = &line.entry, .alarms = 1};
    char text[TELLING_TEXT];
    (void)state;
    setenv("TZ", "CET-1", 1);
    tzset();
    line.entry.on_ms = INT64_C(1800000000000);
    line.entry.received_ms = line.entry.on_ms + 70000;
    telling_text(&t, text);
    assert_string_equal(text, "bed-7: connection lost, back after 70 s, 2027-01-15 09:00:00 - 09:01:10 CET");
    line.entry = entry(JOURNAL_ALARM_OFF, "bed-7", 512);
    str_copy(line.entry.principal, sizeof line.entry.principal, "token:bed-7");
    str_copy(line.entry.detail, sizeof line.entry.detail, "cut");
    line.entry.on_ms = INT64_C(1800000000000);
    line.entry.received_ms = line.entry.on_ms + 70000;
    telling_text(&t, text);
    assert_string_equal(text, "bed-7: monitoring stopped at 2027-01-15 09:01:10 CET while the alarm was on, since about 2027-01-15 "
                              "09:00:00 CET (connection lost)");
    line.entry.kind = JOURNAL_ALARM_ON;
    t.is_on = true;
    str_copy(line.entry.where, sizeof line.entry.where, "left: F7-T3");
    *line.entry.detail = '\0';
    telling_text(&t, text);
    assert_non_null(strstr(text, " since 2027-01-15 09:00:00 CET, left: F7-T3"));
    str_copy(line.entry.detail, sizeof line.entry.detail, ALARM_ENTRY_TOLD "no rule holds it back any more");
    telling_text(&t, text);
    assert_non_null(strstr(text, " since 2027-01-15 09:00:00 CET, at the onset: left: F7-T3"));
    unsetenv("TZ");
    tzset();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alarms_come_first_callers_take_turns_and_the_longest_wait_is_next),
        cmocka_unit_test(one_caller_has_half_of_the_attempts_while_others_wait),
        cmocka_unit_test(a_flood_of_names_drops_no_alarm_of_another),
        cmocka_unit_test(a_storm_beyond_the_limit_costs_no_walk_for_each_bed),
        cmocka_unit_test(an_alarm_that_is_on_takes_the_place_of_what_is_over),
        cmocka_unit_test(an_alarm_that_goes_on_in_another_session_is_not_over),
        cmocka_unit_test(an_end_that_a_stream_brings_along_waits_for_nothing),
        cmocka_unit_test(an_alarm_that_goes_on_with_another_caller_is_the_same),
        cmocka_unit_test(an_alarm_that_is_reported_again_does_not_take_its_end),
        cmocka_unit_test(escalations_are_grouped_and_settled_by_an_answer_or_an_end),
        cmocka_unit_test(an_answer_ends_the_attempts_of_an_escalation),
        cmocka_unit_test(an_answer_looks_at_no_other_bed),
        cmocka_unit_test(an_alarm_is_found_wherever_its_entries_are),
        cmocka_unit_test(a_technical_alarm_that_is_on_is_never_too_old),
        cmocka_unit_test(what_is_not_over_is_told_apart_from_what_is),
        cmocka_unit_test(a_sentence_says_what_people_need),
        cmocka_unit_test(test_alarms_are_told_apart),
        cmocka_unit_test(what_has_failed_is_tried_again_by_its_pauses),
        cmocka_unit_test(an_alarm_that_is_tried_again_says_that_it_was_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
