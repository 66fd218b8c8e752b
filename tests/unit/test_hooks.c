/* hooks: an alarm is told without the disk and once; a receiver that fails, hangs or refuses delays no other bed and hears the
 * state of each bed when it is back; commands get a clean environment. */
#include "daemon/hooks/hooks.h"

#include <fcntl.h>

#include "base/base.h"
#include "base/json.h"
#include "daemon/alarms/alarm_entry.h"
#include "daemon/hooks/told_marks.h"
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
        nanosleep(&(struct timespec){.tv_nsec = 5 * 1000000}, NULL);
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

/* The escalation was settled before a restart, which brings what took its place. */
static void a_call_in_vain_outlives_a_restart(void **state) {
    struct hooks *all = start(state, 3600 * 1000);
    struct journal_entry e[] = {entry(JOURNAL_ALARM_ON, "bed-7", 512), entry(JOURNAL_ALARM_OFF, "bed-7", 2560)};
    hook.kinds = 0;
    hook.steps = 1u << 1;
    e[0].number = 4096;
    e[0].start_s = 16;
    for (int i = 1; i >= 0; i--) {
        struct journal_line *l = journal_line_new(&e[i]);
        atomic_store(&l->state, LINE_WRITTEN);
        hooks_outlet(all)->offer(hooks_outlet(all)->ctx, 0, l);
        journal_line_drop(l);
    }
    wait_told("alarm_on 4096 delivered", 1);
    stop(all);
    assert_true(body_has(0, "ALARM bed-7 (icu): seizure probability 0.93 since ") && body_has(0, ", not answered"));
    assert_int_equal(count_told("alarm_off 2560 not told: the alarm went on"), 1);
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

/* Marks are written a moment after what they say was told. */
static void wait_marks(const char *path, int want) {
    static char data[1 << 22];
    for (int i = 0, n = 0; n < want; i++) {
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        const ssize_t len = fd < 0 ? 0 : read(fd, data, sizeof data);
        n = 0;
        for (ssize_t at = 0; at < len; at += LINE_DELIVERY - 1)
            n += data[at] != '\0';
        if (fd >= 0)
            close(fd);
        assert_true(i < 6000);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* Of two daemons that share streams; the paths stay the caller's. */
static void start_pair(void **state, struct hooks *ret[2], char shared[512], char marks[600]) {
    str_copy(shared, 512, in_dir(state, "shared"));
    str_format(marks, 600, "%s/.told", shared);
    assert_int_equal(fsio_mkdirs(shared, NULL), 0);
    stop(start(state, 0));
    config.shared = shared;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(hooks_new(&config, &ret[i], NULL), 0);
        assert_int_equal(hooks_start(ret[i], (struct journal *)&config, NULL), 0);
    }
}

/* Two daemons that share streams, each of which computes the alarm. */
static void what_another_daemon_has_told_is_told_once(void **state) {
    struct hooks *pair[2], *other;
    char shared[512], marks[600];
    start_pair(state, pair, shared, marks);
    offer(pair[0], JOURNAL_ALARM_ON, "bed-7", 512);
    wait_told("alarm_on 512 delivered", 1);
    wait_marks(marks, 1);
    offer(pair[1], JOURNAL_ALARM_ON, "bed-7", 512);
    offer(pair[1], JOURNAL_ALARM_OFF, "bed-7", 1024);
    wait_told("alarm_off 1024 delivered", 1);
    wait_marks(marks, 2);
    wait_told("alarm_on 512 told already", 1);
    offer(pair[0], JOURNAL_ALARM_OFF, "bed-7", 1024);
    wait_told("alarm_off 1024 told already", 1);
    assert_int_equal(receiver.n, 2);
    hook.name = "other";
    assert_int_equal(hooks_new(&config, &other, NULL), 0);
    assert_int_equal(hooks_start(other, (struct journal *)&config, NULL), 0);
    offer(other, JOURNAL_ALARM_ON, "bed-7", 512);
    wait_told("alarm_on 512 delivered", 2);
    stop(other);
    assert_int_equal(fsio_remove(marks, NULL), 0); /* it cannot be read: rather twice than not at all */
    assert_int_equal(fsio_mkdirs(marks, NULL), 0);
    for (int i = 0; i < 2; i++)
        offer(pair[i], JOURNAL_ALARM_ON, "bed-8", 512);
    wait_told("alarm_on 512 delivered", 4);
    for (int i = 0; i < 2; i++)
        stop(pair[i]);
    assert_int_equal(receiver.n, 5);
}

/* What comes with the snapshot of a stream: the daemon before has told that the alarm was on and that it is over, and passed over
 * the time in which it was not on. */
static void a_state_is_not_told_after_a_later_one_that_another_daemon_told(void **state) {
    static const enum journal_kind kinds[] = {JOURNAL_ALARM_ON, JOURNAL_ALARM_OFF, JOURNAL_ALARM_ON, JOURNAL_ALARM_OFF};
    struct hooks *pair[2];
    struct journal_line *lines[4];
    char shared[512], marks[600];
    start_pair(state, pair, shared, marks);
    for (int i = 0; i < 2; i++)
        for (int at = 0; at < 4; at += i ? 1 : 3) {
            struct journal_entry e = entry(kinds[at], "bed-7", 512 * (at + 1));
            str_copy(e.alarm, sizeof e.alarm, "bed-7-512");
            struct journal_line *l = lines[at] = journal_line_new(&e);
            l->again = i; /* it waits for the disk */
            atomic_store(&l->state, i ? LINE_WAITS : LINE_WRITTEN);
            hooks_outlet(pair[i])->offer(hooks_outlet(pair[i])->ctx, 0, l);
            if (!i) {
                wait_told(at ? "alarm_off 2048 delivered" : "alarm_on 512 delivered", 1);
                wait_marks(marks, at ? 2 : 1);
                journal_line_drop(l);
            }
        }
    for (int at = 0; at < 4; at++)
        atomic_store(&lines[at]->state, LINE_WRITTEN);
    hooks_outlet(pair[1])->written(hooks_outlet(pair[1])->ctx);
    wait_told("alarm_off 2048 told already", 1);
    wait_told("alarm_on 512 told already", 1);
    wait_told("alarm_off 1024 not told: a later state", 1);
    wait_told("alarm_on 1536 not told: a later state", 1);
    for (int i = 0; i < 2; i++)
        stop(pair[i]);
    for (int at = 0; at < 4; at++)
        journal_line_drop(lines[at]);
    assert_int_equal(receiver.n, 2);
}

/* Ids that begin with the same digits have the same places. */
static void a_few_marks_of_a_flood_push_no_other_out(void **state) {
    struct told_marks *marks = NULL;
    char folder[512], ids[20][LINE_DELIVERY];
    str_copy(folder, sizeof folder, in_dir(state, "shared"));
    assert_int_equal(fsio_mkdirs(folder, NULL), 0);
    assert_int_equal(told_marks_open(folder, &marks, NULL), 0);
    for (int i = 0; i < 20; i++) {
        str_format(ids[i], sizeof ids[i], "0123abcd%024d", i);
        told_marks_put(marks, ids[i]);
        told_marks_put(marks, ids[i]); /* it takes no second place */
        for (int j = 0; j <= i; j++)
            assert_int_equal(told_marks_has(marks, ids[j]), i - j < 8);
    }
    assert_false(told_marks_has(marks, "0123abcd000000000000000000000099"));
    assert_false(told_marks_has(marks, "f123abcd000000000000000000000019"));
    told_marks_close(marks);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(an_alarm_is_told_without_the_disk),
        in_temp_dir(a_few_marks_of_a_flood_push_no_other_out),
        in_temp_dir(a_state_is_not_told_after_a_later_one_that_another_daemon_told),
        in_temp_dir(an_alarm_that_the_journal_had_is_not_told_again),
        in_temp_dir(a_slow_delivery_delays_no_other_bed),
        in_temp_dir(after_an_outage_it_hears_the_state_of_each_bed),
        in_temp_dir(an_alarm_that_goes_on_is_told_once),
        in_temp_dir(a_receiver_that_refuses_has_failed_at_once),
        in_temp_dir(a_test_that_arrives_ends_the_pauses),
        in_temp_dir(technical_alarms_of_one_kind_are_told_at_once),
        in_temp_dir(each_message_of_a_test_alarm_says_so),
        in_temp_dir(what_replaces_a_message_goes_to_who_was_owed_it),
        in_temp_dir(a_call_in_vain_is_made_again_when_the_alarm_goes_on),
        in_temp_dir(a_call_in_vain_outlives_a_restart),
        in_temp_dir(replays_and_old_alarms_are_not_told),
        in_temp_dir(a_hook_without_its_secret_stops_nothing),
        in_temp_dir(a_command_gets_a_clean_environment),
        in_temp_dir(a_heartbeat_is_told_once_a_minute_to_those_who_want_it),
        in_temp_dir(what_another_daemon_has_told_is_told_once),
    };
    return cmocka_run_group_tests(tests, start_receiver, NULL);
}
