/* resident: the recordings of a training in device memory, as the window cache stores them: binary16 rows of all channels, and a
 * label for each row. op_windows cuts windows out of it. One owner, the device's thread. */
#pragma once
#include "kernels/device.h"
#include "windows/manifest.h"
#include "windows/sampler.h"

struct resident_config {
    struct device *device;
    const struct manifest *manifest; /* must outlive it */
    const uint8_t *role;             /* per entry */
    uint8_t wanted;                  /* the role to load */
    int workers;                     /* threads that decode recordings missing in the window cache */
    /* Number of loaded recordings; called often. Returning false stops with CANCELLED after the recordings in progress. May be NULL
     */
    bool (*progress)(void *ctx, int64_t done, int64_t total);
    void *ctx;
    int64_t *failed; /* set to the entry of the recording that resident_open could not load; untouched otherwise. May be NULL */
};
/* Bytes of device memory. */
int64_t resident_bytes(const struct resident_config *config);
struct resident;
int resident_open(const struct resident_config *config, struct stream *s, struct resident **ret, struct err *err);
void resident_close(struct resident *r); /* takes NULL */

/* Device memory, for windows_args. */
const uint16_t *resident_rows(const struct resident *r);
const uint8_t *resident_labels(const struct resident *r);
/* The row at which a window of the loaded role begins and how many of its `window` samples are valid. */
void resident_locate(const struct resident *r, const struct window_ref *ref, int64_t window, int64_t *ret_first,
                     int32_t *ret_valid);
