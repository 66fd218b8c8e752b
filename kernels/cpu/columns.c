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

int cpu_column_sums(struct stream *s, const struct tensor *dy, const struct tensor *dbias, struct err *err) {
    enum { BLOCK = 512 };
    if (!tensor_present(dbias))
        return 0;
    int64_t rows = tensor_rows(dy), cols = dy->dim[dy->rank - 1], blocks = (rows + BLOCK - 1) / BLOCK;
    float *partial = cpu_scratch(s, (size_t)(blocks * cols) * sizeof *partial, err);
    if (!partial)
        return ERR_EXHAUSTED;
    memset(partial, 0, (size_t)(blocks * cols) * sizeof *partial);
#pragma omp parallel for num_threads(cpu_threads(s)) schedule(static)
    for (int64_t i = 0; i < blocks; i++)
        add_rows(dy, i * BLOCK, i + 1 < blocks ? BLOCK : rows - i * BLOCK, partial + i * cols);
    for (int64_t i = 0; i < blocks; i++)
        for (int64_t c = 0; c < cols; c++)
            mf(dbias)[c] += partial[i * cols + c];
    return 0;
}

float cpu_fill_rows(struct stream *s, const struct tensor *y, const struct tensor *bias) {
    if (!tensor_present(bias))
        return 0;
    int64_t rows = tensor_rows(y), cols = y->dim[y->rank - 1];
#pragma omp parallel for num_threads(cpu_threads(s)) schedule(static)
    for (int64_t r = 0; r < rows; r++)
        memcpy(mf(y) + r * y->ld, cf(bias), (size_t)cols * sizeof(float));
    return 1;
}
