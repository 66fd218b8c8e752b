/* feature: one number per sample that says how large the EEG is now in comparison with its own last minutes: the input of
 * the models line_length, band_power and ward, which have no network. A causal stream over the rows that the frontend gives
 * out (binary16 µV). line_length: m is the mean |y[t] − y[t−1]| of the last second, y the row after a band-pass of 1–25 Hz.
 * band_power: m is the root mean square of y over the last two seconds, y after a band-pass of 2.5–8 Hz. M is the median of
 * m over the channels, in µV. The feature is ln((M + 0.3) / (b + 0.3)), b the person's background (eeg/background), of which
 * the prior is 4 µV (line_length) or 20 µV (band_power). The feature changes every FEATURE_BLOCK samples of a segment. Its
 * bits do not depend on how the rows were divided into calls. One thread at a time per object. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum { FEATURE_BLOCK = 16 };

struct feature;
/* normalize: one that has a feature (eeg/frontend.h). FRONTEND_WARD and FRONTEND_BASELINES: the mean of line_length and 0.6
 * times band_power, which is to say of the log-odds of both models, each of which has a slope of its own. */
int feature_new(int normalize, int channels, struct feature **ret, struct err *err);
void feature_free(struct feature *f); /* takes NULL */
OWNABLE(struct feature, feature_free)
/* From now on b learns this person in the first minute that is heard and keeps what it knows over a gap (eeg/background). Flat
 * signal is not heard: M below 0.2 µV (line_length) or 0.4 µV (band_power), or four channels, of few half of them, below a quarter
 * of that; nor is what no scalp EEG reaches, 25 times the prior; nor the first mean of a segment. */
void feature_learn(struct feature *f);
/* Of two, after feature_learn: b stays while an event lasts, for half an hour at most. An event: the feature, of 0.28 or more for
 * 10 s longer than it was below, once it was below that as long after the first minute of the segment, so that a loud person is
 * no event; it ends with a minute below. A gap ends it, too. */
void feature_hold(struct feature *f);
/* Seconds that it still has to hear until b is the person's own, the longer of two; 0: it is, or f does not learn. */
int feature_learning_s(const struct feature *f);
double feature_learned_s(const struct feature *f); /* seconds of signal in which that was more than 0 */
bool feature_hears(const struct feature *f);       /* the newest block was heard; always without feature_learn */
/* Rows that count until the feature changes next, 1 to FEATURE_BLOCK. */
int64_t feature_ahead(const struct feature *f);
/* Forgets everything: the next row is the first one of a segment, and `row` is that row. */
void feature_start(struct feature *f, const uint16_t *row);
/* The same person is heard again after gap_s: as feature_start, but that what was learned of the person counts. */
void feature_resume(struct feature *f, const uint16_t *row, double gap_s);
/* n rows, `stride` values apart, of which the first are the channels. Rows that are held over a gap leave the feature as it is. */
struct feature_rows {
    const uint16_t *rows;
    int64_t n;
    int stride;
    bool held;
};
/* Writes the feature after row i, binary16, to to[i · stride]. */
struct feature_output {
    uint16_t *to;
    int stride;
};
void feature_run(struct feature *f, struct feature_rows in, struct feature_output out);
/* M after each block of a segment, with a minus where it is not heard. Of a first segment M depends on the channels alone. */
struct feature_blocks {
    double *m; /* malloc'd */
    int64_t n, capacity;
    bool begun, failed; /* failed: out of memory */
};
enum { FEATURE_MEASURES = 2 }; /* line_length and band_power, in this order */
static inline bool feature_is_measured(const struct feature_blocks *b) { return b->n && !b->failed; }
/* After feature_learn: notes the blocks of the first segment, of each measure that f has. Borrowed as long as f runs. */
void feature_note(struct feature *f, struct feature_blocks to[FEATURE_MEASURES]);
/* After feature_start of one feature that learns: the channels of this segment are not looked at, m has its blocks. */
void feature_give(struct feature *f, const double *m);
/* What was learned of the person, for an object made alike that hears the same person later; feature_resume must follow a load. */
void feature_pack_background(struct feature *f, struct packer *p);
/* The state between two calls, for snapshots; load into an object made alike. */
void feature_pack(struct feature *f, struct packer *p);
