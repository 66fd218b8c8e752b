#include "geodesic/ode.h"

#include "base/clones.h"

/* out = y + h·k */
CLONES static void advance(int64_t n, const double *restrict y, double h, const double *restrict k, double *restrict out) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = y[i] + h * k[i];
}

/* y += h·k */
CLONES static void add(int64_t n, double h, const double *restrict k, double *restrict y) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] += h * k[i];
}

/* One step: k1 = f(y), k2 = f(y + h/2·k1), k3 = f(y + h/2·k2), k4 = f(y + h·k3), y += h/6·(k1 + 2·k2 + 2·k3 + k4). */
static int step(const struct ode_system *s, double h, double *restrict y, double *work, struct err *err) {
    int64_t n = s->count;
    double *restrict k = work, *restrict sum = work + n, *restrict at = work + 2 * n;
    static const double weight[4] = {1, 2, 2, 1}, ahead[4] = {0.5, 0.5, 1, 0};
    int rc = s->rate(s->ctx, y, k, err);
    if (rc)
        return rc;
    memcpy(sum, k, (size_t)n * sizeof *k);
    for (int stage = 1; stage < 4; stage++) {
        advance(n, y, h * ahead[stage - 1], k, at);
        if ((rc = s->rate(s->ctx, at, k, err)))
            return rc;
        add(n, weight[stage], k, sum);
    }
    add(n, h / 6, sum, y);
    return 0;
}

int ode_rk4(const struct ode_system *system, const struct ode_run *run, double *y, struct err *err) {
    double h = run->span / (double)run->steps;
    int rc;
    for (int64_t i = 0; i < run->steps; i++) {
        if (run->path)
            memcpy(run->path + i * system->count, y, (size_t)system->count * sizeof *y);
        if ((rc = step(system, h, y, run->work, err)))
            return rc;
    }
    return 0;
}

/* The adjoint of one step. With g the gradient of its result: of k4, h/6·g; each pull gives the gradient of the stage's state,
 * which is added to g and, times the distance of the stage, to the gradient of the k before. */
static int step_backward(const struct ode_system *s, double h, const double *y, double *g, double *work, struct err *err) {
    int64_t n = s->count;
    size_t bytes = (size_t)n * sizeof *g;
    double *at[4] = {NULL, work, work + n, work + 2 * n}, *k = work + 3 * n, *gk = work + 4 * n, *gy = work + 5 * n;
    static const double weight[4] = {1, 2, 2, 1}, ahead[4] = {0.5, 0.5, 1, 0};
    int rc = s->rate(s->ctx, y, k, err);
    for (int stage = 1; !rc && stage < 4; stage++) {
        advance(n, y, h * ahead[stage - 1], k, at[stage]);
        rc = stage < 3 ? s->rate(s->ctx, at[stage], k, err) : 0;
    }
    /* k is free now: it keeps the gradient of the result while g gathers. */
    memcpy(k, g, bytes);
    for (int64_t i = 0; i < n; i++)
        gk[i] = h / 6 * k[i];
    for (int stage = 3; !rc && stage >= 0; stage--) {
        memset(gy, 0, bytes);
        rc = s->pull(s->ctx, stage ? at[stage] : y, gk, gy, err);
        double own = stage ? h / 6 * weight[stage - 1] : 0, through = stage ? h * ahead[stage - 1] : 0;
        for (int64_t i = 0; i < n; i++) {
            g[i] += gy[i];
            gk[i] = own * k[i] + through * gy[i];
        }
    }
    return rc;
}

int ode_rk4_backward(const struct ode_system *system, const struct ode_run *run, double *gy, struct err *err) {
    double h = run->span / (double)run->steps;
    int rc;
    for (int64_t i = run->steps; i-- > 0;)
        if ((rc = step_backward(system, h, run->path + i * system->count, gy, run->work, err)))
            return rc;
    return 0;
}
