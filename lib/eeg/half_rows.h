/* half_rows: many binary16 values to and from float, with the processor's instructions where it has them: the bits of eeg/half.h
 * whether the thread flushes subnormal floats or not; signalling NaNs become quiet. Pure functions. */
#pragma once
#include "base/base.h"

void half_to_floats(const uint16_t *from, size_t n, float *to);
void half_from_floats(const float *from, size_t n, uint16_t *to);
