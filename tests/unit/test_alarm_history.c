/* alarm_history: streams, alarms and answers out of the rows of the journal. The test stands in for the call. */
#include "base/base.h"
#include "client/brrctl/admin/alarm_history.h"

#include "brr/v1/journal.pb-c.h"
#include "unit/temp_dir.h"

enum { ROWS = 16 };
static Brr__V1__JournalEntry rows[ROWS];
static size_t n_rows;

void *brrctl_call(const struct arguments *o, const char *path, const ProtobufCMessage *request, int *ret_exit) {
    static Brr__V1__ListJournalResponse out;
    static Brr__V1__JournalEntry *entries[ROWS];
    (void)o, (void)path, (void)request, (void)ret_exit;
    brr__v1__list_journal_response__init(&out);
    for (size_t i = 0; i < n_rows; i++)
        entries[i] = &rows[i];
    out.entries = entries;
    out.n_entries = n_rows;
    return &out;
}

void brrctl_answer_done(void *answer) { (void)answer; }

/* A row of the bed's stream, received at this second. */
static void row(const char *kind, int64_t received_s, double start_s, const char *alarm, const char *detail) {
    assert_true(n_rows < ROWS);
    Brr__V1__JournalEntry *e = &rows[n_rows++];
    brr__v1__journal_entry__init(e);
    e->kind = (char *)(uintptr_t)kind;
    e->received_ms = received_s * 1000;
    e->start_s = start_s;
    e->end_s = NAN;
    e->session_id = "0c0651b0";
    e->client_name = "bed-1";
    e->alarm_id = (char *)(uintptr_t)alarm;
    e->detail = (char *)(uintptr_t)detail;
    e->live = true;
}

static void answers_after_the_end_leave_the_stream_as_long_as_it_was(void **state) {
    (void)state;
    struct history h;
    row("opened", 1000, NAN, "", "live");
    row("alarm_on", 1053, 53, "0c0651b0-13598", "");
    row("alarm_off", 1133, 133, "0c0651b0-13598", "ended");
    row("ended", 1240, NAN, "", "done");
    row("escalated", 1300, 53, "0c0651b0-13598", "");
    row("answered", 5000, 53, "0c0651b0-13598", "acknowledge via brrctl by Ana B");
    row("answered", 5000, NAN, "unanswered-1", "acknowledge via brrctl by Ana B"); /* a technical alarm, of the same session */
    row("answered", 5001, 53, "0c0651b0-13598", "mark true via brrctl by Ana B");
    assert_int_equal(history_read(NULL, 0, "", &h), 0);
    assert_int_equal(h.n_streams, 1);
    assert_true(h.streams[0].ended);
    assert_int_equal(h.streams[0].last_ms, 1240000);
    assert_int_equal(h.n_alarms, 1);
    assert_int_equal(h.alarms[0].mark, HISTORY_TRUE);
    assert_int_equal(h.alarms[0].answered_ms, 5000000);
    assert_int_equal(h.alarms[0].steps, 1);
    assert_string_equal(h.alarms[0].marked_by, "Ana B");
    history_done(&h);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_after_the_end_leave_the_stream_as_long_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
