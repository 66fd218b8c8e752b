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

/* Values of a row from `whole` on, `rest` of them, and zeros behind; all that may be read lie before `end`. */
static __m128i load_rest(const uint16_t *from, int rest, const uint16_t *end) {
    static const int16_t masks[2 * WIDE] = {-1, -1, -1, -1, -1, -1, -1, -1};
    uint16_t last[WIDE] = {0};
    if (end - from < WIDE)
        from = memcpy(last, from, (size_t)rest * sizeof *last);
    return _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)from),
                         _mm_loadu_si128((const __m128i *)(const void *)(masks + WIDE - rest)));
}

__attribute__((target("avx,f16c"))) static void store_doubles(__m128i halves, double *to) {
    const __m256 x = _mm256_cvtph_ps(halves);
    _mm256_storeu_pd(to, _mm256_cvtps_pd(_mm256_castps256_ps128(x)));
    _mm256_storeu_pd(to + WIDE / 2, _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)));
}

__attribute__((target("avx,f16c"))) static void wide_to_doubles(const struct half_rows *in, double *to) {
    const uint16_t *row = in->at, *end = row + (in->n - 1) * in->stride + in->channels;
    const int rest = in->channels % WIDE, whole = in->channels - rest;
    for (int64_t i = 0; i < in->n; i++, row += in->stride) {
        for (int c = 0; c < whole; c += WIDE, to += WIDE)
            store_doubles(_mm_loadu_si128((const __m128i *)(const void *)(row + c)), to);
        if (rest)
            store_doubles(load_rest(row + whole, rest, end), to);
        to += rest ? WIDE : 0;
    }
    _mm256_zeroupper();
}

__attribute__((target("avx,f16c"))) static __m128i clamp_wide(const double *from, __m256d most, __m256d least) {
    __m256d low = _mm256_loadu_pd(from), high = _mm256_loadu_pd(from + WIDE / 2); /* of NaN the second operand is kept */
    low = _mm256_max_pd(least, _mm256_min_pd(most, low));
    high = _mm256_max_pd(least, _mm256_min_pd(most, high));
    return _mm256_cvtps_ph(_mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)), _MM_FROUND_TO_NEAREST_INT);
}

__attribute__((target("avx,f16c"))) static void wide_clamped(const double *from, double most, const struct half_rows *out) {
    const __m256d above = _mm256_set1_pd(most), below = _mm256_set1_pd(-most);
    const int rest = out->channels % WIDE, whole = out->channels - rest;
    uint16_t *row = out->at, *end = row + (out->n - 1) * out->stride + out->channels;
    for (int64_t i = 0; i < out->n; i++, row += out->stride) {
        for (int c = 0; c < whole; c += WIDE, from += WIDE)
            _mm_storeu_si128((__m128i *)(void *)(row + c), clamp_wide(from, above, below));
        if (!rest)
            continue;
        const __m128i last = clamp_wide(from, above, below);
        if (end - row - whole >= WIDE)
            _mm_storeu_si128((__m128i *)(void *)(row + whole), last);
        else
            memcpy(row + whole, &last, (size_t)rest * sizeof *row);
        from += WIDE;
    }
    _mm256_zeroupper();
}
#else
static bool is_wide(size_t n) { return (void)n, false; }
static void wide_to_doubles(const struct half_rows *in, double *to) { (void)in, (void)to; }
static void wide_clamped(const double *from, double most, const struct half_rows *out) { (void)from, (void)most, (void)out; }
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

void half_rows_to_doubles(const struct half_rows *in, double *to) {
    const int lanes = (in->channels + WIDE - 1) / WIDE * WIDE;
    if (is_wide(WIDE)) {
        wide_to_doubles(in, to);
        return;
    }
    for (int64_t i = 0; i < in->n; i++)
        for (int c = 0; c < lanes; c++)
            to[i * lanes + c] = c < in->channels ? (double)half_to_f32(in->at[i * in->stride + c]) : 0;
}

void half_rows_clamped(const double *from, double most, const struct half_rows *out) {
    const int lanes = (out->channels + WIDE - 1) / WIDE * WIDE;
    if (is_wide(WIDE)) {
        wide_clamped(from, most, out);
        return;
    }
    for (int64_t i = 0; i < out->n; i++, from += lanes)
        for (int c = 0; c < out->channels; c++) {
            const double low = from[c] > most ? most : from[c];
            out->at[i * out->stride + c] = half_from_f32((float)(low < -most ? -most : low));
        }
}
