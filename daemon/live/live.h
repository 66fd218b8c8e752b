/* live: detectors and the streams that run under them on one device. The owner of the streams (the loop) sends orders, the device
 * worker carries them out between the steps of its job and answers with reports. A detector is loaded on first use and shared by
 * all streams of the same checkpoint. Every order of a stream after OPEN names it; CLOSE is the last one and is answered by CLOSED,
 * the last report. Bounded: the owner limits the orders that wait (live/session.h); a stream whose reports reach LIVE_CREDIT_BYTES
 * does not run again until its owner has released some of them. What a result or an alarm of a stream contains, and its number, is
 * a function of the samples alone.
 * Thread: live_stream_new, _free, _owner, _abandon and _release belong to the owner's thread; live_new, _free, _order, _step,
 * _waiting to the device worker's. */
#ifndef BRR_DAEMON_LIVE_LIVE_H
#define BRR_DAEMON_LIVE_LIVE_H
#include "base/mailbox.h"
#include "base/metrics.h"
#include "infer/detector.h"
#include "model/events.h"

enum {
    LIVE_PATH = 4096,
    LIVE_NAME = 96,
    LIVE_MAX_MODELS = 16,
    LIVE_MAX_BATCH = 4,
    LIVE_MAX_SAMPLES = 1 << 30,     /* of one report */
    LIVE_CREDIT_BYTES = 256 * 1024, /* of a stream's reports that its owner has not released */
};

struct live;
struct live_stream;

enum live_format { LIVE_F32_UV, LIVE_I16 };

/* What a stream is; live_stream_new copies it. */
struct live_open {
    const char *checkpoint; /* model file */
    const char *model;      /* its name in metrics, bounded in number */
    const char *const *labels;
    int n_labels;
    double rate_hz;
    enum live_format format;
    double scale_uv;    /* I16: microvolt per unit */
    double alarm_hop_s; /* 0 = default of the device, negative = no alarms */
    bool realtime, want_probabilities;
};
/* NULL when out of memory. */
struct live_stream *live_stream_new(const struct live_open *open, void *owner);
void live_stream_free(struct live_stream *s); /* before OPEN was posted, or after CLOSED */
void *live_stream_owner(const struct live_stream *s);
const struct live_open *live_stream_open(const struct live_stream *s); /* what it was made with; any thread */
/* Its client is gone: what waits is dropped and counted as soon as the worker looks. CLOSE must follow. */
void live_stream_abandon(struct live_stream *s);
/* Reports of `bytes` in all (live_report.bytes) have left the owner. True when the stream had no credit and has some now: the
 * worker sleeps, so a WAKE must follow. */
bool live_stream_release(struct live_stream *s, int64_t bytes);

enum live_order_kind { LIVE_OPEN, LIVE_CHUNK, LIVE_GAP, LIVE_FINISH, LIVE_SAVE, LIVE_CLOSE, LIVE_LOAD, LIVE_UNLOAD, LIVE_WAKE };
struct live_order {
    struct message message; /* kind: enum live_order_kind */
    struct live_stream *stream;
    uint8_t *data; /* CHUNK: channel-major samples of every channel, in the stream's format; OPEN: a saved state, or NULL */
    int64_t data_bytes;
    int64_t samples, skip; /* CHUNK: per channel in data, and how many at the front are known already; GAP: missing */
    double received_s;     /* CHUNK: monotonic clock */
    char checkpoint[LIVE_PATH], model[LIVE_NAME]; /* LOAD, UNLOAD: keep the model loaded, or let it go */
};
struct live_order *live_order_new(enum live_order_kind kind, struct live_stream *stream);
void live_order_free(struct live_order *o);
/* Hands an order to the device worker. False when it cannot be taken now: the order still belongs to the caller. */
typedef bool live_post_fn(void *ctx, struct live_order *o);

enum live_report_kind {
    LIVE_OPENED,
    LIVE_CONSUMED,    /* samples of a chunk or gap that no longer wait */
    LIVE_RESULT,      /* record trace; gap: [first, first + samples) has no values */
    LIVE_PROVISIONAL, /* alarm trace */
    LIVE_ALARM,
    LIVE_SAVED,   /* after SAVE: state, or err; the reports before it are those of the samples in the state */
    LIVE_SUMMARY, /* after FINISH: everything was given out */
    LIVE_FAILED,  /* err; nothing but CLOSED follows */
    LIVE_CLOSED,
    LIVE_LOADED,  /* after one window of warm-up: model, opened->info; or err */
    LIVE_UNLOADED /* model */
};
struct live_opened {
    struct detector_info info;
    char checkpoint[LIVE_PATH], note[256];
    int sources[FRONTEND_MAX_LABELS], n_sources;
    int64_t alarm_hop; /* 256 Hz samples, 0 = none */
};
struct live_report {
    struct message message; /* kind: enum live_report_kind */
    struct live_stream *stream;
    int64_t seq;            /* RESULT, ALARM: its number among those of the stream, from 0 */
    int64_t first, samples; /* 256 Hz; CONSUMED: samples at the source rate; SUMMARY: length */
    int64_t windows;        /* SUMMARY */
    int64_t data_bytes;     /* CONSUMED: of the chunk; 0 for a gap */
    int64_t bytes;          /* that it costs of the stream's credit until they are released */
    bool gap;               /* RESULT */
    float *p;               /* RESULT and PROVISIONAL: samples values; NULL in gaps and when they were not asked for */
    struct event *events;   /* RESULT: those that became final */
    int n_events;
    char *state; /* SAVED: what another OPEN of the same stream goes on from; its owner may take it */
    size_t state_len;
    bool on;           /* ALARM at sample `first` */
    float probability; /* ALARM; PROVISIONAL: of its last sample */
    int64_t wall_ms;
    char model[LIVE_NAME];
    struct live_opened *opened;
    struct err err;
};
void live_report_free(struct live_report *r);
/* A copy that the caller frees, with its values and events, outside of any credit; NULL when out of memory. */
struct live_report *live_report_copy(const struct live_report *r);
/* The same of a description; free() it. */
struct live_opened *live_opened_copy(const struct live_opened *o);

/* reports: where answers go. metrics may be NULL. */
struct live *live_new(struct device *device, struct mailbox *reports, struct metrics *metrics, int64_t memory_limit_bytes);
void live_free(struct live *l); /* NULL is fine; streams that were not closed are let go without a report */
/* Carry out or queue one order; owns it from now on. */
void live_order(struct live *l, struct live_order *o);
/* Run one batch of windows, of live streams if one waits, else of replays. */
enum live_step { LIVE_IDLE, LIVE_RAN_REALTIME, LIVE_RAN_REPLAY };
enum live_step live_step(struct live *l);
bool live_step_realtime(struct live *l); /* one batch of live streams alone; false when none waits */
bool live_waiting(const struct live *l); /* another step would find work */

#endif
