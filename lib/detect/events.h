/* events: from a probability trace at 256 Hz to seizure events, in absolute samples; incremental and exact, so a stream
 * and a whole recording give the same events. Pure arithmetic; one thread per object.
 * hysteresis (on, off, min_onset, min_offset) → opening → closing → look back to where the trace rose to off → minimum duration →
 * merge gap → split above the maximum (pieces are not merged again) → confidence. Definitions: docs/models.md. */
#pragma once

#include "base/base.h"
#include "base/json.h"
#include "base/pack.h"

enum event_confidence { EVENT_CONFIDENCE_MEAN, EVENT_CONFIDENCE_PEAK, EVENT_CONFIDENCE_PERCENTILE };
struct events_config {
    double on, off;
    int64_t min_onset, min_offset; /* samples */
    int64_t opening, closing;      /* odd kernels, samples */
    double min_duration_s, max_duration_s, merge_gap_s;
    enum event_confidence confidence;
    double percentile;    /* 0.75 */
    double lookback_s;    /* an event begins at most this long before `on`, while p was ≥ off; 0 in files that do not say it */
    double alarm_latch_s; /* an alarm stays on for at least this long (detect/alarms.h); 0 in files that do not say it */
};
void events_config_default(struct events_config *ret); /* 0.86 0.78 128 256 11 31 3 600 2 mean, no lookback, no latch */
int events_config_check(const struct events_config *c, struct err *err);
/* The configuration with other thresholds: 0 = that of `base`, and off then at most `on`. INVALID: they are no
 * thresholds. */
int events_config_with(const struct events_config *base, double on, double off, struct events_config *ret, struct err *err);
void events_config_to_json(const struct events_config *c, struct json_writer *w, const char *key);
int events_config_from_json(const struct json *j, struct events_config *ret, struct err *err);

struct event {
    int64_t first, end; /* samples [first, end) at 256 Hz from time 0 */
    float confidence;   /* 0..1 */
    uint32_t where;     /* channels that carry it, as bits in the order of the montage (detect/focus.h); 0: not known */
};

struct events;
typedef void events_emit_fn(void *ctx, const struct event *event);
/* emit is called once per final event, in order, as soon as no later sample can change it. */
struct events *events_new(const struct events_config *config, events_emit_fn *emit, void *ctx);
void events_free(struct events *e);
/* Takes the next n probabilities. A new segment (long gap) is announced by events_break with its first sample. */
int events_push(struct events *e, const float *p, int64_t n, struct err *err);
int events_break(struct events *e, int64_t next_sample, struct err *err);
int events_finish(struct events *e, struct err *err);
/* Processes a whole trace, NaN = gap: returns malloc'd events (free()) and their number. */
int events_find(const struct events_config *config, const float *p, int64_t n, struct event **ret, int64_t *ret_count,
                struct err *err);

/* The event that has begun and not ended; false: there is none, or it is too short yet. It ends, so far, at the newest sample;
 * confidence NaN. */
bool events_running(const struct events *e, struct event *ret);

/* The state between two pushes, for snapshots; load into events made with the same configuration, before its first push. */
int events_pack(struct events *e, struct packer *p, struct err *err);

/* A whole trace to be searched under many thresholds: what each block of its samples can change at most is known. */
struct events_block {
    float lowest, highest; /* NaN where a sample is */
};
struct events_trace {
    const float *p; /* borrowed */
    int64_t n;
    struct events_block *blocks, *wide; /* one allocation */
};
int events_trace_init(struct events_trace *t, const float *p, int64_t n, struct err *err);
void events_trace_done(struct events_trace *t);
/* The events of events_find with confidence 0. Several threads may search one trace. */
int events_find_spans(const struct events_config *config, const struct events_trace *trace, struct event **ret, int64_t *ret_count,
                      struct err *err);
