/* Dense convolutions, channel-last. Stride 1 runs on oneDNN's convolutions (kernels/cpu/dnn.h); stride 2 with two taps is a matrix
 * product over pairs of rows. */
#include <string.h>

#include "kernels/cpu/columns.h"
#include "kernels/cpu/dnn.h"

/* Stride 2, K = 2: rows of 2·Ci inputs times (Co, 2·Ci) weights. pack: w (Co,Ci,2) → wp (Co, 2, Ci). */
static void pack_stride2(const float *w, float *wp, int64_t co, int64_t ci) {
    for (int64_t o = 0; o < co; o++)
        for (int64_t k = 0; k < 2; k++)
            for (int64_t i = 0; i < ci; i++)
                wp[(o * 2 + k) * ci + i] = w[(o * ci + i) * 2 + k];
}

static int conv_stride2(struct stream *s, const struct conv1d_args *a, struct err *err) {
    int64_t b = a->x.dim[0], to = a->y.dim[1], ci = a->x.dim[2], co = a->y.dim[2];
    if (a->x.ld != ci || a->relu)
        return err_set(err, ERR_UNSUPPORTED, "op conv1d: stride 2 with a strided x or a fused ReLU is unsupported");
    float *wp = cpu_scratch(s, (size_t)(co * 2 * ci) * sizeof *wp, err);
    if (!wp)
        return ERR_EXHAUSTED;
    pack_stride2(cf(&a->w), wp, co, ci);
    const float beta = cpu_fill_rows(s, &a->y, &a->bias);
    const struct gemm g = {.trans_b = true,
                           .m = b * to,
                           .n = co,
                           .k = 2 * ci,
                           .span = to,
                           .a = {cf(&a->x), 2 * ci},
                           .b = {wp, 2 * ci},
                           .c = gemm_write(&a->y),
                           .beta = beta};
    return cpu_gemm(s, &g, err);
}

int cpu_conv1d(struct stream *s, const struct conv1d_args *a, struct err *err) {
    if (a->stride == 2 && (a->x.dtype == DTYPE_BF16 || dnn_like_gemm(&a->y, 2 * a->x.dim[2], a->weight_version)))
        return dnn_conv1d_stride2(s, a, err);
    if (a->stride == 2)
        return conv_stride2(s, a, err);
    struct dnn_forward call = {.key = conv_key_of(a->x.dim[1], a->x.dim[2], a->w.dim[0], a->w.dim[2], a->pad),
                               .batch = a->x.dim[0],
                               .x = {a->x.data, a->x.ld, 1},
                               .y = {a->y.data, a->y.ld, 1},
                               .bias = cf(&a->bias),
                               .source = a->w.data,
                               .version = WEIGHTS_VERSION_OF(a->weight_version)};
    call.key.relu = a->relu;
    call.key.bf16 = a->x.dtype == DTYPE_BF16;
    return dnn_forward(s, &call, err);
}

static int backward_stride2(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t b = a->x.dim[0], to = a->dy.dim[1], ci = a->x.dim[2], co = a->w.dim[0], n = co * 2 * ci;
    if (a->x.ld != ci || (tensor_present(&a->dx) && a->dx.ld != ci))
        return err_set(err, ERR_UNSUPPORTED, "op conv1d_backward: stride 2 with a strided x is unsupported");
    float *wp = cpu_scratch(s, (size_t)(2 * n) * sizeof *wp, err);
    if (!wp)
        return ERR_EXHAUSTED;
    float *dwp = tensor_present(&a->dw) ? wp + n : NULL;
    pack_stride2(cf(&a->w), wp, co, ci);
    const struct gemm_gradients gradients = {.rows = b * to,
                                             .n = co,
                                             .k = 2 * ci,
                                             .x = {cf(&a->x), 2 * ci},
                                             .w = {wp, 2 * ci},
                                             .dy = gemm_read(&a->dy),
                                             .dx = {mf(&a->dx), 2 * ci},
                                             .dw = {dwp, 2 * ci}};
    int rc = cpu_gemm_gradients(s, &gradients, err);
    for (int64_t o = 0; !rc && dwp && o < co; o++)
        for (int64_t i = 0; i < ci; i++)
            for (int64_t k = 0; k < 2; k++)
                mf(&a->dw)[(o * ci + i) * 2 + k] += dwp[(o * 2 + k) * ci + i];
    return rc;
}

/* w (Co,Ci,K) → (Ci,Co,K) with the taps reversed; ci and co of the key are those of the flipped convolution. */
static void flip_weights(const struct dnn_forward *call, int64_t i, float *out) {
    int64_t co = call->key.ci, ci = call->key.co, k = call->key.k;
    const float *w = call->source;
    for (int64_t o = 0; o < co; o++)
        for (int64_t j = 0; j < k; j++)
            out[(i * co + o) * k + j] = w[(o * ci + i) * k + (k - 1 - j)];
}

/* The gradient of the input is a forward convolution with the kernel flipped and its channels swapped, which oneDNN's channel-last
 * code runs several times faster than its own backward-data for wide layers. */
static int backward_data(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t co = a->w.dim[0], ci = a->w.dim[1], k = a->w.dim[2];
    struct dnn_forward call = {.key = conv_key_of(a->dy.dim[1], co, ci, k, k - 1 - a->pad),
                               .batch = a->x.dim[0],
                               .x = {a->dy.data, a->dy.ld, 1},
                               .y = {a->dx.data, a->dx.ld, 1},
                               .source = a->w.data,
                               .lay = flip_weights};
    call.key.bf16 = a->x.dtype == DTYPE_BF16;
    return dnn_forward(s, &call, err);
}

struct tap_sums {
    float *dw;
    const float *plain;
    int64_t co, ci, taps;
};

/* dw[o][i][k] += plain[k][o][i] */
static void add_taps(const void *ctx, int64_t o, int lane) {
    const struct tap_sums *t = ctx;
    (void)lane;
    for (int64_t j = o * t->ci; j < (o + 1) * t->ci; j++)
        for (int64_t k = 0; k < t->taps; k++)
            t->dw[j * t->taps + k] += t->plain[k * t->co * t->ci + j];
}

/* Wide layers: one matrix product per tap, dyᵀ·x over the rows where both exist, is faster than oneDNN's weight gradient. */
static int backward_weights_wide(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int64_t b = a->x.dim[0], t = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[0], taps = a->w.dim[2], to = a->dy.dim[1];
    float *plain = cpu_scratch(s, (size_t)(taps * co * ci) * sizeof *plain, err);
    if (!plain)
        return ERR_EXHAUSTED;
    memset(plain, 0, (size_t)(taps * co * ci) * sizeof *plain);
    for (int64_t row = 0; row < b; row++)
        for (int64_t k = 0; k < taps; k++) {
            int64_t shift = k - a->pad, first = shift < 0 ? -shift : 0, end = to < t - shift ? to : t - shift;
            struct gemm g = {.trans_a = true,
                             .m = co,
                             .n = ci,
                             .k = end - first,
                             .a = {cf(&a->dy) + (row * to + first) * a->dy.ld, a->dy.ld},
                             .b = {cf(&a->x) + (row * t + first + shift) * a->x.ld, a->x.ld},
                             .c = {plain + k * co * ci, ci},
                             .beta = 1};
            int rc = g.k > 0 ? cpu_gemm(s, &g, err) : 0;
            if (rc)
                return rc;
        }
    lanes_for(cpu_threads(s), co, add_taps, &(struct tap_sums){mf(&a->dw), plain, co, ci, taps});
    return 0;
}

static int backward_weights(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    enum { WIDE = 128 };
    if (a->x.dtype == DTYPE_F32 && a->x.dim[2] >= WIDE && a->w.dim[0] >= WIDE)
        return backward_weights_wide(s, a, err);
    struct dnn_gradient call = {.key = conv_key_of(a->x.dim[1], a->x.dim[2], a->w.dim[0], a->w.dim[2], a->pad),
                                .batch = a->x.dim[0],
                                .x = {a->x.data, a->x.ld, 1},
                                .dy = {a->dy.data, a->dy.ld, 1},
                                .dw = mf(&a->dw)};
    call.key.bf16 = a->x.dtype == DTYPE_BF16;
    return dnn_weight_gradient(s, &call, err);
}

int cpu_conv1d_backward(struct stream *s, const struct conv1d_backward_args *a, struct err *err) {
    int rc = 0;
    if (a->stride == 2)
        rc = a->x.dtype == DTYPE_BF16 ? dnn_conv1d_stride2_backward(s, a, err) : backward_stride2(s, a, err);
    else if (tensor_present(&a->dx))
        rc = backward_data(s, a, err);
    if (rc || (a->stride != 2 && tensor_present(&a->dw) && (rc = backward_weights(s, a, err))))
        return rc;
    return cpu_column_sums(s, &a->dy, &a->dbias, err);
}
