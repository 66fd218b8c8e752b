/* half: IEEE 754 binary16 to and from float, round to nearest even, subnormals kept: the same bits as the F16C instructions.
 * Pure functions. */
#pragma once
#include "base/base.h"

static inline float half_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ff, bits;
    float f;
    if (exponent == 0) {
        f = (float)mantissa * 0x1p-24f;
        memcpy(&bits, &f, sizeof bits);
        bits |= sign;
    } else {
        bits = sign | ((exponent == 31 ? 255 : exponent + 112) << 23) | (mantissa << 13);
    }
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t half_from_f32(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | ((magnitude >> 13) & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520: the first value that rounds past the largest half */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) { /* below the smallest normal half: units of 2⁻²⁴ */
        float scaled;
        memcpy(&scaled, &magnitude, sizeof scaled);
        scaled = scaled * 0x1p24f + 0x1p23f; /* rounds to an integer in the low mantissa bits */
        memcpy(&magnitude, &scaled, sizeof magnitude);
        return (uint16_t)(sign | (magnitude & 0x7ff));
    }
    magnitude += 0xfff + ((magnitude >> 13) & 1);
    return (uint16_t)(sign | ((magnitude - 0x38000000) >> 13));
}
