/* bf16: rows of activations as floats, whatever their dtype. F32 rows are used where they lie; bf16 rows pass through a buffer that
 * the caller gives. Narrowing rounds to nearest even and keeps NaN. */
#pragma once
#include <stdint.h>
#include <string.h>

#include "kernels/tensor.h"

static inline float bf16_widen(uint16_t h) {
    uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static inline uint16_t bf16_narrow(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet : rounded);
}

static inline void bf16_widen_row(float *restrict to, const uint16_t *restrict from, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_widen(from[i]);
}

static inline void bf16_narrow_row(uint16_t *restrict to, const float *restrict from, int64_t n) {
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        to[i] = bf16_narrow(from[i]);
}

/* Address of element `at` counted from the tensor's first. */
static inline void *act_at(const struct tensor *t, int64_t at) { return (char *)t->data + (size_t)at * dtype_bytes(t->dtype); }

/* n elements from element `at` on. */
static inline const float *act_in(const struct tensor *t, int64_t at, int64_t n, float *buffer) {
    if (t->dtype == DTYPE_F32)
        return (const float *)t->data + at;
    bf16_widen_row(buffer, (const uint16_t *)t->data + at, n);
    return buffer;
}

/* Where to write n elements; act_put brings them home. */
static inline float *act_out(const struct tensor *t, int64_t at, float *buffer) {
    return t->dtype == DTYPE_F32 ? (float *)t->data + at : buffer;
}

static inline void act_put(const struct tensor *t, int64_t at, int64_t n, const float *buffer) {
    if (t->dtype == DTYPE_BF16)
        bf16_narrow_row((uint16_t *)t->data + at, buffer, n);
}
