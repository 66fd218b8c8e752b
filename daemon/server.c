#include "daemon/server.h"

#include <signal.h>

#include "base/log.h"
#include "daemon/devices.h"
#include "daemon/jobs/worker.h"
#include "daemon/rpc/errands.h"
#include "daemon/server_open.h"
#include "daemon/server_stop.h"
#include "daemon/server_watch.h"
#include "daemon/versions.h"
#include "revision.h"

enum {
    TICK_MS = 1000,
    REPORTS_A_TURN = 256,
    TURN_MS = 5 /* for them */,
    SESSIONS_MS = 3 /* in a turn */,
    FILE_MS = 5 * 1000 /* a job that is in a file for longer is shown as waiting */
};

static void on_drain(struct services *s) {
    struct daemon *d = daemon_of(s);
    d->drain_wanted = true; /* seen by on_reports: the call that asked is answered first */
    uv_async_send(&d->reports);
}

static void use_configuration(struct daemon *d, const struct reload_report *report) {
    OWNED(arena_done) struct arena arena = arena_of(8u << 20);
    struct config config;
    struct err err = report->err;
    char text[800];
    int rc = report->rc ? report->rc : config_parse(d->source, report->texts[0], report->lengths[0], &arena, &config, &err);
    metric_add(metrics_series(d->meters.metrics, "brrd_config_reloads_total", rc ? "failed" : "done"), 1);
    if (rc) {
        log_error("configuration not reloaded", "error=\"%s\"", err_text(&err, text, sizeof text));
        return;
    }
    log_setup((enum log_level)config.log_level, config.log_format == 1);
    log_names(config.log_names);
    server_seed_models(&d->services, &config);
    if (!alarms_use_rules(desk_alarms(d->services.desk), config.escalation.rules, config.escalation.n_rules))
        log_error("rules of beds are missing: out of memory", NULL);
    log_info("configuration reloaded: certificate, tokens, log, serve and the rules of beds; other keys need a restart", NULL);
}

/* Files that were read again. */
static void take_files(struct daemon *d) {
    access_take(&d->access, d->http);
    for (struct reload_report *report; (report = reload_take(d->configuration));) {
        use_configuration(d, report);
        reload_report_free(report);
    }
}

static void on_signal(uv_signal_t *handle, int signum) {
    struct daemon *d = handle->data;
    if (signum != SIGHUP) {
        if (d->stopping)
            server_stop_streams(d);
        server_stop(d);
        return;
    }
    access_reload(&d->access);
    reload_request(d->configuration);
}

/* Handles reports of the workers about their jobs, and starts the next jobs when some have ended. */
static void take_reports(struct services *s) {
    for (int i = 0; i < s->jobs.n; i++)
        for (struct worker_report *r; (r = worker_take(s->jobs.workers[i]));) {
            sched_report(s->sched, r->job_id, &r->report);
            worker_report_free(r);
        }
    sched_turn(s->sched);
}

/* People who cannot be reached do not make others wait: the next step of the escalation follows. */
static void hurry_alarms(struct services *s) {
    const struct alarms_now now = desk_now();
    for (struct hooks_result r; hooks_take_result(s->hooks, &r);)
        if (r.entry.kind == JOURNAL_ALARM_ON || r.entry.kind == JOURNAL_ESCALATED)
            alarms_hear(desk_alarms(s->desk),
                        &(struct alarms_told){.id = r.entry.alarm,
                                              .step = r.entry.kind == JOURNAL_ESCALATED ? (int)r.entry.step : 0,
                                              SAME_MEMBERS(r, hook, delivered),
                                              .people = hooks_people(s->hooks, &r.entry)},
                        &now);
}

/* Reports of streams, so many or for so long in a turn of the loop; false: more may wait. */
static bool take_live_reports(struct services *s) {
    const int64_t until_ms = clock_ms() + TURN_MS;
    for (int i = 0; i < REPORTS_A_TURN && clock_ms() < until_ms; i++) {
        struct live_report *r = stream_places_take(&s->streams);
        if (!r)
            return true;
        if (r->stream)
            sessions_report(s->sessions, r);
        else
            models_report(s->models, r);
        live_report_free(r);
    }
    return false;
}

static void look_at_sessions(struct daemon *d) {
    if (sessions_tick(d->services.sessions, SESSIONS_MS))
        uv_async_send(&d->reports);
}

static void on_reports(uv_async_t *handle) {
    struct daemon *d = handle->data;
    struct services *s = &d->services;
    server_watch_devices(d);
    take_files(d);
    if (d->tick_waits || !take_live_reports(s))
        uv_async_send(&d->reports); /* others come first, then the rest */
    sessions_journaled(s->sessions);
    if (sessions_tick_goes_on(s->sessions))
        look_at_sessions(d);
    desk_take(s->desk);
    errands_take(d->errands, d->rpc);
    hurry_alarms(s);
    if (!d->tick_waits)
        gather_look(d->gather);
    for (struct network_order *o; (o = burst_service_take(&s->burst));)
        o->done(o);
    svc_burst_observed(s);
    server_watch_models(d);
    take_reports(s);
    if (d->drain_wanted)
        server_stop(d);
    if (d->stopping)
        server_stop_turn(d);
}

static void show_waiting(struct services *s) {
    char text[JOB_REASON_SIZE];
    for (int i = 0; i < s->jobs.n; i++) {
        worker_waits(s->jobs.workers[i], FILE_MS, text, sizeof text);
        sched_waits(s->sched, i, text);
    }
}

/* What an alarm passes on its way to people. */
static void look_at_alarms(struct daemon *d) {
    struct services *s = &d->services;
    journal_tick(s->journal);
    hooks_tick(s->hooks);
    atomic_store(&s->ready.journal_fails, journal_is_failing(s->journal));
    atomic_store(&s->ready.hooks_fail, !hooks_ready(s->hooks));
    meters_ready(&d->meters, "journal", !atomic_load(&s->ready.journal_fails));
    meters_ready(&d->meters, "hooks", !atomic_load(&s->ready.hooks_fail));
}

static void on_tick(uv_timer_t *timer) {
    struct daemon *d = timer->data;
    struct services *s = &d->services;
    if (!d->tick_waits && meters_turn_s(&d->meters) * 1000 > TURN_MS) { /* it gets one of its own */
        d->tick_waits = true;
        uv_timer_start(timer, on_tick, 1, TICK_MS);
        return;
    }
    d->tick_waits = false;
    server_watch_devices(d);
    take_reports(s);
    show_waiting(s);
    look_at_sessions(d);
    desk_tick(s->desk);
    snapshot_store_tick(d->snapshot_store);
    atomic_store(&s->ready.unsaved_streams, sessions_unsaved(s->sessions));
    meters_ready(&d->meters, "snapshots", !atomic_load(&s->ready.unsaved_streams));
    look_at_alarms(d);
    models_tick(s->models);
    rpc_server_tick(d->rpc);
    http_tick(d->http);
    svc_validate_tick(s);
    access_tick(&d->access);
    sched_tick(s->sched);
    if (d->retention && !d->stopping)
        retention_tick(d->retention);
    server_watch_tick(d);
    atomic_store(&s->ready.writable, sched_writable(s->sched));
    meters_tick(&d->meters, s->sched, d->rpc);
    gather_tick(d->gather);
    devices_measure(s);
    const bool serves = server_watch_pulse(d);
    server_watch_models(d);
    notify_tick(&d->notify);
    if (serves) {
        hooks_beat(s->hooks);
        notify_pulse(&d->notify, "WATCHDOG=1");
    }
    if (d->stopping) {
        server_stop_turn(d);
        server_leave_if_late(d);
    }
}

static void on_turn(uv_prepare_t *turn) { meters_turn(&((struct daemon *)turn->data)->meters); }

static void start_handles(struct daemon *d) {
    static const int signums[3] = {SIGTERM, SIGINT, SIGHUP};
    uv_async_init(&d->loop, &d->reports, on_reports);
    uv_timer_init(&d->loop, &d->tick);
    drain_init(&d->drain, &d->loop);
    uv_prepare_init(&d->loop, &d->turn);
    d->reports.data = d->tick.data = d->turn.data = d;
    uv_timer_start(&d->tick, on_tick, TICK_MS, TICK_MS);
    uv_prepare_start(&d->turn, on_turn);
    for (int i = 0; i < 3; i++) {
        uv_signal_init(&d->loop, &d->signals[i]);
        d->signals[i].data = d;
        uv_signal_start(&d->signals[i], on_signal, signums[i]);
    }
}

static void announce(struct daemon *d) {
    struct services *s = &d->services;
    meters_ready(&d->meters, "daemon", true);
    meters_ready(&d->meters, "device", true);
    look_at_alarms(d);
    atomic_store(&s->ready.serving, true);
    atomic_store(&s->ready.device_serves, true);
    atomic_store(&s->ready.writable, sched_writable(s->sched));
    meters_tick(&d->meters, s->sched, d->rpc);
    gather_tick(d->gather);
    devices_measure(s);
    for (int i = 0; i < device_set_count(s->devices); i++)
        log_info("device", "description=\"%s\"", s->jobs.described[i]);
    if (!clock_zone_known())
        log_warn("TZ names no time zone of this machine: local times are those of UTC", "TZ=\"%.100s\"", getenv("TZ"));
    log_info("serving", "version=%s devices=%d unix=%s tcp=%s http=%s", versions_own(), device_set_count(s->devices),
             d->config->unix_path ? d->config->unix_path : "none", d->config->tcp ? d->config->tcp : "none",
             d->config->http ? d->config->http : "none");
    versions_log_parts();
    server_watch_devices(d);
    server_watch_models(d);
    sched_turn(s->sched);
}

static void open_notify(struct daemon *d) {
    struct err err;
    if (notify_open(&d->notify, getenv("NOTIFY_SOCKET"), &err))
        log_warn("the service manager is told nothing", "error=\"%s\"", err.message);
}

int server_run(const struct config *config, const struct config_source *source, struct err *err) {
    OWNED_MEMORY struct daemon *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    d->locks = (struct paths_locks){-1, -1};
    d->sessions_lock = -1;
    open_notify(d);
    d->config = config;
    d->source = source;
    d->services.loop = &d->loop;
    d->services.drain = on_drain;
    d->services.paths[0] = config->data;
    d->services.paths[1] = config->cache;
    d->services.paths[2] = config->results;
    d->services.database = config->database;
    d->services.start_ms = clock_ms();
    d->services.version = versions_own();
    d->services.revision = revision_name;
    d->services.notice = BRR_NOTICE;
    d->services.n_libraries = versions_list(d->services.libraries, SERVICES_MAX_LIBRARIES);
    uv_loop_init(&d->loop);
    start_handles(d);
    int rc = meters_open(&d->meters, d->services.start_ms, err);
    d->services.metrics = d->meters.metrics;
    if (rc || (rc = server_open(d, err))) {
        models_stop(d->services.models);
        server_close_handles(d);
    } else {
        announce(d);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    server_close(d);
    uv_loop_close(&d->loop);
    deadline_cancel(&d->deadline);
    meters_close(&d->meters);
    notify_close(&d->notify);
    if (rc == 0) {
        log_info("stopped", NULL);
        rc = server_exit_status(d);
    }
    return rc;
}
