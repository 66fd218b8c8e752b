/* What sessions write into the journal, and alarms that wait until it has them. The journal says what the test wants it to say. */
#include "daemon/live/session_parts.h"
#include "unit/session_journal_fixture.h"

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
    sessions_tick(b->all, 1000);
    assert_string_equal(heard, "");
    now_ms += 1;
    sessions_tick(b->all, 1000);
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

static void a_client_that_is_refused_for_ever_makes_no_entry(void **state) {
    struct bench *b = *state;
    for (int i = 0; i < 9; i++) {
        struct session *s = NULL;
        assert_int_equal(session_open(b->all, i % 2 ? &lasting : &request, &ears, &b->owner, &s, NULL), 0);
        struct live_stream *stream = last(b)->stream;
        struct live_report r = report(stream, LIVE_FAILED);
        err_set(&r.err, ERR_PRECONDITION, "the model needs other channels");
        sessions_report(b->all, &r);
        session_close(s, "refused");
        closed(b, stream);
    }
    assert_int_equal(n_heard, 9);
    assert_int_equal(n_entries, 0);
}

/* ---- alarms and gaps ---- */

static void an_alarm_is_numbered_by_its_sample_and_says_why_it_ends(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, false);
    char id[JOURNAL_ALARM];
    alarm_report(b, stream, true, 2560, 0);
    journal_alarm_id(session_id(s), 2560, id);
    assert_int_equal(newest(JOURNAL_ALARM_ON)->number, 2560);
    assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, id);
    alarm_report(b, stream, false, 5120, JOURNAL_OFF_ELECTRODES);
    assert_string_equal(newest(JOURNAL_ALARM_OFF)->detail, "electrodes");
    assert_string_equal(newest(JOURNAL_ALARM_OFF)->alarm, id);
    alarm_report(b, stream, true, 5120 + 59 * 256, 0); /* within alarms.rejoin: the same alarm */
    assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, id);
    assert_int_equal(newest(JOURNAL_ALARM_ON)->number, 5120 + 59 * 256);
    alarm_report(b, stream, false, 25600, JOURNAL_OFF_ENDED);
    alarm_report(b, stream, true, 25600 + 61 * 256, 0); /* another one */
    journal_alarm_id(session_id(s), 25600 + 61 * 256, id);
    assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, id);
}

static void a_session_that_ends_in_an_alarm_ends_it_and_cuts_its_event(void **state) {
    static const struct {
        const char *reason, *off;
    } ends[] = {{"idle", "expired"}, {"closed", "closed"}, {"client_gone", "cut"}, {"failed", "failed"}};
    struct bench *b = *state;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct live_stream *stream;
        struct session *s = open_heard(b, &stream, false);
        char id[JOURNAL_ALARM];
        struct live_report r = report(stream, LIVE_RESULT);
        alarm_report(b, stream, true, 512, 0);
        journal_alarm_id(session_id(s), 512, id);
        r.first = 256;
        r.samples = 512;
        r.running = 300;
        sessions_report(b->all, &r);
        n_entries = 0;
        session_close(s, ends[i].reason);
        assert_int_equal(n_entries, 3);
        assert_int_equal(entries[0].kind, JOURNAL_EVENT);
        assert_int_equal(entries[0].number, 300);
        assert_true(entries[0].start_s == 300 / 256.0 && entries[0].end_s == 3);
        assert_string_equal(entries[0].detail, "cut");
        assert_int_equal(entries[1].kind, JOURNAL_ALARM_OFF);
        assert_string_equal(entries[1].detail, ends[i].off);
        assert_string_equal(entries[1].alarm, id);
        assert_int_equal(entries[2].kind, JOURNAL_ENDED);
        r = report(stream, LIVE_CLOSED);
        sessions_report(b->all, &r);
    }
}

/* The alarm of a bed whose client has to begin a new session goes on. */
static void a_new_session_of_the_bed_has_the_alarm_of_the_one_before(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    live.realtime = true;
    struct session_request with = lasting;
    with.open = &live;
    char id[JOURNAL_ALARM] = "";
    for (int i = 0; i < 3; i++) {
        struct session *s = NULL;
        assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s, NULL), 0);
        struct live_stream *stream = last(b)->stream;
        struct live_report r = report(stream, LIVE_OPENED);
        sessions_report(b->all, &r);
        alarm_report(b, stream, true, 512, 0);
        if (!i)
            journal_alarm_id(session_id(s), 512, id);
        else if (i == 1)
            assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, id);
        else
            assert_string_not_equal(newest(JOURNAL_ALARM_ON)->alarm, id);
        assert_true(newest(JOURNAL_ALARM_ON)->live);
        session_close(s, "failed");
        assert_string_equal(newest(JOURNAL_ALARM_OFF)->detail, "failed");
        now_ms += i ? 61 * 1000 : 1000;
        r = report(stream, LIVE_CLOSED);
        sessions_report(b->all, &r);
    }
}

/* A daemon's own are in its journal, which may know that they are over. */
static void technical_alarms_come_with_a_stream_of_another_daemon(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    sessions_free(b->all);
    b->all = sessions_with(b, (struct session_store){.put = keep_state});
    struct session *s = open_heard(b, &stream, true);
    char session[SESSION_ID_SIZE];
    struct live_report r = report(stream, LIVE_SAVED);
    str_copy(session, sizeof session, session_id(s));
    r.state = strdup("state");
    r.state_len = 5;
    sessions_report(b->all, &r);
    free(r.state);
    taken_technical = (struct journal_entry){.number = 0};
    for (int moved = 0; moved < 2; moved++) {
        sessions_free(b->all);
        b->all = sessions_with(b, (struct session_store){.put = NULL});
        int (*const restore)(struct sessions *, const char *, size_t, bool, struct err *) =
            moved ? sessions_restore_moved : sessions_restore;
        assert_int_equal(restore(b->all, kept_state, kept_len, false, NULL), 0);
        assert_string_equal(taken_technical.alarm, moved ? "no_signal-5-1" : "");
        assert_int_equal(taken_standby.until_ms, moved ? 84 : 0); /* which its own journal knows better */
    }
    assert_true(taken_standby.received_ms == 82 && taken_standby.boot_ms == 83 && !strcmp(taken_standby.person, "token:nurse"));
    assert_string_equal(taken_standby.session, session);
    assert_string_equal(taken_standby.client, "bed 7");
    assert_string_equal(taken_onset.where, "left: F7-T3");
    assert_true(taken_technical.number == 79 && taken_technical.received_ms == 80 && taken_technical.on_ms == 81);
    assert_string_equal(taken_technical.session, session);
    assert_string_equal(taken_technical.detail, "no_signal");
}

static void an_alarm_goes_on_after_a_restart_and_moves_without_an_end(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    sessions_free(b->all);
    b->all = sessions_with(b, (struct session_store){.put = keep_state});
    struct session *s = open_heard(b, &stream, true);
    char id[JOURNAL_ALARM], session[SESSION_ID_SIZE];
    struct live_report r = report(stream, LIVE_SAVED);
    str_copy(session, sizeof session, session_id(s));
    alarm_report(b, stream, true, 512, 0);
    session_seen(s, 0, INT64_MAX); /* its client has heard it: it is in no ring */
    journal_alarm_id(session, 512, id);
    r.state = strdup("state");
    r.state_len = 5;
    sessions_report(b->all, &r);
    free(r.state);
    struct sessions *former = b->all;
    b->all = sessions_with(b, (struct session_store){.put = NULL});
    n_entries = 0;
    assert_int_equal(sessions_restore(b->all, kept_state, kept_len, false, NULL), 0);
    assert_int_equal(n_again, n_entries); /* the alarm, restored: receivers wait until they are known to be new */
    assert_int_equal(entries[0].kind, JOURNAL_ALARM_ON);
    assert_string_equal(entries[0].alarm, id);
    assert_true(entries[0].number == 512 && entries[0].received_ms == 5 && entries[0].boot_ms == 6);
    assert_string_equal(taken.alarm, id);
    assert_string_equal(taken.session, session);
    assert_true(taken.kind == JOURNAL_ANSWERED && taken.received_ms == 77 && taken.boot_ms == 78 &&
                !strcmp(taken.person, "token:nurse"));
    sessions_tick(b->all, 1000);
    assert_int_equal(n_settled, 0); /* the stream is still being loaded */
    r = report(last(b)->stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    for (int i = 0; i < 5; i++)
        sessions_tick(b->all, 1000);
    assert_int_equal(n_settled, 2); /* once it could be done */
    n_entries = 0;
    sessions_disown(b->all, session);
    assert_int_equal(n_entries, 1);
    assert_int_equal(entries[0].kind, JOURNAL_MOVED);
    assert_int_equal(entries[0].number, -1);
    sessions_free(former);
    free(kept_state);
    kept_state = NULL;
}

static int n_rejected;
static void reject_state(void *ctx, const char *id) { (void)ctx, (void)id, n_rejected++; }

/* As of a stream that another daemon had: nobody else knows of its alarm. */
static void the_alarm_of_a_stream_that_cannot_go_on_is_cut(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    sessions_free(b->all);
    b->all = sessions_with(b, (struct session_store){.put = keep_state});
    open_heard(b, &stream, true);
    struct live_report r = report(stream, LIVE_SAVED);
    alarm_report(b, stream, true, 512, 0);
    r.state = strdup("state");
    r.state_len = 5;
    sessions_report(b->all, &r);
    free(r.state);
    struct sessions *former = b->all;
    b->all = sessions_with(b, (struct session_store){.reject = reject_state});
    assert_int_equal(sessions_restore(b->all, kept_state, kept_len, false, NULL), 0);
    n_entries = n_rejected = 0;
    r = report(last(b)->stream, LIVE_FAILED);
    err_set(&r.err, ERR_DATA_LOSS, "its model has another shape");
    sessions_report(b->all, &r);
    assert_int_equal(n_rejected, 1);
    assert_string_equal(newest(JOURNAL_ALARM_OFF)->detail, "failed");
    assert_string_equal(newest(JOURNAL_ENDED)->detail, "failed");
    sessions_await(b->all, true); /* another one waits, and is left for the next start */
    sessions_await(b->all, false);
    const int before = n_settled;
    for (int i = 0; i < 5; i++)
        sessions_tick(b->all, 1000);
    assert_true(n_settled > before);
    sessions_free(former);
    free(kept_state);
    kept_state = NULL;
}

/* A stop soon after the start leaves snapshots unread. */
static void a_daemon_that_stops_takes_no_stream_for_gone(void **state) {
    struct bench *b = *state;
    sessions_await(b->all, true);
    sessions_freeze(b->all);
    sessions_await(b->all, false);
    sessions_tick(b->all, 1000);
    assert_int_equal(n_settled, 0);
}

/* The process before was killed after its alarm was journaled, and before the next snapshot. */
static void an_alarm_newer_than_the_snapshot_ends_with_its_session(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    for (int comes_back = 0; comes_back < 2; comes_back++) {
        now_ms += 120 * 1000; /* the alarm of the round before does not go on */
        sessions_free(b->all);
        b->all = sessions_with(b, (struct session_store){.put = keep_state});
        struct session *s = open_heard(b, &stream, true);
        struct live_report r = report(stream, LIVE_SAVED);
        char id[JOURNAL_ALARM], session[SESSION_ID_SIZE];
        str_copy(session, sizeof session, session_id(s));
        r.state = strdup("state");
        r.state_len = 5;
        sessions_report(b->all, &r);
        free(r.state);
        alarm_report(b, stream, true, 512, 0);
        journal_alarm_id(session, 512, id);
        struct sessions *former = b->all;
        b->all = sessions_with(b, (struct session_store){.put = NULL});
        assert_int_equal(sessions_restore(b->all, kept_state, kept_len, false, NULL), 0);
        r = report(last(b)->stream, LIVE_OPENED);
        sessions_report(b->all, &r);
        struct session *again = b->all->first;
        n_entries = 0;
        if (comes_back) { /* and the samples of the alarm were lost */
            r = report(again->stream, LIVE_PROVISIONAL);
            r.samples = 512;
            sessions_report(b->all, &r);
            assert_int_equal(n_entries, 0);
            r.first = 20 * 256;
            sessions_report(b->all, &r);
        } else {
            session_close(again, "expired");
        }
        assert_int_equal(newest(JOURNAL_ALARM_OFF)->kind, JOURNAL_ALARM_OFF);
        assert_string_equal(newest(JOURNAL_ALARM_OFF)->alarm, id);
        assert_string_equal(newest(JOURNAL_ALARM_OFF)->detail, comes_back ? "cut" : "expired");
        assert_null(alarms_on_in(model, session));
        sessions_free(former);
    }
    free(kept_state);
    kept_state = NULL;
}

/* Its alarm was off in between, as the stream finds once more; the samples after that were lost. on: in the snapshot. */
static void an_alarm_newer_than_the_snapshot_ends_after_an_older_onset_of_it(void **state) {
    struct bench *b = *state;
    for (int on = 0; on < 2; on++) {
        struct live_stream *stream;
        now_ms += 120 * 1000;
        sessions_free(b->all);
        b->all = sessions_with(b, (struct session_store){.put = keep_state});
        struct session *s = open_heard(b, &stream, true);
        struct live_report r = report(stream, LIVE_SAVED);
        char session[SESSION_ID_SIZE];
        str_copy(session, sizeof session, session_id(s));
        if (on)
            alarm_report(b, stream, true, 512, 0);
        r.state = strdup("state");
        r.state_len = 5;
        sessions_report(b->all, &r);
        free(r.state);
        struct sessions *former = b->all;
        for (int again = 0; again < 2; again++) {
            if (!on)
                alarm_report(b, stream, true, 512, 0);
            alarm_report(b, stream, false, 768, JOURNAL_OFF_ENDED);
            if (again)
                break;
            alarm_report(b, stream, true, 1024, 0);
            b->all = sessions_with(b, (struct session_store){.put = NULL});
            assert_int_equal(sessions_restore(b->all, kept_state, kept_len, false, NULL), 0);
            stream = last(b)->stream;
            r = report(stream, LIVE_OPENED);
            sessions_report(b->all, &r);
        }
        assert_non_null(alarms_on_in(model, session));
        r = report(stream, LIVE_PROVISIONAL);
        r.first = 20 * 256;
        r.samples = 512;
        sessions_report(b->all, &r);
        assert_null(alarms_on_in(model, session));
        sessions_free(former);
    }
    free(kept_state);
    kept_state = NULL;
}

/* Its end was told where it ended. Its client, who lacks the Summary, may come to another daemon with it, and may go on there. */
static void a_stream_that_ended_elsewhere_leaves_no_alarm_on(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    sessions_free(b->all);
    b->all = sessions_with(b, (struct session_store){.put = keep_state});
    struct session *s = open_heard(b, &stream, true);
    struct live_report saved = report(stream, LIVE_SAVED), r = report(stream, LIVE_SUMMARY);
    char session[SESSION_ID_SIZE], token[RESUME_TOKEN_SIZE];
    str_copy(session, sizeof session, session_id(s));
    str_copy(token, sizeof token, session_token(s));
    alarm_report(b, stream, true, 512, 0);
    saved.state = strdup("state");
    saved.state_len = 5;
    sessions_report(b->all, &saved);
    free(saved.state);
    assert_int_equal(session_finish(s, NULL), 0);
    sessions_report(b->all, &r);
    written = true; /* nothing holds it back */
    session_close(s, "done");
    assert_null(alarms_on_in(model, session));
    sessions_free(b->all);
    desk_free(desk); /* another daemon */
    assert_int_equal(desk_new(&(struct desk_config){.plan = {.rejoin_ms = 60 * 1000}}, &desk, NULL), 0);
    model = desk_alarms(desk);
    b->all = sessions_with(b, (struct session_store){.put = NULL});
    assert_int_equal(sessions_restore_moved(b->all, kept_state, kept_len, true, NULL), 0);
    assert_null(alarms_on_in(model, session));
    r = report(stream = last(b)->stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    s = sessions_find(b->all, token, "uid:1");
    session_resume(s, &(struct session_return){.token = token, .sink = &ears, .owner = &b->owner});
    alarm_report(b, stream, true, 2048, 0);
    assert_non_null(alarms_on_in(model, session));
    assert_int_equal(session_finish(s, NULL), 0);
    r = report(stream, LIVE_SUMMARY);
    sessions_report(b->all, &r);
    session_close(s, "done");
    assert_null(alarms_on_in(model, session));
    free(kept_state);
    kept_state = NULL;
}

static char read_late[SESSION_ID_SIZE];
static int late_place;
static bool settle_late(void *ctx, int (*place)(void *sessions, const char *session), void *sessions) {
    late_place = place(sessions, read_late);
    return (void)ctx, true;
}

/* Nor was the journal read when the stream went on from its snapshot. */
static void an_alarm_that_the_journal_brings_late_ends_as_well(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, true);
    struct live_report r = report(stream, LIVE_PROVISIONAL);
    struct journal_entry e = {.kind = JOURNAL_ALARM_ON, .start_s = 2, .received_ms = now_ms, .live = true};
    const struct alarms_now now = model_now();
    str_copy(read_late, sizeof read_late, session_id(s));
    str_copy(e.session, sizeof e.session, read_late);
    journal_alarm_id(e.session, 512, e.alarm);
    alarm_entry_take(model, &e, &now);
    assert_non_null(alarms_on_in(model, read_late));
    b->all->config.alarms.settle = settle_late;
    sessions_tick(b->all, 1000);
    r.samples = 512;
    sessions_report(b->all, &r);
    assert_non_null(alarms_on_in(model, read_late)); /* the stream has not come to it */
    r.first = 20 * 256;
    sessions_report(b->all, &r);
    assert_null(alarms_on_in(model, read_late));
    assert_int_equal(late_place, SESSION_HERE);
    s->ended = true; /* before the restart: it ends no alarm any more */
    b->all->settled = false;
    sessions_tick(b->all, 1000);
    assert_int_equal(late_place, SESSION_GONE);
}

/* A stream comes back from another daemon, at which its alarm was over and a later one came and went, or where it had another id:
 * that daemon did not know the alarm of the bed that the stream had joined here. */
static void an_alarm_that_was_over_elsewhere_before_a_later_one_is_not_told_again(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, true);
    for (int later = 0; later < 3; later++) {
        const int64_t on = 512 + 25600 * later, onset = later == 1 ? 60000 : on;
        char id[JOURNAL_ALARM], there[JOURNAL_ALARM];
        now_ms += 120 * 1000;
        alarm_report(b, stream, true, on, 0);
        str_copy(id, sizeof id, s->notes.alarm_id);
        if (later)
            journal_alarm_id(session_id(s), onset + later - 1, s->notes.alarm_id);
        str_copy(there, sizeof there, s->notes.alarm_id);
        s->alarm = false;
        s->notes.onset.first = onset;
        s->notes.alarm_off = s->notes.over = onset + 1000;
        n_entries = 0;
        session_alarm_goes_on(s);
        assert_int_equal(n_entries, 1);
        assert_int_equal(entries[0].kind, later == 1 ? JOURNAL_MOVED : JOURNAL_ALARM_OFF);
        assert_string_equal(entries[0].alarm, later == 1 ? "" : id);
        assert_null(alarms_on_in(model, session_id(s)));
        assert_string_equal(s->notes.alarm_id, there);
    }
}

/* The client came back under a new session while the one before still waits for it. */
static void the_end_of_the_session_before_is_not_the_end_of_the_alarm(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    struct session_request with = lasting;
    struct live_stream *streams[2];
    struct session *s[2];
    live.realtime = true;
    with.open = &live;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s[i], NULL), 0);
        streams[i] = last(b)->stream;
        struct live_report r = report(streams[i], LIVE_OPENED);
        sessions_report(b->all, &r);
        alarm_report(b, streams[i], true, 512, 0);
        if (!i)
            session_leave(s[0]);
    }
    char id[JOURNAL_ALARM];
    journal_alarm_id(session_id(s[0]), 512, id);
    assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, id); /* the bed's alarm goes on */
    n_entries = 0;
    session_close(s[0], "expired");
    assert_int_equal(count_entries(JOURNAL_ALARM_OFF), 0);
    assert_int_equal(alarms_find(model, id)->off_ms, 0);
    alarm_report(b, streams[1], false, 5120, JOURNAL_OFF_ENDED);
    assert_int_equal(count_entries(JOURNAL_ALARM_OFF), 1);
    assert_true(alarms_find(model, id)->off_ms > 0);
}

static void two_streams_that_send_under_a_name_have_two_alarms(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    static const char *const names[] = {"bed-7", "brrctl"};
    for (int k = 0; k < 2; k++) {
        struct session_request with = lasting;
        struct session *s[2];
        char first[JOURNAL_ALARM] = "";
        live.realtime = true;
        with.open = &live;
        with.client = names[k];
        for (int i = 0; i < 2; i++) {
            assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s[i], NULL), 0);
            struct live_stream *stream = last(b)->stream;
            struct live_report r = report(stream, LIVE_OPENED);
            sessions_report(b->all, &r);
            alarm_report(b, stream, true, 512, 0);
            if (i)
                assert_string_not_equal(newest(JOURNAL_ALARM_ON)->alarm, first);
            str_copy(first, sizeof first, newest(JOURNAL_ALARM_ON)->alarm);
            if (k) /* a program's own name is no bed: nobody's alarm goes on in another stream */
                session_leave(s[i]);
        }
        for (int i = 0; i < 2; i++) {
            session_close(s[i], "closed");
            struct live_report r = report(s[i]->stream, LIVE_CLOSED);
            sessions_report(b->all, &r);
        }
    }
}

static int both_are_named(void *ctx, const char *principal, const char *bed) {
    return (void)ctx, (void)bed, str_starts(principal, "token:") ? 1 : 0;
}

/* The tokens of two callers name the bed: what one answered says nothing of the other's patient. */
static void a_bed_that_two_callers_send_has_two_alarms(void **state) {
    static const char *const callers[][2] = {
        {"token:a", "token:b"}, {"token:a,certificate:1", "token:a,certificate:2"}, {"token:a", "uid:7"}};
    static const char *const roster[] = {"bed-7"};
    const struct alarms_plan plan = {.rejoin_ms = 60 * 1000, .roster = roster, .n_roster = 1, .named = both_are_named};
    struct bench *b = *state;
    struct live_open live = own_open;
    struct session_request with = lasting;
    live.realtime = true;
    with.open = &live;
    with.client = "bed-7";
    for (size_t k = 0; k < sizeof callers / sizeof *callers; k++) {
        struct session *s[2];
        struct live_stream *streams[2];
        alarms_free(model);
        model = alarms_new(&plan, NULL, NULL);
        for (int i = 0; i < 2; i++) {
            with.principal = callers[k][i];
            assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s[i], NULL), 0);
            streams[i] = last(b)->stream;
            struct live_report r = report(streams[i], LIVE_OPENED);
            sessions_report(b->all, &r);
        }
        for (int i = 0; i < 2; i++) {
            char id[JOURNAL_ALARM];
            journal_alarm_id(session_id(s[i]), 512, id);
            alarm_report(b, streams[i], true, 512, 0);
            assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, id);
            alarm_report(b, streams[i], false, 1024, JOURNAL_OFF_ENDED);
        }
        for (int i = 0; i < 2; i++) {
            session_close(s[i], "closed");
            struct live_report r = report(streams[i], LIVE_CLOSED);
            sessions_report(b->all, &r);
        }
    }
}

/* Another stream of the bed took its alarm over while it sent nothing. */
static void a_stream_that_sends_again_has_its_alarm_under_its_own_id(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    struct session_request with = lasting;
    struct session *s[2];
    struct live_stream *streams[2];
    char first[JOURNAL_ALARM], own[JOURNAL_ALARM];
    live.realtime = true;
    with.open = &live;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(session_open(b->all, &with, &ears, &b->owner, &s[i], NULL), 0);
        streams[i] = last(b)->stream;
        struct live_report r = report(streams[i], LIVE_OPENED);
        sessions_report(b->all, &r);
        alarm_report(b, streams[i], true, 512, 0);
        now_ms += 6000;
        assert_int_equal(push(s[i], 0, 100), 0);
        now_ms += i ? 0 : 6000;
    }
    journal_alarm_id(session_id(s[0]), 512, first);
    assert_string_equal(alarms_find(model, first)->session, session_id(s[1]));
    struct live_report r = report(streams[0], LIVE_PROVISIONAL);
    r.first = 2560;
    r.samples = 256;
    const int before = count_entries(JOURNAL_ALARM_ON);
    sessions_report(b->all, &r); /* of samples that came before */
    assert_int_equal(count_entries(JOURNAL_ALARM_ON), before);
    assert_int_equal(push(s[0], 100, 100), 0);
    r.first += 256;
    for (int i = 0; i < 2; i++)
        sessions_report(b->all, &r);
    assert_int_equal(count_entries(JOURNAL_ALARM_ON), before + 1);
    journal_alarm_id(session_id(s[0]), 2560 + 512, own);
    assert_string_equal(newest(JOURNAL_ALARM_ON)->alarm, own);
    alarm_report(b, streams[1], false, 5120, JOURNAL_OFF_ENDED);
    assert_true(alarms_find(model, first)->off_ms && !alarms_find(model, own)->off_ms);
    alarm_report(b, streams[0], false, 5120, JOURNAL_OFF_ENDED);
    assert_string_equal(newest(JOURNAL_ALARM_OFF)->alarm, own);
    assert_true(alarms_find(model, own)->off_ms > 0);
}

static void hear_to(struct bench *b, struct live_stream *stream, int64_t sample) {
    struct live_report r = report(stream, LIVE_PROVISIONAL);
    r.first = sample - 256;
    r.samples = 256;
    sessions_report(b->all, &r);
}

/* The daemon that had the stream gives its newest alarm with its answer; the snapshot is from before, when an earlier one was on.
 */
static void an_answer_of_another_daemon_meets_no_earlier_alarm_of_the_stream(void **state) {
    enum { FIRST = 512, OVER = 1024, SECOND = 40960 };
    struct bench *b = *state;
    for (int when = 0; when < 3; when++) {
        struct live_stream *stream;
        char first[JOURNAL_ALARM], second[JOURNAL_ALARM];
        OWNED(str_done) struct str data = str_of(1 << 16);
        now_ms += 120 * 1000; /* none goes on from the round before */
        struct session *s = open_heard(b, &stream, true);
        journal_alarm_id(session_id(s), FIRST, first);
        journal_alarm_id(session_id(s), SECOND, second);
        alarm_report(b, stream, true, FIRST, 0);
        hear_to(b, stream, FIRST + 256);
        struct journal_entry given[] = {*newest(JOURNAL_ALARM_ON), {.kind = JOURNAL_ANSWERED, .received_ms = 77, .boot_ms = 78}};
        given[0].start_s = SECOND / 256.0;
        for (int i = 0; i < 2; i++)
            str_copy(given[i].alarm, sizeof given[i].alarm, second);
        str_copy(given[1].person, sizeof given[1].person, "token:nurse");
        str_copy(given[1].detail, sizeof given[1].detail, "acknowledge via page by Ana B");
        journal_entries_pack(given, 2, &data);
        assert_false(sessions_receive_alarm(b->all, data.data, data.len));
        assert_int_equal(alarms_find(model, first)->answered.at_ms, 0);
        if (when < 2)
            alarm_report(b, stream, false, OVER, JOURNAL_OFF_ENDED);
        else
            session_close(s, "failed");
        if (when == 1) {
            alarm_report(b, stream, true, SECOND, 0);
            hear_to(b, stream, SECOND + 256);
        }
        assert_true(sessions_receive_alarm(b->all, data.data, data.len));
        if (!when)
            alarm_report(b, stream, true, SECOND, 0);
        assert_string_equal(alarms_find(model, second)->answered.person, "Ana B");
        assert_int_equal(alarms_find(model, first)->answered.at_ms, 0);
        if (when < 2)
            session_close(s, "failed");
        closed(b, stream);
    }
}

static void a_silent_sender_makes_few_entries_that_tile_the_gap(void **state) {
    enum { HOURS = 5, A_SECOND = 4 };
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_heard(b, &stream, false);
    for (int i = 0; i < HOURS * 3600 * A_SECOND; i++) {
        const int64_t end = (int64_t)(i + 1) * RATE / A_SECOND;
        assert_int_equal(session_gap(s, end - RATE / A_SECOND, end, "client", NULL), 0);
        consume(b, stream, RATE / A_SECOND, 0);
        for (; b->worker.n > 8; b->worker.n--)
            live_order_free(b->worker.orders[b->worker.n - 1]);
    }
    assert_true(count_entries(JOURNAL_GAP) <= 16 + HOURS);
    session_close(s, "closed");
    double at = 0;
    for (int i = 0; i < n_entries; i++)
        if (entries[i].kind == JOURNAL_GAP) {
            assert_true(entries[i].start_s == at && entries[i].end_s > at);
            at = entries[i].end_s;
        }
    assert_true(at == HOURS * 3600);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_alarm_waits_until_it_is_on_the_disk, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(it_does_not_wait_for_ever, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(the_summary_and_errors_come_behind_it, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_comes_back_hears_it_once, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(entries_say_who_and_when, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_client_that_is_refused_for_ever_makes_no_entry, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_is_numbered_by_its_sample_and_says_why_it_ends, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_session_that_ends_in_an_alarm_ends_it_and_cuts_its_event, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_new_session_of_the_bed_has_the_alarm_of_the_one_before, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(technical_alarms_come_with_a_stream_of_another_daemon, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_goes_on_after_a_restart_and_moves_without_an_end, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(the_alarm_of_a_stream_that_cannot_go_on_is_cut, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_daemon_that_stops_takes_no_stream_for_gone, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_newer_than_the_snapshot_ends_with_its_session, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_that_ended_elsewhere_leaves_no_alarm_on, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_that_the_journal_brings_late_ends_as_well, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_newer_than_the_snapshot_ends_after_an_older_onset_of_it, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_alarm_that_was_over_elsewhere_before_a_later_one_is_not_told_again, with_journal,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_end_of_the_session_before_is_not_the_end_of_the_alarm, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(two_streams_that_send_under_a_name_have_two_alarms, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_bed_that_two_callers_send_has_two_alarms, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_stream_that_sends_again_has_its_alarm_under_its_own_id, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_of_another_daemon_meets_no_earlier_alarm_of_the_stream, with_journal, tear_down),
        cmocka_unit_test_setup_teardown(a_silent_sender_makes_few_entries_that_tile_the_gap, with_journal, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
