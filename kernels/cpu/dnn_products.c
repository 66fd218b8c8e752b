/* Projections, halving and doubling convolutions, each as a convolution of one tap: in bf16, and where dnn_like_gemm says so. */
#include <dnnl.h>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/dnn.h"

/* out (c,r) = w (r,c) transposed. The key's co and ci are the rows and columns of out. */
static void lay_transposed(const struct dnn_forward *call, int64_t i, float *out) {
    int64_t rows = call->key.co, cols = call->key.ci;
    const float *w = call->source;
    for (int64_t j = 0; j < cols; j++)
        out[i * cols + j] = w[j * rows + i];
}

bool dnn_like_gemm(const struct tensor *y, int64_t terms, uint64_t weight_version) {
    enum { TOKENS = 16, LONG_ROW = 256, TERMS = 256, GEMM_COLS = 512 };
    const int64_t tokens = y->dim[1];
    return y->dtype == DTYPE_F32 && WEIGHTS_VERSION_OF(weight_version) && tokens % TOKENS == 0 && tokens < LONG_ROW &&
           terms <= TERMS && y->dim[2] % GEMM_COLS != 1 &&
           (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core;
}

static struct dnn_rows product_rows(const struct tensor *t, int split) { return (struct dnn_rows){t->data, t->ld, split}; }

static struct conv_key product_key(int64_t t, int64_t ci, int64_t co, enum dtype dtype) {
    struct conv_key key = conv_key_of(t, ci, co, 1, 0);
    key.bf16 = dtype == DTYPE_BF16;
    return key;
}

/* The gradients of a product of t tokens with ci and co channels, each unless it is absent. Memory rows of x and dx are 1/x_split
 * of such a token, those of dy 1/y_split. */
struct product_gradients {
    int64_t t, ci, co;
    const struct tensor *x, *w, *dy, *dx, *dw;
    int x_split, y_split;
    bool accumulate_dx;
    dnn_lay *lay; /* of the transposed weights */
    void (*add)(const struct dnn_gradient *call, const float *plain);
};

static int run_gradients(struct stream *s, const struct product_gradients *g, struct err *err) {
    const struct dnn_forward data = {.key = product_key(g->t, g->co, g->ci, DTYPE_BF16),
                                     .batch = g->x->dim[0],
                                     .x = product_rows(g->dy, g->y_split),
                                     .y = product_rows(g->dx, g->x_split),
                                     .accumulate = g->accumulate_dx,
                                     .source = g->w->data,
                                     .lay = g->lay};
    const struct dnn_gradient weights = {.key = product_key(g->t, g->ci, g->co, DTYPE_BF16),
                                         .batch = g->x->dim[0],
                                         .x = product_rows(g->x, g->x_split),
                                         .dy = product_rows(g->dy, g->y_split),
                                         .dw = mf(g->dw),
                                         .add = g->add};
    int rc = tensor_present(g->dx) ? dnn_forward(s, &data, err) : 0;
    return rc || !tensor_present(g->dw) ? rc : dnn_weight_gradient(s, &weights, err);
}

int dnn_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    if (tensor_present(&a->bias) && a->accumulate)
        return err_set(err, ERR_UNSUPPORTED, "op linear: a bias together with accumulate is unsupported");
    const struct dnn_forward call = {.key = product_key(a->x.dim[1], a->x.dim[2], a->w.dim[0], a->x.dtype),
                                     .batch = a->x.dim[0],
                                     .x = product_rows(&a->x, 1),
                                     .y = product_rows(&a->y, 1),
                                     .bias = cf(&a->bias),
                                     .accumulate = a->accumulate,
                                     .source = a->w.data,
                                     .version = WEIGHTS_VERSION_OF(a->weight_version)};
    return dnn_forward(s, &call, err);
}

int dnn_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err) {
    int rc = run_gradients(s,
                           &(struct product_gradients){a->x.dim[1], a->x.dim[2], a->w.dim[0], &a->x, &a->w, &a->dy, &a->dx, &a->dw,
                                                       1, 1, a->accumulate_dx, lay_transposed, NULL},
                           err);
    return rc ? rc : cpu_column_sums(s, &a->dy, &a->dbias, err);
}

/* ---- two taps, stride 2: pairs of rows are one row of 2·Ci channels ---------------------------------------------- */

/* w (Co,Ci,2) → (Co, 2·Ci), channel k·Ci + i. */
static void lay_stride2(const struct dnn_forward *call, int64_t o, float *out) {
    int64_t ci = call->key.ci / 2;
    const float *w = call->source;
    for (int64_t i = 0; i < 2 * ci; i++)
        out[o * 2 * ci + i] = w[(o * ci + i % ci) * 2 + i / ci];
}

/* Transposed: (2·Ci, Co). */
static void lay_stride2_transposed(const struct dnn_forward *call, int64_t i, float *out) {
    int64_t co = call->key.ci, ci = call->key.co / 2;
    const float *w = call->source;
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
    const struct dnn_forward call = {.key = product_key(a->y.dim[1], 2 * a->x.dim[2], a->w.dim[0], a->x.dtype),
                                     .batch = a->x.dim[0],
                                     .x = product_rows(&a->x, 2),
                                     .y = product_rows(&a->y, 1),
                                     .bias = cf(&a->bias),
                                     .source = a->w.data,
                                     .version = WEIGHTS_VERSION_OF(a->weight_version),
                                     .lay = lay_stride2};
    return dnn_forward(s, &call, err);
}

int dnn_conv1d_stride2_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t ci = a->x.dim[2];
    if (a->x.ld != ci || (tensor_present(&a->dx) && a->dx.ld != ci))
        return err_set(err, ERR_UNSUPPORTED, "op conv1d_backward: stride 2 with a strided x is unsupported");
    return run_gradients(s,
                         &(struct product_gradients){a->dy.dim[1], 2 * ci, a->w.dim[0], &a->x, &a->w, &a->dy, &a->dx, &a->dw, 2, 1,
                                                     false, lay_stride2_transposed, add_stride2},
                         err);
}

/* ---- transposed: a row of 2·Co channels is a pair of output rows ------------------------------------------------- */

/* w (Ci,Co,2) → (2·Co, Ci), row k·Co + o. */
static void lay_convt(const struct dnn_forward *call, int64_t o, float *out) {
    int64_t ci = call->key.ci, co = call->key.co / 2;
    const float *w = call->source;
    for (int64_t i = 0; i < ci; i++)
        out[o * ci + i] = w[(i * co + o % co) * 2 + o / co];
}

/* Transposed: (Ci, 2·Co). */
static void lay_convt_transposed(const struct dnn_forward *call, int64_t i, float *out) {
    int64_t co = call->key.ci / 2;
    const float *w = call->source;
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
    const struct dnn_forward call = {.key = product_key(a->x.dim[1], a->x.dim[2], 2 * a->w.dim[1], DTYPE_BF16),
                                     .batch = a->x.dim[0],
                                     .x = product_rows(&a->x, 1),
                                     .y = product_rows(&a->y, 2),
                                     .bias = cf(&a->bias),
                                     .bias_repeat = 2,
                                     .source = a->w.data,
                                     .version = WEIGHTS_VERSION_OF(a->weight_version),
                                     .lay = lay_convt};
    return dnn_forward(s, &call, err);
}

int dnn_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err) {
    int rc = run_gradients(s,
                           &(struct product_gradients){a->x.dim[1], a->x.dim[2], 2 * a->w.dim[1], &a->x, &a->w, &a->dy, &a->dx,
                                                       &a->dw, 1, 2, false, lay_convt_transposed, add_convt},
                           err);
    return rc ? rc : cpu_column_sums(s, &a->dy, &a->dbias, err);
}
