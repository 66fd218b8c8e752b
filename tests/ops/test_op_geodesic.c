/* The ops mlp, mlp_backward and geodesic against networks and paths in double (geodesic_fixture.h), for every instruction set there
 * is. BRR_TEST_DEVICE names another device than the CPU. */

#include "base/rng.h"
#include "kernels/geodesic.h"
#include "unit/cmocka_all.h"
#include "unit/geodesic_fixture.h"

enum {
    GROUPS = 2,
    MAX_ROWS = 300,
    WAVELENGTHS = 37,
    MAX_KNOTS = 9,
    MAX_PAIRS = MAX_KNOTS * (MAX_KNOTS - 1),
    PARAMS = 33665 + 8833
};

static struct err err;
static struct device *device;
static struct stream *stream;

static void ok(int rc) {
    if (rc)
        fail_msg("%s", err.message);
}
static const char *device_name(void) { return getenv("BRR_TEST_DEVICE") ? getenv("BRR_TEST_DEVICE") : "cpu"; }

static void *put(const void *host, size_t bytes) {
    void *data = NULL;
    ok(device_alloc(device, bytes, &data, &err));
    if (host)
        ok(stream_to_device(stream, data, host, bytes, &err));
    return data;
}
static void get(void *host, void *data, size_t bytes) {
    ok(stream_to_host(stream, host, data, bytes, &err));
    ok(stream_sync(stream, &err));
}

/* Largest |got − want| over the largest |want|. */
static double distance(const float *got, const double *want, int64_t n) {
    double worst = 0, size = 1e-30;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(got[i]))
            return INFINITY;
        worst = fmax(worst, fabs((double)got[i] - want[i]));
        size = fmax(size, fabs(want[i]));
    }
    return worst / size;
}
static const char *doing = ""; /* for messages */
static void near(const char *what, const float *got, const double *want, int64_t n, double tolerance) {
    double d = distance(got, want, n);
    if (!(d <= tolerance))
        fail_msg("%s, %s: differs by %g of its largest, more than %g", doing, what, d, tolerance);
}

static void draw(float *p, double *exact, struct mlp_shape n, struct rng *rng) {
    struct mlp_offsets o = mlp_offsets_of(n);
    for (int64_t i = 0; i < mlp_count(n); i++) {
        double fan = i < o.w2 ? n.in + n.hidden1 : i < o.w3 ? n.hidden1 + n.hidden2 : n.hidden2 + 1;
        exact[i] = p[i] = (float)(1.2 * sqrt(6 / fan) * (2 * rng_uniform(rng) - 1));
    }
}

/* ---- mlp ------------------------------------------------------------------------------------------------------- */

static struct {
    float params[GROUPS][PARAMS], grads[GROUPS][PARAMS], x[GROUPS][MAX_ROWS][MLP_MAX_INPUTS], y[GROUPS * MAX_ROWS],
        t[GROUPS * MAX_ROWS];
    float dx[GROUPS * MAX_ROWS * MLP_MAX_INPUTS];
    double exact[GROUPS][PARAMS], dexact[GROUPS][PARAMS], want[GROUPS * MAX_ROWS], wt[GROUPS * MAX_ROWS];
    double wdx[GROUPS * MAX_ROWS * MLP_MAX_INPUTS];
} net;

static void check_mlp(struct mlp_shape shape, int rows, bool tangent) {
    struct rng rng;
    int64_t count = mlp_count(shape), n = GROUPS * rows, in = shape.in;
    float *x = &net.x[0][0][0], dy[GROUPS * MAX_ROWS], dt[GROUPS * MAX_ROWS];
    char text[80];
    snprintf(text, sizeof text, "%d-%d-%d, %d rows%s", shape.in, shape.hidden1, shape.hidden2, rows, tangent ? ", tangent" : "");
    doing = text;
    rng_init(&rng, 5, 1, (uint32_t)rows);
    memset(net.dexact, 0, sizeof net.dexact);
    memset(net.wdx, 0, sizeof net.wdx);
    for (int g = 0; g < GROUPS; g++)
        draw(net.params[g], net.exact[g], shape, &rng);
    for (int64_t i = 0; i < n * in; i++)
        x[i] = (float)(2 * rng_uniform(&rng) - 1);
    for (int64_t i = 0; i < n; i++) {
        double at[MLP_MAX_INPUTS];
        dy[i] = (float)rng_normal(&rng);
        dt[i] = tangent ? (float)rng_normal(&rng) : 0;
        for (int k = 0; k < in; k++)
            at[k] = (double)x[i * in + k];
        struct exact_mlp e = {shape, net.exact[i / rows], net.dexact[i / rows], net.wdx + i * in, (double)dy[i], (double)dt[i]};
        net.want[i] = exact_mlp(&e, at, &net.wt[i]);
    }
    for (int g = 0; g < GROUPS; g++)
        for (int64_t i = 0; i < count; i++) { /* gradients are added to what is there */
            net.grads[g][i] = (float)g + 1;
            net.dexact[g][i] += g + 1;
        }
    void *params = put(net.params, sizeof net.params), *grads = put(net.grads, sizeof net.grads),
         *in_x = put(x, (size_t)(n * in) * 4);
    void *y = put(NULL, sizeof net.y), *t = put(NULL, sizeof net.t), *ddy = put(dy, sizeof dy), *ddt = put(dt, sizeof dt);
    void *dx = put(NULL, sizeof net.dx);
    struct tensor p = tensor_2d(params, DTYPE_F32, GROUPS, count), dp = tensor_2d(grads, DTYPE_F32, GROUPS, count);
    p.ld = dp.ld = PARAMS;
    struct mlp_args a = {
        .shape = shape, .params = p, .x = tensor_3d(in_x, DTYPE_F32, GROUPS, rows, in), .y = tensor_2d(y, DTYPE_F32, GROUPS, rows)};
    struct mlp_backward_args b = {.shape = shape, .params = p, .x = a.x, .dparams = dp};
    b.dy = tensor_2d(ddy, DTYPE_F32, GROUPS, rows);
    b.dx = tensor_3d(dx, DTYPE_F32, GROUPS, rows, in);
    if (tangent) {
        a.tangent = tensor_2d(t, DTYPE_F32, GROUPS, rows);
        b.dtangent = tensor_2d(ddt, DTYPE_F32, GROUPS, rows);
    }
    ok(op_mlp(stream, &a, &err));
    ok(op_mlp_backward(stream, &b, &err));
    get(net.y, y, sizeof net.y);
    get(net.t, t, sizeof net.t);
    get(net.dx, dx, sizeof net.dx);
    get(net.grads, grads, sizeof net.grads);
    near("y", net.y, net.want, n, 3e-6);
    if (tangent)
        near("the tangent", net.t, net.wt, n, 3e-6);
    near("dx", net.dx, net.wdx, n * in, 1e-5);
    for (int g = 0; g < GROUPS; g++)
        near("dparams", net.grads[g], net.dexact[g], count, 1e-5);
    void *all[] = {params, grads, in_x, y, t, ddy, ddt, dx};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(device, all[i]);
    doing = "";
}

/* An emulated device is a thousand times slower: fewer rows there. */
static bool is_cpu(void) { return !strcmp(device_name(), "cpu"); }

static void networks_their_tangents_and_gradients_are_those_in_double(void **state) {
    (void)state;
    const struct mlp_shape shapes[] = {{2, 128, 256}, {3, 64, 128}, {5, 64, 128}, {1, 64, 128}, {8, 128, 256}};
    const int rows[] = {1, 2, 37, 130, MAX_ROWS};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t r = i; r < sizeof rows / sizeof *rows; r += 2)
            for (int tangent = 0; tangent < 2 && (is_cpu() || rows[r] < 100); tangent++)
                check_mlp(shapes[i], rows[r], tangent);
}

/* ---- geodesic -------------------------------------------------------------------------------------------------- */

static struct {
    float params[GROUPS][PARAMS], grads[GROUPS][PARAMS], knots[GROUPS][MAX_KNOTS], spectra[GROUPS * MAX_KNOTS * WAVELENGTHS];
    float wavelengths[WAVELENGTHS], prediction[GROUPS * MAX_PAIRS * WAVELENGTHS];
    double exact[GROUPS][PARAMS], dexact[GROUPS][PARAMS], want[GROUPS * MAX_PAIRS * WAVELENGTHS];
    double loss[GROUPS][2], want_loss[GROUPS][2];
    int32_t rows[WAVELENGTHS];
    struct geodesic_pair pairs[MAX_PAIRS];
} q;

struct scene {
    enum geodesic_head head;
    int knots, order, rows;
    double smoothness;
};
static bool bf16x3; /* how run_scene multiplies */

/* One path in double over the knots' own cells: knots between a and b as in the op. */
struct exact_path {
    int n;
    double c[256], weight[256], w[256], slope[256], dw[256];
};

static double exact_w(const double *metric, double c, double wavelength, double *slope) {
    struct exact_mlp e = {.shape = GEODESIC_METRIC, .params = metric};
    double z = exact_mlp(&e, (double[2]){c, wavelength}, NULL), w = sqrt(exact_softplus(z) + 0.1);
    *slope = exact_sigmoid(z) / (2 * w);
    return w;
}

/* Predictions, losses and gradients of one group and wavelength by plain loops. */
static void exact_wavelength(const struct scene *s, int g, int at, int n_pairs) {
    struct geodesic_rule rule;
    static struct exact_path x;
    int row = q.rows[at], metric_count = (int)mlp_count(GEODESIC_METRIC);
    double lambda = (double)q.wavelengths[row], *head = q.exact[g] + metric_count, *dhead = q.dexact[g] + metric_count;
    double scale = 2.0 / (n_pairs * s->rows);
    geodesic_rule_of(s->order, &rule);
    memset(&x, 0, sizeof x);
    for (int k = 0; k + 1 < s->knots; k++)
        for (int i = 0; i < s->order; i++, x.n++) {
            double low = (double)q.knots[g][k], width = (double)q.knots[g][k + 1] - low;
            x.c[x.n] = low + width * rule.node[i];
            x.weight[x.n] = width * rule.weight[i];
            x.w[x.n] = exact_w(q.exact[g], x.c[x.n], lambda, &x.slope[x.n]);
        }
    for (int m = 0; m < n_pairs; m++) {
        int from = q.pairs[m].from, to = q.pairs[m].to, first = (from < to ? from : to) * s->order;
        int end = (from < to ? to : from) * s->order, least = first;
        double length = 0, mean = 0, sign = from < to ? 1 : -1, dlength = 0, value = 0;
        for (int i = first; i < end; i++) {
            length += x.weight[i] * x.w[i];
            mean += x.weight[i] * x.w[i] * x.c[i];
            least = x.w[i] < x.w[least] ? i : least;
        }
        mean /= length;
        struct exact_mlp e = {.shape = geodesic_head_shape(s->head), .params = head};
        double in[5] = {(double)q.knots[g][to], mean, fabs((double)q.knots[g][to] - (double)q.knots[g][from]), length / x.w[least],
                        lambda};
        for (int i = first; s->head == GEODESIC_FLOW && i < end; i++)
            value += exact_mlp(&e, (double[3]){x.c[i], sign * length / x.w[i], lambda}, NULL) * x.weight[i] * x.w[i] / length;
        value = s->head == GEODESIC_FLOW ? value + (double)q.spectra[(g * s->knots + from) * WAVELENGTHS + row]
                                         : exact_mlp(&e, in, NULL);
        double difference = value - (double)q.spectra[(g * s->knots + to) * WAVELENGTHS + row];
        q.want[(g * n_pairs + m) * s->rows + at] = value;
        q.want_loss[g][0] += difference * difference;
        e.dparams = dhead;
        for (int i = first; s->head == GEODESIC_FLOW && i < end; i++) {
            double v = sign * length / x.w[i], dx[3] = {0};
            e.dx = dx;
            e.dy = difference * scale * x.weight[i] * x.w[i] / length;
            double f = exact_mlp(&e, (double[3]){x.c[i], v, lambda}, NULL), r = e.dy * f - v * dx[1];
            x.dw[i] += r / x.w[i];
            dlength -= r / length;
        }
        if (s->head == GEODESIC_DECODER) {
            double dx[5] = {0};
            e.dx = dx;
            e.dy = difference * scale;
            exact_mlp(&e, in, NULL);
            for (int i = first; i < end; i++)
                x.dw[i] += dx[1] * x.weight[i] * (x.c[i] - mean) / length;
            x.dw[least] -= dx[3] * length / (x.w[least] * x.w[least]);
            dlength = dx[3] / x.w[least];
        }
        for (int i = first; i < end; i++)
            x.dw[i] += dlength * x.weight[i];
    }
    for (int i = 1; i + 1 < x.n; i++) {
        double up = x.c[i + 1] - x.c[i], down = x.c[i] - x.c[i - 1];
        double d = (log(x.w[i + 1] / x.w[i]) / up - log(x.w[i] / x.w[i - 1]) / down) * 2 / (up + down);
        double r = 2 * d * s->smoothness / ((x.n - 2) * s->rows) * 2 / (up + down);
        q.want_loss[g][1] += d * d;
        x.dw[i + 1] += r / up / x.w[i + 1];
        x.dw[i] -= r * (1 / up + 1 / down) / x.w[i];
        x.dw[i - 1] += r / down / x.w[i - 1];
    }
    for (int i = 0; i < x.n; i++) {
        struct exact_mlp e = {.shape = GEODESIC_METRIC, .params = q.exact[g], .dparams = q.dexact[g], .dy = x.dw[i] * x.slope[i]};
        exact_mlp(&e, (double[2]){x.c[i], lambda}, NULL);
    }
}

static int all_pairs(int knots) {
    int n = 0;
    for (int a = 0; a < knots; a++)
        for (int b = 0; b < knots; b++)
            if (a != b)
                q.pairs[n++] = (struct geodesic_pair){a, b};
    return n;
}

static void draw_scene(const struct scene *s) {
    struct rng rng;
    rng_init(&rng, 7, 2, (uint32_t)s->knots);
    memset(q.dexact, 0, sizeof q.dexact);
    memset(q.grads, 0, sizeof q.grads);
    memset(q.want_loss, 0, sizeof q.want_loss);
    for (int i = 0; i < WAVELENGTHS; i++) {
        q.wavelengths[i] = (float)(-1 + 2.0 * i / (WAVELENGTHS - 1));
        q.rows[i] = (i * 23 + 5) % WAVELENGTHS;
    }
    for (int g = 0; g < GROUPS; g++) {
        draw(q.params[g], q.exact[g], GEODESIC_METRIC, &rng);
        draw(q.params[g] + mlp_count(GEODESIC_METRIC), q.exact[g] + mlp_count(GEODESIC_METRIC), geodesic_head_shape(s->head), &rng);
        for (int k = 0; k < s->knots; k++)
            q.knots[g][k] = (float)(-1 + 2.0 * (k + 0.3 * rng_uniform(&rng)) / s->knots);
    }
    for (int i = 0; i < GROUPS * s->knots * WAVELENGTHS; i++)
        q.spectra[i] = (float)rng_normal(&rng);
}

/* grads false: predictions alone, with targets that are no numbers. */
static void run_scene(const struct scene *s, int first_group, int groups, bool training) {
    int n_pairs = all_pairs(s->knots);
    int64_t count = mlp_count(GEODESIC_METRIC) + mlp_count(geodesic_head_shape(s->head));
    size_t spectra = (size_t)(s->knots * WAVELENGTHS) * 4;
    float knots[GROUPS * MAX_KNOTS];
    for (int g = 0; g < groups; g++)
        memcpy(knots + g * s->knots, q.knots[first_group + g], (size_t)s->knots * 4);
    void *params = put(q.params[first_group], (size_t)groups * sizeof q.params[0]), *grads = put(q.grads, sizeof q.grads);
    void *d_knots = put(knots, sizeof knots), *d_wave = put(q.wavelengths, sizeof q.wavelengths),
         *rows = put(q.rows, sizeof q.rows);
    void *d_spectra = put(q.spectra + first_group * s->knots * WAVELENGTHS, spectra * (size_t)groups);
    void *pairs = put(q.pairs, sizeof q.pairs), *prediction = put(NULL, sizeof q.prediction), *loss = put(NULL, sizeof q.loss);
    struct geodesic_args a = {.head = s->head,
                              .order = s->order,
                              .floor = 0.1f,
                              .smoothness = (float)s->smoothness,
                              .bf16x3 = bf16x3,
                              .params = tensor_2d(params, DTYPE_F32, groups, count),
                              .knots = tensor_2d(d_knots, DTYPE_F32, groups, s->knots),
                              .wavelengths = tensor_1d(d_wave, DTYPE_F32, WAVELENGTHS),
                              .spectra = tensor_3d(d_spectra, DTYPE_F32, groups, s->knots, WAVELENGTHS),
                              .prediction = tensor_3d(prediction, DTYPE_F32, groups, n_pairs, s->rows),
                              .rows = rows,
                              .n_rows = s->rows,
                              .pairs = pairs,
                              .n_pairs = n_pairs};
    a.params.ld = PARAMS;
    if (training) {
        a.grads = tensor_2d(grads, DTYPE_F32, groups, count);
        a.grads.ld = PARAMS;
        a.loss = loss;
    }
    ok(op_geodesic(stream, &a, &err));
    get(q.prediction, prediction, sizeof q.prediction);
    get(q.grads, grads, sizeof q.grads);
    get(q.loss, loss, sizeof q.loss);
    void *all[] = {params, grads, d_knots, d_wave, rows, d_spectra, pairs, prediction, loss};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        device_free(device, all[i]);
}

/* Two knots have one path and its reverse: the gradient of the metric is then a small difference of large numbers, which one
 * wavelength alone would leave near the tolerance. */
static const struct scene scenes[] = {
    {GEODESIC_FLOW, 5, 4, 23, 0.01},     {GEODESIC_DECODER, 5, 4, 23, 0},
    {GEODESIC_FLOW, 4, 8, 3, 0},         {GEODESIC_DECODER, MAX_KNOTS, 8, 2, 0.01},
    {GEODESIC_FLOW, MAX_KNOTS, 4, 2, 0}, {GEODESIC_FLOW, 2, 4, 6, 0.1},
    {GEODESIC_FLOW, 3, 4, 1, 0.1},       {GEODESIC_DECODER, 4, 4, 2, 0.01},
    {GEODESIC_FLOW, 4, 5, 3, 0.01},      {GEODESIC_DECODER, 4, 6, 2, 0.01},
    {GEODESIC_FLOW, 5, 6, 14, 0},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

/* The metric's gradient is a difference of larger terms: in scene 8 it is off by up to 4e-5 on a CPU, whichever instructions it
 * has, by 1e-4 where the GPU's order of sums is emulated, and by 2.3e-4 on an H200. */
static void transport_and_its_gradients_are_those_in_double(void **state) {
    (void)state;
    for (int i = 0; i < (is_cpu() ? 1 : 2) * SCENES; i++) { /* on a device of its own kind the second time on tensor cores */
        struct scene at_hand = scenes[i % SCENES], *s = &at_hand;
        char text[100];
        bf16x3 = i >= SCENES;
        snprintf(text, sizeof text, "scene %d: %d knots, %d nodes in a cell, %d wavelengths%s", i, s->knots, s->order, s->rows,
                 bf16x3 ? ", bf16x3" : "");
        doing = text;
        if (!is_cpu() && s->knots > 4)
            continue;
        int n_pairs = all_pairs(s->knots), metric = (int)mlp_count(GEODESIC_METRIC);
        int head = (int)mlp_count(geodesic_head_shape(s->head));
        draw_scene(s);
        run_scene(s, 0, GROUPS, true);
        for (int g = 0; g < GROUPS; g++)
            for (int at = 0; at < s->rows; at++)
                exact_wavelength(s, g, at, n_pairs);
        near("the prediction", q.prediction, q.want, GROUPS * n_pairs * s->rows, 1e-5);
        for (int g = 0; g < GROUPS; g++) {
            for (int k = 0; k < 2; k++) /* second differences of single precision lose digits where nodes are close */
                if (!(fabs(q.loss[g][k] - q.want_loss[g][k]) <= (k ? 1e-2 : 2e-5) * q.want_loss[g][k]))
                    fail_msg("loss %d is %.9g, expected %.9g", k, q.loss[g][k], q.want_loss[g][k]);
            near("the head's gradient", q.grads[g] + metric, q.dexact[g] + metric, head, 1e-4);
            near("the metric's gradient", q.grads[g], q.dexact[g], metric, is_cpu() ? 1e-4 : 1e-3);
        }
    }
    bf16x3 = false;
    doing = "";
}

static void predictions_read_no_target(void **state) {
    (void)state;
    struct scene s = scenes[is_cpu() ? 0 : 2];
    static float before[GROUPS * MAX_PAIRS * WAVELENGTHS];
    int n_pairs = all_pairs(s.knots), target = 3;
    draw_scene(&s);
    run_scene(&s, 0, GROUPS, false);
    memcpy(before, q.prediction, sizeof before);
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; i < WAVELENGTHS; i++)
            q.spectra[(g * s.knots + target) * WAVELENGTHS + i] = NAN;
    run_scene(&s, 0, GROUPS, false);
    for (int i = 0; i < GROUPS * n_pairs * s.rows; i++)
        if (q.pairs[i / s.rows % n_pairs].from != target && memcmp(&before[i], &q.prediction[i], sizeof *before))
            fail_msg("prediction %d has changed", i);
}

/* A group alone gives the bits that it gives beside others. */
static void groups_do_not_feel_each_other(void **state) {
    (void)state;
    struct scene s = scenes[is_cpu() ? 0 : 6];
    static float together[PARAMS];
    draw_scene(&s);
    run_scene(&s, 0, GROUPS, true);
    memcpy(together, q.grads[1], sizeof together);
    double loss = q.loss[1][0];
    memset(q.grads, 0, sizeof q.grads);
    run_scene(&s, 1, 1, true);
    assert_memory_equal(together, q.grads[0], sizeof together);
    assert_true(loss == q.loss[0][0]);
}

static void arguments_that_do_not_fit_are_refused(void **state) {
    (void)state;
    float one[4] = {0};
    struct mlp_args a = {.shape = {2, 100, 256}, .params = tensor_2d(one, DTYPE_F32, 1, 4)};
    assert_int_equal(op_mlp(stream, &a, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "128 and 256"));
    struct geodesic_args g = {.head = GEODESIC_FLOW, .order = 7, .floor = 0.1f, .params = tensor_2d(one, DTYPE_F32, 1, 4)};
    assert_int_equal(op_geodesic(stream, &g, &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "params"));
}

static int open_device(void **state) {
    (void)state;
    return device_open(device_name(), 0, &device, &err) || stream_open(device, STREAM_NORMAL, &stream, &err);
}
static int close_device(void **state) {
    (void)state;
    stream_close(stream);
    device_close(device);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_their_tangents_and_gradients_are_those_in_double),
        cmocka_unit_test(transport_and_its_gradients_are_those_in_double),
        cmocka_unit_test(predictions_read_no_target),
        cmocka_unit_test(groups_do_not_feel_each_other),
        cmocka_unit_test(arguments_that_do_not_fit_are_refused),
    };
    if (strcmp(device_name(), "cpu"))
        return cmocka_run_group_tests(tests, open_device, close_device);
    /* Instruction sets that the processor lacks are those it has: BRR_ISA only lowers. */
    int failed = 0;
    const char *const isa[] = {"scalar", "avx2", "avx512"};
    for (size_t i = 0; i < sizeof isa / sizeof *isa; i++) {
        setenv("BRR_ISA", isa[i], 1);
        printf("%s: %s\n", isa[i], device_isa());
        failed += cmocka_run_group_tests(tests, open_device, close_device);
    }
    return failed;
}
