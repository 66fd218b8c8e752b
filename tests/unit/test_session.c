#include "daemon/live/session_parts.h"
#include "unit/session_fixture.h"

/* ---- the order of samples ---- */

static void samples_go_out_once_and_in_order(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    assert_int_equal(b->owner.opened, 1);
    assert_int_equal(push(s, 0, 10), 0);
    assert_int_equal(last(b)->samples, 10);
    assert_int_equal(last(b)->skip, 0);
    assert_int_equal(push(s, 4, 10), 0); /* 4 to 9 are known */
    assert_int_equal(last(b)->samples, 10);
    assert_int_equal(last(b)->skip, 6);
    int before = b->worker.n;
    assert_int_equal(push(s, 0, 14), 0); /* all known: nothing to do */
    assert_int_equal(b->worker.n, before);
    struct session_counts counts;
    session_counts(s, &counts);
    assert_int_equal(counts.received_through, 14);
    assert_int_equal(counts.duplicate_samples, 6 + 14);
    assert_true(value(b, "brrd_stream_duplicate_chunks_total", "ward") == 2);
}

static void a_hole_is_a_gap_and_is_counted(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    assert_int_equal(push(s, 30, 5), 0);
    assert_int_equal(b->worker.n, 3); /* OPEN, GAP, CHUNK */
    assert_int_equal(b->worker.orders[1]->message.kind, LIVE_GAP);
    assert_int_equal(b->worker.orders[1]->samples, 30);
    assert_int_equal(session_gap(s, 50, 100, "client", NULL), 0); /* after a hole that nobody spoke of */
    assert_int_equal(last(b)->samples, 50);
    assert_int_equal(session_gap(s, 110, 100, "client", NULL), ERR_INVALID);
    assert_int_equal(session_gap(s, INT64_MIN, 0, "client", NULL), ERR_INVALID); /* its length is more than an int64_t holds */
    assert_int_equal(session_gap(s, INT64_MIN, INT64_MAX, "client", NULL), ERR_INVALID);
    assert_int_equal(session_gap(s, 40, 50, "client", NULL), 0); /* known: nothing */
    struct session_counts counts;
    session_counts(s, &counts);
    assert_int_equal(counts.gaps, 3);
    assert_true(value(b, "brrd_stream_samples_lost_total", "ward\x1fhole") == 45);
    assert_true(value(b, "brrd_stream_samples_lost_total",
                      "ward\x1f"
                      "client") == 50);
}

static void chunks_and_gaps_beyond_their_limits_are_refused(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    uint8_t data[CHANNELS * WIDTH * 3] = {0};
    assert_int_equal(session_chunk(s, 0, 3, data, sizeof data - 1, NULL), ERR_INVALID);
    assert_int_equal(session_chunk(s, 0, 0, data, 0, NULL), ERR_INVALID);
    assert_int_equal(session_chunk(s, -1, 3, data, sizeof data, NULL), ERR_INVALID);
    assert_int_equal(session_gap(s, 0, (int64_t)(SESSION_MAX_GAP_S + 1) * RATE, "client", NULL), ERR_RANGE);
    assert_int_equal(session_max_chunk(s, 4 << 20), SESSION_MAX_CHUNK_S * RATE); /* by time: 4 MiB would be more */
    assert_int_equal(session_max_chunk(s, 4096 + 256), 512);                     /* by size */
    assert_int_equal(push(s, 0, SESSION_MAX_CHUNK_S * RATE + 1), ERR_INVALID);
    assert_int_equal(b->worker.n, 1); /* nothing of these went out */
    assert_int_equal(push(s, 0, SESSION_MAX_CHUNK_S * RATE), 0);
}

/* ---- room ---- */

static void a_session_is_read_while_little_of_it_waits(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = NULL;
    assert_int_equal(session_open(b->all, &request, &sink, &b->owner, &s, NULL), 0);
    assert_false(session_room(s)); /* the model is not loaded yet */
    stream = last(b)->stream;
    struct live_report r = report(stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    assert_true(session_room(s));
    for (int i = 0; i < SESSION_MAX_ORDERS; i++)
        assert_int_equal(push(s, i, 1), 0);
    assert_false(session_room(s));
    consume(b, stream, 1, CHANNELS * WIDTH);
    assert_true(session_room(s));
    assert_int_equal(b->owner.progress, 1);
    struct session_counts counts;
    session_counts(s, &counts);
    assert_int_equal(counts.durable_through, 1);
}

static void above_the_budget_of_all_each_session_may_have_one_chunk_wait(void **state) {
    struct bench *b = *state;
    struct live_stream *one, *two;
    struct session *a = open_one(b, &one), *c = open_one(b, &two);
    int64_t bytes = 2048 * CHANNELS * WIDTH; /* the whole budget */
    assert_int_equal(push(a, 0, 2048), 0);
    assert_false(session_room(a));
    assert_true(session_room(c)); /* none of its own wait */
    assert_int_equal(push(c, 0, 1), 0);
    assert_false(session_room(c));
    sessions_tick(b->all, 1000);
    assert_true(value(b, "brrd_stream_buffered_bytes", "") == (double)(bytes + CHANNELS * WIDTH));
    session_close(a, "client_gone"); /* what waits is dropped by the worker, without a report */
    closed(b, one);
    assert_true(session_room(c));
    sessions_tick(b->all, 1000);
    assert_true(value(b, "brrd_stream_buffered_bytes", "") == CHANNELS * WIDTH);
    assert_true(value(b, "brrd_stream_samples_lost_total",
                      "ward\x1f"
                      "client_gone") == 2048);
}

static void sessions_beyond_the_limit_are_refused(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = NULL;
    open_one(b, &stream);
    open_one(b, &stream);
    assert_int_equal(session_open(b->all, &request, &sink, &b->owner, &s, NULL), ERR_EXHAUSTED);
    assert_int_equal(sessions_of_model(b->all, "ward"), 2);
    assert_int_equal(sessions_of_model(b->all, "other"), 0);
}

static int open_for(struct bench *b, const char *principal, bool admin) {
    const struct session_request own = {
        .open = &own_open, .principal = principal, .resumable = true, .served = true, .admin = admin};
    struct live_report r;
    struct session *s = NULL;
    int rc = session_open(b->all, &own, &sink, &b->owner, &s, NULL);
    if (rc)
        return rc;
    r = report(last(b)->stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    session_leave(s); /* it waits for its client */
    return 0;
}

static void sessions_that_wait_count_in_the_share_of_their_caller(void **state) {
    struct bench *b = *state;
    const int most = 90;
    for (int i = 0; i < most; i++)
        assert_int_equal(open_for(b, "token:ana", false), 0);
    sessions_tick(b->all, 1000);
    assert_true(value(b, "brrd_stream_sessions_parked", "") == most);
    assert_int_equal(open_for(b, "token:ana", false), ERR_EXHAUSTED);
    assert_int_equal(open_for(b, "token:bob", false), 0);
    assert_int_equal(open_for(b, "token:ana", true), 0); /* the role admin */
}

static void the_last_place_is_for_another_caller_where_callers_have_tokens(void **state) {
    struct bench *b = *state;
    for (int shared = 0; shared < 2; shared++) {
        const struct sessions_config config = {
            .post = take, .post_ctx = &b->worker, .max_sessions = 2, .shared = shared, .max_waiting_bytes = 16384};
        sessions_free(b->all);
        b->all = sessions_new(&config);
        assert_int_equal(open_for(b, "token:ana", false), 0);
        assert_int_equal(open_for(b, "token:ana", false), shared ? ERR_EXHAUSTED : 0);
        assert_int_equal(open_for(b, "token:bob", false), shared ? 0 : ERR_EXHAUSTED);
    }
}

/* ---- events ---- */

static void events_beyond_those_kept_are_counted_and_passed_on(void **state) {
    enum { EACH = 100, REPORTS = SESSION_MAX_EVENTS / EACH + 3 };
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    struct session_counts counts;
    struct event events[EACH];
    for (int k = 0; k < REPORTS; k++) {
        for (int i = 0; i < EACH; i++)
            events[i] = (struct event){.first = 1000 * (k * EACH + i), .end = 1000 * (k * EACH + i) + 768};
        struct live_report r = report(stream, LIVE_RESULT);
        r.events = events;
        r.n_events = EACH;
        sessions_report(b->all, &r);
    }
    session_counts(s, &counts);
    assert_int_equal(b->owner.results, REPORTS);
    assert_int_equal(counts.n_events, SESSION_MAX_EVENTS); /* also of a report that fits in part */
    assert_int_equal(counts.events[SESSION_MAX_EVENTS - 1].first, 1000 * (SESSION_MAX_EVENTS - 1));
    assert_int_equal(counts.events_total, REPORTS * EACH);
    assert_int_equal(counts.seizure_samples, 768LL * REPORTS * EACH);
    assert_int_equal((int64_t)metric_value(metrics_series(b->metrics, "brrd_stream_seizure_events_total", "ward")), REPORTS * EACH);
}

/* ---- credit ---- */

/* A result of `bytes`, which the worker has charged to the stream. */
static void result_of(struct bench *b, struct live_stream *stream, int64_t bytes) {
    struct live_report r = report(stream, LIVE_RESULT);
    r.bytes = bytes;
    live_stream_release(stream, -bytes); /* as the worker charges it */
    sessions_report(b->all, &r);
}

static void a_stalled_owner_keeps_the_credit_of_its_stream(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    result_of(b, stream, LIVE_CREDIT_BYTES); /* the owner has room: it is released at once */
    assert_int_equal(count_orders(b, LIVE_WAKE), 1);
    session_stall(s, true);
    result_of(b, stream, LIVE_CREDIT_BYTES - 1);
    result_of(b, stream, 1);
    assert_int_equal(count_orders(b, LIVE_WAKE), 1); /* nothing released: the worker sleeps */
    session_stall(s, false);
    assert_int_equal(count_orders(b, LIVE_WAKE), 2);
    session_stall(s, false); /* nothing more to release */
    assert_int_equal(count_orders(b, LIVE_WAKE), 2);
}

/* One who watches, and counts the probabilities that came. */
struct watcher {
    struct session_watch watch;
    int traces;
};
static void on_watched(struct session_watch *w, const struct live_report *r) { ((struct watcher *)w)->traces += r->p != NULL; }
static void on_watch_ended(struct session_watch *w) { (void)w; }

/* A result and a provisional value with their probabilities, as the worker reports them. */
static void trace_of(struct bench *b, struct live_stream *stream) {
    static const enum live_report_kind kinds[] = {LIVE_RESULT, LIVE_PROVISIONAL};
    for (size_t i = 0; i < 2; i++) {
        struct live_report r = report(stream, kinds[i]);
        r.samples = 4;
        r.p = calloc(4, sizeof *r.p);
        sessions_report(b->all, &r);
        free(r.p);
    }
}

static void who_watches_gets_the_trace_and_the_client_only_if_it_asked(void **state) {
    struct bench *b = *state;
    struct live_open quiet = own_open;
    struct session_request asks_not = request;
    struct watcher w = {.watch = {.report = on_watched, .ended = on_watch_ended}};
    struct live_stream *stream;
    quiet.want_probabilities = false;
    asks_not.open = &quiet;
    session_watch_start(open_as(b, &asks_not, &stream), &w.watch);
    trace_of(b, stream);
    assert_int_equal(w.traces, 2);
    assert_int_equal(b->owner.results + b->owner.provisional, 2);
    assert_int_equal(b->owner.traces, 0);
    session_watch_stop(&w.watch);
    open_one(b, &stream);
    trace_of(b, stream);
    assert_int_equal(b->owner.traces, 2);
    assert_int_equal(w.traces, 2);
}

static void a_session_is_found_by_the_first_characters_of_its_id(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream), *other = open_one(b, &stream), *found = NULL;
    char id[SESSION_ID_SIZE];
    str_copy(id, sizeof id, session_id(s));
    int shared = 0;
    while (id[shared] == session_id(other)[shared])
        shared++;
    assert_int_equal(sessions_by_id(b->all, id, &found, NULL), 0);
    assert_ptr_equal(found, s);
    id[shared < SESSION_PREFIX ? SESSION_PREFIX : shared + 1] = '\0';
    found = NULL;
    assert_int_equal(sessions_by_id(b->all, id, &found, NULL), 0);
    assert_ptr_equal(found, s);
    id[SESSION_PREFIX - 1] = '\0';
    assert_int_equal(sessions_by_id(b->all, id, &found, NULL), ERR_NOT_FOUND);
    memcpy(other->id, s->id, SESSION_PREFIX);
    str_format(id, SESSION_PREFIX + 1, "%s", s->id);
    assert_int_equal(sessions_by_id(b->all, id, &found, NULL), ERR_INVALID); /* of two */
    assert_int_equal(sessions_by_id(b->all, other->id, &found, NULL), 0);
    assert_ptr_equal(found, other);
}

static void the_quality_of_the_newest_samples_is_shown(void **state) {
    struct bench *b = *state;
    struct session_state shown;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    struct quality_channel flaws[] = {{1, QUALITY_FLAT}};
    struct live_report r = report(stream, LIVE_RESULT);
    r.samples = 256;
    r.quality = (struct quality_report){flaws, 1, 0.25};
    sessions_report(b->all, &r);
    session_describe(s, &shown);
    assert_int_equal(shown.quality->n, 1);
    assert_int_equal(shown.quality->channels[0].channel, 1);
    assert_true(shown.quality->gap_fraction == 0.25);
    r = report(stream, LIVE_RESULT); /* events without samples change nothing */
    sessions_report(b->all, &r);
    session_describe(s, &shown);
    assert_int_equal(shown.quality->n, 1);
    r.samples = 256;
    sessions_report(b->all, &r);
    session_describe(s, &shown);
    assert_int_equal(shown.quality->n, 0);
}

static void a_wake_that_found_no_room_is_posted_by_the_tick(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    open_one(b, &stream);
    b->worker.refuse = 1;
    result_of(b, stream, LIVE_CREDIT_BYTES);
    assert_int_equal(count_orders(b, LIVE_WAKE), 0);
    sessions_tick(b->all, 1000);
    assert_int_equal(count_orders(b, LIVE_WAKE), 1);
    assert_int_equal(b->owner.failures, 0); /* it is not idle yet */
}

/* ---- the end ---- */

static void a_close_that_found_no_room_is_posted_by_the_tick(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    b->worker.refuse = 1;
    session_close(s, "done");
    assert_int_equal(count_orders(b, LIVE_CLOSE), 0);
    assert_int_equal(sessions_count(b->all), 1);
    sessions_tick(b->all, 1000);
    sessions_tick(b->all, 1000);
    assert_int_equal(count_orders(b, LIVE_CLOSE), 1);
    closed(b, stream);
    assert_int_equal(sessions_count(b->all), 0); /* the place is free again */
}

static void a_tick_reaches_all_sessions_in_parts(void **state) {
    struct bench *b = *state;
    struct live_stream *streams[2];
    for (int i = 0; i < 2; i++)
        open_one(b, &streams[i]);
    wait_idle();
    for (int parts = 1; parts <= 2; parts++) {
        assert_true(sessions_tick(b->all, 0));
        assert_true(sessions_tick_goes_on(b->all));
        assert_int_equal(b->owner.failures, parts);
        closed(b, streams[2 - parts]); /* the newest one is first; it is gone before the tick goes on */
    }
    assert_false(sessions_tick(b->all, 0));
    assert_false(sessions_tick_goes_on(b->all));
    assert_int_equal(sessions_count(b->all), 0);
}

static void an_idle_session_gives_its_place_back_before_its_owner_closes_it(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 1);
    assert_int_equal(b->owner.err.code, ERR_ABORTED);
    assert_string_equal(b->owner.reason, "SESSION_EXPIRED");
    assert_int_equal(count_orders(b, LIVE_CLOSE), 1); /* the owner has not read it, and need not */
    closed(b, stream);
    assert_int_equal(sessions_count(b->all), 0);
    assert_int_equal(sessions_of_model(b->all, "ward"), 0);
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 1); /* it is told once */
    assert_int_equal(push(s, 0, 1), ERR_PRECONDITION);
    assert_false(session_finish(s, NULL) == 0);
    session_close(s, "idle");
    assert_true(value(b, "brrd_stream_sessions_closed_total",
                      "ward\x1f"
                      "idle") == 1);
}

static void a_session_whose_model_is_loading_is_not_idle(void **state) {
    struct bench *b = *state;
    struct session *s = NULL;
    assert_int_equal(session_open(b->all, &request, &sink, &b->owner, &s, NULL), 0);
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 0);
    struct live_report r = report(last(b)->stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    wait_idle(); /* the time counts from now on */
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 1);
}

static void a_session_whose_samples_wait_is_not_idle(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    assert_int_equal(push(s, 0, 1), 0);
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 0);
}

static void a_client_that_reads_nothing_loses_its_session(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    assert_int_equal(push(s, 0, 1), 0);
    session_stall(s, true);
    wait_idle();
    session_stall(s, true); /* still: the time counts from the first */
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 1);
    assert_non_null(strstr(b->owner.err.message, "read no answer"));
    assert_int_equal(count_orders(b, LIVE_CLOSE), 1);
}

static void a_failure_is_told_once_and_may_close_the_session(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    b->owner.close_in_failed = s;
    struct live_report r = report(stream, LIVE_FAILED);
    err_set(&r.err, ERR_INVALID, "a NaN");
    sessions_report(b->all, &r);
    sessions_report(b->all, &r); /* from before the worker saw CLOSE */
    assert_int_equal(b->owner.failures, 1);
    assert_string_equal(b->owner.err.message, "a NaN");
    result_of(b, stream, 100);
    assert_int_equal(b->owner.results, 0);
    assert_int_equal(count_orders(b, LIVE_CLOSE), 1);
    closed(b, stream);
    assert_int_equal(sessions_count(b->all), 0);
}

static void after_finish_only_the_summary_comes(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    assert_int_equal(session_finish(s, NULL), 0);
    assert_int_equal(last(b)->message.kind, LIVE_FINISH);
    assert_int_equal(push(s, 0, 1), ERR_PRECONDITION);
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 0); /* the device may take its time */
    struct live_report r = report(stream, LIVE_SUMMARY);
    sessions_report(b->all, &r);
    assert_int_equal(b->owner.summaries, 1);
    session_close(s, "done");
    closed(b, stream);
    assert_int_equal(sessions_count(b->all), 0);
}

/* The order that opens a stream of the patient, which has closed again; and whether the stream was to say what it learns. */
static bool says;
static const struct live_order *open_patient(struct bench *b, const char *principal, const char *patient, const char *learned) {
    const struct session_request with = {.open = &own_open, .principal = principal, .patient = patient};
    struct live_stream *stream;
    struct session *s = open_as(b, &with, &stream);
    const struct live_order *open = last(b);
    struct live_report r = report(stream, LIVE_RESULT);
    says = live_stream_open(stream)->names_patient;
    r.samples = 1;
    r.state = learned ? strdup(learned) : NULL;
    r.state_len = learned ? strlen(learned) : 0;
    sessions_report(b->all, &r);
    free(r.state); /* NULL where it was taken */
    session_close(s, "done");
    closed(b, stream);
    return open;
}

static int set_up_memory(void **state) {
    if (set_up(state))
        return -1;
    struct bench *b = *state;
    const struct sessions_config config = {
        .post = take, .post_ctx = &b->worker, .max_sessions = 2, .max_waiting_bytes = 16384, .patient_memory_ms = 3600 * 1000};
    sessions_free(b->all);
    b->all = sessions_new(&config);
    return b->all ? 0 : -1;
}

static void what_was_learned_goes_to_the_next_stream_of_the_patient_alone(void **state) {
    struct bench *b = *state;
    assert_null(open_patient(b, "uid:1", "code 7", "a level")->data);
    const struct live_order *next = open_patient(b, "uid:1", "code 7", NULL);
    assert_int_equal(next->data_bytes, strlen("a level"));
    assert_memory_equal(next->data, "a level", strlen("a level"));
    assert_true(next->away_s > 0 && next->away_s < 60);
    assert_true(says);
    assert_null(open_patient(b, "uid:1", "code 8", NULL)->data);
    assert_null(open_patient(b, "uid:2", "code 7", NULL)->data); /* another caller */
    assert_null(open_patient(b, "uid:1", "", NULL)->data);
    assert_non_null(open_patient(b, "uid:1", "code 7", "another")->data);
    assert_memory_equal(open_patient(b, "uid:1", "code 7", NULL)->data, "another", strlen("another"));
}

static void nothing_goes_from_stream_to_stream_by_default(void **state) {
    struct bench *b = *state;
    const struct live_order *first = open_patient(b, "uid:1", "code 7", NULL);
    assert_false(first->data || says);
}

int main(void) {
#define SESSION_TEST(f)   cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define IMPATIENT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up_impatient, tear_down)
    const struct CMUnitTest tests[] = {
        SESSION_TEST(samples_go_out_once_and_in_order),
        SESSION_TEST(a_hole_is_a_gap_and_is_counted),
        SESSION_TEST(chunks_and_gaps_beyond_their_limits_are_refused),
        SESSION_TEST(a_session_is_read_while_little_of_it_waits),
        SESSION_TEST(above_the_budget_of_all_each_session_may_have_one_chunk_wait),
        SESSION_TEST(sessions_beyond_the_limit_are_refused),
        SESSION_TEST(the_last_place_is_for_another_caller_where_callers_have_tokens),
        cmocka_unit_test_setup_teardown(sessions_that_wait_count_in_the_share_of_their_caller, set_up_late_many, tear_down),
        SESSION_TEST(events_beyond_those_kept_are_counted_and_passed_on),
        SESSION_TEST(a_stalled_owner_keeps_the_credit_of_its_stream),
        SESSION_TEST(a_session_is_found_by_the_first_characters_of_its_id),
        SESSION_TEST(the_quality_of_the_newest_samples_is_shown),
        SESSION_TEST(who_watches_gets_the_trace_and_the_client_only_if_it_asked),
        SESSION_TEST(a_wake_that_found_no_room_is_posted_by_the_tick),
        SESSION_TEST(a_close_that_found_no_room_is_posted_by_the_tick),
        IMPATIENT_TEST(a_tick_reaches_all_sessions_in_parts),
        IMPATIENT_TEST(an_idle_session_gives_its_place_back_before_its_owner_closes_it),
        IMPATIENT_TEST(a_session_whose_model_is_loading_is_not_idle),
        IMPATIENT_TEST(a_session_whose_samples_wait_is_not_idle),
        IMPATIENT_TEST(a_client_that_reads_nothing_loses_its_session),
        SESSION_TEST(a_failure_is_told_once_and_may_close_the_session),
        IMPATIENT_TEST(after_finish_only_the_summary_comes),
        SESSION_TEST(nothing_goes_from_stream_to_stream_by_default),
        cmocka_unit_test_setup_teardown(what_was_learned_goes_to_the_next_stream_of_the_patient_alone, set_up_memory, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
