/* answers: what readers said about spans of a recording, kept as its label file (X_events.tsv) with the columns reader and comment.
 * Time that no reader has judged keeps the labels that the recording has anyway; without labels it is of the type unknown, which
 * training and scores leave out. Times are seconds of file time. Any thread; one writer of a file at a time. */
#pragma once

#include "eeg/labels.h"

#define ANSWER_BACKGROUND "bckg"
#define ANSWER_UNSURE     "unknown"
/* "sz|sz_uc|sz_foc|…": seizures as HED-SCORE names the types of the ILAE. */
extern const char answer_types[];

enum { ANSWER_READER_SIZE = 64, ANSWER_COMMENT_SIZE = 256 };
struct answer {
    double onset_s, end_s;       /* onset < end */
    double confidence;           /* the reader's own, 0 to 1; NaN: not stated */
    char type[LABELS_CODE_SIZE]; /* one of answer_types, ANSWER_BACKGROUND or ANSWER_UNSURE */
    char reader[ANSWER_READER_SIZE];
    char comment[ANSWER_COMMENT_SIZE]; /* or "" */
};
/* In order of time; none overlaps another. */
struct answers {
    struct answer *items;
    size_t n, capacity;
};
void answers_done(struct answers *a);

/* Reads the answers of a label file: its rows with a reader. A file that does not exist has none. */
int answers_read(const char *path, struct answers *ret, struct err *err);
/* Adds an answer in place of those that it overlaps; background keeps the parts outside. INVALID: no times of a recording of
 * recording_s seconds, an unknown type, no reader, or a text with control characters. */
int answers_put(struct answers *a, const struct answer *answer, double recording_s, struct err *err);
/* Adds background by this reader wherever there is neither an answer nor a seizure of `labels`. */
int answers_complete(struct answers *a, const char *reader, double recording_s, const struct labels *labels, struct err *err);
/* The first answer that overlaps [onset_s, end_s) and is no background, else the first that overlaps it; NULL without one. */
const struct answer *answers_find(const struct answers *a, double onset_s, double end_s);

/* Writes the label file at path. labels: of the recording, NULL = it has none; a labelled span that an answer overlaps gives way to
 * it. EXISTS for a file there that is not of this function, or was changed since, unless `force` is set. */
struct answers_file {
    const char *path;
    const struct events_header *header;
    const struct labels *labels;
    bool force;
};
int answers_write(const struct answers *a, const struct answers_file *file, struct err *err);
