/* geodesic_job: what passes between the geodesic ops (geodesic.c) and the per-instruction-set kernels of their networks. Internal
 * to kernels/cpu; one thread works on a tile.
 *
 * Matrices lie in panels: `panel` neighbouring columns of all rows together, element (r, c) at (c/panel)·rows·panel + r·panel +
 * c%panel. The rows of a tile are its samples and even in number; with a tangent as many rows again follow them. */
#pragma once
#include <stdbool.h>

#include "kernels/geodesic.h"

enum { MLP_TILE_ROWS = 256 }; /* at most, tangents counted */

/* The parameters of an MLP as the kernels read them, or the sums of their gradients (w2_forward unused then). */
struct mlp_packed {
    float *w1;          /* (I, H1) */
    float *b1;          /* (H1) */
    float *w2_forward;  /* panels of w2ᵀ: rows H1, columns H2 */
    float *w2_backward; /* panels of w2: rows H2, columns H1 */
    float *b2, *w3;     /* (H2) */
    float *b3;          /* (1) */
};

struct mlp_tile {
    int rows;
    bool tangent;
    float x[MLP_MAX_INPUTS][MLP_TILE_ROWS];
    float y[MLP_TILE_ROWS], dy[MLP_TILE_ROWS]; /* with a tangent: of the values, then of the tangents */
    float dx[MLP_MAX_INPUTS][MLP_TILE_ROWS];
    float *h1, *h2, *d1; /* layers' outputs (tangents: ∂h1, and ∂ of what goes into the second tanh), gradient of the first layer */
};

struct geodesic_kernels {
    const char *isa;
    int panel;
    /* One group's parameters, a row of mlp_count, into panels; and sums of gradients added to such a row. */
    void (*pack)(struct mlp_shape n, const float *row, const struct mlp_packed *to);
    void (*unpack)(struct mlp_shape n, const struct mlp_packed *sums, float *row);
    /* y from x. */
    void (*forward)(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t);
    /* After forward, once (h2 is overwritten): adds to *sums; dx of inputs [first_dx, end_dx) from dy. */
    void (*backward)(struct mlp_shape n, const struct mlp_packed *p, struct mlp_tile *t, const struct mlp_packed *sums,
                     int first_dx, int end_dx);
    /* w = √(softplus(z) + floor) and slope = ∂w/∂z, n values. */
    void (*root)(const float *z, int n, float floor, float *w, float *slope);
};
extern const struct geodesic_kernels geodesic_kernels_base, geodesic_kernels_avx2, geodesic_kernels_avx512;
