#include "daemon/rpc/rpc.h"

#include <ctype.h>
#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/queue.h"
#include "base/str.h"
#include "brr/v1/common.pb-c.h"
#include "daemon/rpc/peer.h"
#include "daemon/rpc/quota.h"
#include "daemon/rpc/texts.h"

enum { MAX_CHAIN_BYTES = 64 * 1024 /* of a client's certificates */, RETRY_MS = 5000, TAGS_A_TURN = 256 };

/* Kinds of completion-queue events. A tag is one outstanding operation of one call. */
enum tag_kind { TAG_NEW, TAG_RECV, TAG_SEND, TAG_CLOSED, TAG_STATUS, TAG_SHUTDOWN };
struct tag {
    enum tag_kind kind;
    bool ok;
    struct rpc_call *call;
    struct listener *listener; /* of TAG_SHUTDOWN */
    struct rpc_server *server;
    struct tag *next; /* on its way from the drain thread to the loop */
};

/* A call only moves forward, and may end in any stage: queued answers leave and the status after them; the status has left; `end`
 * was called. */
enum call_stage { CALL_OPEN, CALL_FINISHING, CALL_ANSWERED, CALL_ENDED };

struct answer {
    struct answer *next;
    grpc_byte_buffer *buffer;
    size_t len;
};

struct rpc_call {
    struct rpc_server *server;
    struct listener *listener;
    struct auth_caller caller;
    struct rpc_call *next; /* among the server's open calls */
    const struct rpc_method *method;
    grpc_call *call;
    grpc_call_details details;
    grpc_metadata_array metadata;
    grpc_byte_buffer *received;
    int cancelled; /* written by grpc until TAG_CLOSED */
    int tags;      /* outstanding operations */
    struct arena arena;
    void *state;
    struct answer *first, *last;
    int queued;
    size_t unsent, in_flight; /* bytes of answers: all, and of the one that grpc has */
    uint64_t progress_ms;     /* when the client last read or was asked for something, or the call ended for the daemon */
    enum call_stage stage;
    bool sending, receiving, held, full;
    bool half_closed;                       /* the client said so: nothing more is read */
    bool gone;                              /* the client went away, as the loop knows it */
    bool admitted;                          /* the caller is known and may call the method */
    bool given_up;                          /* cancelled for reading nothing */
    bool heard;                             /* a message has come */
    bool listed;                            /* among the calls of the server, and counted at its listener */
    void (*flushed)(struct rpc_call *call); /* told when no answer is left; may be NULL */
    int code;
    struct err err;
    char reason[48];
    int64_t retry_after_ms;
    uint64_t start_ns;
    const char *kind; /* of what the call is about, NULL = unknown; and its id */
    char id[RPC_ID_SIZE];
};

struct rpc_server {
    struct listeners *listeners;
    grpc_completion_queue *queue;
    uv_loop_t *loop;
    uv_async_t wake;
    pthread_t drain;
    pthread_mutex_t lock; /* first and last */
    struct tag *first, *last;
    bool drained, stopping;
    struct rpc_call *calls;   /* open ones */
    uint64_t checked_ms;      /* when all callers were last checked again */
    struct listener *unasked; /* a call could not be requested from them: the tick tries again */
    int n_calls;
    size_t unsent; /* bytes of answers of all calls */
    struct rpc_config config;
    void (*done)(void *ctx);
    void *done_ctx;
};

static bool is_open(const struct rpc_call *c) { return c->stage == CALL_OPEN; }

/* ---- events: completion queue → loop ---- */

static void *drain_main(void *arg) {
    struct rpc_server *s = arg;
    for (;;) {
        grpc_event e = grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        struct tag *tag = e.type == GRPC_OP_COMPLETE ? e.tag : NULL;
        pthread_mutex_lock(&s->lock);
        if (tag) {
            tag->ok = e.success;
            QUEUE_ADD(s, tag, next);
        }
        s->drained = e.type == GRPC_QUEUE_SHUTDOWN;
        bool over = s->drained;
        pthread_mutex_unlock(&s->lock);
        uv_async_send(&s->wake);
        if (over)
            return NULL;
    }
}

static struct tag *tag_new(struct rpc_server *s, enum tag_kind kind, struct rpc_call *call) {
    struct tag *tag = calloc(1, sizeof *tag);
    if (!tag)
        return NULL;
    *tag = (struct tag){.kind = kind, .call = call, .server = s};
    if (call)
        call->tags++;
    return tag;
}

/* Start one operation with a tag of its own; false when it could not be started: the call is cancelled then, so that its client
 * does not wait for what cannot come. */
static bool start(struct rpc_call *c, grpc_op *ops, size_t n, enum tag_kind kind) {
    struct tag *tag = tag_new(c->server, kind, c);
    if (tag && grpc_call_start_batch(c->call, ops, n, tag, NULL) == GRPC_CALL_OK)
        return true;
    if (tag)
        c->tags--;
    free(tag);
    c->gone = true;
    grpc_call_cancel(c->call, NULL);
    return false;
}

static bool request_call(struct rpc_server *s, struct listener *listener) {
    struct rpc_call *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    c->server = s;
    c->listener = listener;
    arena_init(&c->arena, 8u << 20);
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    struct tag *tag = tag_new(s, TAG_NEW, c);
    if (tag &&
        grpc_server_request_call(listener->server, &c->call, &c->details, &c->metadata, s->queue, s->queue, tag) == GRPC_CALL_OK) {
        listener_take(listener);
        return true;
    }
    free(tag);
    free(c);
    return false;
}

static void ask_for_call(struct rpc_server *s, struct listener *listener) {
    if (listener->closing || request_call(s, listener))
        return;
    listener_take(listener);
    listener->next = s->unasked;
    s->unasked = listener;
}

static void count_unsent(struct rpc_call *c, size_t more, size_t less) {
    c->unsent += more - less;
    c->server->unsent += more - less;
}

static void free_answers(struct rpc_call *c) {
    for (struct answer *a; (a = c->first);) {
        QUEUE_DROP(c, next);
        count_unsent(c, 0, a->len);
        grpc_byte_buffer_destroy(a->buffer);
        free(a);
    }
    c->queued = 0;
}

static void end_call(struct rpc_call *c) {
    if (c->stage == CALL_ENDED || !c->method)
        return;
    const bool answered = c->stage == CALL_ANSWERED;
    c->stage = CALL_ENDED;
    if (c->method->end)
        c->method->end(c);
    const int code = c->gone && !answered ? ERR_CANCELLED : c->code;
    const char *reason = code && code == c->code ? c->reason : "";
    const double seconds = 1e-9 * (double)(uv_hrtime() - c->start_ns);
    const struct auth_record record = {.method = c->method->path,
                                       .needed = c->method->frequent && !code ? ROLE_READ : c->method->role,
                                       .outcome = err_name(code),
                                       .reason = reason,
                                       .seconds = seconds,
                                       .kind = c->kind,
                                       .id = c->id};
    if (c->admitted)
        auth_audit(&c->caller, &record);
    if (c->server->config.observe)
        c->server->config.observe(c->server->config.ctx, c->method->path, code, reason, seconds);
}

static void list_call(struct rpc_call *c) {
    struct rpc_server *s = c->server;
    c->next = s->calls;
    s->calls = c;
    s->n_calls++;
    c->listed = true;
    listeners_count_call(s->listeners, c->listener, 1);
}

static void unlist_call(struct rpc_call *c) {
    struct rpc_server *s = c->server;
    if (!c->listed)
        return; /* it was never matched */
    LIST_REMOVE(s->calls, c, next);
    s->n_calls--;
    listeners_count_call(s->listeners, c->listener, -1);
}

/* Free the call once its last operation has come back. */
static void unref(struct rpc_call *c) {
    if (--c->tags > 0)
        return;
    end_call(c);
    unlist_call(c);
    free_answers(c);
    count_unsent(c, 0, c->in_flight);
    if (c->received)
        grpc_byte_buffer_destroy(c->received);
    if (c->call)
        grpc_call_unref(c->call);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    arena_done(&c->arena);
    listener_drop(c->listener);
    free(c);
}

/* ---- one call ---- */

static void receive(struct rpc_call *c) {
    if (c->receiving || c->held || c->half_closed || !is_open(c))
        return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &c->received;
    c->receiving = start(c, &op, 1, TAG_RECV);
    c->progress_ms = uv_now(c->server->loop);
}

/* brr.v1.ErrorDetail, for trailing metadata. */
static grpc_slice pack_detail(const struct rpc_call *c) {
    Brr__V1__ErrorDetail detail = BRR__V1__ERROR_DETAIL__INIT;
    detail.reason = (char *)(uintptr_t)c->reason;
    detail.message = (char *)(uintptr_t)c->err.message;
    detail.cause = (char *)(uintptr_t)c->err.cause;
    detail.retry_after_ms = c->retry_after_ms;
    grpc_slice slice = grpc_slice_malloc(brr__v1__error_detail__get_packed_size(&detail));
    texts_repair(detail.base.descriptor, GRPC_SLICE_START_PTR(slice),
                 brr__v1__error_detail__pack(&detail, GRPC_SLICE_START_PTR(slice)));
    return slice;
}

static void send_status(struct rpc_call *c) {
    char text[800] = "";
    grpc_metadata detail = {.key = grpc_slice_from_static_string("brr-error-bin"), .value = grpc_empty_slice()};
    if (c->code) {
        err_text(&c->err, text, sizeof text);
        detail.value = pack_detail(c);
    }
    grpc_slice details = grpc_slice_from_copied_string(text);
    grpc_op op = {.op = GRPC_OP_SEND_STATUS_FROM_SERVER};
    op.data.send_status_from_server.status = (grpc_status_code)-c->code;
    op.data.send_status_from_server.status_details = &details;
    op.data.send_status_from_server.trailing_metadata = &detail;
    op.data.send_status_from_server.trailing_metadata_count = c->code ? 1 : 0;
    if (start(c, &op, 1, TAG_STATUS))
        c->stage = CALL_ANSWERED;
    grpc_slice_unref(details);
    grpc_slice_unref(detail.value);
}

/* Send the next answer, or the status when nothing is left and the call is finishing. */
static void pump(struct rpc_call *c) {
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
    c->sending = start(c, &op, 1, TAG_SEND);
    grpc_byte_buffer_destroy(a->buffer);
    free(a);
}

static const struct rpc_method *find_method(const struct rpc_server *s, grpc_slice path) {
    for (size_t i = 0; i < s->config.n_methods; i++)
        if (grpc_slice_str_cmp(path, s->config.methods[i]->path) == 0)
            return s->config.methods[i];
    return NULL;
}

static void refuse_caller(struct rpc_call *c, const struct auth_refusal *refusal) {
    struct auth *auth = c->server->config.auth;
    const struct auth_record record = {.method = c->method ? c->method->path : "unknown", .kind = c->kind, .id = c->id};
    auth_count_refusal(auth, &c->caller, &record, refusal);
    rpc_refuse(c, &refusal->err, refusal->reason, 0);
}

/* True if the caller is known and may call the method; else the call ends with the reason. */
static bool admit(struct rpc_call *c) {
    struct auth *auth = c->server->config.auth;
    char address[AUTH_PEER_SIZE];
    struct auth_request request = {.connection = &c->listener->who, .peer = address};
    struct auth_refusal refusal;
    struct str chain;
    peer_address(c->call, address, sizeof address);
    for (size_t i = 0; i < c->metadata.count; i++) {
        const grpc_metadata *m = &c->metadata.metadata[i];
        if (grpc_slice_str_cmp(m->key, "authorization") == 0) {
            request.authorization = (const char *)GRPC_SLICE_START_PTR(m->value);
            request.authorization_len = GRPC_SLICE_LENGTH(m->value);
        }
    }
    str_init(&chain, MAX_CHAIN_BYTES);
    if (c->listener->who.certificate)
        peer_chain(c->call, &chain);
    request.chain = str_cstr(&chain);
    request.chain_len = chain.len;
    c->admitted = auth_identify(auth, &request, &c->caller, &refusal) &&
                  (!c->method || auth_permits(&c->caller, c->method->role, c->method->path, &refusal));
    str_done(&chain);
    if (!c->admitted)
        refuse_caller(c, &refusal);
    else if (c->method && c->method->client_stream)
        auth_audit(&c->caller, &(struct auth_record){.method = c->method->path, .needed = c->method->role, .outcome = "begun"});
    return c->admitted;
}

/* Ends a call whose token was revoked, has expired, or has a smaller role than when it began. */
static bool still_admitted(struct rpc_call *c) {
    struct auth_refusal refusal;
    if (!is_open(c))
        return false;
    if (auth_still_valid(c->server->config.auth, &c->caller, &refusal) &&
        (!c->method || auth_permits(&c->caller, c->method->role, c->method->path, &refusal)))
        return true;
    refuse_caller(c, &refusal);
    return false;
}

/* True if this call is one too many. */
static bool crowded(const struct rpc_call *c, struct err *err) {
    const struct rpc_server *s = c->server;
    struct quota_use use = {.calls = s->n_calls};
    for (const struct rpc_call *other = s->calls; other; other = other->next) {
        const bool same = other->stage != CALL_ENDED && !strcmp(other->caller.name, c->caller.name);
        use.of_caller += same;
        use.of_method += same && other->method == c->method;
    }
    return quota_exceeded(&(struct quota_limits){s->config.max_calls, s->config.max_sessions}, &use, c->caller.role,
                          c->method->path, err);
}

static void on_new(struct rpc_call *c, bool ok) {
    struct rpc_server *s = c->server;
    if (!ok) /* the server is shutting down: this request was never matched */
        return;
    if (!s->stopping)
        ask_for_call(s, c->listener);
    struct err err;
    list_call(c);
    c->start_ns = uv_hrtime();
    c->method = find_method(s, c->details.method);
    if (c->method && s->config.begun)
        s->config.begun(s->config.ctx, c->method->path);
    grpc_op closed = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}, initial = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    closed.data.recv_close_on_server.cancelled = &c->cancelled;
    if (!start(c, &closed, 1, TAG_CLOSED) || !start(c, &initial, 1, TAG_SEND))
        return;
    c->sending = true;
    if (!admit(c))
        return;
    if (!c->method) {
        char *path = grpc_slice_to_c_string(c->details.method);
        err_set(&err, ERR_UNSUPPORTED, "%s is unsupported yet", path);
        gpr_free(path);
        rpc_finish(c, &err);
        return;
    }
    if (crowded(c, &err))
        rpc_refuse(c, &err, "OVERLOADED", RETRY_MS);
    else
        receive(c);
}

static void enter(const struct rpc_call *c, const struct auth_caller *caller) {
    if (c->server->config.enter)
        c->server->config.enter(c->server->config.ctx, caller);
}

void rpc_handle(struct rpc_call *c, rpc_handler *handler, const void *request) {
    struct err err = {0};
    enter(c, &c->caller);
    if (handler(c, request, &err))
        rpc_finish(c, &err);
    enter(c, NULL);
}

/* A message that has come whole. */
static void take_message(struct rpc_call *c, const uint8_t *data, size_t len) {
    const struct rpc_method *m = c->method;
    const size_t most = m->max_message ? m->max_message : RPC_CONTROL_BYTES;
    OWNED(arena_done) struct arena arena;
    struct err err;
    arena_init(&arena, 2 * most);
    const void *message = NULL;
    if (len > most)
        err_set(&err, ERR_EXHAUSTED, "a message of %zu bytes; at most %zu are accepted", len, most);
    else
        message = texts_unpack(m->client_stream ? &arena : &c->arena, m->request, data, len, &err);
    if (message)
        rpc_handle(c, m->message, message);
    else
        rpc_finish(c, &err);
}

static void on_message(struct rpc_call *c, bool ok) {
    c->receiving = false;
    c->heard = true;
    grpc_byte_buffer *buffer = c->received;
    c->received = NULL;
    if (!ok || !buffer) { /* half-close, or the call is gone */
        c->half_closed = true;
        if (ok && is_open(c) && c->method->half_close)
            c->method->half_close(c);
        return;
    }
    if (still_admitted(c)) {
        grpc_byte_buffer_reader reader;
        grpc_byte_buffer_reader_init(&reader, buffer);
        grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
        take_message(c, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
    }
    grpc_byte_buffer_destroy(buffer);
    if (c->method->client_stream)
        receive(c);
}

static void on_sent(struct rpc_call *c, bool ok) {
    c->sending = false;
    count_unsent(c, 0, c->in_flight);
    c->in_flight = 0;
    c->progress_ms = uv_now(c->server->loop);
    if (!ok)
        return;
    pump(c);
    if (!c->sending && c->flushed && is_open(c)) {
        void (*flushed)(struct rpc_call *) = c->flushed;
        c->flushed = NULL;
        flushed(c);
    }
    if (c->full && c->queued <= RPC_SEND_MAX / 2 && c->unsent <= RPC_SEND_BYTES / 2 && is_open(c)) {
        c->full = false;
        if (c->method->writable)
            c->method->writable(c);
    }
}

/* Every listener is shut: the drain thread ends once the queue is empty. */
static void end_queue(struct rpc_server *s) {
    for (struct listener *next; s->unasked; s->unasked = next) {
        next = s->unasked->next;
        listener_drop(s->unasked);
    }
    listeners_free(s->listeners);
    s->listeners = NULL;
    grpc_completion_queue_shutdown(s->queue);
}

static void on_tag(struct tag *tag) {
    struct rpc_call *c = tag->call;
    switch (tag->kind) {
    case TAG_NEW:
        on_new(c, tag->ok);
        break;
    case TAG_RECV:
        on_message(c, tag->ok);
        break;
    case TAG_SEND:
        on_sent(c, tag->ok);
        break;
    case TAG_CLOSED: /* the client went away, or the status has been delivered */
        c->gone = c->cancelled != 0;
        if (c->gone)
            end_call(c);
        break;
    case TAG_STATUS:
        break;
    case TAG_SHUTDOWN:
        if (!listeners_remove(tag->server->listeners, tag->listener) && tag->server->stopping)
            end_queue(tag->server);
        break;
    }
    free(tag);
    if (c)
        unref(c);
}

static void on_closed(uv_handle_t *handle) {
    struct rpc_server *s = handle->data;
    pthread_join(s->drain, NULL);
    grpc_completion_queue_destroy(s->queue);
    s->queue = NULL;
    s->done(s->done_ctx);
}

static struct tag *take_tag(struct rpc_server *s, bool *ret_drained) {
    pthread_mutex_lock(&s->lock);
    struct tag *tag = s->first;
    if (tag)
        QUEUE_DROP(s, next);
    *ret_drained = s->drained;
    pthread_mutex_unlock(&s->lock);
    return tag;
}

/* At most TAGS_A_TURN: the timers and the other events of the loop have their turn between them, however much clients send. */
static void on_wake(uv_async_t *wake) {
    struct rpc_server *s = wake->data;
    struct tag *tag = NULL;
    bool drained = false;
    for (int i = 0; i < TAGS_A_TURN && (tag = take_tag(s, &drained)); i++)
        on_tag(tag);
    if (tag)
        uv_async_send(wake);
    else if (drained && !uv_is_closing((uv_handle_t *)&s->wake))
        uv_close((uv_handle_t *)&s->wake, on_closed);
}

/* ---- server ---- */

static void on_never_started(uv_handle_t *wake) { rpc_server_free(wake->data); }

static void on_listener_opened(void *ctx, struct listener *listener) { ask_for_call(ctx, listener); }

static void *shutdown_tag(void *ctx, struct listener *listener) {
    struct tag *tag = tag_new(ctx, TAG_SHUTDOWN, NULL);
    if (tag)
        tag->listener = listener;
    return tag;
}

int rpc_server_start(uv_loop_t *loop, const struct rpc_config *config, struct rpc_server **ret, struct err *err) {
    struct rpc_server *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the RPC server");
    grpc_init();
    s->config = *config;
    s->config.listeners.max_message = RPC_DATA_BYTES + 64 * 1024;
    s->config.listeners.opened = on_listener_opened;
    s->config.listeners.shut_tag = shutdown_tag;
    s->config.listeners.ctx = s;
    s->loop = loop;
    s->queue = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&s->lock, NULL);
    s->wake.data = s;
    if (uv_async_init(loop, &s->wake, on_wake)) {
        rpc_server_free(s);
        return err_set(err, ERR_INTERNAL, "cannot wake the loop");
    }
    int rc = listeners_open(loop, s->queue, &s->config.listeners, &s->listeners, err);
    if (rc) {
        uv_close((uv_handle_t *)&s->wake, on_never_started);
        return rc;
    }
    pthread_create(&s->drain, NULL, drain_main, s);
    *ret = s;
    return 0;
}

void rpc_server_stop(struct rpc_server *s, void (*done)(void *ctx), void *ctx) {
    if (s->stopping)
        return;
    s->stopping = true;
    s->done = done;
    s->done_ctx = ctx;
    listeners_shut(s->listeners);
    if (!listeners_count(s->listeners))
        end_queue(s);
}

void rpc_server_free(struct rpc_server *s) {
    if (!s)
        return;
    if (s->queue) { /* never started: nothing waits in it */
        grpc_completion_queue_shutdown(s->queue);
        grpc_completion_queue_destroy(s->queue);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
    grpc_shutdown_blocking();
}

bool rpc_server_deaf(struct rpc_server *s) { return s->listeners && listeners_deaf(s->listeners); }
size_t rpc_server_unsent(const struct rpc_server *s) { return s->unsent; }

/* The daemon can do nothing for the call until its client moves. */
static bool waits_for_client(const struct rpc_call *c) {
    return is_open(c) && ((c->method->client_stream && c->receiving) || c->unsent > 0);
}

/* How long the daemon waits for the client of this call as it is now; 0 = for ever. */
static int patience_ms(const struct rpc_call *c) {
    if (!c->method || !is_open(c))
        return 0;
    if (c->receiving && !c->heard)
        return RPC_FIRST_MESSAGE_MS;
    return waits_for_client(c) ? c->method->idle_ms : 0;
}

static void look_at_call(struct rpc_call *c, uint64_t now) {
    const uint64_t idle_ms = now - c->progress_ms;
    const int patience = patience_ms(c);
    if ((c->stage == CALL_FINISHING || c->stage == CALL_ANSWERED) && !c->given_up && idle_ms > RPC_GRACE_MS) {
        c->given_up = true;
        grpc_call_cancel(c->call, NULL);
    } else if (patience && idle_ms > (uint64_t)patience) {
        struct err err;
        err_set(&err, ERR_DEADLINE, "the client has neither sent nor read anything for %d s; start again", patience / 1000);
        rpc_refuse(c, &err, "CLIENT_IDLE", 0);
    }
}

void rpc_server_tick(struct rpc_server *s) {
    struct listener *unasked = s->unasked;
    s->unasked = NULL;
    for (struct listener *next; unasked; unasked = next) {
        next = unasked->next;
        if (!s->stopping)
            ask_for_call(s, unasked);
        listener_drop(unasked);
    }
    const uint64_t now = uv_now(s->loop);
    const bool check = now - s->checked_ms >= RPC_CHECK_MS;
    if (check)
        s->checked_ms = now;
    for (struct rpc_call *c = s->calls; c; c = c->next) {
        look_at_call(c, now);
        if (check && c->admitted)
            still_admitted(c);
    }
}

/* ---- what services use ---- */

void *rpc_context(const struct rpc_call *c) { return c->server->config.ctx; }
struct arena *rpc_arena(struct rpc_call *c) {
    return &c->arena;
}
const struct auth_caller *rpc_caller(const struct rpc_call *c) { return &c->caller; }
void *rpc_state(const struct rpc_call *c) { return c->state; }
void rpc_set_state(struct rpc_call *c, void *state) { c->state = state; }

/* Answers wait that go beyond the budget: the call that holds most ends, until the others fit. */
static void relieve(struct rpc_server *s) {
    while (s->unsent > s->config.max_unsent_bytes) {
        struct rpc_call *most = NULL;
        struct err err;
        for (struct rpc_call *c = s->calls; c; c = c->next)
            if (is_open(c) && c->first && (!most || c->unsent > most->unsent))
                most = c;
        if (!most)
            return;
        err_set(
            &err, ERR_EXHAUSTED,
            "clients have left %zu bytes of answers unread, more than limits.unread allows, and this call most, %zu; read faster",
            s->unsent, most->unsent);
        free_answers(most);
        rpc_refuse(most, &err, "CLIENT_TOO_SLOW", 0);
    }
}

bool rpc_send(struct rpc_call *c, const uint8_t *data, size_t len) {
    if (!still_admitted(c))
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
    count_unsent(c, len, 0);
    pump(c);
    c->full = c->queued >= RPC_SEND_MAX || c->unsent >= RPC_SEND_BYTES;
    relieve(c->server);
    return !c->full && is_open(c);
}

void rpc_flush(struct rpc_call *c, void (*flushed)(struct rpc_call *call)) { c->flushed = flushed; }

int rpc_finish(struct rpc_call *c, const struct err *err) { return rpc_refuse(c, err, NULL, 0); }

int rpc_refuse(struct rpc_call *c, const struct err *err, const char *reason, int64_t retry_after_ms) {
    if (!is_open(c))
        return 0;
    c->stage = CALL_FINISHING;
    if (err && err->code)
        c->err = *err;
    c->code = c->err.code;
    str_copy(c->reason, sizeof c->reason, reason ? reason : err_name(c->code));
    for (char *p = c->reason; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    c->retry_after_ms = retry_after_ms;
    c->progress_ms = uv_now(c->server->loop);
    pump(c);
    return 0;
}

void rpc_concerns(struct rpc_call *c, const char *kind, const char *id) {
    c->kind = kind;
    str_copy(c->id, sizeof c->id, id);
}

void rpc_hold(struct rpc_call *c) { c->held = true; }

void rpc_release(struct rpc_call *c) {
    c->held = false;
    receive(c);
}

const char *rpc_library_version(void) { return grpc_version_string(); }
