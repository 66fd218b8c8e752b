/* suppression: burst suppression of one recording or stream, from the filtered rows of eeg/frontend (µV, 256 Hz). A pure function
 * of the samples and their times, whatever the chunks. Memory: 15 kB, and the reports that
 * its owner has not taken yet. One thread at a time.
 *
 * Method: recursive estimation of mean and variance, then a threshold.
 *     mean(t) = b·mean(t−1) + (1 − b)·x(t)
 *     var(t)  = b·var(t−1)  + (1 − b)·(x(t) − mean(t))²       b = exp(−1 / (0.1047 s · 256 Hz))
 *     a channel is active at t where var(t) ≥ 12.5 µV²; the recording is where at least 60 % of the channels (rounded up) are
 *     a run without activity of 0.5 s or more is a suppression; a shorter one belongs to the activity around it
 *     a burst is a run of activity of 0.5 s or more that follows a suppression; a shorter one is a single discharge
 * Sources: the recursion and its forgetting time (0.9534 a sample at 200 Hz, that is 0.1047 s) are those of Westover et al. 2013,
 * J Neurosci Methods 219:131 (PMC3939433). Share of channels: An et al. 2015, EMBC 7430 (PMC4876722). Shortest suppression, window
 * of a minute: the published implementation of both. The threshold is a matter of amplifier and montage: 12.5 µV² is the variance
 * of a sine of ±5 µV, the amplitude below which EEG counts as suppressed (10 µV from peak to peak: ACNS critical care EEG
 * terminology 2021; the same in monitors of anaesthesia). Shortest burst: the ACNS terminology.
 *
 * A burst of variance V fades below the threshold only 0.1047 s · ln(V / 12.5 µV²) after its end: 0.5 s at 38 µV root mean square.
 * That much of every suppression counts as activity, as in the published method. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

enum {
    SUPPRESSION_RATE_HZ = 256,
    SUPPRESSION_MAX_CHANNELS = 64,
    SUPPRESSION_WINDOW_S = 60,
    SUPPRESSION_SHORTEST = SUPPRESSION_RATE_HZ / 2,     /* samples: suppressions and bursts */
    SUPPRESSION_LATEST = 2 * SUPPRESSION_SHORTEST + 32, /* samples after its second by which a report is ready */
};
#define SUPPRESSION_FORGET_S      0.1047
#define SUPPRESSION_KEEP          0.9633784265879135 /* b */
#define SUPPRESSION_THRESHOLD_UV2 12.5
#define SUPPRESSION_AGREE_PERCENT 60

/* The newest minute at one whole second of file time. Values refer to the samples with data in that minute: fewer at the start and
 * after a gap. */
struct suppression_report {
    int64_t sample;                 /* the minute ends before this sample, a multiple of 256 */
    int64_t observed;               /* samples with data in the minute, 1 to 15360 */
    float ratio, bursts_per_minute; /* of the recording: suppressed share 0..1; bursts that began, per minute with data */
    int channels;
    const float *channel_ratio, *channel_bursts; /* (channels) the same of each channel; valid during the call */
};
/* A non-zero return ends the call that caused it with that error; the object can only be freed then. Any callback may be NULL. */
struct suppression_sink {
    void *ctx;
    /* Of suppression_give: once for every second whose last sample had data, in order. */
    int (*report)(void *ctx, const struct suppression_report *report, struct err *err);
    /* A suppression [first, end) of the recording, in order, when it ends: at the first activity, or where data end. */
    int (*segment)(void *ctx, int64_t first, int64_t end, struct err *err);
    int stride;      /* values of a row that is pushed, of which the first are the channels; 0: those alone */
    bool whole_only; /* reports are of the recording alone: channels 0 */
};
/* Since the beginning, without the samples that are still undecided. */
struct suppression_totals {
    int64_t observed, suppressed, bursts; /* of the recording; observed and suppressed in samples */
};

struct suppression;
/* INVALID for a number of channels outside 1..SUPPRESSION_MAX_CHANNELS. */
int suppression_new(int channels, const struct suppression_sink *sink, struct suppression **ret, struct err *err);
void suppression_free(struct suppression *s);
/* n rows of `channels` binary16 values (or sink.stride), the first at sample `first`. Samples left out since the last push are a
 * gap: a suppression ends there, and the estimates are reset behind it. INVALID when `first` lies before the end of the last push.
 */
int suppression_push(struct suppression *s, const uint16_t *rows, int64_t n, int64_t first, struct err *err);
/* Gives out the reports up to `sample` that are ready. All up to the newest sample less SUPPRESSION_LATEST are, and all after
 * suppression_finish. */
int suppression_give(struct suppression *s, int64_t sample, struct err *err);
/* Data end here for now: decides the pending samples; further pushes may follow and begin as after a gap. */
int suppression_finish(struct suppression *s, struct err *err);
void suppression_totals(const struct suppression *s, struct suppression_totals *ret);

/* The state between two pushes, for snapshots; load into a new object with the same number of channels. A failed load
 * marks p->from. */
int suppression_pack(struct suppression *s, struct packer *p, struct err *err);
