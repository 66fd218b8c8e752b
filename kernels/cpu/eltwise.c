#include <string.h>

#include "base/rng.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vmath.h"

/* One row of an element-wise op; b may be NULL for the one-operand kinds. */
CPU_CLONES static void eltwise_row(enum eltwise_kind kind, const float *a, const float *b, float *y, int64_t n, float alpha) {
    switch (kind) {
    case ELTWISE_COPY:
        memmove(y, a, (size_t)n * sizeof *y);
        break;
    case ELTWISE_ADD:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] + b[i];
        break;
    case ELTWISE_ADD_RELU:
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float v = a[i] + b[i];
            y[i] = v > 0 ? v : 0;
        }
        break;
    case ELTWISE_RELU:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = a[i] > 0 ? a[i] : 0;
        break;
    case ELTWISE_RELU_BACKWARD:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = b[i] > 0 ? a[i] : 0;
        break;
    case ELTWISE_SCALE:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = alpha * a[i];
        break;
    case ELTWISE_FILL:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = alpha;
        break;
    case ELTWISE_NEG_EXP:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = -vm_exp(a[i]);
        break;
    case ELTWISE_MUL_ADD:
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] += a[i] * b[i];
        break;
    }
}

int cpu_eltwise(struct stream *s, const struct eltwise_args *a, struct err *err) {
    (void)s, (void)err;
    int64_t cols = a->y.dim[a->y.rank - 1], rows = tensor_count(&a->y) / cols;
#pragma omp parallel for schedule(static) if (rows * cols > 16384)
    for (int64_t r = 0; r < rows; r++) {
        const float *x = tensor_present(&a->a) ? cf(&a->a) + r * a->a.ld : NULL;
        const float *b = tensor_present(&a->b) ? cf(&a->b) + r * a->b.ld : NULL;
        eltwise_row(a->kind, x, b, mf(&a->y) + r * a->y.ld, cols, a->alpha);
    }
    return 0;
}

/* keep with probability 1 − p: uniform in [0,1) from element n of the batch row's own draw sequence. */
static float keep_scale(const struct dropout_args *a, uint64_t n, float scale) {
    struct rng_block block = rng_philox(a->seed, a->rng_stream, a->step, n / 4);
    return rng_unit_f32(block.v[n % 4]) >= a->p ? scale : 0.0f;
}

int cpu_dropout(struct stream *s, const struct dropout_args *a, struct err *err) {
    (void)s, (void)err;
    int64_t b = a->x.dim[0], t = a->x.dim[1], c = a->x.dim[2];
    float scale = 1.0f / (1.0f - a->p);
    if (a->p == 0) {
        memmove(mf(&a->y), cf(&a->x), (size_t)(b * t * c) * sizeof(float));
        return 0;
    }
#pragma omp parallel for collapse(2) schedule(static)
    for (int64_t i = 0; i < b; i++)
        for (int64_t r = 0; r < t; r++) {
            const float *x = cf(&a->x) + (i * t + r) * c;
            float *y = mf(&a->y) + (i * t + r) * c;
            uint64_t base =
                (uint64_t)(a->row0 + i) * (uint64_t)(a->per_channel ? c : t * c) + (a->per_channel ? 0 : (uint64_t)(r * c));
            if (base % 4 == 0 && c % 4 == 0) {
                for (int64_t j = 0; j < c; j += 4) {
                    struct rng_block block = rng_philox(a->seed, a->rng_stream, a->step, (base + (uint64_t)j) / 4);
                    for (int q = 0; q < 4; q++)
                        y[j + q] = rng_unit_f32(block.v[q]) >= a->p ? x[j + q] * scale : 0.0f;
                }
            } else {
                for (int64_t j = 0; j < c; j++)
                    y[j] = x[j] * keep_scale(a, base + (uint64_t)j, scale);
            }
        }
    return 0;
}

CPU_CLONES static void sigmoid_row(const float *x, float *y, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        y[i] = vm_sigmoid(x[i]);
}

int cpu_sigmoid(struct stream *s, const struct sigmoid_args *a, struct err *err) {
    (void)s, (void)err;
    for (int64_t r = 0; r < a->x.dim[0]; r++)
        sigmoid_row(cf(&a->x) + r * a->x.dim[1], mf(&a->y) + r * a->x.dim[1], a->x.dim[1]);
    return 0;
}
