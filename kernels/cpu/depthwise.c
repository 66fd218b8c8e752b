/* Depthwise convolution over (B,L,D): a loop over taps with the channels innermost. Time runs forward or, with `reverse`, from the
 * end: row(t) below is the t-th row in processing order. */
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { MAX_TAPS = 8 };

struct pass {
    const float *x, *state0;
    int64_t l, ld, d;
    int k, pad_left;
    bool reverse;
};

static const float *row(const struct pass *p, int64_t t) {
    if (t >= 0 && t < p->l)
        return p->x + (p->reverse ? p->l - 1 - t : t) * p->ld;
    return t < 0 && p->state0 ? p->state0 + (t + p->k - 1) * p->d : NULL;
}

/* pre[c] = bias[c] + Σ_k w[c][k]·row(t + k − pad_left)[c], weights transposed to wt[k][c]. */
CPU_CLONES static void tap_sum(const float *const rows[MAX_TAPS], int k, const float *wt, const float *bias, int64_t d,
                               float *restrict pre) {
    if (bias)
        memcpy(pre, bias, (size_t)d * sizeof *pre);
    else
        memset(pre, 0, (size_t)d * sizeof *pre);
    for (int j = 0; j < k; j++) {
        if (!rows[j])
            continue;
        const float *restrict x = rows[j], *restrict w = wt + j * d;
        for (int64_t c = 0; c < d; c++)
            pre[c] += w[c] * x[c];
    }
}

CPU_CLONES static void silu_row(const float *pre, float *y, int64_t d) {
#pragma omp simd
    for (int64_t c = 0; c < d; c++)
        y[c] = vm_silu(pre[c]);
}

CPU_CLONES static void silu_grad_row(const float *pre, const float *dy, float *g, int64_t d) {
#pragma omp simd
    for (int64_t c = 0; c < d; c++)
        g[c] = dy[c] * vm_silu_grad(pre[c]);
}

static void transpose_weights(const float *w, float *wt, int64_t d, int k) {
    for (int64_t c = 0; c < d; c++)
        for (int j = 0; j < k; j++)
            wt[j * d + c] = w[c * k + j];
}

static void taps_at(const struct pass *p, int64_t t, const float *rows[MAX_TAPS]) {
    for (int j = 0; j < p->k; j++)
        rows[j] = row(p, t + j - p->pad_left);
}

int cpu_conv1d_depthwise(struct stream *s, const struct conv1d_depthwise_args *a, struct err *err) {
    int64_t b = a->x.dim[0], l = a->x.dim[1], d = a->x.dim[2];
    int k = (int)a->w.dim[1];
    float *wt = cpu_scratch(s, (size_t)(k * d) * sizeof *wt, err);
    if (!wt)
        return ERR_EXHAUSTED;
    transpose_weights(cf(&a->w), wt, d, k);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i = 0; i < b; i++)
        for (int64_t t = 0; t < l; t++) {
            struct pass p = {cf(&a->x) + i * l * a->x.ld, NULL, l, a->x.ld, d, k, a->pad_left, a->reverse};
            if (tensor_present(&a->state0))
                p.state0 = cf(&a->state0) + i * (k - 1) * d;
            const float *rows[MAX_TAPS];
            taps_at(&p, t, rows);
            float *y = mf(&a->y) + (i * l + (a->reverse ? l - 1 - t : t)) * a->y.ld;
            tap_sum(rows, k, wt, cf(&a->bias), d, y);
            if (a->silu)
                silu_row(y, y, d);
        }
    for (int64_t i = 0; tensor_present(&a->state) && i < b; i++)
        for (int j = 0; j < k - 1; j++) {
            struct pass p = {cf(&a->x) + i * l * a->x.ld, NULL, l, a->x.ld, d, k, a->pad_left, a->reverse};
            if (tensor_present(&a->state0))
                p.state0 = cf(&a->state0) + i * (k - 1) * d;
            const float *from = row(&p, l - (k - 1) + j);
            float *to = mf(&a->state) + (i * (k - 1) + j) * d;
            if (from)
                memcpy(to, from, (size_t)d * sizeof *to);
            else
                memset(to, 0, (size_t)d * sizeof *to);
        }
    return 0;
}

/* One batch row: g = gradient before the activation (l,d); dx; partial dw[k][d] and dbias[d] of this row. */
CPU_CLONES static void gather_dx(const float *const rows[MAX_TAPS], int k, const float *wt, int64_t d, float *restrict dx) {
    memset(dx, 0, (size_t)d * sizeof *dx);
    for (int j = 0; j < k; j++) {
        if (!rows[j])
            continue;
        const float *restrict g = rows[j], *restrict w = wt + j * d;
        for (int64_t c = 0; c < d; c++)
            dx[c] += w[c] * g[c];
    }
}

CPU_CLONES static void add_product(float *restrict out, const float *restrict a, const float *restrict b, int64_t d) {
    for (int64_t c = 0; c < d; c++)
        out[c] += a[c] * b[c];
}

CPU_CLONES static void add_to(float *restrict out, const float *restrict a, int64_t d) {
    for (int64_t c = 0; c < d; c++)
        out[c] += a[c];
}

enum { WEIGHT_BLOCK = 120 }; /* time steps per partial sum of the weight gradient */

int cpu_conv1d_depthwise_backward(struct stream *s, const struct conv1d_depthwise_backward_args *a, struct err *err) {
    int64_t b = a->x.dim[0], l = a->x.dim[1], d = a->x.dim[2];
    int k = (int)a->w.dim[1];
    int64_t blocks = (l + WEIGHT_BLOCK - 1) / WEIGHT_BLOCK, part = (k + 1) * d;
    float *wt = cpu_scratch(s, (size_t)(k * d + b * l * d + b * blocks * part) * sizeof *wt, err);
    if (!wt)
        return ERR_EXHAUSTED;
    float *g = wt + k * d, *partial = g + b * l * d;
    transpose_weights(cf(&a->w), wt, d, k);
    memset(partial, 0, (size_t)(b * blocks * part) * sizeof *partial);
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i = 0; i < b; i++)
        for (int64_t block = 0; block < blocks; block++) {
            struct pass p = {cf(&a->x) + i * l * a->x.ld, NULL, l, a->x.ld, d, k, a->pad_left, a->reverse};
            float *dw = partial + (i * blocks + block) * part, *db = dw + k * d;
            for (int64_t t = block * WEIGHT_BLOCK; t < l && t < (block + 1) * WEIGHT_BLOCK; t++) {
                const float *rows[MAX_TAPS];
                const float *dy = cf(&a->dy) + (i * l + (a->reverse ? l - 1 - t : t)) * a->dy.ld;
                float *gt = g + (i * l + t) * d; /* in processing order */
                taps_at(&p, t, rows);
                if (a->silu) {
                    tap_sum(rows, k, wt, cf(&a->bias), d, gt);
                    silu_grad_row(gt, dy, gt, d);
                } else {
                    memcpy(gt, dy, (size_t)d * sizeof *gt);
                }
                for (int j = 0; j < k; j++)
                    if (rows[j])
                        add_product(dw + j * d, gt, rows[j], d);
                add_to(db, gt, d);
            }
        }
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i = 0; i < b; i++)
        for (int64_t t = 0; t < l; t++) { /* dx[t] = Σ_j w[j]·g[t − j + pad_left] */
            const float *rows[MAX_TAPS];
            for (int j = 0; j < k; j++) {
                int64_t at = t - j + a->pad_left;
                rows[j] = at >= 0 && at < l ? g + (i * l + at) * d : NULL;
            }
            gather_dx(rows, k, wt, d, mf(&a->dx) + (i * l + (a->reverse ? l - 1 - t : t)) * a->dx.ld);
        }
    for (int64_t q = 0; q < b * blocks; q++) {
        const float *dw = partial + q * part, *db = dw + k * d;
        for (int64_t c = 0; c < d; c++)
            for (int j = 0; j < k; j++)
                mf(&a->dw)[c * k + j] += dw[j * d + c];
        if (tensor_present(&a->dbias))
            add_to(mf(&a->dbias), db, d);
    }
    return 0;
}
