/* window_kernel: the three passes of the normaliser over whole groups of 8 rows, written once and compiled per instruction set
 * (window.c baseline, window_avx2.c, window_avx512.c). Element e of a group adds only to sum e, so the order of every
 * sum is fixed by the layout and all variants give the same bits. period = 8 · channels ≤ WINDOW_PERIOD_MAX. */
#ifndef BRR_DATA_WINDOW_KERNEL_H
#define BRR_DATA_WINDOW_KERNEL_H
#include <stdint.h>

#include "data/frontend.h"
#include "data/half.h"

enum { WINDOW_GROUP = 8, WINDOW_PERIOD_MAX = WINDOW_GROUP * FRONTEND_MAX_CHANNELS };

struct window_kernel {
    /* sums[e] += x */
    void (*sum)(const uint16_t *rows, int64_t groups, int period, double *sums);
    /* sums[e] += (x − mean[e])² */
    void (*square)(const uint16_t *rows, int64_t groups, int period, const double *mean, double *sums);
    /* to = clip((x − mean[e]) · scale[e]) */
    void (*apply)(const uint16_t *rows, int64_t groups, int period, const double *mean, const double *scale, float *to);
};
extern const struct window_kernel window_kernel_avx2, window_kernel_avx512;

static inline float window_clip(double z) {
    return (float)(z > 10 ? 10 : z < -10 ? -10 : z);
}

#ifdef WINDOW_KERNEL_BODY
#ifdef __F16C__
#include <immintrin.h>
static inline void to_f32(const uint16_t *h, int n, float *f) { /* n is a multiple of 8 */
    for (int e = 0; e < n; e += 8)
        _mm256_storeu_ps(f + e, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h + e))));
}
#else
static inline void to_f32(const uint16_t *h, int n, float *f) {
    for (int e = 0; e < n; e++)
        f[e] = half_to_f32(h[e]);
}
#endif

static void kernel_sum(const uint16_t *rows, int64_t groups, int period, double *restrict sums) {
    float x[WINDOW_PERIOD_MAX];
    for (int64_t g = 0; g < groups; g++) {
        to_f32(rows + g * period, period, x);
        for (int e = 0; e < period; e++)
            sums[e] += (double)x[e];
    }
}

static void kernel_square(const uint16_t *rows, int64_t groups, int period, const double *restrict mean, double *restrict sums) {
    float x[WINDOW_PERIOD_MAX];
    for (int64_t g = 0; g < groups; g++) {
        to_f32(rows + g * period, period, x);
        for (int e = 0; e < period; e++) {
            double d = (double)x[e] - mean[e];
            sums[e] += d * d;
        }
    }
}

static void kernel_apply(const uint16_t *rows, int64_t groups, int period, const double *restrict mean,
                         const double *restrict scale, float *restrict to) {
    float x[WINDOW_PERIOD_MAX];
    for (int64_t g = 0; g < groups; g++) {
        to_f32(rows + g * period, period, x);
        for (int e = 0; e < period; e++)
            to[g * period + e] = window_clip(((double)x[e] - mean[e]) * scale[e]);
    }
}
#endif

#endif
