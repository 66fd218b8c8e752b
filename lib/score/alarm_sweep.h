/* alarm_sweep: evaluation of many alarm rules on the alarm traces of labelled recordings, and the choice of one for each rate of
 * false alarms. Every rule (thresholds and shortest onset) runs over every trace as in a stream (detect/alarms.h) and its alarms
 * are scored (score/score_alarms.h); nothing is interpolated. Definitions: docs/scores.md. One thread. */
#pragma once
#include "detect/alarms.h"
#include "score/score_alarms.h"
#include "score/score_sweep.h"

/* A rule and its scores over all recordings. Undefined values are NaN. */
struct alarm_point {
    struct alarm_config rule;
    int64_t alarmed, false_alarms;
    double sensitivity, false_alarms_per_24h, worst_patient_false_alarms_per_24h;
    double delay_p50_s, delay_p95_s; /* from the onset to the first alarm at or after it */
    double *delays_s;                /* ascending; owned by the sweep */
    int64_t n_delays;
};
struct alarm_search {
    struct alarm_config base; /* min_offset and latch of all rules */
    int64_t alarm_hop;        /* samples between two decisions */
    score_load_fn *load;      /* NULL: each trace holds its p */
    void *ctx;
};
struct alarm_progress;
struct alarm_sweep {
    struct alarm_point *points; /* malloc'd */
    int n;
    int64_t references;
    double hours;
    int patients;
    struct alarm_sets sets;          /* for the rates that some rule stays within and finds a seizure */
    int chosen[ALARM_RATES];         /* the points of the sets */
    struct alarm_progress *progress; /* NULL when all rules are evaluated */
};
/* Chooses the rules. The p of a trace is what the alarm rule takes (`judged` in detect/timeline.h), NaN where it takes nothing. The
 * traces are borrowed until all rules are evaluated. */
int alarm_sweep_begin(const struct score_trace *traces, int n, const struct alarm_search *search, struct alarm_sweep *ret,
                      struct err *err);
/* Evaluates all rules on the next trace; *ret_done: points and sets are complete. */
int alarm_sweep_step(struct alarm_sweep *s, bool *ret_done, struct err *err);
void alarm_sweep_done(struct alarm_sweep *s);
void alarm_sweep_json(const struct alarm_sweep *s, struct json_writer *w, const char *key);
