/* session_fixture: sessions between a worker's side that keeps the orders and an owner's side that counts what it is told. */
#pragma once

#include "base/base.h"
#include "daemon/live/session.h"
#include "unit/cmocka_all.h"

/* The device worker's side: orders are kept, or not taken at all. */
enum { MAX_ORDERS = 256 };
struct worker_side {
    struct live_order *orders[MAX_ORDERS];
    int n, refuse; /* refuse: how many orders are not taken from now on */
};

static inline bool take(void *ctx, struct live_order *o) {
    struct worker_side *w = ctx;
    if (w->refuse > 0 || w->n == MAX_ORDERS) {
        w->refuse--;
        return false;
    }
    w->orders[w->n++] = o;
    return true;
}

/* The owner's side: what the session told it. */
struct owner_side {
    double measured_rate_hz; /* of the newest result */
    int opened, results, provisional, alarms, progress, summaries, failures, draining;
    int traces; /* results and provisional values that came with probabilities */
    struct err err;
    char reason[32];
    struct session *close_in_failed; /* closed by the callback itself */
};

static inline void on_opened(void *owner, const struct live_opened *o) { (void)o, ((struct owner_side *)owner)->opened++; }
static inline void on_result(void *owner, const struct live_report *r) {
    ((struct owner_side *)owner)->results++;
    ((struct owner_side *)owner)->traces += r->p != NULL;
    ((struct owner_side *)owner)->measured_rate_hz = r->measured_rate_hz;
}
static inline void on_provisional(void *owner, const struct live_report *r) {
    ((struct owner_side *)owner)->provisional++;
    ((struct owner_side *)owner)->traces += r->p != NULL;
}
static inline void on_alarm(void *owner, const struct live_report *r) { (void)r, ((struct owner_side *)owner)->alarms++; }
static inline void on_progress(void *owner) { ((struct owner_side *)owner)->progress++; }
static inline void on_summary(void *owner, const struct live_report *r) { (void)r, ((struct owner_side *)owner)->summaries++; }
static inline void on_failed(void *owner, const struct err *err, const char *reason) {
    struct owner_side *o = owner;
    o->failures++;
    o->err = *err;
    str_copy(o->reason, sizeof o->reason, reason ? reason : "");
    if (o->close_in_failed)
        session_close(o->close_in_failed, "failed");
}
static inline void on_draining(void *owner, int64_t retry_ms, const char *reason) {
    (void)retry_ms, (void)reason, ((struct owner_side *)owner)->draining++;
}
static const struct session_sink sink = {.opened = on_opened,
                                         .result = on_result,
                                         .provisional = on_provisional,
                                         .alarm = on_alarm,
                                         .progress = on_progress,
                                         .summary = on_summary,
                                         .draining = on_draining,
                                         .failed = on_failed};

static const struct metric_family families[] = {
    GAUGE("brrd_stream_sessions", "Open.", ""),
    COUNTER("brrd_stream_sessions_opened_total", "Opened.", "model"),
    COUNTER("brrd_stream_sessions_closed_total", "Closed.", "model,reason"),
    COUNTER("brrd_stream_samples_lost_total", "Lost.", "model,cause"),
    COUNTER("brrd_stream_duplicate_chunks_total", "Duplicates.", "model"),
    COUNTER("brrd_stream_seizure_events_total", "Events.", "model"),
    GAUGE("brrd_stream_buffered_bytes", "Bytes.", ""),
    GAUGE("brrd_viewer_bytes", "Bytes.", ""),
    COUNTER("brrd_stream_snapshots_total", "Snapshots.", "model,result"),
    COUNTER("brrd_stream_overloads_total", "Overloads.", "model"),
    GAUGE("brrd_stream_sessions_parked", "Parked.", ""),
    COUNTER("brrd_stream_results_forgotten_total", "Forgotten.", "model"),
};

struct bench {
    struct worker_side worker;
    struct owner_side owner;
    struct metrics *metrics;
    struct sessions *all;
};

static const char *const labels[] = {"C3", "C4"};
enum { CHANNELS = 2, RATE = 100, WIDTH = 4, MANY = 100 };

static inline int set_up_with(void **state, int64_t idle_ms, int64_t lag_ms, int max_sessions) {
    struct bench *b = calloc(1, sizeof *b);
    b->metrics = metrics_new(families, sizeof families / sizeof *families, 16);
    const struct sessions_config config = {.post = take,
                                           .post_ctx = &b->worker,
                                           .metrics = b->metrics,
                                           .max_sessions = max_sessions,
                                           .shared = max_sessions == MANY,
                                           .idle_ms = idle_ms,
                                           .resume_ttl_ms = idle_ms,
                                           .measure_ms = 5,
                                           .lag_ms = lag_ms,
                                           .max_waiting_bytes = 16384};
    b->all = sessions_new(&config);
    *state = b;
    return b->metrics && b->all ? 0 : -1;
}

static inline int set_up(void **state) { return set_up_with(state, 3600 * 1000, 0, 2); }
static inline int set_up_late(void **state) { return set_up_with(state, 3600 * 1000, 1, 2); }
static inline int set_up_late_many(void **state) { return set_up_with(state, 3600 * 1000, 1, MANY); }
static inline int set_up_impatient(void **state) { return set_up_with(state, 1, 0, 2); }

static inline int tear_down(void **state) {
    struct bench *b = *state;
    for (int i = 0; i < b->worker.n; i++)
        live_order_free(b->worker.orders[i]);
    sessions_free(b->all);
    metrics_free(b->metrics);
    free(b);
    return 0;
}

static const struct live_open own_open = {.checkpoint = "/m",
                                          .model = "ward",
                                          .labels = labels,
                                          .n_labels = CHANNELS,
                                          .rate_hz = RATE,
                                          .format = LIVE_F32_UV,
                                          .on = 0.61,
                                          .off = 0.52,
                                          .alarm_rate = 5,
                                          .partial = 7,
                                          .want_probabilities = true};

static const struct session_request request = {.open = &own_open, .principal = "uid:1"};

static inline struct live_report report(struct live_stream *stream, enum live_report_kind kind) {
    return (struct live_report){.message = {.kind = (int)kind}, .stream = stream, .running = -1};
}

static inline const struct live_order *last(const struct bench *b) {
    return b->worker.n ? b->worker.orders[b->worker.n - 1] : NULL;
}

static inline int count_orders(const struct bench *b, enum live_order_kind kind) {
    int n = 0;
    for (int i = 0; i < b->worker.n; i++)
        n += b->worker.orders[i]->message.kind == (int)kind;
    return n;
}

/* A session that the worker has opened, and the stream by which the worker knows it. */
static inline struct session *open_as(struct bench *b, const struct session_request *with, struct live_stream **ret_stream) {
    struct session *s = NULL;
    assert_int_equal(session_open(b->all, with, &sink, &b->owner, &s, NULL), 0);
    assert_int_equal(last(b)->message.kind, LIVE_OPEN);
    *ret_stream = last(b)->stream;
    struct live_report r = report(*ret_stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    return s;
}
static inline struct session *open_one(struct bench *b, struct live_stream **ret_stream) {
    return open_as(b, &request, ret_stream);
}

static inline int push(struct session *s, int64_t first, int64_t samples) {
    size_t len = (size_t)(samples * CHANNELS * WIDTH);
    uint8_t *data = calloc(1, len + 1);
    struct err err = {0};
    int rc = session_chunk(s, first, samples, data, len, &err);
    free(data);
    return rc;
}

static inline void consume(struct bench *b, struct live_stream *stream, int64_t samples, int64_t bytes) {
    struct live_report r = report(stream, LIVE_CONSUMED);
    r.samples = samples;
    r.data_bytes = bytes;
    sessions_report(b->all, &r);
}

static inline void closed(struct bench *b, struct live_stream *stream) {
    struct live_report r = report(stream, LIVE_CLOSED);
    sessions_report(b->all, &r);
}

static inline double value(const struct bench *b, const char *family, const char *labels_) {
    return metric_value(metrics_series(b->metrics, family, labels_));
}

/* Past the idle_ms of the impatient. */
static inline void wait_idle(void) { nanosleep(&(struct timespec){.tv_nsec = 5 * 1000 * 1000}, NULL); }

/* ---- clients that come back ---- */

static const struct session_request lasting = {.open = &own_open, .client = "bed 7", .principal = "uid:1", .resumable = true};

static inline struct session *open_lasting(struct bench *b, struct live_stream **ret_stream, char token[RESUME_TOKEN_SIZE]) {
    struct session *s = NULL;
    assert_int_equal(session_open(b->all, &lasting, &sink, &b->owner, &s, NULL), 0);
    *ret_stream = last(b)->stream;
    struct live_report r = report(*ret_stream, LIVE_OPENED);
    sessions_report(b->all, &r);
    str_copy(token, RESUME_TOKEN_SIZE, session_token(s));
    assert_int_equal(strlen(token), RESUME_TOKEN_SIZE - 1);
    return s;
}

static inline void numbered(struct bench *b, struct live_stream *stream, enum live_report_kind kind, int64_t seq) {
    struct live_report r = report(stream, kind);
    r.seq = seq;
    sessions_report(b->all, &r);
}

static inline void come_back(struct session *s, struct owner_side *owner, const char *token, int64_t next_result,
                             int64_t next_alarm) {
    session_resume(s, &(struct session_return){
                          .token = token, .sink = &sink, .owner = owner, .next_result = next_result, .next_alarm = next_alarm});
}

/* A result whose values take `bytes`. */
static inline void large_result(struct bench *b, struct live_stream *stream, int64_t seq, int64_t bytes) {
    struct live_report r = report(stream, LIVE_RESULT);
    r.seq = seq;
    r.samples = bytes / (int64_t)sizeof *r.p;
    r.p = calloc((size_t)r.samples, sizeof *r.p);
    r.bytes = bytes;
    live_stream_release(stream, -bytes); /* as the worker charges it */
    sessions_report(b->all, &r);
    free(r.p);
}

/* A register in which one alarm is on, in the session of `on`; what it took of another one. */
struct ledger {
    char on[SESSION_ID_SIZE];
    int moved, received;
};

static inline int64_t ledger_on_in(void *ctx, const char *session, char ret[JOURNAL_ALARM]) {
    journal_alarm_id(session, 5, ret);
    return strcmp(((struct ledger *)ctx)->on, session) != 0 ? -1 : 5;
}

static inline int ledger_give(void *ctx, const char *session, struct journal_entry ret[SESSION_GIVEN]) {
    char id[JOURNAL_ALARM];
    ret[0] = (struct journal_entry){.kind = JOURNAL_ALARM_ON, .number = 5, .start_s = 5. / 256};
    journal_alarm_id(session, 5, ret[0].alarm);
    str_copy(ret[0].session, sizeof ret[0].session, session);
    return ledger_on_in(ctx, session, id) >= 0;
}

static inline bool ledger_receive(void *ctx, struct journal_entry *list, int n) {
    struct ledger *l = ctx;
    assert_true(n == 1 && list[0].number == 5);
    str_copy(l->on, sizeof l->on, list[0].session);
    l->received++;
    return true;
}

static inline bool ledger_settle(void *ctx, int (*place)(void *sessions, const char *session), void *sessions) {
    struct ledger *l = ctx;
    const int where = *l->on ? place(sessions, l->on) : SESSION_HERE;
    if (where != SESSION_ELSEWHERE)
        return where != SESSION_PLACE_ASKED;
    l->moved++;
    l->on[0] = '\0';
    return true;
}
