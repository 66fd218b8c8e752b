/* live_message: what the owner of streams and the host tell each other: orders for a stream and reports about it
 * (live/live_stream.h). A message belongs to who takes it. */
#pragma once
#include "base/mailbox.h"
#include "daemon/journal/journal_entry.h"
#include "daemon/viewer/eegring.h"
#include "detect/detector.h"
#include "detect/events.h"
#include "detect/suppression.h"
#include "eeg/quality.h"

enum {
    LIVE_PATH = 4096,
    LIVE_NAME = 96,
    LIVE_MAX_MODELS = 16,
    LIVE_MAX_BATCH = 64, /* DETECTOR_BATCH_GPU; struct live_config says how many there are */
    LIVE_BATCH_CPU = 4,
    LIVE_BATCH_GPU = 32, /* of live windows: fewer than model_launch_steps, so that none waits for a launch of a minute's steps */
    LIVE_MAX_SAMPLES = 1 << 30, /* of one report */
    LIVE_BATCH_STEPS = 16,      /* of live windows of a model that computes in steps, on a CPU */
    LIVE_MAX_DELAY_MS = 5,
    LIVE_MAX_DELAY_STEPS_MS = 50,   /* of such a model */
    LIVE_CROWD = 16,                /* streams of a model that wait for one another on a CPU */
    LIVE_CREDIT_BYTES = 256 * 1024, /* of a stream's reports that its owner has not released */
};

struct live_stream;

enum live_order_kind {
    LIVE_OPEN,
    LIVE_CHUNK,
    LIVE_GAP,
    LIVE_FINISH,
    LIVE_SAVE,
    LIVE_CLOSE,
    LIVE_LOAD,
    LIVE_UNLOAD,
    LIVE_WAKE,
    LIVE_PREPARED, /* from the loader (live/model_loader.h): a model file has been read */
    LIVE_SERVED,   /* from the host of live windows to that of replays: the contents of a model that serves (prepared) */
    LIVE_UNSERVED  /* the same: the model of this file (checkpoint) no longer serves */
};
/* A model file that a host has asked for, and what the loader found. */
struct live_prepared {
    char path[LIVE_PATH];
    int64_t known_bytes, known_mtime_ns; /* of the contents that the host has; -1: it has none */
    double asked_s;                      /* monotonic clock */
    int64_t bytes, mtime_ns;             /* of the file */
    bool unchanged;                      /* the file is what the host has; there is no image */
    struct model_image *image;           /* NULL: unchanged, or err */
    struct err err;
};
struct live_order {
    struct message message; /* kind: enum live_order_kind */
    struct live_stream *stream;
    int device;    /* LOAD, UNLOAD: index of the device; other orders go to the device of their stream (live_open.device) */
    uint8_t *data; /* CHUNK: channel-major samples of every channel, in the stream's format; OPEN: a saved state, or NULL */
    int64_t data_bytes;
    int64_t samples, skip; /* CHUNK: per channel in data, and how many at the front are known already; GAP: missing */
    double received_s;     /* CHUNK: monotonic clock */
    double away_s; /* OPEN: > 0: data is what another stream learned of the patient, so long ago (timeline_load_background) */
    double due_s;  /* CHUNK: set by the stream: when real time would have brought it, but not before it was received */
    char checkpoint[LIVE_PATH], model[LIVE_NAME]; /* LOAD, UNLOAD: keep the model loaded, or let it go */
    int64_t max_delay_ms;                         /* LOAD: of its live streams for one another; -1: the device's default */
    struct live_prepared *prepared;               /* PREPARED */
    struct live_report *answer; /* of the kind that ends this order; made with it, so that it is sent whatever memory is left */
};
struct live_order *live_order_new(enum live_order_kind kind, struct live_stream *stream); /* NULL when out of memory */
void live_order_free(struct live_order *o);                  /* with its answer, unless that was taken */
struct live_report *live_order_answer(struct live_order *o); /* takes the answer; NULL the second time */
/* Hands an order to the host. False when it cannot be taken now: the order still belongs to the caller. */
typedef bool live_post_fn(void *ctx, struct live_order *o);

enum live_report_kind {
    LIVE_OPENED,
    LIVE_CONSUMED,    /* samples of a chunk or gap that no longer wait */
    LIVE_RESULT,      /* record trace; gap: [first, first + samples) has no values */
    LIVE_PROVISIONAL, /* alarm trace */
    LIVE_ALARM,
    LIVE_SAVED,   /* after SAVE: state, or err; the reports before it are those of the samples in the state */
    LIVE_SUMMARY, /* after FINISH: everything was given out */
    LIVE_FAILED,  /* err, lost; nothing but CLOSED follows */
    LIVE_CLOSED,
    LIVE_LOADED,  /* after one window of warm-up: model, opened->info; or err */
    LIVE_UNLOADED /* model */
};
struct live_opened {
    struct detector_info info;
    char checkpoint[LIVE_PATH], note[256];
    int sources[FRONTEND_MAX_LABELS], n_sources;
    int64_t alarm_hop; /* 256 Hz samples, 0 = none */
    struct alarm_config alarms;
    double away_s; /* > 0: the stream goes on with what was learned of the patient so long ago */
};
/* Burst suppression of the minute that ends before `sample`. */
struct live_suppression {
    int64_t sample, observed; /* 256 Hz; samples of the minute that exist */
    float ratio, bursts_per_minute;
};
struct live_report {
    struct message message; /* kind: enum live_report_kind */
    struct live_stream *stream;
    int device;             /* LOADED, UNLOADED: index of the device that answers */
    int64_t seq;            /* RESULT, ALARM: its number among those of the stream, from 0 */
    int64_t first, samples; /* 256 Hz; CONSUMED: samples at the source rate; SUMMARY: length */
    int64_t windows;        /* SUMMARY */
    int64_t data_bytes;     /* CONSUMED: of the chunk; 0 for a gap */
    int64_t bytes;          /* that it costs of the stream's credit until they are released */
    bool gap;               /* RESULT */
    float *
        p; /* RESULT and PROVISIONAL: samples values; NULL in gaps, and after a session kept back what its client did not ask for */
    struct event *events; /* RESULT: those that became final */
    int n_events;
    struct live_suppression *suppression; /* RESULT: of the seconds that became final */
    float *channel_suppression;           /* (n_suppression, 2, channels): ratios, then bursts per minute, of each channel */
    int n_suppression, channels;
    struct suppression_totals totals; /* SUMMARY */
    char mislabelled[160];            /* SUMMARY: timeline_mislabelled */
    int learning_s; /* RESULT: timeline_learning_s, as it is given out; SUMMARY: timeline_learned_s, rounded up; not in snapshots */
    struct quality_report quality; /* RESULT: of the source; channels as indices into live_open.labels */
    double measured_rate_hz;       /* RESULT: 0, or what the loop measured of a live stream where that is not its rate */
    /* SAVED: what another OPEN of the same stream goes on from; RESULT of a stream whose patient is named: what was learned of the
     * patient, or NULL. Its owner may take it. */
    char *state;
    size_t state_len;
    bool on;                      /* ALARM at sample `first` */
    enum journal_off off;         /* ALARM that is not on: why */
    bool replay;                  /* ALARM: of a recording */
    char alarm_id[JOURNAL_ALARM]; /* ALARM: set by the session */
    int64_t running;              /* RESULT: the first sample of the event that has begun and not ended; -1: none */
    float probability;            /* ALARM; PROVISIONAL: of its last sample */
    uint32_t where;               /* ALARM that is on: timeline_alarm.where */
    int64_t wall_ms, boot_ms;     /* ALARM: when it was decided: Unix time, and by CLOCK_BOOTTIME, 0: before this boot */
    char model[LIVE_NAME];
    struct live_opened *opened; /* OPENED, LOADED; its owner may take it */
    struct eegring *eeg;        /* OPENED: the newest EEG; its owner may take it; NULL: the stream keeps none */
    bool lost; /* FAILED: the device is unusable in this process (device_lost); another process can go on with the stream */
    struct err err;
};
struct live_report *live_report_new(enum live_report_kind kind, struct live_stream *stream); /* NULL when out of memory */
void live_report_free(struct live_report *r);
/* Hands a report to the owner of the stream, and waits while the mailbox is full; frees the report when the mailbox is closed. */
void live_report_post(struct live_report *r, struct mailbox *to);
/* Bytes of its values, events, flaws and burst suppression, and of itself. */
int64_t live_report_bytes(const struct live_report *r);
/* A copy that the caller frees, with its values and events, outside of any credit; NULL when out of memory. */
struct live_report *live_report_copy(const struct live_report *r);
