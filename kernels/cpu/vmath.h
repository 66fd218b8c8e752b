/* vmath: float exp and friends as plain branch-free C that compilers vectorise; relative error about 2e-7. */
#pragma once
#include <stdint.h>
#include <string.h>

static inline float vm_bits(int32_t i) {
    float f;
    memcpy(&f, &i, sizeof f);
    return f;
}

/* e^x: 2^k·p(r), r = x − k·ln2 in two parts, degree-6 polynomial. 0 below −87, inf-free up to 88 (clamped). */
static inline float vm_exp(float x) {
    x = x > 88.0f ? 88.0f : x;
    float in = x < -87.0f ? -87.0f : x;
    float k = in * 1.44269504f + 12582912.0f; /* rounds to nearest by magnitude */
    k -= 12582912.0f;
    float r = in - k * 0.693359375f;
    r = r + k * 2.12194440e-4f;
    float p = 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    float result = p * vm_bits(((int32_t)k + 127) << 23);
    return x < -87.0f ? 0.0f : result;
}

static inline float vm_sigmoid(float x) {
    float e = vm_exp(x < 0 ? x : -x);
    float s = 1.0f / (1.0f + e);
    return x < 0 ? e * s : s;
}
