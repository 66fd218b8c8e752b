/* server: the daemon's loop and everything on it: worker, scheduler, RPC, HTTP, signals. Loop thread. */
#ifndef BRR_DAEMON_SERVER_H
#define BRR_DAEMON_SERVER_H
#include <stdatomic.h>

#include "base/metrics.h"
#include "daemon/config.h"
#include "daemon/device/device_watch.h"
#include "daemon/rpc/auth.h"

#define BRR_NOTICE "not a medical device: nothing here has been evaluated for clinical use"

/* Reads the configuration again for SIGHUP; what *ret points to lives in the arena. */
typedef int server_reload_fn(void *ctx, struct arena *arena, struct config *ret, struct err *err);
/* The process's exit code, and server_run's result, when a fault has taken the device from it (device_lost). */
enum { SERVER_DEVICE_LOST = 70 };
/* Runs until SIGTERM, SIGINT, Admin.Drain or the loss of the device; 0 after a clean stop. SIGHUP takes log.* and serve from
 * `reload`; the other keys need a restart. */
int server_run(const struct config *config, server_reload_fn *reload, void *reload_ctx, struct err *err);

/* Families of /metrics. */
extern const struct metric_family metrics_families[];
extern const size_t metrics_family_count;

/* HTTP on a thread of its own: /healthz and /readyz for everybody, /metrics and a status line at / for the role read. */
struct http;
/* What /readyz looks at; copied. */
struct http_state {
    const atomic_bool *serving;
    const struct device_watch *watch;
    const atomic_bool *writable; /* the job database */
    struct auth *auth;           /* who may read metrics */
    struct tls *tls;             /* NULL: in the clear */
};
int http_start(const char *address, struct metrics *metrics, const struct http_state *state, struct http **ret, struct err *err);
/* New connections get the present certificate. NULL is fine. */
int http_renew(struct http *http, struct err *err);
void http_stop(struct http *http);

#endif
