/* interpolate: curves through a few points by classical rules, for many curves over the same abscissas at once: the
 * baselines of the geodesic models. Plain functions, any thread. */
#pragma once

#include "base/base.h"

/* Beyond the ends the cubic rules continue their last piece, as do LINEAR and PCHIP. */
#define INTERPOLATE_MAP(X)                                                                                                         \
    X(LINEAR_CLAMPED, "linear_clamped") /* straight lines; beyond the ends the value there */                                      \
    X(LINEAR, "linear_extrapolated")    /* straight lines */                                                                       \
    X(PCHIP, "pchip")                   /* monotone cubic (Fritsch and Butland) */                                                 \
    X(NATURAL, "cubic_natural")         /* cubic spline, curvature 0 at the ends */                                                \
    X(NOT_A_KNOT, "cubic_not_a_knot")   /* cubic spline, third derivative continuous at the second and the last but one point */   \
    X(NEAREST, "nearest")               /* the value at the nearest point, the lower one of two */                                 \
    X(MEAN, "mean")                     /* the mean of all */                                                                      \
    X(GP_RBF, "gp_rbf")                 /* Gaussian process about the mean: exp(−d²/(2l²)), noise on the diagonal */           \
    X(GP_EVIDENCE, "gp_evidence")       /* the same of unknown mean, over many l and noises, each weighed by what the curves say */

enum interpolate_rule {
#define INTERPOLATE_ENUM(name, text) INTERPOLATE_##name,
    INTERPOLATE_MAP(INTERPOLATE_ENUM)
#undef INTERPOLATE_ENUM
        INTERPOLATE_RULES
};
enum { INTERPOLATE_MAX_POINTS = 32 };
const char *interpolate_name(enum interpolate_rule rule);

/* n ≥ 2 points x (ascending), curves y (n, width), values at `at`: ret (width). */
struct interpolate {
    enum interpolate_rule rule;
    int n;
    const double *x, *y;
    int64_t width;
    double at;
    double length, noise; /* GP_RBF: l, and what is added to the diagonal; GP_EVIDENCE finds its own */
};
/* RANGE: fewer than 2 or more than INTERPOLATE_MAX_POINTS points. */
int interpolate(const struct interpolate *a, double *ret, struct err *err);
