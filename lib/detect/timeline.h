/* timeline: one recording or live stream under a model: raw chunks in; record trace, events, alarms and burst suppression out.
 * Detection, validation and the Stream RPC all use it. All outputs are a pure function of the samples, so streamed equals offline
 * to the bit for chunks of any size. The owner of the device takes windows and returns probabilities. Record trace: mean over all
 * windows of the grid that cover a sample, summed in order of start, emitted when the last of them is done. A model that carries
 * its state answers each of its steps once, for both traces. Alarm trace: every alarm_hop the newest window ends there and its
 * newest alarm_hop samples are emitted at once; where it is a window of the grid, one pass serves both. The first alarm windows of
 * a segment are padded on the left; no alarm begins before one of them has TIMELINE_ALARM_SIGNAL samples of signal (a whole window,
 * where that is shorter). A model that answers in steps and keeps the background over gaps (frontend_config.learn_background)
 * knows a person whom it has heard for so long: its alarms begin TIMELINE_ALARM_RETURN samples after a gap. While channels
 * without a usable signal (detect/contact.h) make a decision void, the alarm rule takes 0. In memory: two windows of samples,
 * the newest push, and TIMELINE_MAX_PENDING waiting windows. One thread at a time. */
#pragma once

#include "base/pack.h"
#include "detect/alarms.h"
#include "detect/contact.h"
#include "detect/events.h"
#include "detect/modelfile.h"
#include "detect/suppression.h"
#include "eeg/frontend.h"
#include "windows/window.h"

enum { TIMELINE_MAX_PENDING = 512 };
enum { TIMELINE_ALARM_SIGNAL = 30 * FRONTEND_RATE_HZ, TIMELINE_ALARM_RETURN = 10 * FRONTEND_RATE_HZ };

struct timeline_options {
    int64_t alarm_hop;                  /* samples; 0 = no alarm trace; else a divisor of the model's hop */
    const struct events_config *events; /* NULL = the checkpoint's */
    const struct alarm_config *alarms;  /* NULL = those of the events */
};

/* Why an alarm went off. After all but the first nobody knows whether the seizure is over. */
enum alarm_reason {
    ALARM_ENDED,      /* by the rule */
    ALARM_GAP,        /* its segment ended: samples are missing */
    ALARM_ELECTRODES, /* by the rule, which took 0 for samples without a usable signal */
    ALARM_FINISHED    /* the source ended */
};
struct timeline_alarm {
    bool on;
    enum alarm_reason reason; /* of its end */
    int64_t sample;           /* at which the rule holds */
    int64_t known;            /* end of the window that shows it, or of the segment: nobody can know earlier */
    float p;                  /* at the sample; NaN at the end of a segment */
    uint32_t where;           /* on: the channels that carry it, as those of an event; 0: not known */
};
/* Any callback may be NULL. A non-zero return ends the timeline with that error. */
struct timeline_sink {
    void *ctx;
    int (*probabilities)(void *ctx, int64_t first, const float *p, int64_t n, struct err *err); /* final, in order; NaN in gaps */
    /* Samples [first, first + n) between two segments have no values; NULL: they go to probabilities, as NaN. */
    int (*gap)(void *ctx, int64_t first, int64_t n, struct err *err);
    int (*event)(void *ctx, const struct event *event, struct err *err);                      /* final */
    int (*alarm)(void *ctx, const struct timeline_alarm *alarm, struct err *err);             /* the moment the rule holds */
    int (*provisional)(void *ctx, int64_t first, const float *p, int64_t n, struct err *err); /* alarm trace */
    /* What the alarm rule takes of these samples, before the alarms that they raise: the alarm trace, or NULL for zeros. Samples
     * that it does not take (the first of a segment, the last ones that make no alarm window) are left out. */
    int (*judged)(void *ctx, int64_t first, const float *p, int64_t n, struct err *err);
    /* Burst suppression of the newest minute, once a second, before the `settled` of the probabilities that reach
     * SUPPRESSION_LATEST samples beyond that second, or that end its segment. Samples held over a short gap are none here. */
    int (*suppression)(void *ctx, const struct suppression_report *report, struct err *err);
    bool suppression_whole; /* of the recording alone, not of each channel */
    /* A second without a usable signal in some channels of the montage; where there is an alarm trace, before its probabilities. */
    contact_fn *contact;
    /* The rows of the montage before the filters, as they are pushed. */
    frontend_look_fn *look;
    /* The events that belong to the newest probabilities, or to the end of a segment, have been given out. The order of all calls
     * is a function of the samples alone. */
    int (*settled)(void *ctx, struct err *err);
};

struct timeline;
/* The model's montage, filters, window, hop and thresholds are taken from file, which is not kept. */
int timeline_new(const struct modelfile *file, const struct frontend_source *source, const struct timeline_options *options,
                 const struct timeline_sink *sink, struct timeline **ret, struct frontend_report *report, struct err *err);
/* Over filtered samples (a loaded recording); they are fed as windows are taken. The recording must outlive the timeline. */
int timeline_new_cached(const struct modelfile *file, const struct recording *rec, const struct timeline_options *options,
                        const struct timeline_sink *sink, struct timeline **ret, struct err *err);
void timeline_free(struct timeline *t);
/* Indices into source->labels of the channels to push, in order. */
int timeline_sources(const struct timeline *t, const int **ret_indices);
uint64_t timeline_rows_of(const struct timeline *t,
                          int source); /* the channels of the montage, as bits, that are made of that one */
/* Pushes raw µV, channel-major over the used channels, any n. EXHAUSTED when more than TIMELINE_MAX_PENDING windows of earlier
 * pushes wait: run them, then push the same samples again. Any other error ends the timeline. */
int timeline_push(struct timeline *t, const float *const *uv, int64_t n, struct err *err);
int timeline_gap(struct timeline *t, int64_t missing, struct err *err);
/* Ends the source; the last windows become ready. After they are completed all outputs have been emitted. */
int timeline_finish(struct timeline *t, struct err *err);
/* True if a window waits to be taken (feeds a cached recording on). */
bool timeline_ready(struct timeline *t, struct err *err);
/* Copies the next waiting window into x (T,C); false when there is none. */
bool timeline_take(struct timeline *t, float *x);
/* The state of a model that carries one (seizure_step): seizure_state_count floats, owned by the timeline. The windows of such a
 * model are its steps, and each can be taken only when the one before is completed. Read the state after timeline_take; replace it
 * before timeline_complete. */
float *timeline_state(struct timeline *t);
/* For such a model, several steps at once: how many wait one after the other in the present segment, at most `most`, while none is
 * taken; feeds a cached recording on. *ret_last: the segment has no step after them, so nobody needs the state that they leave. */
int timeline_steps(struct timeline *t, int most, bool *ret_last);
/* Copies the next n of them into x, one each `stride` floats. Their timeline_complete calls must follow, with the state after all
 * of them replaced before the first. */
void timeline_take_steps(struct timeline *t, int n, float *x, int64_t stride);
int64_t timeline_waiting(const struct timeline *t); /* windows that were queued and not taken */
/* Probabilities (T) of the oldest taken window. */
int timeline_complete(struct timeline *t, const float *p, struct err *err);
/* True if all outputs have been emitted, after finish. */
bool timeline_done(const struct timeline *t);
/* The first error of an earlier call, or 0. */
int timeline_status(const struct timeline *t, struct err *err);
/* frontend_learning_s and frontend_learned_s; 0 for a cached recording. */
int timeline_learning_s(const struct timeline *t);
double timeline_learned_s(const struct timeline *t);
/* What was learned of a person, for a timeline of the same model that hears the same person in another stream; false: nothing. Load
 * before the first push: the person was heard gap_s ago, and all is as after a gap of that length in one stream. False: the bytes
 * are of another model or source, and this timeline must not be used. */
bool timeline_save_background(const struct timeline *t, struct str *out);
bool timeline_load_background(struct timeline *t, struct unpack *in, double gap_s);
int64_t timeline_samples(const struct timeline *t);  /* 256 Hz samples of file time so far */
int64_t timeline_position(const struct timeline *t); /* source samples that came, gaps included; not of a cached recording */
int64_t timeline_windows(const struct timeline *t);  /* windows completed */
/* A sentence about channels that the samples so far show to be swapped, inverted or wrongly named; "" when there are none, or their
 * names cannot be checked (frontend_loops_close). */
void timeline_mislabelled(const struct timeline *t, char *ret, size_t size);
/* The event that the samples so far have begun and not ended; false: there is none, or it is too short yet to be one. ret->end: as
 * far as the record trace goes. */
bool timeline_running(const struct timeline *t, struct event *ret);
/* Burst suppression so far; zeros where the sink has no use for it. */
void timeline_suppression(const struct timeline *t, struct suppression_totals *ret);

/* The whole state, for a snapshot that another process restores: the outputs of the restored timeline are those of this one, to the
 * bit. Between detector runs only. PRECONDITION: it has failed, reads a cached recording, or a window was taken and not completed.
 */
int timeline_save(struct timeline *t, struct str *out, struct err *err);
/* Into a new timeline made with the same model, source, options and callbacks. DATA_LOSS: the bytes are corrupt or belong to
 * another model, source or options; the timeline can only be freed then. */
int timeline_load(struct timeline *t, struct unpack *in, struct err *err);
