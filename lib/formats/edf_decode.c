#include "formats/edf_decode.h"

void edf_decode_i16(const uint8_t *bytes, int64_t n, struct edf_scale scale, float *out) {
    for (int64_t i = 0; i < n; i++) {
        int16_t digital = (int16_t)(uint16_t)(bytes[2 * i] | bytes[2 * i + 1] << 8);
        out[i] = (float)((double)digital * scale.gain + scale.offset);
    }
}

void edf_decode_i24(const uint8_t *bytes, int64_t n, struct edf_scale scale, float *out) {
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = (uint32_t)bytes[3 * i] | (uint32_t)bytes[3 * i + 1] << 8 | (uint32_t)bytes[3 * i + 2] << 16;
        int32_t digital = (int32_t)(word ^ 0x800000u) - 0x800000;
        out[i] = (float)((double)digital * scale.gain + scale.offset);
    }
}

edf_decode_fn *edf_decoder(int bytes_per_sample) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2"))
        return bytes_per_sample == 3 ? edf_decode_i24_avx2 : edf_decode_i16_avx2;
#endif
    return bytes_per_sample == 3 ? edf_decode_i24 : edf_decode_i16;
}
