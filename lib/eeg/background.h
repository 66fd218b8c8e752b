/* background: how large one person's EEG is while nothing happens, as a running level ln(b + offset) beside which a feature or a
 * row is measured. It takes one value ln(M + offset) a block, BACKGROUND_BLOCKS_PER_S of them a second.
 * For the first BACKGROUND_LEARN_S that are heard the level is the 40 % quantile of what was heard and of a prior worth 5 s, whose
 * median is what is louder than most people and whose deviation is 0.6; it does not rise above that prior, so that a recording
 * which begins in a loud seizure does not take it for background. Afterwards it is a decaying median: it moves by at most a factor
 * of 2 in 240 s, more slowly within 0.25 of what is heard.
 * While its owner says that an event lasts, it stays.
 * After a gap of the same person's recording the level becomes a second prior, worth 20 s with a deviation of 0.2, half as much for
 * every ten minutes of the gap, and the learning begins anew. What is flat is not heard: neither the level nor the time move.
 * Its bits are a function of the values alone. One thread at a time. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum { BACKGROUND_BLOCKS_PER_S = 16, BACKGROUND_LEARN_S = 60, BACKGROUND_LEARNED = BACKGROUND_LEARN_S * BACKGROUND_BLOCKS_PER_S };

struct background {
    bool learns;                       /* false: it only follows from its prior on, as models of older versions do */
    bool holds;                        /* set while an event lasts: the level stays */
    double prior;                      /* of the level, in people whom nobody has heard yet */
    double level;                      /* ln(b + offset) */
    double known, worth;               /* the level before the gap and how many blocks it counts for; 0: nothing is known */
    int64_t heard;                     /* blocks while it learns */
    double values[BACKGROUND_LEARNED]; /* which were heard, sorted */
};

/* Nothing is known of the person. */
void background_start(struct background *b, double prior, bool learns);
/* The same person is heard again after so many seconds. */
void background_resume(struct background *b, double gap_s);
/* The next block that is not flat. */
void background_hear(struct background *b, double value);
/* Seconds until the level is the person's own, rounded up; 0: it is. */
int background_left_s(const struct background *b);
/* How many seconds what is known before a gap counts for after it: also for the decaying means of eeg/history. */
double background_worth_s(double gap_s);
/* Snapshots: of one that only follows no more than its level. */
void background_pack(struct background *b, struct packer *p);
