#include "detect/rejecter.h"

enum { RATE_HZ = 256, N = REJECTER_FEATURES + 1, STEPS = 100 };
static const double least_p = 1e-6, most_weight = 1e6, tiny = 1e-10;
static const char *const feature_names[REJECTER_FEATURES] = {"mean", "peak", "duration"};

bool rejecter_is_set(const struct event_rejecter *r) {
    bool set = r->bias != 0;
    for (int i = 0; i < REJECTER_FEATURES; i++)
        set |= r->weights[i] != 0;
    return set;
}

int rejecter_check(const struct event_rejecter *r, struct err *err) {
    if (!rejecter_is_set(r))
        return 0;
    if (!(r->on > 0 && r->on < 1 && r->off > 0 && r->off <= r->on))
        return err_set(err, ERR_INVALID, "rejecter: on %g and off %g: expected 0 < off <= on < 1", r->on, r->off);
    for (int i = 0; i < N; i++) {
        double weight = i ? r->weights[i - 1] : r->bias;
        if (!(fabs(weight) <= most_weight))
            return err_set(err, ERR_INVALID, "rejecter.%s is %g or missing: expected a number between -%g and %g",
                           i ? feature_names[i - 1] : "bias", weight, most_weight, most_weight);
    }
    return 0;
}

void rejecter_to_json(const struct event_rejecter *r, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    JSON_MEMBERS(w, *r, on, off, bias);
    for (int i = 0; i < REJECTER_FEATURES; i++)
        json_put_f64(w, feature_names[i], r->weights[i]);
    json_end(w, '}');
}

int rejecter_from_json(const struct json *j, struct event_rejecter *ret, struct err *err) {
    struct event_rejecter r = {.on = json_f64(json_get(j, "on"), NAN),
                               .off = json_f64(json_get(j, "off"), NAN),
                               .bias = json_f64(json_get(j, "bias"), NAN)};
    for (int i = 0; i < REJECTER_FEATURES; i++)
        r.weights[i] = json_f64(json_get(j, feature_names[i]), NAN);
    if (json_kind(j) == JSON_KIND_NULL)
        r = (struct event_rejecter){0};
    int rc = rejecter_check(&r, err);
    if (rc)
        return rc;
    *ret = r;
    return 0;
}

static double log_odds(double p) {
    p = fmin(fmax(p, least_p), 1 - least_p);
    return log(p) - log1p(-p);
}

void rejecter_features(const float *p, int64_t n, double ret[REJECTER_FEATURES]) {
    double sum = 0, peak = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (double)p[i];
        peak = fmax(peak, (double)p[i]);
    }
    ret[0] = log_odds(sum / (double)n);
    ret[1] = log_odds(peak);
    ret[2] = log((double)n / RATE_HZ);
}

double rejecter_sum(const struct event_rejecter *r, const double features[REJECTER_FEATURES]) {
    double sum = r->bias;
    for (int i = 0; i < REJECTER_FEATURES; i++)
        sum += r->weights[i] * features[i];
    return sum;
}

/* ---- the fit ---- */

/* Events with standardised features, behind a constant 1. */
struct rows {
    double (*x)[N];
    const struct rejecter_event *events;
    int64_t n;
};

/* Gauss elimination of a symmetric positive definite a, which needs no pivots; b becomes the solution. */
static void solve(double a[N][N], double b[N]) {
    for (int k = 0; k < N; k++)
        for (int i = k + 1; i < N; i++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; j < N; j++)
                a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    for (int k = N - 1; k >= 0; k--) {
        for (int j = k + 1; j < N; j++)
            b[k] -= a[k][j] * b[j];
        b[k] /= a[k][k];
    }
}

static double product(const double *x, const double *w) {
    double sum = 0;
    for (int j = 0; j < N; j++)
        sum += x[j] * w[j];
    return sum;
}

static double loss_of(const struct rows *r, const double w[N], const double step[N], double length) {
    double at[N], loss = 0;
    for (int j = 0; j < N; j++) {
        at[j] = w[j] - length * step[j];
        loss += j ? at[j] * at[j] / 2 : 0;
    }
    for (int64_t i = 0; i < r->n; i++) {
        double z = product(r->x[i], at) * (r->events[i].seizure ? 1 : -1);
        loss += fmax(-z, 0) + log1p(exp(-fabs(z)));
    }
    return loss;
}

/* Newton's method; a step is halved until it does not raise the loss. Returns the largest change. */
static double newton_step(const struct rows *r, double w[N]) {
    double hessian[N][N] = {{tiny}}, step[N] = {0}, length = 1, most = 0;
    for (int j = 1; j < N; j++) {
        hessian[j][j] = 1;
        step[j] = w[j];
    }
    for (int64_t i = 0; i < r->n; i++) {
        const double *x = r->x[i];
        double q = 1 / (1 + exp(-product(x, w)));
        for (int j = 0; j < N; j++) {
            step[j] += (q - (r->events[i].seizure ? 1 : 0)) * x[j];
            for (int k = 0; k < N; k++)
                hessian[j][k] += q * (1 - q) * x[j] * x[k];
        }
    }
    solve(hessian, step);
    double before = loss_of(r, w, step, 0);
    while (length > tiny && loss_of(r, w, step, length) > before)
        length /= 2;
    for (int j = 0; j < N; j++) {
        w[j] -= length * step[j];
        most = fmax(most, fabs(step[j]));
    }
    return most;
}

/* Means and standard deviations of the features; a feature that is the same in all events has deviation 1, and weight 0. */
static void standardise(const struct rows *r, double mean[N], double deviation[N]) {
    for (int j = 1; j < N; j++) {
        mean[j] = deviation[j] = 0;
        for (int64_t i = 0; i < r->n; i++)
            mean[j] += r->events[i].features[j - 1] / (double)r->n;
        for (int64_t i = 0; i < r->n; i++)
            deviation[j] += pow(r->events[i].features[j - 1] - mean[j], 2) / (double)r->n;
        deviation[j] = deviation[j] > tiny ? sqrt(deviation[j]) : 1;
        for (int64_t i = 0; i < r->n; i++)
            r->x[i][j] = (r->events[i].features[j - 1] - mean[j]) / deviation[j];
    }
    for (int64_t i = 0; i < r->n; i++)
        r->x[i][0] = 1;
}

int rejecter_fit(const struct rejecter_event *events, int64_t n, struct event_rejecter *ret, struct err *err) {
    OWNED_MEMORY double(*x)[N] = calloc((size_t)n + 1, sizeof *x);
    struct rows rows = {x, events, n};
    double w[N] = {0}, mean[N], deviation[N];
    int64_t seizures = 0;
    if (!x)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld events", (long long)n);
    for (int64_t i = 0; i < n; i++)
        seizures += events[i].seizure;
    if (seizures < REJECTER_LEAST || n - seizures < REJECTER_LEAST)
        return err_set(err, ERR_PRECONDITION, "%lld events in seizures and %lld false ones; a fit takes at least %d of each",
                       (long long)seizures, (long long)(n - seizures), REJECTER_LEAST);
    standardise(&rows, mean, deviation);
    for (int i = 0; i < STEPS && newton_step(&rows, w) > tiny; i++)
        continue;
    ret->bias = w[0];
    for (int j = 1; j < N; j++) {
        ret->weights[j - 1] = w[j] / deviation[j];
        ret->bias -= ret->weights[j - 1] * mean[j];
    }
    return 0;
}
