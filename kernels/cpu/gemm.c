/* Projections and the transposed convolution as matrix products (kernels/cpu/products.c). */

#include "kernels/cpu/columns.h"
#include "kernels/cpu/dnn.h"

int cpu_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    if (a->x.dtype == DTYPE_BF16 || (!a->accumulate && dnn_like_gemm(&a->y, a->x.dim[2], a->weight_version)))
        return dnn_linear(s, a, err);
    int64_t b = a->x.dim[0], l = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[0];
    if (tensor_present(&a->bias) && a->accumulate)
        return err_set(err, ERR_UNSUPPORTED, "op linear: a bias together with accumulate is unsupported");
    const float beta = cpu_fill_rows(s, &a->y, &a->bias);
    const struct gemm g = {.trans_b = true,
                           .m = b * l,
                           .n = co,
                           .k = ci,
                           .span = l,
                           .a = gemm_read(&a->x),
                           .b = {cf(&a->w), ci},
                           .c = gemm_write(&a->y),
                           .beta = a->accumulate ? 1.0f : beta};
    return cpu_gemm(s, &g, err);
}

int cpu_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err) {
    if (a->x.dtype == DTYPE_BF16)
        return dnn_linear_backward(s, a, err);
    const int64_t ci = a->x.dim[2];
    const struct gemm_gradients gradients = {.rows = tensor_rows(&a->x),
                                             .n = a->w.dim[0],
                                             .k = ci,
                                             .x = gemm_read(&a->x),
                                             .w = {cf(&a->w), ci},
                                             .dy = gemm_read(&a->dy),
                                             .dx = gemm_write(&a->dx),
                                             .dw = {mf(&a->dw), ci},
                                             .dx_beta = a->accumulate_dx ? 1.0f : 0.0f,
                                             .dw_beta = 1};
    int rc = cpu_gemm_gradients(s, &gradients, err);
    return rc ? rc : cpu_column_sums(s, &a->dy, &a->dbias, err);
}

/* w (Ci,Co,2) → wp (2, Co, Ci). */
static void pack_convt(const float *w, float *wp, int64_t ci, int64_t co) {
    for (int64_t k = 0; k < 2; k++)
        for (int64_t o = 0; o < co; o++)
            for (int64_t i = 0; i < ci; i++)
                wp[(k * co + o) * ci + i] = w[(i * co + o) * 2 + k];
}

int cpu_convt1d(struct stream *s, const struct convt1d_args *a, struct err *err) {
    if (a->x.dtype == DTYPE_BF16)
        return dnn_convt1d(s, a, err);
    int64_t b = a->x.dim[0], t = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[1];
    float *wp = cpu_scratch(s, (size_t)(2 * ci * co) * sizeof *wp, err);
    if (!wp)
        return ERR_EXHAUSTED;
    pack_convt(cf(&a->w), wp, ci, co);
    const float beta = cpu_fill_rows(s, &a->y, &a->bias);
    int rc = 0;
    for (int64_t k = 0; k < 2 && !rc; k++) { /* even rows, then odd rows */
        const struct gemm g = {.trans_b = true,
                               .m = b * t,
                               .n = co,
                               .k = ci,
                               .span = t,
                               .a = gemm_read(&a->x),
                               .b = {wp + k * co * ci, ci},
                               .c = {mf(&a->y) + k * a->y.ld, 2 * a->y.ld},
                               .beta = beta};
        rc = cpu_gemm(s, &g, err);
    }
    return rc;
}

int cpu_convt1d_backward(struct stream *s, const struct convt1d_backward_args *a, struct err *err) {
    if (a->x.dtype == DTYPE_BF16)
        return dnn_convt1d_backward(s, a, err);
    int64_t rows = tensor_rows(&a->x), ci = a->x.dim[2], co = a->w.dim[1];
    float *wp = cpu_scratch(s, (size_t)(2 * ci * co + ci * co) * sizeof *wp, err);
    if (!wp)
        return ERR_EXHAUSTED;
    float *dwp = wp + 2 * ci * co;
    pack_convt(cf(&a->w), wp, ci, co);
    int rc;
    for (int64_t k = 0; k < 2; k++) {
        const struct gemm_in dy = {cf(&a->dy) + k * a->dy.ld, 2 * a->dy.ld}, w = {wp + k * co * ci, ci};
        const struct gemm dx = {.m = rows, .n = ci, .k = co, .a = dy, .b = w, .c = gemm_write(&a->dx), .beta = k ? 1.0f : 0.0f};
        const struct gemm dw = {.trans_a = true, .m = ci, .n = co, .k = rows, .a = gemm_read(&a->x), .b = dy, .c = {dwp, co}};
        if (tensor_present(&a->dx) && (rc = cpu_gemm(s, &dx, err)))
            return rc;
        if (tensor_present(&a->dw)) {
            if ((rc = cpu_gemm(s, &dw, err)))
                return rc;
            for (int64_t j = 0; j < ci * co; j++)
                mf(&a->dw)[2 * j + k] += dwp[j];
        }
    }
    return cpu_column_sums(s, &a->dy, &a->dbias, err);
}
