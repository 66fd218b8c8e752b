/* score_sweep: thresholds tried for real. Every candidate goes through the whole post-processing (model/events.h) on whole
 * probability traces and is scored in absolute time (report/score.h); nothing is interpolated between candidates, because false
 * alarms are not monotone in the threshold (low thresholds fuse events). They are tried many at a time on a device
 * (model/finder.h), on the thread of its stream. Also what alarms are judged by: their delay and their own false alarms; this and
 * the rest is pure arithmetic. Definitions: docs/scores.md. */
#ifndef BRR_REPORT_SCORE_SWEEP_H
#define BRR_REPORT_SCORE_SWEEP_H
#include "model/finder.h"
#include "report/score.h"

enum {
    SCORE_MAX_CANDIDATES = 64,
    SCORE_MAX_RATIOS = 8,
    SCORE_LIMITS = 4,
    SCORE_MAX_POINTS = SCORE_MAX_CANDIDATES * SCORE_MAX_RATIOS
};

/* A whole recording: its record trace and its reference. */
struct score_trace {
    const char *name, *subject;
    const float *p; /* n probabilities at 256 Hz from time 0, NaN in gaps */
    int64_t n;
    double duration_s;
    const struct score_event *ref;
    int n_ref;
};

/* Candidates for `on`, ascending and distinct, at most count (2 to SCORE_MAX_CANDIDATES): a third each quantiles of all
 * probabilities (the upper half, denser towards the top), even steps between the lowest and the highest of these, and quantiles of
 * the probabilities inside references. *ret_n is 0 when every probability is missing. */
int score_candidates(const struct score_trace *traces, int n, int count, double *ret_on, int *ret_n, struct err *err);

/* One pair of thresholds and what it gives, pooled over the recordings. */
struct score_point {
    double on, off;
    struct score scores[SCORE_KINDS];
};
/* Scores what was found in a trace, and adds it to the sums. */
int score_apply(const struct score_trace *trace, const struct event *events, int64_t n, struct score_counts sums[SCORE_KINDS],
                struct err *err);

struct score_search {
    const struct events_config *base; /* everything but on and off */
    int candidates;                   /* on thresholds to try */
    double off_ratios[SCORE_MAX_RATIOS];
    int n_off_ratios; /* off = ratio·on, each tried */
};
void score_search_default(struct score_search *s, const struct events_config *base); /* 32; 1, 0.907 and 0.75 */

struct sweep_progress;
struct score_sweep {
    struct score_point *points; /* malloc'd, by off ratio, then ascending on */
    int n;
    /* Best SzCORE event sensitivity of any point with at most 10, 5, 2.5 and 1 false alarms per 24 h; 0 when no point keeps the
     * limit; NaN without references. */
    double sensitivity_at[SCORE_LIMITS];
    struct sweep_progress *progress; /* NULL when all is tried */
};
extern const double score_limits_fa_per_24h[SCORE_LIMITS];
/* Chooses the pairs: ret->points with on and off, and no scores yet. The traces must stay until all is tried. */
int score_sweep_begin(const struct score_trace *traces, int n, const struct score_search *search, struct stream *s,
                      struct score_sweep *ret, struct err *err);
/* Tries some pairs on one trace; *ret_done: the scores and sensitivities stand. */
int score_sweep_step(struct score_sweep *s, bool *ret_done, struct err *err);
void score_sweep_sensitivities(struct score_sweep *s); /* fills sensitivity_at from the points */
void score_sweep_done(struct score_sweep *s);
void score_sweep_json(const struct score_sweep *s, struct json_writer *w, const char *key);
/* How far below the best an event F1 of this many seizures may be by chance: 0.1·√(10/n), at most 0.1; about one standard error of
 * a rate near 0.9. */
double score_f1_chance(double seizures);
/* Index of the point to use: of those whose event F1 is the best but for chance and whose sample F1 is not far from it either, the
 * one with the highest `on` (docs/scores.md); −1 when no point finds anything. target_fa_per_24h: 0 = none; else
 * points above it (in whole false alarms, rounded up) lose against any point within it that finds something. */
int score_sweep_best(const struct score_sweep *s, double target_fa_per_24h);

/* Alarms of one recording. at_s: when the alarm was given in recording time, which is the end of the window that raised it. */
struct score_alarms {
    const char *name;
    double duration_s;
    const struct score_event *ref;
    const double *at_s; /* ascending */
    int n_ref, n_alarms;
};
struct score_alarm_report {
    int64_t references, alarmed, alarms, false_alarms;
    double hours, sensitivity, false_alarms_per_24h;
    double delay_p50_s, delay_p95_s; /* from seizure onset to its first alarm; NaN without one */
};
/* A seizure is alarmed by the first alarm from 30 s before its onset to 60 s after its end; an alarm near no seizure is false. */
int score_alarms(const struct score_alarms *recs, int n, struct score_alarm_report *ret, struct err *err);
void score_alarm_report_json(const struct score_alarm_report *r, struct json_writer *w, const char *key);

#endif
