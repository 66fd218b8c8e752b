/* server: the daemon's loop and everything on it: worker, scheduler, RPC, HTTP, signals. Loop thread. */
#ifndef BRR_DAEMON_SERVER_H
#define BRR_DAEMON_SERVER_H
#include <stdatomic.h>

#include "base/metrics.h"
#include "daemon/config.h"
#include "daemon/jobs/sched.h"
#include "daemon/rpc/rpc.h"

#define BRR_NOTICE "not a medical device: nothing here has been evaluated for clinical use"

/* What services see (rpc_context). */
struct server {
    const struct config *config;
    uv_loop_t *loop;
    struct worker *worker;
    struct sched *sched;
    struct metrics *metrics;
    struct watch *watches; /* open Watch calls, rpc/svc_jobs.c */
    atomic_bool serving;
    int64_t start_ms;
};

/* Runs until SIGTERM or SIGINT; 0 after a clean stop. */
int server_run(const struct config *config, struct err *err);

/* Tell every watcher of this job. */
void svc_jobs_changed(struct server *server, const struct job *job);
/* Families of /metrics. */
extern const struct metric_family metrics_families[];
extern const size_t metrics_family_count;

/* HTTP on a thread of its own: /metrics, /healthz, /readyz and a status line at /. */
struct http;
int http_start(const char *address, struct metrics *metrics, atomic_bool *serving, struct http **ret, struct err *err);
void http_stop(struct http *http);

#endif
