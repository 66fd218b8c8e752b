/* listeners: where clients connect to the RPC server. Each listener is a separate gRPC server on the shared completion queue, so
 * that each call reliably shows how its connection was made: one listener for TCP, and one for each user (and role) that connects
 * to the unix socket. When all places are taken, the listener without calls that was used least recently gives way to a new user;
 * its idle connections end with GOAWAY, and their clients connect again. Loop thread. */
#pragma once
#include "daemon/rpc/accept.h"
#include "daemon/rpc/auth.h"
#include "daemon/rpc/tls.h"

typedef struct uv_loop_s uv_loop_t;
struct grpc_server;
struct grpc_completion_queue;

enum { LISTENERS_MAX = 64 };

struct listener {
    struct grpc_server *server;
    struct auth_connection who;
    struct listener *next; /* for the RPC server: among listeners from which it could not request a call yet */
    int calls;             /* for the RPC server: open calls */
    int references;
    uint64_t used; /* the number of its last connection or call, among all listeners */
    bool closing;  /* no call may be requested from it any more */
};

struct listeners_config {
    const char *unix_path; /* or NULL */
    const char *unix_group;
    unsigned unix_mode;
    const char *tcp;                    /* "host:port", or NULL */
    struct tls *tls;                    /* for the TCP listener; NULL: plain text */
    bool certificate;                   /* callers of the TCP listener need a client certificate */
    enum role tcp_role;                 /* role of callers without a token */
    int max_message;                    /* bytes */
    struct grpc_completion_queue *idle; /* a second queue, in which nothing arrives and which is polled all the time; or NULL */
    /* Called when a listener was opened: calls may now be requested from it. */
    void (*opened)(void *ctx, struct listener *listener);
    /* The tag to be posted to the queue when the listener's shutdown is complete; NULL when out of memory. */
    void *(*shut_tag)(void *ctx, struct listener *listener);
    void *ctx;
};

struct listeners;
int listeners_open(uv_loop_t *loop, struct grpc_completion_queue *queue, const struct listeners_config *config,
                   struct listeners **ret, struct err *err);
/* Whether the TCP port accepts connections (accept.h). Call once a second. */
enum accept_state listeners_look(struct listeners *listeners);
/* Stops accepting connections and cancels open calls. Each listener posts its tag to the queue when its shutdown is complete. */
void listeners_shut(struct listeners *listeners);
/* Call when the tag of a listener has arrived. Returns the number of remaining listeners. */
int listeners_remove(struct listeners *listeners, struct listener *listener);
int listeners_count(const struct listeners *listeners);
/* A listener's memory stays while it is referred to. */
void listener_take(struct listener *listener);
void listener_drop(struct listener *listener);
/* A call of the listener begins (+1) or has ended (-1). */
void listeners_count_call(struct listeners *listeners, struct listener *listener, int change);
/* Call when the tags of all listeners have arrived. NULL is allowed. */
void listeners_free(struct listeners *listeners);
/* From now on, gRPC's own log lines go to the log, and failed TLS handshakes to auth. Process-wide, because gRPC's log function is
 * global. Call with NULL before auth is freed. */
void listeners_watch_transport(struct auth *auth);
