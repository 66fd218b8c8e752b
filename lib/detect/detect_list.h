/* detect_list: recordings.jsonl in the folder of a detect job: one line per recording that is done or failed, in order of
 * completion while the job runs and in path order when it has ended; the events files are in events/ beside it. A job resumes from
 * it, and its results are read from it. A list belongs to one thread. */
#pragma once

#include "base/base.h"

#define DETECT_LIST_NAME "recordings.jsonl"
enum { DETECT_LIST_PATH = 4096, DETECT_LIST_LINE = 32 << 10 };

struct detect_row {
    char recording[DETECT_LIST_PATH]; /* relative to data.source */
    char error[800];                  /* "" = done */
    char note[1600];                  /* how the montage was met, what was repaired in the recording, `mislabelled`; "" = nothing */
    char mislabelled[256];            /* recording_mislabelled */
    char format[16];                  /* of its events file (eeg/events.h); "" = tsv */
    char key[65], model[65];          /* the inputs of its events: recording_key, SHA-256 of the model file */
    double duration_s, seizure_s;
    double suppressed_s, largest_suppression; /* burst suppression: seconds; highest ratio of a whole minute */
    double highest, threshold_on; /* highest probability, and the one that begins an event; NaN in lists of earlier versions */
    int64_t events, bursts;
};

/* Parses a line without its end; DATA_LOSS for an invalid line. */
int detect_row_read(const char *line, size_t len, struct detect_row *ret, struct err *err);
/* DIR/events/<name of its events file>; RANGE when it does not fit `size`, DATA_LOSS for an unknown format. */
int detect_events_path(const char *directory, const struct detect_row *row, char *ret, size_t size, struct err *err);

/* Visits every complete line of the list at path; a truncated last line and a missing file are ignored. An error of visit ends it.
 */
typedef int detect_row_fn(void *ctx, const struct detect_row *row, struct err *err);
int detect_list_read(const char *path, detect_row_fn *visit, void *ctx, struct err *err);

/* The same line by line, for lists with other members: `line` is without its end. */
typedef int detect_list_line_fn(void *ctx, const char *line, size_t len, struct err *err);
int detect_list_lines(const char *path, detect_list_line_fn *visit, void *ctx, struct err *err);

/* A list being written. Begin keeps the file and drops a truncated last line; add appends one line durably. */
struct detect_list;
int detect_list_begin(const char *path, struct detect_list **ret, struct err *err);
int detect_list_add(struct detect_list *list, const struct detect_row *row, struct err *err);
/* The same with a line that is given with its end. */
struct str;
int detect_list_add_line(struct detect_list *list, const struct str *line, struct err *err);
void detect_list_end(struct detect_list *list); /* takes NULL */

/* Replaces the whole list atomically: `row` returns row i. */
typedef void detect_list_row_fn(void *ctx, int64_t i, struct detect_row *ret);
int detect_list_write(const char *path, int64_t n, detect_list_row_fn *row, void *ctx, struct err *err);
