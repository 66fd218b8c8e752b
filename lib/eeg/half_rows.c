#include "eeg/half_rows.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "eeg/half.h"

enum { WIDE = 8 };

#if defined(__x86_64__)
static bool is_wide(size_t n) { return n >= WIDE && __builtin_cpu_supports("avx2"); }

/* The place of the next WIDE values; the last ones are those that end the row, some of them once more. */
static size_t next_wide(size_t i, size_t n) { return i + WIDE < n && i + 2 * WIDE > n ? n - WIDE : i + WIDE; }

__attribute__((target("avx,f16c"))) static void wide_to_floats(const uint16_t *from, size_t n, float *to) {
    for (size_t i = 0; i < n; i = next_wide(i, n))
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
    _mm256_zeroupper();
}

__attribute__((target("avx,f16c"))) static void wide_from_floats(const float *from, size_t n, uint16_t *to) {
    for (size_t i = 0; i < n; i = next_wide(i, n))
        _mm_storeu_si128((__m128i *)(void *)(to + i), _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    _mm256_zeroupper();
}

__attribute__((target("avx,f16c"))) static void wide_to_doubles(const uint16_t *from, size_t n, double *to) {
    for (size_t i = 0; i < n; i += WIDE) {
        const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i)));
        _mm256_storeu_pd(to + i, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
        _mm256_storeu_pd(to + i + WIDE / 2, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
    }
    _mm256_zeroupper();
}
#else
static bool is_wide(size_t n) { return (void)n, false; }
static void wide_to_doubles(const uint16_t *from, size_t n, double *to) { (void)from, (void)n, (void)to; }
static void wide_to_floats(const uint16_t *from, size_t n, float *to) { (void)from, (void)n, (void)to; }
static void wide_from_floats(const float *from, size_t n, uint16_t *to) { (void)from, (void)n, (void)to; }
#endif

void half_to_floats(const uint16_t *from, size_t n, float *to) {
    if (is_wide(n)) {
        wide_to_floats(from, n, to);
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = half_to_f32(from[i]);
}

void half_from_floats(const float *from, size_t n, uint16_t *to) {
    if (is_wide(n)) {
        wide_from_floats(from, n, to);
        return;
    }
    for (size_t i = 0; i < n; i++)
        to[i] = half_from_f32(from[i]);
}

void half_to_doubles(const uint16_t *from, size_t n, size_t lanes, double *to) {
    uint16_t row[HALF_LANES_MOST] = {0};
    memcpy(row, from, n * sizeof *row);
    if (is_wide(lanes)) {
        wide_to_doubles(row, lanes, to);
        return;
    }
    for (size_t i = 0; i < lanes; i++)
        to[i] = (double)half_to_f32(row[i]);
}
