/* score_files: the seizures of one recording for `score`, from every form of labels that training reads: an event file of any
 * format, a TUSZ csv or csv_bi, or a recording whose labels stand beside it or in it. One thread. */
#pragma once

#include "score/score.h"

struct score_labels {
    struct score_event *events; /* malloc'd */
    int n;
    struct score_event *unsure; /* malloc'd: time that is masked (score.h) */
    int n_unsure;
    struct score_event *gaps; /* malloc'd, where the recording is there: time that was not recorded */
    int n_gaps;
    double duration_s; /* of the recording: its header's, else what the label file states; NaN = unknown */
    bool others_alone; /* it has events, and none is a seizure, unsure or background */
};
/* rule: of a recording's labels, as labels_load; its patterns count for event files too. NOT_FOUND for a recording without labels;
 * errors of files and formats. */
int score_labels_read(const char *path, const char *rule, struct score_labels *ret, struct err *err);

void score_labels_done(struct score_labels *labels);

struct eeg_info;
/* The gaps of a recording, malloc'd; their number. */
int score_gaps(const struct eeg_info *info, struct score_event **ret);

/* Prints a note if some of these reference events end more than a second after the recording: they are labels of another one. name:
 * of the recording; recording_s: its length. NaN lengths are unknown. */
void score_note_beyond(const char *name, const struct score_labels *reference, double recording_s);

/* True if a file below a folder of references stands for a recording: an events TSV; a recording without one; the first file with
 * labels in another format where there is neither. */
bool score_is_reference(const char *path);
/* True for a path that ends as those of files with labels do. */
bool score_is_labels_name(const char *path);
/* True for a file with labels that is the first of its stem. */
bool score_is_labels(const char *path);
/* Writes the path without the ending that says what the file holds: "a/X_eeg.edf", "a/X_events.tsv", "a/X.csv_bi" → "a/X". False
 * when it does not fit. */
bool score_stem(const char *path, char *ret, size_t size);
