/* unix_listener: the unix socket of the RPC server. The daemon accepts its connections itself, because only then can it ask the
 * kernel for the peer's identity: the daemon's own uid and root have the role admin, members of the group the role submit, others
 * none. Loop thread. */
#pragma once

#include "trust/token.h"

typedef struct uv_loop_s uv_loop_t;

struct unix_peer {
    uint32_t uid;
    enum role role;
    bool own; /* the peer has the daemon's own uid or is root */
};

struct unix_listener_config {
    const char *path;
    const char *group; /* name or number; NULL = none */
    unsigned mode;     /* mode of the socket */
    /* Called for a new connection; takes ownership of the descriptor. */
    void (*connected)(void *ctx, int fd, const struct unix_peer *peer);
    void *ctx;
};

struct unix_listener;
/* Whether the path fits and the group exists, which unix_listener_open checks too. */
int unix_listener_check(const struct unix_listener_config *config, struct err *err);
/* Binds and listens. A socket file without a listener is left over from a crash and is replaced; one with a listener belongs to
 * another daemon (EXISTS). Errors name the path and the fix. */
int unix_listener_open(uv_loop_t *loop, const struct unix_listener_config *config, struct unix_listener **ret, struct err *err);
/* Stops accepting connections and removes the socket file. The loop frees the object later. NULL is allowed. */
void unix_listener_close(struct unix_listener *listener);
