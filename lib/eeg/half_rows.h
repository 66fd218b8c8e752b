/* half_rows: many binary16 values to and from float, with the processor's instructions where it has them: the bits of eeg/half.h
 * whether the thread flushes subnormal floats or not; signalling NaNs become quiet. Pure functions.
 * half_asinh: asinh of many values as binary16, the bits of half_from_f32((float)asinh(x)). An approximation with the processor's
 * wide instructions decides all values but the few whose rounding it leaves open, for which libm is asked. */
#pragma once
#include "base/base.h"

void half_to_floats(const uint16_t *from, size_t n, float *to);
/* n rows of `channels` values, `stride` apart; as doubles they have lanes, `channels` rounded up to a multiple of 8. */
struct half_rows {
    uint16_t *at;
    int stride, channels;
    int64_t n;
};
void half_rows_to_doubles(const struct half_rows *in, double *to); /* zeros behind the channels */
/* Values beyond ±most become that; NaN stays. What lies between two rows may be overwritten. */
void half_rows_clamped(const double *from, double most, const struct half_rows *out);
void half_from_floats(const float *from, size_t n, uint16_t *to);

enum { HALF_ASINH_MOST = 64 }; /* values of a call, a multiple of 8 */
void half_asinh(const double *x, int n, uint16_t *to);
void half_log(const double *x, int n, uint16_t *to); /* the same of the natural logarithm */
