/* mixture: windows of several sources whose shares of an epoch are their weights (manifest_source). Each source has a sampler of
 * its own, with its own balance, and goes through its own epochs one after the other: those of a source with a large weight and few
 * windows end sooner. Of an epoch's windows, as many as the sources' own epochs have together, each source gives its share; which
 * one comes at each place is drawn by Philox (stream RNG_SAMPLER, step = epoch). Internal to windows/sampler; one thread at a time.
 */
#pragma once
#include "windows/draws.h"

struct mixture;
/* True if the sources have weights. */
bool mixture_wanted(const struct manifest *m);
/* As draws_new; errors name the source. PRECONDITION also for a source without training windows, and without a seizure window in
 * all of them; a source that has none shows all its background windows. */
int mixture_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
                struct mixture **ret, struct err *err);
void mixture_free(struct mixture *x); /* takes NULL */
/* As sampler_limit; *ret_enough false: all sources together may not give an epoch, and nothing has changed. */
int mixture_limit(struct mixture *x, const struct manifest *m, double times, bool *ret_enough, struct err *err);
/* As the functions of a sampler. */
int64_t mixture_epoch_windows(const struct mixture *x);
void mixture_counts(const struct mixture *x, struct balance_counts *ret_found, struct balance_counts *ret_used);
void mixture_ratios(const struct mixture *x, double *ret_sample_prior, double *ret_window_ratio);
struct window_ref mixture_at(struct mixture *x, int64_t epoch, int64_t i);
const struct window_ref *mixture_background(const struct mixture *x, int64_t *ret_n);
int64_t mixture_hard_wanted(const struct mixture *x);
int mixture_set_hard(struct mixture *x, const struct window_ref *hard, int64_t n, struct err *err);
