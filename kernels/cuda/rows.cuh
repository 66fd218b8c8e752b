/* rows: a warp takes a row of activations in 16-byte pieces and keeps it in registers, so that norms read each value once. Piece k
 * of a lane begins at column (k·32 + lane)·WIDE; sums over the warp go through a butterfly. Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/vector.cuh"

enum {
    ROW_THREADS = 128,
    ROW_WARPS = ROW_THREADS / 32,
    ROW_MOST = 32 /* values of a lane, which has registers for a few such rows */
};

/* Pieces of a lane for rows of `cols` elements: 1, 2, 4 or (F32) 8; 0 where they do not fit. */
static inline int row_pieces(int64_t cols, bool bf16) {
    int64_t each = bf16 ? 8 : 4, need = cuda_ceil(cols, 32 * each);
    int pieces = 1;
    while (pieces < need)
        pieces *= 2;
    return cols % each || pieces * each > ROW_MOST ? 0 : pieces;
}
static inline unsigned row_blocks(int64_t rows) { return (unsigned)cuda_ceil(rows, ROW_WARPS); }

static __device__ inline int64_t row_of_warp(void) { return (int64_t)blockIdx.x * ROW_WARPS + threadIdx.x / 32; }

static __device__ inline float warp_sum(float v) {
#pragma unroll
    for (int mask = 16; mask > 0; mask /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, mask);
    return v;
}

template <bool BF16, int P> struct row_part {
    static constexpr int W = wide<BF16>::N;
    float v[P][W];

    static __device__ int column(int k) { return (k * 32 + (int)(threadIdx.x % 32)) * W; }
    /* Zeros beyond cols, and for a row that does not exist. */
    __device__ void load(struct act a, int64_t row, int64_t first, int64_t cols, bool real) {
        wide<BF16> piece[P];
#pragma unroll
        for (int k = 0; k < P; k++)
            if (real && column(k) < cols)
                piece[k].load(a.data, row * a.ld + first + column(k));
#pragma unroll
        for (int k = 0; k < P; k++)
            piece[k].get(v[k]);
    }
    __device__ void store(struct act a, int64_t row, int64_t first, int64_t cols, bool real) const {
#pragma unroll
        for (int k = 0; k < P; k++) {
            wide<BF16> piece;
            piece.put(v[k]);
            if (real && column(k) < cols)
                piece.store(a.data, row * a.ld + first + column(k));
        }
    }
    /* F32 values that belong to the columns. */
    __device__ void load_columns(const float *from, int64_t cols) {
#pragma unroll
        for (int k = 0; k < P; k++)
#pragma unroll
            for (int i = 0; i < W; i += 4) {
                float4 f = column(k) < cols ? *(const float4 *)(from + column(k) + i) : make_float4(0, 0, 0, 0);
                v[k][i] = f.x;
                v[k][i + 1] = f.y;
                v[k][i + 2] = f.z;
                v[k][i + 3] = f.w;
            }
    }
};

/* Calls LAUNCH(BF16, P) for the row's type and pieces. */
#define ROW_LAUNCH(bf16, pieces, LAUNCH)                                                                                           \
    do {                                                                                                                           \
        if (bf16 && pieces == 1)                                                                                                   \
            LAUNCH(true, 1);                                                                                                       \
        else if (bf16 && pieces == 2)                                                                                              \
            LAUNCH(true, 2);                                                                                                       \
        else if (bf16)                                                                                                             \
            LAUNCH(true, 4);                                                                                                       \
        else if (pieces == 1)                                                                                                      \
            LAUNCH(false, 1);                                                                                                      \
        else if (pieces == 2)                                                                                                      \
            LAUNCH(false, 2);                                                                                                      \
        else if (pieces == 4)                                                                                                      \
            LAUNCH(false, 4);                                                                                                      \
        else                                                                                                                       \
            LAUNCH(false, 8);                                                                                                      \
    } while (0)
