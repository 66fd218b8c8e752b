/* augment_noise: noise and missing bands that windows/augment draws for training windows, each a pure function of (seed, epoch,
 * position in the epoch): Philox stream RNG_NOISE, step = epoch. They change the signal columns of a window alone. Envelope columns
 * measure 1–25 Hz in proportion to its last minutes, so that mains noise and most of the muscle noise leave them as they are, and a
 * band that is missing throughout cancels in the proportion. Any thread. */
#pragma once
#include "windows/augment.h"

/* Lengths of the tables: muscle noise of 32 s, and a period of a sine. */
enum { AUGMENT_NOISE_SAMPLES = 8192, AUGMENT_WAVE_SAMPLES = 1024 };

/* True if windows may get noise or lose a band. */
bool augment_is_noisy(const struct augment_config *config);
/* noise (AUGMENT_NOISE_SAMPLES): Gaussian noise of 20–100 Hz with an RMS of 1, without a seam at its ends; wave
 * (AUGMENT_WAVE_SAMPLES): a sine with an RMS of 1. EXHAUSTED. */
int augment_noise_tables(uint64_t seed, float *noise, float *wave, struct err *err);

struct augment_noise_channel {
    float muscle, mains;   /* RMS; 0 = none */
    int32_t offset, phase; /* into the tables */
};
/* The noise of one window. Bursts of muscle noise last `length` samples, one in every `period` samples from sample `burst` on;
 * period 0 = none. The sine advances by `step` entries of its table per sample. band: b0 b1 b2 a1 a2 of the second-order section
 * that takes a band out; b0 = 0: none. */
struct augment_noise {
    int32_t burst, length, period, step;
    float band[5];
    struct augment_noise_channel channels[FRONTEND_MAX_CHANNELS];
};
void augment_noise_draw(const struct augment *a, int64_t epoch, int64_t index, struct augment_noise *ret);
