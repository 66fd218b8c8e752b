/* half_asinh: asinh of many values as binary16, the bits of half_from_f32((float)asinh(x)). An approximation with the processor's
 * wide instructions decides all values but the few whose rounding it leaves open, for which libm is asked. Pure. */
#pragma once
#include "base/base.h"

enum { HALF_ASINH_MOST = 64 }; /* values of a call */

void half_asinh(const double *x, int n, uint16_t *to);
