/* window_kernel: the three passes of the normaliser over whole groups of 8 rows, written once and compiled per instruction set
 * (window.c baseline, window_avx2.c, window_avx512.c). Element e of a group adds only to sum e, so the order of every
 * sum is fixed by the layout and all variants give the same bits. period = 8 · channels ≤ WINDOW_PERIOD_MAX. */
#pragma once

#include "eeg/frontend.h"
#include "eeg/half.h"

enum { WINDOW_GROUP = 8, WINDOW_PERIOD_MAX = WINDOW_GROUP * FRONTEND_MAX_CHANNELS };

struct window_kernel {
    /* sums[e] += x */
    void (*sum)(const uint16_t *rows, int64_t groups, int period, double *sums);
    /* sums[e] += (x − mean[e])² */
    void (*square)(const uint16_t *rows, int64_t groups, int period, const double *mean, double *sums);
    /* to = clip((x − mean[e]) · scale[e]) */
    void (*apply)(const uint16_t *rows, int64_t groups, int period, const double *mean, const double *scale, float *to);
};
extern const struct window_kernel window_kernel_baseline, window_kernel_avx2, window_kernel_avx512;

static inline float window_clip(double z) { return (float)(z > 10 ? 10 : z < -10 ? -10 : z); }

#ifdef WINDOW_KERNEL_BODY
typedef double window_d8 __attribute__((vector_size(64), aligned(8), may_alias));
typedef float window_f8 __attribute__((vector_size(32), aligned(4), may_alias));

#ifdef __F16C__
#include <immintrin.h>
#define WINDOW_LOAD(h)                                                                                                             \
    __builtin_convertvector((window_f8)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(h))), window_d8)
#define WINDOW_CLIP(z) ((window_f8)_mm256_max_ps(_mm256_min_ps((__m256)(z), _mm256_set1_ps(10)), _mm256_set1_ps(-10)))
#else
#define WINDOW_LOAD(h)                                                                                                             \
    __builtin_convertvector(((window_f8){half_to_f32((h)[0]), half_to_f32((h)[1]), half_to_f32((h)[2]), half_to_f32((h)[3]),       \
                                         half_to_f32((h)[4]), half_to_f32((h)[5]), half_to_f32((h)[6]), half_to_f32((h)[7])}),     \
                            window_d8)
#define WINDOW_CLIP(z)                                                                                                             \
    ((window_f8){window_clip((z)[0]), window_clip((z)[1]), window_clip((z)[2]), window_clip((z)[3]), window_clip((z)[4]),          \
                 window_clip((z)[5]), window_clip((z)[6]), window_clip((z)[7])})
#endif

/* Four groups at a time save traffic of the sums; each sum still takes its groups in order. */
static void kernel_sum(const uint16_t *rows, int64_t groups, int period, double *sums) {
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4, rows += 4 * period)
        for (int e = 0; e < period; e += 8) {
            window_d8 *to = (window_d8 *)(sums + e), sum = *to;
            sum += WINDOW_LOAD(rows + e);
            sum += WINDOW_LOAD(rows + period + e);
            sum += WINDOW_LOAD(rows + 2 * period + e);
            sum += WINDOW_LOAD(rows + 3 * period + e);
            *to = sum;
        }
    for (; g < groups; g++, rows += period)
        for (int e = 0; e < period; e += 8)
            *(window_d8 *)(sums + e) += WINDOW_LOAD(rows + e);
}

static void kernel_square(const uint16_t *rows, int64_t groups, int period, const double *mean, double *sums) {
    int64_t g = 0;
    for (; g + 4 <= groups; g += 4, rows += 4 * period)
        for (int e = 0; e < period; e += 8) {
            window_d8 *to = (window_d8 *)(sums + e), sum = *to, m = *(const window_d8 *)(mean + e);
            window_d8 a = WINDOW_LOAD(rows + e) - m, b = WINDOW_LOAD(rows + period + e) - m;
            window_d8 c = WINDOW_LOAD(rows + 2 * period + e) - m, d = WINDOW_LOAD(rows + 3 * period + e) - m;
            sum += a * a;
            sum += b * b;
            sum += c * c;
            sum += d * d;
            *to = sum;
        }
    for (; g < groups; g++, rows += period)
        for (int e = 0; e < period; e += 8) {
            window_d8 d = WINDOW_LOAD(rows + e) - *(const window_d8 *)(mean + e);
            *(window_d8 *)(sums + e) += d * d;
        }
}

static void kernel_apply(const uint16_t *rows, int64_t groups, int period, const double *mean, const double *scale, float *to) {
    for (int64_t g = 0; g < groups; g++, rows += period, to += period)
        for (int e = 0; e < period; e += 8) {
            window_d8 z = (WINDOW_LOAD(rows + e) - *(const window_d8 *)(mean + e)) * *(const window_d8 *)(scale + e);
            *(window_f8 *)(to + e) = WINDOW_CLIP(__builtin_convertvector(z, window_f8));
        }
}
#endif
