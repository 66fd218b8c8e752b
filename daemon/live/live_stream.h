/* live_stream: one stream on a device: the parameters and the credit that its owner (the loop) sees, and the timeline that the
 * host feeds with the stream's orders and whose output it posts as reports. The contents and the number of a result or an
 * alarm depend on the samples alone. It does not load models, and does not decide whose turn it is (live/live.h). Bounded: the
 * owner limits the orders that wait (live/session.h); a stream whose reports reach LIVE_CREDIT_BYTES does not run again until its
 * owner has released some of them. Thread: the functions of each section belong to the thread that it names. The owner's thread
 * makes the stream and frees it, before OPEN was posted or after CLOSED; between these two the host holds it. */
#pragma once
#include "daemon/live/live_message.h"

struct device;
struct live_model;
struct timeline;

#define LIVE_FASTEST 1.2   /* clocks differ, and what a cut held back comes faster */
#define LIVE_AHEAD_S 10.0  /* of samples that a stream may send at once */
#define LIVE_HELD_S  180.0 /* and of samples that came while it was not heard: more than a client holds in a cut (libbrr: 150 s) */

enum live_format { LIVE_F32_UV, LIVE_I16 };

/* Parameters of a stream; live_stream_new copies them. */
struct live_open {
    const char *checkpoint; /* model file */
    const char *model;      /* its name in metrics, bounded in number */
    const char *const *labels;
    int n_labels;
    double rate_hz;
    enum live_format format;
    double scale_uv;    /* I16: microvolt per unit */
    double alarm_hop_s; /* 0 = default of the device, negative = no alarms */
    double on, off;     /* thresholds of events and alarms; 0 = the model's */
    double alarm_rate;  /* alarms by the model's rule for so many false alarms per 24 h; 0 = by the thresholds */
    int partial;        /* > 0: a model of a feature may do with fewer channels than its montage has, at least so many */
    bool realtime, want_probabilities;
    bool names_patient;   /* its results say what was learned of the patient (live_report.state) */
    bool replay;          /* the samples are of a recording, also where they come in real time */
    uint32_t owner;       /* a hash of whose time on the device it takes: the caller, or a bed of the roster */
    int device;           /* index of the device that computes it */
    char device_name[32]; /* its name, if the client chose it; a stream that goes on after a restart returns to it */
};

/* True for EEG of a patient now; false: of a recording. */
static inline bool live_open_is_live(const struct live_open *open) { return open->realtime && !open->replay; }

/* ---- the owner's thread ---- */

/* NULL when out of memory. */
struct live_stream *live_stream_new(const struct live_open *open, void *owner);
void live_stream_free(struct live_stream *s); /* before OPEN was posted, or after CLOSED; NULL is fine */
void *live_stream_owner(const struct live_stream *s);
const struct live_open *live_stream_open(const struct live_stream *s); /* its parameters; any thread */
/* Its client is gone: what waits is dropped and counted as soon as the worker looks. CLOSE must follow. */
void live_stream_abandon(struct live_stream *s);
/* Reports of `bytes` in all (live_report.bytes) have left the owner. True when the stream had no credit and has some now: the
 * worker sleeps, so a WAKE must follow. */
bool live_stream_release(struct live_stream *s, int64_t bytes);

/* ---- the host's thread, for live.c ---- */

/* A stream's place in the line of live.c, which alone uses it. */
struct live_turn {
    struct live_stream *next;
    int64_t looked;           /* the look in which the stream was found last */
    bool due;                 /* it is in the list of those that may have something to do */
    _Atomic int64_t owner_us; /* time on the device that the stream's owner took lately; the loop reads it */
};
struct live_turn *live_stream_turn(struct live_stream *s);

/* OPEN has come for this device: from now on the stream's reports go to this mailbox, and live_stream_leave must follow. viewer:
 * borrowed, of the EEG that it keeps for people. */
void live_stream_join(struct live_stream *s, const struct device *device, struct mailbox *reports,
                      const struct eegring_limits *viewer);
/* Starts the stream under a model, from the state that OPEN carries if it carries one, and posts OPENED. device_hop: alarm hop of
 * the device in 256 Hz samples, used if the stream asks for none. After an error the caller fails the stream. */
int live_stream_begin(struct live_stream *s, struct live_model *m, int64_t device_hop, struct live_order *open, struct err *err);
/* Posts FAILED, once; nothing but live_stream_save and _leave may follow. */
void live_stream_fail(struct live_stream *s, const struct err *err);
void live_stream_save(struct live_stream *s, struct live_order *save); /* posts SAVED: the state, or why there is none */
/* Takes a CHUNK, GAP or FINISH that waits for its turn; false, and the order stays the caller's: the stream has ended. */
bool live_stream_queue(struct live_stream *s, struct live_order *o);
/* CLOSE: drops and counts what waits, and lets the model go. No report follows, not even CLOSED. */
void live_stream_leave(struct live_stream *s);

bool live_stream_runnable(const struct live_stream *s); /* it has begun, nothing ended it, and its owner keeps up */
bool live_stream_ready(const struct live_stream *s);    /* a window waits, and it has not failed */
bool live_stream_has_work(const struct live_stream *s); /* it is runnable, and a window or an order waits */
/* When the samples were received that the stream has not been served for, by the monotonic clock; INFINITY when nothing waits. The
 * last windows of a recording that has ended fall due together and can wait for those of others, so they count as later. */
double live_stream_waiting_since_s(const struct live_stream *s);
/* True if the stream is a live one now: Open says so, and its samples do not run ahead of real time. Samples that came faster than
 * LIVE_FASTEST times real time, beyond LIVE_AHEAD_S and what was held back while the stream was not heard, count as received when
 * real time would have brought them. */
bool live_stream_is_live(const struct live_stream *s, double now_s);
/* When the newest chunk in its timeline was received; NaN before the first one since OPEN and after FINISH. */
double live_stream_newest_s(const struct live_stream *s);
const struct live_model *live_stream_model(const struct live_stream *s); /* NULL until live_stream_begin */

/* For runnable streams. Carries out orders until so many windows wait or none is left; one thread at a time, and not while others
 * use the stream. */
bool live_stream_absorbs(const struct live_stream *s, int windows); /* false: nothing would be done */
void live_stream_absorb(struct live_stream *s, int windows);
struct timeline *live_stream_timeline(const struct live_stream *s); /* for detector_run */
/* After windows were completed, or when none waits: posts FAILED if the timeline has failed, SUMMARY if it is done. */
void live_stream_settle(struct live_stream *s);
