/* The server of rpc.h: requests new calls, hands completed operations to their calls, looks at idle calls once a second. */

#include "base/map.h"
#include "daemon/rpc/rpc_state.h"

enum { TAGS_A_TURN = 256, TURN_MS = 5 };

static bool request_call(struct rpc_server *s, struct listener *listener) {
    struct rpc_call *c = calloc(1, sizeof *c);
    if (!c || !(c->arena = calloc(1, sizeof *c->arena))) {
        free(c);
        return false;
    }
    c->server = s;
    c->listener = listener;
    arena_init(c->arena, 8u << 20);
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    struct tag *tag = tag_new(s, TAG_NEW, c);
    if (tag &&
        grpc_server_request_call(listener->server, &c->call, &c->details, &c->metadata, s->queue, s->queue, tag) == GRPC_CALL_OK) {
        listener_take(listener);
        return true;
    }
    free(tag);
    free(c->arena);
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

static void take_call(struct rpc_call *c, bool ok) {
    if (!ok) /* the server is shutting down: this request was never matched */
        return;
    if (!c->server->stopping)
        ask_for_call(c->server, c->listener);
    call_begin(c);
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
    grpc_completion_queue_shutdown(s->idle);
    uv_sem_post(&s->polls);
}

static void on_tag(struct tag *tag) {
    struct rpc_call *c = tag->call;
    switch (tag->kind) {
    case TAG_NEW:
        take_call(c, tag->ok);
        break;
    case TAG_RECV:
        call_take_message(c, tag->ok);
        break;
    case TAG_SEND:
        call_sent(c, tag->ok);
        break;
    case TAG_CLOSED: /* the client went away, or the status has been delivered */
        c->gone = c->cancelled != 0;
        if (c->gone)
            call_end(c);
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
        call_unref(c);
}

static void on_closed(uv_handle_t *handle) {
    struct rpc_server *s = handle->data;
    pthread_join(s->drain, NULL);
    pthread_join(s->poll, NULL);
    grpc_completion_queue_destroy(s->queue);
    grpc_completion_queue_destroy(s->idle);
    s->queue = s->idle = NULL;
    s->done(s->done_ctx);
}

static void on_pace_closed(uv_handle_t *pace) {
    struct rpc_server *s = pace->data;
    uv_close((uv_handle_t *)&s->wake, on_closed);
}

/* At most TAGS_A_TURN, or what TURN_MS take: the timers and the other events of the loop have their turn between them, however much
 * clients send. */
static void on_wake(uv_async_t *wake) {
    struct rpc_server *s = wake->data;
    struct tag *tag = NULL;
    bool drained = false;
    const int64_t until_ms = clock_ms() + TURN_MS;
    for (int i = 0; i < TAGS_A_TURN && (!i || clock_ms() < until_ms) && (tag = tag_take(s, &drained)); i++)
        on_tag(tag); /* the first in any case: none is left behind without another wake */
    if (tag)
        uv_async_send(wake);
    else if (drained && !uv_is_closing((uv_handle_t *)&s->pace))
        uv_close((uv_handle_t *)&s->pace, on_pace_closed);
}

static void on_never_started(uv_handle_t *wake) { rpc_server_free(wake->data); }

static void on_pace_never_started(uv_handle_t *pace) {
    struct rpc_server *s = pace->data;
    uv_close((uv_handle_t *)&s->wake, on_never_started);
}

static void on_listener_opened(void *ctx, struct listener *listener) { ask_for_call(ctx, listener); }

static void *shutdown_tag(void *ctx, struct listener *listener) {
    struct tag *tag = tag_new(ctx, TAG_SHUTDOWN, NULL);
    if (tag)
        tag->listener = listener;
    return tag;
}

int rpc_server_start(uv_loop_t *loop, const struct rpc_config *config, struct rpc_server **ret, struct err *err) {
    struct rpc_server *s = calloc(1, sizeof *s);
    struct map *callers = map_new(SIZE_MAX);
    if (!s || !callers) {
        free(s);
        map_free(callers, NULL);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the RPC server");
    }
    grpc_init();
    s->config = *config;
    s->callers = callers;
    s->config.listeners.max_message = RPC_DATA_BYTES + 64 * 1024;
    s->config.listeners.opened = on_listener_opened;
    s->config.listeners.shut_tag = shutdown_tag;
    s->config.listeners.ctx = s;
    s->idle = s->config.listeners.idle = grpc_completion_queue_create_for_next(NULL);
    s->loop = loop;
    s->queue = grpc_completion_queue_create_for_next(NULL);
    pthread_mutex_init(&s->lock, NULL);
    uv_sem_init(&s->polls, 0);
    s->wake.data = s->pace.data = s;
    if (uv_async_init(loop, &s->wake, on_wake)) {
        rpc_server_free(s);
        return err_set(err, ERR_INTERNAL, "cannot wake the loop");
    }
    uv_timer_init(loop, &s->pace);
    int rc = listeners_open(loop, s->queue, &s->config.listeners, &s->listeners, err);
    if (rc) {
        uv_close((uv_handle_t *)&s->pace, on_pace_never_started);
        return rc;
    }
    if ((rc = pthread_create(&s->drain, NULL, tag_drain, s)) || (rc = pthread_create(&s->poll, NULL, tag_poll, s)))
        return err_set(err, ERR_EXHAUSTED, "cannot start the threads of the RPC server: %s", strerror(rc)); /* the process ends */
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
        grpc_completion_queue_shutdown(s->idle);
        grpc_completion_queue_destroy(s->idle);
    }
    uv_sem_destroy(&s->polls);
    map_free(s->callers, NULL);
    pthread_mutex_destroy(&s->lock);
    free(s);
    grpc_shutdown_blocking();
}

enum accept_state rpc_server_look(struct rpc_server *s) { return s->listeners ? listeners_look(s->listeners) : ACCEPT_WELL; }
size_t rpc_server_unsent(const struct rpc_server *s) { return s->unsent; }

/* The daemon can do nothing for the call until its client moves. */
static bool waits_for_client(const struct rpc_call *c) {
    return call_is_open(c) && ((c->method->client_stream && c->receiving) || c->unsent > 0);
}

/* How long the daemon waits for the client of this call as it is now; 0 = for ever. */
static int patience_ms(const struct rpc_call *c) {
    if (!c->method || !call_is_open(c))
        return 0;
    if (c->receiving && !c->heard_ms)
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

/* The caller of a call is checked again every RPC_CHECK_TICKS; the call's address says in which of them, so that thousands of
 * calls are not checked in one turn. */
static bool is_checked_now(const struct rpc_server *s, const struct rpc_call *c) {
    return (unsigned)((uintptr_t)c / sizeof *c % RPC_CHECK_TICKS) == s->ticks % RPC_CHECK_TICKS;
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
    auth_tick(s->config.auth);
    accept_end_strangers(clock_ms());
    const uint64_t now = uv_now(s->loop);
    s->ticks++;
    for (struct rpc_call *c = s->calls; c; c = c->next) {
        look_at_call(c, now);
        if (c->admitted && is_checked_now(s, c))
            call_still_admitted(c);
    }
}

const char *rpc_library_version(void) { return grpc_version_string(); }
