/* labels: the seizures of a recording, read from the label file of its corpus. Also the rules that derive patient and split from a
 * path. Times are seconds of file time (0 = first sample). Pure functions over files; any thread. A
 * recording without a label source is not a recording without seizures: see `source`. */
#pragma once

#include "eeg/events.h"
#include "eeg/label_rule.h"

struct eegfile;

enum labels_source {
    LABELS_NONE, /* none found; `tried` lists the places searched */
    LABELS_BIDS_TSV,
    LABELS_TUSZ_CSV,
    LABELS_TUSZ_CSV_BI,
    LABELS_CHBMIT_SUMMARY,
    LABELS_EDF_ANNOTATIONS, /* in the recording itself */
    LABELS_FORMATS,         /* + index of an event format (eeg/events.h) that is none of those above */
    LABELS_SOURCES = LABELS_FORMATS + EVENTS_FORMATS
};

/* A type or text that is neither a seizure nor unsure. */
struct labels_other {
    char text[LABELS_CODE_SIZE];
    size_t count;
};
enum { LABELS_MAX_OTHERS = 64 };

struct labels {
    struct label_run *runs; /* seizures only, ascending, overlapping and touching ones merged */
    size_t n_runs;
    struct label_run *unknown; /* where nobody knows what there is (LABEL_UNSURE), likewise: neither seizure nor background */
    size_t n_unknown;
    enum labels_source source;
    double recording_s; /* recording duration the label file states; NaN when it does not */
    char tried[2048];   /* the places searched in vain, separated by ", ", for messages (labels_tried) */
    char without[200];  /* "" or which of them are there and why they hold no labels of the recording */
    char note[200];     /* "" or what was assumed about the label file, for the user */
    bool undecided;     /* there is no label file, and the given edf was opened without the annotations that would decide */
    struct labels_other *others; /* what was read and is no seizure, background left out, most frequent first */
    size_t n_others;
};

/* Why there are no labels: what is there without labels of the recording, then "looked for" and the places that were searched, cut
 * behind one of them at about 110 bytes. Returns buf. */
enum { LABELS_TRIED_SIZE = 520 };
const char *labels_tried(const struct labels *labels, char buf[LABELS_TRIED_SIZE]);
/* "none", "bids-tsv", "tusz-csv", "tusz-csv_bi", "chbmit-summary", "edf-annotations", or the name of an event format. */
const char *labels_source_name(enum labels_source source);
/* "auto|bids-tsv|…": all that labels_load takes but "none"; and if a text is one of them. */
extern const char labels_names[];
bool labels_known(const char *format);

/* Reads the labels of the recording at recording_path. rule: a format, and patterns of seizures as in eeg/label_rule.h.
 * The format is a name of labels_source_name, the name of an event format, or "auto": the first of bids-tsv, tusz-csv,
 * tusz-csv_bi, chbmit-summary, the other event formats, edf-annotations that exists for this recording. edf: the open
 * recording, or NULL to open it when annotations are needed. "none": reads nothing, the source is LABELS_NONE. In "auto"
 * annotations count as a source only when one of them is a seizure, and an event file only when it is empty or one of its
 * rows is a seizure, unsure or background. A file that brrd wrote and nobody has changed since (store/outputs.h) is no
 * label. Errors: INVALID names file:line and the expected value, or the unknown format. After success (also with source
 * LABELS_NONE) call labels_done. */
int labels_load(const char *recording_path, const char *rule, const struct eegfile *edf, struct labels *ret, struct err *err);
/* The seizures of a TUSZ table that is named itself, whoever wrote it: its rows of channels merged. */
int labels_read_table(const char *path, const char *rule, struct labels *ret, struct err *err);
void labels_done(struct labels *labels);

/* Size and time of every file that labels_load would read beside the recording, as a text that changes when one of the files does.
 * The recording's own annotations are not part of it. ERR_RANGE when a path does not fit; rule as in labels_load, not checked. */
enum { LABELS_STAMP_SIZE = 512 };
int labels_stamp(const char *recording_path, const char *rule, char ret[LABELS_STAMP_SIZE], struct err *err);

/* How a recording's patient follows from its path relative to the corpus. AUTO: "sub-01" (BIDS), the TUSZ patient, "chb01" (chb21
 * is the same child as chb01), else the path without its extension: every recording is a patient of its own. FOLDER: the first
 * folder. PREFIX: the file's name up to its first '-', '_', '.' or space (BIDS: "sub-01"). Without a folder, or with an empty
 * prefix: the path without its extension. *ret_lone (may be NULL): AUTO found no known form. ERR_RANGE when the patient does not
 * fit. */
enum labels_patient_rule { LABELS_PATIENT_AUTO, LABELS_PATIENT_FOLDER, LABELS_PATIENT_PREFIX };
int labels_patient(const char *relative_path, enum labels_patient_rule rule, char *buf, size_t size, bool *ret_lone,
                   struct err *err);
/* "train", "dev" or "eval" when a folder of the path has that name, else "". */
const char *labels_split(const char *relative_path);
