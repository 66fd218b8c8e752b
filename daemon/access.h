/* access: the daemon's certificate, tokens and CAs of clients, and their reload, on SIGHUP or when a file changes. Loop thread. */
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
/* Reads every file again; http may be NULL. What cannot be used is logged, and the earlier one stays. */
void access_reload(struct access *a, struct http *http);
/* The same when a file has changed; once a second. */
void access_tick(struct access *a, struct http *http);

#endif
