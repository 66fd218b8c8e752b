/* window: one recording in the window cache, and the 60 s windows read from it.
 * A cached recording is one file (recording.h): channel-last binary16 samples at 256 Hz of every segment, label runs and segments
 * in absolute file time. Its key is the SHA-256 over the source's identity (path, size, mtime; of a mirror's: its version), reader
 * version, montage, filters, label rule and the labels found, so a changed setting or label never reads stale data. Grid
 * (contract): starts k·hop within a segment; a tail gets one more window at the next grid point, zero-padded on the right after
 * normalisation; the same for segments shorter than a window. z-score per channel over valid samples, population std, (x −
 * m)/max(s, 0.1 µV), two-pass in double, clip ±10; a recording whose rows hold the network's columns (frontend.h) gives those
 * instead. Reading is thread-safe. */
#pragma once

#include "eeg/frontend.h"

struct window_span {
    int64_t first, end;
}; /* [first, end) in 256 Hz samples from file time 0 */

struct recording;
struct mirror; /* store/mirror.h */
struct cache;  /* store/cache.h */

/* Contents of a cached recording. Pointers are valid as long as the recording. */
struct recording_info {
    int channels;                       /* of the montage: the first columns of a row, µV */
    int columns;                        /* of a row */
    int64_t samples;                    /* length of file time in 256 Hz samples, gaps included */
    const struct window_span *segments; /* where samples exist, ascending */
    int n_segments;
    const struct window_span *seizures; /* label runs, ascending, merged */
    int n_seizures;
    const struct window_span *held; /* inside segments: samples made by holding over a short gap */
    int n_held;
    const struct window_span *unknown; /* where the labels say that nobody knows: neither seizure nor background */
    int n_unknown;
    const struct window_span *masked; /* held or unknown: no loss and no score of samples counts these */
    int n_masked;
    bool labelled;            /* a label source was found */
    const char *label_source; /* "bids-tsv", … or "none" */
    const char *note;         /* frontend note */
    const char *faults;       /* sentences on what was repaired or ignored in the source, bounded; "" if nothing was */
    double duration_s;        /* the EDF's own duration */
};

/* Seconds that were recorded: without gaps and held samples. */
double recording_recorded_s(const struct recording_info *info);
int recording_open(const char *cache_file, struct recording **ret, struct err *err);
void recording_close(struct recording *rec);
void recording_info(const struct recording *rec, struct recording_info *ret);

/* Computes the window grid of a segment list. starts may be NULL to count. Returns the number of windows. */
int64_t window_grid(const struct window_span *segments, int n_segments, int64_t window, int64_t hop, int64_t *starts);
/* The segment that holds sample `at`, or −1. */
int window_segment(const struct window_span *segments, int n_segments, int64_t at);
/* Samples of the window [start, start+window) that lie inside its segment. */
int64_t window_valid(const struct window_span *segments, int n_segments, int64_t start, int64_t window);
/* How many samples of [start, start+length) the spans cover. */
int64_t window_overlap(const struct window_span *spans, int n_spans, int64_t start, int64_t length);
/* Normalise `valid` rows of (valid, C) binary16 into x (window, C) F32, channel-last; the rest is zero. left_pad puts the
 * zeros first (the alarm trace's first minute). Pure function; op_windows (kernels/op.h) gives the same bits in
 * device memory. */
void window_normalise(const uint16_t *rows_f16, int64_t valid, int channels, int64_t window, bool left_pad, float *x);
/* Cuts `valid` rows of `columns` binary16 values into x (window, inputs) F32 without a change: the last `inputs` values of each
 * row. */
struct window_columns {
    int columns, inputs;
};
void window_cut(const uint16_t *rows_f16, int64_t valid, struct window_columns row, int64_t window, bool left_pad, float *x);
/* Label of a masked sample: no loss counts it. */
enum { WINDOW_LABEL_MASKED = 2 };
/* Reads x (window, window_inputs) F32 channel-last and labels (window) U8 (1 in seizures, WINDOW_LABEL_MASKED) of the window at
 * start; *ret_valid = valid samples. labels may be NULL. Loads a planned recording (recording.h), which takes as long as
 * window_build and has its errors. */
int window_read(struct recording *rec, int64_t start, int64_t window, float *x, uint8_t *labels, int64_t *ret_valid,
                struct err *err);

enum { WINDOW_HOLE_S = 10 };
/* Builds (or finds) the cache file of one EDF recording; dir is the window folder of the cache volume. */
struct window_build {
    const char *recording_path;
    struct mirror *mirror; /* the mirror that holds recording_path, from which the whole file is taken when needed; NULL for a plain
                              local file */
    const char *cache_dir;
    struct cache *cache; /* that keeps the window folder (store/cache.h); NULL: files are written there without a limit */
    struct frontend_config frontend;
    const char *labels;    /* the rule of labels_load */
    const char *unlabeled; /* error, background, skip */
    /* > 0: a recording without a seizure is read as if WINDOW_HOLE_S were missing each time after about so many seconds. A network
     * that learns from clips with a gap before the seizure then cannot take a gap for a sign of one. */
    double hole_every_s;
    bool rebuild;
};
/* A digest of the sizes and times (in a mirror: the versions) of the files that are parts of a recording: what changes when one of
 * them does, or how such recordings are read. header_path: where the recording's own file is read, which names them; in a mirror
 * recording_path has only its first bytes. Errors: those of reading it. */
struct window_stamp {
    char hex[65];
};
int window_stamp_parts(struct mirror *mirror, const char *recording_path, const char *header_path, struct window_stamp *ret,
                       struct err *err);
/* ret_path (size ≥ 4096) receives the cache file. ERR_NOT_FOUND with the label rule's message when unlabelled and `error`;
 * *ret_skipped when unlabelled and `skip`. With a cache the file may be evicted at any time: plan the recording and load it
 * instead, which pins the file until the recording is unloaded or closed. */
int window_build(const struct window_build *b, char *ret_path, unsigned long size, bool *ret_skipped, struct err *err);
/* Reads the recording's facts from its header and labels without its samples: a planned recording, which runs window_build when its
 * samples are first needed. For a recording of a mirror the head is enough unless time-keeping or other annotations decide (files
 * with gaps, labels in the file itself) or the head looks faulty: then the whole file is taken. Errors: window_build's, except
 * those that only samples reveal; *ret is unchanged when skipped. */
int window_plan(const struct window_build *b, struct recording **ret, bool *ret_skipped, struct err *err);
/* The same from stored facts (recording_put_facts), when this source with these labels was planned before. */
struct recording_facts;
int window_replan(const struct window_build *b, const struct recording_facts *facts, struct recording **ret, struct err *err);
