/* The burst task: ticks of one network, in slices. A checkpoint is checkpoints/tick-N.safetensors:
 * the state of the network and, as its note, where the output files stood; the network itself is loaded or generated again. */

#include "burst/burst_network.h"
#include "burst/burst_output.h"
#include "burst/netfile.h"
#include "work/estimate.h"
#include "work/jobfile.h"
#include "work/series.h"
#include "work/task.h"

OWNABLE(struct device, device_close)
OWNABLE(struct stream, stream_close)
OWNABLE(struct burst, burst_free)

enum { MOST_SLICE = 1 << 16 };
#define SLICE_S   0.005 /* aimed at */
#define LONGEST_S 0.02  /* a network that wakes up in a slice: no further tick begins */
#define REPORT_S  0.1

struct burst_task {
    const struct jobfile *job;
    const struct burst_config *config;
    struct task_env env;
    struct task_progress progress;
    struct stream *stream;
    struct burst *burst;
    struct burst_output output;
    char identity[DIGEST_HEX_SIZE];
    int64_t slice;   /* ticks of the next slice */
    uint64_t driven; /* burst_network_drive */
    double wall_s, tick_s;
    double began_s, reported_s;
    int64_t reported; /* tick */
    struct err sink_err;
    int sink_rc;
    struct world alone, *world; /* the ranks that share the job; rank 0 writes */
    struct burst_config quiet;  /* of the other ranks: without output */
    float *v;                   /* theirs, for membranes that rank 0 writes */
    char restored[4096];        /* checkpoint that was taken; "": none */
};

enum { RANKS_MS = 600000 }; /* for ranks to load their networks */

static bool writes(const struct burst_task *t) { return t->world->rank == 0; }

/* ---- opening --------------------------------------------------------------------------------------------------- */

/* Memory of the device: that of the ledger too, where the device computes in host memory. */
static int64_t job_bytes(const struct burst_config *c, const struct device *device, const struct burst *b) {
    struct device_info info;
    device_describe(device, &info);
    return burst_bytes(b) + (info.is_async ? 0 : burst_output_ledger_bytes(c, burst_connectome(b)->net.n));
}

static int check_memory(const struct burst_task *t, struct err *err) {
    int64_t bytes = job_bytes(writes(t) ? t->config : &t->quiet, stream_device(t->stream), t->burst),
            limit = t->env.memory_limit_bytes;
    return !limit || bytes <= limit
               ? 0
               : err_set(err, ERR_EXHAUSTED,
                         "the network, its state and its ledger take %lld bytes; limits.memory of the daemon allows %lld",
                         (long long)bytes, (long long)limit);
}

/* Every rank has come so far, or the error of one that has not. */
static int agree_on(struct burst_task *t, int rc, struct err *err) {
    int all[WORLD_MAX];
    all[t->world->rank] = rc;
    int failed = world_gather(t->world, all, sizeof *all, RANKS_MS, rc ? NULL : err);
    for (int i = 0; !rc && !failed && i < t->world->size; i++)
        if (all[i])
            failed = err_set(err, all[i], "rank %d of %d could not load the network", i, t->world->size);
    return rc ? rc : failed;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------------- */

static struct series series_of(const struct burst_task *t) { return (struct series){&t->env, "tick", 12}; }

struct saving {
    struct burst_task *t;
    struct burst_state state;
};

/* The files first, then the state with the places where they are to be cut. */
static int save_state(void *arg, const char *path, char sha256[DIGEST_HEX_SIZE], struct err *err) {
    struct saving *s = arg;
    struct burst_task *t = s->t;
    OWNED(str_done) struct str note = str_of(NETFILE_MOST_NOTE_BYTES);
    struct json_writer w = json_object_to(&note);
    json_put_str(&w, "job", t->identity);
    JSON_MEMBERS(&w, *t, wall_s, tick_s, driven);
    int rc = burst_output_sync(&t->output, &w, err);
    json_end(&w, '}');
    if (rc)
        return rc;
    if (!str_ok(&note))
        return err_set(err, ERR_EXHAUSTED, "the counts of %d areas do not fit into a checkpoint", t->output.net->n_areas);
    return netfile_save_state(path, &s->state, str_cstr(&note), sha256, err);
}

static int task_checkpoint(void *task, struct err *err) {
    struct burst_task *t = task;
    const struct series series = series_of(t);
    struct task_checkpoint c = {.step = t->output.ticks, .metric = NAN, .last = true};
    double now = clock_s();
    t->wall_s += now - t->began_s;
    t->began_s = now;
    struct saving s = {.t = t};
    int rc = burst_save(t->burst, &s.state, err);
    rc = rc ? rc : ledger_save(&t->output.ledger, &s.state, err);
    rc = rc || !writes(t) ? rc : series_write(&series, &c, t->job->checkpoint.keep, save_state, &s, err);
    burst_state_done(&s.state);
    return rc;
}

/* The state of a checkpoint and what stands beside it. */
static int read_checkpoint(const struct burst_task *t, const char *path, struct burst_state *state, struct json **ret_note,
                           struct err *err) {
    struct json *note = NULL;
    OWNED_MEMORY char *text = NULL;
    int rc = netfile_load_state(path, state, &text, err);
    if (rc)
        return rc;
    if (!text)
        return err_set(err, ERR_INVALID, "%s was not written by a job", path);
    if ((rc = json_parse(text, strlen(text), path, &note, err)))
        return rc;
    if (strcmp(json_str(json_get(note, "job"), ""), t->identity) != 0) {
        json_free(note);
        return err_set(err, ERR_INVALID, "%s belongs to another network, input or output", path);
    }
    *ret_note = note;
    return 0;
}

/* note NULL: the output begins anew. */
static int open_output(struct burst_task *t, const struct json *note, struct err *err) {
    int rc = burst_output_open(&t->output, &t->env, writes(t) ? t->config : &t->quiet, burst_connectome(t->burst), note, err);
    if (rc)
        return rc;
    t->wall_s = json_f64(json_get(note, "wall_s"), 0);
    t->tick_s = json_f64(json_get(note, "tick_s"), 0);
    t->driven = (uint64_t)json_i64(json_get(note, "driven"), 0);
    return 0;
}

/* Into the network and the output, whole or not at all. */
static int restore_from(void *task, const char *path, struct err *err) {
    struct burst_task *t = task;
    OWNED(burst_state_done) struct burst_state state = {0};
    OWNED_POINTER(json_free) struct json *note = NULL;
    int rc;
    if ((rc = read_checkpoint(t, path, &state, &note, err)) || (rc = open_output(t, note, err)))
        return rc;
    if ((rc = burst_restore(t->burst, &state, err)) || (rc = ledger_restore(&t->output.ledger, &state, err)))
        burst_output_close(&t->output);
    else
        str_copy(t->restored, sizeof t->restored, path);
    return rc;
}

/* The newest checkpoint that rank 0 can use; without one the job begins anew. */
static int restore(struct burst_task *t, struct err *err) {
    const struct series series = series_of(t);
    bool found;
    int rc = writes(t) ? series_restore(&series, restore_from, t, &found, err) : 0;
    if (rc || (rc = world_broadcast(t->world, t->restored, sizeof t->restored, RANKS_MS, err)))
        return rc;
    if (!t->restored[0])
        return open_output(t, NULL, err);
    return writes(t) ? 0 : restore_from(t, t->restored, err);
}

static void task_close(void *task) {
    struct burst_task *t = task;
    if (!t)
        return;
    burst_output_close(&t->output);
    burst_free(t->burst);
    stream_close(t->stream);
    free(t->v);
    free(t);
}

/* Injections that no tick of the job receives. */
static void note_late(const struct burst_task *t, const struct burst_network *network) {
    uint64_t last = burst_tick(t->burst) + (uint64_t)t->config->ticks;
    int64_t late = 0;
    for (int64_t i = 0; i < network->n_injections; i++)
        late += network->injections[i].tick > last;
    if (late)
        task_log(&t->env, TASK_WARN, "%lld of %lld injections are for ticks after the last one (%llu)", (long long)late,
                 (long long)network->n_injections, (unsigned long long)last);
}

/* Its rows, its injections, and the network on the device. */
static int make_network(struct burst_task *t, struct burst_network *network, struct err *err) {
    task_phase(&t->env, &t->progress, "load", 0, 0);
    int rc = agree_on(t, burst_network_load(t->config, &t->env, network, err), err);
    if (rc)
        return rc;
    if (!task_phase(&t->env, &t->progress, "load", 0, 0) && t->world->size == 1)
        return err_set(err, ERR_CANCELLED, "the job was stopped while its network was loaded");
    return burst_network_start(network, t->config, t->stream, &t->burst, err);
}

static void describe(const struct burst_task *t, const struct burst_network *network) {
    const struct connectome *net = burst_connectome(t->burst);
    if (t->config->recording)
        task_log(&t->env, TASK_INFO, "%d channels of %s give %lld injections", network->channels, t->config->recording,
                 (long long)network->n_encoded);
    note_late(t, network);
    const char *way = burst_way(t->burst);
    if (*way)
        task_log(&t->env, str_starts(way, "host memory:") ? TASK_WARN : TASK_INFO, "%d devices exchange who fired by way of %s",
                 t->world->size, way);
    task_log(&t->env, TASK_INFO, "%u neurons, %lld synapses, %d area%s, %lld MiB, from %s", net->net.n, (long long)net->whole,
             net->n_areas, net->n_areas == 1 ? "" : "s", (long long)(burst_bytes(t->burst) >> 20),
             t->config->file ? t->config->file : "the generator");
}

static int open_network(struct burst_task *t, struct err *err) {
    OWNED(burst_network_done) struct burst_network network = {0};
    int rc;
    if ((rc = make_network(t, &network, err)) || (rc = check_memory(t, err)))
        return rc;
    describe(t, &network);
    str_copy(t->identity, sizeof t->identity, network.identity);
    return 0;
}

static int task_open(const struct jobfile *job, const struct task_env *env, void **ret_task, struct err *err) {
    struct burst_task *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a burst job");
    t->job = job;
    t->config = job->config;
    t->env = *env;
    t->slice = 1;
    world_alone(&t->alone);
    t->world = env->world ? env->world : &t->alone;
    t->quiet = *t->config;
    t->quiet.fired = BURST_FIRED_NONE;
    t->quiet.rates_every = t->quiet.membranes_every = t->quiet.ledger = 0;
    task_progress_init(&t->progress);
    int rc;
    if ((rc = task_stream(env, &t->stream, err)) || (rc = open_network(t, err)) || (rc = restore(t, err))) {
        task_close(t);
        return rc;
    }
    t->began_s = t->reported_s = clock_s();
    t->reported = t->output.ticks;
    *ret_task = t;
    return 0;
}

/* ---- steps ----------------------------------------------------------------------------------------------------- */

static void on_tick(void *ctx, const struct burst_frame *frame) {
    struct burst_task *t = ctx;
    if (!t->sink_rc)
        t->sink_rc = burst_output_add(&t->output, frame, &t->sink_err);
}

static void put_figure(struct task_progress *p, int i, const char *name, double value) {
    str_copy(p->figures[i].name, sizeof p->figures[i].name, name);
    p->figures[i].value = value;
}

static void report(struct burst_task *t, double now) {
    struct task_progress *p = &t->progress;
    double elapsed = fmax(now - t->reported_s, 1e-9), ticks = (double)(t->output.ticks - t->reported);
    str_copy(p->phase, sizeof p->phase, "tick");
    p->step = t->output.ticks;
    p->steps = t->config->ticks;
    p->step_s = ticks > 0 ? elapsed / ticks : NAN;
    p->eta_s = p->step_s * (double)(p->steps - p->step);
    put_figure(p, 0, "spikes", (double)t->output.spikes);
    put_figure(p, 1, "ticks/s", ticks / elapsed);
    t->reported_s = now;
    t->reported = t->output.ticks;
    task_progressed(&t->env, p);
}

/* A slice takes about SLICE_S. */
static int64_t next_slice(const struct burst_task *t) {
    int64_t n = t->config->ticks - t->output.ticks, most = burst_network_drive_most(t->config, t->burst);
    n = n < t->slice ? n : t->slice;
    n = n < most ? n : most;
    return burst_output_until_membranes(&t->output, n);
}

/* All ranks take part; rank 0 writes. */
static int take_membranes(struct burst_task *t, struct err *err) {
    if (writes(t))
        return burst_output_membranes(&t->output, t->burst, err);
    if (!t->config->membranes_every || t->output.ticks % t->config->membranes_every != 0)
        return 0;
    if (!t->v && !(t->v = malloc((size_t)burst_connectome(t->burst)->net.n * sizeof *t->v)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for membranes");
    return burst_membranes(t->burst, t->v, err);
}

/* Ranks look at no clock of their own: they run the ticks that rank 0 has chosen. */
static int run_ticks(struct burst_task *t, int64_t n, struct err *err) {
    return t->world->size > 1 ? burst_step(t->burst, n, on_tick, t, err)
                              : burst_step_within(t->burst, n, LONGEST_S, on_tick, t, err);
}

static int run_slice(struct burst_task *t, int64_t n, struct err *err) {
    double start = clock_s();
    uint64_t begun = burst_tick(t->burst);
    int rc;
    if ((rc = burst_network_drive(t->config, t->burst, n, &t->driven, err)) || (rc = run_ticks(t, n, err)))
        return rc;
    if (t->sink_rc) {
        if (err)
            *err = t->sink_err;
        return t->sink_rc;
    }
    if ((rc = take_membranes(t, err)))
        return rc;
    double took = clock_s() - start;
    t->tick_s += took;
    double fit = SLICE_S / fmax(took / fmax((double)(burst_tick(t->burst) - begun), 1), 1e-9);
    t->slice = fit < 1 ? 1 : fit > 2 * (double)t->slice ? 2 * t->slice : (int64_t)fit;
    t->slice = t->slice > MOST_SLICE ? MOST_SLICE : t->slice;
    return 0;
}

static int task_work_off(void *task, struct err *err) {
    struct burst_task *t = task;
    int rc;
    while (t->output.ticks < t->config->ticks) {
        bool first = isnan(t->progress.step_s); /* a slice of one tick */
        int64_t n = next_slice(t);
        if ((rc = task_point(&t->env, err)) || (rc = world_broadcast(t->world, &n, sizeof n, RANKS_MS, err)) ||
            (rc = run_slice(t, n, err)))
            return rc;
        if (first || clock_s() - t->reported_s >= REPORT_S)
            report(t, clock_s());
    }
    report(t, clock_s());
    t->wall_s += clock_s() - t->began_s;
    return burst_output_finish(&t->output, err);
}

static void task_result(void *task, struct json_writer *w, const char *key) {
    struct burst_task *t = task;
    const struct connectome *net = burst_connectome(t->burst);
    json_begin_object(w, key);
    json_put_i64(w, "neurons", net->net.n);
    json_put_i64(w, "synapses", net->whole);
    json_put_i64(w, "tick", (int64_t)burst_tick(t->burst));
    if (*burst_way(t->burst))
        json_put_str(w, "exchange", burst_way(t->burst));
    burst_output_result(&t->output, w);
    json_put_f64(w, "ticks_per_s", (double)t->output.ticks / fmax(t->tick_s, 1e-9));
    json_put_f64(w, "wall_s", t->wall_s);
    json_end(w, '}');
}

/* ---- estimate -------------------------------------------------------------------------------------------------- */

/* Microseconds of a tick on N of the H200s that docs/burst.md has measured one of. */
static double h200_us(double neurons, double deliveries, int64_t n, double exchange_us) {
    return 10.3 + (10.8e-6 * deliveries + 17.9e-6 * neurons) / (double)n + (n > 1 ? exchange_us : 0);
}

static void predict(const struct estimate_config *config, double neurons, double deliveries) {
    const int64_t n = config->job->devices;
    const double one = h200_us(neurons, deliveries, 1, 0), slow = h200_us(neurons, deliveries, n, 20),
                 fast = h200_us(neurons, deliveries, n, 3);
    if (n > 1)
        estimate_fact(
            config, "devices",
            "predicted, not measured: a tick of %.0f deliveries takes %.0f us on one H200, %.0f to %.0f on %lld; sharing %s",
            deliveries, one, fast, slow, (long long)n,
            slow < one   ? "pays"
            : fast < one ? "may pay"
                         : "does not pay");
}

static void count_deliveries(void *ctx, const struct burst_frame *frame) { *(uint64_t *)ctx += frame->events; }

/* Seconds and deliveries of a tick, after a few to warm up. */
static int measure(const struct burst_config *c, struct burst *b, double *ret, double *ret_deliveries, struct err *err) {
    uint64_t deliveries = 0;
    int64_t ticks = 0, most = burst_network_drive_most(c, b);
    uint64_t driven = 0;
    double start = clock_s();
    for (int64_t n = 1; clock_s() - start < 0.3 && ticks + n <= c->ticks; n = 2 * n < most ? 2 * n : most) {
        int rc;
        if (n == 4)
            start = clock_s(), ticks = 0, deliveries = 0;
        if ((rc = burst_network_drive(c, b, n, &driven, err)) || (rc = burst_step(b, n, count_deliveries, &deliveries, err)))
            return rc;
        ticks += n;
    }
    *ret = ticks ? (clock_s() - start) / (double)ticks : 0;
    *ret_deliveries = ticks ? (double)deliveries / (double)ticks : 0;
    return 0;
}

static int estimate_engine(const struct estimate_config *config, struct burst_network *network, bool measures, struct estimate *ret,
                           struct err *err) {
    const struct burst_config *c = config->job->config;
    OWNED_POINTER(device_close) struct device *device = NULL;
    OWNED_POINTER(stream_close) struct stream *stream = NULL;
    OWNED_POINTER(burst_free) struct burst *b = NULL;
    double deliveries = 0;
    int rc;
    if ((rc = device_open(config->device, config->threads, &device, err)) ||
        (rc = stream_open(device, STREAM_NORMAL, &stream, err)) || (rc = burst_network_start(network, c, stream, &b, err)))
        return rc;
    const struct connectome *net = burst_connectome(b);
    if (!ret->memory_bytes) {
        ret->memory_bytes = job_bytes(c, device, b);
        estimate_fact(config, "neurons", "%u", net->net.n);
        estimate_fact(config, "synapses", "%lld", (long long)net->whole);
        estimate_fact(config, "areas", "%d", net->n_areas);
        if (c->ledger)
            estimate_fact(config, "ledger", "at most %lld bytes of host memory",
                          (long long)burst_output_ledger_bytes(c, net->net.n));
    }
    if (measures && ((rc = estimate_stopped(config, err)) || (rc = measure(c, b, &ret->seconds_per_step, &deliveries, err))))
        return rc;
    if (deliveries > 0)
        predict(config, net->net.n, deliveries);
    ret->seconds_total = ret->seconds_per_step * (double)ret->steps;
    return 0;
}

/* The first of n devices that share the network. */
static int estimate_share(const struct estimate_config *config, const struct burst_config *c, int n, bool measures,
                          struct estimate *ret, struct err *err) {
    struct world share = {.size = n};
    const struct task_env env = {.memory_limit_bytes = config->memory_limit_bytes, .world = n > 1 ? &share : NULL};
    OWNED(burst_network_done) struct burst_network network = {0};
    int rc = burst_network_load(c, &env, &network, err);
    network.world = NULL;
    return rc ? rc : estimate_engine(config, &network, measures, ret, err);
}

/* A generated network that is too large is not built. The time of one that several devices share is that of one, where it fits. */
static int estimate_burst(const struct estimate_config *config, struct estimate *ret, struct err *err) {
    const struct estimate_file *file = estimate_file(config, "network.file"), *injections = estimate_file(config, "input.file");
    const struct estimate_file *recording = estimate_file(config, "input.recording");
    struct burst_config c = *(const struct burst_config *)config->job->config;
    const bool measures = estimate_measures(config);
    const int n = (int)config->job->devices;
    *ret = (struct estimate){.steps = c.ticks};
    if ((c.file && !file) || (c.injections && !injections) || (c.recording && !recording))
        return 0; /* not at hand */
    c.file = file ? file->path : NULL;
    c.injections = injections ? injections->path : NULL;
    c.recording = recording ? recording->path : NULL;
    int64_t bytes =
        c.file ? 0
               : connectome_bytes(c.neurons, c.neurons * c.synapses / n, c.neurons > SPIKE_PACKED_NEURONS || c.delays.items[1] > 1);
    if (config->memory_limit_bytes && bytes > config->memory_limit_bytes) {
        ret->memory_bytes = bytes;
        return 0;
    }
    int rc = estimate_share(config, &c, n, measures && n == 1, ret, err);
    if (rc || n == 1 || !measures)
        return rc;
    rc = estimate_share(config, &c, 1, true, ret, err);
    return rc == ERR_EXHAUSTED ? 0 : rc;
}

const struct task_work work_burst = {
    .open = task_open,
    .run = task_work_off,
    .checkpoint = task_checkpoint,
    .result = task_result,
    .close = task_close,
    .estimate = estimate_burst,
    .shares = true,
    .estimates_time = true,
};
