#include "geodesic/interpolate.h"

enum { MAX = INTERPOLATE_MAX_POINTS };

const char *interpolate_name(enum interpolate_rule rule) {
    static const char *const names[] = {
#define INTERPOLATE_NAME(name, text) text,
        INTERPOLATE_MAP(INTERPOLATE_NAME)
#undef INTERPOLATE_NAME
    };
    return names[rule];
}

/* Solves a·x = b (n equations, in place) by elimination with the largest pivot. */
static void solve(int n, double a[MAX][MAX], double *b) {
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[i][k]) > fabs(a[pivot][k]))
                pivot = i;
        for (int j = k; j < n; j++) {
            double t = a[k][j];
            a[k][j] = a[pivot][j];
            a[pivot][j] = t;
        }
        double t = b[k];
        b[k] = b[pivot];
        b[pivot] = t;
        for (int i = k + 1; i < n; i++) {
            double factor = a[i][k] / a[k][k];
            for (int j = k; j < n; j++)
                a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int j = i + 1; j < n; j++)
            b[i] -= a[i][j] * b[j];
        b[i] /= a[i][i];
    }
}

/* The piece that holds or continues to `at`. */
static int piece(const struct interpolate *a) {
    int k = 0;
    while (k + 2 < a->n && a->at >= a->x[k + 1])
        k++;
    return k;
}

/* ---- rules that weigh the points: ret = Σ weight·y ------------------------------------------------------------- */

static void linear(const struct interpolate *a, double at, double *weight) {
    int k = piece(a);
    double t = (at - a->x[k]) / (a->x[k + 1] - a->x[k]);
    weight[k] = 1 - t;
    weight[k + 1] = t;
}

static void nearest(const struct interpolate *a, double *weight) {
    int best = 0;
    for (int i = 1; i < a->n; i++)
        if (fabs(a->x[i] - a->at) < fabs(a->x[best] - a->at))
            best = i;
    weight[best] = 1;
}

/* k*ᵀ·(K + noise·I)⁻¹·(y − mean) + mean. */
static void gaussian(const struct interpolate *a, double *weight) {
    double k[MAX][MAX], w[MAX], sum = 0;
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < a->n; j++)
            k[i][j] = exp(-pow((a->x[i] - a->x[j]) / a->length, 2) / 2) + (i == j ? a->noise : 0);
        w[i] = exp(-pow((a->x[i] - a->at) / a->length, 2) / 2);
    }
    solve(a->n, k, w);
    for (int i = 0; i < a->n; i++)
        sum += w[i];
    for (int i = 0; i < a->n; i++)
        weight[i] = w[i] + (1 - sum) / a->n;
}

/* ---- a Gaussian process whose length and noise the curves decide -------------------------------------------------
 *
 * Lengths of half to four mean distances of the points and noises of .001 to 1 of the signal's variance are equally likely before
 * the curves are seen. Each pair predicts, with the weight of its evidence: the likelihood of the curves with mean and scale
 * integrated out. Curves at neighbouring wavelengths say the same, so they count as many as are independent: (Σλ)²/Σλ² over the
 * eigenvalues of their scatter matrix. A single best pair would be decided by few points and be far too sure of itself. */

enum { LENGTHS = 13, NOISES = 13 };

/* Sums of products of the curves about their mean, and the number of independent curves. */
struct curve_scatter {
    double of[MAX][MAX], curves;
};

static void scatter_of(const struct interpolate *a, struct curve_scatter *ret) {
    double trace = 0, square = 0;
    memset(ret, 0, sizeof *ret);
    for (int64_t c = 0; c < a->width; c++) {
        double d[MAX], mean = 0;
        for (int i = 0; i < a->n; i++)
            mean += a->y[i * a->width + c] / a->n;
        for (int i = 0; i < a->n; i++)
            d[i] = a->y[i * a->width + c] - mean;
        for (int i = 0; i < a->n; i++)
            for (int j = 0; j < a->n; j++)
                ret->of[i][j] += d[i] * d[j];
    }
    for (int i = 0; i < a->n; i++) {
        trace += ret->of[i][i];
        for (int j = 0; j < a->n; j++)
            square += ret->of[i][j] * ret->of[i][j];
    }
    ret->curves = square > 0 ? trace * trace / square : 1;
}

/* The inverse of a positive definite matrix, in place, and the logarithm of its determinant: sweeps, pivots in order. */
static double invert(int n, double k[MAX][MAX]) {
    double log_determinant = 0;
    for (int p = 0; p < n; p++) {
        double pivot = k[p][p];
        log_determinant += log(pivot);
        k[p][p] = 1;
        for (int j = 0; j < n; j++)
            k[p][j] /= pivot;
        for (int i = 0; i < n; i++) {
            double factor = k[i][p];
            if (i == p)
                continue;
            k[i][p] = 0;
            for (int j = 0; j < n; j++)
                k[i][j] -= factor * k[p][j];
        }
    }
    return log_determinant;
}

/* The logarithm of the evidence of one pair for all curves, and its weights of the points. */
static double process(const struct interpolate *a, const struct curve_scatter *s, double length, double noise, double *weight) {
    double k[MAX][MAX], row[MAX], near[MAX], sum = 0, misfit = 0, known = 0;
    int n = a->n;
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++)
            k[i][j] = exp(-pow((a->x[i] - a->x[j]) / length, 2) / 2) + (i == j ? noise : 0);
        near[i] = exp(-pow((a->x[i] - a->at) / length, 2) / 2);
    }
    double log_determinant = invert(n, k);
    for (int i = 0; i < n; i++) {
        row[i] = weight[i] = 0;
        for (int j = 0; j < n; j++) {
            row[i] += k[i][j];
            weight[i] += k[i][j] * near[j];
        }
        sum += row[i];
        known += weight[i];
    }
    for (int i = 0; i < n; i++) {
        weight[i] += (1 - known) * row[i] / sum;
        for (int j = 0; j < n; j++)
            misfit += (k[i][j] - row[i] * row[j] / sum) * s->of[i][j];
    }
    return -s->curves * (log_determinant + log(sum) + (n - 1) * log(fmax(misfit, DBL_MIN))) / 2;
}

static void evidence(const struct interpolate *a, double *weight) {
    double gap = (a->x[a->n - 1] - a->x[0]) / (a->n - 1), best = -INFINITY, total = 0, own[MAX];
    struct curve_scatter scatter;
    scatter_of(a, &scatter);
    for (int l = 0; l < LENGTHS; l++)
        for (int e = 0; e < NOISES; e++) {
            double length = gap / 2 * pow(8, (double)l / (LENGTHS - 1)), noise = pow(10, 3.0 * e / (NOISES - 1) - 3);
            double found = process(a, &scatter, length, noise, own);
            double shrink = found > best ? exp(best - found) : 1, share = found > best ? 1 : exp(found - best);
            best = fmax(best, found);
            total = total * shrink + share;
            for (int i = 0; i < a->n; i++)
                weight[i] = weight[i] * shrink + share * own[i];
        }
    for (int i = 0; i < a->n; i++)
        weight[i] /= total;
}

/* Second derivatives m of the spline through unit data at each point in turn give the weights: in piece k, with h its width, A, B
 * the distances to its ends over h, S = A·y₀ + B·y₁ + ((A³ − A)·m₀ + (B³ − B)·m₁)·h²/6. */
static void spline(const struct interpolate *a, bool natural, double *weight) {
    int n = a->n, k = piece(a);
    double h[MAX] = {0}, matrix[MAX][MAX], m[MAX];
    for (int i = 0; i + 1 < n; i++)
        h[i] = a->x[i + 1] - a->x[i];
    double up = (a->at - a->x[k]) / h[k], down = 1 - up;
    for (int unit = 0; unit < n; unit++) {
        memset(matrix, 0, sizeof matrix);
        memset(m, 0, sizeof m);
        for (int i = 1; i + 1 < n; i++) {
            double y[3] = {unit == i - 1, unit == i, unit == i + 1};
            matrix[i][i - 1] = h[i - 1];
            matrix[i][i] = 2 * (h[i - 1] + h[i]);
            matrix[i][i + 1] = h[i];
            m[i] = 6 * ((y[2] - y[1]) / h[i] - (y[1] - y[0]) / h[i - 1]);
        }
        matrix[0][0] = matrix[n - 1][n - 1] = 1;
        if (!natural && n > 3) {
            matrix[0][0] = h[1];
            matrix[0][1] = -(h[0] + h[1]);
            matrix[0][2] = h[0];
            matrix[n - 1][n - 1] = h[n - 3];
            matrix[n - 1][n - 2] = -(h[n - 2] + h[n - 3]);
            matrix[n - 1][n - 3] = h[n - 2];
        } else if (!natural && n == 3) { /* one parabola */
            matrix[0][1] = matrix[n - 1][n - 2] = -1;
        }
        solve(n, matrix, m);
        weight[unit] = (unit == k ? down : 0) + (unit == k + 1 ? up : 0) +
                       ((pow(down, 3) - down) * m[k] + (pow(up, 3) - up) * m[k + 1]) * h[k] * h[k] / 6;
    }
}

/* ---- the monotone cubic ---------------------------------------------------------------------------------------- */

/* Slope at an end from the two nearest pieces, kept to their sign and to three times the first (Fritsch and Carlson). */
static double end_slope(double h0, double h1, double d0, double d1) {
    double slope = ((2 * h0 + h1) * d0 - h0 * d1) / (h0 + h1);
    if (slope * d0 <= 0)
        return 0;
    return d0 * d1 <= 0 && fabs(slope) > 3 * fabs(d0) ? 3 * d0 : slope;
}

static double pchip(const struct interpolate *a, int64_t column) {
    int n = a->n, k = piece(a);
    double h[MAX] = {0}, d[MAX] = {0}, slope[MAX];
    for (int i = 0; i + 1 < n; i++) {
        h[i] = a->x[i + 1] - a->x[i];
        d[i] = (a->y[(i + 1) * a->width + column] - a->y[i * a->width + column]) / h[i];
    }
    slope[0] = slope[n - 1] = d[0];
    if (n > 2) {
        slope[0] = end_slope(h[0], h[1], d[0], d[1]);
        slope[n - 1] = end_slope(h[n - 2], h[n - 3], d[n - 2], d[n - 3]);
    }
    for (int i = 1; i + 1 < n; i++) {
        double w1 = 2 * h[i] + h[i - 1], w2 = h[i] + 2 * h[i - 1];
        slope[i] = d[i - 1] * d[i] > 0 ? (w1 + w2) / (w1 / d[i - 1] + w2 / d[i]) : 0;
    }
    double t = (a->at - a->x[k]) / h[k], y0 = a->y[k * a->width + column], y1 = a->y[(k + 1) * a->width + column];
    return y0 * (1 + 2 * t) * (1 - t) * (1 - t) + h[k] * slope[k] * t * (1 - t) * (1 - t) + y1 * t * t * (3 - 2 * t) +
           h[k] * slope[k + 1] * t * t * (t - 1);
}

int interpolate(const struct interpolate *a, double *ret, struct err *err) {
    double weight[MAX] = {0};
    if (a->n < 2 || a->n > MAX)
        return err_set(err, ERR_RANGE, "interpolation through %d points; expected 2 to %d", a->n, MAX);
    switch (a->rule) {
    case INTERPOLATE_PCHIP:
        for (int64_t i = 0; i < a->width; i++)
            ret[i] = pchip(a, i);
        return 0;
    case INTERPOLATE_LINEAR_CLAMPED:
        linear(a, fmin(fmax(a->at, a->x[0]), a->x[a->n - 1]), weight);
        break;
    case INTERPOLATE_LINEAR:
        linear(a, a->at, weight);
        break;
    case INTERPOLATE_NATURAL:
    case INTERPOLATE_NOT_A_KNOT:
        spline(a, a->rule == INTERPOLATE_NATURAL, weight);
        break;
    case INTERPOLATE_NEAREST:
        nearest(a, weight);
        break;
    case INTERPOLATE_GP_RBF:
        gaussian(a, weight);
        break;
    case INTERPOLATE_GP_EVIDENCE:
        evidence(a, weight);
        break;
    default:
        for (int i = 0; i < a->n; i++)
            weight[i] = 1.0 / a->n;
    }
    for (int64_t i = 0; i < a->width; i++) {
        ret[i] = 0;
        for (int k = 0; k < a->n; k++)
            ret[i] += weight[k] * a->y[k * a->width + i];
    }
    return 0;
}
