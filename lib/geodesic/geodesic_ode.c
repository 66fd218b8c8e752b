/* The geodesic equation integrated: c' = v, v' = −Γ·v², A' = f(c, v), with Γ = g_c/(2g) from the metric's own derivative. */

#include "geodesic/geodesic.h"
#include "geodesic/ode.h"

/* The state is (3, n): c, v, A; (2, n) while only the end point is looked for. */
struct system {
    const struct geodesic_field *field;
    int64_t n;
    bool flows;
    double *g, *gc, *dg, *dgc, *part; /* n each, part 2n */
};

static int rate(void *ctx, const double *y, double *dy, struct err *err) {
    struct system *s = ctx;
    int64_t n = s->n;
    const double *c = y, *v = y + n;
    int rc = s->field->metric(s->field->ctx, n, c, s->g, s->gc, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        dy[i] = v[i];
        dy[n + i] = -s->gc[i] / (2 * s->g[i]) * v[i] * v[i];
    }
    return !s->flows ? 0 : s->field->flow(s->field->ctx, &(struct geodesic_points){n, c, v}, dy + 2 * n, err);
}

static int pull(void *ctx, const double *y, const double *g, double *gy, struct err *err) {
    struct system *s = ctx;
    int64_t n = s->n;
    const double *c = y, *v = y + n;
    int rc = s->field->metric(s->field->ctx, n, c, s->g, s->gc, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++) {
        double gamma = s->gc[i] / (2 * s->g[i]), dgamma = -g[n + i] * v[i] * v[i];
        s->dgc[i] = dgamma / (2 * s->g[i]);
        s->dg[i] = -dgamma * gamma / s->g[i];
        gy[n + i] += g[i] - 2 * gamma * v[i] * g[n + i];
    }
    if ((rc = s->field->metric_pull(s->field->ctx, n, c, s->dg, s->dgc, s->part, err)))
        return rc;
    for (int64_t i = 0; i < n; i++)
        gy[i] += s->part[i];
    if (s->flows &&
        (rc = s->field->flow_pull(s->field->ctx, &(struct geodesic_points){n, c, v}, g + 2 * n, s->part, s->part + n, err)))
        return rc;
    for (int64_t i = 0; s->flows && i < 2 * n; i++)
        gy[i] += s->part[i];
    return 0;
}

/* Memory of a solve: arrays of the system, the state, Runge–Kutta's work and, with gradients, the path. */
struct solve {
    struct system system;
    struct ode_system ode;
    struct ode_run run;
    double *memory, *y, *gy, *wa, *wb;
};

static int solve_open(struct solve *x, const struct geodesic_paths *p, bool gradients, struct err *err) {
    int64_t n = p->n, work = 3 * n * (gradients ? ODE_WORK_BACKWARD : ODE_WORK);
    int64_t count = 14 * n + work + (gradients ? 3 * n * p->steps : 0);
    memset(x, 0, sizeof *x);
    double *at = x->memory = calloc((size_t)count, sizeof *at);
    if (!at)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld geodesics by Runge-Kutta in %lld steps", (long long)n,
                       (long long)p->steps);
    x->system = (struct system){p->field, n, true, at, at + n, at + 2 * n, at + 3 * n, at + 4 * n};
    x->y = at + 6 * n;
    x->gy = at + 9 * n;
    x->wa = at + 12 * n;
    x->wb = at + 13 * n;
    x->ode = (struct ode_system){&x->system, 3 * n, rate, pull};
    x->run = (struct ode_run){.span = 1, .steps = p->steps, .work = at + 14 * n, .path = gradients ? at + 14 * n + work : NULL};
    return 0;
}

/* c and v from (a, v) to time 1; y's A is left at 0. */
static int travel(struct solve *x, const struct geodesic_paths *p, const double *v, bool flows, struct err *err) {
    struct ode_run run = x->run;
    if (!flows)
        run.path = NULL;
    x->system.flows = flows;
    x->ode.count = (flows ? 3 : 2) * p->n;
    memcpy(x->y, p->a, (size_t)p->n * sizeof *x->y);
    memcpy(x->y + p->n, v, (size_t)p->n * sizeof *x->y);
    memset(x->y + 2 * p->n, 0, (size_t)p->n * sizeof *x->y);
    return ode_rk4(&x->ode, &run, x->y, err);
}

static int roots(const struct geodesic_paths *p, const double *c, double *w, struct err *err) {
    int rc = p->field->metric(p->field->ctx, p->n, c, w, NULL, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < p->n; i++)
        w[i] = sqrt(w[i]);
    return 0;
}

/* |c(1) − b| at its largest; a path that is no number counts as infinitely far. */
static double largest_miss(const struct solve *x, const struct geodesic_paths *p) {
    double worst = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double miss = fabs(x->y[i] - p->b[i]);
        worst = isfinite(miss) ? fmax(worst, miss) : INFINITY;
    }
    return worst;
}

static int shoot(struct solve *x, const struct geodesic_paths *p, double *v, int rounds, double *miss, struct err *err) {
    int rc;
    if (!(rc = roots(p, p->a, x->wa, err)))
        rc = travel(x, p, v, false, err);
    *miss = rc ? INFINITY : largest_miss(x, p);
    for (int round = 0; !rc && round<rounds && * miss> p->tolerance && isfinite(*miss); round++) {
        rc = roots(p, x->y, x->wb, err);
        for (int64_t i = 0; !rc && i < p->n; i++)
            v[i] -= (x->y[i] - p->b[i]) * x->wb[i] / x->wa[i];
        if (!rc)
            rc = travel(x, p, v, false, err);
        *miss = rc ? INFINITY : largest_miss(x, p);
    }
    return rc;
}

static void solve_done(struct solve *x) { free(x->memory); }

int geodesic_shoot(const struct geodesic_paths *p, double *v, int rounds, double *ret_miss, struct err *err) {
    OWNED(solve_done) struct solve x = {0};
    double miss;
    int rc;
    if ((rc = solve_open(&x, p, false, err)) || (rc = shoot(&x, p, v, rounds, &miss, err)))
        return rc;
    *ret_miss = miss;
    return 0;
}

/* The gradient at fixed starting velocities, then what their dependence on the metric adds: with G_v the gradient of v(0), a second
 * pass with −G_v·w(b)/w(a) as the gradient of c(1). */
static int ode_gradient(struct solve *x, const struct geodesic_paths *p, const double *gradient, struct err *err) {
    int64_t n = p->n;
    int rc = roots(p, p->b, x->wb, err);
    memset(x->gy, 0, (size_t)(2 * n) * sizeof *x->gy);
    memcpy(x->gy + 2 * n, gradient, (size_t)n * sizeof *x->gy);
    if (rc)
        return rc;
    if ((rc = ode_rk4_backward(&x->ode, &x->run, x->gy, err)))
        return rc;
    for (int64_t i = 0; i < n; i++) {
        x->gy[i] = -x->gy[n + i] * x->wb[i] / x->wa[i];
        x->gy[n + i] = x->gy[2 * n + i] = 0;
    }
    return ode_rk4_backward(&x->ode, &x->run, x->gy, err);
}

int geodesic_transport_ode(const struct geodesic_paths *p, const struct geodesic_transport *t, struct err *err) {
    OWNED(solve_done) struct solve x = {0};
    int64_t n = p->n;
    double miss;
    OWNED_MEMORY double *v = calloc((size_t)n, sizeof *v);
    if (!v)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld geodesics", (long long)n);
    int rc;
    if ((rc = solve_open(&x, p, t->gradient, err)) || (rc = geodesic_lengths(p, v, err)) || (rc = roots(p, p->a, x.wa, err)))
        return rc;
    for (int64_t i = 0; i < n; i++)
        v[i] /= x.wa[i];
    if ((rc = shoot(&x, p, v, 8, &miss, err)) || (rc = travel(&x, p, v, true, err)))
        return rc;
    for (int64_t i = 0; i < n; i++) {
        t->value[i] = x.y[2 * n + i];
        if (t->start)
            t->start[i] = v[i];
        if (t->end)
            t->end[i] = x.y[n + i];
        if (t->miss)
            t->miss[i] = x.y[i] - p->b[i];
    }
    if (t->gradient && t->derive)
        t->derive(t->ctx, t->value, t->gradient);
    return t->gradient ? ode_gradient(&x, p, t->gradient, err) : 0;
}
