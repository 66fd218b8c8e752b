#include "kernels/cpu/columns.h"

#include <string.h>

#include "kernels/cpu/bf16.h"

CPU_CLONES static void add_rows(const struct tensor *dy, int64_t first, int64_t rows, float *restrict out) {
    int64_t cols = dy->dim[dy->rank - 1];
    if (dy->dtype == DTYPE_BF16) {
        const uint16_t *from = (const uint16_t *)dy->data + first * dy->ld;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < cols; c++)
                out[c] += bf16_widen(from[r * dy->ld + c]);
        return;
    }
    const float *from = cf(dy) + first * dy->ld;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            out[c] += from[r * dy->ld + c];
}

enum { BLOCK = 512 };

struct column_work {
    const struct tensor *dy;
    float *partial; /* of each block */
};

static void sum_block(const void *ctx, int64_t i, int lane) {
    const struct column_work *w = ctx;
    int64_t left = tensor_rows(w->dy) - i * BLOCK;
    (void)lane;
    add_rows(w->dy, i * BLOCK, left < BLOCK ? left : BLOCK, w->partial + i * w->dy->dim[w->dy->rank - 1]);
}

int cpu_column_sums(struct stream *s, const struct tensor *dy, const struct tensor *dbias, struct err *err) {
    if (!tensor_present(dbias))
        return 0;
    int64_t rows = tensor_rows(dy), cols = dy->dim[dy->rank - 1], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, (size_t)(blocks * cols) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    memset(partial, 0, (size_t)(blocks * cols) * sizeof *partial);
    lanes_for(cpu_threads(s), blocks, sum_block, &(struct column_work){dy, partial});
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t c = 0; c < cols; c++)
            mf(dbias)[c] += partial[i * cols + c];
    return 0;
}

struct fill_work {
    const struct tensor *y, *bias;
};

static void fill_row(const void *ctx, int64_t r, int lane) {
    const struct fill_work *w = ctx;
    (void)lane;
    memcpy(mf(w->y) + r * w->y->ld, cf(w->bias), (size_t)w->y->dim[w->y->rank - 1] * sizeof(float));
}

float cpu_fill_rows(struct stream *s, const struct tensor *y, const struct tensor *bias) {
    if (!tensor_present(bias))
        return 0;
    lanes_for(cpu_threads(s), tensor_rows(y), fill_row, &(struct fill_work){y, bias});
    return 1;
}
