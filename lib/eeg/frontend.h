/* frontend: converts a source's channels to the model's input montage at 256 Hz, as a causal stream: raw µV samples at the source
 * rate → montage derivation → resample to 256 Hz → band-pass → notch → clamp ±60,000 µV → binary16, and where the network takes its
 * input normalised by the past, the columns of eeg/history. State is carried, so chunks of any size give the same bits; the window
 * cache, training, validation, detection and live streams all read its output. One thread at a time per frontend. Segments: a gap
 * of at most fill_gap_s is filled by holding the last sample (flagged); a longer gap ends the segment, and the filters restart
 * (steady state for the first sample). Output index = time in 1/256 s from file time 0 of the source. */
#pragma once

#include "base/base.h"
#include "base/pack.h"

/* FRONTEND_BOTH_NOTCHES as notch_hz: one at 50 and one at 60 Hz, for models that serve in countries of either mains. */
enum { FRONTEND_BOTH_NOTCHES = 5060 };
enum {
    FRONTEND_RATE_HZ = 256,
    FRONTEND_MAX_CHANNELS = 64,
    FRONTEND_MAX_LABELS = 1024,
    FRONTEND_MAX_COLUMNS = 3 * FRONTEND_MAX_CHANNELS + 1
};

/* What a network takes: the filtered channels, z-scored for each window; the signal columns of eeg/history; those and its
 * envelope columns; or those and behind them a feature (eeg/feature), that of the model line_length or that of ward. The last
 * ones are what models without a network take: one column of eeg/feature. */
#define FRONTEND_NORMALIZE_ROWS(X)                                                                                                 \
    X(WINDOW, "window")                                                                                                            \
    X(CAUSAL, "causal")                                                                                                            \
    X(ENVELOPE, "envelope")                                                                                                        \
    X(BASELINE, "baseline")                                                                                                        \
    X(BASELINES, "baselines")                                                                                                      \
    X(LINE_LENGTH, "line_length")                                                                                                  \
    X(BAND_POWER, "band_power")                                                                                                    \
    X(WARD, "ward")
enum frontend_normalize {
#define FRONTEND_NORMALIZE_ENUM(id, name) FRONTEND_##id,
    FRONTEND_NORMALIZE_ROWS(FRONTEND_NORMALIZE_ENUM)
#undef FRONTEND_NORMALIZE_ENUM
};
#define FRONTEND_NORMALIZE_NAMES "window|causal|envelope|baseline|baselines" /* of networks: the choices of data.normalize */

/* What the columns behind the channels measure against: the recording's own reference, or the mean over all electrodes of the
 * montage at each sample, which is the same whatever reference the recording has. The channels themselves stay as recorded, so that
 * a disconnected electrode stays flat (detect/contact). */
#define FRONTEND_REFERENCE_NAMES "recorded|average"
enum frontend_reference { FRONTEND_REFERENCE_RECORDED, FRONTEND_REFERENCE_AVERAGE };

struct frontend_config {
    const char *montage;   /* "referential-19", "bipolar-18" or "custom:LABEL,LABEL,…" */
    double notch_hz;       /* 0, 50, 60 or FRONTEND_BOTH_NOTCHES */
    double bandpass_hz[2]; /* 0.5, 120 */
    double fill_gap_s;     /* 2 */
    int normalize;         /* enum frontend_normalize */
    int reference;         /* enum frontend_reference; AVERAGE needs a montage of electrodes and columns of eeg/history */
    const char *rename;    /* rules of channels_rename for the labels of files; NULL: none */
    const char *unit;      /* of signals that state none, or one that is no voltage: "uV", "mV", "V"; NULL: as edf.h */
    bool learn_background; /* a person's own background counts after seconds and over gaps (eeg/background); false: as before it */
    bool hold_background;  /* beside it, with the feature of FRONTEND_WARD: while an event lasts it stays (feature_hold) */
};
/* A row has the `channels` of the montage in µV and behind them, unless windows are z-scored, the columns that the network takes.
 */
int frontend_rows(int normalize);                  /* columns that the network takes of each channel */
int frontend_inputs(int normalize, int channels);  /* columns that the network takes: those of channels and, behind them, of all */
int frontend_columns(int normalize, int channels); /* of a row */
bool frontend_has_baseline(int normalize);         /* the last column is a feature that goes straight to the logit */
bool frontend_is_feature(int normalize);           /* one column of eeg/feature */
/* The choice whose one column is the last one of this choice; −1: that is no feature. */
int frontend_feature(int normalize);
/* "window", …; from_name: −1 for an unknown name. */
const char *frontend_normalize_name(int normalize);
int frontend_normalize_from_name(const char *name);
const char *frontend_reference_name(int reference);
int frontend_reference_from_name(const char *name);

/* How the montage was built; texts are for people and reports. */
struct frontend_report {
    int output_channels, output_columns;
    int used_channels;    /* source channels read */
    bool inverse_montage; /* bipolar source, referential model: minimum-norm inverse */
    int interpolated;     /* electrodes interpolated by spherical spline (Fz, Pz only) */
    char note[256];       /* "" or a note for the user, e.g. "Fz Pz interpolated" */
};

struct frontend;

/* Receives finished samples: n rows of output_columns binary16 values, channel-last, the first one at output index `first`.
 * segment_start: the first row begins a new segment. held: rows made by holding over a short gap. Return 0 to continue; any other
 * value is returned by the pushing call. */
typedef int frontend_sink_fn(void *ctx, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start, bool held,
                             struct err *err);

/* Is shown n rows of the montage in microvolt at 256 Hz before the filters, `stride` values apart, the first one at output index
 * `first`; held[i] is not 0 for a row made by holding over a short gap. */
typedef void frontend_look_fn(void *ctx, const double *uv, int stride, int64_t n, int64_t first, const uint8_t *held);

/* Describes the source. */
struct frontend_source {
    const char *const *labels; /* the source's channel names */
    int n_labels;              /* ≤ FRONTEND_MAX_LABELS */
    double rate_hz;            /* of the EEG channels, 1 to 65536 */
};

/* Checks the settings that do not depend on the source: ERR_INVALID names the setting. */
int frontend_check(const struct frontend_config *config, struct err *err);
/* The longest gap that is filled, in source samples. */
int64_t frontend_fill_gap(const struct frontend_config *config, double rate_hz);
/* Errors: INVALID (settings, rate), PRECONDITION (names the missing electrodes and the labels present). report may be NULL. */
int frontend_new(const struct frontend_config *config, const struct frontend_source *source, frontend_sink_fn *sink, void *ctx,
                 struct frontend **ret, struct frontend_report *report, struct err *err);
void frontend_free(struct frontend *f);
/* From now on `look` is shown the rows. */
void frontend_show(struct frontend *f, frontend_look_fn *look, void *ctx);
/* Seconds that are still to be heard until the background is the person's own (feature_learning_s); 0: it is, or none is learned.
 */
int frontend_learning_s(const struct frontend *f);
/* feature_note of its feature, if it has one that looks at the channels as they are given out. */
struct feature_blocks;
void frontend_note(struct frontend *f, struct feature_blocks *to);
double frontend_learned_s(const struct frontend *f); /* seconds of signal in which it was more than 0 */
/* What was learned of a person, for a frontend of the same settings that hears the same person in another recording; nothing
 * (false) while none is learned. Load before the first push: the person was heard gap_s ago, as before a gap. False: the bytes are
 * of a frontend of other settings, and this one must not be used. */
bool frontend_save_background(struct frontend *f, struct packer *p);
bool frontend_load_background(struct frontend *f, struct packer *p, double gap_s);
/* Source samples since file time 0 so far, gaps included. */
int64_t frontend_position(const struct frontend *f);
/* Index (into labels) of each source channel read, in the order frontend_push wants them. */
int frontend_sources(const struct frontend *f, const int **ret_indices);
/* The output channels, as bits, that are made of the one at this place of that order. */
uint64_t frontend_rows_of(const struct frontend *f, int source);
/* n samples of the used channels, channel-major: uv[c][0..n). ERR_INVALID for NaN or infinity. After an error of the sink or of a
 * push, every further push is PRECONDITION. */
int frontend_push(struct frontend *f, const float *const *uv, int64_t n, struct err *err);
/* For a source that is read ahead: the rows that later calls filter wait in `part`, until frontend_give puts them through what is
 * left (the columns behind the channels, and the sink), in the order in which the parts were filled. It may run on another thread
 * beside calls that fill another part. NULL: rows wait no longer. The parts are freed before the frontend. */
struct frontend_part;
struct frontend_part *frontend_part_new(void);                                 /* NULL: out of memory */
void frontend_part_free(const struct frontend *f, struct frontend_part *part); /* takes NULL for a part */
void frontend_wait(struct frontend *f, struct frontend_part *part);
int frontend_give(struct frontend *f, struct frontend_part *part, struct err *err);
/* The next source sample comes `missing` source samples later than expected. Consecutive calls add up and take effect with the next
 * push. */
int frontend_gap(struct frontend *f, int64_t missing, struct err *err);
/* Ends the source: flushes the resampler's tail. Source samples [s, s + n) of a segment give the outputs k with s/rate ≤ k/256 < (s
 * + n)/rate: ceil(n·256/rate) of them where s falls on the grid. */
int frontend_finish(struct frontend *f, struct err *err);
/* True if the closed loops of a bipolar source have cancelled so far, or if there is no loop; false, with a sentence in note, when
 * they did not (swapped or mislabelled channels). */
bool frontend_loops_close(const struct frontend *f, char *note, unsigned long size);
/* The state between two pushes, for snapshots; load into a frontend made with the same settings and source, before its first push.
 * PRECONDITION when the frontend has stopped after an error. DATA_LOSS: the bytes are no state of this frontend; it must not be
 * used then. */
int frontend_pack(struct frontend *f, struct packer *p, struct err *err);

/* Names of the output channels ("Fp1", "Fp1-F7", …) of a montage and their number in ret_n. ret_names may be NULL; otherwise the
 * caller frees the list with montage_channels_free. ERR_INVALID for an unknown montage. */
int montage_channels(const char *montage, const char *const **ret_names, int *ret_n, struct err *err);
void montage_channels_free(const char *const *names);
