/* cuda_fp16 (emulated): see cuda_runtime.h beside it. */
#pragma once
#include <math.h>
#include <stdint.h>

struct __half {
    uint16_t bits;
};
static inline __half __ushort_as_half(uint16_t bits) { return __half{bits}; }
static inline float __half2float(__half h) {
    int exponent = h.bits >> 10 & 31, mantissa = h.bits & 0x3ff;
    float magnitude = exponent == 31 ? (mantissa ? NAN : INFINITY)
                      : exponent     ? ldexpf((float)(mantissa + 1024), exponent - 25)
                                     : ldexpf((float)mantissa, -24);
    return h.bits & 0x8000 ? -magnitude : magnitude;
}
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
