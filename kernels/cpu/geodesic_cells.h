/* geodesic_cells: lengths, velocities and times of paths through the nodes of one wavelength, and their gradients. Internal to the
 * CPU's geodesic op; plain sequential arithmetic, a fraction of a percent of the networks' work.
 *
 * W quadrature weight of a node, w = √g there, L length of a cell, S = Σ L of the cells a path spans. On a path v = ±S/w, dt =
 * W·w/S, and for a sum P = Σ f(c, v)·dt with G = ∂loss/∂P: dw += r/w and dS −= Σ r/S where r = G·dt·(f − v·f_v); dS goes to each
 * spanned cell, and from a cell's length to its nodes as W. */
#pragma once
#include <math.h>
#include <string.h>

#include "kernels/cpu/geodesic_job.h"

enum { GEODESIC_MAX_NODES = (GEODESIC_MAX_KNOTS - 1) * GEODESIC_MAX_ORDER };

struct geodesic_cells {
    int order, cells, nodes;
    float wavelength, knots[GEODESIC_MAX_KNOTS];
    float c[GEODESIC_MAX_NODES], weight[GEODESIC_MAX_NODES], w[GEODESIC_MAX_NODES], slope[GEODESIC_MAX_NODES];
    float dw[GEODESIC_MAX_NODES];
    float length[GEODESIC_MAX_KNOTS], dlength[GEODESIC_MAX_KNOTS];
};

struct geodesic_path {
    int from, to, first, end; /* knots; nodes [first, end) */
    int rows;                 /* of the head's tile */
    int narrowest;            /* the node of least w */
    float sign, s, mean;      /* direction, |S|, mean over time of c */
};

static inline void geodesic_cells_init(struct geodesic_cells *g, const struct geodesic_rule *rule, const float *knots, int n,
                                       float wavelength) {
    g->order = rule->order;
    g->cells = n - 1;
    g->nodes = g->cells * g->order;
    g->wavelength = wavelength;
    memcpy(g->knots, knots, (size_t)n * sizeof *knots);
    for (int k = 0; k < g->cells; k++)
        for (int q = 0; q < g->order; q++) {
            double width = (double)knots[k + 1] - (double)knots[k];
            g->c[k * g->order + q] = (float)((double)knots[k] + width * rule->node[q]);
            g->weight[k * g->order + q] = (float)(width * rule->weight[q]);
        }
}

/* Cells' lengths from w; gradients zeroed. */
static inline void geodesic_cells_measure(struct geodesic_cells *g) {
    for (int k = 0; k < g->cells; k++) {
        float sum = 0;
        for (int q = k * g->order; q < (k + 1) * g->order; q++)
            sum += g->weight[q] * g->w[q];
        g->length[k] = sum;
        g->dlength[k] = 0;
    }
    memset(g->dw, 0, sizeof g->dw);
}

static inline struct geodesic_path geodesic_path_of(const struct geodesic_cells *g, int from, int to, bool flow) {
    int low = from < to ? from : to, high = from < to ? to : from;
    struct geodesic_path p = {.from = from, .to = to, .first = low * g->order, .end = high * g->order};
    p.sign = from < to ? 1.0f : -1.0f;
    p.rows = flow ? p.end - p.first : 1;
    p.narrowest = p.first;
    for (int k = low; k < high; k++)
        p.s += g->length[k];
    for (int q = p.first; q < p.end; q++) {
        p.mean += g->weight[q] * g->w[q] * g->c[q];
        if (g->w[q] < g->w[p.narrowest])
            p.narrowest = q;
    }
    p.mean /= p.s;
    return p;
}

static inline void geodesic_path_inputs(const struct geodesic_cells *g, const struct geodesic_path *p, bool flow,
                                        float (*x)[MLP_TILE_ROWS], int row) {
    for (int q = p->first; flow && q < p->end; q++, row++) {
        x[0][row] = g->c[q];
        x[1][row] = p->sign * p->s / g->w[q];
        x[2][row] = g->wavelength;
    }
    if (flow)
        return;
    x[0][row] = g->knots[p->to];
    x[1][row] = p->mean;
    x[2][row] = fabsf(g->knots[p->to] - g->knots[p->from]);
    x[3][row] = p->s / g->w[p->narrowest];
    x[4][row] = g->wavelength;
}

/* Σ f·dt. */
static inline double geodesic_path_sum(const struct geodesic_cells *g, const struct geodesic_path *p, const float *f) {
    float sum = 0;
    for (int q = p->first; q < p->end; q++)
        sum += *f++ * g->weight[q] * g->w[q];
    return (double)(sum / p->s);
}

/* The head's dy: G·dt of each node, or G. */
static inline void geodesic_path_weights(const struct geodesic_cells *g, const struct geodesic_path *p, bool flow, float gradient,
                                         float *dy) {
    *dy = gradient;
    for (int q = p->first; flow && q < p->end; q++)
        *dy++ = gradient * g->weight[q] * g->w[q] / p->s;
}

/* From the head's dy and dx in the tile to dw and dlength. */
static inline void geodesic_path_backward(struct geodesic_cells *g, const struct geodesic_path *p, bool flow,
                                          const struct mlp_tile *t, int row) {
    float ds = 0;
    for (int q = p->first; flow && q < p->end; q++, row++) {
        float r = t->dy[row] * t->y[row] - t->x[1][row] * t->dx[1][row];
        g->dw[q] += r / g->w[q];
        ds -= r;
    }
    ds /= p->s;
    if (!flow) {
        float dmean = t->dx[1][row] / p->s, narrow = g->w[p->narrowest];
        for (int q = p->first; q < p->end; q++)
            g->dw[q] += dmean * g->weight[q] * (g->c[q] - p->mean);
        ds = t->dx[3][row] / narrow;
        g->dw[p->narrowest] -= t->dx[3][row] * p->s / (narrow * narrow);
    }
    for (int k = p->first / g->order; k < p->end / g->order; k++)
        g->dlength[k] += ds;
}

/* Σ d², d = ((l₂ − l₁)/(c₂ − c₁) − (l₁ − l₀)/(c₁ − c₀))·2/(c₂ − c₀) of l = ln w at three neighbouring nodes; adds scale times its
 * gradient to dw. */
static inline double geodesic_cells_roughness(struct geodesic_cells *g, float scale) {
    double sum = 0;
    for (int q = 1; q + 1 < g->nodes; q++) {
        float up = g->c[q + 1] - g->c[q], down = g->c[q] - g->c[q - 1], wide = 2.0f / (up + down);
        float d = (logf(g->w[q + 1] / g->w[q]) / up - logf(g->w[q] / g->w[q - 1]) / down) * wide, r = 2.0f * scale * d * wide;
        sum += (double)d * (double)d;
        g->dw[q + 1] += r / up / g->w[q + 1];
        g->dw[q] -= r * (1.0f / up + 1.0f / down) / g->w[q];
        g->dw[q - 1] += r / down / g->w[q - 1];
    }
    return sum;
}

/* dz of each node from dw and dlength. */
static inline void geodesic_cells_gradient(const struct geodesic_cells *g, float *dz) {
    for (int q = 0; q < g->nodes; q++)
        dz[q] = (g->dw[q] + g->weight[q] * g->dlength[q / g->order]) * g->slope[q];
}
