/* montage_partial: the part of a montage of differences that a recording with few electrodes allows, for models that take any
 * number of channels: the chains of bipolar-18 over the electrodes that are there, so that Fp1, C3 and O1 give Fp1-C3 and C3-O1;
 * or, where the recording has more of them, the derivations that it holds. Pure functions; any thread. */
#ifndef BRR_EEG_MONTAGE_PARTIAL_H
#define BRR_EEG_MONTAGE_PARTIAL_H
#include <stddef.h>

#include "base/err.h"

/* Writes "custom:Fp1-C3,C3-O1,…" (montage.h). PRECONDITION when it would rest on fewer than `least` channels: names those that can
 * be used, and that other labels need new names. */
enum { MONTAGE_PARTIAL_SIZE = 512 };
int montage_partial(const char *const *labels, int n_labels, int least, char ret[MONTAGE_PARTIAL_SIZE], struct err *err);

#endif
