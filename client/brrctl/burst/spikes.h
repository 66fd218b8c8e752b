/* spikes: the file of fired neurons that --fired names: .npy (int64 [n,2]: tick, id) or .tsv (header "tick id"), sorted as ticks
 * come. It appears when it is closed. One owner. */
#pragma once

#include "burst/spikefile.h"

struct spikes {
    bool open, tsv;
    struct spikefile npy;
    struct fsio_writer text;
};
/* True if the name ends in .npy or .tsv. */
bool spikes_is_name(const char *path);
/* path NULL: no file; the other functions then do nothing. */
int spikes_open(struct spikes *s, const char *path, struct err *err);
int spikes_add(struct spikes *s, int64_t tick, const uint32_t *ids, size_t n, struct err *err);
int spikes_close(struct spikes *s, struct err *err);
void spikes_abort(struct spikes *s); /* also after spikes_close */
