/* access: the daemon's certificate, tokens and client CAs, and their reload on SIGHUP or when a file changes. Loop thread. */
#ifndef BRR_DAEMON_ACCESS_H
#define BRR_DAEMON_ACCESS_H
#include "daemon/config.h"
#include "daemon/rpc/auth.h"
#include "daemon/rpc/tls.h"

struct http;
struct access {
    struct auth *auth;
    struct tls *tls; /* NULL: no certificate is configured */
    struct metrics *metrics;
};

int access_open(struct access *a, const struct config *config, struct metrics *metrics, struct err *err);
void access_close(struct access *a);
/* Reloads every file; http may be NULL. Errors are logged, and the previous file stays in use. */
void access_reload(struct access *a, struct http *http);
/* Same if a file has changed; call once a second. */
void access_tick(struct access *a, struct http *http);

#endif
