#include "eeg/half_rows.h"

#include "eeg/half.h"

/* The approximation and libm differ by less: both err by less than 1e-14 for |x| < 1e9. Where two values this far apart round to
 * the same binary16, so does every value between them. */
static const double NEAR = 1e-12, LARGEST = 1e9;

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

/* Bounds of asinh. */
__attribute__((always_inline)) static inline void bound(const double *restrict x, int n, float *restrict low,
                                                        float *restrict high) {
#pragma omp simd
    for (int i = 0; i < n; i++) {
        const double v = fabs(x[i]), log_v = near_log(v + sqrt(v * v + 1)), y = x[i] < 0 ? -log_v : log_v;
        low[i] = (float)(y - NEAR);
        high[i] = (float)(y + NEAR);
    }
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void bound_wide(const double *x, int n, float *low, float *high) { bound(x, n, low, high); }
#endif

void half_asinh(const double *x, int n, uint16_t *to) {
    float low[HALF_ASINH_MOST] = {0}, high[HALF_ASINH_MOST] = {0};
    uint16_t other[HALF_ASINH_MOST];
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        bound_wide(x, n, low, high);
    else
#endif
        bound(x, n, low, high);
    half_from_floats(low, (size_t)n, to);
    half_from_floats(high, (size_t)n, other);
    for (int i = 0; i < n; i++)
        if (to[i] != other[i] || !(fabs(x[i]) < LARGEST))
            to[i] = half_from_f32((float)asinh(x[i]));
}
