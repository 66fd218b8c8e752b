#include "kernels/cpu/columns.h"

#include <string.h>

#include "kernels/cpu/bf16.h"

enum { BLOCK = 512 };

struct column_work {
    const struct tensor *rows, *bias;
    float *partial; /* of each block */
};

CPU_CLONES static void sum_block(const void *ctx, int64_t block, int lane) {
    const struct column_work *w = ctx;
    const struct tensor *dy = w->rows;
    const int64_t cols = dy->dim[dy->rank - 1], first = block * BLOCK, left = tensor_rows(dy) - first;
    float *restrict out = w->partial + block * cols;
    (void)lane;
    if (dy->dtype == DTYPE_BF16) {
        const uint16_t *from = (const uint16_t *)dy->data + first * dy->ld;
        for (int64_t r = 0; r < BLOCK && r < left; r++)
#pragma omp simd
            for (int64_t c = 0; c < cols; c++)
                out[c] += bf16_widen(from[r * dy->ld + c]);
        return;
    }
    const float *from = cf(dy) + first * dy->ld;
    for (int64_t r = 0; r < BLOCK && r < left; r++)
#pragma omp simd
        for (int64_t c = 0; c < cols; c++)
            out[c] += from[r * dy->ld + c];
}

int cpu_column_sums(struct stream *s, const struct tensor *dy, const struct tensor *dbias, struct err *err) {
    if (!tensor_present(dbias))
        return 0;
    int64_t rows = tensor_rows(dy), cols = dy->dim[dy->rank - 1], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, (size_t)(blocks * cols) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    memset(partial, 0, (size_t)(blocks * cols) * sizeof *partial);
    lanes_for(cpu_threads(s), blocks, sum_block, &(struct column_work){dy, dbias, partial});
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t c = 0; c < cols; c++)
            mf(dbias)[c] += partial[i * cols + c];
    return 0;
}

static void fill_block(const void *ctx, int64_t block, int lane) {
    const struct column_work *w = ctx;
    const int64_t cols = w->rows->dim[w->rows->rank - 1], first = block * BLOCK, left = tensor_rows(w->rows) - first;
    (void)lane;
    for (int64_t r = first; r < first + BLOCK && r < first + left; r++)
        memcpy(mf(w->rows) + r * w->rows->ld, cf(w->bias), (size_t)cols * sizeof(float));
}

float cpu_fill_rows(struct stream *s, const struct tensor *y, const struct tensor *bias) {
    if (!tensor_present(bias))
        return 0;
    lanes_for(cpu_threads(s), (tensor_rows(y) + BLOCK - 1) / BLOCK, fill_block, &(struct column_work){y, bias, NULL});
    return 1;
}
