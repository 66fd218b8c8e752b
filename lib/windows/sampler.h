/* sampler: chooses and orders the windows of an epoch: all partial windows, some full ones and some without seizure, redrawn each
 * epoch from the seed (Philox, stream RNG_SAMPLER, step = epoch). Windows less than half valid are never shown. Where the sources
 * of the manifest have weights, these are the shares of their windows in an epoch, and each source has a balance of its own; such a
 * source without training windows is an error (PRECONDITION), one without a seizure shows all its background windows. */
#pragma once

#include "windows/draws.h"

struct sampler;
/* Uses the windows of the entries with role 1. ERR_PRECONDITION when the balance leaves none, or none with a seizure. */
int sampler_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct sampler **ret, struct err *err);
void sampler_free(struct sampler *s);
/* From now on no window of a source comes more than `times` times in an epoch, on average over the epochs: a source of few windows
 * gets a smaller share than its weight, and the others its places. PRECONDITION, which names what may be done, when all windows
 * together may not fill an epoch. */
int sampler_limit(struct sampler *s, double times, struct err *err);
/* From now on whole windows start up to half a hop earlier or later, as far as their segment reaches (windows/augment). */
void sampler_set_jitter(struct sampler *s);
int64_t sampler_epoch_windows(const struct sampler *s);
void sampler_counts(const struct sampler *s, struct balance_counts *ret_found, struct balance_counts *ret_used);
/* Expected share of seizure samples among the valid ones of an epoch's windows (the prior), and of windows that hold a seizure. */
void sampler_ratios(const struct sampler *s, double *ret_sample_prior, double *ret_window_ratio);
/* Returns the i-th window (0 ≤ i < sampler_epoch_windows) of an epoch ≥ 0, a pure function of (manifest, seed, epoch, i). The order
 * of the latest epoch is kept, so that iterating over an epoch costs one draw; one thread at a time. */
struct window_ref sampler_at(struct sampler *s, int64_t epoch, int64_t i);

/* All background windows in order of entry and start; valid as long as s. */
const struct window_ref *sampler_background(const struct sampler *s, int64_t *ret_n);
/* The hard windows an epoch wants: twice as many as it shows, so that draws differ. 0 without balance.hard. */
int64_t sampler_hard_wanted(const struct sampler *s);
/* From now on, the epoch in progress included, config.hard of the background windows of an epoch are drawn from these, the others
 * from the rest; n = 0: from all. Windows that are no background windows of s are passed over. The pure function of sampler_at is
 * then one of (manifest, seed, these, epoch, i). */
int sampler_set_hard(struct sampler *s, const struct window_ref *hard, int64_t n, struct err *err);
