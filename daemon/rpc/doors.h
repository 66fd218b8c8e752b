/* doors: where callers come in. Each door is a gRPC server of its own on the one completion queue, so that a call tells for sure
 * how its connection was made: one door for the TCP listener, and one for each user (and role) who connects to the unix socket.
 * Loop thread. */
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
};

struct doors_config {
    const char *unix_path; /* or NULL */
    const char *unix_group;
    unsigned unix_mode;
    const char *tcp;    /* "host:port", or NULL */
    struct tls *tls;    /* of the TCP door; NULL: in the clear */
    bool certificate;   /* callers of the TCP door need a client certificate */
    enum role tcp_role; /* of callers without a token */
    int max_message;    /* bytes */
    /* A door was opened: the first call may be asked for. */
    void (*opened)(void *ctx, struct door *door);
    void *ctx;
};

struct doors;
int doors_open(uv_loop_t *loop, struct grpc_completion_queue *queue, const struct doors_config *config, struct doors **ret,
               struct err *err);
/* TCP port that was bound, 0 = none. */
int doors_port(const struct doors *doors);
/* Nobody comes in any more, and open calls are cancelled. Each door posts tag(ctx, door) to the queue when it is shut; returns how
 * many will. */
int doors_shut(struct doors *doors, void *(*tag)(void *ctx, struct door *door), void *ctx);
/* After that; also the gRPC servers go. NULL is fine. */
void doors_free(struct doors *doors);
/* From now on gRPC's own lines go to the log, and failed TLS handshakes to auth; process-wide, as gRPC has it. NULL before auth
 * goes. */
void doors_watch_transport(struct auth *auth);

#endif
