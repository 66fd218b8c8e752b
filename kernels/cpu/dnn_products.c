/* Projections, halving and doubling convolutions in bf16, each as a convolution of one tap. */
#include "kernels/cpu/columns.h"
#include "kernels/cpu/dnn.h"

/* out (c,r) = w (r,c) transposed. The key's co and ci are the rows and columns of out. */
static void lay_transposed(const struct dnn_forward *call, int threads, float *out) {
    int64_t rows = call->key.co, cols = call->key.ci;
    const float *w = call->source;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[i * cols + j] = w[j * rows + i];
}

int dnn_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    if (tensor_present(&a->bias) && a->accumulate)
        return err_set(err, ERR_UNSUPPORTED, "op linear: a bias together with accumulate is unsupported");
    struct dnn_forward call = {.key = conv_key_of(a->x.dim[1], a->x.dim[2], a->w.dim[0], 1, 0),
                               .batch = a->x.dim[0],
                               .x = {a->x.data, a->x.ld, 1},
                               .y = {a->y.data, a->y.ld, 1},
                               .bias = cf(&a->bias),
                               .accumulate = a->accumulate,
                               .source = a->w.data,
                               .version = WEIGHTS_VERSION_OF(a->weight_version)};
    call.key.bf16 = true;
    return dnn_forward(s, &call, err);
}

int dnn_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err) {
    int64_t l = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[0];
    struct dnn_forward data = {.key = conv_key_of(l, co, ci, 1, 0),
                               .batch = a->x.dim[0],
                               .x = {a->dy.data, a->dy.ld, 1},
                               .y = {a->dx.data, a->dx.ld, 1},
                               .accumulate = a->accumulate_dx,
                               .source = a->w.data,
                               .lay = lay_transposed};
    struct dnn_gradient weights = {.key = conv_key_of(l, ci, co, 1, 0),
                                   .batch = a->x.dim[0],
                                   .x = {a->x.data, a->x.ld, 1},
                                   .dy = {a->dy.data, a->dy.ld, 1},
                                   .dw = mf(&a->dw)};
    data.key.bf16 = weights.key.bf16 = true;
    int rc;
    if ((rc = tensor_present(&a->dx) ? dnn_forward(s, &data, err) : 0) ||
        (tensor_present(&a->dw) && (rc = dnn_weight_gradient(s, &weights, err))))
        return rc;
    return !tensor_present(&a->dbias) ? 0 : cpu_column_sums(s, &a->dy, mf(&a->dbias), err);
}

/* ---- two taps, stride 2: pairs of rows are one row of 2·Ci channels ---------------------------------------------- */

/* w (Co,Ci,2) → (Co, 2·Ci), channel k·Ci + i. */
static void lay_stride2(const struct dnn_forward *call, int threads, float *out) {
    int64_t co = call->key.co, ci = call->key.ci / 2;
    const float *w = call->source;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t o = 0; o < co; o++)
        for (int64_t i = 0; i < 2 * ci; i++)
            out[o * 2 * ci + i] = w[(o * ci + i % ci) * 2 + i / ci];
}

/* Transposed: (2·Ci, Co). */
static void lay_stride2_transposed(const struct dnn_forward *call, int threads, float *out) {
    int64_t co = call->key.ci, ci = call->key.co / 2;
    const float *w = call->source;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < 2 * ci; i++)
        for (int64_t o = 0; o < co; o++)
            out[i * co + o] = w[(o * ci + i % ci) * 2 + i / ci];
}

static void add_stride2(const struct dnn_gradient *call, const float *plain) {
    int64_t co = call->key.co, ci = call->key.ci / 2;
    for (int64_t o = 0; o < co; o++)
        for (int64_t i = 0; i < 2 * ci; i++)
            call->dw[(o * ci + i % ci) * 2 + i / ci] += plain[o * 2 * ci + i];
}

int dnn_conv1d_stride2(struct stream *s, const struct conv1d_args *a, struct err *err) {
    if (a->x.ld != a->x.dim[2] || a->relu)
        return err_set(err, ERR_UNSUPPORTED, "op conv1d: stride 2 with a strided x or a fused ReLU is unsupported");
    struct dnn_forward call = {.key = conv_key_of(a->y.dim[1], 2 * a->x.dim[2], a->w.dim[0], 1, 0),
                               .batch = a->x.dim[0],
                               .x = {a->x.data, a->x.ld, 2},
                               .y = {a->y.data, a->y.ld, 1},
                               .bias = cf(&a->bias),
                               .source = a->w.data,
                               .version = WEIGHTS_VERSION_OF(a->weight_version),
                               .lay = lay_stride2};
    call.key.bf16 = true;
    return dnn_forward(s, &call, err);
}

int dnn_conv1d_stride2_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t to = a->dy.dim[1], ci = a->x.dim[2], co = a->w.dim[0];
    if (a->x.ld != ci || (tensor_present(&a->dx) && a->dx.ld != ci))
        return err_set(err, ERR_UNSUPPORTED, "op conv1d_backward: stride 2 with a strided x is unsupported");
    struct dnn_forward data = {.key = conv_key_of(to, co, 2 * ci, 1, 0),
                               .batch = a->x.dim[0],
                               .x = {a->dy.data, a->dy.ld, 1},
                               .y = {a->dx.data, a->dx.ld, 2},
                               .source = a->w.data,
                               .lay = lay_stride2_transposed};
    struct dnn_gradient weights = {.key = conv_key_of(to, 2 * ci, co, 1, 0),
                                   .batch = a->x.dim[0],
                                   .x = {a->x.data, a->x.ld, 2},
                                   .dy = {a->dy.data, a->dy.ld, 1},
                                   .dw = mf(&a->dw),
                                   .add = add_stride2};
    data.key.bf16 = weights.key.bf16 = true;
    int rc = tensor_present(&a->dx) ? dnn_forward(s, &data, err) : 0;
    return rc || !tensor_present(&a->dw) ? rc : dnn_weight_gradient(s, &weights, err);
}

/* ---- transposed: a row of 2·Co channels is a pair of output rows ------------------------------------------------- */

/* w (Ci,Co,2) → (2·Co, Ci), row k·Co + o. */
static void lay_convt(const struct dnn_forward *call, int threads, float *out) {
    int64_t ci = call->key.ci, co = call->key.co / 2;
    const float *w = call->source;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t o = 0; o < 2 * co; o++)
        for (int64_t i = 0; i < ci; i++)
            out[o * ci + i] = w[(i * co + o % co) * 2 + o / co];
}

/* Transposed: (Ci, 2·Co). */
static void lay_convt_transposed(const struct dnn_forward *call, int threads, float *out) {
    int64_t ci = call->key.co, co = call->key.ci / 2;
    const float *w = call->source;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t i = 0; i < ci; i++)
        for (int64_t o = 0; o < 2 * co; o++)
            out[i * 2 * co + o] = w[(i * co + o % co) * 2 + o / co];
}

static void add_convt(const struct dnn_gradient *call, const float *plain) {
    int64_t ci = call->key.ci, co = call->key.co / 2;
    for (int64_t o = 0; o < 2 * co; o++)
        for (int64_t i = 0; i < ci; i++)
            call->dw[(i * co + o % co) * 2 + o / co] += plain[o * ci + i];
}

int dnn_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err) {
    struct dnn_forward call = {.key = conv_key_of(a->x.dim[1], a->x.dim[2], 2 * a->w.dim[1], 1, 0),
                               .batch = a->x.dim[0],
                               .x = {a->x.data, a->x.ld, 1},
                               .y = {a->y.data, a->y.ld, 2},
                               .bias = cf(&a->bias),
                               .bias_repeat = 2,
                               .source = a->w.data,
                               .version = WEIGHTS_VERSION_OF(a->weight_version),
                               .lay = lay_convt};
    call.key.bf16 = true;
    return dnn_forward(s, &call, err);
}

int dnn_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err) {
    int64_t t = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[1];
    struct dnn_forward data = {.key = conv_key_of(t, 2 * co, ci, 1, 0),
                               .batch = a->x.dim[0],
                               .x = {a->dy.data, a->dy.ld, 2},
                               .y = {a->dx.data, a->dx.ld, 1},
                               .source = a->w.data,
                               .lay = lay_convt_transposed};
    struct dnn_gradient weights = {.key = conv_key_of(t, ci, 2 * co, 1, 0),
                                   .batch = a->x.dim[0],
                                   .x = {a->x.data, a->x.ld, 1},
                                   .dy = {a->dy.data, a->dy.ld, 2},
                                   .dw = mf(&a->dw),
                                   .add = add_convt};
    data.key.bf16 = weights.key.bf16 = true;
    int rc;
    if ((rc = tensor_present(&a->dx) ? dnn_forward(s, &data, err) : 0) ||
        (tensor_present(&a->dw) && (rc = dnn_weight_gradient(s, &weights, err))))
        return rc;
    return !tensor_present(&a->dbias) ? 0 : cpu_column_sums(s, &a->dy, mf(&a->dbias), err);
}
