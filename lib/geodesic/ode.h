/* ode: the classical Runge–Kutta method of order four with fixed steps for a batch of trajectories, and its exact discrete adjoint.
 * The state is one array of `count` doubles, for example (3, n) for n trajectories of three numbers, so that a rate function works
 * on whole arrays. Nothing is allocated; work arrays are the caller's. Any thread, one call per work array. */
#pragma once

#include "base/base.h"

struct ode_system {
    void *ctx;
    int64_t count;
    /* dy (=) at the state y; the system is autonomous. An error ends the integration and is returned. */
    int (*rate)(void *ctx, const double *y, double *dy, struct err *err);
    /* gy (+=) = (∂rate/∂y)ᵀ·g at the state y; also adds to the gradients of the system's own parameters. Only for ode_rk4_backward.
     */
    int (*pull)(void *ctx, const double *y, const double *g, double *gy, struct err *err);
};

enum { ODE_WORK = 3, ODE_WORK_BACKWARD = 6 }; /* arrays of `count` doubles */

/* y from time 0 to `span` in `steps` steps, in place. path, optional: steps·count doubles, receives the states before each step. */
struct ode_run {
    double span;
    int64_t steps;
    double *path, *work;
};
int ode_rk4(const struct ode_system *system, const struct ode_run *run, double *y, struct err *err);
/* gy: gradient of the last state, becomes that of the first. run->path as ode_rk4 left it. */
int ode_rk4_backward(const struct ode_system *system, const struct ode_run *run, double *gy, struct err *err);
