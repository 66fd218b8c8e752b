/* brr.v1.Stream over sessions (live/session.h): translation, and back-pressure both ways. The next message is read only when the
 * session has room and the client has read its answers. A call ends with its connection; a resumable session does not. */

#include "daemon/services/stream_call.h"

static const char client_gone[] = "client_gone"; /* the outcome of a call that nothing else ended */

/* Anything after Open. */
static void on_more(struct stream_call *c, const Brr__V1__ClientMessage *m) {
    struct err err = {0};
    int rc;
    if (m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND_SEEN) {
        session_seen(c->session, m->seen->next_result_seq, m->seen->next_alarm_seq);
        return;
    }
    if (m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND_CHUNK)
        rc = session_chunk(c->session, m->chunk->first_sample, m->chunk->samples, m->chunk->data.data, m->chunk->data.len, &err);
    else
        rc = session_gap(c->session, m->gap->first, m->gap->end, "client", &err);
    if (rc)
        stream_call_refuse(c, &err, rc == ERR_RANGE ? "GAP_TOO_LARGE" : NULL, 0);
    else
        stream_call_ack_soon(c);
}

/* NULL when out of memory: the call has been refused then. */
static struct stream_call *state_of(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    if (c)
        return c;
    if (!(c = calloc(1, sizeof *c))) {
        stream_call_lack_memory(call);
        return NULL;
    }
    c->call = call;
    c->outcome = client_gone;
    rpc_set_state(call, c);
    return c;
}

static int message(struct rpc_call *call, const void *request, struct err *err) {
    const Brr__V1__ClientMessage *m = request;
    struct stream_call *c = state_of(call);
    if (!c)
        return 0;
    bool is_open = m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND_OPEN;
    if (m->kind_case == BRR__V1__CLIENT_MESSAGE__KIND__NOT_SET || is_open == (c->opening != OPENING_NONE)) {
        err_set(err, ERR_INVALID, "%s", is_open ? "a second Open on one stream" : "the first message of a stream must be Open");
        stream_call_refuse(c, err, NULL, 0);
    } else if (is_open) {
        stream_call_open(c, m->open);
    } else if (c->session) { /* it may have ended */
        on_more(c, m);
    }
    stream_call_steer(c);
    return 0;
}

static void half_close(struct rpc_call *call) {
    struct stream_call *c = state_of(call);
    struct err err;
    if (!c)
        return;
    c->half_closed = true;
    if (c->opening == OPENING_NONE) {
        err_set(&err, ERR_INVALID, "the stream ended without an Open");
        stream_call_refuse(c, &err, NULL, 0);
    } else if (c->opened && c->session && session_is_resumable(c->session)) {
        stream_call_ack(c);
        rpc_flush(call, stream_call_finish_samples);
    } else if (c->opened) {
        stream_call_finish_samples(call);
    }
}

static void writable(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    if (!c)
        return;
    c->full = false;
    if (c->session)
        session_stall(c->session, false);
    stream_call_steer(c);
}

static void end(struct rpc_call *call) {
    struct stream_call *c = rpc_state(call);
    if (!c)
        return;
    if (c->session && c->outcome == client_gone)
        session_leave(c->session);
    else if (c->session)
        session_close(c->session, c->outcome);
    c->session = NULL;
    stream_call_opening_done(c);
    free(c);
}

const struct rpc_method svc_stream[] = {
    {RPC_METHOD("/brr.v1.Stream/Run", ROLE_STREAM, brr__v1__client_message, message), .client_stream = true,
     .max_message = RPC_DATA_BYTES, .half_close = half_close, .writable = writable, .end = end},
    {.path = NULL},
};
