/* contact: how many channels of a montage carry no usable signal, second by second of a segment, from the filtered rows of
 * eeg/frontend (µV, 256 Hz). A channel is bad in a second if it is flat (less than 0.5 µV from the lowest to the highest sample:
 * disconnected, or its samples are missing) or clipped (more than 1 % of its samples beyond ±2,000 µV, which no scalp EEG
 * reaches). A pure function of the samples, whatever the chunks, so that it holds for streams and for cached recordings, which have
 * no raw samples. One thread at a time. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum { CONTACT_BAD_CHANNELS = 4 };
/* So many bad channels of a montage make a decision void: CONTACT_BAD_CHANNELS, or half of less than twice as many channels. */
static inline int contact_most_bad(int channels) {
    return channels < 2 * CONTACT_BAD_CHANNELS ? (channels + 1) / 2 : CONTACT_BAD_CHANNELS;
}

struct contact;
struct contact *contact_new(int channels); /* NULL when out of memory */
void contact_free(struct contact *c);      /* takes NULL */
/* From now on `tell` hears of each second with bad channels, which ends at this sample: bits of those that are flat, and clipped.
 */
typedef void contact_fn(void *ctx, int64_t end, uint64_t flat, uint64_t clipped);
void contact_tell(struct contact *c, contact_fn *tell, void *ctx);
/* A segment begins at this sample; what was said of the one before is forgotten. */
void contact_start(struct contact *c, int64_t sample);
/* The next n rows of the segment; the channels are the first values of each row of `columns` values. */
int contact_push(struct contact *c, const uint16_t *rows, int columns, int64_t n, struct err *err);
/* True if in the newest whole second of the segment that ends at or before `sample` contact_most_bad channels or more are bad.
 * Forgets earlier seconds: calls come in order. */
bool contact_bad(struct contact *c, int64_t sample);
/* The state, for snapshots; load into a new one of as many channels. */
int contact_pack(struct contact *c, struct packer *p, struct err *err);
