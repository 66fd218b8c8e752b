/* cuda_bf16 (emulated): see cuda_runtime.h beside it. */
#pragma once
#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};
static inline float __bfloat162float(__nv_bfloat16 h) {
    uint32_t bits = (uint32_t)h.bits << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline __nv_bfloat16 __float2bfloat16_rn(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return __nv_bfloat16{(uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded)};
}
static inline uint16_t __bfloat16_as_ushort(__nv_bfloat16 h) { return h.bits; }
