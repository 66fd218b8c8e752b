/* brr.v1.Admin: what this daemon is, whether it is well, and how to end it. */

#include "base/container.h"
#include "brr/v1/admin.pb-c.h"
#include "burst/selftest_tick.h"
#include "daemon/rpc/grpc_faults.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "nn/selftest.h"

enum { MAX_CHECKS = 24 + 4 * DEVICE_SET_MAX, MAX_PARTS = 6, LOW_SPACE_BYTES = 1000 * 1000 * 1000 };

static int version(struct rpc_call *call, const void *message, struct err *err) {
    (void)message, (void)err;
    const struct services *services = services_of(call);
    Brr__V1__Pair pairs[SERVICES_MAX_LIBRARIES], *list[SERVICES_MAX_LIBRARIES];
    Brr__V1__VersionResponse out = BRR__V1__VERSION_RESPONSE__INIT;
    for (size_t i = 0; i < services->n_libraries; i++) {
        brr__v1__pair__init(&pairs[i]);
        pairs[i].key = (char *)(uintptr_t)services->libraries[i].name;
        pairs[i].value = (char *)(uintptr_t)services->libraries[i].version;
        list[i] = &pairs[i];
    }
    LEND_TEXTS(out, *services, version, revision, notice);
    out.libraries = list;
    out.n_libraries = services->n_libraries;
    out.uptime_ms = clock_ms() - services->start_ms;
    return convert_answer(call, &out.base);
}

enum { MAX_READINGS = 8 };

/* A device with its health data; the message points into this. */
struct device_message {
    Brr__V1__Device device;
    struct device_info info;
    struct device_health h;
    char condition[400];
    Brr__V1__DeviceReading readings[MAX_READINGS], *list[MAX_READINGS];
    char *slowed_by[DEVICE_SLOWDOWN_COUNT], *occupants[TURNS_MAX];
};

static void add_reading(struct device_message *m, const char *name, double value) {
    if (isnan(value) || value < 0)
        return;
    Brr__V1__DeviceReading *r = &m->readings[m->device.n_readings];
    brr__v1__device_reading__init(r);
    r->name = (char *)(uintptr_t)name;
    r->value = value;
    m->list[m->device.n_readings++] = r;
}

static void put_health(struct device_watch *watch, struct device_message *m) {
    const struct device_health *h = &m->h;
    const struct device_fault *bad = device_watch_fault(watch);
    Brr__V1__Device *device = &m->device;
    device_watch_latest(watch, &m->h);
    device_watch_describe(h, m->condition, sizeof m->condition);
    COPY_MEMBERS(*device, m->h, model, uuid);
    device->condition = m->condition;
    device->readings = m->list;
    add_reading(m, "temperature_celsius", h->temperature_c);
    add_reading(m, "power_watts", h->power_w);
    add_reading(m, "energy_joules", h->energy_j);
    add_reading(m, "utilization_ratio", h->utilization);
    add_reading(m, "memory_used_bytes", (double)h->memory_used_bytes);
    add_reading(m, "ecc_corrected", (double)h->ecc_corrected);
    add_reading(m, "ecc_uncorrectable", (double)h->ecc_uncorrected);
    add_reading(m, "memory_repair_pending", h->repair_pending);
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

static void describe_device(struct services *s, int i, struct device_message *m) {
    Brr__V1__Device *device = &m->device;
    struct device_room room;
    device_hosts_describe(device_set_at(s->devices, i), &m->info);
    device_set_room(s->devices, i, &room);
    brr__v1__device__init(device);
    COPY_MEMBERS(*device, m->info, name, description, total_bytes, free_bytes);
    COPY_MEMBERS(*device, room, limit_bytes, used_bytes, reserved_bytes);
    device->streams = s->streams.streams[i];
    device->isa = (char *)(uintptr_t)device_isa();
    device->occupants = m->occupants;
    for (int k = 0; k < s->jobs.n; k++)
        if (s->jobs.devices[k] == i && sched_on(s->sched, k))
            m->occupants[device->n_occupants++] = (char *)(uintptr_t)sched_on(s->sched, k)->id;
    if (device->n_occupants)
        device->occupant = m->occupants[0];
    put_health(s->device_watches[i], m);
}

static int devices(struct rpc_call *call, const void *message, struct err *err) {
    (void)message;
    struct services *s = services_of(call);
    Brr__V1__Device *list[DEVICE_SET_MAX];
    Brr__V1__DevicesResponse out = BRR__V1__DEVICES_RESPONSE__INIT;
    out.devices = list;
    for (; (int)out.n_devices < device_set_count(s->devices); out.n_devices++) {
        struct device_message *m = arena_alloc(rpc_arena(call), sizeof *m);
        if (!m)
            return err_set(err, ERR_EXHAUSTED, "out of memory describing the devices");
        describe_device(s, (int)out.n_devices, m);
        list[out.n_devices] = &m->device;
    }
    return convert_answer(call, &out.base);
}

/* ---- Doctor: on the thread pool ---- */

struct doctor_device {
    struct device_info info;
    struct device_health health;
    const struct device_fault *bad; /* NULL: fit */
    bool lost;
};

struct doctor {
    struct offload work;
    struct doctor_device devices[DEVICE_SET_MAX];
    int n_devices;
    const char *paths[3], *path_names[3];
    bool serving;
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

/* Recordings may all lie in stores: no folder is no fault, one that cannot be read is. */
static void check_recordings(struct doctor *d, const char *name, const char *path) {
    const bool there = fsio_exists(path), good = !access(path, R_OK | X_OK) && fsio_is_dir(path);
    found(d, name, good || !there,
          there ? arena_printf(d->work.arena, "%s%s", path, good ? "" : ": no directory that the daemon's user can read")
                : arena_printf(d->work.arena,
                               "%s does not exist: jobs can use recordings of stores, or set another path in daemon.yaml", path),
          "make it a directory that the daemon's user can read, or set another path in daemon.yaml");
}

/* A directory must take a file, and a checkpoint or two must fit. */
static void check_directory(struct doctor *d, const char *name, const char *path) {
    char file[4096];
    struct err err = {0};
    int64_t free_bytes = fsio_free_bytes(path);
    bool pass = fsio_is_dir(path);
    if (pass && str_format(file, sizeof file, "%.4000s/.doctor", path)) {
        pass = !fsio_write_atomic(file, "x", 1, &err);
        unlink(file);
    }
    if (!pass) {
        found(d, name, false, arena_printf(d->work.arena, "%s: %s", path, err.code ? err.message : "no such directory"),
              "create the directory and make it writable for the daemon's user, or set another path in daemon.yaml");
        return;
    }
    found(d, name, free_bytes >= LOW_SPACE_BYTES,
          arena_printf(d->work.arena, "%s, %.1f GiB free", path, (double)free_bytes / 0x1p30),
          "less than 1 GB is left: free some space on that volume");
}

static bool any_async(const struct doctor *d) {
    for (int i = 0; i < d->n_devices; i++)
        if (d->devices[i].info.is_async)
            return true;
    return false;
}

/* The driver and libraries that CUDA devices need. A machine without all of them computes on its CPU, which is no fault. */
static void check_parts(struct doctor *d) {
    struct device_part parts[MAX_PARTS];
    int n = device_parts(parts, MAX_PARTS);
    for (int i = 0; i < n; i++) {
        const struct device_part *p = &parts[i];
        bool absent = !p->version[0] && !any_async(d);
        const char *detail = absent ? arena_printf(d->work.arena, "none, devices: cpu (%s)", p->fix)
                                    : arena_strdup(d->work.arena, p->version[0] ? p->version : "none");
        found(d, arena_strdup(d->work.arena, p->name), p->fits || absent, detail, arena_strdup(d->work.arena, p->fix));
        if (absent)
            return; /* what stands on it cannot say more */
    }
}

/* "scan kernels", with the device's name where there are several. */
static const char *check_name(struct doctor *d, const struct doctor_device *device, const char *what) {
    return d->n_devices > 1 ? arena_printf(d->work.arena, "%s %s", what, device->info.name) : what;
}

/* A device without health data, such as a CPU, adds no line. */
static void check_health(struct doctor *d, const struct doctor_device *device) {
    const char *name = check_name(d, device, "device health");
    char text[400];
    device_watch_describe(&device->health, text, sizeof text);
    if (device->bad)
        found(d, name, false, arena_printf(d->work.arena, "takes no new work: %s (%s)", device->bad->why, text), device->bad->fix);
    else if (device->health.reported)
        found(d, name, true, arena_strdup(d->work.arena, *text ? text : "the driver reports no health data"), "");
}

/* Computes reference cases on the device. */
static void check_kernels(struct doctor *d, const struct doctor_device *device) {
    const char *fix = "do not use results of this device; report its description and the build with this line";
    struct selftest scan;
    struct selftest_tick tick;
    struct err err = {0};
    bool good = !selftest_scan(device->info.name, device->info.threads, &scan, &err);
    found(d, check_name(d, device, "scan kernels"), good,
          good ? arena_printf(d->work.arena, "forward %.1e, backward %.1e from double precision", scan.forward_error,
                              scan.backward_error)
               : arena_strdup(d->work.arena, err.message),
          fix);
    good = !selftest_tick(device->info.name, device->info.threads, &tick, &err);
    found(d, check_name(d, device, "burst tick"), good,
          good ? arena_printf(d->work.arena,
                              "%lld ticks of 1,000 neurons on %s, %lld spikes, bit for bit as a sequential simulation",
                              (long long)tick.ticks, device->info.name, (long long)tick.fired)
               : arena_strdup(d->work.arena, err.message),
          fix);
}

static void check_all_kernels(struct offload *work) {
    struct doctor *d = (struct doctor *)work;
    for (int i = 0; i < d->n_devices; i++)
        check_kernels(d, &d->devices[i]);
}

static void check_device(struct doctor *d, const struct doctor_device *device) {
    found(d, check_name(d, device, "device"), !device->lost,
          arena_printf(d->work.arena, "%s: %s, %.1f GiB memory%s", device->info.name, device->info.description,
                       (double)device->info.total_bytes / 0x1p30, device->lost ? ", lost after a fault" : ""),
          "the daemon exits and systemd restarts it; without systemd, start it again");
    check_health(d, device);
}

/* The limits of the container and of the process, which no other line shows. */
static void check_limits(struct doctor *d) {
    enum { FEW_PROCESSES = 64, FEW_FILES = 1024 };
    struct container_limits limits;
    char text[400];
    container_read("", &limits);
    bool crowded =
        limits.processes >= 0 && limits.processes - (limits.processes_used > 0 ? limits.processes_used : 0) < FEW_PROCESSES;
    bool few = limits.files >= 0 && limits.files < FEW_FILES;
    found(d, "limits", !crowded && !few, arena_strdup(d->work.arena, container_text(&limits, text, sizeof text)),
          crowded ? "raise the limit of processes of the container (--pids-limit, TasksMax): brrd starts a thread for each file "
                    "that it reads and each page that is open"
                  : "raise the limit of open files (LimitNOFILE, --ulimit nofile): each stream and file takes one");
}

/* A distribution may have fixed them, which only its package tells: no failure. */
static void check_grpc(struct doctor *d) {
    char faults[256];
    grpc_faults(rpc_library_version(), faults, sizeof faults);
    found(d, "grpc", true,
          *faults ? arena_printf(d->work.arena,
                                 "%s: this version was published with %s; where the distribution has not fixed them, let only "
                                 "trusted hosts reach listen.tcp",
                                 rpc_library_version(), faults)
                  : arena_strdup(d->work.arena, rpc_library_version()),
          "");
}

static void examine(struct offload *work) {
    struct doctor *d = (struct doctor *)work;
    for (int i = 0; i < d->n_devices; i++)
        check_device(d, &d->devices[i]);
    check_parts(d);
    check_grpc(d);
    check_limits(d);
    offload_compute(work, check_all_kernels);
    check_recordings(d, d->path_names[0], d->paths[0]);
    for (int i = 1; i < 3; i++)
        check_directory(d, d->path_names[i], d->paths[i]);
    if (d->paused_jobs)
        found(d, "jobs", false, arena_printf(d->work.arena, "%d wait for room on the volume of paths.cache", d->paused_jobs),
              "free some space on that volume; the jobs then continue automatically");
    found(d, "models", d->failed_models == 0,
          arena_printf(d->work.arena, "%d served, %d failed to load", d->served_models, d->failed_models),
          "`brrctl models` names them; load them again or unload them");
    found(d, "serving", d->serving, d->serving ? "yes" : "no: the daemon is stopping", "start it again");
}

static void examined(struct offload *work) {
    struct doctor *d = (struct doctor *)work;
    Brr__V1__DoctorResponse out = BRR__V1__DOCTOR_RESPONSE__INIT;
    out.checks = d->list;
    out.n_checks = d->n;
    offload_answer(work, &out, "the checks");
}

static int doctor(struct rpc_call *call, const void *message, struct err *err) {
    (void)message;
    struct services *s = services_of(call);
    struct doctor *d = offload_new(call, OFFLOAD_DOCTOR, sizeof *d, NULL, err);
    if (!d)
        return err->code;
    for (d->n_devices = 0; d->n_devices < device_set_count(s->devices); d->n_devices++) {
        struct doctor_device *device = &d->devices[d->n_devices];
        device_hosts_describe(device_set_at(s->devices, d->n_devices), &device->info);
        device->lost = device_hosts_lost(device_set_at(s->devices, d->n_devices));
        device_watch_latest(s->device_watches[d->n_devices], &device->health);
        device->bad = device_watch_fault(s->device_watches[d->n_devices]);
    }
    d->serving = atomic_load(&s->ready.serving);
    d->paused_jobs = sched_paused(s->sched);
    for (int i = 0; i < models_count(s->models); i++)
        d->served_models += models_at(s->models, i)->opened != NULL;
    d->failed_models = models_failed(s->models);
    for (int i = 0; i < 3; i++) {
        d->path_names[i] = i == 0 ? "paths.data" : i == 1 ? "paths.cache" : "paths.results";
        d->paths[i] = arena_strdup(d->work.arena, s->paths[i]);
    }
    offload_start(&d->work, examine, examined);
    return 0;
}

/* A key of a link goes to users of the unix socket alone: over TCP a token opens the pages. */
static int page(struct rpc_call *call, const void *message, struct err *err) {
    struct services *s = services_of(call);
    Brr__V1__PageResponse out = BRR__V1__PAGE_RESPONSE__INIT;
    char url[512];
    (void)message;
    if (strcmp(rpc_caller(call)->listener, "unix") != 0)
        return err_set(err, ERR_DENIED,
                       "links to the pages are given over the unix socket alone; run brrctl page on the daemon's machine");
    int rc = s->page_url ? s->page_url(s, "/", url, sizeof url, err) : err_set(err, ERR_UNAVAILABLE, "the daemon has no pages");
    out.url = url;
    return rc ? rc : convert_answer(call, &out.base);
}

static int drain(struct rpc_call *call, const void *message, struct err *err) {
    (void)message, (void)err;
    rpc_set_state(call, services_of(call)); /* it may end now, and then drains */
    Brr__V1__DrainResponse out = BRR__V1__DRAIN_RESPONSE__INIT;
    out.message = "nothing new is accepted; the running job checkpoints, then the daemon exits";
    return convert_answer(call, &out.base);
}

static void drain_end(struct rpc_call *call) {
    struct services *s = rpc_state(call);
    if (s)
        s->drain(s);
}

const struct rpc_method svc_admin[] = {
    {RPC_METHOD("/brr.v1.Admin/Version", ROLE_READ, brr__v1__version_request, version)},
    {RPC_METHOD("/brr.v1.Admin/Devices", ROLE_READ, brr__v1__devices_request, devices)},
    {RPC_METHOD("/brr.v1.Admin/Doctor", ROLE_SUBMIT, brr__v1__doctor_request, doctor), .end = offload_end},
    {RPC_METHOD("/brr.v1.Admin/Page", ROLE_READ, brr__v1__page_request, page)},
    {RPC_METHOD("/brr.v1.Admin/Drain", ROLE_ADMIN, brr__v1__drain_request, drain), .end = drain_end},
    {.path = NULL},
};
