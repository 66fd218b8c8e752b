#include "geodesic/geodesic_fit_ode.h"

#include "geodesic/geodesic.h"
#include "geodesic/geodesic_fit_state.h"

/* The networks of one group as a field; path i is pair i / n_rows at wavelength rows[i % n_rows]. */
struct fit_ode {
    struct geodesic_fit *fit;
    int64_t capacity;
    double *a, *b, *value, *gradient, *target, *miss; /* capacity each */
    float *wavelength, *x, *y, *tangent, *dy, *dtangent, *dx;
    struct tensor metric, dmetric, head, dhead; /* one group's rows */
    double squares, scale;
    int64_t n;
    struct geodesic_convergence convergence;
};

int fit_ode_new(struct geodesic_fit *f, struct fit_ode **ret, struct err *err) {
    struct fit_ode *o = calloc(1, sizeof *o);
    if (!o)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a solver");
    o->fit = f;
    for (int r = 0; r < f->n_runs; r++) {
        int64_t paths = f->runs[r].n_pairs * f->config.batch;
        o->capacity = paths > o->capacity ? paths : o->capacity;
    }
    size_t n = (size_t)o->capacity;
    o->a = calloc(6 * n, sizeof *o->a);
    o->wavelength = calloc(12 * n, sizeof *o->wavelength);
    if (!o->a || !o->wavelength) {
        fit_ode_free(o);
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu geodesics", n);
    }
    o->b = o->a + n;
    o->value = o->b + n;
    o->gradient = o->value + n;
    o->target = o->gradient + n;
    o->miss = o->target + n;
    o->x = o->wavelength + n;
    o->y = o->x + 3 * n;
    o->tangent = o->y + n;
    o->dy = o->tangent + n;
    o->dtangent = o->dy + n;
    o->dx = o->dtangent + n;
    *ret = o;
    return 0;
}

void fit_ode_free(struct fit_ode *o) {
    if (!o)
        return;
    FREE_MEMBERS(*o, a, wavelength);
    free(o);
}

/* ---- the field ------------------------------------------------------------------------------------------------- */

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }
static double softplus(double z) { return (z > 0 ? z : 0) + log1p(exp(-fabs(z))); }

static int metric_values(struct fit_ode *o, int64_t n, const double *c, bool tangent, struct err *err) {
    for (int64_t i = 0; i < n; i++) {
        o->x[2 * i] = (float)c[i];
        o->x[2 * i + 1] = o->wavelength[i];
    }
    struct mlp_args a = {.shape = GEODESIC_METRIC,
                         .params = o->metric,
                         .x = tensor_3d(o->x, DTYPE_F32, 1, n, 2),
                         .y = tensor_2d(o->y, DTYPE_F32, 1, n)};
    if (tangent)
        a.tangent = tensor_2d(o->tangent, DTYPE_F32, 1, n);
    return op_mlp(o->fit->stream, &a, err);
}

static int field_metric(void *ctx, int64_t n, const double *c, double *g, double *gc, struct err *err) {
    struct fit_ode *o = ctx;
    int rc = metric_values(o, n, c, gc != NULL, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        g[i] = softplus((double)o->y[i]) + o->fit->config.floor;
        if (gc)
            gc[i] = sigmoid((double)o->y[i]) * (double)o->tangent[i];
    }
    return 0;
}

static int field_metric_pull(void *ctx, int64_t n, const double *c, const double *dg, const double *dgc, double *dc,
                             struct err *err) {
    struct fit_ode *o = ctx;
    int rc = metric_values(o, n, c, dgc != NULL, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        double s = sigmoid((double)o->y[i]);
        o->dy[i] = (float)(dg[i] * s + (dgc ? dgc[i] * (double)o->tangent[i] * s * (1 - s) : 0));
        o->dtangent[i] = dgc ? (float)(dgc[i] * s) : 0;
    }
    struct mlp_backward_args a = {.shape = GEODESIC_METRIC,
                                  .params = o->metric,
                                  .x = tensor_3d(o->x, DTYPE_F32, 1, n, 2),
                                  .dy = tensor_2d(o->dy, DTYPE_F32, 1, n),
                                  .dparams = o->dmetric};
    if (dgc)
        a.dtangent = tensor_2d(o->dtangent, DTYPE_F32, 1, n);
    if (dc)
        a.dx = tensor_3d(o->dx, DTYPE_F32, 1, n, 2);
    if ((rc = op_mlp_backward(o->fit->stream, &a, err)))
        return rc;
    for (int64_t i = 0; dc && i < n; i++)
        dc[i] = (double)o->dx[2 * i];
    return 0;
}

static void flow_inputs(struct fit_ode *o, const struct geodesic_points *at) {
    for (int64_t i = 0; i < at->n; i++) {
        o->x[3 * i] = (float)at->c[i];
        o->x[3 * i + 1] = (float)at->v[i];
        o->x[3 * i + 2] = o->wavelength[i];
    }
}

static int field_flow(void *ctx, const struct geodesic_points *at, double *f, struct err *err) {
    struct fit_ode *o = ctx;
    int64_t n = at->n;
    flow_inputs(o, at);
    struct mlp_args a = {.shape = geodesic_head_shape(GEODESIC_FLOW),
                         .params = o->head,
                         .x = tensor_3d(o->x, DTYPE_F32, 1, n, 3),
                         .y = tensor_2d(o->y, DTYPE_F32, 1, n)};
    int rc = op_mlp(o->fit->stream, &a, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++)
        f[i] = (double)o->y[i];
    return 0;
}

static int field_flow_pull(void *ctx, const struct geodesic_points *at, const double *df, double *dc, double *dv, struct err *err) {
    struct fit_ode *o = ctx;
    int64_t n = at->n;
    flow_inputs(o, at);
    for (int64_t i = 0; i < n; i++)
        o->dy[i] = (float)df[i];
    struct mlp_backward_args a = {.shape = geodesic_head_shape(GEODESIC_FLOW),
                                  .params = o->head,
                                  .x = tensor_3d(o->x, DTYPE_F32, 1, n, 3),
                                  .dy = tensor_2d(o->dy, DTYPE_F32, 1, n),
                                  .dx = tensor_3d(o->dx, DTYPE_F32, 1, n, 3),
                                  .dparams = o->dhead};
    int rc = op_mlp_backward(o->fit->stream, &a, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        if (dc)
            dc[i] = (double)o->dx[3 * i];
        dv[i] = (double)o->dx[3 * i + 1];
    }
    return 0;
}

/* ---- the step -------------------------------------------------------------------------------------------------- */

/* value is A(1) − A(0), target the same of the measured spectra. */
static void derive(void *ctx, const double *value, double *ret_gradient) {
    struct fit_ode *o = ctx;
    for (int64_t i = 0; i < o->n; i++) {
        double difference = value[i] - o->target[i];
        o->squares += difference * difference;
        ret_gradient[i] = difference * o->scale;
    }
}

/* One group's row of a tensor, columns [first, first + count). */
static struct tensor part(const struct tensor *t, int64_t g, int64_t first, int64_t count) {
    struct tensor p = tensor_2d((float *)t->data + g * t->ld + first, DTYPE_F32, 1, count);
    p.ld = t->ld;
    return p;
}

static void set_paths(struct fit_ode *o, const struct geodesic_args *a, const int32_t *rows, int64_t g) {
    int64_t knots = a->knots.dim[1], width = a->wavelengths.dim[0];
    const float *knot = (const float *)a->knots.data + g * knots, *wavelengths = a->wavelengths.data;
    const float *spectra = (const float *)a->spectra.data + g * knots * width;
    for (int64_t i = 0; i < o->n; i++) {
        struct geodesic_pair p = a->pairs[i / a->n_rows];
        int32_t row = rows[i % a->n_rows];
        o->a[i] = (double)knot[p.from];
        o->b[i] = (double)knot[p.to];
        o->wavelength[i] = wavelengths[row];
        o->target[i] = (double)spectra[p.to * width + row] - (double)spectra[p.from * width + row];
    }
}

static void count_paths(struct fit_ode *o, double tolerance) {
    struct geodesic_convergence *c = &o->convergence;
    for (int64_t i = 0; i < o->n; i++) {
        double miss = fabs(o->miss[i]);
        c->paths++;
        c->converged += miss <= tolerance;
        c->largest_miss = isfinite(miss) ? fmax(c->largest_miss, miss) : INFINITY;
    }
}

const struct geodesic_convergence *fit_ode_convergence(const struct fit_ode *o) { return &o->convergence; }

int fit_ode_gradients(struct fit_ode *o, const struct geodesic_args *a, const int32_t *rows, struct err *err) {
    struct geodesic_field field = {o, field_metric, field_metric_pull, field_flow, field_flow_pull};
    int64_t metric = mlp_count(GEODESIC_METRIC), head = a->params.dim[1] - metric;
    int rc = 0;
    o->n = a->n_pairs * a->n_rows;
    o->scale = 2.0 / (double)o->n;
    for (int64_t g = 0; !rc && g < a->params.dim[0]; g++) {
        o->metric = part(&a->params, g, 0, metric);
        o->head = part(&a->params, g, metric, head);
        o->dmetric = part(&a->grads, g, 0, metric);
        o->dhead = part(&a->grads, g, metric, head);
        o->squares = 0;
        set_paths(o, a, rows, g);
        /* The networks are of single precision: c(1) cannot be met more closely than that. */
        struct geodesic_paths paths = {.field = &field,
                                       SAME_MEMBERS(*o, n, a, b),
                                       .cells = (int)a->knots.dim[1] - 1,
                                       .order = 8,
                                       .steps = o->fit->config.ode_steps,
                                       .tolerance = 1e-5};
        struct geodesic_transport t = {.value = o->value, .miss = o->miss, .gradient = o->gradient, .derive = derive, .ctx = o};
        if (!(rc = geodesic_transport_ode(&paths, &t, err)))
            count_paths(o, paths.tolerance);
        a->loss[2 * g] = o->squares;
        a->loss[2 * g + 1] = 0;
    }
    return rc;
}
