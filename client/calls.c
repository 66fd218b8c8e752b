/* Calls as bytes: one request and one answer, or many messages either way. */

#include "client/conn.h"

enum { CALL_TIMEOUT_MS = 30000 };

struct brr_rpc {
    struct conn_call *call;
    uint8_t *message; /* the one given out last */
};

/* Remaining time of a timeout that began at `start`; -1 stays -1. */
static int64_t left(int64_t timeout_ms, int64_t start) {
    if (timeout_ms < 0)
        return -1;
    int64_t gone = clock_ms() - start;
    return gone < timeout_ms ? timeout_ms - gone : 0;
}

const char *brr_library_version(void) { return BRR_LIBRARY_VERSION; }
void brr_free(void *data) { free(data); }

int brr_rpc_open(brr_client *client, const char *method, int64_t timeout_ms, brr_rpc **ret, struct brr_error *err) {
    struct brr_rpc *r = calloc(1, sizeof *r);
    if (!r)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a call");
    const struct conn_open open = {.method = method, .deadline_ms = timeout_ms > 0 ? timeout_ms : -1};
    int rc = conn_call_open(client, &open, &r->call, err);
    return GIVEN(ret, r, free, rc);
}

/* Wait until a message may be sent. */
static int make_room(brr_rpc *r, size_t len, int64_t timeout_ms, struct brr_error *err) {
    int64_t start = clock_ms();
    if (len > CONN_MAX_MESSAGE)
        return conn_error(err, BRR_RANGE, "the message has %zu bytes; the maximum is %d", len, CONN_MAX_MESSAGE);
    while (!conn_call_sendable(r->call)) {
        if (conn_call_ended(r->call)) {
            int rc = conn_call_status(r->call, err);
            return rc ? rc : conn_error(err, BRR_PRECONDITION, "the call has ended; nothing more can be sent");
        }
        conn_call_receive(r->call);
        if (!conn_call_poll(r->call, left(timeout_ms, start)))
            return BRR_AGAIN;
    }
    return 0;
}

int brr_rpc_send(brr_rpc *r, const void *message, size_t len, int64_t timeout_ms, struct brr_error *err) {
    int rc = make_room(r, len, timeout_ms, err);
    if (rc)
        return rc;
    conn_call_send(r->call, message, len, false);
    return 0;
}

int brr_rpc_half_close(brr_rpc *r, struct brr_error *err) {
    if (conn_call_ended(r->call))
        return conn_call_status(r->call, err);
    conn_call_half_close(r->call);
    return 0;
}

int brr_rpc_next(brr_rpc *r, int64_t timeout_ms, const void **ret, size_t *ret_len, struct brr_error *err) {
    int64_t start = clock_ms();
    free(r->message);
    r->message = NULL;
    for (;;) {
        conn_call_receive(r->call);
        if ((r->message = conn_call_take(r->call, ret_len))) {
            *ret = r->message;
            return 0;
        }
        if (conn_call_ended(r->call)) {
            int rc = conn_call_status(r->call, err);
            return rc ? rc : BRR_END;
        }
        if (!conn_call_poll(r->call, left(timeout_ms, start)))
            return BRR_AGAIN;
    }
}

void brr_rpc_close(brr_rpc *r) {
    if (!r)
        return;
    conn_call_close(r->call);
    free(r->message);
    free(r);
}

/* Sends the request and keeps the first answer. The status decides: an answer before an error is discarded. */
static int exchange(brr_rpc *r, const struct brr_request *request, uint8_t **ret, size_t *ret_len, struct brr_error *err) {
    const void *answer;
    size_t n = 0;
    int rc = make_room(r, request->len, -1, err);
    if (rc)
        return rc;
    conn_call_send(r->call, request->data, request->len, true);
    rc = brr_rpc_next(r, -1, &answer, ret_len, err);
    if (rc)
        return rc == BRR_END ? conn_error(err, BRR_INTERNAL, "%s gave no answer", request->method) : rc;
    *ret = r->message;
    r->message = NULL;
    do
        rc = brr_rpc_next(r, -1, &answer, &n, err);
    while (rc == 0);
    return rc < 0 ? rc : 0;
}

int brr_call(brr_client *client, const struct brr_request *request, void **ret, size_t *ret_len, struct brr_error *err) {
    struct brr_rpc *r;
    uint8_t *kept = NULL;
    int rc = brr_rpc_open(client, request->method, request->timeout_ms > 0 ? request->timeout_ms : CALL_TIMEOUT_MS, &r, err);
    if (rc)
        return rc;
    size_t kept_len = 0;
    rc = exchange(r, request, &kept, &kept_len, err);
    brr_rpc_close(r);
    if (rc) {
        free(kept);
        return rc;
    }
    *ret = kept;
    *ret_len = kept_len;
    return 0;
}
