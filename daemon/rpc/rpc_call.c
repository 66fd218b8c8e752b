/* One call from its beginning to its end: the messages of its client, and what services may ask of it. */
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>

#include "base/queue.h"
#include "daemon/rpc/rpc_state.h"
#include "daemon/rpc/texts.h"

enum { RETRY_MS = 5000 };

/* Of rpc_tick. It outlives its call until the loop has closed it. */
struct call_timer {
    uv_timer_t timer; /* its first member */
    struct rpc_call *call;
    void (*tick)(struct rpc_call *call);
};

static void on_call_timer(uv_timer_t *timer) {
    const struct call_timer *t = (const struct call_timer *)timer;
    if (call_is_open(t->call))
        t->tick(t->call);
}

static void on_timer_closed(uv_handle_t *handle) { free(handle); }

void rpc_tick(struct rpc_call *c, uint64_t first_ms, uint64_t repeat_ms, void (*tick)(struct rpc_call *call)) {
    struct err err;
    if (!call_is_open(c))
        return;
    if (!c->timer) {
        if (!(c->timer = calloc(1, sizeof *c->timer))) {
            err_set(&err, ERR_EXHAUSTED, "out of memory for the timer of a call; try again later");
            rpc_refuse(c, &err, NULL, RETRY_MS);
            return;
        }
        uv_timer_init(c->server->loop, &c->timer->timer);
        c->timer->call = c;
    }
    c->timer->tick = tick;
    uv_timer_start(&c->timer->timer, on_call_timer, first_ms, repeat_ms);
}

void call_end(struct rpc_call *c) {
    if (c->stage == CALL_ENDED || !c->method)
        return;
    const bool answered = c->stage == CALL_ANSWERED;
    c->stage = CALL_ENDED;
    call_uncount(c);
    if (c->method->end)
        c->method->end(c);
    if (c->timer)
        uv_close((uv_handle_t *)&c->timer->timer, on_timer_closed);
    const int code = c->gone && !answered ? ERR_CANCELLED : c->err.code;
    const char *reason = code && code == c->err.code ? c->reason : "";
    const double seconds = 1e-9 * (double)(uv_hrtime() - c->start_ns);
    const struct auth_record record = {.method = c->method->path,
                                       .needed = c->method->frequent && !code ? ROLE_READ : c->method->role,
                                       .outcome = err_name(code),
                                       .reason = reason,
                                       .seconds = seconds,
                                       SAME_MEMBERS(*c, kind, id),
                                       .reading = c->method->reading};
    if (c->admitted)
        auth_audit(c->server->config.auth, &c->caller, &record);
    if (c->server->config.observe)
        c->server->config.observe(c->server->config.ctx, c->method->path, code, reason, seconds);
}

static void list_call(struct rpc_call *c) {
    struct rpc_server *s = c->server;
    CHAIN_ADD(s->calls, c, next, before);
    s->n_calls++;
    c->listed = true;
    listeners_count_call(s->listeners, c->listener, 1);
}

static void unlist_call(struct rpc_call *c) {
    struct rpc_server *s = c->server;
    if (!c->listed)
        return; /* it was never matched */
    CHAIN_REMOVE(s->calls, c, next, before);
    s->n_calls--;
    listeners_count_call(s->listeners, c->listener, -1);
}

static void set_paced(struct rpc_call *c, bool paced) {
    struct rpc_server *s = c->server;
    s->n_paced += (int)paced - (int)c->paced;
    c->paced = paced;
    if (paced && !uv_is_active((uv_handle_t *)&s->pace) && !uv_is_closing((uv_handle_t *)&s->pace))
        uv_timer_start(&s->pace, call_pace, RPC_PACE_MS, RPC_PACE_MS);
}

void call_unref(struct rpc_call *c) {
    if (--c->tags > 0)
        return;
    call_end(c);
    set_paced(c, false);
    unlist_call(c);
    call_drop_answers(c);
    call_count_unsent(c, 0, c->in_flight);
    if (c->received)
        grpc_byte_buffer_destroy(c->received);
    if (c->call)
        grpc_call_unref(c->call);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    arena_free(c->arena);
    listener_drop(c->listener);
    free(c);
}

void call_pace(uv_timer_t *pace) {
    struct rpc_server *s = pace->data;
    for (struct rpc_call *c = s->calls; c; c = c->next)
        if (c->paced)
            call_receive(c);
    if (!s->n_paced)
        uv_timer_stop(pace);
}

/* Takes one message off the allowance of a client stream; false if it has none. */
static bool may_read(struct rpc_call *c) {
    if (!c->method->client_stream)
        return true;
    const uint64_t now = uv_now(c->server->loop);
    const double earned = 1e-3 * RPC_MESSAGES_S * (double)(now - c->allowed_at_ms);
    c->allowance = c->allowed_at_ms ? fmin(RPC_MESSAGES_BURST, c->allowance + earned) : RPC_MESSAGES_BURST;
    c->allowed_at_ms = now;
    const bool may = c->allowance >= 1;
    c->allowance -= may;
    set_paced(c, !may);
    return may;
}

void call_receive(struct rpc_call *c) {
    if (c->receiving || c->held || c->half_closed || !call_is_open(c) || !may_read(c))
        return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &c->received;
    c->receiving = call_operate(c, &op, 1, TAG_RECV);
    c->progress_ms = uv_now(c->server->loop);
}

static const struct rpc_method *find_method(const struct rpc_server *s, grpc_slice path) {
    for (size_t i = 0; i < s->config.n_methods; i++)
        if (grpc_slice_str_cmp(path, s->config.methods[i]->path) == 0)
            return s->config.methods[i];
    return NULL;
}

void call_begin(struct rpc_call *c) {
    struct rpc_server *s = c->server;
    struct err err;
    list_call(c);
    c->start_ns = uv_hrtime();
    c->method = find_method(s, c->details.method);
    if (c->method && s->config.begun)
        s->config.begun(s->config.ctx, c->method->path);
    grpc_op closed = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}, initial = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    closed.data.recv_close_on_server.cancelled = &c->cancelled;
    if (!call_operate(c, &closed, 1, TAG_CLOSED) || !call_operate(c, &initial, 1, TAG_SEND))
        return;
    c->sending = true;
    if (!call_admit(c))
        return;
    if (!c->method) {
        char *path = grpc_slice_to_c_string(c->details.method);
        err_set(&err, ERR_UNSUPPORTED, "%s is unsupported yet", path);
        gpr_free(path);
        rpc_finish(c, &err);
        return;
    }
    if (call_is_crowded(c, &err))
        rpc_refuse(c, &err, "OVERLOADED", RETRY_MS);
    else
        call_receive(c);
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
    OWNED(arena_done) struct arena arena = arena_of(2 * most);
    struct err err;
    const void *message = NULL;
    if (len > most)
        err_set(&err, ERR_EXHAUSTED, "a message of %zu bytes; at most %zu are accepted", len, most);
    else
        message = texts_unpack(m->client_stream ? &arena : c->arena, m->request, data, len, &err);
    if (message)
        rpc_handle(c, m->message, message);
    else
        rpc_finish(c, &err);
}

void call_take_message(struct rpc_call *c, bool ok) {
    c->receiving = false;
    c->apart = uv_now(c->server->loop) - c->before_ms >= RPC_APART_MS;
    c->before_ms = c->heard_ms;
    c->heard_ms = uv_now(c->server->loop);
    grpc_byte_buffer *buffer = c->received;
    c->received = NULL;
    if (!ok || !buffer) { /* half-close, or the call is gone */
        c->half_closed = true;
        if (ok && call_is_open(c) && c->method->half_close)
            c->method->half_close(c);
        return;
    }
    if (call_still_admitted(c)) {
        grpc_byte_buffer_reader reader;
        grpc_byte_buffer_reader_init(&reader, buffer);
        grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
        take_message(c, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
    }
    grpc_byte_buffer_destroy(buffer);
    if (c->method->client_stream)
        call_receive(c);
}

void *rpc_context(const struct rpc_call *c) { return c->server->config.ctx; }
struct arena *rpc_arena(struct rpc_call *c) {
    return c->arena;
}
struct arena *rpc_take_arena(struct rpc_call *c) {
    struct arena *arena = c->arena;
    c->arena = NULL;
    return arena;
}
const struct auth_caller *rpc_caller(const struct rpc_call *c) { return &c->caller; }
void *rpc_state(const struct rpc_call *c) { return c->state; }
void rpc_set_state(struct rpc_call *c, void *state) { c->state = state; }

void rpc_concerns(struct rpc_call *c, const char *kind, const char *id) {
    c->kind = kind;
    str_copy(c->id, sizeof c->id, id);
}

void rpc_be_patient(struct rpc_call *c) { c->patient = true; }
void rpc_hold(struct rpc_call *c) { c->held = true; }

void rpc_release(struct rpc_call *c) {
    c->held = false;
    call_receive(c);
}
