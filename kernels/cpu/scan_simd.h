/* scan_simd: one vector of floats as wide as the instruction set of the file that includes it, and the few functions on it that
 * the scan, convolution and norm kernels need. Included only by the per-instruction-set files scan_{base,avx2,avx512}.c. Every
 * function is element-wise, NaN stays in its lane, and pointers need no alignment. */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
enum { VW = 16 };
#elif defined(__AVX2__)
enum { VW = 8 };
#else
enum { VW = 4 };
#endif
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * VW)));
typedef int32_t vi __attribute__((vector_size(4 * VW)));
typedef uint32_t vu __attribute__((vector_size(4 * VW)));
typedef uint16_t vh __attribute__((vector_size(2 * VW)));
typedef float vf_mem __attribute__((vector_size(4 * VW), aligned(1), may_alias));
typedef uint16_t vh_mem __attribute__((vector_size(2 * VW), aligned(1), may_alias));

INLINE vf vf_all(float x) { return x - (vf){0}; }
INLINE vf vf_load(const float *p) { return *(const vf_mem *)p; }
INLINE void vf_store(float *p, vf x) { *(vf_mem *)p = x; }
INLINE vf vf_pick(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }
INLINE vf vf_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }

INLINE float vf_sum(vf x) {
#if defined(__AVX512F__)
    return _mm512_reduce_add_ps((__m512)x);
#else
    float s[VW], total = 0.0f;
    memcpy(s, &x, sizeof s);
    for (int i = 0; i < VW; i++)
        total += s[i];
    return total;
#endif
}

/* bf16 widened; narrowed to nearest even, NaN kept quiet. */
INLINE vf vf_from_bf16(vh x) {
#if defined(__AVX512F__)
    return (vf)((vu)_mm512_cvtepu16_epi32((__m256i)x) << 16);
#elif defined(__AVX2__)
    return (vf)((vu)_mm256_cvtepu16_epi32((__m128i)x) << 16);
#else
    return (vf)(__builtin_convertvector(x, vu) << 16);
#endif
}
INLINE vh vf_to_bf16(vf x) {
    vu bits = (vu)x, rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16, quiet = (bits >> 16) | 0x40;
#if defined(__AVX512F__)
    __mmask16 nan = _mm512_cmp_ps_mask((__m512)x, (__m512)x, _CMP_UNORD_Q);
    return (vh)_mm512_cvtepi32_epi16(_mm512_mask_mov_epi32((__m512i)rounded, nan, (__m512i)quiet));
#else
    vi number = x == x;
    return __builtin_convertvector((rounded & (vu)number) | (quiet & ~(vu)number), vh);
#endif
}

INLINE const void *act_address(const void *base, bool bf16, int64_t at) {
    return (const char *)base + at * (bf16 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
}

/* The first `count` < VW elements of an array of floats or bf16; missing lanes are 0. */
INLINE vf part_load(const void *p, bool bf16, int64_t count) {
#if defined(__AVX512F__)
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    return bf16 ? vf_from_bf16((vh)_mm256_maskz_loadu_epi16(mask, p)) : (vf)_mm512_maskz_loadu_ps(mask, p);
#else
    vh h = {0};
    vf x = {0};
    if (bf16)
        memcpy(&h, p, (size_t)count * sizeof(uint16_t));
    else
        memcpy(&x, p, (size_t)count * sizeof(float));
    return bf16 ? vf_from_bf16(h) : x;
#endif
}
INLINE void part_store(void *p, bool bf16, int64_t count, vf x) {
#if defined(__AVX512F__)
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    if (bf16)
        _mm256_mask_storeu_epi16(p, mask, (__m256i)vf_to_bf16(x));
    else
        _mm512_mask_storeu_ps(p, mask, (__m512)x);
#else
    vh h = vf_to_bf16(x);
    memcpy(p, bf16 ? (void *)&h : (void *)&x, (size_t)count * (bf16 ? sizeof(uint16_t) : sizeof(float)));
#endif
}

/* `count` elements (1..VW, or more, which counts as VW) from element `at` of an array of floats or bf16; missing lanes are 0. */
INLINE vf act_load(const void *base, bool bf16, int64_t at, int64_t count) {
    const void *p = act_address(base, bf16, at);
    if (count < VW)
        return part_load(p, bf16, count);
    return bf16 ? vf_from_bf16(*(const vh_mem *)p) : vf_load(p);
}
INLINE void act_store(void *base, bool bf16, int64_t at, int64_t count, vf x) {
    void *p = (char *)base + at * (bf16 ? (int64_t)sizeof(uint16_t) : (int64_t)sizeof(float));
    if (count < VW)
        part_store(p, bf16, count, x);
    else if (bf16)
        *(vh_mem *)p = vf_to_bf16(x);
    else
        vf_store(p, x);
}
INLINE float act_get(const void *base, bool bf16, int64_t at) {
    float x;
    if (bf16) {
        uint16_t h;
        memcpy(&h, (const uint16_t *)base + at, sizeof h);
        uint32_t bits = (uint32_t)h << 16;
        memcpy(&x, &bits, sizeof x);
    } else {
        memcpy(&x, (const float *)base + at, sizeof x);
    }
    return x;
}

/* NaN stays NaN. */
INLINE vf vf_clamp(vf x, float low, float high) {
#if defined(__AVX512F__)
    x = (vf)_mm512_max_ps((__m512)vf_all(low), (__m512)x); /* of a NaN and a number, the second operand */
    return (vf)_mm512_min_ps((__m512)vf_all(high), (__m512)x);
#elif defined(__AVX2__)
    x = (vf)_mm256_max_ps((__m256)vf_all(low), (__m256)x);
    return (vf)_mm256_min_ps((__m256)vf_all(high), (__m256)x);
#else
    x = vf_pick(x < low, vf_all(low), x);
    return vf_pick(x > high, vf_all(high), x);
#endif
}

/* 2^x of `count` ≤ 8 vectors step by step side by side, so that the processor always finds independent work. Relative error 2e-7:
 * x = k + r with k the nearest integer, a minimax polynomial of degree 5 that is exactly 1 at r = 0. */
INLINE void vf_exp2_many(vf *x, const int count) {
    vf k[8], p[8];
#if !defined(__AVX512F__)
    vf shifted[8];
#endif
#pragma GCC unroll 8
    for (int i = 0; i < count; i++) {
#if defined(__AVX512F__)
        k[i] = (vf)_mm512_roundscale_ps((__m512)x[i], 8);
#else
        x[i] = vf_clamp(x[i], -126.0f, 127.0f);
        shifted[i] = x[i] + 12582912.0f;
        k[i] = shifted[i] - 12582912.0f;
#endif
    }
#define STEP(expression) _Pragma("GCC unroll 8") for (int i = 0; i < count; i++) expression
    STEP(x[i] = x[i] - k[i];)
    STEP(p[i] = x[i] * 1.334000e-3f + 9.671660e-3f;)
    STEP(p[i] = p[i] * x[i] + 5.550533e-2f;)
    STEP(p[i] = p[i] * x[i] + 2.4022245e-1f;)
    STEP(p[i] = p[i] * x[i] + 6.9314702e-1f;)
    STEP(p[i] = p[i] * x[i] + 1.0f;)
#if defined(__AVX512F__)
    STEP(x[i] = (vf)_mm512_scalef_ps((__m512)p[i], (__m512)k[i]);)
#else
    STEP(x[i] = p[i] * (vf)(((vu)shifted[i] << 23) + 0x3f800000u);)
#endif
#undef STEP
}
INLINE vf vf_exp2(vf x) {
    vf_exp2_many(&x, 1);
    return x;
}

/* e^x with the argument reduced in two parts: full precision for large |x|. */
INLINE vf vf_exp(vf x) {
    x = vf_clamp(x, -87.0f, 88.0f);
    vf shifted = x * 1.44269504f + 12582912.0f, k = shifted - 12582912.0f;
    vf r = x - k * 0.693359375f;
    r = r + k * 2.12194440e-4f;
    vf p = r * 1.34302e-3f + 8.35772e-3f;
    p = p * r + 4.167267e-2f;
    p = p * r + 1.6666666e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (vf)(((vu)shifted << 23) + 0x3f800000u);
}

/* log(1 + e^s) = max(s,0) + log1p(e^−|s|), the logarithm as 2·atanh(e/(2+e)), which keeps its digits when e is small. */
INLINE vf vf_softplus(vf s) {
    vf e = vf_exp(-vf_abs(s)), q = e / (2.0f + e), v = q * q;
    vf p = v * (1.0f / 13.0f) + 1.0f / 11.0f;
    p = p * v + 1.0f / 9.0f;
    p = p * v + 1.0f / 7.0f;
    p = p * v + 1.0f / 5.0f;
    p = p * v + 1.0f / 3.0f;
    p = p * v + 1.0f;
    return vf_pick(s > 0.0f, s, (vf){0}) + 2.0f * q * p;
}
INLINE vf vf_sigmoid(vf x) {
    vf e = vf_exp(-vf_abs(x)), r = 1.0f / (1.0f + e);
    return vf_pick(x < 0.0f, e * r, r);
}
/* x·σ(x); for x below −88 the exact value is smaller than 1e-36. */
INLINE vf vf_silu(vf x) { return x / (1.0f + vf_exp(-x)); }
INLINE vf vf_silu_grad(vf x) {
    vf s = vf_sigmoid(x);
    return s + x * s * (1.0f - s);
}
