/* half_rows: many binary16 values to and from float, with the processor's instructions where it has them: the bits of eeg/half.h
 * whether the thread flushes subnormal floats or not; signalling NaNs become quiet. Pure functions.
 * half_asinh: asinh of many values as binary16, the bits of half_from_f32((float)asinh(x)). An approximation with the processor's
 * wide instructions decides all values but the few whose rounding it leaves open, for which libm is asked. */
#pragma once
#include "base/base.h"

void half_to_floats(const uint16_t *from, size_t n, float *to);
enum { HALF_LANES_MOST = 64 };
/* n values and zeros up to `lanes`, a multiple of 8 that is at most HALF_LANES_MOST. */
void half_to_doubles(const uint16_t *from, size_t n, size_t lanes, double *to);
void half_from_floats(const float *from, size_t n, uint16_t *to);

enum { HALF_ASINH_MOST = 64 }; /* values of a call, a multiple of 8 */
void half_asinh(const double *x, int n, uint16_t *to);
void half_log(const double *x, int n, uint16_t *to); /* the same of the natural logarithm */
