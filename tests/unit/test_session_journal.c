/* What sessions write into the journal, and alarms that wait until it has them. The journal says what the test wants it to say. */
#include "base/clock.h"
#include "daemon/journal/journal.h"
#include "unit/session_fixture.h"

enum { MOST = 16 };

/* The journal's side. */
static struct journal_entry entries[MOST];
static int n_entries;
static bool written, failing;
static int64_t now_ms = 1000;

int64_t __wrap_journal_add(struct journal *j, const struct journal_entry *e);
int64_t __wrap_journal_add_again(struct journal *j, const struct journal_entry *e);
int64_t __wrap_journal_add_again(struct journal *j, const struct journal_entry *e) { return __wrap_journal_add(j, e); }
bool __wrap_journal_has(const struct journal *j, int64_t number);
bool __wrap_journal_is_failing(const struct journal *j);
int64_t __wrap_clock_ms(void);

int64_t __wrap_journal_add(struct journal *j, const struct journal_entry *e) {
    (void)j;
    assert_true(n_entries < MOST);
    entries[n_entries++] = *e;
    return n_entries;
}
bool __wrap_journal_has(const struct journal *j, int64_t number) { return (void)j, written || !number; }
bool __wrap_journal_is_failing(const struct journal *j) { return (void)j, failing; }
int64_t __wrap_clock_ms(void) { return now_ms; }

/* The owner's side: the order in which reports come. */
static char heard[MOST + 1];
static int n_heard;

static void hear(char what) {
    assert_true(n_heard < MOST);
    heard[n_heard++] = what;
    heard[n_heard] = '\0';
}
static void hear_result(void *owner, const struct live_report *r) { (void)owner, (void)r, hear('r'); }
static void hear_alarm(void *owner, const struct live_report *r) { (void)owner, (void)r, hear('a'); }
static void hear_summary(void *owner, const struct live_report *r) { (void)owner, (void)r, hear('s'); }
static void hear_failed(void *owner, const struct err *err, const char *reason) { (void)owner, (void)err, (void)reason, hear('f'); }
static const struct session_sink ears = {.opened = on_opened,
                                         .result = hear_result,
                                         .provisional = on_provisional,
                                         .alarm = hear_alarm,
                                         .progress = on_progress,
                                         .summary = hear_summary,
                                         .draining = on_draining,
                                         .failed = hear_failed};

static int with_journal(void **state) {
    struct bench *b;
    int rc = set_up(state);
    b = *state;
    sessions_free(b->all);
    const struct sessions_config config = {.post = take,
                                           .post_ctx = &b->worker,
                                           .max_sessions = 2,
                                           .idle_ms = 3600 * 1000,
                                           .resume_ttl_ms = 3600 * 1000,
                                           .journal = (struct journal *)b, /* never looked into */
                                           .max_waiting_bytes = 16384};
    b->all = sessions_new(&config);
    n_entries = n_heard = 0;
    heard[0] = '\0';
    written = failing = false;
    return rc;
}

static struct session *open_heard(struct bench *b, struct live_stream **ret_stream, bool resumable) {
    struct session_request with = resumable ? lasting : request;
    struct session *s = NULL;
    with.start_ms = 1000000;
    with.address = "10.0.0.7:4711";
    assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s, NULL), 0);
    *ret_stream = last(b)->stream;
    struct live_report r = report(*ret_stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    return s;
}

static void an_alarm_waits_until_it_is_on_the_disk(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    open_heard(b, &stream, false);
    numbered(b, stream, LIVE_RESULT, 0);
    numbered(b, stream, LIVE_ALARM, 0);
    numbered(b, stream, LIVE_RESULT, 1);
    assert_string_equal(heard, "r");
    sessions_journaled(b->all);
    assert_string_equal(heard, "r");
    written = true;
    sessions_journaled(b->all);
    assert_string_equal(heard, "rar");
    numbered(b, stream, LIVE_ALARM, 1);
    assert_string_equal(heard, "rara");
}

static void it_does_not_wait_for_ever(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    open_heard(b, &stream, false);
    numbered(b, stream, LIVE_ALARM, 0);
    now_ms += 499;
    sessions_tick(b->all);
    assert_string_equal(heard, "");
    now_ms += 1;
    sessions_tick(b->all);
    assert_string_equal(heard, "a");
    failing = true;
    numbered(b, stream, LIVE_ALARM, 1); /* the journal cannot be written at all */
    assert_string_equal(heard, "aa");
}

static void the_summary_and_errors_come_behind_it(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, false);
    numbered(b, stream, LIVE_ALARM, 0);
    assert_int_equal(session_finish(s, NULL), 0);
    numbered(b, stream, LIVE_SUMMARY, 0);
    assert_string_equal(heard, "");
    written = true;
    sessions_journaled(b->all);
    assert_string_equal(heard, "as");
    written = false;
    s = open_heard(b, &stream, false);
    numbered(b, stream, LIVE_ALARM, 0);
    session_end(s, "token:ana", "");
    assert_string_equal(heard, "asaf");
}

static void a_client_that_comes_back_hears_it_once(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, true);
    char token[RESUME_TOKEN_SIZE];
    str_copy(token, sizeof token, session_token(s));
    numbered(b, stream, LIVE_ALARM, 0);
    session_leave(s);
    written = true;
    sessions_journaled(b->all);
    assert_string_equal(heard, "");
    session_resume(s, &(struct session_return){.token = token, .sink = &ears, .owner = &b->owner, .address = "10.0.0.8:1"});
    assert_string_equal(heard, "a");
    assert_int_equal(entries[n_entries - 1].kind, JOURNAL_RESUMED);
    assert_string_equal(entries[n_entries - 1].address, "10.0.0.8:1");
}

static void entries_say_who_and_when(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, true);
    struct event event = {.first = 512, .end = 1024, .confidence = 0.5F};
    struct quality_channel flat = {.channel = 1, .flaws = QUALITY_FLAT | QUALITY_NOISY};
    struct live_report r = report(stream, LIVE_RESULT);
    r.samples = 256;
    r.seq = 7;
    r.events = &event;
    r.n_events = 1;
    r.quality = (struct quality_report){.channels = &flat, .n = 1};
    sessions_report(b->all, &r);
    r.seq = 8; /* the same quality again: no entry */
    r.n_events = 0;
    sessions_report(b->all, &r);
    r.quality.n = 0;
    r.seq = 9;
    sessions_report(b->all, &r);
    assert_int_equal(session_gap(s, 100, 300, "client", NULL), 0);
    session_leave(s);
    static const enum journal_kind want[] = {JOURNAL_OPENED, JOURNAL_EVENT, JOURNAL_QUALITY, JOURNAL_QUALITY,
                                             JOURNAL_GAP,    JOURNAL_GAP,   JOURNAL_LOST};
    assert_int_equal(n_entries, (int)(sizeof want / sizeof *want));
    for (int i = 0; i < n_entries; i++) {
        assert_int_equal(entries[i].kind, want[i]);
        assert_string_equal(entries[i].client, "bed 7");
        assert_string_equal(entries[i].principal, "uid:1");
        assert_string_equal(entries[i].address, "10.0.0.7:4711");
        assert_string_equal(entries[i].session, session_id(s));
    }
    assert_int_equal(entries[1].number, 512);
    assert_int_equal(entries[1].sample_ms, 1000000 + 2000);
    assert_true(entries[1].start_s == 2 && entries[1].end_s == 4);
    assert_string_equal(entries[2].detail, "C4 flat noisy");
    assert_int_equal(entries[2].number, 7);
    assert_string_equal(entries[3].detail, "good");
    assert_string_equal(entries[4].detail, "hole"); /* before the gap that the client announced */
    assert_true(entries[5].start_s == 1 && entries[5].end_s == 3);
    assert_string_equal(entries[5].detail, "client");
    session_close(s, "failed");
    assert_int_equal(entries[n_entries - 1].kind, JOURNAL_ENDED);
    assert_string_equal(entries[n_entries - 1].detail, "failed");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_alarm_waits_until_it_is_on_the_disk, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(it_does_not_wait_for_ever, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(the_summary_and_errors_come_behind_it, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_comes_back_hears_it_once, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(entries_say_who_and_when, with_journal, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
