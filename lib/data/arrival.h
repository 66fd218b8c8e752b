/* arrival: in which order a training comes to need its recordings, so that they can be fetched and decoded ahead of it. A pure
 * function of manifest, roles and sampler: it decides what is there first and never what is shown. */
#ifndef BRR_DATA_ARRIVAL_H
#define BRR_DATA_ARRIVAL_H
#include "data/recording.h"
#include "data/sampler.h"

struct arrival_config {
    const uint8_t *role;           /* of each entry */
    uint8_t training, validation;  /* the two roles */
    int64_t epoch, index;          /* of the first window that will be shown */
    int64_t batch_size;            /* an epoch's last windows that fill no batch are left out */
    int64_t windows;               /* that will be shown in all */
    int64_t windows_to_validation; /* shown before the first validation; ≥ windows: it comes last */
};
/* *ret (malloc'd, *ret_n of them): each recording of the two roles once at most, by its first use. Training recordings that no
 * window of the first few epochs shows come after all others, and not at all when the training ends before. The sampler must be
 * nobody else's meanwhile. */
int arrival_order(const struct manifest *m, struct sampler *s, const struct arrival_config *config, struct recording ***ret,
                  int64_t *ret_n, struct err *err);

#endif
