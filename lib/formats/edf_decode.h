/* edf_decode: digital samples (little-endian int16 or int24, unaligned) to scaled binary32.
 * out = (float)((double)digital · gain + offset), multiplication and addition rounded separately, so that every variant gives
 * the same bits. Reads exactly the bytes of n samples. Any thread. */
#pragma once
#include "base/base.h"

struct edf_scale {
    double gain, offset;
};
typedef void edf_decode_fn(const uint8_t *bytes, int64_t n, struct edf_scale scale, float *out);

/* The fastest variant for this machine. */
edf_decode_fn *edf_decoder(int bytes_per_sample);

edf_decode_fn edf_decode_i16;
edf_decode_fn edf_decode_i24;
#if defined(__x86_64__)
edf_decode_fn edf_decode_i16_avx2;
edf_decode_fn edf_decode_i24_avx2;
#endif
