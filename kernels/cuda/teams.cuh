/* teams: a team of T threads takes a row of activations, a piece of 16 bytes for each thread. The teams of a block walk down a
 * stretch of rows together, so that sums down the columns stay in registers while the rows are read once. Internal to kernels/cuda.
 */
#pragma once
#include "kernels/cuda/columns.cuh"
#include "kernels/cuda/rows.cuh"

enum {
    TEAM_THREADS = 128,                 /* of a block */
    TEAM_BLOCKS = 5,                    /* at once on a multiprocessor */
    TEAM_STRETCHES = TEAM_BLOCKS * 132, /* one wave of an H100 or H200 */
    TEAM_SHORTEST = 8
};

/* Threads of a team for rows of `cols` elements: 32, 64 or 128; 0 where such a row does not fit. */
static inline int team_threads(int64_t cols, bool bf16) {
    int64_t each = bf16 ? 8 : 4, threads = 32;
    while (threads * each < cols)
        threads *= 2;
    return cols % each || threads > TEAM_THREADS ? 0 : (int)threads;
}
/* Like cuda_columns_size: sets the shares' number, one for each block of a column group, and returns the bytes they need. */
static inline size_t team_stretches(struct columns *c) {
    int64_t stretch = cuda_ceil(c->rows, TEAM_STRETCHES);
    c->stretch = stretch < TEAM_SHORTEST ? (int64_t)TEAM_SHORTEST : stretch;
    c->stretches = cuda_ceil(c->rows, c->stretch);
    return (size_t)(c->stretches * 2 * c->cols) * sizeof(float);
}

/* Where piece `col` of a row begins, in elements. Counted in pieces, in 32 bits: see team_fits. */
template <bool BF16> static __device__ inline int64_t team_at(const struct act &a, uint32_t row, uint32_t col) {
    return (int64_t)(row * (uint32_t)(a.ld / wide<BF16>::N) + col) * wide<BF16>::N;
}
static inline bool team_fits(const struct act &a, int64_t rows) { return rows * (a.ld / (a.bf16 ? 8 : 4)) < (int64_t)1 << 31; }

/* W values from shared memory, in pieces of 16 bytes. */
template <int W> static __device__ inline void team_columns(const float4 *from, float (&ret)[W]) {
#pragma unroll
    for (int i = 0; i < W; i += 4) {
        float4 f = from[i / 4];
        ret[i] = f.x;
        ret[i + 1] = f.y;
        ret[i + 2] = f.z;
        ret[i + 3] = f.w;
    }
}

/* The sum over the team, in a fixed tree; every thread gets it. All threads of the block call it; calls take turns with two rooms,
 * so that one barrier a call is enough. */
template <int T> static __device__ inline float team_sum(float v, float (&room)[TEAM_THREADS / 32]) {
    v = warp_sum(v);
    if (T == 32)
        return v;
    if (threadIdx.x % 32 == 0)
        room[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0;
#pragma unroll
    for (int i = 0; i < T / 32; i++)
        total += room[threadIdx.x / T * (T / 32) + i];
    return total;
}

/* The sums of a thread's columns, added over the teams of the block in order, to the block's share. All threads call it. `cols`: of
 * the team's row, which begins at column `first`. */
template <int T, int W>
static __device__ inline void team_share(const struct columns &c, int which, int64_t first, int64_t cols, const float (&sum)[W],
                                         float (&room)[TEAM_THREADS * W]) {
    __syncthreads();
#pragma unroll
    for (int i = 0; i < W; i++)
        room[threadIdx.x * W + i] = sum[i];
    __syncthreads();
    for (int64_t col = threadIdx.x; col < cols; col += TEAM_THREADS) {
        float total = 0;
        for (int team = 0; team < TEAM_THREADS / T; team++)
            total += room[team * T * W + col];
        c.shares[(2 * (int64_t)blockIdx.x + which) * c.cols + first + col] = total;
    }
}

/* Calls LAUNCH(BF16, T) for the row's type and the team's threads. */
#define TEAM_LAUNCH(bf16, threads, LAUNCH)                                                                                         \
    do {                                                                                                                           \
        if (bf16 && threads == 32)                                                                                                 \
            LAUNCH(true, 32);                                                                                                      \
        else if (bf16 && threads == 64)                                                                                            \
            LAUNCH(true, 64);                                                                                                      \
        else if (bf16)                                                                                                             \
            LAUNCH(true, 128);                                                                                                     \
        else if (threads == 32)                                                                                                    \
            LAUNCH(false, 32);                                                                                                     \
        else if (threads == 64)                                                                                                    \
            LAUNCH(false, 64);                                                                                                     \
        else                                                                                                                       \
            LAUNCH(false, 128);                                                                                                    \
    } while (0)
