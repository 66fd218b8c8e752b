/* brr.v1.Metrics: the registry behind /metrics, once or again and again. */
#include "brr/v1/admin.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

enum { MAX_SAMPLES = 8192, DEFAULT_INTERVAL_MS = 1000, MIN_INTERVAL_MS = 100, MAX_INTERVAL_MS = 60000, SAMPLES_BYTES = 4 << 20 };

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

/* The samples whose names begin with prefix, sent; what convert_send says. */
static bool send_samples(struct rpc_call *call, const char *prefix) {
    struct arena arena = arena_of(SAMPLES_BYTES);
    struct collect c = {.arena = &arena, .prefix = prefix, .max = MAX_SAMPLES};
    c.items = arena_alloc(&arena, c.max * sizeof *c.items);
    Brr__V1__MetricsResponse out = BRR__V1__METRICS_RESPONSE__INIT;
    if (c.items)
        metrics_visit(services_of(call)->metrics, add_sample, &c);
    out.time_ms = clock_wall_ms();
    out.samples = c.items;
    out.n_samples = c.n;
    bool room = convert_send(call, &out.base);
    arena_done(&arena);
    return room;
}

static int get(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__MetricsRequest *in = message;
    (void)err;
    send_samples(call, in->prefix);
    return rpc_finish(call, NULL);
}

struct metrics_watch {
    char prefix[128];
    bool full; /* the client reads slowly: values are skipped until there is room */
};

static void send_again(struct rpc_call *call) {
    struct metrics_watch *w = rpc_state(call);
    if (!w->full)
        w->full = !send_samples(call, w->prefix);
}

static int watch(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__WatchMetricsRequest *in = message;
    int interval_ms = in->interval_ms ? in->interval_ms : DEFAULT_INTERVAL_MS;
    if (interval_ms < MIN_INTERVAL_MS || interval_ms > MAX_INTERVAL_MS)
        return err_set(err, ERR_INVALID, "interval_ms is %d; expected %d to %d, or 0 for %d", in->interval_ms, MIN_INTERVAL_MS,
                       MAX_INTERVAL_MS, DEFAULT_INTERVAL_MS);
    struct metrics_watch *w = arena_alloc(rpc_arena(call), sizeof *w);
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory watching metrics");
    str_copy(w->prefix, sizeof w->prefix, in->prefix);
    rpc_set_state(call, w);
    rpc_tick(call, 0, (uint64_t)interval_ms, send_again);
    return 0;
}

static void watch_writable(struct rpc_call *call) {
    struct metrics_watch *w = rpc_state(call);
    if (w)
        w->full = false;
}

const struct rpc_method svc_metrics[] = {
    {RPC_METHOD("/brr.v1.Metrics/Get", ROLE_READ, brr__v1__metrics_request, get)},
    {RPC_METHOD("/brr.v1.Metrics/Watch", ROLE_READ, brr__v1__watch_metrics_request, watch), .writable = watch_writable},
    {.path = NULL},
};
