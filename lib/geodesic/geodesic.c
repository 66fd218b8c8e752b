/* Lengths of paths: quadratures of √g. */
#include "geodesic/geodesic.h"

#include "kernels/geodesic.h"

/* Nodes of the k-th cell's q-th point of all paths, and their signed weights. */
static void nodes(const struct geodesic_paths *p, const struct geodesic_rule *rule, int k, int q, double *c, double *weight) {
    for (int64_t i = 0; i < p->n; i++) {
        double width = (p->b[i] - p->a[i]) / p->cells;
        c[i] = p->a[i] + width * (k + rule->node[q]);
        weight[i] = width * rule->weight[q];
    }
}

int geodesic_lengths(const struct geodesic_paths *p, double *ret_s, struct err *err) {
    struct geodesic_rule rule;
    int64_t n = p->n;
    OWNED_MEMORY double *work = calloc((size_t)n * 4, sizeof *work);
    if (!work)
        return err_set(err, ERR_EXHAUSTED, "out of memory for geodesics");
    double *c = work, *weight = c + n, *g = weight + n, *s = g + n;
    geodesic_rule_of(p->order, &rule);
    for (int at = 0; at < p->cells * p->order; at++) {
        nodes(p, &rule, at / p->order, at % p->order, c, weight);
        int rc = p->field->metric(p->field->ctx, n, c, g, NULL, err);
        if (rc)
            return rc;
        for (int64_t i = 0; i < n; i++)
            s[i] += weight[i] * sqrt(g[i]);
    }
    memcpy(ret_s, s, (size_t)n * sizeof *s);
    return 0;
}
