/* report: the recordings of a report: what was detected in them, what is true, when alarms turned on, and where their EEG is. */
#pragma once
#include "base/json.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/detect/eeg_clip.h"
#include "formats/side.h"
#include "plot/plot.h"

struct report_recording {
    char *name, *subject; /* path below the folder, without its ending; patient */
    char *eeg;            /* the recording; NULL = not found */
    double duration_s;
    bool has_clock;
    double clock_s;      /* time of day of its start, in seconds */
    char start_text[32]; /* "YYYY-MM-DD HH:MM:SS" or "n/a" */
    struct plot_span *detected, *reference;
    double *confidence;          /* (n_detected); NaN = not given */
    char (*channels)[SIDE_LIST]; /* (n_detected); "" = not known */
    double *alarms_s;            /* ascending */
    int n_detected, n_reference, n_alarms;
    bool labelled, has_alarms;
    struct score_event *unsure; /* masked in scores */
    int n_unsure;
    struct score_event *gaps; /* of the recording, where it is there */
    int n_gaps;
};
struct report_data {
    struct report_recording *recordings;
    int n, n_labelled, n_without_eeg, n_alarmed; /* n_alarmed: recordings for which alarms were computed */
};
/* Reads every *_events.tsv below `events` with its *_alarms.tsv. eeg: folder of the recordings, or one recording; NULL = none.
 * reference: folder of label files; NULL = the labels of the recordings. NOT_FOUND without an events file. */
struct report_places {
    const char *events, *eeg, *reference;
};
int report_data_read(const struct report_places *places, struct report_data *ret, struct err *err);
void report_data_done(struct report_data *d);

/* What may stand in a report; NULL = not there. */
struct report_content {
    const char *title, *source; /* the job or the folder */
    const char *seen;           /* "seen: 2 of 12 patients", or "" */
    const struct report_data *data;
    const struct json *report; /* report.json of a job */
    const char *picture;       /* SVG text: operating points, or the course of a training */
    bool picture_is_own;       /* it was made here; else it is the job's, and stands in the report as an image */
    const char *job_file;      /* text of the job file with its overrides */
    const struct eeg_clip_config *clip;
    double page_s;
    int64_t most_pages;
};
/* Appends the whole HTML document. *ret_pages: pages of EEG in it. */
int report_html(const struct report_content *c, struct str *out, int *ret_pages, struct err *err);

/* Index of the first span that overlaps, −1 = none. */
int report_overlap(const struct plot_span *span, const struct plot_span *others, int n);
/* Writes operating points of events and alarms as SVG to path; *ret_drawn false when there is nothing to draw. */
int report_operating(const struct report_data *data, const char *path, bool *ret_drawn, struct err *err);
