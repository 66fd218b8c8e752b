#include "daemon/server_stop.h"

#include "base/log.h"
#include "daemon/rpc/errands.h"
#include "daemon/server.h"

enum {
    CLOSE_MS = 10 * 1000, /* for the parts of the daemon, after the last job has stopped */
    STREAMS_MS =
        35 * 1000 /* for streams: the drain takes 31 s at most (daemon/drain.c), within a second on a volume that answers */
};

void server_close_handles(struct daemon *d) {
    uv_close((uv_handle_t *)&d->reports, NULL);
    uv_close((uv_handle_t *)&d->tick, NULL);
    uv_close((uv_handle_t *)&d->turn, NULL);
    drain_close(&d->drain);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
}

/* The loop still waits for file work on the thread pool, and server_close for threads; neither ends while a volume hangs. */
static void limit_the_rest(struct daemon *d) {
    int64_t left_ms = d->config->stop_wait_ms - (clock_ms() - d->stop_ms);
    deadline_start(&d->deadline, left_ms > CLOSE_MS ? left_ms : CLOSE_MS, server_exit_status(d));
}

static void finish_if_idle(struct daemon *d) {
    if (d->stopping && d->rpc_stopped && sched_idle(d->services.sched) && !uv_is_closing((uv_handle_t *)&d->tick)) {
        limit_the_rest(d);
        server_close_handles(d);
    }
}

static void on_rpc_stopped(void *ctx) {
    struct daemon *d = ctx;
    d->rpc_stopped = true;
    finish_if_idle(d);
}

static void on_drained(void *ctx) { server_stop_turn(ctx); }

void server_stop_streams(struct daemon *d) {
    if (d->services.draining)
        return;
    d->services.draining = true;
    log_info("streams are saved and end", "jobs=%s", sched_idle(d->services.sched) ? "saved" : "saving");
    models_stop(d->services.models);
    drain_start(&d->drain, d->services.sessions, on_drained, d);
}

/* Whether streams have to end although jobs are still saving. */
static bool are_streams_late(const struct daemon *d) {
    const int64_t wait_ms = d->config->stop_wait_ms, share_ms = wait_ms * 35 / 100;
    return clock_ms() - d->stop_ms >= wait_ms - (share_ms < STREAMS_MS ? share_ms : STREAMS_MS);
}

void server_stop_turn(struct daemon *d) {
    const bool idle = sched_idle(d->services.sched);
    if (d->stopping && (idle || are_streams_late(d)))
        server_stop_streams(d);
    if (d->stopping && idle && drain_is_over(&d->drain) && d->rpc) {
        struct rpc_server *rpc = d->rpc;
        errands_stop(d->errands);
        rpc_server_stop(rpc, on_rpc_stopped, d);
    }
    finish_if_idle(d);
}

int server_exit_status(const struct daemon *d) { return d->lost || d->deaf ? SERVER_RESTART : 0; }

/* A job in a file whose volume does not answer cannot be stopped, nor can its thread be joined: the process ends without it. The
 * database holds the wish to stop (sched_drain), so that the next start charges no restart. */
void server_leave_if_late(const struct daemon *d) {
    if (!drain_is_over(&d->drain) || clock_ms() - d->stop_ms < d->config->stop_wait_ms)
        return;
    if (sched_idle(d->services.sched))
        log_warn("calls did not end within jobs.stop_wait: exiting", "seconds=%lld", (long long)(d->config->stop_wait_ms / 1000));
    for (int i = 0; i < d->services.jobs.n; i++)
        if (d->services.jobs.devices[i] != DEVICE_ANY && sched_on(d->services.sched, i))
            log_warn("a running job did not stop within jobs.stop_wait: exiting; the job goes on from its newest checkpoint",
                     "job=%s device=%s seconds=%lld", sched_on(d->services.sched, i)->id, sched_on(d->services.sched, i)->on,
                     (long long)(d->config->stop_wait_ms / 1000));
    _exit(server_exit_status(d));
}

void server_stop(struct daemon *d) {
    if (d->stopping)
        return;
    d->stopping = true;
    d->stop_ms = clock_ms();
    atomic_store(&d->services.ready.serving, false);
    svc_health_changed(&d->services);
    meters_ready(&d->meters, "daemon", false);
    log_info("stopping: running jobs checkpoint first, then streams are saved", NULL);
    notify_state(&d->notify, "STOPPING=1");
    sched_drain(d->services.sched);
    server_stop_turn(d);
}
