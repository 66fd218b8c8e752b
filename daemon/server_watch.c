#include "daemon/server_watch.h"

#include "base/log.h"
#include "daemon/devices.h"
#include "daemon/server.h"
#include "daemon/server_stop.h"

enum { FULL_BYTES = 8 << 20 /* of paths.results: no room for a checkpoint */ };

/* A fault took a device from this process: the job at work goes back to the queue (a restart is charged to it), and the process
 * ends with a code of its own so that the next one begins anew. Jobs of other devices are saved first. */
static void look_for_loss(struct daemon *d) {
    int lost = d->lost ? DEVICE_ANY : device_set_lost(d->services.devices);
    if (lost == DEVICE_ANY)
        return;
    char jobs[DEVICES_JOBS_TEXT];
    d->lost = true;
    log_error("the device is unusable after a fault: exiting to be restarted", "device=%s job=%s exit=%d",
              device_set_name(d->services.devices, lost), devices_jobs(&d->services, lost, jobs), SERVER_RESTART);
    server_stop(d);
    server_stop_streams(d);
}

/* gRPC has given up the listening socket of the TCP port and takes it back only at a start. A port that is only slow is logged: an
 * exit would cut every stream. */
static void look_for_deafness(struct daemon *d) {
    const enum accept_state state = d->stopping ? ACCEPT_WELL : rpc_server_look(d->rpc);
    if (state == ACCEPT_SLOW && !d->accept_slow)
        log_warn("connections to the TCP port wait to be accepted", "listen=%s waited_s=%d", d->config->tcp, ACCEPT_SLOW_MS / 1000);
    else if (state == ACCEPT_WELL && d->accept_slow)
        log_info("connections to the TCP port are accepted again", "listen=%s", d->config->tcp);
    d->accept_slow = state == ACCEPT_SLOW;
    if (state != ACCEPT_DEAF)
        return;
    d->deaf = true;
    log_error("the TCP port accepts no connections: exiting to be restarted", "listen=%s exit=%d", d->config->tcp, SERVER_RESTART);
    server_stop(d);
    server_stop_streams(d);
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

void server_watch_devices(struct daemon *d) {
    look_for_loss(d);
    for (int i = 0; i < device_set_count(d->services.devices); i++)
        look_at_fault(d, i);
}

void server_watch_models(struct daemon *d) {
    struct services *s = &d->services;
    const bool was_warm = atomic_load(&s->ready.models) == MODELS_WARM; /* which stays */
    enum models_state now = was_warm ? MODELS_WARM : models_state(s->models);
    const bool restoring = !was_warm && (snapshot_store_restoring(d->snapshot_store) || sessions_restoring(s->sessions));
    if (now == MODELS_WARM && restoring)
        now = MODELS_LOADING;
    if (!was_warm) {
        atomic_store(&s->ready.models, (int)now);
        meters_ready(&d->meters, "models", now == MODELS_WARM);
    }
    meters_models(&d->meters, s->models, s->sessions);
    if (!d->announced && now != MODELS_LOADING) {
        d->announced = true;
        notify_state(&d->notify, "READY=1");
        log_info("ready", "models=%d", models_count(s->models));
    } else if (!d->announced) {
        notify_pulse(&d->notify, "EXTEND_TIMEOUT_USEC=60000000"); /* a model may be on its way from a store */
    }
    svc_health_changed(s);
}

bool server_watch_pulse(struct daemon *d) {
    struct services *s = &d->services;
    const bool serves = !device_set_stalled(s->devices);
    if (serves == atomic_exchange(&s->ready.device_serves, serves))
        return serves;
    if (serves)
        log_info("the device serves its orders again", NULL);
    else
        log_error("the device hangs in an order: the driver or a computation; systemd restarts the daemon if it stays so", NULL);
    return serves;
}

/* Streams of a model wait while its file does not answer; all others go on. */
static void look_at_model_files(struct daemon *d) {
    char text[HOST_WAITS_TEXT];
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
    if (full && !atomic_load(&d->services.ready.results_full))
        log_error("the volume of paths.results is full", "path=%s free_bytes=%lld", d->config->results, (long long)free_bytes);
    atomic_store(&d->services.ready.results_full, full);
    meters_ready(&d->meters, "results", !full);
    meters_volume(&d->meters, "results", d->results);
    meters_volume(&d->meters, "cache", sched_cache(d->services.sched));
}

void server_watch_tick(struct daemon *d) {
    const double resident = metric_value(metrics_series(d->meters.metrics, "process_resident_memory_bytes", ""));
    look_for_deafness(d);
    look_at_results(d);
    look_at_model_files(d);
    if (!d->stopping)
        spare_memory_look(&d->spare_memory, &d->loop, (int64_t)resident, clock_ms());
}
