/* infer: a trained model serving timelines. detector = the immutable loaded model (shared); timeline = one recording or
 * live stream (private, mutable): raw chunks in, record trace, events and alarms out. Detect, validation and Stream are
 * all this one path, so streamed equals offline to the bit. Pull style: the owner of the device asks timelines for windows,
 * runs them in batches over any number of timelines, and hands the logits back.
 * A timeline may be fed on one thread and asked for windows on another only under the owner's ordering (never at once). */
#ifndef BRR_RUN_INFER_H
#define BRR_RUN_INFER_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/frontend.h"
#include "data/window.h"
#include "kernels/device.h"
#include "model/events.h"
#include "model/seizure.h"

struct detector;
struct detector_info {
    struct seizure_config model;
    struct frontend_config frontend;
    struct events_config events; /* thresholds from the checkpoint */
    int64_t hop;                 /* samples */
    const char *checkpoint;      /* path */
    char sha256[65];
    int64_t step; /* training step of the checkpoint */
    int64_t parameters, memory_bytes;
    const char *device;
};
/* Loads a model file (safetensors with the configuration in its metadata). max_batch windows per call. */
int detector_open(struct device *dev, const char *checkpoint, int max_batch, enum dtype precision, struct detector **ret,
                  struct err *err);
/* A detector over a net that somebody else owns (validation inside training). The net must outlive it. */
int detector_wrap(struct seizure_net *net, const struct detector_info *info, int max_batch, struct detector **ret, struct err *err);
void detector_close(struct detector *d);
const struct detector_info *detector_info(const struct detector *d);

struct timeline_options {
    int64_t alarm_hop;                  /* samples; 0 = no alarm trace; a divisor of hop */
    bool record;                        /* compute record trace and events */
    const struct events_config *events; /* NULL = the checkpoint's */
};
enum alarm_kind { ALARM_OFF, ALARM_ON };
struct timeline_sink {
    void *ctx;
    /* Final record trace, in order: p[n] for samples first.. ; NaN rows mark gaps. */
    int (*probabilities)(void *ctx, int64_t first, const float *p, int64_t n, struct err *err);
    int (*event)(void *ctx, const struct event *event, struct err *err);                      /* final event */
    int (*alarm)(void *ctx, enum alarm_kind kind, int64_t sample, float p, struct err *err);  /* the moment the rule holds */
    int (*provisional)(void *ctx, int64_t first, const float *p, int64_t n, struct err *err); /* alarm trace; may be NULL */
};
struct timeline;
int timeline_new(const struct detector *d, const char *const *labels, int n_labels, double rate_hz,
                 const struct timeline_options *options, const struct timeline_sink *sink, struct timeline **ret,
                 struct frontend_report *report, struct err *err);
/* A timeline over samples that are already filtered (a cached recording). */
int timeline_new_cached(const struct detector *d, const struct recording *rec, const struct timeline_options *options,
                        const struct timeline_sink *sink, struct timeline **ret, struct err *err);
void timeline_free(struct timeline *t);
int timeline_sources(const struct timeline *t, const int **ret_indices);
/* Raw µV, channel-major over the used channels (timeline_sources). Bounded: at most 60 s at once; ERR_EXHAUSTED when windows
 * are pending beyond the ring (run them first: timeline_ready). */
int timeline_push(struct timeline *t, const float *const *uv, int64_t n, struct err *err);
int timeline_gap(struct timeline *t, int64_t missing, struct err *err);
int timeline_finish(struct timeline *t, struct err *err);
/* Windows waiting to be run. */
int timeline_ready(const struct timeline *t);
/* Fill x (T,C) with the next waiting window; false when none. It stays "taken" until completed, in order. */
bool timeline_take(struct timeline *t, float *x);
/* Probabilities (T) of the oldest taken window; calls the sink. */
int timeline_complete(struct timeline *t, const float *p, struct err *err);
int64_t timeline_samples(const struct timeline *t); /* 256 Hz samples received */

/* Run every waiting window of the given timelines in batches on the stream. Sets each sink in motion. */
int detector_run(struct detector *d, struct stream *s, struct timeline *const *timelines, int n, int64_t *ret_windows,
                 struct err *err);

#endif
