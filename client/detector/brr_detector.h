/* brr_detector.h: brrd's seizure detectors in your own process. The whole promise of libbrr_detector; link with
 * `pkg-config --cflags --libs brr_detector`. No daemon is needed; the results are those of a daemon, to the bit.
 *
 * A detector is a model on a device; a stream is one recording or live source under it. Samples go in as they come, probabilities
 * and events come out as soon as no later sample can change them. A recording is a file of any format that brrd reads. It is no
 * medical device.
 *
 * Units: source samples are counted at the rate of the source, samples of results at 256 Hz; both from 0 = the first sample.
 * Errors: functions return 0 or a negative enum brr_detector_code; then *err, which the caller owns and which may be NULL, says
 * why. Threads: any thread may call; calls of one detector and of its streams wait for one another, and compute on a thread of the
 * detector's own. The library never logs, exits or installs signal handlers. Structures
 * begin with their size, sizeof the structure, so that later versions can append members; set unused members to 0. */
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
                         BRR_DETECTOR_RANGE = -11,
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
/* model: a model file, or a name: "demo", which lies in share/brrd/models beside the library, "ward", "line_length" or
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
/* n samples in microvolts, channel by channel: uv[c][0..n), all channels of the source. The last number of a channel stands in the
 * place of samples that are none (NaN, infinite). An error ends the stream. */
BRR_DETECTOR_API int brr_detector_push(brr_detector_stream *stream, const float *const *uv, int64_t n,
                                       struct brr_detector_error *err);
/* The next sample comes `missing` source samples later than expected. RANGE above 24 h between two samples. */
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
    /* n_events texts: the channels that carry the event, "F7-T3,T3-T5", or "all"; "": not known */
    const char *const *channels;
};
BRR_DETECTOR_API int brr_detector_take(brr_detector_stream *stream, struct brr_detector_results *ret,
                                       struct brr_detector_error *err);

/* ---- recording ---- */

/* An open file of a format that brrd reads (docs/formats.md). It may be read by several threads at a time. */
typedef struct brr_recording brr_recording;
/* NOT_FOUND, INVALID for a file that is no recording or cannot be trusted, UNSUPPORTED for a format that is known and not read: the
 * message names the export that is. Companions (the samples of a header) are found beside the file. */
BRR_DETECTOR_API int brr_recording_open(const char *path, brr_recording **ret, struct brr_detector_error *err);
/* Takes NULL. */
BRR_DETECTOR_API void brr_recording_close(brr_recording *recording);

struct brr_recording_channel {
    const char *label, *unit; /* as the file has them, in UTF-8 */
    const char *note;         /* "", or why values cannot be read or what is odd about them */
    double rate_hz;
    int64_t samples_per_record;
    int32_t readable; /* 0: no samples, or none that can be trusted */
    int32_t volt;     /* 1: values are in microvolts; 2: so they are taken, since the file states no unit; 0: in unit */
};
/* Consecutive records without a gap: of a channel the samples first_record * samples_per_record and so on. */
struct brr_recording_segment {
    int64_t first_record, n_records;
    double start_s; /* file time: seconds from the first sample of the file, gaps counted */
};
struct brr_recording_annotation {
    double onset_s, duration_s; /* file time; NaN: the file states no duration */
    const char *text;
};
/* Arrays and texts belong to the recording, until it is closed. */
struct brr_recording_facts {
    size_t size;
    const char *format; /* "EDF", "BrainVision", ... */
    const char *start;  /* "YYYY-MM-DD HH:MM:SS", with ".ffffff" where it has a fraction; no time zone; or "n/a" */
    double duration_s;  /* gaps included */
    int64_t n_records;
    const struct brr_recording_channel *channels;
    int64_t n_channels;
    const struct brr_recording_segment *segments;
    int64_t n_segments;
    const struct brr_recording_annotation *annotations; /* by onset */
    int64_t n_annotations;
    const char *const *repairs; /* faults of the file that were put right, a sentence each */
    int64_t n_repairs;
};
BRR_DETECTOR_API int brr_recording_get(const brr_recording *recording, struct brr_recording_facts *ret,
                                       struct brr_detector_error *err);
/* range.n samples of each of these channels (numbers in facts.channels) from range.first on, counted from the first of the file,
 * gaps left out: uv[i][0..n) receives channels[i], the values that brrd reads. RANGE for samples or channels that do not exist,
 * INVALID for channels of different samples_per_record, PRECONDITION for a channel that is not readable; DATA_LOSS for a file that
 * was cut since it was opened, when uv may be partly written. */
struct brr_recording_range {
    int64_t first, n;
};
BRR_DETECTOR_API int brr_recording_read(const brr_recording *recording, const int32_t *channels, int32_t n_channels,
                                        struct brr_recording_range range, float *const *uv, struct brr_detector_error *err);
/* The labelled seizures of the recording, or with unknown = 1 the spans that the labels call unknown: from the label file beside it
 * or its own annotations, as data.labels takes them; rule NULL: "auto". Arrays and texts are valid until the next call on this
 * recording or its close: one thread. Seconds of file time. */
struct brr_recording_span {
    double onset_s, end_s;
    const char *type; /* "sz", or what the labels say more exactly */
};
struct brr_recording_labels {
    size_t size;
    const char *source; /* name of the format; "none" without labels */
    const struct brr_recording_span *spans;
    int64_t n_spans;
};
BRR_DETECTOR_API int brr_recording_find_labels(brr_recording *recording, const char *rule, int32_t unknown,
                                               struct brr_recording_labels *ret, struct brr_detector_error *err);

#ifdef __cplusplus
}
#endif
#endif
