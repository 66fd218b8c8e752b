/* arrival: the order in which a training first needs its recordings, so that they can be fetched and decoded ahead of it. A pure
 * function of manifest, roles and sampler: it affects when recordings are loaded, never which windows are shown. */
#pragma once
#include "windows/sampler.h"

struct arrival_config {
    const uint8_t *role;           /* per entry */
    uint8_t training, validation;  /* the two roles */
    int64_t epoch, index;          /* position of the first window to be shown */
    int64_t batch_size;            /* the last windows of an epoch that do not fill a batch are dropped */
    int64_t windows;               /* total number of windows to be shown */
    int64_t windows_to_validation; /* shown before the first validation; ≥ windows: validation comes last */
};
/* Returns in *ret (malloc'd, *ret_n entries) each recording of the two roles at most once, ordered by first use. Training
 * recordings that the first few epochs do not show come after all others, or not at all when the training ends before. The sampler
 * must not be used by others meanwhile. */
int arrival_order(const struct manifest *m, struct sampler *s, const struct arrival_config *config, struct recording ***ret,
                  int64_t *ret_n, struct err *err);
