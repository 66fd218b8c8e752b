#include "base/base.h"
#include "daemon/live/session_parts.h"
#include "unit/session_fixture.h"

/* Memory is short for blocks of this size (0: for none): malloc and calloc fail for it (the linker's --wrap). */
static size_t scarce;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) { return scarce && size == scarce ? NULL : __real_malloc(size); }
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) { return scarce && size == scarce ? NULL : __real_calloc(n, size); }

/* How many bytes were hashed, in how many calls. */
static size_t hashed_bytes, hashes;
bool __real_digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]);
bool __wrap_digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]);
bool __wrap_digest_bytes(const void *data, size_t len, char ret_hex[DIGEST_HEX_SIZE]) {
    hashed_bytes += len;
    hashes++;
    return __real_digest_bytes(data, len, ret_hex);
}

/* ---- clients that come back ---- */

static void a_parked_session_goes_on_where_it_was_left(void **state) {
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    struct session_counts counts;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    assert_int_equal(push(s, 0, 10), 0);
    for (int i = 0; i < 3; i++)
        numbered(b, stream, LIVE_RESULT, i);
    numbered(b, stream, LIVE_ALARM, 0);
    session_leave(s);
    assert_int_equal(count_orders(b, LIVE_CLOSE), 0);
    consume(b, stream, 10, 10 * CHANNELS * WIDTH); /* what was received is processed */
    numbered(b, stream, LIVE_RESULT, 3);
    numbered(b, stream, LIVE_ALARM, 1);
    assert_int_equal(b->owner.results + b->owner.alarms, 4); /* nothing goes to a connection that is gone */
    sessions_tick(b->all, 1000);
    assert_true(value(b, "brrd_stream_sessions_parked", "") == 1);
    assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s);
    come_back(s, &next, token, 2, 1);
    assert_int_equal(next.opened, 1);
    assert_int_equal(next.results, 2); /* 2 and 3 */
    assert_int_equal(next.alarms, 1);
    assert_int_equal(session_next_result(s), 2);
    assert_string_equal(session_token(s), token);
    session_counts(s, &counts);
    assert_int_equal(counts.received_through, 10);
    assert_int_equal(push(s, 10, 5), 0);
    numbered(b, stream, LIVE_RESULT, 4);
    assert_int_equal(next.results, 3);
}

static void only_the_token_and_the_principal_find_a_session(void **state) {
    struct bench *b = *state;
    struct live_stream *stream, *plain;
    char token[RESUME_TOKEN_SIZE], wrong[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    struct session *other = open_one(b, &plain);
    assert_string_equal(session_token(other), ""); /* not resumable: nothing finds it */
    assert_null(sessions_find(b->all, "", "uid:1"));
    assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s); /* connected as well: it can be taken over */
    assert_null(sessions_find(b->all, token, "uid:2"));
    str_copy(wrong, sizeof wrong, token);
    wrong[31] = wrong[31] == 'a' ? 'b' : 'a';
    assert_null(sessions_find(b->all, wrong, "uid:1"));
    session_close(s, "refused");
    assert_null(sessions_find(b->all, token, "uid:1"));
}

static void a_token_is_hashed_once_and_one_of_another_length_never(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE], *large = calloc(1, 1 << 20);
    open_lasting(b, &stream, token);
    struct session *s = open_lasting(b, &stream, token);
    hashes = hashed_bytes = 0;
    assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s);
    assert_int_equal(hashes, 1);
    assert_int_equal(hashed_bytes, RESUME_TOKEN_SIZE - 1);
    memset(large, 'a', (1 << 20) - 1);
    assert_null(sessions_find(b->all, large, "uid:1"));
    token[RESUME_TOKEN_SIZE - 2] = 0;
    assert_null(sessions_find(b->all, token, "uid:1"));
    assert_int_equal(hashes, 1);
    free(large);
}

static void who_had_the_session_is_told_that_it_was_taken_over(void **state) {
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(b->owner.failures, 1);
    assert_int_equal(b->owner.err.code, ERR_ABORTED);
    assert_string_equal(b->owner.reason, "TAKEN_OVER");
    numbered(b, stream, LIVE_RESULT, 0);
    assert_int_equal(b->owner.results, 0);
    assert_int_equal(next.results, 1);
    assert_int_equal(count_orders(b, LIVE_CLOSE), 0);
}

static void a_session_that_nobody_wants_back_expires(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    session_leave(open_lasting(b, &stream, token));
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(count_orders(b, LIVE_CLOSE), 1);
    assert_null(sessions_find(b->all, token, "uid:1"));
    closed(b, stream);
    assert_int_equal(sessions_count(b->all), 0);
    assert_true(value(b, "brrd_stream_sessions_closed_total",
                      "ward\x1f"
                      "expired") == 1);
}

static void the_end_of_a_stream_is_told_again_to_a_client_that_missed_it(void **state) {
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    assert_int_equal(push(s, 0, 10), 0);
    assert_int_equal(session_finish(s, NULL), 0);
    session_leave(s);
    numbered(b, stream, LIVE_RESULT, 0);
    struct live_report r = report(stream, LIVE_SUMMARY);
    sessions_report(b->all, &r);
    closed(b, stream); /* its place is free */
    assert_int_equal(sessions_count(b->all), 0);
    assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(next.results, 1);
    assert_int_equal(push(s, 5, 5), 0); /* known */
    assert_int_equal(push(s, 5, 6), ERR_PRECONDITION);
    assert_int_equal(next.summaries, 0);
    assert_int_equal(session_finish(s, NULL), 0);
    assert_int_equal(next.summaries, 1);
    session_close(s, "done");
    assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s); /* still: the connection may have been lost again */
    assert_true(value(b, "brrd_stream_sessions_closed_total",
                      "ward\x1f"
                      "done") == 1);
}

static struct session *open_of(struct bench *b, const char *principal, struct live_stream **ret, char token[RESUME_TOKEN_SIZE]) {
    struct session_request asks = lasting;
    struct session *s = NULL;
    asks.principal = principal;
    assert_int_equal(session_open(b->all, &asks, &sink, &b->owner, &s, NULL), 0);
    *ret = last(b)->stream;
    struct live_report opened = report(*ret, LIVE_OPENED);
    sessions_report(b->all, &opened);
    str_copy(token, RESUME_TOKEN_SIZE, session_token(s));
    return s;
}

/* The stream is done, and its client may come back for its end. */
static void end_session(struct bench *b, struct session *s, struct live_stream *stream) {
    struct live_report summary = report(stream, LIVE_SUMMARY);
    assert_int_equal(session_finish(s, NULL), 0);
    sessions_report(b->all, &summary);
    closed(b, stream);
    session_close(s, "done");
}

static void end_stream(struct bench *b, const char *principal, char token[RESUME_TOKEN_SIZE]) {
    struct live_stream *stream;
    struct session *s = open_of(b, principal, &stream, token);
    end_session(b, s, stream);
}

static void streams_that_are_done_take_no_place_of_those_of_others(void **state) {
    struct bench *b = *state;
    char other[RESUME_TOKEN_SIZE], tokens[4][RESUME_TOKEN_SIZE];
    end_stream(b, "uid:1", other);
    for (int i = 0; i < 4; i++)
        end_stream(b, "uid:2", tokens[i]);
    assert_non_null(sessions_find(b->all, other, "uid:1"));
    assert_null(sessions_find(b->all, tokens[2], "uid:2"));
    assert_non_null(sessions_find(b->all, tokens[3], "uid:2"));
}

static void the_stream_that_was_done_first_makes_room_not_the_longest(void **state) {
    struct bench *b = *state;
    char longest[RESUME_TOKEN_SIZE], tokens[2][RESUME_TOKEN_SIZE];
    struct live_stream *stream;
    struct session *s = open_of(b, "uid:1", &stream, longest);
    for (int i = 0; i < 2; i++) {
        end_stream(b, "uid:2", tokens[i]);
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
    }
    end_session(b, s, stream);
    assert_non_null(sessions_find(b->all, longest, "uid:1"));
    assert_null(sessions_find(b->all, tokens[0], "uid:2"));
    assert_non_null(sessions_find(b->all, tokens[1], "uid:2"));
}

static void a_second_half_close_of_a_stream_at_work_is_the_first_one(void **state) {
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    assert_int_equal(session_finish(s, NULL), 0);
    session_leave(s);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(session_finish(s, NULL), 0);
    assert_int_equal(count_orders(b, LIVE_FINISH), 1);
    struct live_report r = report(stream, LIVE_SUMMARY);
    sessions_report(b->all, &r);
    assert_int_equal(next.summaries, 1);
}

static void a_failure_while_nobody_listens_is_told_later(void **state) {
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    session_leave(s);
    struct live_report r = report(stream, LIVE_FAILED);
    err_set(&r.err, ERR_EXHAUSTED, "out of memory");
    sessions_report(b->all, &r);
    closed(b, stream);
    assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(next.failures, 1);
    assert_string_equal(next.err.message, "out of memory");
}

static void expect_description(void *owner, const struct live_opened *o) {
    assert_non_null(o);
    assert_string_equal(o->note, "two channels");
    ((struct owner_side *)owner)->opened++;
}

static void a_client_that_comes_back_hears_of_the_model_whatever_memory_is_left(void **state) {
    struct bench *b = *state;
    struct owner_side next = {0};
    struct session_sink strict = sink;
    struct session *s = NULL;
    char token[RESUME_TOKEN_SIZE];
    strict.opened = expect_description;
    assert_int_equal(session_open(b->all, &lasting, &strict, &b->owner, &s, NULL), 0);
    str_copy(token, sizeof token, session_token(s));
    struct live_report r = report(last(b)->stream, LIVE_OPENED);
    assert_non_null(r.opened = calloc(1, sizeof *r.opened));
    str_copy(r.opened->note, sizeof r.opened->note, "two channels");
    session_leave(s); /* before the model was loaded */
    scarce = sizeof(struct live_opened);
    sessions_report(b->all, &r);
    scarce = 0;
    free(r.opened);
    session_resume(s, &(struct session_return){.token = token, .sink = &strict, .owner = &next});
    assert_int_equal(next.opened, 1);
    assert_int_equal(next.failures, 0);
}

static void the_last_word_of_a_stream_is_kept_whatever_memory_is_left(void **state) {
    struct bench *b = *state;
    for (int fails = 0; fails < 2; fails++) {
        struct owner_side next = {0};
        struct live_stream *stream;
        char token[RESUME_TOKEN_SIZE];
        struct session *s = open_lasting(b, &stream, token);
        assert_int_equal(session_finish(s, NULL), 0);
        session_leave(s);
        struct live_report r = report(stream, fails ? LIVE_FAILED : LIVE_SUMMARY);
        r.samples = 77;
        err_set(&r.err, ERR_INTERNAL, "broken");
        scarce = sizeof(struct live_report);
        sessions_report(b->all, &r);
        scarce = 0;
        assert_ptr_equal(sessions_find(b->all, token, "uid:1"), s);
        come_back(s, &next, token, 0, 0);
        if (!fails)
            assert_int_equal(session_finish(s, NULL), 0);
        assert_int_equal(next.summaries, !fails);
        assert_int_equal(next.failures, fails);
    }
}

static void results_that_no_client_took_stop_the_worker_and_are_never_dropped(void **state) {
    enum { EACH = SESSION_KEPT_BYTES / 4, N = 5 };
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    session_leave(s);
    for (int i = 0; i < N; i++)
        large_result(b, stream, i, EACH);
    int wakes = count_orders(b, LIVE_WAKE);
    come_back(s, &next, token, 0, 0);
    assert_int_equal(next.results, N);
    assert_int_equal(count_orders(b, LIVE_WAKE), wakes + 1); /* the credit that was kept back */
    session_seen(s, 2, 0);
    assert_int_equal(session_next_result(s), 2);
    for (int i = N; i < N + 4; i++)
        large_result(b, stream, i, EACH);
    assert_int_equal(session_next_result(s), 2); /* a client that says what it has loses nothing */
    wakes = count_orders(b, LIVE_WAKE);
    session_seen(s, N + 4, 0);
    assert_int_equal(session_next_result(s), N + 4);
    assert_int_equal(count_orders(b, LIVE_WAKE), wakes + 1);
    assert_true(value(b, "brrd_stream_results_forgotten_total", "ward") == 0);
}

/* The end of the samples may be read before the client's last Seen is due: none follows it. */
static void the_end_of_the_samples_frees_the_worker_that_waited_for_a_seen(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    session_seen(s, 0, 0);
    large_result(b, stream, 0, SESSION_KEPT_BYTES);
    assert_int_equal(count_orders(b, LIVE_WAKE), 0);
    assert_int_equal(session_finish(s, NULL), 0);
    assert_int_equal(count_orders(b, LIVE_WAKE), 1);
}

/* Samples of others fill the room, so that nothing more is read of its client: its Seen lies behind what it sends twice. */
static void a_worker_that_waited_for_a_seen_goes_on_when_none_can_be_read(void **state) {
    struct bench *b = *state;
    struct live_stream *stream, *other;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token), *full = open_one(b, &other);
    assert_int_equal(push(s, 0, 10), 0);
    session_seen(s, 0, 0);
    large_result(b, stream, 0, SESSION_KEPT_BYTES);
    for (int i = 0; i < 5; i++)
        assert_int_equal(push(full, 500 * i, 500), 0);
    assert_int_equal(push(s, 0, 10), 0);
    assert_false(session_room(s));
    assert_int_equal(count_orders(b, LIVE_WAKE), 0);
    sessions_tick(b->all, 1000);
    assert_int_equal(count_orders(b, LIVE_WAKE), 1);
}

static void a_cut_frees_the_worker_from_a_client_that_did_not_read(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    assert_int_equal(push(s, 0, 10), 0);
    session_stall(s, true);
    large_result(b, stream, 0, LIVE_CREDIT_BYTES);
    assert_int_equal(count_orders(b, LIVE_WAKE), 0); /* the samples wait for the client */
    session_leave(s);
    assert_int_equal(count_orders(b, LIVE_WAKE), 1);
}

static void results_that_a_client_may_lack_survive_two_cuts_in_a_row(void **state) {
    enum { EACH = SESSION_KEPT_BYTES / 4, N = 8 };
    struct bench *b = *state;
    struct owner_side next = {0};
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    large_result(b, stream, 0, EACH);
    session_seen(s, 1, 0);
    session_leave(s);
    come_back(s, &next, token, 1, 0);
    for (int i = 1; i < N; i++) /* the second cut comes before the client says what it has */
        large_result(b, stream, i, EACH);
    session_leave(s);
    next = (struct owner_side){0};
    come_back(s, &next, token, 1, 0);
    assert_int_equal(next.results, N - 1);
    assert_true(value(b, "brrd_stream_results_forgotten_total", "ward") == 0);
}

static void a_client_that_never_says_what_it_has_loses_the_oldest(void **state) {
    enum { EACH = SESSION_KEPT_BYTES / 4, N = 9 };
    struct bench *b = *state;
    struct live_stream *stream;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    for (int i = 0; i < N; i++)
        large_result(b, stream, i, EACH);
    assert_int_equal(b->owner.results, N);
    assert_true(session_next_result(s) >= N - 4);
    assert_true(value(b, "brrd_stream_results_forgotten_total", "ward") == (double)session_next_result(s));
}

static void another_open_does_not_go_on_with_the_session(void **state) {
    struct bench *b = *state;
    struct live_stream *stream;
    struct live_open changed = own_open;
    struct err err;
    char token[RESUME_TOKEN_SIZE];
    struct session *s = open_lasting(b, &stream, token);
    assert_int_equal(session_check(s, &own_open, NULL), 0);
    changed.rate_hz = 2 * RATE;
    assert_int_equal(session_check(s, &changed, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "rate_hz"));
    changed = own_open;
    changed.labels = (const char *const[]){"C3", "Cz"};
    assert_int_equal(session_check(s, &changed, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "channels"));
}

/* ---- watching ---- */

struct watcher {
    struct session_watch watch;
    int reports, ended;
};
static void on_watched(struct session_watch *w, const struct live_report *r) { (void)r, ((struct watcher *)w)->reports++; }
static void on_watch_ended(struct session_watch *w) { ((struct watcher *)w)->ended++; }

static void those_who_watch_see_what_the_client_sees_and_the_end(void **state) {
    struct bench *b = *state;
    struct watcher one = {.watch = {.report = on_watched, .ended = on_watch_ended}}, two = one;
    struct live_stream *stream;
    struct session *s = open_one(b, &stream);
    session_watch_start(s, &one.watch);
    session_watch_start(s, &two.watch);
    numbered(b, stream, LIVE_RESULT, 0);
    session_watch_stop(&two.watch);
    struct live_report r = report(stream, LIVE_ALARM);
    r.on = true;
    sessions_report(b->all, &r);
    r = report(stream, LIVE_PROVISIONAL);
    r.probability = 0.75f;
    sessions_report(b->all, &r);
    assert_int_equal(one.reports, 3);
    assert_int_equal(two.reports, 1);
    struct session_state now;
    session_describe(s, &now);
    assert_true(now.alarm && now.connected && now.probability > 0.7f && now.probability < 0.8f);
    struct session *found = NULL;
    assert_int_equal(sessions_by_id(b->all, session_id(s), &found, NULL), 0);
    assert_ptr_equal(found, s);
    session_end(s, "token:nurse", "the bed is empty");
    assert_int_equal(one.ended, 1);
    assert_int_equal(two.ended, 0);
    assert_int_equal(b->owner.err.code, ERR_ABORTED);
    assert_non_null(strstr(b->owner.err.message, "the bed is empty"));
    assert_int_equal(sessions_by_id(b->all, session_id(s), &found, NULL), ERR_NOT_FOUND);
}

static void assert_retry(const struct session *s, int64_t pause) {
    assert_in_range(session_retry_ms(s, "OVERLOADED"), pause / 2, pause);
}

static void a_live_stream_that_waits_too_long_for_the_device_is_shed_once(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    const struct session_request realtime = {.open = &live, .principal = "uid:1", .resumable = true};
    struct owner_side next = {0};
    struct session *s = NULL;
    live.realtime = true;
    assert_int_equal(session_open(b->all, &realtime, &sink, &b->owner, &s, NULL), 0);
    struct live_stream *stream = last(b)->stream;
    struct live_report r = report(stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 0); /* nothing waits */
    assert_int_equal(push(s, 0, 1), 0);
    wait_idle();
    sessions_tick(b->all, 1000);
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 1);
    assert_string_equal(b->owner.reason, "OVERLOADED");
    assert_true(value(b, "brrd_stream_overloads_total", "ward") == 1);
    assert_retry(s, SESSION_RETRY_MS);
    session_leave(s);
    for (int i = 1; i < 8; i++) { /* the device has not caught up: each time the client is asked to wait longer */
        come_back(s, &next, session_token(s), 0, 0);
        sessions_tick(b->all, 1000);
        assert_int_equal(next.failures, i - 1); /* the clock of its lag begins anew */
        wait_idle();
        sessions_tick(b->all, 1000);
        assert_int_equal(next.failures, i);
        int64_t pause = (int64_t)SESSION_RETRY_MS << i;
        assert_retry(s, pause < SESSION_LONGEST_RETRY_MS ? pause : SESSION_LONGEST_RETRY_MS);
        session_leave(s);
    }
    next = (struct owner_side){0};
    consume(b, stream, 1, CHANNELS * WIDTH);
    come_back(s, &next, session_token(s), 0, 0); /* when it has */
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(next.opened, 1);
    assert_int_equal(next.failures, 0);
    assert_retry(s, SESSION_RETRY_MS);
}

static void an_overload_sends_a_stream_of_the_owner_above_its_share_away(void **state) {
    enum { N = 3 };
    struct bench *b = *state;
    struct live_open live = own_open;
    struct session_request realtime = {.open = &live, .resumable = true};
    static const char *const principals[N] = {"token:a", "token:greedy", "token:b"};
    struct owner_side owners[N] = {0};
    struct session *all[N], *more = NULL;
    struct err err;
    live.realtime = true;
    for (int i = 0; i < N; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL); /* each is newer than the one before */
        realtime.principal = principals[i];
        assert_int_equal(session_open(b->all, &realtime, &sink, &owners[i], &all[i], NULL), 0);
        struct live_report r = report(last(b)->stream, LIVE_OPENED);
        atomic_store(&live_stream_turn(last(b)->stream)->owner_us, i == 1 ? 900000 : 200000 + 1000 * i);
        sessions_report(b->all, &r);
        assert_int_equal(push(all[i], 0, 1), 0);
    }
    wait_idle();
    sessions_tick(b->all, 1000);
    for (int i = 0; i < N; i++)
        assert_int_equal(owners[i].failures, i == 1);
    assert_true(session_wait_ms(all[1]) > 0 && !session_wait_ms(all[0]));
    realtime.principal = principals[1];
    assert_int_equal(session_open(b->all, &realtime, &sink, &owners[1], &more, &err), ERR_EXHAUSTED);
    realtime.principal = principals[0];
    assert_int_equal(session_open(b->all, &realtime, &sink, &owners[0], &more, NULL), 0);
}

static void an_overload_sends_few_streams_away_until_the_lag_falls(void **state) {
    enum { N = 10 };
    struct bench *b = *state;
    struct live_open live = own_open;
    const struct session_request realtime = {.open = &live, .principal = "uid:1", .resumable = true};
    struct owner_side owners[N] = {0};
    struct live_stream *streams[N];
    int64_t pauses[N], spread = 0;
    live.realtime = true;
    for (int i = 0; i < N; i++) {
        struct session *s = NULL;
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL); /* each is newer than the one before */
        assert_int_equal(session_open(b->all, &realtime, &sink, &owners[i], &s, NULL), 0);
        streams[i] = last(b)->stream;
        struct live_report r = report(streams[i], LIVE_OPENED);
        sessions_report(b->all, &r);
        pauses[i] = session_retry_ms(s, "OVERLOADED");
        spread += llabs(pauses[i] - pauses[0]);
        assert_int_equal(push(s, 0, 1), 0);
        assert_int_equal(push(s, 1, 1), 0);
    }
    assert_true(spread > 0);
    wait_idle();
    sessions_tick(b->all, 1000);
    for (int i = 0; i < N; i++)
        assert_int_equal(owners[i].failures, i == N - 1); /* the newest */
    nanosleep(&(struct timespec){.tv_nsec = 100 * 1000 * 1000}, NULL);
    sessions_tick(b->all, 1000);
    for (int i = 0; i < N; i++)
        assert_int_equal(owners[i].failures, i >= N - 2);
    for (int i = 0; i < N; i++) { /* the device catches up, but the limit of a millisecond is not met yet */
        consume(b, streams[i], 1, CHANNELS * WIDTH);
        struct session *s = live_stream_owner(streams[i]);
        assert_int_equal(push(s, 2, 1), 0);
        consume(b, streams[i], 1, CHANNELS * WIDTH);
    }
    wait_idle();
    sessions_tick(b->all, 1000);
    for (int i = 0; i < N; i++)
        assert_int_equal(owners[i].failures, i >= N - 2);
}

static void a_client_that_does_not_read_is_not_told_that_the_device_is_late(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    const struct session_request realtime = {.open = &live, .principal = "uid:1", .resumable = true};
    struct session *s = NULL;
    live.realtime = true;
    assert_int_equal(session_open(b->all, &realtime, &sink, &b->owner, &s, NULL), 0);
    struct live_report r = report(last(b)->stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    assert_int_equal(push(s, 0, 1), 0);
    session_stall(s, true); /* the worker may have no credit: what waits, waits for the client */
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 0);
    assert_true(value(b, "brrd_stream_overloads_total", "ward") == 0);
    session_stall(s, false);
    wait_idle();
    sessions_tick(b->all, 1000);
    assert_int_equal(b->owner.failures, 1); /* now it is the device */
}

static void a_live_stream_whose_rate_is_another_one_says_so_in_its_results(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    const struct session_request realtime = {.open = &live, .principal = "uid:1"};
    struct session *s = NULL;
    live.realtime = true;
    assert_int_equal(session_open(b->all, &realtime, &sink, &b->owner, &s, NULL), 0);
    struct live_stream *stream = last(b)->stream;
    struct live_report r = report(stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    numbered(b, stream, LIVE_RESULT, 0);
    assert_true(b->owner.measured_rate_hz <= 0); /* not measured yet */
    pace_restart(&s->flow.pace);
    s->flow.measured_rate_hz = 128;
    numbered(b, stream, LIVE_RESULT, 1);
    assert_true(b->owner.measured_rate_hz > 127);
}

/* Chunks of a second for so long, from this sample and time on: what the last of them said. */
static double looked(struct pace *p, int64_t *now_ms, double *next, double hz, int seconds) {
    double said = -1;
    for (int i = 0; i < seconds; i++) {
        *now_ms += 1000;
        *next += hz;
        const double now = pace_look(p, *now_ms, llround(*next), 60000, 256, 0.02);
        said = now >= 0 ? now : said;
    }
    return said;
}

static void a_rate_is_wrong_when_two_periods_agree_and_a_hiccup_is_none(void **state) {
    (void)state;
    struct pace p = {0};
    int64_t now_ms = 5000;
    double next = 0;
    assert_true(looked(&p, &now_ms, &next, 250, 61) < 0); /* the first period is left out */
    assert_true(looked(&p, &now_ms, &next, 250, 60) < 0); /* one is no proof */
    assert_true(fabs(looked(&p, &now_ms, &next, 250, 60) - 250) < 1);
    assert_true(looked(&p, &now_ms, &next, 256, 60) >= 0 && !(p.off_hz > 0)); /* a good one clears it */
    assert_true(looked(&p, &now_ms, &next, 240, 60) < 0);
    assert_true(looked(&p, &now_ms, &next, 270, 60) < 0); /* two that differ do not agree */
    assert_true(looked(&p, &now_ms, &next, 256, 60) >= 0);
    pace_restart(&p); /* the cable was out, and what was held back arrives at once */
    next += 256 * 20;
    assert_true(looked(&p, &now_ms, &next, 256, 61) < 0);
    assert_true(looked(&p, &now_ms, &next, 256, 60) >= 0 && !(p.off_hz > 0));
}

static void a_pause_between_chunks_begins_the_measurement_anew(void **state) {
    struct bench *b = *state;
    struct live_open live = own_open;
    const struct session_request realtime = {.open = &live, .principal = "uid:1"};
    struct session *s = NULL;
    live.realtime = true;
    assert_int_equal(session_open(b->all, &realtime, &sink, &b->owner, &s, NULL), 0);
    struct live_report r = report(last(b)->stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    assert_int_equal(push(s, 0, 10), 0);
    s->flow.pace = (struct pace){.from_ms = clock_ms() - 3, .first = 1, .off_hz = 50};
    s->flow.newest_ms = clock_ms() - PACE_PAUSE_MS - 200; /* the chunk before came so long ago */
    assert_int_equal(push(s, 10, 10), 0);
    assert_true(s->flow.pace.first == -1 && !(s->flow.pace.off_hz > 0));
}

int main(void) {
#define SESSION_TEST(f)   cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define IMPATIENT_TEST(f) cmocka_unit_test_setup_teardown(f, set_up_impatient, tear_down)
    const struct CMUnitTest tests[] = {
        SESSION_TEST(a_parked_session_goes_on_where_it_was_left),
        SESSION_TEST(only_the_token_and_the_principal_find_a_session),
        SESSION_TEST(a_token_is_hashed_once_and_one_of_another_length_never),
        SESSION_TEST(who_had_the_session_is_told_that_it_was_taken_over),
        IMPATIENT_TEST(a_session_that_nobody_wants_back_expires),
        SESSION_TEST(the_end_of_a_stream_is_told_again_to_a_client_that_missed_it),
        SESSION_TEST(streams_that_are_done_take_no_place_of_those_of_others),
        SESSION_TEST(the_stream_that_was_done_first_makes_room_not_the_longest),
        SESSION_TEST(a_second_half_close_of_a_stream_at_work_is_the_first_one),
        SESSION_TEST(a_failure_while_nobody_listens_is_told_later),
        SESSION_TEST(a_client_that_comes_back_hears_of_the_model_whatever_memory_is_left),
        SESSION_TEST(the_last_word_of_a_stream_is_kept_whatever_memory_is_left),
        SESSION_TEST(results_that_no_client_took_stop_the_worker_and_are_never_dropped),
        SESSION_TEST(the_end_of_the_samples_frees_the_worker_that_waited_for_a_seen),
        SESSION_TEST(a_worker_that_waited_for_a_seen_goes_on_when_none_can_be_read),
        SESSION_TEST(a_cut_frees_the_worker_from_a_client_that_did_not_read),
        SESSION_TEST(results_that_a_client_may_lack_survive_two_cuts_in_a_row),
        SESSION_TEST(a_client_that_never_says_what_it_has_loses_the_oldest),
        SESSION_TEST(another_open_does_not_go_on_with_the_session),
        SESSION_TEST(a_live_stream_whose_rate_is_another_one_says_so_in_its_results),
        cmocka_unit_test(a_rate_is_wrong_when_two_periods_agree_and_a_hiccup_is_none),
        SESSION_TEST(a_pause_between_chunks_begins_the_measurement_anew),
        SESSION_TEST(those_who_watch_see_what_the_client_sees_and_the_end),
        cmocka_unit_test_setup_teardown(a_client_that_does_not_read_is_not_told_that_the_device_is_late, set_up_late, tear_down),
        cmocka_unit_test_setup_teardown(an_overload_sends_few_streams_away_until_the_lag_falls, set_up_late_many, tear_down),
        cmocka_unit_test_setup_teardown(an_overload_sends_a_stream_of_the_owner_above_its_share_away, set_up_late_many, tear_down),
        cmocka_unit_test_setup_teardown(a_live_stream_that_waits_too_long_for_the_device_is_shed_once, set_up_late, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
