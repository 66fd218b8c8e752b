/* history: the amplitude history of each channel as a causal stream beside the filters. It gives a network what the z-score of a
 * window erases: how large the signal is in comparison with the last ten minutes. A row of filtered µV becomes a row of inputs:
 *   signal    asinh(x / s); s² is the decaying mean of x² over HISTORY_S, begun with HISTORY_PRIOR_S of 20 µV; s ≥ 2 µV
 *   envelope  ln((m + 0.3) / (b + 0.3)), µV per sample; m is the mean of |y[t] − y[t−1]| over the last second, b its decaying mean
 *             over HISTORY_S, begun with HISTORY_PRIOR_S of 3 µV; y is x after a band-pass of 1–25 Hz
 * In both decaying means a sample counts as at most ten times the mean, so that a short artefact does not hide the next minutes.
 * The output is a fixed sequence of operations on its own channel: its bits do not depend on how the rows were divided into calls.
 * One thread at a time per object. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum { HISTORY_S = 600, HISTORY_PRIOR_S = 10 };

struct history;
/* The columns of a row: signals, and with `envelope` the envelopes behind them. Rows of `lanes` doubles hold `channels` values
 * (dsp.h). */
int history_new(int channels, int lanes, bool envelope, struct history **ret, struct err *err);
void history_free(struct history *h); /* takes NULL */
/* The next row is the first one of a segment, and `row` is that row. What the decaying means knew of the person counts for known_s
 * beside what they begin with (background_worth_s); 0: it is forgotten. */
void history_start(struct history *h, const double *row, double known_s);
/* n ≤ DSP_BLOCK filtered rows → binary16: the signal columns of row i at to + i·stride, its envelope columns right behind them.
 * Rows that are held over a gap say nothing about the amplitude: means and envelopes stay as they are. `keep`: the decaying means
 * alone stay, where nothing is heard (feature_hears). */
struct history_output {
    uint16_t *to;
    int stride;
};
void history_keep(struct history *h, bool keep); /* of the next calls; false after history_new */
void history_run(struct history *h, const double *rows, int64_t n, bool held, struct history_output out);
/* What the decaying means know of the person, for an object made alike; history_start must follow a load. */
void history_pack_means(struct history *h, struct packer *p);
/* The state between two calls, for snapshots; load into an object made alike. */
void history_pack(struct history *h, struct packer *p);
