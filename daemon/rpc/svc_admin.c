/* brr.v1.Admin and brr.v1.Metrics (Get): what this daemon is and how it does. */
#include <string.h>
#include <time.h>

#include "base/str.h"
#include "brr/v1/admin.pb-c.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"

static struct services *services_of(const struct rpc_call *call) { return rpc_context(call); }

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

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
    out.uptime_ms = now_ms() - services->start_ms;
    out.notice = (char *)(uintptr_t)services->notice;
    convert_answer(call, &out.base);
}

static void devices(struct rpc_call *call, const uint8_t *data, size_t len) {
    if (!convert_unpack(call, &brr__v1__devices_request__descriptor, data, len))
        return;
    struct device_info info;
    Brr__V1__Device device = BRR__V1__DEVICE__INIT, *list[] = {&device};
    Brr__V1__DevicesResponse out = BRR__V1__DEVICES_RESPONSE__INIT;
    worker_device(services_of(call)->worker, &info);
    device.name = info.name;
    device.description = info.description;
    device.total_bytes = info.total_bytes;
    device.free_bytes = info.free_bytes;
    device.isa = (char *)(uintptr_t)device_isa();
    for (int i = 0; i < sched_count(services_of(call)->sched); i++)
        if (job_is_active(sched_at(services_of(call)->sched, i)->state))
            device.occupant = (char *)(uintptr_t)sched_at(services_of(call)->sched, i)->id;
    out.devices = list;
    out.n_devices = 1;
    convert_answer(call, &out.base);
}

struct collect {
    struct arena *arena;
    const char *prefix;
    Brr__V1__MetricSample **items;
    size_t n, max;
};

static void add_sample(void *ctx, const char *name, const char *labels, double value) {
    struct collect *c = ctx;
    Brr__V1__MetricSample *m = c->n < c->max && str_starts(name, c->prefix) ? arena_alloc(c->arena, sizeof *m) : NULL;
    if (!m)
        return;
    brr__v1__metric_sample__init(m);
    m->name = arena_strdup(c->arena, name);
    m->labels = arena_strdup(c->arena, labels);
    m->value = value;
    if (m->name && m->labels)
        c->items[c->n++] = m;
}

static void metrics_get(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__MetricsRequest *in = convert_unpack(call, &brr__v1__metrics_request__descriptor, data, len);
    if (!in)
        return;
    struct collect c = {.arena = rpc_arena(call), .prefix = in->prefix, .max = 8192};
    c.items = arena_alloc(c.arena, c.max * sizeof *c.items);
    Brr__V1__MetricsResponse out = BRR__V1__METRICS_RESPONSE__INIT;
    if (c.items)
        metrics_visit(services_of(call)->metrics, add_sample, &c);
    out.time_ms = now_ms();
    out.samples = c.items;
    out.n_samples = c.n;
    convert_answer(call, &out.base);
}

const struct rpc_method svc_admin[] = {
    {"/brr.v1.Admin/Version", false, RPC_CONTROL_BYTES, version, NULL, NULL, NULL},
    {"/brr.v1.Admin/Devices", false, RPC_CONTROL_BYTES, devices, NULL, NULL, NULL},
    {"/brr.v1.Metrics/Get", false, RPC_CONTROL_BYTES, metrics_get, NULL, NULL, NULL},
};
const size_t svc_admin_count = sizeof svc_admin / sizeof *svc_admin;
