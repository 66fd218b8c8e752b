/* eegfile: a recording of any format: its signals, segments, annotations and samples.
 *
 * A format is a row of recordings.def and a struct recording_format (format.h); the format of a file is found by its first bytes.
 * Header faults met in real recordings are repaired in memory and listed as repairs; what cannot be trusted is an error with the
 * reason. Samples are read and decoded on demand to planar microvolt: memory is the caller's window, never the file. After opening
 * an eegfile is immutable: any number of threads may read it (except eegfile_feed). A file is kept open and read with its length at
 * opening: one that grows later is not followed, and one that another process cuts short is the error DATA_LOSS ("changed while it
 * was read").
 *
 * File time: 0 s is the first sample. A sub-second start is moved into eeg_info.start; onsets of segments and annotations are
 * relative to file time 0. Samples are counted in records, within which every signal has a whole number of samples: EDF has such
 * records; in formats that store sample after sample a record is one sample of each signal. */
#pragma once

#include "base/base.h"

struct eegfile;

/* One signal. Texts are trimmed UTF-8 (Latin-1 bytes converted) and valid until eegfile_close. */
struct eeg_signal {
    const char *label, *unit, *transducer, *prefilter;
    double rate_hz;             /* samples_per_record / record duration; 0 when the duration is 0 */
    int64_t samples_per_record; /* the exact rate is samples_per_record · duration_den / duration_num */
    double gain, offset;        /* value = digital · gain + offset, in µV where `volt`, else in `unit` */
    double physical_min, physical_max, digital_min, digital_max;
    bool annotation;    /* holds annotation lists, not samples */
    bool volt;          /* the unit is a voltage and values are in µV; otherwise values are in `unit` */
    bool unit_assumed;  /* the unit is blank or "n/a": µV is assumed */
    bool unit_unstated; /* so is it, or the format has no place for a unit and µV is its custom */
    bool usable;        /* can be read; otherwise note says why */
    const char *note;   /* "" or a note about this signal for the user */
};

/* Consecutive records without a gap. */
struct eeg_segment {
    int64_t first_record, n_records;
    double start_s; /* file time of its first sample */
};

struct eeg_annotation {
    double onset_s;    /* file time */
    double duration_s; /* NaN when not given */
    const char *text;  /* UTF-8, never empty */
};

struct eeg_start {
    int year, month, day, hour, minute, second; /* month and day from 1 */
    double subsecond;                           /* may be ≥ 1 in odd EDF files, whose first time-keeper adds it */
    bool known; /* false: date or time unreadable or declared unknown; the fields are then 0 or unreliable */
};

struct eeg_info {
    bool bdf;           /* EDF's 24-bit samples */
    bool plus;          /* marked EDF+ or BDF+ */
    bool discontinuous; /* marked +D */
    const char *patient, *recording;
    struct eeg_start start;
    int64_t n_records;                  /* complete records in the file */
    int64_t duration_num, duration_den; /* record duration in seconds, reduced; 0/1 for annotation-only files */
    double record_s;
    double duration_s; /* file time from 0 to the end of the last record, gaps included */
    int n_signals;
    const struct eeg_signal *signals;
    int n_segments; /* ≥ 1 where there are records and a duration */
    const struct eeg_segment *segments;
    size_t n_annotations; /* ordered by onset, without EDF's time-keeping annotations */
    const struct eeg_annotation *annotations;
    int n_repairs;
    const char *const *repairs; /* one sentence each */
};

/* ---- names ---- */

/* What the ending of a path, in any letter case, says of the file. */
enum eegfile_kind {
    EEGFILE_NONE,      /* no recording and no part of one; also NAME_annotations.edf, which holds events */
    EEGFILE_RECORDING, /* names a recording */
    EEGFILE_EITHER,    /* a recording of one format or the samples of another: the first bytes decide */
    EEGFILE_PART,      /* samples or markers of a recording that another file names */
};
enum eegfile_kind eegfile_kind(const char *path);
/* True for the path of a recording: by its ending, and where that is of two formats by the bytes of the file at `path` too. */
bool eegfile_named(const char *path);
/* What to do with a recording of a format that is known by its ending and not read: its name and the export that works, as a part
 * of a sentence; NULL for other paths. */
const char *eegfile_unread(const char *path);
/* True for the ending of a format whose recordings have companions. */
bool eegfile_has_parts(const char *path);
/* Length of a path without the ending of its format (".edf"), and, with `suffix`, without the "_eeg" before it. The whole length
 * for a path that ends like no format. */
size_t eegfile_stem(const char *path, bool suffix);
/* The ending of a path that names a recording, such as ".edf", as it is written there; "" for other paths. */
const char *eegfile_ending(const char *path);
/* Finds the recording whose path without "_eeg" and the ending is `stem`: its path in ret. False when there is none. */
bool eegfile_beside(const char *stem, char *ret, size_t size);

/* ---- opening ---- */

/* Open and check a file. Errors: NOT_FOUND and the like from the file system; INVALID for what is no recording or cannot be
 * trusted (the message names path, field, its text and what was expected); UNSUPPORTED for a format that is known but not read,
 * with the export that is; EXHAUSTED. Companions of a format (the samples of a header) are found beside path. */
int eegfile_open(const char *path, struct eegfile **ret, struct err *err);
/* Like eegfile_open, but reads only the header: annotations are left out where they are among the samples, and time-keeping
 * annotations are read only where they determine the segments. Takes the same time for recordings of any length. */
int eegfile_open_header(const char *path, struct eegfile **ret, struct err *err);
/* The same where only the starts of the file at path and of its companions are there: bytes_of returns how many bytes each of them
 * has in all, −1 for a path that is not known. *ret_enough false: what decides is not there (the header goes on, or time-keepers
 * count, as in files with gaps), and facts may be wrong. `start` may lack its sub-second part when the first record is not there.
 * Samples that are not there cannot be read. */
typedef int64_t eegfile_bytes_fn(void *ctx, const char *path);
struct eegfile_sizes {
    eegfile_bytes_fn *bytes_of;
    void *ctx;
};
int eegfile_open_head(const char *path, struct eegfile_sizes sizes, struct eegfile **ret, bool *ret_enough, struct err *err);
/* eegfile_open over bytes that the caller keeps alive and unchanged until eegfile_close; name appears in messages. The first part
 * is the file, the others (n_parts - 1) are its companions with their names. */
struct eegfile_part {
    const char *name;
    const void *data;
    size_t len;
};
int eegfile_open_memory(const struct eegfile_part *parts, int n_parts, struct eegfile **ret, struct err *err);
/* takes NULL */
void eegfile_close(struct eegfile *file);
OWNABLE(struct eegfile, eegfile_close)

/* Names of the files beside the recording at path that opening it looks for, without folders: those that are there are its parts.
 * The first n_samples of them may hold its samples. Errors: those of reading the header. */
enum { EEGFILE_COMPANIONS = 4, EEGFILE_NAME_SIZE = 256 };
struct eegfile_companions {
    char names[EEGFILE_COMPANIONS][EEGFILE_NAME_SIZE];
    int n, n_samples;
};
int eegfile_list_companions(const char *path, struct eegfile_companions *ret, struct err *err);
/* The path of the file with the samples, where the recording at path is a header that names one; of several names, the first that
 * is there. False for other recordings and on errors. */
bool eegfile_samples_path(const char *path, char *ret, size_t size);
/* True for an error of a file's content, which every reader of it meets again; false for one of the moment, such as no memory or no
 * descriptor. */
bool eegfile_is_bad_content(int rc);

/* ---- records that arrive ---- */

/* Opens a recording whose samples are still being written to a file of their own: its header now, the samples by eegfile_feed out
 * of the file at growth->path, from growth->offset on. UNSUPPORTED for formats and layouts that are complete only at their end; EDF
 * has its header and records in one stream: edf_open_feed. */
struct eegfile_growth {
    char path[4096];
    int64_t offset;
};
int eegfile_open_growing(const char *path, struct eegfile **ret, struct eegfile_growth *growth, struct err *err);

/* The next n complete records of eegfile_record_bytes each, borrowed until the next call; only they can be read. n_records,
 * segments and duration of eeg_info grow; `start` may move with the first record; annotations are left out. One thread.
 * PRECONDITION for a file that was not opened for it (edf_open_feed). */
int eegfile_feed(struct eegfile *file, const void *records, int64_t n, struct err *err);
int64_t eegfile_record_bytes(const struct eegfile *file);

/* ---- access ---- */

/* Reads the samples of signals whose unit is not stated or no voltage in `unit`: "uV", "mV" or "V"; NULL: changes nothing. Before
 * the file is shared; once. INVALID for another unit. */
int eegfile_assume_unit(struct eegfile *file, const char *unit, struct err *err);

/* Valid until eegfile_close. */
const struct eeg_info *eegfile_info(const struct eegfile *file);
/* "EDF", "BrainVision", …; "EDF" for BDF too. */
const char *eegfile_format(const struct eegfile *file);
/* True if info contains the file's annotations: false after eegfile_open_header and eegfile_open_head where they are among the
 * samples. */
bool eegfile_annotations_known(const struct eegfile *file);
/* Same as info->segments. Returns their number. */
int eegfile_segments(const struct eegfile *file, const struct eeg_segment **ret);
/* "YYYY-MM-DD HH:MM:SS" of info->start, or "n/a". Returns buf; size ≥ 20. */
const char *eegfile_start_text(const struct eegfile *file, char *buf, size_t size);
const char *eeg_start_text(const struct eeg_start *start, char *buf, size_t size);
/* Moves a known start by so many seconds, at most 1e9; its subsecond becomes the fraction of them. */
void eeg_start_add(struct eeg_start *start, double seconds);

/* Seconds before segment i, 1 ≤ i < n_segments, of which nothing was recorded, from *ret_end_s on; 0: the segments touch. */
double eeg_gap_before(const struct eeg_info *info, int i, double *ret_end_s);
/* Seconds that were recorded: duration_s without the gaps. */
double eeg_recorded_s(const struct eeg_info *info);

/* True if there is a gap above EEGFILE_MOST_GAP_S: then buf says where, how long, and that a date is probably wrong. */
enum { EEGFILE_MOST_GAP_S = 24 * 3600 };
bool eeg_has_long_gap(const struct eeg_info *info, char *buf, size_t size);

/* Samples of signals that have as many of them per record, counted from the first record of the file, gaps left out: those of a
 * segment begin at first_record · samples_per_record. */
struct eeg_range {
    int64_t first, n;
};
/* Decodes the range of several signals in one pass over the file: uv[i][0..n) receives signals[i]. Nothing is clamped: samples
 * outside the declared digital range are scaled like the others. RANGE for samples or signals that do not exist, INVALID for
 * signals of different samples_per_record, PRECONDITION for an unusable or annotation signal; then uv is untouched. */
int eegfile_read(const struct eegfile *file, const int *signals, int n_signals, struct eeg_range range, float *const *uv,
                 struct err *err);
