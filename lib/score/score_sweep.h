/* score_sweep: evaluation of many thresholds. Every candidate goes through the whole post-processing (detect/events.h) on whole
 * probability traces and is scored in absolute time (score/score.h); nothing is interpolated between candidates, because false
 * alarms are not monotone in the threshold (low thresholds fuse events). One thread. Definitions: docs/scores.md. */
#pragma once
#include "detect/events.h"
#include "score/score.h"

enum {
    SCORE_MAX_CANDIDATES = 64,
    SCORE_MAX_RATIOS = 8,
    SCORE_LIMITS = 4,
    SCORE_MAX_POINTS = SCORE_MAX_CANDIDATES * SCORE_MAX_RATIOS
};

/* [first, end) in samples at 256 Hz from time 0. */
struct score_span {
    int64_t first, end;
};
/* A recording: its record trace and its reference. */
struct score_trace {
    const char *name, *subject;
    const float *p; /* n probabilities at 256 Hz from time 0, NaN in gaps; or, with segments, theirs one after the other, one NaN */
    int64_t n;      /* between two */
    double duration_s;
    const struct score_event *ref;
    int n_ref;
    const struct score_span *segments; /* in file time, ascending; NULL: p begins at time 0 */
    int n_segments;
    const struct score_event *unsure; /* masked time, as in struct score_recording */
    int n_unsure;
    const struct score_event *gaps; /* of the time between segments, and held samples: they count in no hours */
    int n_gaps;
};
double score_trace_hours(const struct score_trace *trace); /* that were recorded */
/* The n of a trace with these segments. */
int64_t score_trace_length(const struct score_span *segments, int n_segments);
/* Moves events found in p to file time; they are ascending and within a segment each. */
void score_trace_to_time(const struct score_trace *trace, struct event *events, int64_t n);
/* Gives p of trace i, valid until the next call. */
typedef int score_load_fn(void *ctx, int i, const float **ret_p, struct err *err);

/* One pair of thresholds and its scores, pooled over the recordings. */
struct score_point {
    double on, off;
    struct score scores[SCORE_KINDS];
};
/* Scores the events of a trace, in file time, and adds the counts to the sums. */
int score_apply(const struct score_trace *trace, const struct event *events, int64_t n, struct score_counts sums[SCORE_KINDS],
                struct err *err);

struct score_search {
    const struct events_config *base; /* all settings except on and off */
    int candidates;                   /* on thresholds to evaluate */
    double off_ratios[SCORE_MAX_RATIOS];
    int n_off_ratios;    /* each off = ratio·on */
    score_load_fn *load; /* NULL: each trace holds its p */
    void *ctx;
};
/* Candidates for `on`: ascending and distinct, at most search->candidates (2 to SCORE_MAX_CANDIDATES): a third each quantiles of
 * all probabilities (the upper half, denser towards the top), even steps between the lowest and the highest of these, and quantiles
 * of the probabilities inside references. *ret_n is 0 when every probability is missing. Of the search only candidates, load and
 * ctx count. */
int score_candidates(const struct score_trace *traces, int n, const struct score_search *search, double *ret_on, int *ret_n,
                     struct err *err);
void score_search_default(struct score_search *s, const struct events_config *base); /* 32; 1, 0.907 and 0.75 */

struct sweep_progress;
struct score_sweep {
    struct score_point *points; /* malloc'd, by off ratio, then ascending on */
    int n;
    /* Best SzCORE event sensitivity of any point with at most 10, 5, 2.5 and 1 false alarms per 24 h; 0 when no point stays within
     * the limit; NaN without references. */
    double sensitivity_at[SCORE_LIMITS];
    struct sweep_progress *progress; /* NULL when all pairs are evaluated */
};
extern const double score_limits_fa_per_24h[SCORE_LIMITS];
/* Chooses the pairs: ret->points with on and off and without scores. The traces are borrowed until all pairs are evaluated. */
int score_sweep_begin(const struct score_trace *traces, int n, const struct score_search *search, struct score_sweep *ret,
                      struct err *err);
/* Evaluates some pairs on one trace; *ret_done: scores and sensitivities are complete. */
int score_sweep_step(struct score_sweep *s, bool *ret_done, struct err *err);
void score_sweep_sensitivities(struct score_sweep *s); /* computes sensitivity_at from the points */
void score_sweep_done(struct score_sweep *s);
void score_sweep_json(const struct score_sweep *s, struct json_writer *w, const char *key);
/* The tolerance for chance: how far below the best an event F1 over this many seizures still counts as equal: 0.1·√(10/n), at most
 * 0.1; about one standard error of a rate near 0.9. */
double score_f1_chance(double seizures);
/* Returns the index of the point to use: among the points whose event F1 is within the tolerance of the best and whose sample F1 is
 * close to the best of those, the one in the middle of their `on` (docs/scores.md); −1 when no point finds an event.
 * target_fa_per_24h: 0 = none; otherwise points above it (in whole false alarms, rounded up) are used only if no point within it
 * finds an event. */
int score_sweep_best(const struct score_sweep *s, double target_fa_per_24h);
