#include "geodesic/geodesic_exact.h"

#include "kernels/geodesic.h"

enum { MAX_NODES = GEODESIC_MAX_KNOTS * GEODESIC_MAX_ORDER, MAX_HIDDEN = 256 };

/* ---- coordinates ----------------------------------------------------------------------------------------------- */

static double scaled(double x, double low, double high) { return (2 * x - low - high) / (high - low); }
double geodesic_position(const struct spectra *s, double concentration) {
    return scaled(concentration, s->concentrations[0], s->concentrations[s->n - 1]);
}
double geodesic_wavelength(const struct spectra *s, double wavelength) {
    return scaled(wavelength, s->wavelengths[0], s->wavelengths[s->width - 1]);
}
int geodesic_members_count(geodesic_members members) { return __builtin_popcount(members); }

void geodesic_statistics(const struct spectra *s, geodesic_members members, double *ret_mean, double *ret_deviation) {
    double mean = 0, square = 0, count = (double)geodesic_members_count(members) * (double)s->width;
    for (int pass = 0; pass < 2; pass++)
        for (int k = 0; k < s->n; k++)
            for (int64_t i = 0; (members >> k & 1) && i < s->width; i++) {
                double a = s->absorbance[k * s->width + i];
                if (pass)
                    square += (a - mean) * (a - mean) / count;
                else
                    mean += a / count;
            }
    *ret_mean = mean;
    *ret_deviation = square > 0 ? sqrt(square) : 1;
}

/* ---- networks and paths at one wavelength ---------------------------------------------------------------------- */

static double network(struct mlp_shape n, const float *p, const double *x) {
    struct mlp_offsets o = mlp_offsets_of(n);
    double h1[MAX_HIDDEN], y = (double)p[o.b3];
    for (int i = 0; i < n.hidden1; i++) {
        double z = (double)p[o.b1 + i];
        for (int k = 0; k < n.in; k++)
            z += (double)p[o.w1 + i * n.in + k] * x[k];
        h1[i] = tanh(z);
    }
    for (int j = 0; j < n.hidden2; j++) {
        double z = (double)p[o.b2 + j];
        for (int i = 0; i < n.hidden1; i++)
            z += (double)p[o.w2 + j * n.hidden1 + i] * h1[i];
        y += (double)p[o.w3 + j] * tanh(z);
    }
    return y;
}

static double root(const struct geodesic_model *m, double position, double wavelength) {
    double z = network(GEODESIC_METRIC, m->params, (double[2]){position, wavelength});
    return sqrt((z > 0 ? z : 0) + log1p(exp(-fabs(z))) + m->floor);
}

/* Knots of a model, the asked concentration among them, and nodes between. */
struct line {
    int n, target, order;
    double knots[GEODESIC_MAX_KNOTS];
    int spectrum[GEODESIC_MAX_KNOTS]; /* of each knot: the table's, −1 for the asked one */
    double c[MAX_NODES], weight[MAX_NODES], w[MAX_NODES];
};

static void line_init(struct line *l, const struct geodesic_model *m, const struct spectra *s, double at) {
    struct geodesic_rule rule;
    *l = (struct line){.target = -1, .order = m->order};
    for (int k = 0; k <= s->n; k++) {
        bool member = k < s->n && (m->members >> k & 1);
        double c = k < s->n ? s->concentrations[k] : INFINITY;
        if (l->target < 0 && at <= c) {
            l->target = l->n;
            if (!(member && at == c)) {
                l->spectrum[l->n] = -1;
                l->knots[l->n++] = geodesic_position(s, at);
            }
        }
        if (member) {
            l->spectrum[l->n] = k;
            l->knots[l->n++] = geodesic_position(s, c);
        }
    }
    geodesic_rule_of(l->order, &rule);
    for (int k = 0; k + 1 < l->n; k++)
        for (int q = 0; q < l->order; q++) {
            l->c[k * l->order + q] = l->knots[k] + (l->knots[k + 1] - l->knots[k]) * rule.node[q];
            l->weight[k * l->order + q] = (l->knots[k + 1] - l->knots[k]) * rule.weight[q];
        }
}

/* The increment of A (flow), or the value of A (decoder), along the path from knot `from` to the target; normalised units. */
static double carry(const struct line *l, const struct geodesic_model *m, int from, double wavelength) {
    const float *head = m->params + mlp_count(GEODESIC_METRIC);
    struct mlp_shape shape = geodesic_head_shape(m->head);
    int first = (from < l->target ? from : l->target) * l->order, end = (from < l->target ? l->target : from) * l->order;
    double length = 0, mean = 0, narrow = INFINITY, value = 0, sign = from < l->target ? 1 : -1;
    for (int q = first; q < end; q++) {
        length += l->weight[q] * l->w[q];
        mean += l->weight[q] * l->w[q] * l->c[q];
        narrow = fmin(narrow, l->w[q]);
    }
    if (m->head == GEODESIC_DECODER)
        return network(shape, head,
                       (double[5]){l->knots[l->target], mean / length, fabs(l->knots[l->target] - l->knots[from]), length / narrow,
                                   wavelength});
    for (int q = first; q < end; q++)
        value += network(shape, head, (double[3]){l->c[q], sign * length / l->w[q], wavelength}) * l->weight[q] * l->w[q] / length;
    return value;
}

int geodesic_exact_predict(const struct geodesic_model *model, const struct spectra *s, double at, double *ret, struct err *err) {
    struct line *l = malloc(sizeof *l);
    double mean, deviation;
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a prediction");
    line_init(l, model, s, at);
    geodesic_statistics(s, model->members, &mean, &deviation);
    for (int64_t i = 0; i < s->width; i++) {
        double wavelength = geodesic_wavelength(s, s->wavelengths[i]);
        int member = 0;
        for (int q = 0; q < (l->n - 1) * l->order; q++)
            l->w[q] = root(model, l->c[q], wavelength);
        for (int k = 0; k < l->n; k++) {
            if (l->spectrum[k] < 0)
                continue;
            double own = s->absorbance[l->spectrum[k] * s->width + i];
            if (k != l->target) {
                double carried = carry(l, model, k, wavelength) * deviation;
                own = model->head == GEODESIC_FLOW ? own + carried : mean + carried;
            }
            ret[member++ * s->width + i] = own;
        }
    }
    free(l);
    return 0;
}

int geodesic_exact_metric(const struct geodesic_model *model, const struct spectra *s, const double *at, int n, double *ret,
                          struct err *err) {
    struct geodesic_rule rule;
    geodesic_rule_of(GEODESIC_MAX_ORDER, &rule);
    for (int64_t i = 0; i < s->width; i++) {
        double wavelength = geodesic_wavelength(s, s->wavelengths[i]), length = 0;
        for (int k = 0; k + 1 < s->n; k++)
            for (int q = 0; q < rule.order; q++) {
                double low = geodesic_position(s, s->concentrations[k]),
                       wide = geodesic_position(s, s->concentrations[k + 1]) - low;
                length += wide * rule.weight[q] * root(model, low + wide * rule.node[q], wavelength);
            }
        if (!(length > 0) || !isfinite(length))
            return err_set(err, ERR_INVALID, "the metric at %g nm is no finite number: the model's parameters are broken",
                           s->wavelengths[i]);
        for (int k = 0; k < n; k++)
            ret[k * s->width + i] = pow(root(model, geodesic_position(s, at[k]), wavelength) * 2 / length, 2);
    }
    return 0;
}
