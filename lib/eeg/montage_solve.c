/* The linear algebra behind montages: inverse of a set of differences, and spherical splines. */

#include "eeg/montage.h"

/* Solve A X = B in place by elimination with row pivoting; A (n, n), B (n, m). false when singular. */
static bool solve_linear(double *a, double *b, int n, int m) {
    for (int k = 0; k < n; k++) {
        int pivot = k;
        for (int i = k + 1; i < n; i++)
            if (fabs(a[i * n + k]) > fabs(a[pivot * n + k]))
                pivot = i;
        if (fabs(a[pivot * n + k]) < 1e-12)
            return false;
        for (int j = 0; pivot != k && j < n; j++) {
            double swap = a[k * n + j];
            a[k * n + j] = a[pivot * n + j];
            a[pivot * n + j] = swap;
        }
        for (int j = 0; pivot != k && j < m; j++) {
            double swap = b[k * m + j];
            b[k * m + j] = b[pivot * m + j];
            b[pivot * m + j] = swap;
        }
        for (int i = k + 1; i < n; i++) {
            double factor = a[i * n + k] / a[k * n + k];
            if (factor == 0)
                continue;
            for (int j = k; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
            for (int j = 0; j < m; j++)
                b[i * m + j] -= factor * b[k * m + j];
        }
    }
    for (int k = n - 1; k >= 0; k--)
        for (int j = 0; j < m; j++) {
            double sum = b[k * m + j];
            for (int i = k + 1; i < n; i++)
                sum -= a[k * n + i] * b[i * m + j];
            b[k * m + j] = sum / a[k * n + k];
        }
    return true;
}

/* part[i] = the smallest node connected to node i. */
static void connected_parts(const int *plus, const int *minus, int n_edges, int n_nodes, int *part) {
    for (int i = 0; i < n_nodes; i++)
        part[i] = i;
    for (bool changed = true; changed;) {
        changed = false;
        for (int e = 0; e < n_edges; e++) {
            int low = part[plus[e]] < part[minus[e]] ? part[plus[e]] : part[minus[e]];
            if (part[plus[e]] != low || part[minus[e]] != low) {
                part[plus[e]] = part[minus[e]] = low;
                changed = true;
            }
        }
    }
}

int montage_invert(const int *plus, const int *minus, int n_edges, int n_nodes, double *inverse, struct err *err) {
    size_t cells = (size_t)n_nodes * (size_t)n_nodes;
    double *gram = calloc(2 * cells, sizeof *gram), *projector = gram ? gram + cells : NULL;
    int *part = calloc((size_t)n_nodes, sizeof *part);
    int rc = 0;
    if (!gram || !part) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for the inverse of a montage of %d electrodes", n_nodes);
        goto done;
    }
    connected_parts(plus, minus, n_edges, n_nodes, part);
    for (int i = 0; i < n_nodes; i++) {
        int size = 0;
        for (int j = 0; j < n_nodes; j++)
            size += part[j] == part[i];
        for (int j = 0; j < n_nodes; j++)
            projector[i * n_nodes + j] = part[j] == part[i] ? 1.0 / size : 0.0;
    }
    memcpy(gram, projector, cells * sizeof *gram);
    for (int e = 0; e < n_edges; e++) {
        gram[plus[e] * n_nodes + plus[e]] += 1;
        gram[minus[e] * n_nodes + minus[e]] += 1;
        gram[plus[e] * n_nodes + minus[e]] -= 1;
        gram[minus[e] * n_nodes + plus[e]] -= 1;
    }
    /* J Dᵀ = 0 for every edge, so (L + J)⁻¹ Dᵀ already is the pseudo-inverse. */
    memset(inverse, 0, sizeof *inverse * (size_t)n_nodes * (size_t)n_edges);
    for (int e = 0; e < n_edges; e++) {
        inverse[plus[e] * n_edges + e] = 1;
        inverse[minus[e] * n_edges + e] = -1;
    }
    if (!solve_linear(gram, inverse, n_nodes, n_edges))
        rc = err_set(err, ERR_INTERNAL, "the inverse of a montage of %d electrodes and %d differences is singular", n_nodes,
                     n_edges);
done:
    free(gram);
    free(part);
    return rc;
}

/* The idealised 10-20 sphere: polar angle from Cz in degrees (negative to the left), azimuth from the right ear axis
 * towards the nose (turned by 180° on the left); circle of the temporal chain at 92°. */
static const struct position {
    const char *name;
    double polar, azimuth;
} positions[] = {
    {"Fp1", -92, -72}, {"F3", -60, -51}, {"C3", -46, 0}, {"P3", -60, 51}, {"F7", -92, -36}, {"T3", -92, 0}, {"T5", -92, 36},
    {"O1", -92, 72},   {"Fz", 46, 90},   {"Cz", 0, 0},   {"Pz", 46, -90}, {"Fp2", 92, 72},  {"F4", 60, 51}, {"C4", 46, 0},
    {"P4", 60, -51},   {"F8", 92, 36},   {"T4", 92, 0},  {"T6", 92, -36}, {"O2", 92, -72},
};

static bool unit_vector(const char *name, double v[3]) {
    const double degree = M_PI / 180;
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        const struct position *p = &positions[i];
        if (strcmp(p->name, name))
            continue;
        v[0] = sin(p->polar * degree) * cos(p->azimuth * degree);
        v[1] = sin(p->polar * degree) * sin(p->azimuth * degree);
        v[2] = cos(p->polar * degree);
        return true;
    }
    return false;
}

/* g(x) = 1/4π Σ (2n+1) / (n (n+1))⁴ Pₙ(x), the kernel of an order-4 spline on the sphere. */
static double spline_kernel(const double a[3], const double b[3]) {
    double x = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    x = x > 1 ? 1 : x < -1 ? -1 : x;
    double before = 1, now = x, sum = 0;
    for (int n = 1; n <= 50; n++) {
        double nn = (double)n * (n + 1);
        sum += (2 * n + 1) / (nn * nn * nn * nn) * now;
        double next = ((2 * n + 1) * x * now - n * before) / (n + 1);
        before = now;
        now = next;
    }
    return sum / (4 * M_PI);
}

/* The value at the target is [g 1] · A⁻¹ · [v; 0] with A = [G 1; 1ᵀ 0]; A is symmetric, so the weights solve A w = [g; 1]. */
int montage_spline(const char *target, const char *const *known, int n_known, double *weights, struct err *err) {
    if (n_known < 1 || n_known > MONTAGE_MAX_OUTPUTS)
        return err_set(err, ERR_INVALID, "cannot interpolate %s from %d electrodes; expected 1..%d", target, n_known,
                       MONTAGE_MAX_OUTPUTS);
    int n = n_known + 1, rc = 0;
    double(*v)[3] = calloc((size_t)n, sizeof *v), *a = calloc((size_t)n * (size_t)n + (size_t)n, sizeof *a);
    if (!v || !a) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for the interpolation of %s", target);
        goto done;
    }
    double *b = a + (size_t)n * (size_t)n;
    for (int i = 0; i < n; i++) {
        const char *name = i < n_known ? known[i] : target;
        if (!unit_vector(name, v[i])) {
            rc = err_set(err, ERR_INVALID,
                         "electrode %s has no known position for interpolation; expected one of the 19 of the 10-20 system", name);
            goto done;
        }
    }
    for (int i = 0; i < n_known; i++) {
        for (int j = 0; j < n_known; j++)
            a[i * n + j] = spline_kernel(v[i], v[j]);
        a[i * n + n_known] = a[n_known * n + i] = 1;
        b[i] = spline_kernel(v[i], v[n_known]);
    }
    b[n_known] = 1;
    /* The kernel is small (g(1) ≈ 0.015); scaling its rows and column keeps the pivots of comparable size. */
    for (int i = 0; i < n_known; i++) {
        for (int j = 0; j < n_known; j++)
            a[i * n + j] *= 64;
        b[i] *= 64;
    }
    if (!solve_linear(a, b, n, 1))
        rc = err_set(err, ERR_INVALID, "the electrodes given cannot interpolate %s: two of them coincide", target);
    else
        memcpy(weights, b, sizeof *weights * (size_t)n_known);
done:
    free(v);
    free(a);
    return rc;
}
