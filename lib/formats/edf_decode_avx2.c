#include "formats/edf_decode.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* Eight int32 to eight scaled floats, through doubles. */
static inline void store8(__m256i digital, __m256d gain, __m256d offset, float *out) {
    __m256d low = _mm256_cvtepi32_pd(_mm256_castsi256_si128(digital));
    __m256d high = _mm256_cvtepi32_pd(_mm256_extracti128_si256(digital, 1));
    low = _mm256_add_pd(_mm256_mul_pd(low, gain), offset);
    high = _mm256_add_pd(_mm256_mul_pd(high, gain), offset);
    _mm_storeu_ps(out, _mm256_cvtpd_ps(low));
    _mm_storeu_ps(out + 4, _mm256_cvtpd_ps(high));
}

void edf_decode_i16_avx2(const uint8_t *bytes, int64_t n, struct edf_scale scale, float *out) {
    __m256d gain = _mm256_set1_pd(scale.gain), offset = _mm256_set1_pd(scale.offset);
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        store8(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(bytes + 2 * i))), gain, offset, out + i);
    edf_decode_i16(bytes + 2 * i, n - i, scale, out + i);
}

void edf_decode_i24_avx2(const uint8_t *bytes, int64_t n, struct edf_scale scale, float *out) {
    __m256d gain = _mm256_set1_pd(scale.gain), offset = _mm256_set1_pd(scale.offset);
    /* Four 3-byte samples into the upper bytes of four 32-bit words. */
    __m128i spread = _mm_setr_epi8(-1, 0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11);
    int64_t i = 0;
    /* Each step loads 28 bytes from its start: 10 samples must remain. */
    for (; i + 10 <= n; i += 8) {
        __m128i low = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(bytes + 3 * i)), spread);
        __m128i high = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(bytes + 3 * i + 12)), spread);
        store8(_mm256_srai_epi32(_mm256_set_m128i(high, low), 8), gain, offset, out + i);
    }
    edf_decode_i24(bytes + 3 * i, n - i, scale, out + i);
}
#endif
