/* Cases of the burst engine: networks of F synapses a neuron in which a share a of the neurons fires in every tick, by itself: any
 * input makes a neuron fire with a chance of its excitability, so that a keeps a = e·(1 − exp(−F·a)). Usually F = 100, a = 1 %; one
 * case has size, fan-out and rate of the column of Potjans and Diesmann (2014), and two are that column with its delays,
 * exponential synapses and Poisson input (burst/column.h), at a tenth and whole. On a GPU 64 ticks are also run at once, without a
 * sink, as a job runs them.
 * Every neuron has a refractory time, a fire limit and a snooze, so that the whole rule is paid for. Beside the ticks: drawing a
 * network, and loading it from a file in $TMPDIR. */

#include "burst/burst.h"
#include "base/needed.h"
#include "bench.h"
#include "burst/column.h"
#include "burst/netfile.h"
#include "burst/wiring.h"

enum { SETTLE = 50, COUNTED = 4, WARM_UP = 2000 };

/* Work of an average tick of the newest case, for the floor. */
static struct {
    double fired, events, candidates, ticks;
    int64_t bytes;
} seen;

struct burst_case {
    int64_t neurons, fan_out, ticks; /* ticks: of one run; with more than one nobody looks at them */
    double share;                    /* of the neurons that fire in a tick */
    double scale;                    /* of a column; 0: another network */
};
static const struct burst_case SMALL = {100000, 100, 1, 0.01, 0}, MEDIUM = {500000, 100, 1, 0.01, 0},
                               LARGE = {1000000, 100, 1, 0.01, 0}, TENTH = {7717, 387, 1, 0.0004, 0.1};
static const struct burst_case SMALL_AHEAD = {100000, 100, 64, 0.01, 0}, LARGE_AHEAD = {1000000, 100, 64, 0.01, 0},
                               DENSE_AHEAD = {1000000, 1000, 64, 0.01, 0}, COLUMN_AHEAD = {77169, 3870, 64, 0.00035, 0},
                               WHOLE_AHEAD = {77169, 3873, 64, 0.0004, 1};

struct burst_bench {
    const struct burst_case *c;
    struct burst *b;
    char path[256];
    struct stream *stream;
};

static void count(void *ctx, const struct burst_frame *f) {
    (void)ctx;
    seen.fired += (double)f->fired;
    seen.events += (double)f->events;
    seen.candidates += (double)f->candidates;
    seen.ticks += 1;
}

static double excitability(const struct burst_case *c) { return c->share / (1 - exp(-(double)c->fan_out * c->share)); }

static int draw(const struct burst_case *c, struct connectome **ret, struct err *err) {
    struct wiring w;
    if (c->scale > 0)
        return column_make(c->scale, 1, 0, ret, err);
    wiring_default(&w);
    COPY_MEMBERS(w, *c, neurons, fan_out);
    w.threshold = -INFINITY;
    w.leak = 0.1f;
    w.excitability = (float)excitability(c);
    w.refractory = 0;
    int rc = wiring_make(&w, 0, ret, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < c->neurons; i++) {
        (*ret)->net.fire_limit[i] = 100;
        (*ret)->net.snooze[i] = 1;
    }
    connectome_scan_features(*ret);
    return 0;
}

/* So many neurons, once, that their share fires: the network goes on by itself. */
static int start(struct burst *b, const struct burst_case *c, struct err *err) {
    int64_t kicked = (int64_t)((double)c->neurons * c->share / excitability(c)), step = c->neurons / kicked;
    int rc = c->scale > 0 ? burst_step(b, WARM_UP, NULL, NULL, err) : 0;
    for (int64_t i = 0; c->scale <= 0 && !rc && i < kicked; i++)
        rc = burst_inject(b, &(struct burst_injection){1, (uint32_t)(i * step), 1}, 1, err);
    rc = rc ? rc : burst_step(b, SETTLE, NULL, NULL, err);
    return rc ? rc : burst_step(b, COUNTED, count, NULL, err);
}

static void burst_case_close(void *state, struct device *dev) {
    struct burst_bench *s = state;
    (void)dev;
    if (!s)
        return;
    if (s->path[0])
        unlink(s->path);
    burst_free(s->b);
    free(s);
}

static int burst_case_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    struct burst_bench *s = needed(calloc(1, sizeof *s));
    struct connectome *net = NULL;
    memset(&seen, 0, sizeof seen);
    s->c = c->parameters;
    s->stream = x->stream;
    int rc;
    if ((rc = draw(s->c, &net, err)) || (rc = burst_new(x->stream, net, NULL, &s->b, err)) || (rc = start(s->b, s->c, err))) {
        burst_case_close(s, NULL);
        return rc;
    }
    seen.bytes = burst_bytes(s->b);
    *ret = s;
    return 0;
}

static int run_tick(void *state, struct stream *stream, struct err *err) {
    struct burst_bench *s = state;
    (void)stream;
    return burst_step(s->b, s->c->ticks, s->c->ticks > 1 ? NULL : count, NULL, err);
}

/* A tick's bytes: 4 of each synapse that delivers, 8 in a column; of every neuron its sum; of a candidate the sum again and its
 * state: membrane, countdown and fire count read and written, threshold, window, leak, excitability, refractory time, limit,
 * snooze, flags. */
static struct rates_work burst_work(const struct bench_case *c, const struct bench_context *x) {
    const struct burst_case *p = c->parameters;
    double ticks = seen.ticks > 0 ? seen.ticks : 1;
    (void)x;
    printf("# burst %s: a tick fires %.0f neurons, delivers %.0f synapses, has %.0f candidates; %.3f GB resident\n", c->name,
           seen.fired / ticks, seen.events / ticks, seen.candidates / ticks, (double)seen.bytes * 1e-9);
    double bytes = (p->scale > 0 ? 8 : 4) * seen.events / ticks + 4 * (double)p->neurons + (4 + 39) * seen.candidates / ticks;
    return (struct rates_work){.bytes = (double)p->ticks * bytes};
}

/* ---- drawing and loading --------------------------------------------------------------------------------------- */

static int file_case_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    struct burst_bench *s = needed(calloc(1, sizeof *s));
    struct connectome *net = NULL;
    const char *base = getenv("TMPDIR");
    char sha256[DIGEST_HEX_SIZE];
    (void)x;
    s->c = c->parameters;
    str_format(s->path, sizeof s->path, "%s/brr-bench-%ld.safetensors", base && *base ? base : "/tmp", (long)getpid());
    int rc = draw(s->c, &net, err);
    if (!rc)
        rc = netfile_save(s->path, net, NULL, sha256, err);
    connectome_free(net);
    if (rc)
        burst_case_close(s, NULL);
    else
        *ret = s;
    return rc;
}

static int wiring_case_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    struct burst_bench *s = needed(calloc(1, sizeof *s));
    (void)x, (void)err;
    s->c = c->parameters;
    *ret = s;
    return 0;
}

static int run_draw(void *state, struct stream *stream, struct err *err) {
    struct connectome *net = NULL;
    (void)stream;
    int rc = draw(((struct burst_bench *)state)->c, &net, err);
    connectome_free(net);
    return rc;
}

static int run_load(void *state, struct stream *stream, struct err *err) {
    struct connectome *net = NULL;
    (void)stream;
    int rc = netfile_load(((struct burst_bench *)state)->path, 0, &net, NULL, err);
    connectome_free(net);
    return rc;
}

static int64_t synapses(const struct bench_case *c) {
    const struct burst_case *p = c->parameters;
    return p->neurons * p->fan_out;
}

/* The packed synapses written once; for a file its 11 bytes a synapse read once too. */
static struct rates_work draw_work(const struct bench_case *c, const struct bench_context *x) {
    (void)x;
    return (struct rates_work){.bytes = 4.0 * (double)synapses(c)};
}
static struct rates_work load_work(const struct bench_case *c, const struct bench_context *x) {
    (void)x;
    return (struct rates_work){.bytes = 15.0 * (double)synapses(c)};
}

#define TICKS(name_, where_, parameters_)                                                                                          \
    {                                                                                                                              \
        .bench = "burst", .name = name_, .batch = 1, .f32_only = true, .where = where_, .work = burst_work,                        \
        .open = burst_case_open, .run = run_tick, .close = burst_case_close, .parameters = &(parameters_)                          \
    }
#define ONCE(bench_, open_, run_, work_)                                                                                           \
    {                                                                                                                              \
        .bench = bench_, .name = "100k x100", .batch = 1, .f32_only = true, .where = BENCH_CPU, .work = work_, .open = open_,      \
        .run = run_, .close = burst_case_close, .parameters = &SMALL                                                               \
    }
const struct bench_case bench_burst_cases[] = {
    TICKS("100k x100", BENCH_ANYWHERE, SMALL),
    TICKS("500k x100", BENCH_ANYWHERE, MEDIUM),
    TICKS("1m x100", BENCH_ANYWHERE, LARGE),
    TICKS("100k x100 64 ticks", BENCH_GPU, SMALL_AHEAD),
    TICKS("1m x100 64 ticks", BENCH_GPU, LARGE_AHEAD),
    TICKS("1m x1000 64 ticks", BENCH_GPU, DENSE_AHEAD),
    TICKS("column 64 ticks", BENCH_GPU, COLUMN_AHEAD),
    TICKS("whole column 64 ticks", BENCH_GPU, WHOLE_AHEAD),
    TICKS("tenth of a column", BENCH_ANYWHERE, TENTH),
    ONCE("burst.generate", wiring_case_open, run_draw, draw_work),
    ONCE("burst.load", file_case_open, run_load, load_work),
    {.name = NULL},
};
