#include "daemon/rpc/listeners.h"

#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>

#include "base/log.h"
#include "daemon/rpc/unix_listener.h"

/* A connection without a call ends after IDLE_MS; one that never gets as far as its first frame after HANDSHAKE_MS. */
enum { HANDSHAKE_MS = 10 * 1000, IDLE_MS = 10 * 60 * 1000, ALIVE_MS = 60 * 1000, PING_FLOOR_MS = 10 * 1000 };
enum { MAX_STREAMS = 1024, MAX_METADATA = 16 * 1024 };

/* Receives failed handshakes. Global because gRPC calls its log function without a context. */
static struct auth *_Atomic transport_auth;

struct listeners {
    struct listeners_config config;
    grpc_completion_queue *queue;
    grpc_server_credentials *plain;
    struct unix_listener *unix_listener;
    struct listener *all[2 * LISTENERS_MAX]; /* including listeners that are closing */
    int count, port;
    uint64_t uses;
    bool shut;
    struct accept_watch watch; /* of the TCP port */
};

/* Any thread of gRPC. The lines about handshakes name no peer, at any verbosity. */
static void on_transport_line(gpr_log_func_args *line) {
    struct auth *auth = atomic_load(&transport_auth);
    if (auth && strstr(line->message, "andshake failed"))
        auth_count_failure(auth, "tls_handshake", line->message);
    else if (line->severity == GPR_LOG_SEVERITY_ERROR)
        log_warn("transport", "cause=\"%s\"", line->message);
}

void listeners_watch_transport(struct auth *auth) {
    atomic_store(&transport_auth, auth);
    gpr_set_log_function(auth ? on_transport_line : NULL);
}

static grpc_server *make_server(int max_message) {
    static char so_reuseport[] = "grpc.so_reuseport", message[] = GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH;
    static char algorithms[] = "grpc.compression_enabled_algorithms_bitset",
                ping[] = "grpc.http2.min_ping_interval_without_data_ms";
    static char streams[] = GRPC_ARG_MAX_CONCURRENT_STREAMS, metadata[] = GRPC_ARG_MAX_METADATA_SIZE;
    static char idle[] = GRPC_ARG_MAX_CONNECTION_IDLE_MS, alive[] = GRPC_ARG_KEEPALIVE_TIME_MS,
                handshake[] = GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS;
    grpc_arg args[] = {
        {.type = GRPC_ARG_INTEGER, .key = so_reuseport, .value.integer = 0},
        {.type = GRPC_ARG_INTEGER, .key = message, .value.integer = max_message},
        {.type = GRPC_ARG_INTEGER, .key = algorithms, .value.integer = 1},
        {.type = GRPC_ARG_INTEGER, .key = ping, .value.integer = PING_FLOOR_MS},
        {.type = GRPC_ARG_INTEGER, .key = streams, .value.integer = MAX_STREAMS},
        {.type = GRPC_ARG_INTEGER, .key = metadata, .value.integer = MAX_METADATA},
        {.type = GRPC_ARG_INTEGER, .key = idle, .value.integer = IDLE_MS},
        {.type = GRPC_ARG_INTEGER, .key = alive, .value.integer = ALIVE_MS},
        {.type = GRPC_ARG_INTEGER, .key = handshake, .value.integer = HANDSHAKE_MS},
    };
    grpc_channel_args all = {sizeof args / sizeof *args, args};
    return grpc_server_create(&all, NULL);
}

void listener_take(struct listener *listener) { listener->references++; }

void listener_drop(struct listener *listener) {
    if (--listener->references == 0)
        free(listener);
}

void listeners_count_call(struct listeners *l, struct listener *listener, int change) {
    listener->calls += change;
    if (l)
        listener->used = ++l->uses;
}

static bool is_unix(const struct listener *listener) { return !strcmp(listener->who.listener, "unix"); }

static void shut(struct listeners *l, struct listener *listener, void *tag) {
    listener->closing = true;
    grpc_server_shutdown_and_notify(listener->server, l->queue, tag);
}

/* True if one more listener may be opened, for which an idle one may have to close. */
static bool make_place(struct listeners *l) {
    struct listener *idle = NULL;
    int open = 0;
    for (int i = 0; i < l->count; i++) {
        struct listener *listener = l->all[i];
        open += !listener->closing;
        if (is_unix(listener) && !listener->closing && !listener->calls && (!idle || listener->used < idle->used))
            idle = listener;
    }
    if (open < LISTENERS_MAX || l->count == 2 * LISTENERS_MAX)
        return l->count < 2 * LISTENERS_MAX;
    void *tag = idle ? l->config.shut_tag(l->config.ctx, idle) : NULL;
    if (tag)
        shut(l, idle, tag);
    return tag != NULL;
}

/* Not started yet. NULL when there is no room. */
static struct listener *add_listener(struct listeners *l, const struct auth_connection *who) {
    struct listener *listener = make_place(l) ? calloc(1, sizeof *listener) : NULL;
    if (!listener)
        return NULL;
    listener->who = *who;
    listener_take(listener);
    listener->server = make_server(l->config.max_message);
    grpc_server_register_completion_queue(listener->server, l->queue, NULL);
    if (l->config.idle)
        grpc_server_register_completion_queue(listener->server, l->config.idle, NULL);
    return l->all[l->count++] = listener;
}

static void begin(struct listeners *l, struct listener *listener) {
    grpc_server_start(listener->server);
    l->config.opened(l->config.ctx, listener);
}

static struct listener *listener_of(struct listeners *l, const struct unix_peer *peer) {
    for (int i = 0; i < l->count; i++) {
        struct listener *known = l->all[i];
        if (is_unix(known) && !known->closing && known->who.uid == peer->uid && known->who.role == peer->role) {
            known->used = ++l->uses;
            return known;
        }
    }
    struct listener *listener =
        add_listener(l, &(struct auth_connection){.listener = "unix", .uid = peer->uid, .role = peer->role, .own = peer->own});
    if (!listener)
        return NULL;
    listener->used = ++l->uses;
    begin(l, listener);
    return listener;
}

static void on_connected(void *ctx, int fd, const struct unix_peer *peer) {
    struct listeners *l = ctx;
    struct listener *listener = l->shut ? NULL : listener_of(l, peer);
    if (listener) {
        grpc_server_add_channel_from_fd(listener->server, fd, l->plain);
        return;
    }
    if (!l->shut)
        log_error("connection refused: calls of too many users are open on the unix socket", "listener=unix uid=%u max=%d",
                  peer->uid, LISTENERS_MAX);
    close(fd);
}

static int open_tcp(struct listeners *l, struct err *err) {
    const struct listeners_config *c = &l->config;
    struct listener *listener =
        add_listener(l, &(struct auth_connection){.listener = "tcp", .role = c->tcp_role, .certificate = c->certificate});
    if (!listener)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", c->tcp);
    grpc_server_credentials *creds = c->tls ? tls_credentials(c->tls) : l->plain;
    l->port = creds ? grpc_server_add_http2_port(listener->server, c->tcp, creds) : 0;
    if (c->tls && creds)
        grpc_server_credentials_release(creds);
    return l->port ? 0
                   : err_set(err, ERR_UNAVAILABLE, "cannot listen on %s; is the port taken, and the address one of this machine?",
                             c->tcp);
}

static int open_unix(uv_loop_t *loop, struct listeners *l, struct err *err) {
    const struct unix_listener_config c = {.path = l->config.unix_path,
                                           .group = l->config.unix_group,
                                           .mode = l->config.unix_mode,
                                           .connected = on_connected,
                                           .ctx = l};
    return unix_listener_open(loop, &c, &l->unix_listener, err);
}

/* A listener that never opened shuts at once. */
static void abandon(struct listeners *l) {
    for (int i = 0; i < l->count; i++) {
        grpc_server_shutdown_and_notify(l->all[i]->server, l->queue, NULL);
        grpc_completion_queue_next(l->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    listeners_free(l);
}

int listeners_open(uv_loop_t *loop, grpc_completion_queue *queue, const struct listeners_config *config, struct listeners **ret,
                   struct err *err) {
    struct listeners *l = calloc(1, sizeof *l);
    int rc;
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the listeners");
    l->config = *config;
    l->queue = queue;
    l->plain = grpc_insecure_server_credentials_create();
    if ((config->tcp && (rc = open_tcp(l, err))) || (config->unix_path && (rc = open_unix(loop, l, err)))) {
        abandon(l);
        return rc;
    }
    *ret = l;
    for (int i = 0; i < l->count; i++)
        begin(l, l->all[i]);
    accept_watch_init(&l->watch, l->port, clock_ms());
    return 0;
}

enum accept_state listeners_look(struct listeners *l) { return l->shut ? ACCEPT_WELL : accept_watch_look(&l->watch, clock_ms()); }

void listeners_shut(struct listeners *l) {
    l->shut = true;
    unix_listener_close(l->unix_listener);
    l->unix_listener = NULL;
    for (int i = 0; i < l->count; i++) {
        if (!l->all[i]->closing)
            shut(l, l->all[i], l->config.shut_tag(l->config.ctx, l->all[i]));
        grpc_server_cancel_all_calls(l->all[i]->server);
    }
}

int listeners_count(const struct listeners *l) { return l->count; }

int listeners_remove(struct listeners *l, struct listener *listener) {
    for (int i = 0; i < l->count; i++)
        if (l->all[i] == listener) {
            l->all[i] = l->all[--l->count];
            grpc_server_destroy(listener->server);
            listener_drop(listener);
            break;
        }
    return l->count;
}

void listeners_free(struct listeners *l) {
    if (!l)
        return;
    unix_listener_close(l->unix_listener);
    for (int i = 0; i < l->count; i++) {
        grpc_server_destroy(l->all[i]->server);
        listener_drop(l->all[i]);
    }
    grpc_server_credentials_release(l->plain);
    free(l);
}
