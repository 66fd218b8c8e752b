/* edf: reader of EDF, EDF+C, EDF+D, BDF and BDF+ files.
 *
 * Header faults met in real recordings are repaired in memory and listed as repairs; what cannot be trusted is an error with the
 * reason. Samples are read and decoded on demand to planar microvolt: memory is the caller's window, never the file. After opening
 * an edf is immutable: any number of threads may read it (except edf_feed). A file is kept open and read with its length at
 * opening: one that grows later is not followed, and one that another process cuts short is the error DATA_LOSS ("changed while it
 * was read").
 *
 * File time: 0 s is the first sample of the first record. A sub-second start (the first time-keeper's onset) is moved into
 * edf_info.start; onsets of segments and annotations are relative to file time 0. */
#ifndef BRR_EEG_EDF_H
#define BRR_EEG_EDF_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

struct edf;

/* One signal. Texts are trimmed UTF-8 (Latin-1 bytes converted) and valid until edf_close. */
struct edf_signal {
    const char *label, *unit, *transducer, *prefilter;
    double rate_hz;             /* samples_per_record / record duration; 0 when the duration is 0 */
    int64_t samples_per_record; /* the exact rate is samples_per_record · duration_den / duration_num */
    double gain, offset;        /* value = digital · gain + offset, in µV where `volt`, else in `unit` */
    double physical_min, physical_max, digital_min, digital_max;
    bool annotation;   /* holds annotation lists, not samples */
    bool volt;         /* the unit is a voltage and values are in µV; otherwise values are in `unit` */
    bool unit_assumed; /* the unit is blank or "n/a": µV is assumed */
    bool usable;       /* can be read; otherwise note says why */
    const char *note;  /* "" or a note about this signal for the user */
};

/* Consecutive records without a gap. */
struct edf_segment {
    int64_t first_record, n_records;
    double start_s; /* file time of its first sample */
};

struct edf_annotation {
    double onset_s;    /* file time */
    double duration_s; /* NaN when not given */
    const char *text;  /* UTF-8, never empty */
};

struct edf_start {
    int year, month, day, hour, minute, second; /* month and day from 1 */
    double subsecond;                           /* added by the first time-keeping annotation; may be ≥ 1 in odd files */
    bool known; /* false: date or time unreadable or declared unknown; the fields are then 0 or unreliable */
};

struct edf_info {
    bool bdf;           /* 24-bit samples */
    bool plus;          /* marked EDF+ or BDF+ */
    bool discontinuous; /* marked +D */
    const char *patient, *recording;
    struct edf_start start;
    int64_t n_records;                  /* complete records in the file */
    int64_t duration_num, duration_den; /* record duration in seconds, reduced; 0/1 for annotation-only files */
    double record_s;
    double duration_s; /* file time from 0 to the end of the last record, gaps included */
    int n_signals;
    const struct edf_signal *signals;
    int n_segments; /* ≥ 1 where there are records and a duration */
    const struct edf_segment *segments;
    size_t n_annotations; /* ordered by onset, without time-keeping annotations */
    const struct edf_annotation *annotations;
    int n_repairs;
    const char *const *repairs; /* one sentence each */
};

/* True for the path of a recording: it ends in .edf or .bdf, in any case, but not in _annotations.edf, which holds events. */
bool edf_named(const char *path);

/* Open and check a file. Errors: NOT_FOUND and the like from the file system; INVALID for what is not EDF or BDF or cannot be
 * trusted (the message names path, field, its text and what was expected); EXHAUSTED. */
int edf_open(const char *path, struct edf **ret, struct err *err);
/* Like edf_open, but reads only the header: annotations are left out, and time-keeping annotations are read only where they
 * determine the segments (files marked discontinuous). Takes the same time for recordings of any length. */
int edf_open_header(const char *path, struct edf **ret, struct err *err);
/* The same of a file of which only the start is at path; it has file_bytes in all. *ret_enough false: what decides is not there
 * (the header goes on, or time-keepers count, as in files with gaps), and facts may be wrong. `start` lacks what the first
 * time-keeper adds when the first record is not there. Samples of records that are not there cannot be read. */
int edf_open_head(const char *path, int64_t file_bytes, struct edf **ret, bool *ret_enough, struct err *err);
/* edf_open over bytes that the caller keeps alive and unchanged until edf_close; name appears in messages. */
int edf_open_memory(const void *data, size_t len, const char *name, struct edf **ret, struct err *err);
/* For records that arrive one after another, from a pipe or a growing file; the header's record count is ignored. edf_header_bytes:
 * the header's length, from its first 256 bytes; -1 when they do not state it. edf_open_feed: takes a complete header, which is
 * copied; there are no records yet. edf_feed: the next n complete records of edf_record_bytes each, borrowed until the next
 * edf_feed; only they can be read. n_records, segments and duration of edf_info grow; `start` may move with the first record;
 * annotations are left out. One thread. */
int64_t edf_header_bytes(const void *data);
/* How many bytes behind that length still belong to the header by its own field, at most 64 KiB: padding if they are all blank. */
int64_t edf_header_padding(const void *data);
int edf_open_feed(const void *header, size_t len, const char *name, struct edf **ret, struct err *err);
int edf_feed(struct edf *edf, const void *records, int64_t n, struct err *err);
int64_t edf_record_bytes(const struct edf *edf);
/* takes NULL */
void edf_close(struct edf *edf);
OWNABLE(struct edf, edf_close)

/* Reads the samples of signals whose unit is blank or no voltage in `unit`: "uV", "mV" or "V"; NULL: changes nothing. Before the
 * edf is shared; once. INVALID for another unit. */
int edf_assume_unit(struct edf *edf, const char *unit, struct err *err);

/* Valid until edf_close. */
const struct edf_info *edf_info(const struct edf *edf);
/* True if info contains the file's annotations: false after edf_open_header and edf_open_head, unless the file has no annotation
 * signal. */
bool edf_annotations_known(const struct edf *edf);
const char *edf_path(const struct edf *edf);
/* Same as info->segments. Returns their number. */
int edf_segments(const struct edf *edf, const struct edf_segment **ret);
/* First usable non-annotation signal with this label, letter case ignored; -1 when there is none. */
int edf_find(const struct edf *edf, const char *label);
/* "YYYY-MM-DD HH:MM:SS" of info->start, or "n/a". Returns buf; size ≥ 20. */
const char *edf_start_text(const struct edf *edf, char *buf, size_t size);
const char *edf_start_text_of(const struct edf_start *start, char *buf, size_t size);

/* Decode n_records whole records of one signal: n_records · samples_per_record values to uv. Nothing is clamped: samples outside
 * the declared digital range are scaled like the others. RANGE for records or signals that do not exist, PRECONDITION for
 * an unusable or annotation signal; then uv is untouched. */
int edf_read(const struct edf *edf, int signal, int64_t first_record, int64_t n_records, float *uv, struct err *err);

/* The same for several signals in one pass over the file: uv[i] receives signals[i]. n_samples > 0: of each record only the samples
 * [first_sample, first_sample + n_samples), which every one of the signals must have. */
struct edf_range {
    int64_t first_record, n_records, first_sample, n_samples;
};
int edf_read_signals(const struct edf *edf, const int *signals, int n_signals, struct edf_range records, float *const *uv,
                     struct err *err);

#endif
