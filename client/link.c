#include "client/link.h"

#include <sys/random.h>

enum {
    FIRST_PAUSE_MS = 100,
    LONGEST_PAUSE_MS = 2000,
    LONGEST_HINT_MS = 60 * 1000,
    LONGEST_TTL_MS = 24 * 3600 * 1000,
    SEEN_MS = 1000,
    SEEN_BYTES = 128 * 1024
};

int link_fail(struct link *l, int code, const char *text) {
    if (l->state != LINK_FAILED)
        conn_error(&l->error, code, "%s", text);
    l->state = LINK_FAILED;
    return l->error.code;
}

static bool resumable(const struct link *l) { return l->resume_ms > 0 && *l->token; }

/* ---- connections ---- */

/* Calls with the first Open, or with one that continues its session. */
static int connect_now(struct link *l, struct brr_error *err) {
    const struct conn_open open = {
        .method = "/brr.v1.Stream/Run", .deadline_ms = -1, .queue = l->queue, .owner = l->owner, .endpoint = l->endpoint};
    l->open_sent = l->closed = l->draining = false;
    int rc = conn_call_open(l->client, &open, &l->call, err);
    if (rc)
        return rc;
    l->state = LINK_OPENING;
    return 0;
}

int link_start(struct link *l, const Brr__V1__Open *open, struct brr_error *err) {
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_OPEN;
    m.open = (Brr__V1__Open *)(uintptr_t)open;
    l->open_len = brr__v1__client_message__get_packed_size(&m);
    if (!(l->open = malloc(l->open_len)))
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a stream");
    brr__v1__client_message__pack(&m, l->open);
    return connect_now(l, err);
}

static uint32_t random_bits(void) {
    uint32_t bits = 0;
    if (getrandom(&bits, sizeof bits, GRND_NONBLOCK) != (ssize_t)sizeof bits)
        bits = (uint32_t)clock_ms();
    return bits;
}

int64_t link_pause_ms(const struct link *l, int64_t retry_after_ms, uint32_t random) {
    const double share = (double)random * 0x1p-32;
    int64_t pause = l->attempts < 6 ? (int64_t)FIRST_PAUSE_MS << l->attempts : LONGEST_PAUSE_MS;
    if (pause > LONGEST_PAUSE_MS)
        pause = LONGEST_PAUSE_MS;
    pause = pause / 2 + (int64_t)(share * (double)(pause / 2 + 1));
    int64_t most = l->resume_ms / 2 < LONGEST_HINT_MS ? l->resume_ms / 2 : LONGEST_HINT_MS;
    int64_t hint = retry_after_ms < most ? retry_after_ms : most;
    return hint > pause ? hint + (int64_t)(share * (double)(hint / 4)) : pause;
}

static bool is_unknown(const struct brr_error *e) { return !strcmp(e->reason, "SESSION_UNKNOWN"); }

/* A daemon that restarts is back within seconds and has the stream's state in memory by then; after move_ms, and if this daemon
 * does not know the session, the next one is tried. */
static void choose_endpoint(struct link *l, int64_t now) {
    const int n = conn_endpoints(l->client);
    bool unknown = is_unknown(&l->error);
    if (unknown)
        l->unknown |= 1U << l->endpoint;
    if (n > 1 && (unknown || (l->away_since_ms && now - l->away_since_ms >= l->move_ms)))
        l->endpoint = (l->endpoint + 1) % n;
}

/* Some daemon has not been asked for the session. */
static bool may_be_elsewhere(const struct link *l) {
    const int n = conn_endpoints(l->client);
    return n > 1 && l->unknown != (1U << n) - 1;
}

static void go_away(struct link *l, int64_t retry_after_ms) {
    int64_t now = clock_ms();
    choose_endpoint(l, now);
    conn_call_close(l->call);
    l->call = NULL;
    l->retry_at_ms = now + link_pause_ms(l, retry_after_ms, random_bits());
    l->attempts++;
    if (!l->away_since_ms)
        l->away_since_ms = now;
    l->state = LINK_AWAY;
}

/* True if the same session may answer at another attempt: what the transport says, a daemon that stops, or that asks to wait. */
static bool passing(const struct brr_error *e) {
    return !*e->reason || !strcmp(e->reason, "DRAINING") || is_unknown(e) || e->retry_after_ms > 0;
}

/* A daemon that cannot be reached begins no stream: the next one does. */
static void begin_elsewhere(struct link *l) {
    struct brr_error err;
    conn_call_close(l->call);
    l->call = NULL;
    l->endpoint++;
    if (connect_now(l, &err))
        link_fail(l, err.code, err.message);
}

static void on_end(struct link *l) {
    struct brr_error status = {0};
    const bool fine = conn_call_status(l->call, &status) == 0;
    if (l->in.summed || (fine && l->state == LINK_RUNNING && l->closed)) { /* with the summary all that matters has come */
        l->state = LINK_ENDED;
        return;
    }
    if (fine)
        conn_error(&status, BRR_INTERNAL, "the daemon ended the stream before its recording ended");
    l->error = status;
    if (resumable(l) && passing(&status))
        go_away(l, strcmp(status.reason, "DRAINING") != 0 ? status.retry_after_ms : 0);
    else if (!l->opened && status.code == BRR_UNAVAILABLE && l->endpoint + 1 < conn_endpoints(l->client))
        begin_elsewhere(l);
    else
        l->state = LINK_FAILED;
}

static void give_up(struct link *l) {
    struct brr_error last = l->error;
    l->state = LINK_FAILED;
    conn_error(&l->error, BRR_UNAVAILABLE,
               "the daemon did not come back within %lld s; samples from %lld on have no durable result, so run the rest again",
               (long long)(l->resume_ms / 1000), (long long)l->durable);
    str_copy(l->error.cause, sizeof l->error.cause, last.message);
    str_copy(l->error.reason, sizeof l->error.reason, last.reason);
}

/* ---- in ---- */

/* The daemon counts its time from the cut that it notices, and anew when it restarts, which may be later than this side's count: a
 * short time of the daemon makes this side give up no earlier. */
static void learn_ttl(struct link *l, int64_t ttl_ms) {
    if (ttl_ms > LONGEST_TTL_MS)
        ttl_ms = LONGEST_TTL_MS;
    if (l->follow_ttl && ttl_ms > l->resume_ms)
        l->resume_ms = ttl_ms;
}

/* The session continues, or one that had nothing durable begins anew from sample 0. */
static void on_opened_again(struct link *l, Brr__V1__ServerMessage *m) {
    const Brr__V1__Opened *o = m->opened, *first = l->opened->opened;
    const int64_t away_ms = clock_ms() - l->away_since_ms;
    if (strcmp(o->model_sha256, first->model_sha256) != 0) {
        link_fail(l, BRR_ABORTED, "the daemon now serves another model under this name; run the recording again");
    } else if (!o->resumed && l->out.dropped_through > 0) {
        link_fail(l, BRR_ABORTED,
                  "the daemon no longer has the session: it was away for longer than limits.resume_ttl, or its snapshot is "
                  "missing; run the recording again");
        str_copy(l->error.reason, sizeof l->error.reason, "SESSION_EXPIRED");
    } else if (!outbox_rewind(&l->out, o->next_sample)) {
        link_fail(l, BRR_DATA_LOSS,
                  l->unsaved ? "the daemon restarted while it could not write snapshots (paths.results), so the state of the "
                               "stream is lost; open a new stream"
                             : "the daemon asks for samples that it had acknowledged as durable; run the recording again");
    }
    if (l->state == LINK_FAILED) {
        inbox_free_message(m);
        return;
    }
    str_copy(l->session_id, sizeof l->session_id, o->session_id);
    if (*o->resume_token)
        str_copy(l->token, sizeof l->token, o->resume_token);
    learn_ttl(l, o->resume_ttl_ms);
    l->state = LINK_RUNNING;
    l->attempts = 0;
    l->unknown = 0;
    l->away_since_ms = 0;
    l->reconnects++;
    l->seen_results = l->in.next_result_seq; /* Open named them */
    l->seen_alarms = l->in.next_alarm_seq;
    inbox_add(&l->in, m, away_ms, NULL);
}

static void on_opened(struct link *l, Brr__V1__ServerMessage *m) {
    if (l->state != LINK_OPENING) { /* a second one on a connection says nothing new */
        inbox_free_message(m);
        return;
    }
    if (l->opened) {
        on_opened_again(l, m);
        return;
    }
    l->opened = m;
    str_copy(l->session_id, sizeof l->session_id, m->opened->session_id);
    if (l->resume_ms > 0)
        str_copy(l->token, sizeof l->token, m->opened->resume_token);
    learn_ttl(l, m->opened->resume_ttl_ms);
    l->out.keep = l->in.numbered = resumable(l);
    l->state = LINK_RUNNING;
}

static void on_ack(struct link *l, const Brr__V1__Ack *ack) {
    if (ack->received_through > l->received)
        l->received = ack->received_through;
    if (ack->durable_through > l->durable)
        l->durable = ack->durable_through;
    l->unsaved = ack->unsaved;
    if (l->out.keep)
        outbox_durable(&l->out, l->durable);
}

static void arrive(struct link *l, const uint8_t *data, size_t len) {
    Brr__V1__ServerMessage *m = inbox_unpack(data, len);
    struct brr_error err;
    if (!m) {
        link_fail(l, BRR_INTERNAL, "a message of the daemon cannot be read; client and daemon differ in version?");
    } else if (m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_OPENED) {
        on_opened(l, m);
    } else if (m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_ACK || m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_DRAINING) {
        if (m->kind_case == BRR__V1__SERVER_MESSAGE__KIND_ACK)
            on_ack(l, m->ack);
        else
            l->draining = resumable(l); /* samples wait for the daemon's successor */
        inbox_free_message(m);
    } else if (inbox_add(&l->in, m, 0, &err)) {
        l->error = err;
        l->state = LINK_FAILED;
    }
}

/* ---- out ---- */

static void send_open(struct link *l) {
    l->open_sent = true;
    if (!*l->token) {
        conn_call_send(l->call, l->open, l->open_len, false);
        return;
    }
    Brr__V1__ClientMessage *m = brr__v1__client_message__unpack(NULL, l->open_len, l->open);
    uint8_t *bytes = NULL;
    if (m) {
        char *token = m->open->resume_token;
        m->open->resume_token = l->token;
        m->open->next_result_seq = l->in.next_result_seq;
        m->open->next_alarm_seq = l->in.next_alarm_seq;
        m->open->resume_only = may_be_elsewhere(l);
        if ((bytes = malloc(brr__v1__client_message__get_packed_size(m))))
            conn_call_send(l->call, bytes, brr__v1__client_message__pack(m, bytes), false);
        m->open->resume_token = token;
        brr__v1__client_message__free_unpacked(m, NULL);
    }
    if (!bytes)
        link_fail(l, BRR_EXHAUSTED, "out of memory for a stream");
    free(bytes);
}

static bool has_unseen(const struct link *l) {
    return l->in.numbered && !l->closed && (l->in.next_result_seq > l->seen_results || l->in.next_alarm_seq > l->seen_alarms);
}

/* Results that this side has need not be kept for it. */
static void send_seen(struct link *l) {
    Brr__V1__ClientMessage m = BRR__V1__CLIENT_MESSAGE__INIT;
    Brr__V1__Seen seen = BRR__V1__SEEN__INIT;
    uint8_t bytes[64];
    seen.next_result_seq = l->seen_results = l->in.next_result_seq;
    seen.next_alarm_seq = l->seen_alarms = l->in.next_alarm_seq;
    m.kind_case = BRR__V1__CLIENT_MESSAGE__KIND_SEEN;
    m.seen = &seen;
    conn_call_send(l->call, bytes, brr__v1__client_message__pack(&m, bytes), false);
    l->seen_at_ms = clock_ms();
    l->in.unseen_bytes = 0;
}

static void send_next(struct link *l) {
    if (l->closed || !conn_call_sendable(l->call))
        return;
    if (!l->open_sent) {
        send_open(l);
    } else if (l->state != LINK_RUNNING || l->draining) {
        return;
    } else if (has_unseen(l) && (l->in.unseen_bytes >= SEEN_BYTES || clock_ms() - l->seen_at_ms >= SEEN_MS)) {
        send_seen(l);
    } else if (l->out.unsent) {
        conn_call_send(l->call, l->out.unsent->data, l->out.unsent->len, false);
        outbox_sent(&l->out);
    }
    if (l->state == LINK_RUNNING && !l->out.unsent && l->finished && conn_call_sendable(l->call)) {
        l->closed = true;
        conn_call_half_close(l->call);
    }
}

/* ---- both ---- */

bool link_advance(struct link *l) {
    struct brr_error err;
    size_t len = 0;
    uint8_t *data;
    if (l->state == LINK_ENDED || l->state == LINK_FAILED)
        return false;
    if (l->away_since_ms && clock_ms() - l->away_since_ms >= l->resume_ms) {
        give_up(l);
        return true;
    }
    if (l->state == LINK_AWAY) {
        if (clock_ms() < l->retry_at_ms)
            return false;
        if (connect_now(l, &err))
            link_fail(l, err.code, err.message);
        return true;
    }
    send_next(l);
    if (!inbox_full(&l->in))
        conn_call_receive(l->call);
    if ((data = conn_call_take(l->call, &len))) {
        arrive(l, data, len);
        free(data);
        if (l->state != LINK_FAILED)
            send_next(l);
        return true;
    }
    if (!conn_call_ended(l->call))
        return false;
    on_end(l);
    return true;
}

static void sooner(int64_t *due, int64_t at, int64_t now) {
    int64_t left = at > now ? at - now : 0;
    if (*due < 0 || left < *due)
        *due = left;
}

int64_t link_due_ms(const struct link *l) {
    int64_t now = clock_ms(), due = -1;
    if (l->state == LINK_ENDED || l->state == LINK_FAILED)
        return -1;
    if (l->away_since_ms)
        sooner(&due, l->away_since_ms + l->resume_ms, now);
    if (l->state == LINK_AWAY)
        sooner(&due, l->retry_at_ms, now);
    if (l->state == LINK_RUNNING && has_unseen(l) && !l->draining && conn_call_sendable(l->call))
        sooner(&due, l->seen_at_ms + SEEN_MS, now);
    return due;
}

void link_done(struct link *l) {
    conn_call_close(l->call);
    outbox_done(&l->out);
    inbox_done(&l->in);
    inbox_free_message(l->opened);
    free(l->open);
}
