/* detect_table: the table of recordings that detect prints, for local and server runs. */
#pragma once

#include "client/brr.h"
#include "client/brrctl/detect/trends_file.h"

struct detect_item {
    char *path, *output;   /* malloc'd; output: below --output */
    const char *relative;  /* the end of path: below the folder that was given */
    char model_sha256[72]; /* of the model that ran, "" = none has */
    char *note;            /* malloc'd; what there is to say about its channels and header, NULL = nothing */
    bool done;             /* processed, with or without success */
    int n_events;
    double duration_s, seizure_s;
    double recorded_s;                        /* of a local run: without gaps */
    int learning_s;                           /* in which the model did not know the person's own background; −1 = unknown */
    double suppressed_s, largest_suppression; /* burst suppression; highest ratio of a whole minute */
    double highest, threshold_on;             /* highest probability, NaN = unknown; the one that begins an event */
    int64_t bursts;
    struct brr_error err; /* code 0 = fine */
    bool no_model;        /* err says that the daemon has no such model */
    struct trends_answers answers;
};
struct outputs_model;
/* Prints one JSON line. seen: of the whole run. */
void detect_item_json(const struct detect_item *item, const struct outputs_model *seen);
/* Prints a line per processed recording, and their sums. hours: that were recorded. */
void detect_table_print(const struct detect_item *items, int n, double hours);
/* Prints the notes to stderr, each once: the first few of them. */
void detect_table_notes(const struct detect_item *items, int n);
