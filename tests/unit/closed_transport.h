/* closed_transport: what geodesic_transport_ode computes, in closed form: quadratures of √g and of the flow along a path, and their
 * gradients. The solver that Runge–Kutta must agree with; geodesic fits compute the same on their device. */
#pragma once

#include "base/base.h"
#include "geodesic/geodesic.h"
#include "kernels/geodesic.h"

/* Nodes of the k-th cell's q-th point of all paths, and their signed weights. */
static void closed_nodes(const struct geodesic_paths *p, const struct geodesic_rule *rule, int k, int q, double *c,
                         double *weight) {
    for (int64_t i = 0; i < p->n; i++) {
        double width = (p->b[i] - p->a[i]) / p->cells;
        c[i] = p->a[i] + width * (k + rule->node[q]);
        weight[i] = width * rule->weight[q];
    }
}

/* Working memory of the closed form: arrays of (nodes, n), and some of n. */
struct closed {
    const struct geodesic_paths *p;
    const struct geodesic_transport *t;
    int64_t all;
    double *c, *weight, *w, *v, *f, *dw, *dv, *df; /* nodes·n each */
    double *s, *ds;                                /* n each */
};

static int closed_forward(struct closed *x, struct err *err) {
    const struct geodesic_paths *p = x->p;
    const struct geodesic_field *field = p->field;
    struct geodesic_rule rule;
    int64_t n = p->n;
    int rc = 0;
    geodesic_rule_of(p->order, &rule);
    for (int64_t at = 0; at < x->all; at += n) {
        int node = (int)(at / n);
        closed_nodes(p, &rule, node / p->order, node % p->order, x->c + at, x->weight + at);
        if ((rc = field->metric(field->ctx, n, x->c + at, x->w + at, NULL, err)))
            return rc;
        for (int64_t i = 0; i < n; i++) {
            x->w[at + i] = sqrt(x->w[at + i]);
            x->s[i] += x->weight[at + i] * x->w[at + i];
        }
    }
    for (int64_t i = 0; i < n; i++)
        x->t->value[i] = 0;
    for (int64_t at = 0; at < x->all; at += n) {
        for (int64_t i = 0; i < n; i++)
            x->v[at + i] = x->s[i] / x->w[at + i];
        if ((rc = field->flow(field->ctx, &(struct geodesic_points){n, x->c + at, x->v + at}, x->f + at, err)))
            return rc;
        for (int64_t i = 0; i < n; i++)
            x->t->value[i] += x->f[at + i] * x->weight[at + i] * x->w[at + i] / x->s[i];
    }
    return 0;
}

/* r = G·dt·(f − v·f_v); dw = r/w, dS = −Σ r/S, and each node's dw gains W·dS; dg = dw/(2w). */
static int closed_backward(struct closed *x, struct err *err) {
    const struct geodesic_field *field = x->p->field;
    int64_t n = x->p->n;
    int rc;
    for (int64_t at = 0; at < x->all; at += n) {
        for (int64_t i = 0; i < n; i++)
            x->df[at + i] = x->t->gradient[i] * x->weight[at + i] * x->w[at + i] / x->s[i];
        if ((rc = field->flow_pull(field->ctx, &(struct geodesic_points){n, x->c + at, x->v + at}, x->df + at, NULL, x->dv + at,
                                   err)))
            return rc;
        for (int64_t i = 0; i < n; i++) {
            double r = x->df[at + i] * x->f[at + i] - x->v[at + i] * x->dv[at + i];
            x->dw[at + i] = r / x->w[at + i];
            x->ds[i] -= r / x->s[i];
        }
    }
    for (int64_t at = 0; at < x->all; at += n) {
        for (int64_t i = 0; i < n; i++)
            x->dw[at + i] = (x->dw[at + i] + x->weight[at + i] * x->ds[i]) / (2 * x->w[at + i]);
        if ((rc = field->metric_pull(field->ctx, n, x->c + at, x->dw + at, NULL, NULL, err)))
            return rc;
    }
    return 0;
}

static int closed_ends(const struct closed *x, struct err *err) {
    const struct geodesic_field *field = x->p->field;
    const double *at[2] = {x->p->a, x->p->b};
    double *to[2] = {x->t->start, x->t->end};
    int rc;
    for (int end = 0; end < 2; end++) {
        if (!to[end])
            continue;
        if ((rc = field->metric(field->ctx, x->p->n, at[end], to[end], NULL, err)))
            return rc;
        for (int64_t i = 0; i < x->p->n; i++)
            to[end][i] = x->s[i] / sqrt(to[end][i]);
    }
    return 0;
}

static int transport_closed(const struct geodesic_paths *p, const struct geodesic_transport *t, struct err *err) {
    int64_t n = p->n, all = n * p->cells * p->order;
    OWNED_MEMORY double *work = calloc((size_t)(8 * all + 2 * n), sizeof *work);
    double *at = work;
    struct closed x = {.p = p, .t = t, .all = all};
    double **arrays[] = {&x.c, &x.weight, &x.w, &x.v, &x.f, &x.dw, &x.dv, &x.df};
    if (!work)
        return err_set(err, ERR_EXHAUSTED, "out of memory for geodesics");
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, at += all)
        *arrays[i] = at;
    x.s = at;
    x.ds = at + n;
    int rc = closed_forward(&x, err);
    if (rc)
        return rc;
    if (t->gradient && t->derive)
        t->derive(t->ctx, t->value, t->gradient);
    if (t->gradient && (rc = closed_backward(&x, err)))
        return rc;
    return closed_ends(&x, err);
}
