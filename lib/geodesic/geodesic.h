/* geodesic: paths of constant speed on a line with the metric g(c) dc², and what a flow adds up along them, in double precision.
 * The equation is integrated; what fits compute by quadratures alone (kernels/geodesic.h) must agree with it.
 *
 * With w = √g the length from a to b is S = ∫ w dc, and since (w·c')' = 0 along a geodesic, v = c' = S/w(c), unique and monotone.
 * A' = f(c, v) gives A(1) = A(0) + ∫ f(c, S/w)·(w/S) dc. The equation itself is c'' = −Γ·c'², Γ = g_c/(2g).
 *
 * Paths come in batches: point i of a call belongs to path i, which a field may look up (its wavelength, its network). Gradients of
 * the field's parameters are added by the pull functions where the field keeps them. Nothing here allocates but where said. Any
 * thread, one call per field at a time. */
#pragma once

#include "base/base.h"

/* Points of a flow: n positions and velocities. */
struct geodesic_points {
    int64_t n;
    const double *c, *v;
};

struct geodesic_field {
    void *ctx;
    /* g > 0 and, unless NULL, ∂g/∂c at n points. */
    int (*metric)(void *ctx, int64_t n, const double *c, double *g, double *gc, struct err *err);
    /* The gradients dg and, unless NULL, dgc of what metric returned: dc (=), unless NULL, and the parameters' (+=). */
    int (*metric_pull)(void *ctx, int64_t n, const double *c, const double *dg, const double *dgc, double *dc, struct err *err);
    int (*flow)(void *ctx, const struct geodesic_points *at, double *f, struct err *err);
    /* dc (=), unless NULL, dv (=) and the parameters' (+=). */
    int (*flow_pull)(void *ctx, const struct geodesic_points *at, const double *df, double *dc, double *dv, struct err *err);
};

/* n paths from a[i] to b[i], a ≠ b. `cells` and `order` (4, 5, 6 or 8): the quadrature's pieces of each path; `steps`:
 * Runge–Kutta's. tolerance: of c(1), for shooting. */
struct geodesic_paths {
    const struct geodesic_field *field;
    int64_t n;
    const double *a, *b;
    int cells, order;
    int64_t steps;
    double tolerance;
};

/* Signed lengths S. */
int geodesic_lengths(const struct geodesic_paths *p, double *ret_s, struct err *err);

/* Results of a transport: value = A(1) − A(0) of each path. */
struct geodesic_transport {
    double *value; /* out */
    double *start; /* out, unless NULL: v(0) */
    double *end;   /* out, unless NULL: v(1); ode only: c(1) − b in `miss` */
    double *miss;
    double *gradient; /* of value, or NULL for none: the field's parameters receive their gradients */
    /* Unless NULL: writes the gradient once the values are known. */
    void (*derive)(void *ctx, const double *value, double *ret_gradient);
    void *ctx;
};
/* By Runge–Kutta from the quadrature's starting velocity, corrected by Newton until |c(1) − b| is within the tolerance, 8
 * rounds at most. The gradient is that of the boundary value problem: dv(0) = −(w(b)/w(a))·dc(1) at fixed v(0) (implicit function
 * theorem). */
int geodesic_transport_ode(const struct geodesic_paths *p, const struct geodesic_transport *t, struct err *err);
/* Newton shooting from the starting velocities in v (in, out): v −= (c(1) − b)·w(c(1))/w(a), at most `rounds` times. *ret_miss: the
 * largest |c(1) − b| at the end, infinite when a path has left the numbers. */
int geodesic_shoot(const struct geodesic_paths *p, double *v, int rounds, double *ret_miss, struct err *err);
