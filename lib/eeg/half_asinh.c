#include "eeg/half_rows.h"

#include "eeg/half.h"

enum { WIDE = 8 }; /* floats of a vector */

/* How far the approximation may be from libm, and beside it a share of the value. A float's rounding, 6e-8, comes in at x, three
 * times in x + √(x² + 1), and in the logarithm twice at s and twice at the exponent. Where two values this far apart round to the
 * same binary16, so does every value between them. */
static const float NEAR = 5e-7F, NEAR_SHARE = 3e-7F;
static const double LARGEST = 1e9, SMALLEST = 1e-9;

/* log(v) of a normal v > 0: v = 2ᵉ·m with m between √½ and √2, and log(m) = 2·atanh(s) by its series. */
__attribute__((always_inline)) static inline float near_log(float v) {
    const int32_t root_half = 0x3f3504f3;
    int32_t bits;
    float m;
    memcpy(&bits, &v, sizeof bits);
    const int32_t e = (bits - root_half) >> 23;
    bits -= e * (1 << 23);
    memcpy(&m, &bits, sizeof m);
    const float s = (m - 1) / (m + 1), q = s * s;
    const float sum = ((1.0F / 9 * q + 1.0F / 7) * q + 1.0F / 5) * q + 1.0F / 3;
    return (float)e * (float)M_LN2 + (2 * s + 2 * s * q * sum);
}

/* Bounds of what is asked for. */
__attribute__((always_inline)) static inline void bound(const double *restrict x, int n, bool is_log, float *restrict low,
                                                        float *restrict high) {
#pragma omp simd
    for (int i = 0; i < n; i++) {
        const float at = (float)x[i], v = fabsf(at), log_v = near_log(is_log ? v : v + sqrtf(v * v + 1));
        const float y = !is_log && at < 0 ? -log_v : log_v, near = NEAR + NEAR_SHARE * fabsf(log_v);
        low[i] = y - near;
        high[i] = y + near;
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void wide_asinh(const double *x, int n, float *low, float *high) {
    bound(x, n, false, low, high);
}
__attribute__((target("avx2"))) static void wide_log(const double *x, int n, float *low, float *high) {
    bound(x, n, true, low, high);
}
#endif

/* In whole vectors: what follows the n values is 1. */
static void round_bounds(const double *from, int n, bool is_log, uint16_t *to) {
    double x[HALF_ASINH_MOST];
    float low[HALF_ASINH_MOST], high[HALF_ASINH_MOST];
    uint16_t least[HALF_ASINH_MOST], most[HALF_ASINH_MOST];
    const int wide = (n + WIDE - 1) / WIDE * WIDE;
    memcpy(x, from, (size_t)n * sizeof *x);
    for (int i = n; i < wide; i++)
        x[i] = 1;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        (is_log ? wide_log : wide_asinh)(x, wide, low, high);
    else
#endif
        bound(x, wide, is_log, low, high);
    half_from_floats(low, (size_t)wide, least);
    half_from_floats(high, (size_t)wide, most);
    for (int i = 0; i < n; i++) {
        const bool sure = least[i] == most[i] && fabs(x[i]) < LARGEST && !(is_log && x[i] < SMALLEST);
        to[i] = sure ? least[i] : half_from_f32((float)(is_log ? log(x[i]) : asinh(x[i])));
    }
}

void half_asinh(const double *x, int n, uint16_t *to) { round_bounds(x, n, false, to); }
void half_log(const double *x, int n, uint16_t *to) { round_bounds(x, n, true, to); }
