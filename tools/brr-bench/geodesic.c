/* Geodesic models: an optimizer step of one fold, and of six side by side, of the built-in spectra (20 paths at each of 50
 * wavelengths) in closed form, on a GPU on its tensor cores, too, and (at 5 wavelengths) by Runge-Kutta with shooting. Bench "ode":
 * a model's geodesics one by one, as a program without batches solves them, beside all of them in closed form; and the integrator
 * alone, on the Lorenz system, beside the same steps as a plain C loop. */

#include "geodesic/geodesic.h"
#include "base/needed.h"
#include "bench.h"
#include "geodesic/geodesic_fit.h"
#include "geodesic/ode.h"
#include "kernels/geodesic.h"

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
                                         SAME_MEMBERS(*ways, solver, products),
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
        (rc = geodesic_fit_new(&config, &s->spectra, members, c->batch, x->stream, &s->fit, err)))
        fold_close(s, x->device);
    else
        *ret = s;
    return rc;
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

/* ---- the geodesics of one model, forwards ---------------------------------------------------------------------- */

/* Paths to the left-out spectrum: of the five others at all wavelengths, or ALONE of them one after another. */
enum { LEFT_OUT = 2, SOURCES = FOLDS - 1, WIDTH = 601, ALONE = 4 };

struct model_state {
    struct fold_state fold;
    struct geodesic_fit_state trained;
    struct geodesic_model model;
    double at, wavelength, spectra[SOURCES * WIDTH];
};

static void model_close(void *state, struct device *dev) {
    struct model_state *m = state;
    (void)dev;
    geodesic_fit_state_done(&m->trained);
    geodesic_fit_free(m->fold.fit);
    spectra_done(&m->fold.spectra);
    free(m);
}

/* A network and its derivative by x[0], a number at a time. */
static double plain_network(struct mlp_shape n, const float *p, const double *x, double *ret_slope) {
    const struct mlp_offsets o = mlp_offsets_of(n);
    double h[256], slope[256], y = (double)p[o.b3], dy = 0;
    for (int i = 0; i < n.hidden1; i++) {
        double z = (double)p[o.b1 + i];
        for (int k = 0; k < n.in; k++)
            z += (double)p[o.w1 + i * n.in + k] * x[k];
        h[i] = tanh(z);
        slope[i] = (1 - h[i] * h[i]) * (double)p[o.w1 + i * n.in];
    }
    for (int j = 0; j < n.hidden2; j++) {
        double z = (double)p[o.b2 + j], dz = 0;
        for (int i = 0; i < n.hidden1; i++) {
            z += (double)p[o.w2 + j * n.hidden1 + i] * h[i];
            dz += (double)p[o.w2 + j * n.hidden1 + i] * slope[i];
        }
        const double t = tanh(z);
        y += (double)p[o.w3 + j] * t;
        dy += (double)p[o.w3 + j] * (1 - t * t) * dz;
    }
    *ret_slope = dy;
    return y;
}

static int plain_metric(void *ctx, int64_t n, const double *c, double *g, double *gc, struct err *err) {
    const struct model_state *m = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double slope, z = plain_network(GEODESIC_METRIC, m->model.params, (double[2]){c[i], m->wavelength}, &slope);
        g[i] = (z > 0 ? z : 0) + log1p(exp(-fabs(z))) + m->model.floor;
        if (gc)
            gc[i] = slope / (1 + exp(-z));
    }
    return 0;
}

static int plain_flow(void *ctx, const struct geodesic_points *at, double *f, struct err *err) {
    const struct model_state *m = ctx;
    double slope;
    (void)err;
    for (int64_t i = 0; i < at->n; i++)
        f[i] = plain_network(geodesic_head_shape(GEODESIC_FLOW), m->model.params + mlp_count(GEODESIC_METRIC),
                             (double[3]){at->c[i], at->v[i], m->wavelength}, &slope);
    return 0;
}

/* The absorbance that path `index` adds, in normalised units, by Runge-Kutta and shooting. */
static int solve_alone(struct model_state *m, int index, double *ret, struct err *err) {
    const struct spectra *s = &m->fold.spectra;
    const int source = index % SOURCES;
    const double a = geodesic_position(s, s->concentrations[source + (source >= LEFT_OUT)]), b = geodesic_position(s, m->at);
    const struct geodesic_field field = {.ctx = m, .metric = plain_metric, .flow = plain_flow};
    const struct geodesic_paths path = {
        .field = &field, .n = 1, .a = &a, .b = &b, .cells = CELLS, .order = ORDER, .steps = ODE_STEPS, .tolerance = 1e-5};
    const struct geodesic_transport result = {.value = ret};
    m->wavelength = geodesic_wavelength(s, s->wavelengths[index * WIDTH / ALONE]);
    return geodesic_transport_ode(&path, &result, err);
}

static int model_batch(void *state, struct stream *stream, struct err *err) {
    struct model_state *m = state;
    return geodesic_predict(stream, &m->model, &m->fold.spectra, m->at, m->spectra, err);
}

static int model_alone(void *state, struct stream *stream, struct err *err) {
    double value;
    int rc = 0;
    (void)stream;
    for (int i = 0; !rc && i < ALONE; i++)
        rc = solve_alone(state, i, &value, err);
    return rc;
}

/* Both ways give the same answer, or are not compared. */
static int check_ways(struct model_state *m, struct stream *stream, struct err *err) {
    const struct spectra *s = &m->fold.spectra;
    double value, mean, deviation;
    int rc = model_batch(m, stream, err);
    geodesic_statistics(s, m->model.members, &mean, &deviation);
    for (int i = 0; !rc && i < ALONE; i++) {
        const int source = i % SOURCES, at = i * WIDTH / ALONE;
        if ((rc = solve_alone(m, i, &value, err)))
            return rc;
        const double own = s->absorbance[(source + (source >= LEFT_OUT)) * s->width + at];
        const double batch = (m->spectra[source * s->width + at] - own) / deviation;
        if (!(fabs(batch - value) < 1e-3 * fmax(1, fabs(value))))
            return err_set(err, ERR_INTERNAL, "path %d adds %g by Runge-Kutta and %g in closed form", i, value, batch);
    }
    return rc;
}

static int model_open(const struct bench_case *c, const struct bench_context *x, void **ret, struct err *err) {
    const struct geodesic_fit_config config = {
        .epochs = 1, .batch = WAVELENGTHS, .metric_rate = 5e-4, .head_rate = 1e-3, .floor = 0.1, .head_gain = 0.7, .seed = 1};
    const geodesic_members members = (geodesic_members)(ALL_SPECTRA & ~(1U << LEFT_OUT));
    struct model_state *m = needed(calloc(1, sizeof *m));
    int rc = spectra_formula(&m->fold.spectra, err);
    (void)c;
    if (rc || (rc = geodesic_fit_new(&config, &m->fold.spectra, &members, 1, x->stream, &m->fold.fit, err)) ||
        (rc = geodesic_fit_state_new(m->fold.fit, &m->trained, err)) || (rc = geodesic_fit_save(m->fold.fit, &m->trained, err)))
        return model_close(m, x->device), rc;
    geodesic_fit_model(&m->trained, m->fold.fit, 0, &m->model);
    m->at = m->fold.spectra.concentrations[LEFT_OUT];
    if ((rc = check_ways(m, x->stream, err)))
        return model_close(m, x->device), rc;
    *ret = m;
    return 0;
}

/* In closed form: the metric at the nodes between all spectra, the flow at those of each path. One by one: the quadrature that
 * begins, at least one run of four stages a step, the metric with its derivative. */
static struct rates_work model_work(const struct bench_case *c, const struct bench_context *x) {
    const struct mlp_shape metric = GEODESIC_METRIC, head = geodesic_head_shape(GEODESIC_FLOW);
    const bool alone = c->batch == ALONE;
    const double metrics = alone ? 2.0 * ALONE * ODE_STEPS * 4 : (double)WIDTH * SOURCES * ORDER;
    const double flows = alone ? (double)ALONE * ODE_STEPS * 4 : (double)WIDTH * (2 + 1 + 1 + 2 + 3) * ORDER;
    (void)x;
    return (struct rates_work){.flops = metrics * operations(metric) + flows * operations(head),
                               .exponentials = metrics * (metric.hidden1 + metric.hidden2) / (alone ? 2 : 1) +
                                               flows * (head.hidden1 + head.hidden2)};
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
    {"ode", "geodesics one by one", ALONE, true, BENCH_CPU, model_work, model_open, model_alone, model_close, NULL},
    {"ode", "geodesics closed_form", SOURCES *WIDTH, true, BENCH_ANYWHERE, model_work, model_open, model_batch, model_close, NULL},
    LORENZ("lorenz batch", lorenz_batch),
    LORENZ("lorenz plain loop", lorenz_loop),
    {.name = NULL},
};
