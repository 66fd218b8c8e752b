/* hooks: an alarm is told without the disk and once; a receiver that fails, hangs or refuses delays no other bed and hears the
 * state of each bed when it is back; commands get a clean environment. */
#include "daemon/hooks/hooks.h"

#include "base/base.h"
#include "base/json.h"
#include "daemon/alarms/alarm_entry.h"
#include "unit/hooks_fixture.h"

static void an_alarm_is_told_without_the_disk(void **state) {
    struct hooks *all = start(state, 0);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "bed-7", 512);
    struct journal_line *l = offer_entry(all, &e, LINE_WAITS); /* no write ever returns */
    wait_for(&receiver.n, 1);
    assert_true(clock_ms() - l->made_ms >= OUTLET_WAIT_MS);
    assert_true(body_has(0, "\"kind\":\"alarm_on\"") && body_has(0, "\"live\":true") && body_has(0, "\"alarm\":\"bed-7-512\""));
    assert_true(body_has(0, "\"text\":\"ALARM bed-7 (icu): seizure probability 0.93 since ") && body_has(0, "\"late_s\":"));
    assert_true(body_has(0, "\"url\":\"https://eeg:8443/streams/bed-7?at=2.00#eeg\"") &&
                body_has(0, "\"notice\":\"not a medical device"));
    wait_told("alarm_on 512 delivered", 1);
    journal_line_drop(l);
    stop(all);
}

static void an_alarm_that_the_journal_had_is_not_told_again(void **state) {
    struct hooks *all = start(state, 0);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "bed-7", 512);
    struct journal_line *l = journal_line_new(&e);
    l->again = true; /* of a snapshot */
    hooks_outlet(all)->offer(hooks_outlet(all)->ctx, 0, l);
    nanosleep(&(struct timespec){.tv_nsec = 700 * 1000000}, NULL);
    assert_int_equal(receiver.n, 0); /* it waits for the disk, whatever that takes */
    atomic_store(&l->state, LINE_KNOWN);
    hooks_outlet(all)->written(hooks_outlet(all)->ctx);
    offer(all, JOURNAL_ALARM_ON, "bed-7", 1024);
    wait_for(&receiver.n, 1);
    assert_true(body_has(0, "\"alarm\":\"bed-7-1024\""));
    journal_line_drop(l);
    stop(all);
    assert_int_equal(receiver.n, 1);
}

static void a_slow_delivery_delays_no_other_bed(void **state) {
    struct hooks *all = start(state, 0);
    atomic_store(&receiver.hangs, true);
    for (int i = 0; i < HOOKS_AT_ONCE - 1; i++) {
        char bed[16];
        str_format(bed, sizeof bed, "hung-%d", i);
        offer(all, JOURNAL_ALARM_ON, bed, 512);
    }
    wait_for(&receiver.busy, HOOKS_AT_ONCE - 1);
    for (int i = 0; i < 20; i++) {
        char bed[16];
        str_format(bed, sizeof bed, "bed-%d", i);
        offer(all, JOURNAL_ALARM_ON, bed, 512);
        offer(all, JOURNAL_ALARM_OFF, bed, 1024);
    }
    for (int i = 0; count_told("alarm_off") < 20; i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(receiver.most <= HOOKS_AT_ONCE);
    atomic_store(&receiver.hangs, false);
    wait_told("alarm_on 512 delivered", 20 + HOOKS_AT_ONCE - 1);
    stop(all);
}

/* The receiver is away: first it hears which alarms are on, then in one line each which were. */
static void after_an_outage_it_hears_the_state_of_each_bed(void **state) {
    struct hooks *all = start(state, 0);
    struct hooks_result result;
    atomic_store(&receiver.status, 503);
    for (int i = 0; i < 3; i++) {
        offer(all, JOURNAL_ALARM_ON, "over", 256 * (2 * i + 1));
        offer(all, JOURNAL_ALARM_OFF, "over", 256 * (2 * i + 2));
    }
    wait_for(&receiver.n, 2); /* the second attempt: it has failed */
    for (int i = 0; hooks_ready(all); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(hooks_take_result(all, &result) && !result.delivered && !strcmp(result.entry.session, "over"));
    struct hooks_state failing;
    hooks_describe(all, 0, &failing);
    assert_true(failing.failing && strstr(failing.error, "503"));
    offer(all, JOURNAL_ALARM_ON, "gone", 512);
    struct journal_entry gone = entry(JOURNAL_ALARM_OFF, "gone", 1024), late = entry(JOURNAL_ALARM_ON, "on", 256);
    str_copy(gone.detail, sizeof gone.detail, "electrodes");
    journal_line_drop(offer_entry(all, &gone, LINE_WRITTEN));
    for (int i = 0; i < 2; i++)
        offer(all, i ? JOURNAL_ALARM_OFF : JOURNAL_ALARM_ON, "on", 64 * (i + 1));
    journal_line_drop(offer_entry(all, &late, LINE_WRITTEN));
    atomic_store(&receiver.status, 200);
    wait_told("alarm_o", 6 + 2 + 3);
    stop(all);
    int over = -1, on = -1, cut = -1;
    for (int i = 0; i < receiver.n; i++) {
        over = body_has(i, "\"client\":\"over\"") ? i : over;
        on = body_has(i, "\"client\":\"on\"") ? i : on;
        cut = body_has(i, "\"client\":\"gone\"") ? i : cut;
    }
    assert_true(over >= 0 && on >= 0 && cut >= 0);
    assert_true(body_has(over, "3 alarms were on ") && body_has(over, ", not answered"));
    assert_true(body_has(on, "\"text\":\"ALARM on ") && body_has(on, "\"kind\":\"alarm_on\""));
    assert_true(body_has(cut, "monitoring stopped at ") && body_has(cut, "(electrodes came off)"));
    assert_int_equal(count_told("alarm_on"), 3 + 1 + 2);
}

static void an_alarm_that_goes_on_is_told_once(void **state) {
    struct hooks *all = start(state, 3600 * 1000);
    struct journal_entry again = entry(JOURNAL_ALARM_ON, "bed-7", 2048);
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    wait_for(&receiver.n, 1);
    struct journal_entry off = entry(JOURNAL_ALARM_OFF, "bed-7", 1024);
    journal_alarm_id("bed-7", 512, off.alarm);
    journal_alarm_id("bed-7", 512, again.alarm); /* within alarms.rejoin */
    journal_line_drop(offer_entry(all, &off, LINE_WRITTEN));
    journal_line_drop(offer_entry(all, &again, LINE_WRITTEN));
    wait_told("alarm_off 1024 not told", 1);
    wait_told("alarm_on 2048 not told", 1);
    str_copy(off.detail, sizeof off.detail, "gap"); /* no end: people hear at once that nobody watches */
    off.number = 4096;
    journal_line_drop(offer_entry(all, &off, LINE_WRITTEN));
    wait_for(&receiver.n, 2);
    assert_true(body_has(1, "monitoring stopped"));
    stop(all);
    assert_int_equal(receiver.n, 2);
}

static void a_receiver_that_refuses_has_failed_at_once(void **state) {
    struct hooks *all = start(state, 0);
    struct hooks_result result;
    atomic_store(&receiver.status, 401);
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    for (int i = 0; !hooks_take_result(all, &result); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(!result.delivered && !strcmp(result.entry.alarm, "bed-7-512"));
    atomic_store(&receiver.status, 200);
    offer(all, JOURNAL_ALARM_ON, "bed-7", 1024); /* a new alarm does not wait */
    for (int i = 0; !hooks_take_result(all, &result); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(result.delivered && hooks_ready(all));
    wait_told("alarm_on", 2);
    stop(all);
}

static void a_test_that_arrives_ends_the_pauses(void **state) {
    struct hooks *all = start(state, 0);
    struct hooks_result result;
    struct err err;
    atomic_store(&receiver.status, 401); /* the next attempt would come after a minute */
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    for (int i = 0; !hooks_take_result(all, &result); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_int_not_equal(hooks_test(all, 0, NULL, &err), 0);
    assert_false(hooks_ready(all));
    atomic_store(&receiver.status, 200);
    assert_int_equal(hooks_test(all, 0, NULL, &err), 0);
    for (int i = 0; !count_told("alarm_on 512 delivered"); i++) {
        assert_true(i < 30000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    assert_true(hooks_ready(all));
    stop(all);
}

static struct journal_entry technical(enum journal_kind kind, int bed) {
    char name[16];
    str_format(name, sizeof name, "bed-%d", bed);
    struct journal_entry e = entry(kind, name, 1000 * kind + bed);
    str_format(e.alarm, sizeof e.alarm, "lost-%d", bed);
    str_copy(e.detail, sizeof e.detail, "lost: no stream");
    return e;
}

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

/* Twelve beds are lost within seconds, one after the other: one line; a receiver does not hear that it does not hear. */
static void technical_alarms_of_one_kind_are_told_at_once(void **state) {
    struct hooks *all = start(state, 0);
    hook.kinds |= 1u << JOURNAL_TECHNICAL_ON; /* who is told of the beginning is told of the end */
    struct journal_entry e = technical(JOURNAL_TECHNICAL_ON, 99);
    str_copy(e.client, sizeof e.client, "pager");
    str_copy(e.detail, sizeof e.detail, "receiver: refused");
    assert_false(hook_wants(&hook, &e));
    for (int bed = 1; bed <= 12; bed++) {
        e = technical(JOURNAL_TECHNICAL_ON, bed);
        journal_line_drop(offer_entry(all, &e, bed % 2 ? LINE_WRITTEN : LINE_WAITS));
        nanosleep(&(struct timespec){.tv_nsec = 50 * 1000000}, NULL);
    }
    wait_told("technical_on", 12);
    assert_int_equal(receiver.n, 1);
    assert_true(body_has(0, "\"text\":\"12 beds: connection lost (bed-1, bed-2, bed-3, ") && body_has(0, "bed-12)\""));
    assert_true(body_has(0, "\"kind\":\"technical_on\"") && body_has(0, "\"detail\":\"lost: no stream\""));
    e = technical(JOURNAL_TECHNICAL_ON, 13); /* it is over before anybody was told */
    journal_line_drop(offer_entry(all, &e, LINE_WRITTEN));
    for (int bed = 7; bed <= 13; bed += 6) {
        e = technical(JOURNAL_TECHNICAL_OFF, bed);
        journal_line_drop(offer_entry(all, &e, LINE_WRITTEN));
    }
    wait_told("technical_off", 2);
    assert_int_equal(receiver.n, 2);
    assert_true(body_has(1, "\"text\":\"2 beds: connection lost, back (bed-7, bed-13)\"") && body_has(1, "technical_off"));
    stop(all);
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
    unsetenv("TZ");
    tzset();
}

/* ---- what is owed, without a receiver ---- */

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
    const bool kept = owed_add(o, l, made_ms) != NULL;
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

static void taken(struct telling *t) {
    for (struct telling_item *i = t->items, *after; i; i = after) {
        after = i->next;
        journal_line_drop(i->line);
        free(i);
    }
    t->items = NULL;
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
    taken(&t);
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
        taken(&t[i]);
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
        assert_non_null(owed_add(&o, l, NOW_MS));
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
        assert_non_null(owed_add(&o, l, NOW_MS + 1000));
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

static struct journal_entry of_test_alarm(enum journal_kind kind, const char *bed, int64_t number, const char *detail) {
    const struct alarms_now now = {.wall_ms = clock_wall_ms(), .boot_ms = 1};
    struct journal_entry e;
    alarm_entry_test(bed, "token:icu", &now, number, &e);
    e.kind = kind;
    e.step = kind == JOURNAL_ESCALATED ? 1 : 0;
    if (detail)
        str_copy(e.detail, sizeof e.detail, detail);
    return e;
}

static void each_message_of_a_test_alarm_says_so(void **state) {
    static const char *const want[] = {"\"TEST ALARM bed-7 (icu): a test; no alarm, since ",
                                       "\"TEST ALARM bed-7 (icu): nobody has answered it, call 1",
                                       "\"TEST bed-7 (icu): the alarm is over, on "};
    struct hooks *all = start(state, 0);
    const struct journal_entry e[] = {of_test_alarm(JOURNAL_ALARM_ON, "bed-7", 1, NULL),
                                      of_test_alarm(JOURNAL_ESCALATED, "bed-7", 1, ""),
                                      of_test_alarm(JOURNAL_ALARM_OFF, "bed-7", 1, "ended")};
    hook.kinds |= 1u << JOURNAL_ESCALATED;
    for (int i = 0; i < 3; i++) {
        journal_line_drop(offer_entry(all, &e[i], LINE_WRITTEN));
        wait_for(&receiver.n, i + 1);
        wait_told("", i + 1); /* else the next one replaces it */
        assert_true(body_has(i, "\"test\":true") && body_has(i, want[i]));
    }
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    wait_for(&receiver.n, 4);
    assert_true(body_has(3, "\"test\":false") && body_has(3, "\"ALARM bed-7 (icu): seizure probability"));
    stop(all);
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

enum { FAIL_MS = 10 };
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
            assert_non_null(owed_add(o, line, now_ms));
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
    assert_non_null(owed_add(&o, l, NOW_MS));
    next_told(&o, NOW_MS, text);
    assert_non_null(strstr(text, ", acknowledged"));
    l->answered = false;
    str_copy(l->entry.person, sizeof l->entry.person, "Ana"); /* it is on again, and her answer covers it */
    assert_non_null(owed_add(&o, l, NOW_MS));
    next_told(&o, NOW_MS, text);
    assert_non_null(strstr(text, ", acknowledged"));
    l->answered = true;
    l->entry.kind = JOURNAL_ESCALATED;
    assert_null(owed_add(&o, l, NOW_MS));
    assert_int_equal(n_settled, 1);
    journal_line_drop(l);
    owed_done(&o);
}

/* A pager of the second step, which hears no ends: the alarm is over before it was told that nobody answers. */
static void what_replaces_a_message_goes_to_who_was_owed_it(void **state) {
    struct hooks *all = start(state, 0);
    hook.kinds = 0;
    hook.steps = 1u << 1;
    atomic_store(&receiver.status, 503);
    struct journal_entry e = entry(JOURNAL_ESCALATED, "bed-7", 512);
    e.step = 1;
    journal_line_drop(offer_entry(all, &e, LINE_WRITTEN));
    wait_for(&receiver.n, 1);
    offer(all, JOURNAL_ALARM_OFF, "bed-7", 2560);
    atomic_store(&receiver.status, 200);
    wait_told("alarm_off 2560 delivered", 1);
    stop(all);
    assert_true(body_has(receiver.n - 1, "bed-7 (icu): the alarm was on ") && body_has(receiver.n - 1, ", not answered"));
    hook.steps = 0;
}

/* The pager of the second step does not answer, and the alarm ends and goes on within alarms.rejoin. */
static void a_call_in_vain_is_made_again_when_the_alarm_goes_on(void **state) {
    static const char *const ends[] = {"alarm_on 4096 delivered", "alarm_on 4096 not told: the alarm is over",
                                       "alarm_on 4096 answered", "alarm_on 4096 not told: the alarm went on"};
    for (int end = 0; end < 4; end++) {
        struct hooks *all = start(state, 3600 * 1000);
        hook.kinds = 0;
        hook.steps = 1u << 1;
        atomic_store(&receiver.status, 503);
        struct journal_entry e = entry(JOURNAL_ESCALATED, "bed-7", 512), on = e;
        e.step = 1;
        on.kind = JOURNAL_ALARM_ON;
        on.number = 4096;
        on.start_s = 16;
        str_copy(on.detail, sizeof on.detail, "on again, 1 time since 10:03 CET");
        str_copy(on.person, sizeof on.person, end == 3 ? "Ana" : ""); /* her answer covers it */
        journal_line_drop(offer_entry(all, &e, LINE_WRITTEN));
        wait_for(&receiver.n, 1);
        offer(all, JOURNAL_ALARM_OFF, "bed-7", 2560);
        journal_line_drop(offer_entry(all, &on, LINE_WRITTEN));
        wait_told("alarm_off 2560 not told: the alarm went on", 1);
        if (end == 1)
            offer(all, JOURNAL_ALARM_OFF, "bed-7", 5120);
        on.kind = JOURNAL_ANSWERED;
        str_copy(on.detail, sizeof on.detail, "acknowledge via page");
        if (end == 2)
            hooks_outlet(all)->see(hooks_outlet(all)->ctx, &on);
        if (!end)
            atomic_store(&receiver.status, 200);
        wait_told(ends[end], 1);
        stop(all);
        assert_true(end || (body_has(receiver.n - 1, "ALARM bed-7 (icu): seizure probability 0.93 since ") &&
                            body_has(receiver.n - 1, ", not answered, on again, 1 time since 10:03 CET")));
        assert_int_equal(count_told("alarm_on 4096"), 1);
    }
    hook.steps = 0;
}

static void replays_and_old_alarms_are_not_told(void **state) {
    struct hooks *all = start(state, 0);
    struct journal_entry e = entry(JOURNAL_ALARM_ON, "file", 512);
    e.live = false;
    journal_line_drop(offer_entry(all, &e, LINE_WRITTEN));
    e = entry(JOURNAL_ALARM_OFF, "bed-6", 512); /* of an earlier process, a day ago */
    struct journal_line *l = journal_line_new(&e);
    l->made_ms -= HOOKS_GIVE_UP_MS;
    atomic_store(&l->state, LINE_WRITTEN);
    hooks_outlet(all)->offer(hooks_outlet(all)->ctx, 0, l);
    journal_line_drop(l);
    wait_told("alarm_off 512 given up", 1);
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    wait_for(&receiver.n, 1);
    assert_true(body_has(0, "bed-7"));
    stop(all);
}

static void a_hook_without_its_secret_stops_nothing(void **state) {
    struct hooks *all = NULL;
    stop(start(state, 0));
    hook.secret_file = in_dir(state, "missing");
    assert_int_equal(hooks_new(&config, &all, NULL), 0);
    assert_int_equal(hooks_start(all, (struct journal *)&config, NULL), 0);
    assert_false(hooks_ready(all));
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    assert_int_equal(fsio_write_atomic(hook.secret_file, "key\n", 4, NULL), 0); /* it is put right */
    assert_int_equal(chmod(hook.secret_file, 0600), 0);
    wait_for(&receiver.n, 1);
    for (int i = 0; !hooks_ready(all); i++) {
        assert_true(i < 60000);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    stop(all);
}

static void a_command_gets_a_clean_environment(void **state) {
    char script[512], out[512], text[2048], *data = NULL;
    size_t len = 0;
    str_copy(script, sizeof script, in_dir(state, "say"));
    str_copy(out, sizeof out, in_dir(state, "said"));
    str_format(text, sizeof text, "#!/bin/sh\n(env; nice; cat) > %s.part; mv %s.part %s\n", out, out, out);
    assert_int_equal(fsio_write_atomic(script, text, strlen(text), NULL), 0);
    assert_int_equal(chmod(script, 0700), 0);
    assert_int_equal(setenv("AWS_SECRET_ACCESS_KEY", "hidden", 1), 0);
    assert_int_equal(setenv("PAGER_ROOM", "12", 1), 0);
    const char *words[] = {script, NULL}, *names[] = {"PAGER_ROOM", NULL};
    stop(start(state, 0));
    hook.url = NULL;
    hook.command = words;
    hook.environment = names;
    struct hooks *all = NULL;
    assert_int_equal(hooks_new(&config, &all, NULL), 0);
    assert_int_equal(hooks_start(all, (struct journal *)&config, NULL), 0);
    offer(all, JOURNAL_ALARM_ON, "bed-7", 512);
    wait_told("alarm_on 512 delivered", 1);
    assert_int_equal(fsio_read(out, 1 << 16, &data, &len, NULL), 0);
    assert_true(strstr(data, "PAGER_ROOM=12") && strstr(data, "BRRD_HOOK=pager") && strstr(data, "\"alarm\":\"bed-7-512\""));
    assert_null(strstr(data, "hidden"));
    free(data);
    stop(all);
}

static void a_heartbeat_is_told_once_a_minute_to_those_who_want_it(void **state) {
    struct hooks *all = start(state, 0);
    hooks_beat(all); /* this hook wants alarms alone */
    stop(all);
    assert_int_equal(atomic_load(&receiver.n), 0);
    all = start(state, 0);
    hook.kinds = 1u << JOURNAL_HEARTBEAT;
    hooks_beat(all);
    hooks_beat(all); /* not a minute later */
    wait_for(&receiver.n, 1);
    assert_true(body_has(0, "\"kind\":\"heartbeat\"") && body_has(0, "\"text\":\"brrd works\""));
    wait_told("heartbeat ", 1);
    assert_int_equal(atomic_load(&receiver.n), 1);
    stop(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(an_alarm_is_told_without_the_disk),
        in_temp_dir(an_alarm_that_the_journal_had_is_not_told_again),
        in_temp_dir(a_slow_delivery_delays_no_other_bed),
        in_temp_dir(after_an_outage_it_hears_the_state_of_each_bed),
        in_temp_dir(an_alarm_that_goes_on_is_told_once),
        in_temp_dir(a_receiver_that_refuses_has_failed_at_once),
        in_temp_dir(a_test_that_arrives_ends_the_pauses),
        in_temp_dir(technical_alarms_of_one_kind_are_told_at_once),
        cmocka_unit_test(alarms_come_first_callers_take_turns_and_the_longest_wait_is_next),
        cmocka_unit_test(one_caller_has_half_of_the_attempts_while_others_wait),
        cmocka_unit_test(a_flood_of_names_drops_no_alarm_of_another),
        cmocka_unit_test(an_alarm_that_goes_on_in_another_session_is_not_over),
        cmocka_unit_test(an_alarm_that_goes_on_with_another_caller_is_the_same),
        cmocka_unit_test(escalations_are_grouped_and_settled_by_an_answer_or_an_end),
        cmocka_unit_test(an_end_that_a_stream_brings_along_waits_for_nothing),
        cmocka_unit_test(an_alarm_that_is_reported_again_does_not_take_its_end),
        cmocka_unit_test(an_answer_ends_the_attempts_of_an_escalation),
        in_temp_dir(each_message_of_a_test_alarm_says_so),
        cmocka_unit_test(test_alarms_are_told_apart),
        cmocka_unit_test(what_has_failed_is_tried_again_by_its_pauses),
        cmocka_unit_test(an_alarm_that_is_tried_again_says_that_it_was_answered),
        in_temp_dir(what_replaces_a_message_goes_to_who_was_owed_it),
        in_temp_dir(a_call_in_vain_is_made_again_when_the_alarm_goes_on),
        cmocka_unit_test(a_technical_alarm_that_is_on_is_never_too_old),
        cmocka_unit_test(a_sentence_says_what_people_need),
        in_temp_dir(replays_and_old_alarms_are_not_told),
        in_temp_dir(a_hook_without_its_secret_stops_nothing),
        in_temp_dir(a_command_gets_a_clean_environment),
        in_temp_dir(a_heartbeat_is_told_once_a_minute_to_those_who_want_it),
    };
    return cmocka_run_group_tests(tests, start_receiver, NULL);
}
