/* labels: the seizures of a recording, read from the label file of its corpus, and the writers of event files. Also the rules that
 * derive patient and split from a path. Times are seconds of file time (0 = first sample). Pure functions over files; any thread. A
 * recording without a label source is not a recording without seizures: see `source`. */
#ifndef BRR_DATA_LABELS_H
#define BRR_DATA_LABELS_H
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"

struct edf;

enum labels_source {
    LABELS_NONE, /* none found; `tried` lists the places searched */
    LABELS_BIDS_TSV,
    LABELS_TUSZ_CSV,
    LABELS_TUSZ_CSV_BI,
    LABELS_CHBMIT_SUMMARY,
    LABELS_EDF_ANNOTATIONS,
};
enum { LABELS_CODE_SIZE = 48, LABELS_MAX_ROWS = 1000000 };

struct label_run {
    double onset_s, end_s;       /* onset < end */
    double confidence;           /* NaN when not given; the largest of merged ones */
    char code[LABELS_CODE_SIZE]; /* "sz", "sz_foc_ia_nm", "cpsz", …: that of the earliest merged one */
};

struct labels {
    struct label_run *runs; /* seizures only, ascending, overlapping and touching ones merged */
    size_t n_runs;
    enum labels_source source;
    double recording_s; /* recording duration the label file states; NaN when it does not */
    char tried[640];    /* the places searched, for messages */
    bool undecided;     /* there is no label file, and the given edf was opened without the annotations that would decide */
};

/* "none", "bids-tsv", "tusz-csv", "tusz-csv_bi", "chbmit-summary", "edf-annotations". */
const char *labels_source_name(enum labels_source source);

/* Reads the labels of the recording at edf_path. format: a name of labels_source_name (also "csv_bi"), or "auto": the first of
 * bids-tsv, tusz-csv, tusz-csv_bi, chbmit-summary, edf-annotations that exists for this recording. edf: the open recording, or NULL
 * to open it when annotations are needed. "none": reads nothing, the source is LABELS_NONE. In "auto" annotations count as a source
 * only when one of them is a seizure. Errors: INVALID names file:line and the expected value, or the unknown format. After success
 * (also with source LABELS_NONE) call labels_done. */
int labels_load(const char *edf_path, const char *format, const struct edf *edf, struct labels *ret, struct err *err);
void labels_done(struct labels *labels);

/* Size and time of every file that labels_load would read beside the recording, as a text that changes when one of the files does.
 * The recording's own annotations are not part of it. ERR_RANGE when a path does not fit; format as in labels_load, not checked. */
enum { LABELS_STAMP_SIZE = 256 };
int labels_stamp(const char *edf_path, const char *format, char ret[LABELS_STAMP_SIZE], struct err *err);

/* True if an event type or TUSZ label is a seizure: "sz…" and "seiz…" (any case) and the nine TUSZ codes. */
bool labels_is_seizure(const char *code);

/* An events TSV (SzCORE/BIDS): every row in file order, seizures or not. Columns are found by name. */
struct event_row {
    double onset_s, duration_s; /* duration NaN for n/a */
    double confidence;          /* NaN for n/a */
    char type[LABELS_CODE_SIZE];
    int line; /* in the file, from 1 */
};
struct events_file {
    struct event_row *rows;
    size_t n_rows;
    double recording_s;  /* NaN when no row states it */
    char start_text[32]; /* dateTime of the first row, or "n/a" */
};
int events_read_tsv(const char *path, struct events_file *ret, struct err *err);
void events_done(struct events_file *events);

/* The recording's metadata in an event file. */
struct events_header {
    const char *start_text;  /* "YYYY-MM-DD HH:MM:SS" or NULL for n/a */
    double recording_s;      /* length of the recording */
    const char *record_name; /* csv_bi: bname */
};
/* Append the text of a SzCORE events TSV (onset duration eventType confidence channels dateTime recordingDuration; 2 decimals;
 * without a run one bckg row over the whole recording), or of a TUSZ csv_bi file. Runs are written as given; code "" becomes "sz".
 */
void labels_format_tsv(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out);
void labels_format_csv_bi(const struct label_run *runs, size_t n_runs, const struct events_header *header, struct str *out);
/* Write the same texts into files, atomically. */
int labels_write_bids_tsv(const char *path, const struct label_run *runs, size_t n_runs, const struct events_header *header,
                          struct err *err);
int labels_write_csv_bi(const char *path, const struct label_run *runs, size_t n_runs, const struct events_header *header,
                        struct err *err);

/* The name of a recording's event file: "_eeg.edf" (any case, also .bdf), else ".edf", becomes "_events.tsv". ERR_RANGE when it
 * does not fit. */
int labels_events_path(const char *edf_path, char *buf, size_t size, struct err *err);

/* How a recording's patient follows from its path relative to the corpus. AUTO: "sub-01" (BIDS), the TUSZ patient, "chb01" (chb21
 * is the same child as chb01), else the path without its extension: every recording is a patient of its own. FOLDER: the first
 * folder. PREFIX: the file's name up to its first '-', '_', '.' or space (BIDS: "sub-01"). Without a folder, or with an empty
 * prefix: the path without its extension. *ret_lone (may be NULL): AUTO found no known form. ERR_RANGE when the patient does not
 * fit. */
enum labels_patient_rule { LABELS_PATIENT_AUTO, LABELS_PATIENT_FOLDER, LABELS_PATIENT_PREFIX };
#define LABELS_PATIENT_RULES "auto|folder|prefix" /* in the order of the enum */
int labels_patient(const char *relative_path, enum labels_patient_rule rule, char *buf, size_t size, bool *ret_lone,
                   struct err *err);
/* "train", "dev" or "eval" when a folder of the path has that name, else "". */
const char *labels_split(const char *relative_path);

#endif
