/* brr_detector.h: brrd's seizure detectors in your own process. The whole promise of libbrr_detector; link with
 * `pkg-config --cflags --libs brr_detector`. No daemon is needed; the results are those of a daemon, to the bit.
 *
 * A detector is a model on a device; a stream is one recording or live source under it. Samples go in as they come, probabilities
 * and events come out as soon as no later sample can change them. It is no medical device.
 *
 * Units: source samples are counted at the rate of the source, samples of results at 256 Hz; both from 0 = the first sample.
 * Errors: functions return 0 or a negative enum brr_detector_code; then *err, which the caller owns and which may be NULL, says
 * why. Threads: any thread may call; calls of one detector and of its streams wait for one another, and compute on a thread of the
 * detector's own. The library never logs, exits or installs signal handlers. Structures begin with their size, sizeof the
 * structure, so that later versions can append members; set unused members to 0. */
#ifndef BRR_DETECTOR_H
#define BRR_DETECTOR_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BRR_DETECTOR_API __attribute__((visibility("default")))
#else
#define BRR_DETECTOR_API
#endif

enum { BRR_DETECTOR_API_VERSION = 1, BRR_DETECTOR_RATE_HZ = 256 };

enum brr_detector_code { /* the numbers of enum brr_code */
                         BRR_DETECTOR_OK = 0,
                         BRR_DETECTOR_INVALID = -3,
                         BRR_DETECTOR_NOT_FOUND = -5,
                         BRR_DETECTOR_EXHAUSTED = -8,
                         BRR_DETECTOR_PRECONDITION = -9, /* channels are missing, with their names; the stream has ended */
                         BRR_DETECTOR_UNSUPPORTED = -12,
                         BRR_DETECTOR_INTERNAL = -13,
                         BRR_DETECTOR_DATA_LOSS = -15,
};

struct brr_detector_error {
    int code;          /* enum brr_detector_code */
    char message[512]; /* one sentence for people: what, where, what was expected, the fix */
};

/* Version of the library, "0.1.0". */
BRR_DETECTOR_API const char *brr_detector_library_version(void);

/* ---- model ---- */

typedef struct brr_detector brr_detector;
struct brr_detector_options {
    size_t size;
    const char *device; /* NULL: "cpu"; or "cuda:N", as brr_scan_open has it */
    int32_t threads;    /* of a CPU; 0: as many as the process may use */
    int32_t bf16;       /* 1: compute in bfloat16; UNSUPPORTED where the device has none */
};
/* model: a model file, or a name: "ward" and "demo", which lie in share/brrd/models beside the library, "line_length" or
 * "band_power". options may be NULL. */
BRR_DETECTOR_API int brr_detector_open(const char *model, const struct brr_detector_options *options, brr_detector **ret,
                                       struct brr_detector_error *err);
/* Close its streams first. Takes NULL. */
BRR_DETECTOR_API void brr_detector_close(brr_detector *detector);
/* "causal", "unet", "line_length", …; the montage that the model takes; SHA-256 of its file in hex. Valid until brr_detector_close.
 */
BRR_DETECTOR_API const char *brr_detector_type(const brr_detector *detector);
BRR_DETECTOR_API const char *brr_detector_montage(const brr_detector *detector);
BRR_DETECTOR_API const char *brr_detector_sha256(const brr_detector *detector);
/* 256 Hz samples that a first probability waits for, and those from one to the next. */
BRR_DETECTOR_API int64_t brr_detector_window(const brr_detector *detector);
BRR_DETECTOR_API int64_t brr_detector_hop(const brr_detector *detector);

/* ---- stream ---- */

typedef struct brr_detector_stream brr_detector_stream;
struct brr_detector_source {
    size_t size;
    double rate_hz;
    int32_t n_channels;
    const char *const *channels; /* names, "Fp1", "EEG Fp1-Ref", …; those that the model does not take are left out */
    double on, off;              /* thresholds of events; 0: the model's */
    double alarm_hop_s;          /* how often alarms are decided, a part of the hop; 0: no alarms */
    int32_t rows;                /* 1: the stream gives what the network takes, in place of probabilities; no events then */
};
BRR_DETECTOR_API int brr_detector_stream_open(brr_detector *detector, const struct brr_detector_source *source,
                                              brr_detector_stream **ret, struct brr_detector_error *err);
/* Takes NULL. */
BRR_DETECTOR_API void brr_detector_stream_close(brr_detector_stream *stream);
/* n samples in microvolts, channel by channel: uv[c][0..n), all channels of the source. An error ends the stream. */
BRR_DETECTOR_API int brr_detector_push(brr_detector_stream *stream, const float *const *uv, int64_t n,
                                       struct brr_detector_error *err);
/* The next sample comes `missing` source samples later than expected. */
BRR_DETECTOR_API int brr_detector_gap(brr_detector_stream *stream, int64_t missing, struct brr_detector_error *err);
/* The source has ended: the remaining results become ready. */
BRR_DETECTOR_API int brr_detector_finish(brr_detector_stream *stream, struct brr_detector_error *err);

struct brr_detector_event {
    int64_t first, end; /* samples [first, end) */
    float confidence;   /* 0 to 1 */
};
struct brr_detector_alarm {
    int64_t sample;
    int32_t on;        /* 1: the alarm goes on, 0: off */
    float probability; /* NaN at the end of a segment */
};
/* What has become ready since the last call, in order. The arrays are valid until the next function on this stream. */
struct brr_detector_results {
    size_t size;
    int64_t first; /* sample of the first probability */
    const float *probabilities;
    int64_t n_probabilities; /* NaN in gaps */
    const struct brr_detector_event *events;
    int64_t n_events;
    const struct brr_detector_alarm *alarms;
    int64_t n_alarms;
    const float *rows; /* n_windows windows, or steps, of `window` samples of `columns` numbers */
    int64_t n_windows, window, columns;
};
BRR_DETECTOR_API int brr_detector_take(brr_detector_stream *stream, struct brr_detector_results *ret,
                                       struct brr_detector_error *err);

#ifdef __cplusplus
}
#endif
#endif
