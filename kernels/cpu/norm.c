/* Batch and layer norm. Column statistics: blocks of BLOCK rows summed in float lanes around a pilot value, blocks added
 * in order in double, so that results depend on neither threads nor block scheduling. */
#include <math.h>
#include <string.h>

#include "kernels/cpu/bf16.h"
#include "kernels/cpu/cpu.h"

enum { BLOCK = 256, SMALL_BLOCK = 16 };

/* Float rows for bf16 activations: ROW_BUFFERS of each lane, behind what an op keeps in scratch. */
enum { ROW_BUFFERS = 4 };

/* What an op's passes over blocks of rows share. */
struct norm_work {
    const void *args; /* the op's */
    float *partial;   /* two rows of sums of each block */
    float *factors;   /* rows: scale and shift, or those of dx */
    float *pilot, *buffers;
    int64_t channels, rows;
};

static size_t row_buffer_floats(struct stream *s, const struct tensor *x, int64_t c) {
    return x->dtype == DTYPE_BF16 ? (size_t)(cpu_threads(s) * ROW_BUFFERS) * (size_t)c : 0;
}

static float *row_buffer(const struct norm_work *w, int lane, int which) {
    return w->buffers + (lane * ROW_BUFFERS + which) * w->channels;
}

/* The row behind block i of `each` rows. */
static int64_t block_end(const struct norm_work *w, int64_t i, int64_t each) {
    return (i + 1) * each < w->rows ? (i + 1) * each : w->rows;
}

/* Of block b's rows: partial[0..c) = Σ (x − pilot), partial[c..2c) = Σ (x − pilot)². */
CPU_CLONES static void block_moments(const void *ctx, int64_t b, int lane) {
    const struct norm_work *w = ctx;
    const struct tensor *x = &((const struct batchnorm_args *)w->args)->x;
    const int64_t c = w->channels, end = block_end(w, b, BLOCK);
    const float *restrict pilot = w->pilot;
    float *restrict out = w->partial + b * 2 * c, *buffer = row_buffer(w, lane, 0);
    memset(out, 0, (size_t)(2 * c) * sizeof *out);
    for (int64_t r = b * BLOCK; r < end; r++) {
        const float *row = act_in(x, r * x->ld, c, buffer);
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float d = row[i] - pilot[i];
            out[i] += d;
            out[c + i] += d * d;
        }
    }
}

/* y = x·scale + shift (factors[0..c), [c..2c)) on block b, ReLU where asked. */
CPU_CLONES static void affine_rows(const void *ctx, int64_t b, int lane) {
    const struct norm_work *w = ctx;
    const struct batchnorm_args *a = w->args;
    const int64_t c = w->channels, end = block_end(w, b, BLOCK);
    const float *restrict scale = w->factors, *restrict shift = w->factors + c;
    float floor = a->relu ? 0.0f : -INFINITY, *in = row_buffer(w, lane, 0), *out = row_buffer(w, lane, 1);
    for (int64_t r = b * BLOCK; r < end; r++) {
        const float *x = act_in(&a->x, r * a->x.ld, c, in);
        float *y = act_out(&a->y, r * a->y.ld, out);
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float v = x[i] * scale[i] + shift[i];
            y[i] = v > floor ? v : floor;
        }
        act_put(&a->y, r * a->y.ld, c, out);
    }
}

static inline void move_running(float *running, float leaf, float momentum) { *running += momentum * (leaf - *running); }

int cpu_running_statistics(struct stream *s, const struct running_statistics_args *a, struct err *err) {
    (void)s, (void)err;
    int64_t n = a->running.dim[0];
    for (int64_t v = 0; v < a->leaves.dim[0]; v++)
        for (int64_t i = 0; i < n; i++)
            if (isfinite(cf(&a->leaves)[v * n + i]))
                move_running(mf(&a->running) + i, cf(&a->leaves)[v * n + i], a->momentum);
    return 0;
}

int cpu_batchnorm(struct stream *s, const struct batchnorm_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->x), c = a->x.dim[2], blocks = (rows + BLOCK - 1) / BLOCK;
    size_t floats = (size_t)(blocks + 2) * (size_t)(2 * c);
    float *partial = cpu_scratch(s, (floats + row_buffer_floats(s, &a->x, c)) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    float *scale_shift = partial + blocks * 2 * c, *pilot = scale_shift + 2 * c;
    const struct norm_work w = {a, partial, scale_shift, pilot, partial + floats, c, rows};
    memmove(pilot, act_in(&a->x, 0, c, pilot),
            (size_t)c * sizeof *pilot); /* the first row is near enough to the mean to keep the squares small */
    lanes_for(cpu_threads(s), blocks, block_moments, &w);
    for (int64_t j = 0; j < c; j++) {
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < blocks; i++) {
            sum += (double)partial[i * 2 * c + j];
            squares += (double)partial[i * 2 * c + c + j];
        }
        double mean = sum / (double)rows, var = squares / (double)rows - mean * mean;
        var = var > 0 ? var : 0;
        mean += (double)pilot[j];
        double rstd = 1.0 / sqrt(var + (double)a->eps);
        float batch_mean = (float)mean, unbiased = (float)(rows > 1 ? var * (double)rows / (double)(rows - 1) : var);
        mf(&a->save_mean)[j] = batch_mean;
        mf(&a->save_rstd)[j] = (float)rstd;
        bool finite = isfinite(batch_mean) && isfinite(unbiased); /* the step is skipped otherwise, and must leave no trace */
        if (tensor_present(&a->leaf_mean)) {
            mf(&a->leaf_mean)[j] = finite ? batch_mean : NAN;
            mf(&a->leaf_var)[j] = finite ? unbiased : NAN;
        } else if (finite) {
            move_running(mf(&a->running_mean) + j, batch_mean, a->momentum);
            move_running(mf(&a->running_var) + j, unbiased, a->momentum);
        }
        scale_shift[j] = (float)(rstd * (double)cf(&a->weight)[j]);
        scale_shift[c + j] = (float)((double)cf(&a->bias)[j] - mean * rstd * (double)cf(&a->weight)[j]);
    }
    lanes_for(cpu_threads(s), blocks, affine_rows, &w);
    return 0;
}

/* Inputs of the gradients of a row; y is only read with a ReLU. */
struct gradient_row {
    const float *x, *dy, *y;
};

static inline struct gradient_row gradient_row_at(const struct batchnorm_backward_args *a, int64_t r, float *buffers) {
    int64_t c = a->x.dim[2];
    struct gradient_row g = {.x = act_in(&a->x, r * a->x.ld, c, buffers), .dy = act_in(&a->dy, r * a->dy.ld, c, buffers + c)};
    g.y = a->relu ? act_in(&a->y, r * a->y.ld, c, buffers + 2 * c) : g.dy;
    return g;
}

/* Sums of g and g·x̂ over block b; g = dy where the ReLU let through. */
CPU_CLONES static void block_gradient_sums(const void *ctx, int64_t b, int lane) {
    const struct norm_work *w = ctx;
    const struct batchnorm_backward_args *a = w->args;
    const int64_t c = w->channels, end = block_end(w, b, BLOCK);
    const float *restrict mean = cf(&a->save_mean), *restrict rstd = cf(&a->save_rstd);
    float *restrict out = w->partial + b * 2 * c;
    memset(out, 0, (size_t)(2 * c) * sizeof *out);
    for (int64_t r = b * BLOCK; r < end; r++) {
        struct gradient_row q = gradient_row_at(a, r, row_buffer(w, lane, 0));
        const float *x = q.x, *dy = q.dy, *y = q.y;
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float g = !a->relu || y[i] > 0 ? dy[i] : 0.0f;
            out[i] += g;
            out[c + i] += g * (x[i] - mean[i]) * rstd[i];
        }
    }
}

/* dx = k0·(g − k1 − x̂·k2), with k0 = w·rstd, k1 = Σg/n, k2 = Σ(g·x̂)/n. */
CPU_CLONES static void block_dx(const void *ctx, int64_t b, int lane) {
    const struct norm_work *w = ctx;
    const struct batchnorm_backward_args *a = w->args;
    const int64_t c = w->channels, end = block_end(w, b, BLOCK);
    const float *restrict mean = cf(&a->save_mean), *restrict rstd = cf(&a->save_rstd), *restrict k = w->factors;
    float *out = row_buffer(w, lane, 3);
    for (int64_t r = b * BLOCK; r < end; r++) {
        struct gradient_row q = gradient_row_at(a, r, row_buffer(w, lane, 0));
        const float *x = q.x, *dy = q.dy, *y = q.y;
        float *dx = act_out(&a->dx, r * a->dx.ld, out);
#pragma omp simd
        for (int64_t i = 0; i < c; i++) {
            float g = !a->relu || y[i] > 0 ? dy[i] : 0.0f;
            dx[i] = k[i] * (g - k[c + i] - (x[i] - mean[i]) * rstd[i] * k[2 * c + i]);
        }
        act_put(&a->dx, r * a->dx.ld, c, out);
    }
}

int cpu_batchnorm_backward(struct stream *s, const struct batchnorm_backward_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->x), c = a->x.dim[2], blocks = (rows + BLOCK - 1) / BLOCK;
    size_t floats = ((size_t)blocks * 2 + 3) * (size_t)c;
    float *partial = cpu_scratch(s, (floats + row_buffer_floats(s, &a->x, c)) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    float *k = partial + blocks * 2 * c;
    const struct norm_work w = {a, partial, k, NULL, partial + floats, c, rows};
    lanes_for(cpu_threads(s), blocks, block_gradient_sums, &w);
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
    lanes_for(cpu_threads(s), blocks, block_dx, &w);
    return 0;
}

/* Sum of n floats in 16 lanes, combined in a fixed order. */
static inline float lane_sum(const float lanes[16]) {
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = lanes[i] + lanes[i + 8];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

CPU_CLONES static void layernorm_row(const struct layernorm_args *a, const float *r, float *y, float stats[2]) {
    int64_t d = a->x.dim[2];
    const float *w = cf(&a->weight), *b = cf(&a->bias);
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

CPU_CLONES static void layernorm_block(const void *ctx, int64_t block, int lane) {
    const struct norm_work *w = ctx;
    const struct layernorm_args *a = w->args;
    const int64_t d = w->channels, end = block_end(w, block, SMALL_BLOCK);
    const bool keep = tensor_present(&a->sum);
    float *buffers = row_buffer(w, lane, 0);
    for (int64_t r = block * SMALL_BLOCK; r < end; r++) {
        const float *x = act_in(&a->x, r * d, d, buffers);
        const float *res = tensor_present(&a->residual) ? act_in(&a->residual, r * d, d, buffers + d) : NULL;
        float *sum = keep ? act_out(&a->sum, r * d, buffers + 2 * d) : buffers + 2 * d, stats[2];
        float *y = act_out(&a->y, r * d, buffers + 3 * d);
#pragma omp simd
        for (int64_t i = 0; i < d; i++)
            sum[i] = res ? x[i] + res[i] : x[i];
        layernorm_row(a, sum, y, stats);
        if (keep)
            act_put(&a->sum, r * d, d, sum);
        act_put(&a->y, r * d, d, y);
        if (tensor_present(&a->save_mean))
            mf(&a->save_mean)[r] = stats[0];
        if (tensor_present(&a->save_rstd))
            mf(&a->save_rstd)[r] = stats[1];
    }
}

int cpu_layernorm(struct stream *s, const struct layernorm_args *a, struct err *err) {
    int64_t rows = tensor_rows(&a->x), d = a->x.dim[2], blocks = (rows + SMALL_BLOCK - 1) / SMALL_BLOCK;
    struct norm_work w = {.args = a, .channels = d, .rows = rows};
    w.buffers = cpu_scratch(s, (size_t)(cpu_threads(s) * ROW_BUFFERS) * (size_t)d * sizeof(float), err);
    if (!w.buffers)
        return ERR_EXHAUSTED;
    lanes_for(cpu_threads(s), blocks, layernorm_block, &w);
    return 0;
}

/* Block b: dx, and its share of dweight and dbias in partial[0..d) and partial[d..2d). */
CPU_CLONES static void layernorm_gradient_block(const void *ctx, int64_t b, int lane) {
    const struct norm_work *work = ctx;
    const struct layernorm_backward_args *a = work->args;
    const int64_t d = work->channels, end = block_end(work, b, BLOCK);
    const float *restrict w = cf(&a->weight);
    float *restrict out = work->partial + b * 2 * d, *buffers = row_buffer(work, lane, 0);
    memset(out, 0, (size_t)(2 * d) * sizeof *out);
    for (int64_t r = b * BLOCK; r < end; r++) {
        const float *x = act_in(&a->sum, r * d, d, buffers), *dy = act_in(&a->dy, r * d, d, buffers + d);
        float *dx = act_out(&a->dx, r * d, buffers + 2 * d), mean = cf(&a->save_mean)[r], rstd = cf(&a->save_rstd)[r];
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
        act_put(&a->dx, r * d, d, dx);
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
    size_t floats = (size_t)(blocks * 2 * d);
    float *partial = cpu_scratch(s, (floats + row_buffer_floats(s, &a->sum, d)) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    const struct norm_work w = {a, partial, NULL, NULL, partial + floats, d, rows};
    lanes_for(cpu_threads(s), blocks, layernorm_gradient_block, &w);
    add_blocks(mf(&a->dweight), partial, blocks, 2 * d, d);
    add_blocks(mf(&a->dbias), partial + d, blocks, 2 * d, d);
    return 0;
}
