/* lsl_timeline: the place of each sample of a Lab Streaming Layer stream in a recording, from its time stamp. Samples are counted;
 * stamps decide only where something is missing: a stamp that is off by more than 0.25 s for half a second is a gap, one that is
 * off for less is jitter of the sender. A silence becomes a gap while it lasts. Knows no library and no clock: times are given, in
 * seconds. One thread. */
#pragma once
#include "base/base.h"

struct lsl_timeline {
    double rate_hz;
    int64_t position; /* source samples that have their place, gaps included */
    int64_t held;     /* samples behind them that wait for a decision */
    double anchor_s;  /* stamp of position 0, as it is expected */
    bool began, silent;
    int64_t silent_samples; /* declared missing since the silence began */
    int64_t began_samples;  /* samples since the anchor was set */
    double arrived_s;       /* when the last sample came that was no held one */
    double held_since_s;    /* when the first of them came */
    double nearest_s;       /* their smallest deviation, with its sign */
    /* What there is to say at the end. */
    int64_t gaps, gap_samples, late;
    double first_stamp_s, last_stamp_s; /* of the samples since the last gap or reset */
    int64_t stamped;
    double spans_s; /* of stretches between gaps that are over, and steps from sample to sample in them: the rate that stamps say */
    int64_t steps;
};

enum lsl_result {
    LSL_FOLLOWS, /* this sample, and all held ones before it, follow the ones before */
    LSL_HOLDS,   /* not decided: keep it behind the held ones */
    LSL_GAP,     /* the held ones and this one follow after *ret_gap missing samples */
    LSL_LATE,    /* its place was given to a gap: leave it out */
};

void lsl_timeline_init(struct lsl_timeline *t, double rate_hz);
/* stamp_s: of the sample, corrected to the local clock; now_s: the local clock. After FOLLOWS and GAP the samples have their
 * places, and `position` is behind them. */
enum lsl_result lsl_timeline_add(struct lsl_timeline *t, double stamp_s, double now_s, int64_t *ret_gap);
/* Nothing came until now_s: missing samples that are to be declared at once, 0 = none. Held samples must be taken before
 * (lsl_timeline_settle). */
int64_t lsl_timeline_silence(struct lsl_timeline *t, double now_s);
/* Decides over the held samples now, as nothing follows them: their gap, 0 = they follow. */
int64_t lsl_timeline_settle(struct lsl_timeline *t);
/* The correction of the sender's clock was replaced by one that differs by delta_s: no sample is missing. */
void lsl_timeline_shift(struct lsl_timeline *t, double delta_s);
/* The rate of n stamps of a stream that declares another one: the median over parts of them, so that a gap does not count, each
 * from the first sample of a sent chunk to that of another, because stamps inside a chunk may only repeat what is declared. Rates
 * near a usual one are that one. NaN below a second. */
double lsl_timeline_measure(const double *stamps, int64_t n, double declared_hz);
/* For a sender: the sample to send next when those from `next` to `first` are missing, so that at most `most` of them are sent as
 * NaN: the stamps say the rest of a long gap. */
int64_t lsl_timeline_resume(int64_t next, int64_t first, int64_t most);
/* Samples in a second by their stamps; NaN before ten seconds. */
double lsl_timeline_rate(const struct lsl_timeline *t);
