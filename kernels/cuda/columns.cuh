/* columns: sums down the rows of a (rows, cols) matrix, in two fixed steps: shares of stretches of rows in F32, added in order in
 * double. What is summed at an element is one of a few terms, two sums at a time. Internal to kernels/cuda. */
#pragma once
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

/* The sums of the shares, by blocks of COLUMN_WIDE columns, few so that there are many blocks, and COLUMN_DEEP threads for each: a
 * thread adds every COLUMN_DEEP-th share in order, then the threads' sums are added top to bottom. */
enum { COLUMN_WIDE = 8, COLUMN_DEEP = 32, COLUMN_THREADS = COLUMN_WIDE * COLUMN_DEEP };
struct column_room {
    double sums[2][COLUMN_DEEP][COLUMN_WIDE];
};
static inline unsigned columns_total_blocks(int64_t cols) { return (unsigned)cuda_ceil(cols, COLUMN_WIDE); }
/* Both sums of this thread's column, or the first and 0; true in the one thread of each column that goes on with them. All threads
 * call it, once. */
static __device__ inline bool columns_totals(const struct columns &c, struct column_room *room, bool both, int64_t *ret_col,
                                             double *ret_first, double *ret_second) {
    int x = (int)threadIdx.x % COLUMN_WIDE, y = (int)threadIdx.x / COLUMN_WIDE;
    int64_t col = (int64_t)blockIdx.x * COLUMN_WIDE + x;
    double first = 0, second = 0;
    if (col < c.cols) {
        const float *at = c.shares + 2 * y * c.cols + col;
#pragma unroll 8
        for (int64_t i = y; i < c.stretches; i += COLUMN_DEEP, at += 2 * COLUMN_DEEP * c.cols) {
            first += (double)at[0];
            if (both)
                second += (double)at[c.cols];
        }
    }
    room->sums[0][y][x] = first;
    room->sums[1][y][x] = second;
    __syncthreads();
    if (y > 0 || col >= c.cols)
        return false;
    *ret_col = col;
    *ret_first = *ret_second = 0;
    for (int i = 0; i < COLUMN_DEEP; i++) {
        *ret_first += room->sums[0][i][x];
        *ret_second += room->sums[1][i][x];
    }
    return true;
}
