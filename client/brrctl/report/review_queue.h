/* review_queue: the spans of recordings that a reader should look at, those most worth it first: what models found or people
 * labelled, joined where it overlaps. One thread. */
#pragma once
#include "client/brrctl/report/report.h"

enum { REVIEW_MODELS = ARGUMENTS_MAX_LIST };

struct review_item {
    const struct report_recording *recording; /* of one of the data */
    double onset_s, end_s;
    double confidence;        /* the highest of the events; NaN: none states one */
    int found;                /* models that found it */
    bool labelled, in_labels; /* the recording has labels; one of them overlaps */
    double worth;             /* unsure + disagree + surprise */
    double unsure, disagree;  /* 0 to 1 */
    double surprise;          /* 0 to 1: found outside the labels (a hard negative), or a label that no model found */
};
struct review_queue {
    struct review_item *items; /* most worth first; then by recording and time */
    int n;
};
/* data: what each of n models found in the same recordings; kept while the queue is used. */
int review_queue_make(const struct report_data *data, int n, struct review_queue *ret, struct err *err);
void review_queue_done(struct review_queue *q);
