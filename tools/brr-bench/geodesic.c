/* Geodesic models: an optimizer step of one fold, and of six side by side, of the built-in spectra (20 paths at each of 50
 * wavelengths) in closed form, on a GPU on its tensor cores, too, and (at 5 wavelengths) by Runge-Kutta with shooting; and the
 * integrator alone, on the Lorenz system, beside the same steps as a plain C loop. */
#include <stdlib.h>

#include "base/needed.h"
#include "bench.h"
#include "geodesic/geodesic_fit.h"
#include "geodesic/ode.h"

enum {
    WAVELENGTHS = 50,
    ODE_WAVELENGTHS = 5,
    PAIRS = 20,
    CELLS = 4,
    ORDER = 4,
    ODE_STEPS = 100,
    MEMBERS = 0x1f,
    FOLDS = 6,
    ALL_SPECTRA = 0x3f
};
/* Nodes of the 20 paths between 5 spectra: 8 span one cell, 6 two, 4 three, 2 four. */
enum { PATH_NODES = (8 * 1 + 6 * 2 + 4 * 3 + 2 * 4) * ORDER };
/* Trajectories side by side in the first-level cache, and blocks of them in one run. */
enum { LANES = 256, BLOCKS = 16, LORENZ_STEPS = 1000 };

/* ---- a fold ---------------------------------------------------------------------------------------------------- */

/* The parameters of a case. */
struct fold_ways {
    enum geodesic_solver solver;
    enum geodesic_products products;
};
static bool by_ode(const struct bench_case *c) { return ((const struct fold_ways *)c->parameters)->solver == GEODESIC_ODE; }

struct fold_state {
    struct spectra spectra;
    struct geodesic_fit *fit;
};

static void fold_close(void *state, struct device *dev) {
    struct fold_state *s = state;
    (void)dev;
    geodesic_fit_free(s->fit);
    spectra_done(&s->spectra);
    free(s);
}

static int fold_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    const struct fold_ways *ways = c->parameters;
    const int batch = by_ode(c) ? ODE_WAVELENGTHS : WAVELENGTHS + 1; /* 601 wavelengths in 121 or 12 steps */
    struct geodesic_fit_config config = {.head = GEODESIC_FLOW,
                                         .solver = ways->solver,
                                         .products = ways->products,
                                         .epochs = 1000000,
                                         .batch = batch,
                                         .ode_steps = ODE_STEPS,
                                         .metric_rate = 5e-4,
                                         .head_rate = 1e-3,
                                         .clip = 1,
                                         .floor = 0.1,
                                         .head_gain = 0.7,
                                         .seed = 1};
    geodesic_members members[FOLDS];
    for (int i = 0; i < c->batch; i++) /* each without one of the six spectra */
        members[i] = c->batch == 1 ? MEMBERS : (geodesic_members)(ALL_SPECTRA & ~(1U << i));
    struct fold_state *s = needed(calloc(1, sizeof *s));
    int rc;
    if ((rc = spectra_formula(&s->spectra, err)) ||
        (rc = geodesic_fit_new(&config, &s->spectra, members, c->batch, x->stream, &s->fit, err))) {
        fold_close(s, x->device);
        return rc;
    }
    *ret = s;
    return 0;
}

static int fold_run(void *state, struct stream *stream, struct err *err) {
    (void)stream;
    return geodesic_fit_step(((struct fold_state *)state)->fit, err);
}

/* Multiplications and additions of one forward evaluation. */
static double operations(struct mlp_shape n) { return 2.0 * ((double)n.hidden1 * (n.in + n.hidden2) + n.hidden2); }

/* Forward and backward take three times the forward pass; a tanh costs one exponential. By Runge-Kutta every stage of every step
 * evaluates the metric with its derivative, and the flow. */
static struct rates_work fold_work(const struct bench_case *c, const struct bench_context *x) {
    struct mlp_shape metric = GEODESIC_METRIC, head = geodesic_head_shape(GEODESIC_FLOW);
    double metrics = (double)WAVELENGTHS * CELLS * ORDER, flows = (double)WAVELENGTHS * PATH_NODES;
    struct rates_work w = {0};
    (void)x;
    if (by_ode(c)) {
        flows = (double)ODE_WAVELENGTHS * PAIRS * ODE_STEPS * 4;
        metrics = 2 * flows;
    }
    metrics *= c->batch;
    flows *= c->batch;
    w.flops = 3 * (metrics * operations(metric) + flows * operations(head));
    w.exponentials = metrics * (metric.hidden1 + metric.hidden2) / (by_ode(c) ? 2 : 1) + flows * (head.hidden1 + head.hidden2);
    return w;
}

/* ---- the integrator alone -------------------------------------------------------------------------------------- */

struct lorenz {
    double state[3 * LANES], work[3 * 3 * LANES];
};

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) &&                           \
    !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define CLONES
#endif

/* x' = 10(y − x), y' = x(28 − z) − y, z' = xy − 8z/3. */
CLONES static int lorenz_rate(void *ctx, const double *restrict y, double *restrict dy, struct err *err) {
    (void)ctx, (void)err;
#pragma omp simd
    for (int i = 0; i < LANES; i++) {
        double a = y[i], b = y[LANES + i], c = y[2 * LANES + i];
        dy[i] = 10 * (b - a);
        dy[LANES + i] = a * (28 - c) - b;
        dy[2 * LANES + i] = a * b - 8.0 / 3 * c;
    }
    return 0;
}

static void lorenz_start(struct lorenz *l, int block) {
    for (int i = 0; i < LANES; i++) {
        l->state[i] = 1 + 0.001 * (block * LANES + i);
        l->state[LANES + i] = l->state[2 * LANES + i] = 1;
    }
}

static int lorenz_batch(void *state, struct stream *stream, struct err *err) {
    struct lorenz *l = state;
    struct ode_system system = {NULL, 3 * LANES, lorenz_rate, NULL};
    struct ode_run run = {.span = 10, .steps = LORENZ_STEPS, .work = l->work};
    int rc = 0;
    (void)stream;
    for (int block = 0; !rc && block < BLOCKS; block++) {
        lorenz_start(l, block);
        rc = ode_rk4(&system, &run, l->state, err);
    }
    return rc;
}

/* One trajectory at a time, as a program without a batch would. */
static void lorenz_one(double s[3]) {
    static const double ahead[4] = {0, 0.5, 0.5, 1}, weight[4] = {1, 2, 2, 1};
    const double h = 10.0 / LORENZ_STEPS;
    for (int step = 0; step < LORENZ_STEPS; step++) {
        double sum[3] = {0}, k[3] = {0}, at[3];
        for (int stage = 0; stage < 4; stage++) {
            for (int i = 0; i < 3; i++)
                at[i] = s[i] + h * ahead[stage] * k[i];
            k[0] = 10 * (at[1] - at[0]);
            k[1] = at[0] * (28 - at[2]) - at[1];
            k[2] = at[0] * at[1] - 8.0 / 3 * at[2];
            for (int i = 0; i < 3; i++)
                sum[i] += weight[stage] * k[i];
        }
        for (int i = 0; i < 3; i++)
            s[i] += h / 6 * sum[i];
    }
}

static int lorenz_loop(void *state, struct stream *stream, struct err *err) {
    struct lorenz *l = state;
    (void)stream, (void)err;
    for (int block = 0; block < BLOCKS; block++) {
        lorenz_start(l, block);
        for (int i = 0; i < LANES; i++) {
            double s[3] = {l->state[i], l->state[LANES + i], l->state[2 * LANES + i]};
            lorenz_one(s);
            l->state[i] = s[0];
        }
    }
    return 0;
}

static int lorenz_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    (void)c, (void)x, (void)err;
    *ret = needed(calloc(1, sizeof(struct lorenz)));
    return 0;
}
static void lorenz_close(void *state, struct device *dev) {
    (void)dev;
    free(state);
}

/* A rate costs 9 operations and each of its 3 numbers about 6 more, four times a step. */
static struct rates_work lorenz_work(const struct bench_case *c, const struct bench_context *x) {
    (void)x;
    return (struct rates_work){.flops = (double)c->batch * LORENZ_STEPS * 4 * (9 + 3 * 6)};
}

static const struct fold_ways closed_form = {GEODESIC_CLOSED_FORM, GEODESIC_F32}, bf16x3 = {GEODESIC_CLOSED_FORM, GEODESIC_BF16X3},
                              ode = {GEODESIC_ODE, GEODESIC_F32};
#define FOLD(name_, batch_, where_, parameters_)                                                                                   \
    { "geodesic", name_, batch_, true, where_, fold_work, fold_open, fold_run, fold_close, parameters_ }
#define LORENZ(name_, run_)                                                                                                        \
    { "ode", name_, LANES *BLOCKS, true, BENCH_CPU, lorenz_work, lorenz_open, run_, lorenz_close, NULL }
const struct bench_case bench_geodesic_cases[] = {
    FOLD("fold closed_form", 1, BENCH_ANYWHERE, &closed_form),
    FOLD("six folds closed_form", FOLDS, BENCH_ANYWHERE, &closed_form),
    FOLD("six folds bf16x3", FOLDS, BENCH_GPU, &bf16x3),
    FOLD("fold ode", 1, BENCH_CPU, &ode),
    LORENZ("lorenz batch", lorenz_batch),
    LORENZ("lorenz plain loop", lorenz_loop),
    {.name = NULL},
};
