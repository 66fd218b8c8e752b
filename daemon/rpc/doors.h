/* doors: the listeners of the RPC server. Each door is a separate gRPC server on the shared completion queue, so that each call
 * reliably shows how its connection was made: one door for the TCP listener, and one for each user (and role) that connects to the
 * unix socket. Loop thread. */
#ifndef BRR_DAEMON_RPC_DOORS_H
#define BRR_DAEMON_RPC_DOORS_H
#include "base/err.h"
#include "daemon/rpc/auth.h"
#include "daemon/rpc/tls.h"

typedef struct uv_loop_s uv_loop_t;
struct grpc_server;
struct grpc_completion_queue;

enum { DOORS_MAX = 64 };

struct door {
    struct grpc_server *server;
    struct auth_door who;
    struct door *next; /* for the RPC server: among doors from which it could not request a call yet */
};

struct doors_config {
    const char *unix_path; /* or NULL */
    const char *unix_group;
    unsigned unix_mode;
    const char *tcp;    /* "host:port", or NULL */
    struct tls *tls;    /* for the TCP door; NULL: plain text */
    bool certificate;   /* callers of the TCP door need a client certificate */
    enum role tcp_role; /* role of callers without a token */
    int max_message;    /* bytes */
    /* Called when a door was opened: calls may now be requested from it. */
    void (*opened)(void *ctx, struct door *door);
    void *ctx;
};

struct doors;
int doors_open(uv_loop_t *loop, struct grpc_completion_queue *queue, const struct doors_config *config, struct doors **ret,
               struct err *err);
/* True if the TCP port accepts no connections any more. Call once a second. */
bool doors_deaf(struct doors *doors);
/* Stops accepting connections and cancels open calls. Each door posts tag(ctx, door) to the queue when its shutdown is complete;
 * returns the number of doors. */
int doors_shut(struct doors *doors, void *(*tag)(void *ctx, struct door *door), void *ctx);
/* Call after that; frees the gRPC servers too. NULL is allowed. */
void doors_free(struct doors *doors);
/* From now on, gRPC's own log lines go to the log, and failed TLS handshakes to auth. Process-wide, because gRPC's log function is
 * global. Call with NULL before auth is freed. */
void doors_watch_transport(struct auth *auth);

#endif
