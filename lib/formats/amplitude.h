/* amplitude: whether samples in a unit that their file does not state are microvolts. Any thread. */
#pragma once
#include "formats/eegfile.h"

/* Measures the standard deviation of the first ten seconds in which it is not 0, the median over those of n signals that state no
 * unit, at the rate that most of them have. INVALID for one of volts; ret_faults (size), which may hold a text already, receives a
 * sentence on one that is odd, or that is of volts although the unit is stated to be the microvolt. */
int amplitude_check(const struct eegfile *file, const int *signals, int n, char *ret_faults, size_t size, struct err *err);
