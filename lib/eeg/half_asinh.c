#include "eeg/half_rows.h"

#include "eeg/half.h"

/* The approximation and libm differ by less: both err by less than 1e-14 for |x| < 1e9. Where two values this far apart round to
 * the same binary16, so does every value between them. */
enum { HALVES = 8, DOUBLES = 4 }; /* of a vector */
static const double NEAR = 1e-12, LARGEST = 1e9, SMALLEST = 1e-9;

/* log(v) of a normal v > 0: v = 2ᵉ·m with m between √½ and √2, and log(m) = 2·atanh(s) by its series; e by way of the bits of a
 * double, which all processors do for several values at once. */
__attribute__((always_inline)) static inline double near_log(double v) {
    const uint64_t root_half = 0x3fe6a09e667f3bcd, bias = 1024, magic = 0x4330000000000000; /* √½; the bits of 2⁵² */
    uint64_t bits;
    double m, e;
    memcpy(&bits, &v, sizeof bits);
    const uint64_t biased = (bits - root_half + (bias << 52)) >> 52, e_bits = magic | biased;
    bits -= (biased - bias) << 52;
    memcpy(&m, &bits, sizeof m);
    memcpy(&e, &e_bits, sizeof e);
    const double s = (m - 1) / (m + 1), q = s * s;
    double sum = 1.0 / 17;
    for (int odd = 15; odd >= 3; odd -= 2)
        sum = sum * q + 1.0 / odd;
    return (e - (0x1p52 + (double)bias)) * M_LN2 + 2 * s + 2 * s * q * sum;
}

/* Bounds of what is asked for. */
__attribute__((always_inline)) static inline void bound(const double *restrict x, int n, bool is_log, float *restrict low,
                                                        float *restrict high) {
#pragma omp simd
    for (int i = 0; i < n; i++) {
        const double v = fabs(x[i]), log_v = near_log(is_log ? v : v + sqrt(v * v + 1));
        const double y = !is_log && x[i] < 0 ? -log_v : log_v;
        low[i] = (float)(y - NEAR);
        high[i] = (float)(y + NEAR);
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
    const int wide = (n + HALVES - 1) / HALVES * HALVES, asked = (n + DOUBLES - 1) / DOUBLES * DOUBLES;
    memcpy(x, from, (size_t)n * sizeof *x);
    for (int i = n; i < asked; i++)
        x[i] = 1;
    for (int i = asked; i < wide; i++)
        low[i] = high[i] = 0;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        (is_log ? wide_log : wide_asinh)(x, asked, low, high);
    else
#endif
        bound(x, asked, is_log, low, high);
    half_from_floats(low, (size_t)wide, least);
    half_from_floats(high, (size_t)wide, most);
    for (int i = 0; i < n; i++) {
        const bool sure = least[i] == most[i] && fabs(x[i]) < LARGEST && !(is_log && x[i] < SMALLEST);
        to[i] = sure ? least[i] : half_from_f32((float)(is_log ? log(x[i]) : asinh(x[i])));
    }
}

void half_asinh(const double *x, int n, uint16_t *to) { round_bounds(x, n, false, to); }
void half_log(const double *x, int n, uint16_t *to) { round_bounds(x, n, true, to); }
