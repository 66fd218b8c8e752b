/* montage_partial: the part of a montage that a recording with few electrodes allows. For models that take any number of channels:
 * the chains of bipolar-18 over the electrodes that are there, so that Fp1, C3 and O1 give Fp1-C3 and C3-O1; or, where the
 * recording has more of them, the derivations that it holds. For networks: the channels of their own montage that can be made.
 * Pure functions; any thread. */
#pragma once

#include "base/base.h"

/* Writes "custom:Fp1-C3,C3-O1,…" (montage.h). PRECONDITION when it would rest on fewer than `least` channels: names those that can
 * be used, and that other labels need new names. */
enum { MONTAGE_PARTIAL_SIZE = 512 };
int montage_partial(const char *const *labels, int n_labels, int least, char ret[MONTAGE_PARTIAL_SIZE], struct err *err);

struct montage_rest {
    char spec[MONTAGE_PARTIAL_SIZE]; /* "custom:" and the channels that are there, in the order of the whole montage */
    uint64_t absent;                 /* bit c: the whole montage's channel c is missing */
    int channels, read;              /* of spec; of the recording, that these are made of */
};
/* PRECONDITION when fewer than `least` channels of the montage can be made: names those that can. */
int montage_rest_of(const char *whole, const char *const *labels, int n_labels, int least, struct montage_rest *ret,
                    struct err *err);
