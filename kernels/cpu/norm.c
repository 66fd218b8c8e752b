/* Batch and layer norm. Column statistics: blocks of BLOCK rows summed in float lanes around a pilot value, blocks added
 * in order in double, so that results depend on neither threads nor block scheduling. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

enum { BLOCK = 256 };

/* out[0..c) = Σ (x − pilot), out[c..2c) = Σ (x − pilot)² over the block's rows. */
CPU_CLONES static void block_moments(const float *x, int64_t ld, int64_t rows, int64_t c, const float *restrict pilot,
                                     float *restrict out) {
    memset(out, 0, (size_t)(2 * c) * sizeof *out);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < c; i++) {
            float d = x[r * ld + i] - pilot[i];
            out[i] += d;
            out[c + i] += d * d;
        }
}

/* y = x·scale + shift (scale_shift[0..c), [c..2c)) on rows [first, first + rows), ReLU where asked. */
CPU_CLONES static void affine_rows(const struct batchnorm_args *a, int64_t first, int64_t rows, const float *restrict scale_shift) {
    int64_t c = a->x.dim[2];
    const float *restrict scale = scale_shift, *restrict shift = scale_shift + c;
    float floor = a->relu ? 0.0f : -INFINITY;
    for (int64_t r = first; r < first + rows; r++) {
        const float *x = cf(&a->x) + r * a->x.ld;
        float *y = mf(&a->y) + r * a->y.ld;
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float v = x[i] * scale[i] + shift[i];
            y[i] = v > floor ? v : floor;
        }
    }
}

static void apply_affine(const struct batchnorm_args *a, const float *scale_shift) {
    int64_t rows = tensor_rows(&a->x), blocks = (rows + BLOCK - 1) / BLOCK;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        affine_rows(a, i * BLOCK, i + 1 < blocks ? BLOCK : rows - i * BLOCK, scale_shift);
}

int cpu_batchnorm(struct stream *s, const struct batchnorm_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->x), c = a->x.dim[2], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, (size_t)(blocks + 2) * (size_t)(2 * c) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    float *scale_shift = partial + blocks * 2 * c, *pilot = scale_shift + 2 * c;
    memcpy(pilot, cf(&a->x), (size_t)c * sizeof *pilot); /* the first row is near enough to the mean to keep the squares small */
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        block_moments(cf(&a->x) + i * BLOCK * a->x.ld, a->x.ld, i + 1 < blocks ? BLOCK : rows - i * BLOCK, c, pilot,
                      partial + i * 2 * c);
    for (int64_t j = 0; j < c; j++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < blocks; i++) {
            sum += (double)partial[i * 2 * c + j];
            squares += (double)partial[i * 2 * c + c + j];
        }
        double mean = sum / (double)rows, var = squares / (double)rows - mean * mean;
        var = var > 0 ? var : 0;
        mean += (double)pilot[j];
        double rstd = 1.0 / sqrt(var + (double)a->eps), unbiased = rows > 1 ? var * (double)rows / (double)(rows - 1) : var;
        mf(&a->save_mean)[j] = (float)mean;
        mf(&a->save_rstd)[j] = (float)rstd;
        float *rm = mf(&a->running_mean) + j, *rv = mf(&a->running_var) + j;
        *rm += a->momentum * ((float)mean - *rm);
        *rv += a->momentum * ((float)unbiased - *rv);
        scale_shift[j] = (float)(rstd * (double)cf(&a->weight)[j]);
        scale_shift[c + j] = (float)((double)cf(&a->bias)[j] - mean * rstd * (double)cf(&a->weight)[j]);
    }
    apply_affine(a, scale_shift);
    return 0;
}

int cpu_batchnorm_inference(struct stream *s, const struct batchnorm_args *a, struct err *err) {
    int64_t c = a->x.dim[2];
    float *scale_shift = cpu_scratch(s, (size_t)(2 * c) * sizeof *scale_shift, err);
    if (!scale_shift)
        return ERR_EXHAUSTED;
    for (int64_t j = 0; j < c; j++) {
        double scale = (double)cf(&a->weight)[j] / sqrt((double)cf(&a->running_var)[j] + (double)a->eps);
        scale_shift[j] = (float)scale;
        scale_shift[c + j] = (float)((double)cf(&a->bias)[j] - (double)cf(&a->running_mean)[j] * scale);
    }
    apply_affine(a, scale_shift);
    return 0;
}

/* Sums of g and g·x̂ over a block; g = dy where the ReLU let through. */
CPU_CLONES static void block_gradient_sums(const struct batchnorm_backward_args *a, int64_t first, int64_t rows,
                                           float *restrict out) {
    int64_t c = a->x.dim[2];
    const float *restrict mean = cf(&a->save_mean), *restrict rstd = cf(&a->save_rstd);
    memset(out, 0, (size_t)(2 * c) * sizeof *out);
    for (int64_t r = first; r < first + rows; r++) {
        const float *x = cf(&a->x) + r * a->x.ld, *dy = cf(&a->dy) + r * a->dy.ld, *y = a->relu ? cf(&a->y) + r * a->y.ld : dy;
        for (int64_t i = 0; i < c; i++) {
            float g = !a->relu || y[i] > 0 ? dy[i] : 0.0f;
            out[i] += g;
            out[c + i] += g * (x[i] - mean[i]) * rstd[i];
        }
    }
}

/* dx = k0·(g − k1 − x̂·k2), with k0 = w·rstd, k1 = Σg/n, k2 = Σ(g·x̂)/n. */
CPU_CLONES static void block_dx(const struct batchnorm_backward_args *a, int64_t first, int64_t rows, const float *restrict k) {
    int64_t c = a->x.dim[2];
    const float *restrict mean = cf(&a->save_mean), *restrict rstd = cf(&a->save_rstd);
    for (int64_t r = first; r < first + rows; r++) {
        const float *x = cf(&a->x) + r * a->x.ld, *dy = cf(&a->dy) + r * a->dy.ld, *y = a->relu ? cf(&a->y) + r * a->y.ld : dy;
        float *dx = mf(&a->dx) + r * a->dx.ld;
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float g = !a->relu || y[i] > 0 ? dy[i] : 0.0f;
            dx[i] = k[i] * (g - k[c + i] - (x[i] - mean[i]) * rstd[i] * k[2 * c + i]);
        }
    }
}

int cpu_batchnorm_backward(struct stream *s, const struct batchnorm_backward_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->x), c = a->x.dim[2], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, ((size_t)blocks * 2 + 3) * (size_t)c * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    float *k = partial + blocks * 2 * c;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        block_gradient_sums(a, i * BLOCK, i + 1 < blocks ? BLOCK : rows - i * BLOCK, partial + i * 2 * c);
    for (int64_t j = 0; j < c; j++) {
        double sum = 0, dot = 0;
        for (int64_t i = 0; i < blocks; i++) {
            sum += (double)partial[i * 2 * c + j];
            dot += (double)partial[i * 2 * c + c + j];
        }
        mf(&a->dbias)[j] += (float)sum;
        mf(&a->dweight)[j] += (float)dot;
        k[j] = cf(&a->weight)[j] * cf(&a->save_rstd)[j];
        k[c + j] = (float)(sum / (double)rows);
        k[2 * c + j] = (float)(dot / (double)rows);
    }
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        block_dx(a, i * BLOCK, i + 1 < blocks ? BLOCK : rows - i * BLOCK, k);
    return 0;
}

/* Sum of n floats in 16 lanes, combined in a fixed order. */
static inline float lane_sum(const float lanes[16]) {
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = lanes[i] + lanes[i + 8];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

CPU_CLONES static void layernorm_row(const struct layernorm_args *a, int64_t row, const float *r, float stats[2]) {
    int64_t d = a->x.dim[2];
    const float *w = cf(&a->weight), *b = cf(&a->bias);
    float *y = mf(&a->y) + row * d;
    float lanes[16] = {0};
    int64_t i = 0;
    for (; i + 16 <= d; i += 16)
        for (int q = 0; q < 16; q++)
            lanes[q] += r[i + q];
    for (; i < d; i++)
        lanes[i % 16] += r[i];
    float mean = lane_sum(lanes) / (float)d;
    memset(lanes, 0, sizeof lanes);
    for (i = 0; i + 16 <= d; i += 16)
        for (int q = 0; q < 16; q++)
            lanes[q] += (r[i + q] - mean) * (r[i + q] - mean);
    for (; i < d; i++)
        lanes[i % 16] += (r[i] - mean) * (r[i] - mean);
    float rstd = 1.0f / __builtin_sqrtf(lane_sum(lanes) / (float)d + a->eps);
    for (i = 0; i < d; i++)
        y[i] = (r[i] - mean) * rstd * w[i] + b[i];
    stats[0] = mean;
    stats[1] = rstd;
}

int cpu_layernorm(struct stream *s, const struct layernorm_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->x), d = a->x.dim[2];
    bool keep = tensor_present(&a->sum);
    float *scratch = keep ? mf(&a->sum) : cpu_scratch(s, (size_t)(rows * d) * sizeof *scratch, err);
    if (!scratch)
        return ERR_EXHAUSTED;
#pragma omp parallel for schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        const float *x = cf(&a->x) + r * d, *res = tensor_present(&a->residual) ? cf(&a->residual) + r * d : NULL;
        float *sum = scratch + r * d, stats[2];
#pragma omp simd
        for (int64_t i = 0; i < d; i++)
            sum[i] = res ? x[i] + res[i] : x[i];
        layernorm_row(a, r, sum, stats);
        if (tensor_present(&a->save_mean))
            mf(&a->save_mean)[r] = stats[0];
        if (tensor_present(&a->save_rstd))
            mf(&a->save_rstd)[r] = stats[1];
    }
    return 0;
}

/* A block of rows: dx, and this block's share of dweight and dbias in out[0..d) and out[d..2d). */
CPU_CLONES static void layernorm_block(const struct layernorm_backward_args *a, int64_t first, int64_t rows, float *restrict out) {
    int64_t d = a->sum.dim[2];
    const float *restrict w = cf(&a->weight);
    memset(out, 0, (size_t)(2 * d) * sizeof *out);
    for (int64_t r = first; r < first + rows; r++) {
        const float *x = cf(&a->sum) + r * d, *dy = cf(&a->dy) + r * d;
        float *dx = mf(&a->dx) + r * d, mean = cf(&a->save_mean)[r], rstd = cf(&a->save_rstd)[r];
        float lanes[16] = {0}, dots[16] = {0};
        int64_t i = 0;
        for (; i + 16 <= d; i += 16)
            for (int q = 0; q < 16; q++) {
                float t = dy[i + q] * w[i + q];
                lanes[q] += t;
                dots[q] += t * (x[i + q] - mean) * rstd;
            }
        for (; i < d; i++) {
            float t = dy[i] * w[i];
            lanes[i % 16] += t;
            dots[i % 16] += t * (x[i] - mean) * rstd;
        }
        float m1 = lane_sum(lanes) / (float)d, m2 = lane_sum(dots) / (float)d;
#pragma omp simd
        for (i = 0; i < d; i++) {
            float hat = (x[i] - mean) * rstd, g = dy[i];
            out[i] += g * hat;
            out[d + i] += g;
            dx[i] = rstd * (g * w[i] - m1 - hat * m2);
        }
    }
}

/* dst[i] += Σ over blocks in order. */
static void add_blocks(float *dst, const float *partial, int64_t blocks, int64_t stride, int64_t n) {
    for (int64_t b = 0; b < blocks; b++)
        for (int64_t i = 0; i < n; i++)
            dst[i] += partial[b * stride + i];
}

int cpu_layernorm_backward(struct stream *s, const struct layernorm_backward_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->sum), d = a->sum.dim[2], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, (size_t)(blocks * 2 * d) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        layernorm_block(a, i * BLOCK, i + 1 < blocks ? BLOCK : rows - i * BLOCK, partial + i * 2 * d);
    add_blocks(mf(&a->dweight), partial, blocks, 2 * d, d);
    add_blocks(mf(&a->dbias), partial + d, blocks, 2 * d, d);
    return 0;
}
