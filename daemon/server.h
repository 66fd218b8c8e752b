/* server: the daemon's loop and everything that runs on it: worker, scheduler, RPC, HTTP, signals. Loop thread. */
#ifndef BRR_DAEMON_SERVER_H
#define BRR_DAEMON_SERVER_H
#include <stdatomic.h>

#include "base/metrics.h"
#include "daemon/config.h"
#include "daemon/device/device_watch.h"
#include "daemon/rpc/auth.h"

#define BRR_NOTICE "not a medical device: nothing here has been evaluated for clinical use"

/* Result of server_run, and exit code of the process, after a fault that another start of the process repairs: the device is
 * unusable (device_lost), or the TCP port accepts no connections. */
enum { SERVER_RESTART = 70 };
/* Runs until SIGTERM, SIGINT, Admin.Drain or such a fault; returns 0 after a clean shutdown. On SIGHUP, log.* and serve
 * are read again from the source; other keys need a restart. */
int server_run(const struct config *config, const struct config_source *source, struct err *err);

/* Families of /metrics. */
extern const struct metric_family metrics_families[];
extern const size_t metrics_family_count;

/* The HTTP server on its own thread: /healthz and /readyz for everybody, /metrics and a status line at / for the role read. */
struct http;
struct device_hosts;
/* State from which /readyz is answered; copied. */
struct http_state {
    const atomic_bool *serving;
    const struct device_watch *watch;
    const atomic_bool *writable; /* whether the job database can be written */
    const atomic_bool *device_serves;
    const atomic_int *models; /* enum models_state */
    const struct device_hosts *hosts;
    const atomic_bool *results_full; /* the volume of paths.results */
    const atomic_int *unsaved;       /* live streams that go on without snapshots */
    struct auth *auth;               /* decides who may read metrics */
    struct tls *tls;                 /* NULL: plain text */
};
int http_start(const char *address, struct metrics *metrics, const struct http_state *state, struct http **ret, struct err *err);
/* Loop thread. New connections use the current certificate. NULL is allowed. */
int http_renew(struct http *http, struct err *err);
void http_stop(struct http *http);

#endif
