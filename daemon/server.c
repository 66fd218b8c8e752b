#include "daemon/server.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fsio.h"
#include "base/log.h"
#include "base/str.h"
#include "base/volume.h"
#include "daemon/access.h"
#include "daemon/devices.h"
#include "daemon/drain.h"
#include "daemon/hosts/device_set.h"
#include "daemon/http/http.h"
#include "daemon/jobs/jobref.h"
#include "daemon/jobs/retention.h"
#include "daemon/jobs/worker.h"
#include "daemon/live/snapshot.h"
#include "daemon/live/snapshot_store.h"
#include "daemon/meters.h"
#include "daemon/notify.h"
#include "daemon/paths.h"
#include "daemon/rpc/services.h"
#include "daemon/status/gather.h"
#include "daemon/versions.h"

enum {
    TICK_MS = 1000,
    FILE_MS = 5 * 1000, /* a job that is in a file for longer is shown as waiting */
    MEASURE_MS = 60 * 1000,
    MAX_METHODS = 96,
    FULL_BYTES = 8 << 20 /* of paths.results: no room for a checkpoint */
};

/* The server with what only its own file touches. */
struct daemon {
    struct services services;
    const struct config *config;
    const struct config_source *source;
    struct reload *configuration; /* its file */
    uv_loop_t loop;
    uv_async_t reports;
    uv_signal_t signals[3];
    uv_timer_t tick;
    struct rpc_server *rpc;
    struct status_board *board; /* what the pages show */
    struct gather *gather;
    struct http *http;
    struct access access;
    struct drain drain;
    struct notify notify;
    struct snapshot_store *snapshot_store;
    struct retention *retention;
    struct volume *results; /* of paths.results */
    char snapshots[4096];   /* folder of the snapshot store */
    const struct rpc_method *methods[MAX_METHODS];
    struct source_store stores[CONFIG_MAX_STORES]; /* the configuration's, which count into the registry */
    int cache_lock, sessions_lock;
    bool announced; /* READY was sent */
    bool drain_wanted, stopping, rpc_stopped, lost, deaf, held[DEVICE_SET_MAX];
    int64_t stop_ms; /* when the stop began */
    bool file_waits; /* for a model file that does not answer */
    struct meters meters;
    char versions[JOB_VERSIONS_SIZE]; /* for the records of jobs */
};

/* True if the folders of ended jobs stay for ever. */
static bool keeps_files(const struct config *c) { return c->keep_files_ms < 0 && c->max_files_bytes < 0; }

/* services is a member of the daemon. */
static struct daemon *daemon_of(struct services *s) { return (struct daemon *)((char *)s - offsetof(struct daemon, services)); }

static void on_job_changed(void *ctx, const struct job *job) {
    struct daemon *d = ctx;
    meters_job_changed(&d->meters, job);
    if (job_is_active(job->state))
        svc_validate_yield(&d->services);
    svc_jobs_changed(&d->services, job);
}

static void on_job_log(void *ctx, const struct job *job, const char *level, const char *text) {
    struct daemon *d = ctx;
    joblog_append(d->services.joblog, job->directory, level, text);
    log_write(strcmp(level, "info") ? LOG_WARN : LOG_INFO, text, "job=%s", job->id);
}

/* Paths outside the configured ones are for the daemon itself, and for its own user and root on the unix socket. */
static void on_caller(void *ctx, const struct auth_caller *caller) {
    struct services *s = ctx;
    s->places.local_paths = s->local_paths && (!caller || caller->own);
}

static void on_call_begun(void *ctx, const char *path) { meters_call_begun(&daemon_of(ctx)->meters, path); }

static void on_call_ended(void *ctx, const char *path, int code, const char *reason, double seconds) {
    meters_call_ended(&daemon_of(ctx)->meters, path, code, reason, seconds);
}

static void wake_loop(void *ctx) { uv_async_send(ctx); }

static void close_handles(struct daemon *d) {
    uv_close((uv_handle_t *)&d->reports, NULL);
    uv_close((uv_handle_t *)&d->tick, NULL);
    drain_close(&d->drain);
    for (int i = 0; i < 3; i++)
        uv_close((uv_handle_t *)&d->signals[i], NULL);
}

static void finish_if_idle(struct daemon *d) {
    if (d->stopping && d->rpc_stopped && sched_idle(d->services.sched) && !uv_is_closing((uv_handle_t *)&d->tick))
        close_handles(d);
}

static void on_rpc_stopped(void *ctx) {
    struct daemon *d = ctx;
    d->rpc_stopped = true;
    finish_if_idle(d);
}

/* Running jobs checkpoint first, and streams are saved; then the listeners go. */
static void stop_rpc_if_idle(struct daemon *d) {
    if (d->stopping && sched_idle(d->services.sched) && drain_is_over(&d->drain) && d->rpc) {
        struct rpc_server *rpc = d->rpc;
        rpc_server_stop(rpc, on_rpc_stopped, d);
    }
    finish_if_idle(d);
}

static int exit_status(const struct daemon *d) { return d->lost || d->deaf ? SERVER_RESTART : 0; }

/* A job in a file whose volume does not answer cannot be stopped, nor can its thread be joined: the process ends without it. The
 * database holds the wish to stop (sched_drain), so that the next start charges no restart. */
static void leave_if_late(const struct daemon *d) {
    if (!drain_is_over(&d->drain) || clock_ms() - d->stop_ms < d->config->stop_wait_ms)
        return;
    for (int i = 0; i < device_set_count(d->services.devices); i++)
        if (sched_on(d->services.sched, i))
            log_warn("a running job did not stop within jobs.stop_wait: exiting; the job goes on from its newest checkpoint",
                     "job=%s device=%s seconds=%lld", sched_on(d->services.sched, i)->id, device_set_name(d->services.devices, i),
                     (long long)(d->config->stop_wait_ms / 1000));
    _exit(exit_status(d));
}

static void on_drained(void *ctx) { stop_rpc_if_idle(ctx); }

static void begin_stop(struct daemon *d) {
    if (d->stopping)
        return;
    d->stopping = true;
    d->stop_ms = clock_ms();
    atomic_store(&d->services.serving, false);
    svc_health_changed(&d->services);
    meters_ready(&d->meters, "daemon", false);
    log_info("stopping: running jobs checkpoint and streams are saved first", NULL);
    notify_state(&d->notify, "STOPPING=1");
    models_stop(d->services.models);
    sched_drain(d->services.sched);
    drain_start(&d->drain, d->services.sessions, on_drained, d);
    stop_rpc_if_idle(d);
}

static void on_drain(struct services *s) {
    struct daemon *d = daemon_of(s);
    d->drain_wanted = true; /* seen by on_reports: the call that asked is answered first */
    uv_async_send(&d->reports);
}

static void seed_models(struct services *s, const struct config *c) {
    for (int i = 0; i < c->n_served; i++)
        models_seed(s->models, &(struct models_request){c->served[i].name, c->served[i].checkpoint, c->served[i].device});
}

static void use_configuration(struct daemon *d, const struct reload_report *report) {
    OWNED(arena_done) struct arena arena;
    struct config config;
    struct err err = report->err;
    char text[800];
    arena_init(&arena, 8u << 20);
    int rc = report->rc ? report->rc : config_parse(d->source, report->texts[0], report->lengths[0], &arena, &config, &err);
    metric_add(metrics_series(d->meters.metrics, "brrd_config_reloads_total", rc ? "failed" : "done"), 1);
    if (rc) {
        log_error("configuration not reloaded", "error=\"%s\"", err_text(&err, text, sizeof text));
        return;
    }
    log_setup((enum log_level)config.log_level, config.log_format == 1);
    seed_models(&d->services, &config);
    log_info("configuration reloaded: certificate, tokens, log and serve; other keys need a restart", NULL);
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
        begin_stop(d);
        return;
    }
    access_reload(&d->access);
    reload_request(d->configuration);
}

/* A fault took a device from this process: the job at work goes back to the queue (a restart is charged to it), and the process
 * ends with a code of its own so that the next one begins anew. Jobs of other devices are saved first. */
static void look_for_loss(struct daemon *d) {
    int lost = d->lost ? DEVICE_ANY : device_set_lost(d->services.devices);
    if (lost == DEVICE_ANY)
        return;
    const struct job *job = sched_on(d->services.sched, lost);
    d->lost = true;
    log_error("the device is unusable after a fault: exiting to be restarted", "device=%s job=%s exit=%d",
              device_set_name(d->services.devices, lost), job ? job->id : "none", SERVER_RESTART);
    begin_stop(d);
}

/* gRPC has given up the listening socket of the TCP port and takes it back only at a start. */
static void look_for_deafness(struct daemon *d) {
    if (d->stopping || !rpc_server_deaf(d->rpc))
        return;
    d->deaf = true;
    log_error("the TCP port accepts no connections: exiting to be restarted", "listen=%s exit=%d", d->config->tcp, SERVER_RESTART);
    begin_stop(d);
}

/* A device that went bad: nothing new begins on it, and what runs stops with a checkpoint. The daemon stays, since another start
 * would find the same device. */
static void look_at_fault(struct daemon *d, int device) {
    struct services *s = &d->services;
    const struct device_fault *bad = device_watch_fault(s->device_watches[device]);
    const char *name = device_set_name(s->devices, device);
    char why[JOB_REASON_SIZE];
    if (!bad || d->held[device])
        return;
    str_format(why, sizeof why, "device_bad: %s takes no new work: %s; %s", name, bad->why, bad->fix);
    d->held[device] = true;
    meters_ready(&d->meters, "device", false);
    log_error("the device takes no new work", "device=%s reason=\"%s\" fix=\"%s\"", name, bad->why, bad->fix);
    device_set_hold(s->devices, device);
    sched_hold(s->sched, device, why);
}

static void look_at_faults(struct daemon *d) {
    for (int i = 0; i < device_set_count(d->services.devices); i++)
        look_at_fault(d, i);
}

/* Handles reports of the workers about their jobs, and starts the next jobs when some have ended. */
static void take_reports(struct services *s) {
    for (int i = 0; i < s->n_workers; i++)
        for (struct worker_report *r; (r = worker_take(s->workers[i]));) {
            sched_report(s->sched, r);
            worker_report_free(r);
        }
    sched_turn(s->sched);
}

/* Updates readiness from the state of the served models; sends READY once each of them is warm or has failed. */
static void look_at_models(struct daemon *d) {
    struct services *s = &d->services;
    enum models_state now = models_state(s->models);
    if (now == MODELS_WARM && (snapshot_store_restoring(d->snapshot_store) || sessions_restoring(s->sessions)))
        now = MODELS_LOADING;
    if (atomic_load(&s->models_state) != MODELS_WARM)
        atomic_store(&s->models_state, (int)now);
    meters_ready(&d->meters, "models", atomic_load(&s->models_state) == MODELS_WARM);
    if (!d->announced && now != MODELS_LOADING) {
        d->announced = true;
        notify_state(&d->notify, "READY=1");
        log_info("ready", "models=%d", models_count(s->models));
    } else if (!d->announced) {
        notify_pulse(&d->notify, "EXTEND_TIMEOUT_USEC=60000000"); /* a model may be on its way from a store */
    }
    svc_health_changed(s);
}

static void on_reports(uv_async_t *handle) {
    struct daemon *d = handle->data;
    struct services *s = &d->services;
    look_for_loss(d); /* first: the scheduler must not begin anything on it */
    look_at_faults(d);
    take_files(d);
    for (struct live_report *r; (r = device_set_take_stream(s->devices));) {
        if (r->stream)
            sessions_report(s->sessions, r);
        else
            models_report(s->models, r);
        live_report_free(r);
    }
    sessions_journaled(s->sessions);
    gather_look(d->gather);
    for (struct network_order *o; (o = device_set_take_network(s->devices));)
        o->done(o);
    svc_burst_observed(s);
    look_at_models(d);
    take_reports(s);
    if (d->drain_wanted)
        begin_stop(d);
    if (d->stopping)
        stop_rpc_if_idle(d);
}

/* False while an order or call of the device takes so long that only another start of the process helps. */
static bool device_serves(struct daemon *d) {
    struct services *s = &d->services;
    const bool serves = !device_set_stalled(s->devices);
    if (serves == atomic_exchange(&s->device_serves, serves))
        return serves;
    if (serves)
        log_info("the device serves its orders again", NULL);
    else
        log_error("the device hangs in an order: the driver or a computation; systemd restarts the daemon if it stays so", NULL);
    return serves;
}

static int open_retention(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    int64_t age_ms = c->keep_finished_ms; /* the files of a job go with its record */
    if (c->keep_files_ms >= 0 && (age_ms < 0 || c->keep_files_ms < age_ms))
        age_ms = c->keep_files_ms;
    if (keeps_files(c))
        age_ms = -1;
    const struct retention_config config = {
        .loop = &d->loop,
        .removal = {.sched = d->services.sched, .db = d->services.db, .models = d->services.models},
        .age_ms = age_ms,
        .max_bytes = c->max_files_bytes};
    return retention_new(&config, &d->retention, err);
}

/* Streams of a model wait while its file does not answer; all others go on. */
static void look_at_model_files(struct daemon *d) {
    char text[MODEL_LOADER_TEXT];
    const bool waits = device_set_waits(d->services.devices, text);
    if (waits && !d->file_waits)
        log_warn("a model file does not answer", "state=\"%s\"", text);
    else if (!waits && d->file_waits)
        log_info("model files answer again", NULL);
    d->file_waits = waits;
}

/* /readyz is not ready while nothing can be written to the results volume. */
static void look_at_results(struct daemon *d) {
    int64_t free_bytes = volume_free_bytes(d->results);
    bool full = free_bytes >= 0 && free_bytes < FULL_BYTES;
    if (full && !atomic_load(&d->services.results_full))
        log_error("the volume of paths.results is full", "path=%s free_bytes=%lld", d->config->results, (long long)free_bytes);
    atomic_store(&d->services.results_full, full);
    meters_ready(&d->meters, "results", !full);
    meters_volume(&d->meters, "results", d->results);
    meters_volume(&d->meters, "cache", sched_cache(d->services.sched));
}

static void show_waiting(struct services *s) {
    char text[JOB_REASON_SIZE];
    for (int i = 0; i < s->n_workers; i++) {
        worker_waits(s->workers[i], FILE_MS, text, sizeof text);
        sched_waits(s->sched, i, text);
    }
}

static void on_tick(uv_timer_t *timer) {
    struct daemon *d = timer->data;
    struct services *s = &d->services;
    look_for_loss(d);
    look_at_faults(d);
    take_reports(s);
    show_waiting(s);
    sessions_tick(s->sessions);
    snapshot_store_tick(d->snapshot_store);
    atomic_store(&s->unsaved_streams, sessions_unsaved(s->sessions));
    meters_ready(&d->meters, "snapshots", !atomic_load(&s->unsaved_streams));
    meters_ready(&d->meters, "journal", !journal_is_failing(s->journal));
    models_tick(s->models);
    rpc_server_tick(d->rpc);
    look_for_deafness(d);
    sched_tick(s->sched);
    if (d->retention && !d->stopping)
        retention_tick(d->retention);
    look_at_results(d);
    look_at_model_files(d);
    atomic_store(&s->writable, sched_writable(s->sched));
    meters_tick(&d->meters, s->sched, d->rpc);
    gather_tick(d->gather);
    devices_measure(s);
    const bool serves = device_serves(d);
    look_at_models(d);
    notify_tick(&d->notify);
    if (serves)
        notify_pulse(&d->notify, "WATCHDOG=1");
    if (d->stopping) {
        stop_rpc_if_idle(d);
        leave_if_late(d);
    }
}

static int job_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    const struct services *s = ctx;
    struct jobref found;
    int rc = jobref_resolve(s->sched, s->db, ref, &found, err);
    str_copy(ret->path, sizeof ret->path, rc ? "" : found.path);
    str_copy(ret->spare, sizeof ret->spare, rc ? "" : found.spare);
    ret->absent = found.absent;
    return rc;
}

static bool post_order(void *ctx, struct live_order *o) { return device_set_post_stream(ctx, o); }

static void on_kept(void *ctx, const char *id, const struct err *err) {
    struct daemon *d = ctx;
    sessions_kept(d->services.sessions, id, err);
    look_at_models(d);
}

/* The folder of this daemon among those of others, which no other daemon may use. */
static int lock_shared(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    char host[256] = "", lock[4096];
    int rc;
    if (!c->session_folder && gethostname(host, sizeof host - 1))
        return err_errno(err, errno, "sessions.name is not set, and the name of the machine is unknown");
    if ((rc =
             fsio_join(d->snapshots, sizeof d->snapshots, c->shared_sessions, c->session_folder ? c->session_folder : host, err)) ||
        (rc = fsio_mkdirs(d->snapshots, err)) || (rc = fsio_join(lock, sizeof lock, d->snapshots, ".lock", err)))
        return rc;
    return fsio_lock(lock, &d->sessions_lock, err) ? err_wrap(err, "sessions.shared: another daemon has this sessions.name") : 0;
}

static int open_snapshot_store(struct daemon *d, struct err *err) {
    const bool shared = d->config->shared_sessions;
    int rc = shared ? lock_shared(d, err) : fsio_join(d->snapshots, sizeof d->snapshots, d->config->results, "sessions", err);
    if (rc || (rc = snapshot_prepare(d->snapshots, err)))
        return rc;
    d->snapshot_store = snapshot_store_new(&d->loop, d->snapshots, shared, on_kept, d);
    return d->snapshot_store ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for streams");
}

static int open_journal(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    struct services *s = &d->services;
    int rc = hooks_new(c->hooks, c->n_hooks, s->metrics, &s->hooks, err);
    if (rc)
        return rc;
    const struct journal_config config = {.path = c->journal,
                                          .keep_ms = c->journal_keep_ms,
                                          .max_bytes = c->journal_max_bytes,
                                          .metrics = s->metrics,
                                          .outlet = hooks_outlet(s->hooks),
                                          .wake = wake_loop,
                                          .wake_ctx = &d->reports};
    rc = journal_start(&config, &s->journal, err);
    return rc ? rc : hooks_start(s->hooks, s->journal, err);
}

static int open_streams(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct config *c = d->config;
    int rc = open_snapshot_store(d, err);
    if (rc)
        return rc;
    struct models_config models = {.db = s->db,
                                   .post = post_order,
                                   .post_ctx = s->devices,
                                   .devices = c->devices,
                                   .n_devices = c->n_devices,
                                   .loop = &d->loop,
                                   .places = &s->places,
                                   .cache = c->cache,
                                   .job_model = job_model,
                                   .ctx = s};
    struct sessions_config sessions = {.post = post_order,
                                       .post_ctx = s->devices,
                                       .place = devices_place_stream,
                                       .place_ctx = s,
                                       .metrics = s->metrics,
                                       .max_sessions = (int)c->max_sessions,
                                       .idle_ms = c->session_idle_ms,
                                       .resume_ttl_ms = c->resume_ttl_ms,
                                       .measure_ms = MEASURE_MS,
                                       .lag_ms = c->lag_ms,
                                       .store = snapshot_store_for_sessions(d->snapshot_store),
                                       .journal = s->journal,
                                       .max_waiting_bytes = c->backlog_bytes};
    if (!(s->sessions = sessions_new(&sessions)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for streams");
    if ((rc = models_new(&models, &s->models, err)))
        return rc;
    seed_models(s, c);
    snapshot_store_restore(d->snapshot_store, s->sessions, s->metrics, c->resume_ttl_ms);
    return 0;
}

static int refer_model(void *ctx, const char *ref, struct model_ref *ret, struct err *err) {
    return models_refer(((const struct services *)ctx)->models, ref, ret, err);
}

/* The files that are read again while the daemon runs. */
static int open_files(struct daemon *d, struct err *err) {
    const struct reload_file configuration = {.path = d->source->path, .max_bytes = CONFIG_MAX_BYTES};
    int rc;
    if ((rc = access_open(&d->access, d->config, d->services.metrics, err)) ||
        (rc = access_start(&d->access, wake_loop, &d->reports, err)) ||
        (rc = reload_new(&configuration, 1, false, &d->configuration, err)))
        return rc;
    return reload_start(d->configuration, wake_loop, &d->reports, err);
}

static int open_status(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct gather_source source = {
        .version = s->version,
        .revision = s->revision,
        .notice = s->notice,
        .start_ms = s->start_ms,
        .sessions = s->sessions,
        .sched = s->sched,
        .models = s->models,
        .devices = s->devices,
        .watches = s->device_watches,
        .journal = s->journal,
        .hooks = s->hooks,
        .metrics = s->metrics,
        .volumes = {{"results", d->config->results, d->results}, {"cache", d->config->cache, sched_cache(s->sched)}},
        .n_volumes = 2};
    if (!(d->board = status_board_new()))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the status pages");
    return gather_new(&source, d->board, &d->gather, err);
}

static int open_http(struct daemon *d, struct err *err) {
    const struct http_state state = {.serving = &d->services.serving,
                                     .watches = d->services.device_watches,
                                     .n_watches = device_set_count(d->services.devices),
                                     .writable = &d->services.writable,
                                     .device_serves = &d->services.device_serves,
                                     .models = &d->services.models_state,
                                     .devices = d->services.devices,
                                     .results_full = &d->services.results_full,
                                     .unsaved = &d->services.unsaved_streams,
                                     .auth = d->access.auth,
                                     .tls = d->access.tls,
                                     .metrics = d->services.metrics,
                                     .board = d->board,
                                     .journal = d->config->journal,
                                     .database = d->config->database};
    if (!d->config->http || !http_start(d->config->http, &state, &d->http, err))
        return 0;
    return err_wrap(err, "%.400s: http.listen cannot be used", d->source->path);
}

/* Without tokens a listener on a loopback address trusts every user of this machine. */
static void describe_listeners(const struct daemon *d, struct rpc_config *rpc) {
    const struct config *c = d->config;
    rpc->auth = d->access.auth;
    rpc->listeners = (struct listeners_config){.unix_path = c->unix_path,
                                               .unix_group = c->unix_group,
                                               .unix_mode = c->unix_mode,
                                               .tcp = c->tcp,
                                               .tls = d->access.tls,
                                               .certificate = c->tls_client_ca != NULL,
                                               .tcp_role = c->tokens_file ? ROLE_NONE : ROLE_ADMIN};
}

static int open_scheduler(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct config *c = d->config;
    s->rules = (struct submission_rules){.places = &s->places, .refer_model = refer_model, .ctx = s};
    devices_fill_rules(s, &s->rules);
    versions_describe(s->libraries, s->n_libraries, d->versions, sizeof d->versions);
    struct sched_config sched = {.db = s->db,
                                 .rules = s->rules,
                                 .cache_dir = c->cache,
                                 .keep_finished_ms = keeps_files(c) ? c->keep_finished_ms : -1,
                                 .max_queued = c->max_queued,
                                 .versions = d->versions,
                                 .changed = on_job_changed,
                                 .logged = on_job_log,
                                 .ctx = d};
    devices_fill_sched(s, &sched);
    return sched_open(&sched, &s->sched, err);
}

static int start_rpc(struct daemon *d, struct err *err) {
    const struct config *c = d->config;
    struct rpc_config rpc = {.methods = d->methods,
                             .n_methods = services_methods(d->methods, MAX_METHODS),
                             .max_calls = (int)c->max_calls,
                             .max_sessions = (int)c->max_sessions,
                             .max_unsent_bytes = (size_t)c->unread_bytes,
                             .ctx = &d->services,
                             .enter = on_caller,
                             .begun = on_call_begun,
                             .observe = on_call_ended};
    describe_listeners(d, &rpc);
    return rpc_server_start(&d->loop, &rpc, &d->rpc, err);
}

static int open_parts(struct daemon *d, struct err *err) {
    struct services *s = &d->services;
    const struct config *c = d->config;
    int rc = paths_open(c, &d->cache_lock, err);
    if (rc)
        return rc;
    for (int i = 0; i < c->n_stores; i++) {
        d->stores[i] = c->stores[i];
        d->stores[i].config.metrics = s->metrics;
    }
    s->local_paths = c->local_paths;
    s->places = (struct places){.data_dir = c->data,
                                .results_dir = c->results,
                                .local_paths = c->local_paths,
                                .stores = d->stores,
                                .n_stores = c->n_stores};
    s->network_memory = c->network_bytes;
    s->frames.most = OBSERVER_SHARED_BYTES;
    s->wake = wake_loop;
    s->wake_ctx = &d->reports;
    s->source = (struct source_config){.stores = d->stores, .n_stores = c->n_stores, .cache_dir = c->cache};
    if ((rc = object_cache_new(c->cache, c->cache_max, s->metrics, &s->source.objects, err)) || (rc = devices_open(s, c, err)) ||
        (rc = db_open(c->database, &s->db, err)) || (rc = joblog_start(&s->joblog, err)) || (rc = open_scheduler(d, err)) ||
        (rc = open_journal(d, err)) || (rc = open_streams(d, err)) || (rc = open_retention(d, err)) ||
        (rc = volume_open(c->results, &d->results, err)) || (rc = open_files(d, err)) || (rc = open_status(d, err)) ||
        (rc = open_http(d, err)))
        return rc;
    return start_rpc(d, err);
}

static void close_parts(struct daemon *d) {
    http_stop(d->http);
    devices_close(&d->services);
    retention_free(d->retention);
    gather_free(d->gather);
    status_board_free(d->board);
    volume_close(d->results);
    sessions_free(d->services.sessions);
    hooks_stop(d->services.hooks);
    if (journal_stop(d->services.journal))
        hooks_free(d->services.hooks);
    snapshot_store_free(d->snapshot_store);
    models_free(d->services.models);
    sched_close(d->services.sched);
    db_close(d->services.db);
    joblog_stop(d->services.joblog);
    object_cache_free(d->services.source.objects);
    if (d->rpc)
        rpc_server_free(d->rpc);
    reload_stop(d->configuration);
    access_close(&d->access);
    if (d->cache_lock >= 0)
        close(d->cache_lock);
}

static void start_handles(struct daemon *d) {
    static const int signums[3] = {SIGTERM, SIGINT, SIGHUP};
    uv_async_init(&d->loop, &d->reports, on_reports);
    uv_timer_init(&d->loop, &d->tick);
    drain_init(&d->drain, &d->loop);
    d->reports.data = d->tick.data = d;
    uv_timer_start(&d->tick, on_tick, TICK_MS, TICK_MS);
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
    meters_ready(&d->meters, "journal", !journal_is_failing(s->journal));
    atomic_store(&s->serving, true);
    atomic_store(&s->device_serves, true);
    atomic_store(&s->writable, sched_writable(s->sched));
    meters_tick(&d->meters, s->sched, d->rpc);
    gather_tick(d->gather);
    devices_measure(s);
    for (int i = 0; i < device_set_count(s->devices); i++)
        log_info("device", "description=\"%s\"", s->described[i]);
    log_info("serving", "version=%s devices=%d unix=%s tcp=%s http=%s", versions_own(), device_set_count(s->devices),
             d->config->unix_path ? d->config->unix_path : "none", d->config->tcp ? d->config->tcp : "none",
             d->config->http ? d->config->http : "none");
    versions_log_parts();
    look_at_faults(d); /* before anything starts */
    look_at_models(d);
    sched_turn(s->sched);
}

static void open_notify(struct daemon *d) {
    struct err err;
    if (notify_open(&d->notify, getenv("NOTIFY_SOCKET"), &err))
        log_warn("the service manager is told nothing", "error=\"%s\"", err.message);
}

int server_run(const struct config *config, const struct config_source *source, struct err *err) {
    struct daemon *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    d->cache_lock = -1;
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
    d->services.revision = versions_revision();
    d->services.notice = BRR_NOTICE;
    d->services.n_libraries = versions_list(d->services.libraries, SERVICES_MAX_LIBRARIES);
    uv_loop_init(&d->loop);
    start_handles(d);
    int rc = meters_open(&d->meters, d->services.start_ms, err);
    d->services.metrics = d->meters.metrics;
    if (rc || (rc = open_parts(d, err))) {
        models_stop(d->services.models);
        close_handles(d);
    } else {
        announce(d);
    }
    uv_run(&d->loop, UV_RUN_DEFAULT);
    close_parts(d);
    uv_loop_close(&d->loop);
    meters_close(&d->meters);
    notify_close(&d->notify);
    if (rc == 0) {
        log_info("stopped", NULL);
        rc = exit_status(d);
    }
    free(d);
    return rc;
}
