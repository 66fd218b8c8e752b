/* quality: defects in the raw signal of a stream: channels that are flat, clipped, missing or noisy, and samples that were
 * lost. It is judged for each second of the source and gathered for the samples of a result, so that what is said of a result is a
 * function of the samples alone, however they were cut into pushes. One thread. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum quality_flaw {
    QUALITY_FLAT = 1,    /* in every second: less than 0.5 µV from the lowest to the highest sample, or so it was told */
    QUALITY_CLIPPED = 2, /* in some second: many samples at the limit of the source, or at its highest and lowest value, or told */
    QUALITY_MISSING = 4, /* some samples are no numbers */
    QUALITY_NOISY = 8,   /* in half of the seconds or more: more than 500 µV RMS about the mean */
    QUALITY_VOLTS = 16,  /* beside FLAT, in every second: flat in µV, and of the size that EEG has in V */
};

struct quality_channel {
    int channel; /* among those that are pushed */
    int flaws;   /* of enum quality_flaw; not 0 */
};
struct quality_report {
    struct quality_channel *channels; /* those with flaws, in order; free() */
    int n;
    double gap_fraction; /* of the samples: lost, or filled by holding the last one */
};

/* The rule for samples that are no numbers, of streams and files: *last, the channel's last finite sample (0 before the first),
 * takes the place of a NaN or infinite one. Returns true if it did. */
static inline bool quality_hold(float *sample, float *last) {
    const bool missing = !isfinite(*sample);
    *(missing ? sample : last) = missing ? *last : *sample;
    return missing;
}

/* All are numbers. */
bool quality_finite(const float *x, int64_t n);

/* Appends the names of flaws: " flat clipped". QUALITY_VOLTS has none: it tells nothing of one channel alone. */
void quality_put_flaws(struct str *out, int flaws);
/* A sentence on a report of so many judged channels as a whole, or "". */
const char *quality_note(const struct quality_report *r, int judged);

struct quality;
/* limit_uv: where the source clips; infinite when unknown. NULL when out of memory. */
struct quality *quality_new(int channels, double rate_hz, double limit_uv);
void quality_free(struct quality *q);
/* Takes the next n samples of all channels, uv[c][0..n), and holds those that are no numbers (quality_hold). EXHAUSTED when out of
 * memory. */
int quality_push(struct quality *q, float *const *uv, int64_t n, struct err *err);
int quality_gap(struct quality *q, int64_t missing, struct err *err);
/* Tells flaws of a channel in the second that has the 256 Hz sample before `end`, such as of what the model makes of it. They count
 * where the samples themselves have none and none of them is lost. Before the take that reaches `end`. */
void quality_tell(struct quality *q, int64_t end, int channel, int flaws);
/* Gathers the whole seconds in [first, end) at 256 Hz and forgets all before `end`; zeros when there is none. Calls come in order.
 */
int quality_take(struct quality *q, int64_t first, int64_t end, struct quality_report *ret, struct err *err);
/* The state, for snapshots; load into a new one made alike. false: the bytes are corrupt, or memory is out. */
bool quality_pack(struct quality *q, struct packer *p);
/* What was told of the second at hand, which states of older versions do not have. */
void quality_pack_told(struct quality *q, struct packer *p);
