/* doors: the listeners of the RPC server. Each door is a separate gRPC server on the shared completion queue, so that each call
 * reliably shows how its connection was made: one door for the TCP listener, and one for each user (and role) that connects to the
 * unix socket. When all places are taken, the door without calls that was used least recently gives way to a new user; its
 * idle connections end with GOAWAY, and their clients connect again. Loop thread. */
#ifndef BRR_DAEMON_RPC_LISTENERS_H
#define BRR_DAEMON_RPC_LISTENERS_H
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
    int calls;         /* for the RPC server: open calls */
    int references;
    uint64_t used; /* the number of its last connection or call, among all doors */
    bool closing;  /* no call may be requested from it any more */
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
    /* The tag to be posted to the queue when the door's shutdown is complete; NULL when out of memory. */
    void *(*shut_tag)(void *ctx, struct door *door);
    void *ctx;
};

struct doors;
int doors_open(uv_loop_t *loop, struct grpc_completion_queue *queue, const struct doors_config *config, struct doors **ret,
               struct err *err);
/* True if the TCP port accepts no connections any more. Call once a second. */
bool doors_deaf(struct doors *doors);
/* Stops accepting connections and cancels open calls. Each door posts its tag to the queue when its shutdown is complete. */
void doors_shut(struct doors *doors);
/* Call when the tag of a door has arrived. Returns the number of doors that are left. */
int doors_remove(struct doors *doors, struct door *door);
int doors_count(const struct doors *doors);
/* A door's memory stays while it is referred to. */
void door_take(struct door *door);
void door_drop(struct door *door);
/* A call of the door begins (+1) or has ended (-1). */
void doors_count_call(struct doors *doors, struct door *door, int change);
/* Call when the tags of all doors have arrived. NULL is allowed. */
void doors_free(struct doors *doors);
/* From now on, gRPC's own log lines go to the log, and failed TLS handshakes to auth. Process-wide, because gRPC's log function is
 * global. Call with NULL before auth is freed. */
void doors_watch_transport(struct auth *auth);

#endif
