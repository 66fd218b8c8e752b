/* mma: products of tiles by a warp's tensor cores: D (16,8) += A (16,16) · B (16,8), operands bf16, sums F32 (sm_80 and later).
 * All 32 lanes of a warp must call together. Internal to kernels/cuda.
 *
 * Where the elements lie (PTX ISA, mma.m16n8k16 with .bf16), for lane = 4·g + t, g 0..7, t 0..3; a register of an operand holds two
 * elements, the one of the lower k in the lower half:
 *   a[0] row g,     k 2t, 2t + 1         b[0] k 2t, 2t + 1,         column g
 *   a[1] row g + 8, k 2t, 2t + 1         b[1] k 2t + 8, 2t + 9,     column g
 *   a[2] row g,     k 2t + 8, 2t + 9     d[0], d[1] row g,     columns 2t, 2t + 1
 *   a[3] row g + 8, k 2t + 8, 2t + 9     d[2], d[3] row g + 8, columns 2t, 2t + 1
 * So the sums of two neighbouring products (columns 0..7 and 8..15), packed in pairs, are the A of a product that follows:
 *   a = {pack(d0[0], d0[1]), pack(d0[2], d0[3]), pack(d1[0], d1[1]), pack(d1[2], d1[3])}  (mma_pack_a). */
#pragma once
#include "kernels/cuda/cuda.cuh"

static __device__ inline void mma_bf16(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef __CUDACC__
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    emulator_mma_bf16(d, a, b);
#endif
}

/* Two elements, each rounded to the nearest bf16 (ties to even); `low` in the lower half. */
static __device__ inline uint32_t mma_pack(float low, float high) {
#ifdef __CUDACC__
    uint32_t both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
#else
    return __bfloat16_as_ushort(__float2bfloat16_rn(low)) | (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(high)) << 16;
#endif
}
static __device__ inline float mma_low(uint32_t both) { return __uint_as_float(both << 16); }
static __device__ inline float mma_high(uint32_t both) { return __uint_as_float(both & 0xffff0000U); }

/* Sums (16,16), as two products of 8 columns each, as an A. */
static __device__ inline void mma_pack_a(uint32_t (&a)[4], const float (&d0)[4], const float (&d1)[4]) {
    a[0] = mma_pack(d0[0], d0[1]);
    a[1] = mma_pack(d0[2], d0[3]);
    a[2] = mma_pack(d1[0], d1[1]);
    a[3] = mma_pack(d1[2], d1[3]);
}

/* Four tiles (8,8) of shared memory (ldmatrix): lane i names row i % 8 of tile i / 8, 16 bytes at a multiple of 16 bytes. r[m] of
 * lane 4·g + t: row g of tile m, columns 2t, 2t + 1; TRANS: rows 2t, 2t + 1 of column g. */
template <bool TRANS> static __device__ inline void mma_load_tiles(uint32_t (&r)[4], const __nv_bfloat16 *row) {
#ifdef __CUDACC__
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (TRANS)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                     : "r"(at)
                     : "memory");
#else
    emulator_load_tiles(r, row, TRANS);
#endif
}

/* Operands from shared memory. `ld`: elements from one row to the next, a multiple of 8; no banks conflict where ld / 8 is odd.
 * Element (row, k) of A lies at row·ld + k, of its transpose at k·ld + row. */
static __device__ inline void mma_load_a(uint32_t (&a)[4], const __nv_bfloat16 *from, int ld) {
    int lane = (int)threadIdx.x % 32;
    mma_load_tiles<false>(a, from + lane % 16 * ld + lane / 16 * 8);
}
static __device__ inline void mma_load_a_trans(uint32_t (&a)[4], const __nv_bfloat16 *from, int ld) {
    int lane = (int)threadIdx.x % 32;
    mma_load_tiles<true>(a, from + (lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
}
/* Two neighbouring B: columns 0..7 and 8..15. Element (k, column) lies at column·ld + k, of the transpose at k·ld + column. */
static __device__ inline void mma_load_b(uint32_t (&b)[2][2], const __nv_bfloat16 *from, int ld) {
    int lane = (int)threadIdx.x % 32;
    uint32_t r[4];
    mma_load_tiles<false>(r, from + (lane % 8 + lane / 16 * 8) * ld + lane / 8 % 2 * 8);
    b[0][0] = r[0];
    b[0][1] = r[1];
    b[1][0] = r[2];
    b[1][1] = r[3];
}
static __device__ inline void mma_load_b_trans(uint32_t (&b)[2][2], const __nv_bfloat16 *from, int ld) {
    int lane = (int)threadIdx.x % 32;
    uint32_t r[4];
    mma_load_tiles<true>(r, from + lane % 16 * ld + lane / 16 * 8);
    b[0][0] = r[0];
    b[0][1] = r[1];
    b[1][0] = r[2];
    b[1][1] = r[3];
}
