/* geodesic_fixture: metrics with known geodesics, and networks evaluated in plain double loops, as fields (geodesic/geodesic.h). */
#pragma once

#include "base/base.h"
#include "geodesic/geodesic.h"
#include "kernels/geodesic.h"

/* ---- analytic fields: g and f of one point with their derivatives ---------------------------------------------- */

struct analytic {
    double (*g)(const double *p, double c);
    double (*gc)(const double *p, double c);
    double (*f)(double c, double v);
    void (*df)(double c, double v, double *fc, double *fv);
    /* For gradients: dg/dp and dg_c/dp of up to 3 parameters. */
    void (*dp)(const double *p, double c, double dg[3], double dgc[3]);
    double (*gcc)(const double *p, double c);
    double p[3], grad[3];
};

static inline int analytic_metric(void *ctx, int64_t n, const double *c, double *g, double *gc, struct err *err) {
    struct analytic *a = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        g[i] = a->g(a->p, c[i]);
        if (gc)
            gc[i] = a->gc(a->p, c[i]);
    }
    return 0;
}
static inline int analytic_metric_pull(void *ctx, int64_t n, const double *c, const double *dg, const double *dgc, double *dc,
                                       struct err *err) {
    struct analytic *a = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double by_g[3] = {0}, by_gc[3] = {0};
        if (a->dp)
            a->dp(a->p, c[i], by_g, by_gc);
        for (int k = 0; k < 3; k++)
            a->grad[k] += dg[i] * by_g[k] + (dgc ? dgc[i] * by_gc[k] : 0);
        if (dc)
            dc[i] = dg[i] * a->gc(a->p, c[i]) + (dgc ? dgc[i] * a->gcc(a->p, c[i]) : 0);
    }
    return 0;
}
static inline int analytic_flow(void *ctx, const struct geodesic_points *at, double *f, struct err *err) {
    const double *c = at->c, *v = at->v;
    int64_t n = at->n;
    struct analytic *a = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        f[i] = a->f ? a->f(c[i], v[i]) : 0;
    return 0;
}
static inline int analytic_flow_pull(void *ctx, const struct geodesic_points *at, const double *df, double *dc, double *dv,
                                     struct err *err) {
    const double *c = at->c, *v = at->v;
    int64_t n = at->n;
    struct analytic *a = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double fc = 0, fv = 0;
        if (a->df)
            a->df(c[i], v[i], &fc, &fv);
        if (dc)
            dc[i] = df[i] * fc;
        dv[i] = df[i] * fv;
    }
    return 0;
}
static inline struct geodesic_field analytic_field(struct analytic *a) {
    return (struct geodesic_field){a, analytic_metric, analytic_metric_pull, analytic_flow, analytic_flow_pull};
}

/* ---- an MLP in double ------------------------------------------------------------------------------------------ */

/* y and, unless NULL, ∂y/∂x₀. With dparams, adds dy·∂y/∂p + dt·∂(∂y/∂x₀)/∂p to it, and the same by the inputs to dx. */
struct exact_mlp {
    struct mlp_shape shape;
    const double *params;
    double *dparams, *dx;
    double dy, dt;
};
static inline double exact_mlp(const struct exact_mlp *m, const double *x, double *tangent) {
    struct mlp_shape n = m->shape;
    struct mlp_offsets o = mlp_offsets_of(n);
    const double *p = m->params;
    double h1[128], t1[128], h2[256], z2[256], d1[128] = {0}, e1[128] = {0}, y = p[o.b3], yt = 0;
    for (int i = 0; i < n.hidden1; i++) {
        double z = p[o.b1 + i];
        for (int k = 0; k < n.in; k++)
            z += p[o.w1 + i * n.in + k] * x[k];
        h1[i] = tanh(z);
        t1[i] = (1 - h1[i] * h1[i]) * p[o.w1 + i * n.in];
    }
    for (int j = 0; j < n.hidden2; j++) {
        double z = p[o.b2 + j], zt = 0;
        for (int i = 0; i < n.hidden1; i++) {
            z += p[o.w2 + j * n.hidden1 + i] * h1[i];
            zt += p[o.w2 + j * n.hidden1 + i] * t1[i];
        }
        h2[j] = tanh(z);
        z2[j] = zt;
        y += p[o.w3 + j] * h2[j];
        yt += p[o.w3 + j] * (1 - h2[j] * h2[j]) * zt;
    }
    if (tangent)
        *tangent = yt;
    if (!m->dparams)
        return y;
    double *d = m->dparams;
    d[o.b3] += m->dy;
    for (int j = 0; j < n.hidden2; j++) {
        double slope = 1 - h2[j] * h2[j], w = p[o.w3 + j];
        double gt = m->dt * w * slope, g = (m->dy * w - 2 * h2[j] * z2[j] * m->dt * w) * slope;
        d[o.w3 + j] += m->dy * h2[j] + m->dt * slope * z2[j];
        d[o.b2 + j] += g;
        for (int i = 0; i < n.hidden1; i++) {
            d[o.w2 + j * n.hidden1 + i] += g * h1[i] + gt * t1[i];
            d1[i] += g * p[o.w2 + j * n.hidden1 + i];
            e1[i] += gt * p[o.w2 + j * n.hidden1 + i];
        }
    }
    for (int i = 0; i < n.hidden1; i++) {
        double slope = 1 - h1[i] * h1[i], w0 = p[o.w1 + i * n.in], g = (d1[i] - 2 * h1[i] * w0 * e1[i]) * slope;
        d[o.b1 + i] += g;
        d[o.w1 + i * n.in] += e1[i] * slope;
        for (int k = 0; k < n.in; k++) {
            d[o.w1 + i * n.in + k] += g * x[k];
            if (m->dx)
                m->dx[k] += g * p[o.w1 + i * n.in + k];
        }
    }
    return y;
}

/* A metric network and a flow network as a field; all paths at one wavelength. */
struct exact_nets {
    const double *metric, *head;
    double *dmetric, *dhead;
    double wavelength, floor;
};
static inline double exact_softplus(double z) { return z > 0 ? z + log1p(exp(-z)) : log1p(exp(z)); }
static inline double exact_sigmoid(double z) { return 1 / (1 + exp(-z)); }

static inline int exact_metric(void *ctx, int64_t n, const double *c, double *g, double *gc, struct err *err) {
    struct exact_nets *e = ctx;
    struct exact_mlp m = {.shape = GEODESIC_METRIC, .params = e->metric};
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double t, z = exact_mlp(&m, (double[2]){c[i], e->wavelength}, &t);
        g[i] = exact_softplus(z) + e->floor;
        if (gc)
            gc[i] = exact_sigmoid(z) * t;
    }
    return 0;
}
static inline int exact_metric_pull(void *ctx, int64_t n, const double *c, const double *dg, const double *dgc, double *dc,
                                    struct err *err) {
    struct exact_nets *e = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        struct exact_mlp m = {.shape = GEODESIC_METRIC, .params = e->metric};
        double t, x[2] = {c[i], e->wavelength}, z = exact_mlp(&m, x, &t), s = exact_sigmoid(z), dx[2] = {0};
        m.dparams = e->dmetric;
        m.dx = dx;
        m.dt = dgc ? dgc[i] * s : 0;
        m.dy = dg[i] * s + (dgc ? dgc[i] * t * s * (1 - s) : 0);
        exact_mlp(&m, x, NULL);
        if (!dc)
            continue;
        dc[i] = dx[0];
    }
    return 0;
}
static inline int exact_flow(void *ctx, const struct geodesic_points *at, double *f, struct err *err) {
    const double *c = at->c, *v = at->v;
    int64_t n = at->n;
    struct exact_nets *e = ctx;
    struct exact_mlp m = {.shape = geodesic_head_shape(GEODESIC_FLOW), .params = e->head};
    (void)err;
    for (int64_t i = 0; i < n; i++)
        f[i] = exact_mlp(&m, (double[3]){c[i], v[i], e->wavelength}, NULL);
    return 0;
}
static inline int exact_flow_pull(void *ctx, const struct geodesic_points *at, const double *df, double *dc, double *dv,
                                  struct err *err) {
    const double *c = at->c, *v = at->v;
    int64_t n = at->n;
    struct exact_nets *e = ctx;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double dx[3] = {0};
        struct exact_mlp m = {geodesic_head_shape(GEODESIC_FLOW), e->head, e->dhead, dx, df[i], 0};
        exact_mlp(&m, (double[3]){c[i], v[i], e->wavelength}, NULL);
        if (dc)
            dc[i] = dx[0];
        dv[i] = dx[1];
    }
    return 0;
}
static inline struct geodesic_field exact_field(struct exact_nets *e) {
    return (struct geodesic_field){e, exact_metric, exact_metric_pull, exact_flow, exact_flow_pull};
}
