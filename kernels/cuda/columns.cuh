/* columns: sums down the rows of a (rows, cols) matrix, in two fixed steps: shares of stretches of rows in F32, added in order in
 * double. What is summed at an element is one of a few terms, two sums at a time. Internal to kernels/cuda. */
#ifndef BRR_KERNELS_CUDA_COLUMNS_CUH
#define BRR_KERNELS_CUDA_COLUMNS_CUH
#include "kernels/cuda/cuda.cuh"

enum column_term {
    COLUMN_PLAIN,     /* x */
    COLUMN_MOMENTS,   /* d = x − pilot; d² (pilot: row 0 of x) */
    COLUMN_BATCHNORM, /* g; g·x̂, statistics per column; with y present g = 0 where y ≤ 0 */
    COLUMN_LAYERNORM, /* g·x̂; g, statistics per row */
    COLUMN_RMSNORM,   /* g·x·silu(y)·rstd, statistics per row and column group */
};

struct columns {
    enum column_term term;
    int64_t rows, cols, groups;
    struct act x, y, g;
    const float *mean, *rstd;
    int64_t stretch, stretches; /* rows of a share, shares; set by cuda_columns_size */
    float *shares;              /* (stretches, 2, cols) */
};

/* Sets the shares' number and returns the bytes they need. */
size_t cuda_columns_size(struct columns *c);
/* Fills c->shares. */
void cuda_columns_run(struct stream *s, const struct columns *c);
/* to0 += first sums, to1 += second; either may be NULL. */
void cuda_columns_add(struct stream *s, const struct columns *c, float *to0, float *to1);
/* dbias += column sums of dy. Uses the stream's scratch. */
int cuda_column_sums(struct stream *s, const struct tensor *dy, float *dbias, struct err *err);

static __device__ inline double columns_total(const struct columns &c, int64_t col, int which) {
    double sum = 0;
#pragma unroll 16 /* few threads do this: their loads must overlap */
    for (int64_t i = 0; i < c.stretches; i++)
        sum += (double)c.shares[(2 * i + which) * c.cols + col];
    return sum;
}

#endif
