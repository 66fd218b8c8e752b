/* draws: chooses and orders the windows of an epoch out of those of some entries of a manifest; windows/sampler says how. The
 * functions are those of a sampler without jitter. One thread at a time. */
#pragma once

#include "windows/manifest.h"

/* full and none are ratios to the number of partial windows. redraw_each_epoch false: every epoch shows the windows of epoch 0, in
 * an order of its own. */
struct balance_config {
    double full, none;
    bool redraw_each_epoch;
    int64_t per_patient; /* most partial windows of one patient in an epoch, drawn anew for each; 0: all */
    double hard;         /* share of the background windows that are drawn from the hard ones (sampler_set_hard) */
};
struct balance_counts {
    int64_t partial, full, none;
};
/* all partial + full·P full + none·P none (P = partial; if P = 0 the number of full ones), never more than exist. */
void balance_plan(const struct balance_counts *found, const struct balance_config *config, struct balance_counts *ret_used);
/* The partial windows of the entries with role 1 that an epoch shows under config->per_patient. Returns −1 when out of memory. */
int64_t balance_partial(const struct manifest *m, const uint8_t *role, const struct balance_config *config);

struct window_ref {
    int64_t entry, start;
};
/* For qsort and bsearch: by entry, then by start. */
int window_ref_order(const void *a, const void *b);

struct draws;
/* Entries without a seizure show all their background windows. PRECONDITION when the balance leaves no window. */
int draws_new(const struct manifest *m, const uint8_t *role, const struct balance_config *balance, uint64_t seed,
              struct draws **ret, struct err *err);
void draws_free(struct draws *d); /* takes NULL */
/* Sets the error of windows that nothing can be learned from. Returns PRECONDITION. */
int draws_refuse(const struct balance_counts *found, int64_t total, struct err *err);
int64_t draws_epoch_windows(const struct draws *d);
void draws_counts(const struct draws *d, struct balance_counts *ret_found, struct balance_counts *ret_used);
void draws_ratios(const struct draws *d, double *ret_sample_prior, double *ret_window_ratio);
struct window_ref draws_at(struct draws *d, int64_t epoch, int64_t i);
const struct window_ref *draws_background(const struct draws *d, int64_t *ret_n);
int64_t draws_hard_wanted(const struct draws *d);
int draws_set_hard(struct draws *d, const struct window_ref *hard, int64_t n, struct err *err);
