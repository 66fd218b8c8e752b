#include "daemon/rpc/rpc.h"

#include <ctype.h>
#include <errno.h>
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
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "base/str.h"
#include "brr/v1/common.pb-c.h"

/* What a completion-queue event means. A tag is one outstanding operation of one call. */
enum tag_kind { TAG_NEW, TAG_RECV, TAG_SEND, TAG_CLOSED, TAG_STATUS, TAG_SHUTDOWN };
struct tag {
    enum tag_kind kind;
    bool ok;
    struct rpc_call *call;
    struct rpc_server *server;
    struct tag *next; /* on its way from the drain thread to the loop */
};

struct answer {
    struct answer *next;
    grpc_byte_buffer *buffer;
};

struct rpc_call {
    struct rpc_server *server;
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
    bool sending, receiving, held, full, finishing, status_sent, ended;
    bool half_closed; /* the client said so: nothing more is read */
    bool gone;        /* the client went away, as the loop knows it */
    int code;
    struct err err;
    char reason[48];
    int64_t retry_after_ms;
    uint64_t start_ns;
};

struct rpc_server {
    grpc_server *server;
    grpc_completion_queue *queue;
    uv_loop_t *loop;
    uv_async_t wake;
    pthread_t drain;
    pthread_mutex_t lock; /* head and tail */
    struct tag *head, *tail;
    bool drained, stopping;
    struct rpc_config config;
    char unix_path[108];
    int port;
    void (*done)(void *ctx);
    void *done_ctx;
};

/* ---- events: completion queue → loop ---- */

static void *drain_main(void *arg) {
    struct rpc_server *s = arg;
    for (;;) {
        grpc_event e = grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        struct tag *tag = e.type == GRPC_OP_COMPLETE ? e.tag : NULL;
        pthread_mutex_lock(&s->lock);
        if (tag) {
            tag->ok = e.success;
            tag->next = NULL;
            if (s->tail)
                s->tail->next = tag;
            else
                s->head = tag;
            s->tail = tag;
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

/* Start one operation with a tag of its own; false when it could not be started. */
static bool start(struct rpc_call *c, grpc_op *ops, size_t n, enum tag_kind kind) {
    struct tag *tag = tag_new(c->server, kind, c);
    if (!tag)
        return false;
    if (grpc_call_start_batch(c->call, ops, n, tag, NULL) == GRPC_CALL_OK)
        return true;
    c->tags--;
    free(tag);
    return false;
}

static bool ask_for_call(struct rpc_server *s) {
    struct rpc_call *c = calloc(1, sizeof *c);
    if (!c)
        return false;
    c->server = s;
    arena_init(&c->arena, 8u << 20);
    grpc_call_details_init(&c->details);
    grpc_metadata_array_init(&c->metadata);
    struct tag *tag = tag_new(s, TAG_NEW, c);
    if (tag && grpc_server_request_call(s->server, &c->call, &c->details, &c->metadata, s->queue, s->queue, tag) == GRPC_CALL_OK)
        return true;
    free(tag);
    free(c);
    return false;
}

static void free_answers(struct rpc_call *c) {
    while (c->first) {
        struct answer *next = c->first->next;
        grpc_byte_buffer_destroy(c->first->buffer);
        free(c->first);
        c->first = next;
    }
    c->last = NULL;
    c->queued = 0;
}

static void end_call(struct rpc_call *c) {
    if (c->ended || !c->method)
        return;
    c->ended = true;
    if (c->method->end)
        c->method->end(c);
    if (c->server->config.observe) {
        double seconds = 1e-9 * (double)(uv_hrtime() - c->start_ns);
        c->server->config.observe(c->server->config.ctx, c->method->path, c->gone && !c->status_sent ? ERR_CANCELLED : c->code,
                                  seconds);
    }
}

/* Free the call once its last operation has come back. */
static void unref(struct rpc_call *c) {
    if (--c->tags > 0)
        return;
    end_call(c);
    free_answers(c);
    if (c->received)
        grpc_byte_buffer_destroy(c->received);
    if (c->call)
        grpc_call_unref(c->call);
    grpc_call_details_destroy(&c->details);
    grpc_metadata_array_destroy(&c->metadata);
    arena_done(&c->arena);
    free(c);
}

/* ---- one call ---- */

static void receive(struct rpc_call *c) {
    if (c->receiving || c->held || c->half_closed || c->finishing || c->ended)
        return;
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &c->received;
    c->receiving = start(c, &op, 1, TAG_RECV);
}

/* brr.v1.ErrorDetail, for trailing metadata. */
static grpc_slice pack_detail(const struct rpc_call *c) {
    Brr__V1__ErrorDetail detail = BRR__V1__ERROR_DETAIL__INIT;
    detail.reason = (char *)(uintptr_t)c->reason;
    detail.message = (char *)(uintptr_t)c->err.message;
    detail.cause = (char *)(uintptr_t)c->err.cause;
    detail.retry_after_ms = c->retry_after_ms;
    grpc_slice slice = grpc_slice_malloc(brr__v1__error_detail__get_packed_size(&detail));
    brr__v1__error_detail__pack(&detail, GRPC_SLICE_START_PTR(slice));
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
    c->status_sent = start(c, &op, 1, TAG_STATUS);
    grpc_slice_unref(details);
    grpc_slice_unref(detail.value);
}

/* Send the next answer, or the status when nothing is left and the call is finishing. */
static void pump(struct rpc_call *c) {
    if (c->sending || c->status_sent || c->gone)
        return;
    if (!c->first) {
        if (c->finishing)
            send_status(c);
        return;
    }
    struct answer *a = c->first;
    c->first = a->next;
    if (!c->first)
        c->last = NULL;
    c->queued--;
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

static void on_new(struct rpc_call *c, bool ok) {
    struct rpc_server *s = c->server;
    if (!ok) /* the server is shutting down: this request was never matched */
        return;
    if (!s->stopping)
        ask_for_call(s);
    c->start_ns = uv_hrtime();
    c->method = find_method(s, c->details.method);
    grpc_op closed = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER}, initial = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    closed.data.recv_close_on_server.cancelled = &c->cancelled;
    if (!start(c, &closed, 1, TAG_CLOSED) || !start(c, &initial, 1, TAG_SEND))
        return;
    c->sending = true;
    if (!c->method) {
        char *path = grpc_slice_to_c_string(c->details.method);
        struct err err;
        err_set(&err, ERR_UNSUPPORTED, "%s is unsupported yet", path);
        gpr_free(path);
        rpc_finish(c, err.code, &err);
        return;
    }
    receive(c);
}

static void on_message(struct rpc_call *c, bool ok) {
    c->receiving = false;
    grpc_byte_buffer *buffer = c->received;
    c->received = NULL;
    if (!ok || !buffer) { /* half-close, or the call is gone */
        c->half_closed = true;
        if (ok && !c->finishing && !c->ended && c->method->half_close)
            c->method->half_close(c);
        return;
    }
    size_t len = grpc_byte_buffer_length(buffer);
    if (c->finishing || c->ended) {
        /* too late */
    } else if (len > c->method->max_message) {
        struct err err;
        err_set(&err, ERR_EXHAUSTED, "a message of %zu bytes; at most %zu are accepted", len, c->method->max_message);
        rpc_finish(c, err.code, &err);
    } else {
        grpc_byte_buffer_reader reader;
        grpc_byte_buffer_reader_init(&reader, buffer);
        grpc_slice all = grpc_byte_buffer_reader_readall(&reader);
        c->method->message(c, GRPC_SLICE_START_PTR(all), GRPC_SLICE_LENGTH(all));
        grpc_slice_unref(all);
        grpc_byte_buffer_reader_destroy(&reader);
    }
    grpc_byte_buffer_destroy(buffer);
    if (c->method->client_stream)
        receive(c);
}

static void on_sent(struct rpc_call *c, bool ok) {
    c->sending = false;
    if (!ok)
        return;
    pump(c);
    if (c->full && c->queued <= RPC_SEND_MAX / 2 && !c->finishing && !c->ended) {
        c->full = false;
        if (c->method->writable)
            c->method->writable(c);
    }
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
        grpc_server_destroy(tag->server->server);
        tag->server->server = NULL;
        grpc_completion_queue_shutdown(tag->server->queue);
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
    if (*s->unix_path)
        unlink(s->unix_path);
    s->done(s->done_ctx);
}

static void on_wake(uv_async_t *wake) {
    struct rpc_server *s = wake->data;
    pthread_mutex_lock(&s->lock);
    struct tag *tag = s->head;
    s->head = s->tail = NULL;
    bool drained = s->drained;
    pthread_mutex_unlock(&s->lock);
    while (tag) {
        struct tag *next = tag->next;
        on_tag(tag);
        tag = next;
    }
    if (drained && !uv_is_closing((uv_handle_t *)&s->wake))
        uv_close((uv_handle_t *)&s->wake, on_closed);
}

/* ---- server ---- */

/* A socket file that nobody listens on is left over from a crash and removed; a live one belongs to another daemon. */
static int clear_stale_socket(const char *path, struct err *err) {
    struct stat st;
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot use the socket %s", path);
    if (!S_ISSOCK(st.st_mode))
        return err_set(err, ERR_PRECONDITION, "listen.unix %s exists and is no socket; remove it or choose another path", path);
    if (!str_copy(addr.sun_path, sizeof addr.sun_path, path))
        return err_set(err, ERR_RANGE, "listen.unix %s is longer than a socket path may be (107 bytes)", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int connected = fd < 0 ? -1 : connect(fd, (struct sockaddr *)&addr, sizeof addr);
    if (fd >= 0)
        close(fd);
    if (connected == 0)
        return err_set(err, ERR_EXISTS, "another daemon serves %s; stop it, or set listen.unix to another path", path);
    return unlink(path) < 0 && errno != ENOENT ? err_errno(err, errno, "cannot remove the stale socket %s", path) : 0;
}

static int bind_unix(struct rpc_server *s, grpc_server_credentials *creds, struct err *err) {
    char address[128];
    if (!str_copy(s->unix_path, sizeof s->unix_path, s->config.unix_path)) {
        s->unix_path[0] = '\0';
        return err_set(err, ERR_RANGE, "listen.unix %s is longer than a socket path may be (107 bytes)", s->config.unix_path);
    }
    int rc = clear_stale_socket(s->unix_path, err);
    if (rc) {
        s->unix_path[0] = '\0';
        return rc;
    }
    str_format(address, sizeof address, "unix:%s", s->unix_path);
    mode_t old = umask(0177);
    int bound = grpc_server_add_http2_port(s->server, address, creds);
    umask(old);
    return bound ? 0
                 : err_set(err, ERR_UNAVAILABLE, "cannot listen on %s; does its directory exist and may this user write there?",
                           s->unix_path);
}

static int bind_all(struct rpc_server *s, struct err *err) {
    grpc_server_credentials *creds = grpc_insecure_server_credentials_create();
    int rc = s->config.unix_path ? bind_unix(s, creds, err) : 0;
    if (!rc && s->config.tcp) {
        s->port = grpc_server_add_http2_port(s->server, s->config.tcp, creds);
        if (!s->port)
            rc = err_set(err, ERR_UNAVAILABLE, "cannot listen on %s; is the port taken?", s->config.tcp);
    }
    grpc_server_credentials_release(creds);
    return rc;
}

static grpc_server *make_server(void) {
    static char so_reuseport[] = "grpc.so_reuseport", message[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
    static char algorithms[] = "grpc.compression_enabled_algorithms_bitset",
                ping[] = "grpc.http2.min_ping_interval_without_data_ms";
    static char streams[] = GRPC_ARG_MAX_CONCURRENT_STREAMS, metadata[] = GRPC_ARG_MAX_METADATA_SIZE;
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = so_reuseport, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = message, .value.integer = RPC_DATA_BYTES + 64 * 1024},
        {.type = GRPC_ARG_INTEGER, .key = algorithms, .value.integer = 1},
        {.type = GRPC_ARG_INTEGER, .key = ping, .value.integer = 10000},
        {.type = GRPC_ARG_INTEGER, .key = streams, .value.integer = 1024},
        {.type = GRPC_ARG_INTEGER, .key = metadata, .value.integer = 16 * 1024},
    };
    grpc_channel_args all = {sizeof args / sizeof *args, args};
    return grpc_server_create(&all, NULL);
}

int rpc_server_start(uv_loop_t *loop, const struct rpc_config *config, struct rpc_server **ret, struct err *err) {
    struct rpc_server *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the RPC server");
    grpc_init();
    s->config = *config;
    s->loop = loop;
    s->queue = grpc_completion_queue_create_for_next(NULL);
    s->server = make_server();
    pthread_mutex_init(&s->lock, NULL);
    grpc_server_register_completion_queue(s->server, s->queue, NULL);
    int rc = bind_all(s, err);
    if (!rc && uv_async_init(loop, &s->wake, on_wake))
        rc = err_set(err, ERR_INTERNAL, "cannot wake the loop");
    if (rc) { /* a server that never started shuts down at once */
        grpc_server_shutdown_and_notify(s->server, s->queue, NULL);
        grpc_completion_queue_next(s->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        grpc_server_destroy(s->server);
        grpc_completion_queue_shutdown(s->queue);
        grpc_completion_queue_destroy(s->queue);
        rpc_server_free(s);
        return rc;
    }
    s->wake.data = s;
    grpc_server_start(s->server);
    ask_for_call(s);
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
    grpc_server_shutdown_and_notify(s->server, s->queue, tag_new(s, TAG_SHUTDOWN, NULL));
    grpc_server_cancel_all_calls(s->server);
}

void rpc_server_free(struct rpc_server *s) {
    if (!s)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
    grpc_shutdown_blocking();
}

int rpc_server_port(const struct rpc_server *s) { return s->port; }

/* ---- what services use ---- */

void *rpc_context(const struct rpc_call *c) { return c->server->config.ctx; }
struct arena *rpc_arena(struct rpc_call *c) {
    return &c->arena;
}
void *rpc_state(const struct rpc_call *c) { return c->state; }
void rpc_set_state(struct rpc_call *c, void *state) { c->state = state; }

bool rpc_send(struct rpc_call *c, const uint8_t *data, size_t len) {
    if (c->finishing || c->ended)
        return true;
    struct answer *a = calloc(1, sizeof *a);
    if (!a)
        return false;
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)data, len);
    a->buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    if (c->last)
        c->last->next = a;
    else
        c->first = a;
    c->last = a;
    c->queued++;
    pump(c);
    c->full = c->queued >= RPC_SEND_MAX;
    return !c->full;
}

void rpc_finish(struct rpc_call *c, int code, const struct err *err) { rpc_refuse(c, code, err, NULL, 0); }

void rpc_refuse(struct rpc_call *c, int code, const struct err *err, const char *reason, int64_t retry_after_ms) {
    if (c->finishing || c->ended)
        return;
    c->finishing = true;
    c->code = code;
    if (code && err)
        c->err = *err;
    str_copy(c->reason, sizeof c->reason, reason ? reason : err_name(code));
    for (char *p = c->reason; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    c->retry_after_ms = retry_after_ms;
    pump(c);
}

void rpc_hold(struct rpc_call *c) { c->held = true; }

void rpc_release(struct rpc_call *c) {
    c->held = false;
    receive(c);
}

const char *rpc_library_version(void) { return grpc_version_string(); }
