/* Predictions of a trained model: spectra at a concentration, and its metric. */

#include "geodesic/geodesic_fit_state.h"
#include "geodesic/geodesic_params.h"
#include "kernels/geodesic.h"

/* Arrays of a question on the device. */
struct question {
    struct stream *s;
    geodesic_members asked; /* of the model */
    double at;
    float *params, *knots, *wavelengths, *spectra, *prediction;
    int32_t *rows;
    struct geodesic_pair *pairs;
    int n, n_pairs, members;        /* knots, pairs, members */
    int source[GEODESIC_MAX_KNOTS]; /* of each pair: which member */
};

static int put(struct stream *s, void *ret, const void *host, size_t bytes, struct err *err) {
    int rc;
    if ((rc = device_alloc(stream_device(s), bytes, (void **)ret, err)) ||
        (host && (rc = stream_to_device(s, *(void **)ret, host, bytes, err))))
        return rc;
    return stream_sync(s, err);
}

static void done(struct question *q) {
    struct device *dev = stream_device(q->s);
    void *all[] = {q->params, q->knots, q->wavelengths, q->spectra, q->prediction, q->rows, q->pairs};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(dev, all[i]);
}

/* Knots in ascending order, the target among them, and a pair from each member but the target itself. */
static void lay_out(struct question *q, const struct spectra *spectra, float *knots, float *host, struct geodesic_pair *pairs) {
    geodesic_members members = q->asked;
    double at = q->at;
    int64_t width = spectra->width;
    double mean, deviation;
    int target = -1, member = 0;
    geodesic_statistics(spectra, members, &mean, &deviation);
    for (int k = 0; k <= spectra->n; k++) {
        bool is_member = k < spectra->n && (members >> k & 1);
        double c = k < spectra->n ? spectra->concentrations[k] : INFINITY;
        if (target < 0 && at <= c) {
            target = q->n;
            if (!(is_member && at == c))
                knots[q->n++] = (float)geodesic_position(spectra, at);
        }
        if (!is_member)
            continue;
        if (!(at == c)) {
            q->source[q->n_pairs] = member;
            pairs[q->n_pairs++].from = q->n;
        }
        member++;
        for (int64_t i = 0; i < width; i++)
            host[q->n * width + i] = (float)((spectra->absorbance[k * width + i] - mean) / deviation);
        knots[q->n++] = (float)geodesic_position(spectra, c);
    }
    q->members = member;
    for (int i = 0; i < q->n_pairs; i++)
        pairs[i].to = target;
}

static int ask(struct question *q, const struct geodesic_model *model, const struct spectra *spectra, struct err *err) {
    size_t width = (size_t)spectra->width;
    float knots[GEODESIC_MAX_KNOTS] = {0};
    OWNED_MEMORY float *host = calloc(width * GEODESIC_MAX_KNOTS, sizeof *host);
    OWNED_MEMORY int32_t *rows = calloc(width, sizeof *rows);
    struct geodesic_pair pairs[GEODESIC_MAX_KNOTS];
    if (!host || !rows)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a prediction of %zu wavelengths", width);
    lay_out(q, spectra, knots, host, pairs);
    int rc;
    if ((rc = put(q->s, &q->params, model->params, (size_t)geodesic_params_count(model->head) * sizeof(float), err)) ||
        (rc = put(q->s, &q->knots, knots, (size_t)q->n * sizeof *knots, err)) ||
        (rc = put(q->s, &q->spectra, host, width * (size_t)q->n * sizeof *host, err)) ||
        (rc = put(q->s, &q->pairs, pairs, (size_t)q->n_pairs * sizeof *pairs, err)) ||
        (rc = put(q->s, &q->prediction, NULL, width * (size_t)q->n_pairs * sizeof(float), err)))
        return rc;
    for (size_t i = 0; i < width; i++) {
        rows[i] = (int32_t)i;
        host[i] = (float)geodesic_wavelength(spectra, spectra->wavelengths[i]);
    }
    if ((rc = put(q->s, &q->wavelengths, host, width * sizeof *host, err)))
        return rc;
    return put(q->s, &q->rows, rows, width * sizeof *rows, err);
}

/* The answers in absorbance; a member at the target itself answers with its own spectrum. */
static int answer(const struct question *q, const struct geodesic_model *model, const struct spectra *spectra, double *ret,
                  struct err *err) {
    int64_t width = spectra->width;
    OWNED_MEMORY float *host = malloc((size_t)(q->n_pairs * width) * sizeof *host);
    double mean, deviation;
    int member = 0;
    if (!host)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a prediction of %lld wavelengths", (long long)width);
    geodesic_statistics(spectra, model->members, &mean, &deviation);
    int rc;
    if ((rc = stream_to_host(q->s, host, q->prediction, (size_t)(q->n_pairs * width) * sizeof *host, err)) ||
        (rc = stream_sync(q->s, err)))
        return rc;
    for (int k = 0; k < spectra->n; k++)
        if (model->members >> k & 1)
            memcpy(ret + member++ * width, spectra->absorbance + k * width, (size_t)width * sizeof *ret);
    for (int p = 0; p < q->n_pairs; p++)
        for (int64_t i = 0; i < width; i++)
            ret[q->source[p] * width + i] = mean + deviation * (double)host[p * width + i];
    return 0;
}

int geodesic_predict(struct stream *s, const struct geodesic_model *model, const struct spectra *spectra, double at, double *ret,
                     struct err *err) {
    OWNED(done) struct question q = {.s = s, .asked = model->members, .at = at};
    int rc = ask(&q, model, spectra, err);
    struct geodesic_args a = {SAME_MEMBERS(*model, head, order),
                              .floor = (float)model->floor,
                              .params = tensor_2d(q.params, DTYPE_F32, 1, geodesic_params_count(model->head)),
                              .knots = tensor_2d(q.knots, DTYPE_F32, 1, q.n),
                              .wavelengths = tensor_1d(q.wavelengths, DTYPE_F32, spectra->width),
                              .spectra = tensor_3d(q.spectra, DTYPE_F32, 1, q.n, spectra->width),
                              .prediction = tensor_3d(q.prediction, DTYPE_F32, 1, q.n_pairs, spectra->width),
                              SAME_MEMBERS(q, rows, pairs),
                              .n_rows = spectra->width,
                              .n_pairs = q.n_pairs};
    if (rc)
        return rc;
    if ((rc = op_geodesic(s, &a, err)))
        return rc;
    return answer(&q, model, spectra, ret, err);
}

/* ---- the metric ------------------------------------------------------------------------------------------------ */

enum { METRIC_ROWS = 65536 };

/* g at `n` positions for the grid's wavelengths [first, first + count): ret (n, count). */
struct metric_part {
    const struct geodesic_model *model;
    const struct spectra *spectra;
    const struct geodesic_grid *grid;
    struct stream *s;
    float *params, *x, *z, *host;
    double nodes[GEODESIC_MAX_KNOTS * GEODESIC_MAX_ORDER], weights[GEODESIC_MAX_KNOTS * GEODESIC_MAX_ORDER];
    int n_nodes;
    double *g; /* rows of one part, and a length for each wavelength */
};

static int metric_at(const struct metric_part *m, const double *position, int n, int64_t first, int64_t count, double *ret,
                     struct err *err) {
    int64_t rows = n * count;
    for (int64_t r = 0; r < rows; r++) {
        m->host[2 * r] = (float)position[r / count];
        m->host[2 * r + 1] = (float)geodesic_wavelength(m->spectra, m->spectra->wavelengths[m->grid->rows[first + r % count]]);
    }
    struct mlp_args a = {.shape = GEODESIC_METRIC,
                         .params = tensor_2d(m->params, DTYPE_F32, 1, mlp_count(GEODESIC_METRIC)),
                         .x = tensor_3d(m->x, DTYPE_F32, 1, rows, 2),
                         .y = tensor_2d(m->z, DTYPE_F32, 1, rows)};
    int rc;
    if ((rc = stream_to_device(m->s, m->x, m->host, (size_t)rows * 2 * sizeof(float), err)) || (rc = op_mlp(m->s, &a, err)) ||
        (rc = stream_to_host(m->s, m->host, m->z, (size_t)rows * sizeof(float), err)) || (rc = stream_sync(m->s, err)))
        return rc;
    for (int64_t r = 0; r < rows; r++) {
        double z = (double)m->host[r];
        ret[r] = (z > 0 ? z : 0) + log1p(exp(-fabs(z))) + m->model->floor;
    }
    return 0;
}

/* The grid's wavelengths [first, first + count), scaled by (2/∫√g dc)². */
static int metric_some(const struct metric_part *m, const double *position, int n, int64_t first, int64_t count, double *ret,
                       struct err *err) {
    int rc = metric_at(m, m->nodes, m->n_nodes, first, count, m->g, err);
    if (rc)
        return rc;
    double *g = m->g, *length = m->g + (n > m->n_nodes ? n : m->n_nodes) * count;
    for (int64_t i = 0; i < count; i++) {
        length[i] = 0;
        for (int q = 0; q < m->n_nodes; q++)
            length[i] += m->weights[q] * sqrt(g[q * count + i]);
    }
    if ((rc = metric_at(m, position, n, first, count, g, err)))
        return rc;
    for (int64_t r = 0; r < n * count; r++)
        ret[r / count * m->grid->n_rows + first + r % count] = g[r] * pow(2 / length[r % count], 2);
    return 0;
}

static void metric_nodes(struct metric_part *m) {
    struct geodesic_rule rule;
    geodesic_rule_of(GEODESIC_MAX_ORDER, &rule);
    for (int k = 0; k + 1 < m->spectra->n; k++)
        for (int q = 0; q < rule.order; q++, m->n_nodes++) {
            double low = geodesic_position(m->spectra, m->spectra->concentrations[k]);
            double width = geodesic_position(m->spectra, m->spectra->concentrations[k + 1]) - low;
            m->nodes[m->n_nodes] = low + width * rule.node[q];
            m->weights[m->n_nodes] = width * rule.weight[q];
        }
}

static void metric_done(struct metric_part *m) {
    device_free(stream_device(m->s), m->params);
    device_free(stream_device(m->s), m->x);
    device_free(stream_device(m->s), m->z);
    FREE_MEMBERS(*m, host, g);
}

int geodesic_metric(struct stream *s, const struct geodesic_model *model, const struct spectra *spectra,
                    const struct geodesic_grid *grid, double *ret, struct err *err) {
    OWNED(metric_done) struct metric_part m = {.model = model, .spectra = spectra, .grid = grid, .s = s};
    int rc;
    metric_nodes(&m);
    int n = grid->n, most = n > m.n_nodes ? n : m.n_nodes;
    int64_t count = most > 0 && METRIC_ROWS / most > 1 ? METRIC_ROWS / most : 1;
    count = count < grid->n_rows ? count : grid->n_rows;
    size_t rows = (size_t)(most * count);
    OWNED_MEMORY double *position = malloc((size_t)n * sizeof *position);
    m.host = malloc(2 * rows * sizeof *m.host);
    m.g = malloc((rows + (size_t)count) * sizeof *m.g);
    if (!m.host || !m.g || !position)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a metric at %d concentrations", n);
    for (int i = 0; i < n; i++)
        position[i] = geodesic_position(spectra, grid->concentrations[i]);
    if ((rc = put(s, &m.params, model->params, (size_t)mlp_count(GEODESIC_METRIC) * sizeof(float), err)) ||
        (rc = put(s, &m.x, NULL, 2 * rows * sizeof(float), err)) || (rc = put(s, &m.z, NULL, rows * sizeof(float), err)))
        return rc;
    for (int64_t first = 0; first < grid->n_rows; first += count)
        if ((rc = metric_some(&m, position, n, first, grid->n_rows - first < count ? grid->n_rows - first : count, ret, err)))
            return rc;
    return 0;
}
