/* How many nodes the quadrature takes: as few in a cell as give the lengths that 8 nodes give. */

#include "geodesic/geodesic_fit_state.h"
#include "kernels/geodesic.h"

/* Rows of a group: wavelength by wavelength, cell by cell, the nodes of all rules. */
static int64_t rows_of(int n) {
    int64_t nodes = 0;
    for (int i = 0; i < GEODESIC_RULES; i++)
        nodes += geodesic_orders[i];
    return GEODESIC_FIT_CHECKS * (n - 1) * nodes;
}

static void fill_rows(const struct geodesic_fit *f, const struct fit_run *run, const float *knots, float *x) {
    struct geodesic_rule rule;
    for (int check = 0; check < GEODESIC_FIT_CHECKS; check++) {
        int64_t at = check * (f->spectra->width - 1) / (GEODESIC_FIT_CHECKS - 1);
        double wavelength = geodesic_wavelength(f->spectra, f->spectra->wavelengths[at]);
        for (int k = 0; k + 1 < run->n; k++)
            for (int i = 0; i < GEODESIC_RULES; i++) {
                geodesic_rule_of(geodesic_orders[i], &rule);
                for (int q = 0; q < rule.order; q++) {
                    *x++ = (float)((double)knots[k] + ((double)knots[k + 1] - (double)knots[k]) * rule.node[q]);
                    *x++ = (float)wavelength;
                }
            }
    }
}

int fit_orders_new(struct geodesic_fit *f, struct fit_run *run, struct err *err) {
    struct device *dev = stream_device(f->stream);
    int64_t groups = run->end - run->first;
    float knots[GEODESIC_MAX_KNOTS];
    run->check_rows = rows_of(run->n);
    size_t bytes = (size_t)(groups * run->check_rows) * sizeof(float);
    int rc;
    if (!(run->check_host = malloc(2 * bytes)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the quadrature's checks");
    if ((rc = device_alloc(dev, 2 * bytes, (void **)&run->check_x, err)) ||
        (rc = device_alloc(dev, bytes, (void **)&run->check_z, err)))
        return rc;
    for (int64_t g = 0; g < groups; g++) {
        if ((rc = stream_to_host(f->stream, knots, run->knots + g * run->n, (size_t)run->n * sizeof *knots, err)) ||
            (rc = stream_sync(f->stream, err)))
            return rc;
        fill_rows(f, run, knots, run->check_host + g * run->check_rows * 2);
    }
    if ((rc = stream_to_device(f->stream, run->check_x, run->check_host, 2 * bytes, err)))
        return rc;
    return stream_sync(f->stream, err);
}

static double root(double z, double floor) { return sqrt((z > 0 ? z : 0) + log1p(exp(-fabs(z))) + floor); }

/* The first rule, not below `least`, whose lengths of all cells agree with the last rule's, for one group's values. */
static int rule_for(const struct geodesic_fit *f, const struct fit_run *run, const float *z, int least) {
    const int last = GEODESIC_RULES - 1;
    struct geodesic_rule rule[GEODESIC_RULES];
    for (int i = 0; i < GEODESIC_RULES; i++)
        geodesic_rule_of(geodesic_orders[i], &rule[i]);
    for (int64_t cell = 0; cell < (int64_t)GEODESIC_FIT_CHECKS * (run->n - 1); cell++) {
        double length[GEODESIC_RULES] = {0};
        for (int i = 0; i < GEODESIC_RULES; i++)
            for (int q = 0; q < rule[i].order; q++)
                length[i] += rule[i].weight[q] * root((double)*z++, f->config.floor);
        while (least < last && !(fabs(length[least] - length[last]) <= FIT_LENGTH_STEP * length[last]))
            least++;
    }
    return least;
}

static int rule_of(int order) {
    int rule = 0;
    while (geodesic_orders[rule] != order)
        rule++;
    return rule;
}

int fit_choose_orders(struct geodesic_fit *f, struct err *err) {
    int rc;
    for (int r = 0; r < f->n_runs; r++) {
        struct fit_run *run = &f->runs[r];
        int64_t groups = run->end - run->first, rows = run->check_rows, settled = 0;
        for (int g = run->first; g < run->end; g++)
            settled += f->orders[g] == GEODESIC_MAX_ORDER;
        if (settled == groups)
            continue;
        struct mlp_args a = {.shape = GEODESIC_METRIC,
                             .params = tensor_2d(f->params + run->first * f->count, DTYPE_F32, groups, mlp_count(GEODESIC_METRIC)),
                             .x = tensor_3d(run->check_x, DTYPE_F32, groups, rows, 2),
                             .y = tensor_2d(run->check_z, DTYPE_F32, groups, rows)};
        a.params.ld = f->count;
        if ((rc = op_mlp(f->stream, &a, err)) ||
            (rc = stream_to_host(f->stream, run->check_host, run->check_z, (size_t)(groups * rows) * sizeof(float), err)) ||
            (rc = stream_sync(f->stream, err)))
            return rc;
        for (int64_t g = 0; g < groups; g++) {
            int32_t *order = &f->orders[run->first + g];
            *order = geodesic_orders[rule_for(f, run, run->check_host + g * rows, rule_of(*order))];
        }
    }
    return 0;
}
