/* Projections and the transposed convolution as matrix products (kernels/cpu/products.c). */

#include "kernels/cpu/columns.h"
#include "kernels/cpu/dnn.h"

int cpu_linear(struct stream *s, const struct linear_args *a, struct err *err) {
    if (a->x.dtype == DTYPE_BF16)
        return dnn_linear(s, a, err);
    int64_t b = a->x.dim[0], l = a->x.dim[1], ci = a->x.dim[2], co = a->w.dim[0];
    bool bias = tensor_present(&a->bias);
    if (bias && a->accumulate)
        return err_set(err, ERR_UNSUPPORTED, "op linear: a bias together with accumulate is unsupported");
    if (bias)
        cpu_fill_rows(s, &a->y, cf(&a->bias));
    const struct gemm g = {.trans_b = true,
                           .m = b * l,
                           .n = co,
                           .k = ci,
                           .span = l,
                           .a = cf(&a->x),
                           .lda = a->x.ld,
                           .b = cf(&a->w),
                           .ldb = ci,
                           .c = mf(&a->y),
                           .ldc = a->y.ld,
                           .beta = bias || a->accumulate ? 1.0f : 0.0f};
    return cpu_gemm(s, &g, err);
}

int cpu_linear_backward(struct stream *s, const struct linear_backward_args *a, struct err *err) {
    if (a->x.dtype == DTYPE_BF16)
        return dnn_linear_backward(s, a, err);
    int64_t rows = tensor_rows(&a->x), ci = a->x.dim[2], co = a->w.dim[0];
    int rc;
    if (tensor_present(&a->dx)) {
        struct gemm g = {.m = rows,
                         .n = ci,
                         .k = co,
                         .a = cf(&a->dy),
                         .lda = a->dy.ld,
                         .b = cf(&a->w),
                         .ldb = ci,
                         .c = mf(&a->dx),
                         .ldc = a->dx.ld,
                         .beta = a->accumulate_dx ? 1.0f : 0.0f};
        if ((rc = cpu_gemm(s, &g, err)))
            return rc;
    }
    if (tensor_present(&a->dw)) {
        struct gemm g = {.trans_a = true,
                         .m = co,
                         .n = ci,
                         .k = rows,
                         .a = cf(&a->dy),
                         .lda = a->dy.ld,
                         .b = cf(&a->x),
                         .ldb = a->x.ld,
                         .c = mf(&a->dw),
                         .ldc = ci,
                         .beta = 1.0f};
        if ((rc = cpu_gemm(s, &g, err)))
            return rc;
    }
    return tensor_present(&a->dbias) ? cpu_column_sums(s, &a->dy, mf(&a->dbias), err) : 0;
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
    bool bias = tensor_present(&a->bias);
    if (bias)
        cpu_fill_rows(s, &a->y, cf(&a->bias));
    int rc = 0;
    for (int64_t k = 0; k < 2 && !rc; k++) { /* even rows, then odd rows */
        const struct gemm g = {.trans_b = true,
                               .m = b * t,
                               .n = co,
                               .k = ci,
                               .span = t,
                               .a = cf(&a->x),
                               .lda = a->x.ld,
                               .b = wp + k * co * ci,
                               .ldb = ci,
                               .c = mf(&a->y) + k * a->y.ld,
                               .ldc = 2 * a->y.ld,
                               .beta = bias ? 1.0f : 0.0f};
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
        const float *dy = cf(&a->dy) + k * a->dy.ld;
        if (tensor_present(&a->dx)) {
            struct gemm g = {.m = rows,
                             .n = ci,
                             .k = co,
                             .a = dy,
                             .lda = 2 * a->dy.ld,
                             .b = wp + k * co * ci,
                             .ldb = ci,
                             .c = mf(&a->dx),
                             .ldc = a->dx.ld,
                             .beta = k ? 1.0f : 0.0f};
            if ((rc = cpu_gemm(s, &g, err)))
                return rc;
        }
        if (tensor_present(&a->dw)) {
            struct gemm g = {.trans_a = true,
                             .m = ci,
                             .n = co,
                             .k = rows,
                             .a = cf(&a->x),
                             .lda = a->x.ld,
                             .b = dy,
                             .ldb = 2 * a->dy.ld,
                             .c = dwp,
                             .ldc = co};
            if ((rc = cpu_gemm(s, &g, err)))
                return rc;
            for (int64_t j = 0; j < ci * co; j++)
                mf(&a->dw)[2 * j + k] += dwp[j];
        }
    }
    return tensor_present(&a->dbias) ? cpu_column_sums(s, &a->dy, mf(&a->dbias), err) : 0;
}
