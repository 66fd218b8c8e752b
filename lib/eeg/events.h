/* events: the event files of recordings in every format that brrd writes: their names, writers and readers, as one table. A new
 * format is a row of events_formats.def and a file events_NAME.c with its two functions. Times are seconds of file time (0 = first
 * sample). Pure functions over files; any thread. */
#pragma once

#include "formats/side.h"

struct eeg_info;

enum { LABELS_CODE_SIZE = 48, LABELS_MAX_ROWS = 1000000 };
#define EVENTS_MAX_SECONDS 1e10

struct label_run {
    double onset_s, end_s;       /* onset < end */
    double confidence;           /* NaN when not given; the largest of merged ones */
    char code[LABELS_CODE_SIZE]; /* "sz", "sz_foc_ia_nm", "cpsz", …: that of the earliest merged one */
    char channels[SIDE_LIST];    /* which carry it (formats/side.h); "": not known. Not of labels */
};

/* True if an event type is certainly a seizure by the rule without patterns (eeg/label_rule.h). */
bool events_is_seizure(const char *code);

/* ---- what is read ---- */

struct event_row {
    double onset_s, duration_s, end_s; /* duration and end NaN for n/a */
    double confidence;                 /* NaN for n/a */
    char type[LABELS_CODE_SIZE];
    char channels[SIDE_LIST]; /* of a TSV or JSON; "": not stated, or too many */
    int line;                 /* in the file, from 1; 0 = the format has no lines */
};
struct events_file {
    struct event_row *rows; /* in file order, seizures or not */
    size_t n_rows, capacity;
    double recording_s;        /* NaN when the file does not state it */
    char start_text[32];       /* dateTime of the first row of a TSV, or "n/a" */
    double origin_s;           /* times are relative to this (civil_seconds); NaN: to the recording's first sample */
    bool origin_doubtful;      /* the origin may be wrong: used only if events lie in the recording then */
    struct event_row *skipped; /* rows that are no seizure and whose times cannot be read: type and line */
    size_t n_skipped, skipped_capacity;
};
void events_done(struct events_file *events);
#define EVENTS_FILE_EMPTY                                                                                                          \
    { .recording_s = NAN, .start_text = "n/a", .origin_s = NAN }
/* Appends a row. path: for messages. EXHAUSTED: too many rows, or out of memory. */
int events_add(struct events_file *events, const struct event_row *row, const char *path, struct err *err);
/* The same for a row that is no seizure and whose times cannot be read. */
int events_skip(struct events_file *events, const struct event_row *row, const char *path, struct err *err);

/* Reads a file in the format that its name ends in; a file of any other name as a TSV, whose columns are found by name. Errors:
 * INVALID names file:line and the expected value; those of the file system. */
int events_read(const char *path, struct events_file *ret, struct err *err);

/* Makes times relative to the first sample of the recording, if they are relative to something else: an origin_s, which is then
 * NaN. Returns the seconds that were added. Without a known start of the recording nothing is added. */
double events_relate(struct events_file *events, const struct eeg_info *recording);

/* ---- what is written ---- */

/* The recording's metadata in an event file. */
struct events_header {
    const char *start_text;        /* "YYYY-MM-DD HH:MM:SS" or NULL for n/a */
    double recording_s;            /* length of the recording */
    const char *record_name;       /* or NULL */
    const struct eeg_info *source; /* header of the recording, which an EDF+ annotation file repeats; NULL = unknown */
};

/* ---- the table ---- */

struct events_format {
    const char *name;   /* as --format and detect.format take it */
    const char *ending; /* of its files: in place of "_eeg.edf" and the like, or of ".edf" if it begins with a '.' */
    /* Appends the bytes of a file. Runs are written as given; code "" becomes "sz". */
    void (*put)(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out);
    /* Adds to what is empty (EVENTS_FILE_EMPTY) at first; the caller owns it, after an error too. */
    int (*read)(const char *path, struct events_file *events, struct err *err);
};
enum {
#define EVENTS_FORMAT(id, name, ending) EVENTS_INDEX_##id,
#include "eeg/events_formats.def"
#undef EVENTS_FORMAT
    EVENTS_FORMATS
};
/* "|tsv|edf+|…": EVENTS_NAMES is the list for options. */
extern const char events_names[];
#define EVENTS_NAMES (events_names + 1)

/* By index; by name (NULL or "" = "tsv"; NULL when there is none of this name); by the ending of a file's name, NULL for others. */
const struct events_format *events_format_at(int index);
const struct events_format *events_format_find(const char *name);
const struct events_format *events_format_of(const char *path);
/* ".tsv" of "_events.tsv". */
const char *events_extension(const struct events_format *format);

/* The name of a recording's event file. ERR_RANGE when it does not fit. */
int events_path(const struct events_format *format, const char *recording_path, char *buf, size_t size, struct err *err);
/* Appends the bytes of a file. INVALID for a type or name with a control character, or with a comma where that separates cells. */
int events_put(const struct events_format *format, const struct label_run *runs, size_t n_runs, const struct events_header *header,
               struct str *out, struct err *err);
/* False for a text with a line end, a tab or another control character. */
bool events_is_plain(const char *text);
/* Writes a file, atomically. */
int events_write(const struct events_format *format, const char *path, const struct label_run *runs, size_t n_runs,
                 const struct events_header *header, struct err *err);
