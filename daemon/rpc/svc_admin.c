/* brr.v1.Admin: what this daemon is, whether it is well, and how to end it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fsio.h"
#include "base/str.h"
#include "brr/v1/admin.pb-c.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/grpc_faults.h"
#include "daemon/rpc/services.h"
#include "run/selftest.h"

enum { MAX_CHECKS = 24, MAX_PARTS = 6, LOW_SPACE_BYTES = 1000 * 1000 * 1000 };

static void version(struct rpc_call *call, const uint8_t *data, size_t len) {
    if (!convert_unpack(call, &brr__v1__version_request__descriptor, data, len))
        return;
    const struct services *services = services_of(call);
    Brr__V1__Pair pairs[SERVICES_MAX_LIBRARIES], *list[SERVICES_MAX_LIBRARIES];
    Brr__V1__VersionResponse out = BRR__V1__VERSION_RESPONSE__INIT;
    for (size_t i = 0; i < services->n_libraries; i++) {
        brr__v1__pair__init(&pairs[i]);
        pairs[i].key = (char *)(uintptr_t)services->libraries[i].name;
        pairs[i].value = (char *)(uintptr_t)services->libraries[i].version;
        list[i] = &pairs[i];
    }
    out.version = (char *)(uintptr_t)services->version;
    out.revision = (char *)(uintptr_t)services->revision;
    out.libraries = list;
    out.n_libraries = services->n_libraries;
    out.uptime_ms = clock_ms() - services->start_ms;
    out.notice = (char *)(uintptr_t)services->notice;
    convert_answer(call, &out.base);
}

enum { MAX_READINGS = 8 };

/* The health data of the device; the message points into `h` and `room`. */
struct health_message {
    struct device_health h;
    char condition[400];
    Brr__V1__DeviceReading readings[MAX_READINGS], *list[MAX_READINGS];
    char *slowed_by[DEVICE_SLOWDOWN_COUNT];
};

static void add_reading(struct health_message *m, Brr__V1__Device *device, const char *name, double value) {
    if (isnan(value) || value < 0)
        return;
    Brr__V1__DeviceReading *r = &m->readings[device->n_readings];
    brr__v1__device_reading__init(r);
    r->name = (char *)(uintptr_t)name;
    r->value = value;
    m->list[device->n_readings++] = r;
}

static void put_health(struct services *s, struct health_message *m, Brr__V1__Device *device) {
    const struct device_health *h = &m->h;
    const struct device_verdict *bad = device_watch_verdict(s->watch);
    device_watch_latest(s->watch, &m->h);
    device_watch_describe(h, m->condition, sizeof m->condition);
    device->model = m->h.model;
    device->uuid = m->h.uuid;
    device->condition = m->condition;
    device->readings = m->list;
    add_reading(m, device, "temperature_celsius", h->temperature_c);
    add_reading(m, device, "power_watts", h->power_w);
    add_reading(m, device, "energy_joules", h->energy_j);
    add_reading(m, device, "utilization_ratio", h->utilization);
    add_reading(m, device, "memory_used_bytes", (double)h->memory_used_bytes);
    add_reading(m, device, "ecc_corrected", (double)h->ecc_corrected);
    add_reading(m, device, "ecc_uncorrectable", (double)h->ecc_uncorrected);
    add_reading(m, device, "memory_repair_pending", h->repair_pending);
    device->slowed_by = m->slowed_by;
    for (int i = 0; h->slowed > 0 && i < DEVICE_SLOWDOWN_COUNT; i++)
        if (h->slowed >> i & 1)
            m->slowed_by[device->n_slowed_by++] = (char *)(uintptr_t)device_slowdown_name((enum device_slowdown)i);
    if (h->memory_total_bytes > 0 && h->memory_used_bytes >= 0)
        device->free_bytes = h->memory_total_bytes - h->memory_used_bytes;
    if (bad) {
        device->bad = (char *)(uintptr_t)bad->why;
        device->fix = (char *)(uintptr_t)bad->fix;
    }
}

static void devices(struct rpc_call *call, const uint8_t *data, size_t len) {
    if (!convert_unpack(call, &brr__v1__devices_request__descriptor, data, len))
        return;
    struct device_info info;
    struct health_message health;
    Brr__V1__Device device = BRR__V1__DEVICE__INIT, *list[] = {&device};
    Brr__V1__DevicesResponse out = BRR__V1__DEVICES_RESPONSE__INIT;
    device_hosts_describe(services_of(call)->hosts, &info);
    device.name = info.name;
    device.description = info.description;
    device.total_bytes = info.total_bytes;
    device.free_bytes = info.free_bytes;
    device.isa = (char *)(uintptr_t)device_isa();
    put_health(services_of(call), &health, &device);
    for (int i = 0; i < sched_open_count(services_of(call)->sched); i++)
        if (job_is_active(sched_open_at(services_of(call)->sched, i)->state))
            device.occupant = (char *)(uintptr_t)sched_open_at(services_of(call)->sched, i)->id;
    out.devices = list;
    out.n_devices = 1;
    convert_answer(call, &out.base);
}

/* ---- Doctor: on the thread pool ---- */

struct doctor {
    struct offload work;
    struct arena arena;
    struct device_info device;
    struct device_health health;
    const struct device_verdict *bad; /* NULL: fit */
    const char *paths[3], *path_names[3];
    bool serving, lost;
    int served_models, failed_models, paused_jobs;
    Brr__V1__DoctorCheck checks[MAX_CHECKS], *list[MAX_CHECKS];
    size_t n;
};

static void found(struct doctor *d, const char *name, bool pass, const char *detail, const char *fix) {
    Brr__V1__DoctorCheck *c = &d->checks[d->n];
    if (d->n == MAX_CHECKS || !detail)
        return;
    brr__v1__doctor_check__init(c);
    c->name = (char *)(uintptr_t)name;
    c->pass = pass;
    c->detail = (char *)(uintptr_t)detail;
    c->fix = (char *)(uintptr_t)(pass ? "" : fix);
    d->list[d->n++] = c;
}

/* A directory must take a file, and a checkpoint or two must fit. */
static void check_directory(struct doctor *d, const char *name, const char *path, bool writable) {
    char file[4096];
    struct err err = {0};
    int64_t free_bytes = fsio_free_bytes(path);
    bool pass = fsio_is_dir(path);
    if (pass && writable && str_format(file, sizeof file, "%.4000s/.doctor", path)) {
        pass = !fsio_write_atomic(file, "x", 1, &err);
        unlink(file);
    }
    if (!pass) {
        found(d, name, false, arena_printf(&d->arena, "%s: %s", path, err.code ? err.message : "no such directory"),
              "create the directory and make it writable for the daemon's user, or set another path in daemon.yaml");
        return;
    }
    found(d, name, !writable || free_bytes >= LOW_SPACE_BYTES,
          arena_printf(&d->arena, "%s, %.1f GiB free", path, (double)free_bytes / 0x1p30),
          "less than 1 GB is left: free some space on that volume");
}

/* The driver and libraries that CUDA devices need. A machine without all of them computes on its CPU, which is no fault. */
static void check_parts(struct doctor *d) {
    struct device_part parts[MAX_PARTS];
    int n = device_parts(parts, MAX_PARTS);
    for (int i = 0; i < n; i++) {
        const struct device_part *p = &parts[i];
        bool absent = !p->version[0] && !strcmp(d->device.name, "cpu");
        const char *detail = absent ? arena_printf(&d->arena, "none, devices: cpu (%s)", p->fix)
                                    : arena_strdup(&d->arena, p->version[0] ? p->version : "none");
        found(d, arena_strdup(&d->arena, p->name), p->fits || absent, detail, arena_strdup(&d->arena, p->fix));
        if (absent)
            return; /* what stands on it cannot say more */
    }
}

/* A device without health data, such as a CPU, adds no line. */
static void check_health(struct doctor *d) {
    char text[400];
    device_watch_describe(&d->health, text, sizeof text);
    if (d->bad)
        found(d, "device health", false, arena_printf(&d->arena, "takes no new work: %s (%s)", d->bad->why, text), d->bad->fix);
    else if (d->health.told)
        found(d, "device health", true, arena_strdup(&d->arena, *text ? text : "the driver reports no health data"), "");
}

/* Computes reference cases on the device. */
static void check_kernels(struct doctor *d) {
    const char *fix = "do not use results of this device; report its description and the build with this line";
    struct selftest scan;
    struct selftest_tick tick;
    struct err err = {0};
    if (selftest_scan(d->device.name, d->device.threads, &scan, &err))
        found(d, "scan kernels", false, arena_strdup(&d->arena, err.message), fix);
    else
        found(d, "scan kernels", true,
              arena_printf(&d->arena, "forward %.1e, backward %.1e from double precision", scan.forward_error, scan.backward_error),
              "");
    if (selftest_tick(d->device.name, d->device.threads, &tick, &err))
        found(d, "burst tick", false, arena_strdup(&d->arena, err.message), fix);
    else
        found(d, "burst tick", true,
              arena_printf(&d->arena, "%lld ticks of 1,000 neurons on %s, %lld spikes, bit for bit as a sequential simulation",
                           (long long)tick.ticks, d->device.name, (long long)tick.fired),
              "");
}

/* A distribution may have fixed them, which only its package tells: no failure. */
static void check_grpc(struct doctor *d) {
    char faults[256];
    grpc_faults(rpc_library_version(), faults, sizeof faults);
    found(d, "grpc", true,
          *faults ? arena_printf(&d->arena,
                                 "%s: this version was published with %s; where the distribution has not fixed them, let only "
                                 "trusted hosts reach listen.tcp",
                                 rpc_library_version(), faults)
                  : arena_strdup(&d->arena, rpc_library_version()),
          "");
}

static void examine(struct offload *work) {
    struct doctor *d = (struct doctor *)work;
    found(d, "device", !d->lost,
          arena_printf(&d->arena, "%s: %s, %.1f GiB memory%s", d->device.name, d->device.description,
                       (double)d->device.total_bytes / 0x1p30, d->lost ? ", lost after a fault" : ""),
          "the daemon exits and systemd restarts it; without systemd, start it again");
    check_health(d);
    check_parts(d);
    check_grpc(d);
    check_kernels(d);
    for (int i = 0; i < 3; i++)
        check_directory(d, d->path_names[i], d->paths[i], i > 0);
    if (d->paused_jobs)
        found(d, "jobs", false, arena_printf(&d->arena, "%d wait for room on the volume of paths.cache", d->paused_jobs),
              "free some space on that volume; the jobs then continue automatically");
    found(d, "models", d->failed_models == 0,
          arena_printf(&d->arena, "%d served, %d failed to load", d->served_models, d->failed_models),
          "`brrctl models` names them; load them again or unload them");
    found(d, "serving", d->serving, d->serving ? "yes" : "no: the daemon is stopping", "start it again");
}

static void examined(struct offload *work) {
    struct doctor *d = (struct doctor *)work;
    Brr__V1__DoctorResponse out = BRR__V1__DOCTOR_RESPONSE__INIT;
    out.checks = d->list;
    out.n_checks = d->n;
    if (work->call)
        convert_answer(work->call, &out.base);
}

static void drop_doctor(struct offload *work) {
    struct doctor *d = (struct doctor *)work;
    arena_done(&d->arena);
    free(d);
}

static void doctor(struct rpc_call *call, const uint8_t *data, size_t len) {
    struct services *s = services_of(call);
    if (!convert_unpack(call, &brr__v1__doctor_request__descriptor, data, len))
        return;
    struct doctor *d = offload_new(call, OFFLOAD_DOCTOR, sizeof *d, drop_doctor);
    if (!d)
        return;
    arena_init(&d->arena, 1u << 20);
    device_hosts_describe(s->hosts, &d->device);
    d->serving = atomic_load(&s->serving);
    d->lost = device_hosts_lost(s->hosts);
    d->paused_jobs = sched_paused(s->sched);
    device_watch_latest(s->watch, &d->health);
    d->bad = device_watch_verdict(s->watch);
    for (int i = 0; i < models_count(s->models); i++)
        d->served_models += models_at(s->models, i)->opened != NULL;
    d->failed_models = models_failed(s->models);
    for (int i = 0; i < 3; i++) {
        d->path_names[i] = i == 0 ? "paths.data" : i == 1 ? "paths.cache" : "paths.results";
        d->paths[i] = arena_strdup(&d->arena, s->paths[i]);
    }
    offload_start(&d->work, examine, examined);
}

static void drain(struct rpc_call *call, const uint8_t *data, size_t len) {
    if (!convert_unpack(call, &brr__v1__drain_request__descriptor, data, len))
        return;
    rpc_set_state(call, services_of(call)); /* it may end now, and then drains */
    Brr__V1__DrainResponse out = BRR__V1__DRAIN_RESPONSE__INIT;
    out.message = "nothing new is accepted; the running job checkpoints, then the daemon exits";
    convert_answer(call, &out.base);
}

static void drain_end(struct rpc_call *call) {
    struct services *s = rpc_state(call);
    if (s)
        s->drain(s);
}

const struct rpc_method svc_admin[] = {
    {"/brr.v1.Admin/Version", ROLE_READ, false, RPC_CONTROL_BYTES, version, NULL, NULL, NULL, false, 0},
    {"/brr.v1.Admin/Devices", ROLE_READ, false, RPC_CONTROL_BYTES, devices, NULL, NULL, NULL, false, 0},
    {"/brr.v1.Admin/Doctor", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, doctor, NULL, NULL, offload_end, false, 0},
    {"/brr.v1.Admin/Drain", ROLE_ADMIN, false, RPC_CONTROL_BYTES, drain, NULL, NULL, drain_end, false, 0},
};
const size_t svc_admin_count = sizeof svc_admin / sizeof *svc_admin;
