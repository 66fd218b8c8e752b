/* trends: hours of EEG at a glance: numbers for each ten seconds of the montage bipolar-18 at 256 Hz. Every column is defined in
 * docs/trends.md, in double precision, so that another program computes the same. Pure functions; any thread. */
#pragma once
#include "base/base.h"

enum { TRENDS_EPOCH_S = 10, TRENDS_EPOCH = 2560, TRENDS_CHANNELS = 18, TRENDS_CSA_HZ = 20 };
/* Amplitude-integrated EEG of C3-P3 and C4-P4; powers of four bands, rhythmicity and its frequency of both sides; asymmetry; the
 * suppression ratio; and the spectrum of the whole head from 1 to 20 Hz. */
enum {
    TRENDS_AEEG = 0,
    TRENDS_BANDS = 4,
    TRENDS_RHYTHM = 12,
    TRENDS_ASYMMETRY = 16,
    TRENDS_SUPPRESSION,
    TRENDS_CSA,
    TRENDS_COLUMNS = TRENDS_CSA + TRENDS_CSA_HZ
};
/* "aeeg_left_low", …: the names of the columns in a table. */
const char *trends_column(int column);
/* uv: (TRENDS_EPOCH, TRENDS_CHANNELS) in µV, in the order of the montage bipolar-18. All columns are NaN where a sample is NaN. */
int trends_epoch(const float *uv, double ret[TRENDS_COLUMNS], struct err *err);
