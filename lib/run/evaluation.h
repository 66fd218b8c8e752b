/* evaluation: whole recordings of a manifest under a detector, through the same path as detection (infer/timeline.h): traces first,
 * then thresholds tried for real (report/score_sweep.h), then scores in absolute time. Validation inside training and evaluate jobs
 * are both this. Steps are short: a batch of windows, or some pairs of thresholds on one recording. Keeps 4 bytes per sample of
 * every recording. The thread of the device. */
#ifndef BRR_RUN_EVALUATION_H
#define BRR_RUN_EVALUATION_H
#include "data/manifest.h"
#include "infer/detector.h"
#include "report/score_sweep.h"

struct evaluation_config {
    struct detector *detector;
    struct stream *stream;
    const struct manifest *manifest;
    const uint8_t *role; /* per manifest entry */
    uint8_t wanted;      /* which role is evaluated */
    struct events_config events;
    bool auto_threshold;      /* choose on and off; else those of events stand */
    bool sweep;               /* sensitivity_at is wanted also when nothing is chosen */
    double target_fa_per_24h; /* of auto_threshold */
    int windows_per_step;
    int workers;       /* threads that decode what is not in the window cache yet */
    int64_t alarm_hop; /* samples; 0 = no alarms */
};

struct evaluation_result {
    struct events_config events; /* with the thresholds in force */
    struct score_point point;    /* pooled scores under them */
    double auroc, loss;          /* over labelled samples that were measured; loss: mean cross entropy of the record trace */
    double sensitivity_at[SCORE_LIMITS];
    struct score_alarm_report alarms; /* all zero without alarm_hop */
};

/* One recording after the evaluation: pointers live as long as it. */
struct evaluation_recording {
    const struct manifest_entry *entry;
    struct score_trace trace;
    const struct event *events; /* under the thresholds in force */
    int64_t n_events;
    const double *alarms_s;
    int n_alarms;
};

struct evaluation;
int evaluation_start(const struct evaluation_config *config, struct evaluation **ret, struct err *err);
/* *ret_done: *ret holds the result; NaN where something is undefined. */
int evaluation_step(struct evaluation *e, bool *ret_done, struct evaluation_result *ret, struct err *err);
void evaluation_free(struct evaluation *e);         /* NULL is fine */
int evaluation_count(const struct evaluation *e);   /* recordings */
int evaluation_current(const struct evaluation *e); /* recordings whose trace is complete */
/* Every pair of thresholds that was tried; lives as long as e. */
const struct score_sweep *evaluation_sweep(const struct evaluation *e);
void evaluation_recording(const struct evaluation *e, int index, struct evaluation_recording *ret);

#endif
