/* augment: random changes of training windows, each a pure function of (seed, epoch, position in the epoch): Philox stream
 * RNG_AUGMENT, step = epoch. A training that was killed goes on with the same windows, whoever cuts them. Immutable once made; any
 * thread. */
#pragma once

#include "eeg/frontend.h"

struct augment_config {
    bool enabled, jitter; /* jitter: starts move by up to half a hop (windows/sampler) */
    double mirror;        /* probability that left and right are exchanged */
    double drop_channels; /* probability, for each channel, that it is silent */
    int64_t most_missing; /* so many channels at most are silent in half of the windows, however many; 0: none */
    double gain;          /* signals are multiplied by a factor from 1/gain to gain */
    double left_pad;      /* probability that the beginning is padding, up to AUGMENT_PAD_SHARE of the window */
};
#define AUGMENT_PAD_SHARE (11.0 / 12)

struct augment {
    struct augment_config config;
    uint64_t seed;
    int64_t window;
    int channels, inputs;                  /* of the montage; of the network */
    int of_channels;                       /* inputs that belong to one channel each, a row of all channels after the other */
    bool mirrors;                          /* every channel of the montage has one opposite it, or is in the middle */
    int32_t partner[FRONTEND_MAX_COLUMNS]; /* (inputs) the input that mirroring exchanges it with */
};
int augment_init(struct augment *a, const struct augment_config *config, const struct frontend_config *frontend, int64_t window,
                 uint64_t seed, struct err *err);
/* What happens to the window at `index` of an epoch. factor (inputs): of the inputs once they are mirrored. */
struct augment_draw {
    float *factor;
    int32_t mirrored, pad; /* pad: samples at the beginning */
};
void augment_draw(const struct augment *a, int64_t epoch, int64_t index, struct augment_draw *ret);
/* How far the start of that window moves, −hop/2 to hop/2. */
int64_t augment_jitter(uint64_t seed, int64_t epoch, int64_t index, int64_t hop);
