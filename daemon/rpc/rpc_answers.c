/* What leaves on a call: queued answers, then the status. Bounds the bytes that clients have not read. */
#include <grpc/slice.h>

#include "base/queue.h"
#include "brr/v1/common.pb-c.h"
#include "daemon/rpc/rpc_state.h"
#include "daemon/rpc/texts.h"

void call_count_unsent(struct rpc_call *c, size_t more, size_t less) {
    c->unsent += more - less;
    c->server->unsent += more - less;
}

void call_drop_answers(struct rpc_call *c) {
    for (struct answer *a; (a = c->first);) {
        QUEUE_DROP(c, next);
        call_count_unsent(c, 0, a->len);
        grpc_byte_buffer_destroy(a->buffer);
        free(a);
    }
    c->queued = 0;
}

/* brr.v1.ErrorDetail, for trailing metadata. */
static grpc_slice pack_detail(const struct rpc_call *c) {
    Brr__V1__ErrorDetail detail = BRR__V1__ERROR_DETAIL__INIT;
    detail.reason = (char *)(uintptr_t)c->reason;
    LEND_TEXTS(detail, c->err, message, cause);
    detail.retry_after_ms = c->retry_after_ms;
    grpc_slice slice = grpc_slice_malloc(brr__v1__error_detail__get_packed_size(&detail));
    texts_repair(detail.base.descriptor, GRPC_SLICE_START_PTR(slice),
                 brr__v1__error_detail__pack(&detail, GRPC_SLICE_START_PTR(slice)));
    return slice;
}

static void send_status(struct rpc_call *c) {
    char text[800] = "";
    grpc_metadata detail = {.key = grpc_slice_from_static_string("brr-error-bin"), .value = grpc_empty_slice()};
    if (c->err.code) {
        err_text(&c->err, text, sizeof text);
        detail.value = pack_detail(c);
    }
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = (grpc_status_code)-c->err.code;
    op.data.send_status_from_server.status_details = &details;
    op.data.send_status_from_server.trailing_metadata = &detail;
    op.data.send_status_from_server.trailing_metadata_count = c->err.code ? 1 : 0;
    if (call_operate(c, &op, 1, TAG_STATUS))
        c->stage = CALL_ANSWERED;
    grpc_slice_unref(details);
    grpc_slice_unref(detail.value);
}

/* Send the next answer, or the status when nothing is left and the call is finishing. */
static void call_pump(struct rpc_call *c) {
    if (!c->call && c->stage == CALL_FINISHING)
        c->flushed(c);
    if (c->sending || c->stage >= CALL_ANSWERED || c->gone)
        return;
    if (!c->first) {
        if (c->stage == CALL_FINISHING)
            send_status(c);
        return;
    }
    struct answer *a = c->first;
    QUEUE_DROP(c, next);
    c->queued--;
    c->in_flight = a->len;
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE};
    op.data.send_message.send_message = a->buffer;
    c->sending = call_operate(c, &op, 1, TAG_SEND);
    grpc_byte_buffer_destroy(a->buffer);
    free(a);
}

void call_sent(struct rpc_call *c, bool ok) {
    c->sending = false;
    call_count_unsent(c, 0, c->in_flight);
    c->in_flight = 0;
    c->progress_ms = uv_now(c->server->loop);
    if (!ok)
        return;
    call_pump(c);
    if (!c->sending && c->flushed && call_is_open(c)) {
        void (*flushed)(struct rpc_call *) = c->flushed;
        c->flushed = NULL;
        flushed(c);
    }
    if (c->full && c->queued <= RPC_SEND_MAX / 2 && c->unsent <= RPC_SEND_BYTES / 2 && call_is_open(c)) {
        c->full = false;
        if (c->method->writable)
            c->method->writable(c);
    }
}

/* Answers wait that go beyond the budget: the call that holds most ends, until the others fit. */
static void relieve(struct rpc_server *s) {
    while (s->unsent > s->config.max_unsent_bytes) {
        struct rpc_call *most = NULL;
        struct err err;
        for (struct rpc_call *c = s->calls; c; c = c->next)
            if (call_is_open(c) && c->first && (!most || c->unsent > most->unsent))
                most = c;
        if (!most)
            return;
        err_set(
            &err, ERR_EXHAUSTED,
            "clients have left %zu bytes of answers unread, more than limits.unread allows, and this call most, %zu; read faster",
            s->unsent, most->unsent);
        call_drop_answers(most);
        rpc_refuse(most, &err, "CLIENT_TOO_SLOW", 0);
    }
}

bool rpc_send(struct rpc_call *c, const uint8_t *data, size_t len) {
    if (!call_still_admitted(c))
        return false;
    struct answer *a = calloc(1, sizeof *a);
    if (!a) {
        struct err err;
        err_set(&err, ERR_EXHAUSTED, "out of memory for an answer");
        rpc_finish(c, &err);
        return false;
    }
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)data, len);
    a->buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    QUEUE_ADD(c, a, next);
    a->len = len;
    c->queued++;
    call_count_unsent(c, len, 0);
    call_pump(c);
    c->full = c->full || c->queued >= RPC_SEND_MAX || c->unsent >= RPC_SEND_BYTES; /* until `writable` */
    relieve(c->server);
    return !c->full && call_is_open(c);
}

void rpc_flush(struct rpc_call *c, void (*flushed)(struct rpc_call *call)) { c->flushed = flushed; }

int rpc_finish(struct rpc_call *c, const struct err *err) { return rpc_refuse(c, err, NULL, 0); }

int rpc_refuse(struct rpc_call *c, const struct err *err, const char *reason, int64_t retry_after_ms) {
    if (!call_is_open(c))
        return 0;
    c->stage = CALL_FINISHING;
    if (err && err->code)
        c->err = *err;
    str_copy(c->reason, sizeof c->reason, reason ? reason : err_name(c->err.code));
    for (char *p = c->reason; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    c->retry_after_ms = retry_after_ms;
    c->progress_ms = uv_now(c->server->loop);
    call_pump(c);
    return 0;
}
