#include <string.h>

#include "base/philox.h"
#include "base/rng.h"
#include "kernels/cpu/bf16.h"
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

/* One row of bf16 (or of mixed types), piece by piece through floats. */
CPU_CLONES static void eltwise_row_mixed(const struct eltwise_args *args, int64_t r, int64_t n) {
    enum { PIECE = 256 };
    float a[PIECE], b[PIECE], y[PIECE];
    const struct tensor *ta = &args->a, *tb = &args->b, *ty = &args->y;
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = n - i < PIECE ? n - i : PIECE, at = r * ty->ld + i;
        const float *x = tensor_present(ta) ? act_in(ta, r * ta->ld + i, count, a) : NULL;
        const float *z = tensor_present(tb) ? act_in(tb, r * tb->ld + i, count, b) : NULL;
        float *out = act_out(ty, at, y);
        if (args->kind == ELTWISE_MUL_ADD)
            act_in(ty, at, count, y);
        eltwise_row(args->kind, x, z, out, count, args->alpha);
        act_put(ty, at, count, y);
    }
}

static bool is_bf16(const struct tensor *t) { return tensor_present(t) && t->dtype == DTYPE_BF16; }

static void eltwise_item(const void *ctx, int64_t r, int lane) {
    const struct eltwise_args *a = ctx;
    int64_t cols = a->y.dim[a->y.rank - 1];
    (void)lane;
    if (is_bf16(&a->y) || is_bf16(&a->a)) {
        eltwise_row_mixed(a, r, cols);
        return;
    }
    const float *x = tensor_present(&a->a) ? cf(&a->a) + r * a->a.ld : NULL;
    const float *b = tensor_present(&a->b) ? cf(&a->b) + r * a->b.ld : NULL;
    eltwise_row(a->kind, x, b, mf(&a->y) + r * a->y.ld, cols, a->alpha);
}

int cpu_eltwise(struct stream *s, const struct eltwise_args *a, struct err *err) {
    (void)err;
    int64_t count = tensor_count(&a->y);
    lanes_for(count > 16384 ? cpu_threads(s) : 1, count / a->y.dim[a->y.rank - 1], eltwise_item, a);
    return 0;
}

enum { PIECE = 256 }; /* elements of a row that are dropped at once */

/* Element n of a batch row's own draw sequence is word n % 4 of block n / 4: the words of `blocks` blocks from `first` on. */
CPU_CLONES static void draw_words(const struct dropout_args *a, uint32_t step, uint64_t first, int blocks, uint32_t *words) {
    const uint64_t seed = a->seed;
    const uint32_t stream = a->rng_stream;
#pragma omp simd
    for (int i = 0; i < blocks; i++) {
        uint32_t c[4];
        philox(seed, stream, step, first + (uint64_t)i, c);
        words[4 * i] = c[0];
        words[4 * i + 1] = c[1];
        words[4 * i + 2] = c[2];
        words[4 * i + 3] = c[3];
    }
}

/* y = x·mask of n elements, which keeps with probability 1 − p. */
CPU_CLONES static void drop_words(const float *x, float *y, const uint32_t *words, int64_t n, float p) {
    const float scale = 1.0f / (1.0f - p);
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        y[j] = x[j] * (rng_unit_f32(words[j]) >= p ? scale : 0.0f);
}

static void dropout_row(const void *ctx, int64_t row, int lane) {
    const struct dropout_args *a = ctx;
    int64_t t = a->x.dim[1], c = a->x.dim[2], i = row / t, r = row % t, row0 = a->place ? a->place->row0 : a->row0;
    uint64_t base = (uint64_t)(row0 + i) * (uint64_t)(a->per_channel ? c : t * c) + (a->per_channel ? 0 : (uint64_t)(r * c));
    (void)lane;
    for (int64_t j = 0; j < c; j += PIECE, base += PIECE) {
        float x[PIECE], y[PIECE];
        uint32_t words[PIECE + 8], lead = base % 4;
        int64_t n = c - j < PIECE ? c - j : PIECE, at = row * c + j;
        draw_words(a, a->place ? a->place->step : a->step, base / 4, (int)((lead + n + 3) / 4), words);
        drop_words(act_in(&a->x, at, n, x), act_out(&a->y, at, y), words + lead, n, a->p);
        act_put(&a->y, at, n, y);
    }
}

int cpu_dropout(struct stream *s, const struct dropout_args *a, struct err *err) {
    (void)err;
    if (a->p == 0)
        memmove(a->y.data, a->x.data, (size_t)tensor_count(&a->x) * dtype_bytes(a->x.dtype));
    else
        lanes_for(cpu_threads(s), a->x.dim[0] * a->x.dim[1], dropout_row, a);
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
