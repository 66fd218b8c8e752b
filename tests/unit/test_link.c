#include "client/link.h"

#include "unit/cmocka_all.h"

/* ---- the connection's side: one call at a time, whose answers the test has put down ---- */

struct conn_call {
    uint8_t *answers[8];
    size_t lens[8];
    int first, n;
    struct brr_error status;
    bool ended;
};
static struct conn_call *now;
static Brr__V1__ClientMessage *sent;    /* the newest message */
static int sends, endpoints = 1, asked; /* asked: the endpoint of the newest call */
int conn_endpoints(const struct brr_client *client) {
    (void)client;
    return endpoints;
}

int conn_error(struct brr_error *err, int code, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    if (err) {
        memset(err, 0, sizeof *err);
        err->code = code;
        vsnprintf(err->message, sizeof err->message, fmt, args);
    }
    va_end(args);
    return code;
}
int conn_call_open(struct brr_client *client, const struct conn_open *o, struct conn_call **ret, struct brr_error *err) {
    (void)client, (void)err;
    asked = o->endpoint;
    *ret = now = calloc(1, sizeof *now);
    return 0;
}
void conn_call_close(struct conn_call *c) {
    for (int i = 0; c && i < c->n; i++)
        free(c->answers[i]);
    if (c == now)
        now = NULL;
    free(c);
}
bool conn_call_sendable(const struct conn_call *c) { return !c->ended; }
void conn_call_send(struct conn_call *c, const void *data, size_t len, bool last) {
    (void)c, (void)last;
    if (sent)
        brr__v1__client_message__free_unpacked(sent, NULL);
    sent = brr__v1__client_message__unpack(NULL, len, data);
    sends++;
}
void conn_call_half_close(struct conn_call *c) { (void)c; }
void conn_call_receive(struct conn_call *c) { (void)c; }
uint8_t *conn_call_take(struct conn_call *c, size_t *ret_len) {
    if (c->first == c->n)
        return NULL;
    uint8_t *data = c->answers[c->first];
    c->answers[c->first] = NULL;
    *ret_len = c->lens[c->first++];
    return data;
}
bool conn_call_ended(const struct conn_call *c) { return c->ended && c->first == c->n; }
int conn_call_status(const struct conn_call *c, struct brr_error *err) {
    *err = c->status;
    return c->status.code;
}

/* ---- what the daemon says ---- */

static void answer(const Brr__V1__ServerMessage *m) {
    size_t len = brr__v1__server_message__get_packed_size(m);
    int i = now->n++;
    now->answers[i] = malloc(len + 1);
    now->lens[i] = brr__v1__server_message__pack(m, now->answers[i]);
}

static int64_t ttl_ms; /* Opened.resume_ttl_ms */

static void say_opened(bool resumed, int64_t next_sample) {
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Opened o = BRR__V1__OPENED__INIT;
    o.session_id = "1";
    o.max_chunk_samples = 1000;
    o.window_s = 16;
    o.hop_s = 1;
    o.model_sha256 = "00";
    o.resume_token = "token";
    o.resumed = resumed;
    o.next_sample = next_sample;
    o.resume_ttl_ms = ttl_ms;
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_OPENED;
    m.opened = &o;
    answer(&m);
}

static void cut(void) {
    now->ended = true;
    conn_error(&now->status, BRR_UNAVAILABLE, "the connection was lost");
}

static void advance(struct link *l) {
    for (int i = 0; i < 100 && link_advance(l); i++) {
    }
}

static void wait_until_back(struct link *l) {
    while (l->state == LINK_AWAY) {
        nanosleep(&(struct timespec){.tv_nsec = 2 * 1000 * 1000}, NULL);
        link_advance(l);
    }
    assert_int_equal(l->state, LINK_OPENING);
    advance(l);
}

static void push(struct link *l, int64_t first, int32_t samples) {
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Chunk chunk = BRR__V1__CHUNK__INIT;
    chunk.first_sample = first;
    chunk.samples = samples;
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_CHUNK;
    m.chunk = &chunk;
    assert_true(outbox_add(&l->out, &m.base, first + samples));
    advance(l);
}

static int set_up(void **state) {
    struct link *l = calloc(1, sizeof *l);
    Brr__V1__Open open = BRR__V1__OPEN__INIT;
    l->resume_ms = 120000;
    assert_int_equal(link_start(l, &open, NULL), 0);
    say_opened(false, 0);
    advance(l);
    assert_int_equal(l->state, LINK_RUNNING);
    *state = l;
    return 0;
}

static int tear_down(void **state) {
    link_done(*state);
    free(*state);
    if (sent)
        brr__v1__client_message__free_unpacked(sent, NULL);
    sent = NULL;
    return 0;
}

/* ---- tests ---- */

static void clients_that_were_shed_together_come_back_one_by_one(void **state) {
    enum { N = 16, HINT_MS = 7000 };
    struct link *l = *state;
    int64_t before = -1;
    for (uint32_t i = 0; i < N; i++) {
        int64_t pause = link_pause_ms(l, HINT_MS, i << 28);
        assert_in_range(pause, HINT_MS, HINT_MS + HINT_MS / 4);
        assert_true(pause > before);
        before = pause;
    }
    assert_in_range(link_pause_ms(l, 3600 * 1000, UINT32_MAX), 60000, 75000); /* the hint is bounded */
    assert_in_range(link_pause_ms(l, 0, 0), 50, 51);                          /* half of the first pause, and up to as much again */
    assert_in_range(link_pause_ms(l, 0, UINT32_MAX), 100, 101);
    l->attempts = 100;
    assert_in_range(link_pause_ms(l, 0, UINT32_MAX), 1999, 2000);
}

static void after_a_cut_the_daemon_says_from_where_to_send_again(void **state) {
    struct link *l = *state;
    push(l, 0, 10);
    push(l, 10, 10);
    assert_int_equal(sent->chunk->first_sample, 10);
    cut();
    advance(l);
    assert_int_equal(l->state, LINK_AWAY);
    wait_until_back(l);
    assert_string_equal(sent->open->resume_token, "token");
    say_opened(true, 10);
    advance(l);
    assert_int_equal(l->state, LINK_RUNNING);
    assert_int_equal(sent->chunk->first_sample, 10);
    assert_int_equal(l->reconnects, 1);
}

/* Opened of a stream without a time of its own, from a daemon with this one: how long the link tries then. */
static int64_t tries_ms(struct link *l, int64_t daemon_ms) {
    l->follow_ttl = true;
    ttl_ms = daemon_ms;
    cut();
    advance(l);
    wait_until_back(l);
    say_opened(true, 0);
    advance(l);
    ttl_ms = 0;
    assert_int_equal(l->state, LINK_RUNNING);
    return l->resume_ms;
}

static void a_stream_tries_for_as_long_as_its_daemon_keeps_the_session(void **state) {
    struct link *l = *state;
    assert_int_equal(tries_ms(l, 0), 120000); /* a daemon that does not say */
    assert_int_equal(tries_ms(l, 1000), 120000);
    assert_int_equal(tries_ms(l, 3600 * 1000), 3600 * 1000);
    assert_int_equal(tries_ms(l, INT64_MAX), 24 * 3600 * 1000);
}

static void resume_ms_of_the_program_is_kept_whatever_the_daemon_says(void **state) {
    Brr__V1__Open open = BRR__V1__OPEN__INIT;
    (void)state;
    for (int follows = 0; follows < 2; follows++) {
        struct link *l = calloc(1, sizeof *l);
        l->resume_ms = 120000;
        l->follow_ttl = follows;
        assert_int_equal(link_start(l, &open, NULL), 0);
        ttl_ms = 600000;
        say_opened(false, 0);
        advance(l);
        ttl_ms = 0;
        assert_int_equal(l->resume_ms, follows ? 600000 : 120000);
        link_done(l);
        free(l);
    }
}

static void say_ack(int64_t durable, bool unsaved) {
    Brr__V1__ServerMessage m = BRR__V1__SERVER_MESSAGE__INIT;
    Brr__V1__Ack ack = BRR__V1__ACK__INIT;
    ack.received_through = ack.durable_through = durable;
    ack.unsaved = unsaved;
    m.kind_case = BRR__V1__SERVER_MESSAGE__KIND_ACK;
    m.ack = &ack;
    answer(&m);
}

static void a_stream_without_snapshots_holds_no_samples_and_ends_with_the_daemon(void **state) {
    struct link *l = *state;
    push(l, 0, 10);
    say_ack(10, true);
    advance(l);
    assert_true(l->unsaved);
    assert_null(l->out.first);
    cut();
    advance(l);
    wait_until_back(l);
    say_opened(true, 4);
    advance(l);
    assert_int_equal(l->state, LINK_FAILED);
    assert_int_equal(l->error.code, BRR_DATA_LOSS);
    assert_non_null(strstr(l->error.message, "could not write snapshots"));
}

static void say_unknown(void) {
    now->ended = true;
    conn_error(&now->status, BRR_UNAVAILABLE, "this daemon does not have the session");
    str_copy(now->status.reason, sizeof now->status.reason, "SESSION_UNKNOWN");
}

static void a_stream_moves_to_the_next_daemon_when_its_own_stays_away(void **state) {
    struct link *l = *state;
    endpoints = 3;
    l->move_ms = 60 * 1000;
    cut();
    advance(l);
    wait_until_back(l);
    assert_int_equal(asked, 0); /* it may be about to come back */
    l->move_ms = 0;
    cut();
    advance(l);
    wait_until_back(l);
    assert_int_equal(asked, 1);
    assert_true(sent->open->resume_only);
    assert_string_equal(sent->open->resume_token, "token");
    say_opened(true, 0);
    advance(l);
    assert_int_equal(l->state, LINK_RUNNING);
    assert_int_equal(l->endpoint, 1);
}

static void a_stream_begins_anew_only_when_no_daemon_knows_it(void **state) {
    struct link *l = *state;
    endpoints = 2;
    l->move_ms = 60 * 1000;
    cut();
    advance(l);
    wait_until_back(l);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(asked, i);
        assert_true(sent->open->resume_only);
        say_unknown();
        advance(l);
        wait_until_back(l);
    }
    assert_false(sent->open->resume_only);
    say_opened(false, 0); /* nothing was durable: nothing is lost */
    advance(l);
    assert_int_equal(l->state, LINK_RUNNING);
}

int main(void) {
#define LINK_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        LINK_TEST(clients_that_were_shed_together_come_back_one_by_one),
        LINK_TEST(after_a_cut_the_daemon_says_from_where_to_send_again),
        LINK_TEST(a_stream_tries_for_as_long_as_its_daemon_keeps_the_session),
        cmocka_unit_test(resume_ms_of_the_program_is_kept_whatever_the_daemon_says),
        LINK_TEST(a_stream_without_snapshots_holds_no_samples_and_ends_with_the_daemon),
        LINK_TEST(a_stream_moves_to_the_next_daemon_when_its_own_stays_away),
        LINK_TEST(a_stream_begins_anew_only_when_no_daemon_knows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
