/* score: detection scores by the field's definitions, per recording and over recordings, in absolute time and true hours. Every
 * result names its definition and version. Pure arithmetic; any thread. SzCORE event and sample scores: timescoring semantics with
 * the F1 definition of 2026-01-16. any_overlap: NEDC OVLP (any overlap = hit, hypothesis touching no reference = false alarm).
 * taes: NEDC time-aligned event scoring. Definitions: docs/scores.md. */
#pragma once

#include "base/base.h"
#include "base/json.h"

struct score_event {
    double onset_s, end_s;
};
struct score_recording {
    const char *name, *subject;
    double duration_s;
    const struct score_event *ref, *hyp;
    int n_ref, n_hyp;
    const struct score_event *unsure; /* where nobody knows whether there is a seizure: see score_recording */
    int n_unsure;
    const struct score_event *gaps; /* where nothing was recorded: their seconds count in no duration and no sample score */
    int n_gaps;
};
/* The seconds of a recording that were recorded. */
double score_recorded_s(double duration_s, const struct score_event *gaps, int n_gaps);
#define SCORE_DEFINITION "event, sample: SzCORE (F1 as of 2026-01-16); any_overlap, taes: NEDC v6"

/* Counts (taes: fractional). */
struct score_counts {
    double tp, fp, fn, ref;
    double duration_s;
};
struct score {
    double sensitivity, precision, f1, false_alarms_per_24h;
    struct score_counts counts;
}; /* NaN where undefined */
enum score_kind { SCORE_EVENT, SCORE_SAMPLE, SCORE_ANY_OVERLAP, SCORE_TAES, SCORE_KINDS };
const char *score_kind_name(enum score_kind kind); /* "event" "sample" "any_overlap" "taes" */

/* Counts of one recording. Events in any order; `event` and `sample` cut events at the duration. Unsure time outside of references
 * is masked: hypotheses that touch it and no reference do not count, its seconds count in no sample score, and no duration holds
 * it. INVALID: a duration that is not positive, an event that ends before its onset or is not finite. */
int score_recording(const struct score_recording *rec, struct score_counts ret[SCORE_KINDS], struct err *err);
void score_counts_add(struct score_counts *to, const struct score_counts *c);
void score_from_counts(const struct score_counts *counts, struct score *ret);
/* Pooled over all recordings; subject means are NaN-means over subjects as SzCORE averages. */
struct score_subject {
    const char *subject;
    struct score scores[SCORE_KINDS];
};
/* How far the events begin from the seizures they find: |onset of the first event that shares time with a reference − its onset|.
 */
struct score_onsets {
    int64_t n;           /* references found so */
    double p50_s, p90_s; /* NaN without one */
};
struct score_report {
    struct score_onsets onsets;
    struct score pooled[SCORE_KINDS], subject_mean[SCORE_KINDS];
    struct score_subject *subjects; /* malloc'd */
    int n_subjects;
};
/* "0.853", or "none" for NaN: a rate of nothing, such as an F1 without a seizure or an event. */
const char *score_text(double value, int digits, char buf[32]);
/* Linear between the order statistics of n ascending values; NaN without any. q from 0 to 1. */
double score_percentile(const double *sorted, int64_t n, double q);
int score_all(const struct score_recording *recs, int n, struct score_report *ret, struct err *err);
void score_report_done(struct score_report *r);
void score_report_json(const struct score_report *r, struct json_writer *w);
/* Its members alone, into an open object. */
void score_report_members(const struct score_report *r, struct json_writer *w);

/* Area under the ROC curve of probabilities against 0/1 labels. Bins are no wider than 6.6e-4 in
 * log-odds, and have the same bounds on every machine; ties within a bin count half. 5.9 MiB. */
enum { AUROC_BINS = 307201 };
#define AUROC_SEVERAL UINT32_MAX
struct auroc {
    uint64_t positive[AUROC_BINS], negative[AUROC_BINS];
    uint32_t one[AUROC_BINS]; /* the bits of the only value in the bin, plus 1; 0: empty, AUROC_SEVERAL: it holds several values */
};
void auroc_add_run(struct auroc *a, float p, bool positive, uint64_t n); /* n samples of one p, which is a number */
double auroc_value(const struct auroc *a);                               /* NaN with one class only */
/* No order of the samples inside the bins can move the value further; NaN with one class only. Where a bin holds one
 * value, half a count for each tie is exact. */
double auroc_error_most(const struct auroc *a);
