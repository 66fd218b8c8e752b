/* vector: accesses of 16 bytes to activations, WIDE elements at once: 8 of bf16, 4 of F32. Address and leading dimension must be
 * multiples of 16 bytes (act_is_wide). Internal to kernels/cuda. */
#pragma once
#include "kernels/cuda/cuda.cuh"

/* Whether all pieces of `wide` elements at multiples of `wide` columns lie on 16 bytes; an absent activation does. */
static inline __host__ __device__ bool act_is_wide(struct act a) {
    return !a.data || ((uintptr_t)a.data % 16 == 0 && a.ld % (a.bf16 ? 8 : 4) == 0);
}

template <bool BF16> struct wide {
    static constexpr int N = BF16 ? 8 : 4;
    uint4 raw = {0, 0, 0, 0};
    __device__ void load(const void *data, int64_t at) { raw = ((const uint4 *)data)[at / N]; }
    __device__ void store(void *data, int64_t at) const { ((uint4 *)data)[at / N] = raw; }
    __device__ void zero(void) { raw.x = raw.y = raw.z = raw.w = 0; }
    /* Values taken from here on are unpacked anew, rather than held in registers that long: 4 words instead of N. */
    __device__ void unpack_again(void) { asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w)); }
    /* bf16 is the upper half of an F32. */
    __device__ void get(float (&v)[N]) const {
        const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (BF16) {
                v[2 * i % N] = __uint_as_float(words[i] << 16);
                v[(2 * i + 1) % N] = __uint_as_float(words[i] & 0xffff0000U);
            } else {
                v[i % N] = __uint_as_float(words[i]);
            }
        }
    }
    __device__ void put(const float (&v)[N]) {
        uint32_t words[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            words[i] = BF16 ? bf16_bits(v[2 * i % N]) | bf16_bits(v[(2 * i + 1) % N]) << 16 : __float_as_uint(v[i % N]);
        raw.x = words[0];
        raw.y = words[1];
        raw.z = words[2];
        raw.w = words[3];
    }
    static __device__ uint32_t bf16_bits(float f) { return __bfloat16_as_ushort(__float2bfloat16_rn(f)); }
};

/* A block's threads over (rows, cols) in 16-byte pieces: neighbours along a row, a thread always on the same columns, so that what
 * belongs to a column is loaded once. Lanes are a power of two: no division. */
enum { PIECE_THREADS = 256, PIECE_ROWS = 4 /* of a thread in flight together */ };
struct piece_grid {
    int64_t rows;
    int pieces, shift; /* pieces of a row; log2 of the lanes */
};
static inline struct piece_grid piece_grid_of(int64_t rows, int64_t cols, bool bf16) {
    struct piece_grid g = {rows, (int)(cols / (bf16 ? 8 : 4)), 0};
    while (1 << g.shift < g.pieces && 1 << g.shift < PIECE_THREADS)
        g.shift++;
    return g;
}
static inline dim3 piece_blocks(const struct piece_grid *g) {
    int64_t rows_each = (PIECE_THREADS >> g->shift) * PIECE_ROWS;
    return dim3((unsigned)cuda_min(cuda_ceil(g->rows, rows_each), 4096), (unsigned)cuda_ceil(g->pieces, 1 << g->shift));
}
/* Whether rows of `cols` elements divide into pieces. */
static inline bool cols_are_wide(int64_t cols, bool bf16) { return cols % (bf16 ? 8 : 4) == 0; }
static __device__ inline int piece_column(const struct piece_grid &g) { /* of a piece; beyond the last one: none */
    return (int)(blockIdx.y << g.shift) + (int)(threadIdx.x & ((1U << g.shift) - 1));
}
static __device__ inline int64_t piece_first_row(const struct piece_grid &g) {
    return (int64_t)blockIdx.x * (PIECE_THREADS >> g.shift) + (threadIdx.x >> g.shift);
}
static __device__ inline int64_t piece_row_step(const struct piece_grid &g) {
    return (int64_t)gridDim.x * (PIECE_THREADS >> g.shift);
}
