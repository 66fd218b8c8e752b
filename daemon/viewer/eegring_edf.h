/* eegring_edf: the EEG around an alarm as an EDF+ file, from what a ring (viewer/eegring.h) still has of it. Any thread. */
#pragma once
#include "daemon/viewer/eegring.h"

enum { EEGRING_EDF_S = 60 /* seconds before the alarm, and after it */, EEGRING_EDF_BYTES = 8 << 20 };

struct eegring_edf {
    int64_t alarm;    /* sample at which it began */
    int64_t wall_ms;  /* Unix time of that sample */
    const char *text; /* of its annotation */
};
/* Appends a file of whole seconds, with the rows of the ring as its channels. Samples that were not measured are 0, and annotations
 * name their channels and seconds. NOT_FOUND: the ring has nothing of that time any more. EXHAUSTED: memory, or the room of out. */
int eegring_put_edf(const struct eegring *r, const struct eegring_edf *what, struct str *out, struct err *err);
