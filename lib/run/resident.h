/* resident: the recordings that a training shows, whole in device memory as the window cache holds them: binary16 rows of all
 * channels, and a label for each row. Windows are cut out of it by op_windows. One owner, the device's thread. */
#ifndef BRR_RUN_RESIDENT_H
#define BRR_RUN_RESIDENT_H
#include "data/manifest.h"
#include "data/sampler.h"
#include "kernels/device.h"

struct resident_config {
    struct device *device;
    const struct manifest *manifest; /* must outlive it */
    const uint8_t *role;             /* of each entry */
    uint8_t wanted;                  /* the role that is taken */
    int workers;                     /* threads that decode what is not in the window cache yet */
    /* Recordings done; called often. false: stop with CANCELLED, once those in hand are loaded. May be NULL */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
};
/* Device memory that it takes. */
int64_t resident_bytes(const struct resident_config *config);
struct resident;
int resident_open(const struct resident_config *config, struct stream *s, struct resident **ret, struct err *err);
void resident_close(struct resident *r); /* NULL is fine */

/* Device memory, for windows_args. */
const uint16_t *resident_rows(const struct resident *r);
const uint8_t *resident_labels(const struct resident *r);
/* Where a window of the wanted role begins and how many of its `window` samples there are. */
void resident_locate(const struct resident *r, const struct window_ref *ref, int64_t window, int64_t *ret_first,
                     int32_t *ret_valid);

#endif
