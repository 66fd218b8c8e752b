#include "daemon/rpc/listeners.h"

#include <grpc/grpc.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/log.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/rpc/accept.h"
#include "daemon/rpc/unix_listener.h"

/* A connection without a call ends after IDLE_MS; one that never gets as far as its first frame after HANDSHAKE_MS. */
enum { HANDSHAKE_MS = 10 * 1000, IDLE_MS = 10 * 60 * 1000, ALIVE_MS = 60 * 1000, PING_FLOOR_MS = 10 * 1000 };
enum { MAX_STREAMS = 1024, MAX_METADATA = 16 * 1024 };

/* Receives failed handshakes. Global because gRPC calls its log function without a context. */
static struct auth *_Atomic transport_auth;

struct doors {
    struct doors_config config;
    grpc_completion_queue *queue;
    grpc_server_credentials *plain;
    struct unix_door *unix_door;
    struct door *all[2 * DOORS_MAX]; /* those that are closing included */
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

void doors_watch_transport(struct auth *auth) {
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

void door_take(struct door *door) { door->references++; }

void door_drop(struct door *door) {
    if (--door->references == 0)
        free(door);
}

void doors_count_call(struct doors *d, struct door *door, int change) {
    door->calls += change;
    if (d)
        door->used = ++d->uses;
}

static bool is_unix(const struct door *door) { return !strcmp(door->who.listener, "unix"); }

static void shut(struct doors *d, struct door *door, void *tag) {
    door->closing = true;
    grpc_server_shutdown_and_notify(door->server, d->queue, tag);
}

/* True if one more door may be opened, for which an idle one may have to close. */
static bool make_place(struct doors *d) {
    struct door *idle = NULL;
    int open = 0;
    for (int i = 0; i < d->count; i++) {
        struct door *door = d->all[i];
        open += !door->closing;
        if (is_unix(door) && !door->closing && !door->calls && (!idle || door->used < idle->used))
            idle = door;
    }
    if (open < DOORS_MAX || d->count == 2 * DOORS_MAX)
        return d->count < 2 * DOORS_MAX;
    void *tag = idle ? d->config.shut_tag(d->config.ctx, idle) : NULL;
    if (tag)
        shut(d, idle, tag);
    return tag != NULL;
}

/* Not started yet. NULL when there is no room. */
static struct door *add_door(struct doors *d, const struct auth_door *who) {
    struct door *door = make_place(d) ? calloc(1, sizeof *door) : NULL;
    if (!door)
        return NULL;
    door->who = *who;
    door_take(door);
    door->server = make_server(d->config.max_message);
    grpc_server_register_completion_queue(door->server, d->queue, NULL);
    return d->all[d->count++] = door;
}

static void begin(struct doors *d, struct door *door) {
    grpc_server_start(door->server);
    d->config.opened(d->config.ctx, door);
}

static struct door *door_of(struct doors *d, const struct unix_peer *peer) {
    for (int i = 0; i < d->count; i++) {
        struct door *known = d->all[i];
        if (is_unix(known) && !known->closing && known->who.uid == peer->uid && known->who.role == peer->role) {
            known->used = ++d->uses;
            return known;
        }
    }
    struct door *door =
        add_door(d, &(struct auth_door){.listener = "unix", .uid = peer->uid, .role = peer->role, .own = peer->own});
    if (!door)
        return NULL;
    door->used = ++d->uses;
    begin(d, door);
    return door;
}

static void on_connected(void *ctx, int fd, const struct unix_peer *peer) {
    struct doors *d = ctx;
    struct door *door = d->shut ? NULL : door_of(d, peer);
    if (door) {
        grpc_server_add_channel_from_fd(door->server, fd, d->plain);
        return;
    }
    if (!d->shut)
        log_error("connection refused: calls of too many users are open on the unix socket", "listener=unix uid=%u max=%d",
                  peer->uid, DOORS_MAX);
    close(fd);
}

static int open_tcp(struct doors *d, struct err *err) {
    const struct doors_config *c = &d->config;
    struct door *door = add_door(d, &(struct auth_door){.listener = "tcp", .role = c->tcp_role, .certificate = c->certificate});
    if (!door)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", c->tcp);
    grpc_server_credentials *creds = c->tls ? tls_credentials(c->tls) : d->plain;
    d->port = creds ? grpc_server_add_http2_port(door->server, c->tcp, creds) : 0;
    if (c->tls && creds)
        grpc_server_credentials_release(creds);
    return d->port ? 0
                   : err_set(err, ERR_UNAVAILABLE, "cannot listen on %s; is the port taken, and the address one of this machine?",
                             c->tcp);
}

static int open_unix(uv_loop_t *loop, struct doors *d, struct err *err) {
    const struct unix_door_config c = {.path = d->config.unix_path,
                                       .group = d->config.unix_group,
                                       .mode = d->config.unix_mode,
                                       .connected = on_connected,
                                       .ctx = d};
    return unix_door_open(loop, &c, &d->unix_door, err);
}

/* A door that never opened shuts at once. */
static void abandon(struct doors *d) {
    for (int i = 0; i < d->count; i++) {
        grpc_server_shutdown_and_notify(d->all[i]->server, d->queue, NULL);
        grpc_completion_queue_next(d->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    }
    doors_free(d);
}

int doors_open(uv_loop_t *loop, grpc_completion_queue *queue, const struct doors_config *config, struct doors **ret,
               struct err *err) {
    struct doors *d = calloc(1, sizeof *d);
    int rc;
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the listeners");
    d->config = *config;
    d->queue = queue;
    d->plain = grpc_insecure_server_credentials_create();
    if ((config->tcp && (rc = open_tcp(d, err))) || (config->unix_path && (rc = open_unix(loop, d, err)))) {
        abandon(d);
        return rc;
    }
    *ret = d;
    for (int i = 0; i < d->count; i++)
        begin(d, d->all[i]);
    accept_watch_init(&d->watch, d->port, clock_ms());
    return 0;
}

bool doors_deaf(struct doors *d) { return !d->shut && accept_watch_deaf(&d->watch, clock_ms()); }

void doors_shut(struct doors *d) {
    d->shut = true;
    unix_door_close(d->unix_door);
    d->unix_door = NULL;
    for (int i = 0; i < d->count; i++) {
        if (!d->all[i]->closing)
            shut(d, d->all[i], d->config.shut_tag(d->config.ctx, d->all[i]));
        grpc_server_cancel_all_calls(d->all[i]->server);
    }
}

int doors_count(const struct doors *d) { return d->count; }

int doors_remove(struct doors *d, struct door *door) {
    for (int i = 0; i < d->count; i++)
        if (d->all[i] == door) {
            d->all[i] = d->all[--d->count];
            grpc_server_destroy(door->server);
            door_drop(door);
            break;
        }
    return d->count;
}

void doors_free(struct doors *d) {
    if (!d)
        return;
    unix_door_close(d->unix_door);
    for (int i = 0; i < d->count; i++) {
        grpc_server_destroy(d->all[i]->server);
        door_drop(d->all[i]);
    }
    grpc_server_credentials_release(d->plain);
    free(d);
}
