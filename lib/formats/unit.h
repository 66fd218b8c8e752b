/* unit: the unit of a signal as a recorder spells it. Pure function, any thread. */
#pragma once
#include "base/base.h"

/* Factor of a unit to µV; 0 when it is no voltage, 1 and *ret_assumed when it is blank or "n/a". Text in UTF-8 (tal_text). */
double unit_factor(const char *unit, bool *ret_assumed);
/* Whether EEG of this standard deviation, taken as µV, is probably in V. */
static inline bool unit_looks_like_volts(double uv) { return uv > 1e-7 && uv < 0.005; }
