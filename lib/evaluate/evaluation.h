/* evaluation: runs whole recordings of a manifest under a detector through the same path as detection (detect/timeline.h): first
 * the traces, then the evaluation of thresholds (score/score_sweep.h) and of alarm rules (score/alarm_sweep.h), then the scores in
 * absolute time. Used by validation inside training and by evaluate jobs. Steps are short: a batch of windows, or some pairs of
 * thresholds on one recording; the choice of the pairs and the scores under the chosen one read every trace once. A trace takes 4
 * bytes per sample of signal, 8 with alarms; those that do not stay in memory are in files (evaluate/traces.h). Ranks share the
 * traces by whole recordings; rank 0 collects them in order, and has the bits of an evaluation by one rank. The device's thread. */
#pragma once
#include "base/world.h"
#include "detect/detector.h"
#include "evaluate/traces.h"
#include "score/alarm_sweep.h"
#include "score/score_alarms.h"
#include "score/score_sweep.h"
#include "windows/manifest.h"

struct evaluation_config {
    struct detector *detector;
    struct stream *stream;
    const struct manifest *manifest;
    const uint8_t *role; /* per manifest entry */
    uint8_t wanted;      /* the role to evaluate */
    struct events_config events;
    bool auto_threshold;                /* choose on and off; otherwise those of events apply */
    bool sweep;                         /* compute sensitivity_at even if no threshold is chosen */
    double target_fa_per_24h;           /* target of auto_threshold */
    const struct events_config *before; /* scored too, beside the thresholds that are chosen; NULL: none */
    int workers;                        /* threads that decode recordings missing in the window cache */
    int64_t alarm_hop;                  /* samples; 0 = no alarms */
    const struct alarm_config *alarms;  /* the rule in force, kept by the detector's model; NULL: that of the events */
    bool alarm_sets;                    /* with alarms: choose rules for the rates of false alarms */
    double latch_s;                     /* of these rules */
    bool temperature;                   /* fit a temperature (evaluate/temperature.h) to the record traces */
    /* A recording, the manifest's number `entry`, cannot be loaded: 0 leaves it out, an error ends the evaluation. NULL: any does.
     */
    int (*bad)(void *ctx, int64_t entry, const struct err *why, struct err *err);
    struct world *world;   /* the ranks that share the traces, with the same recordings and model; NULL: none */
    int limit_ms;          /* until all of them have computed their traces */
    const char *directory; /* of the job, or another one of this rank; traces are in its folder TRACES_FOLDER, which is made when it
                              is needed */
    /* Every trace goes to a file, and the folder outlives the evaluation. False: only traces beyond a bound of memory go to files,
     * and the folder is removed at the end. */
    bool keep;
    int64_t memory_bytes; /* that the process may use; 0 = no limit. A trace larger than a quarter of it is the recording's fault */
    const uint8_t *kept;  /* per manifest entry, may be NULL: 1 = its trace is in the folder already (evaluation_trace_path) */
    /* The samples of an entry whose trace is wanted were loaded: on a reader thread, several at a time. May be NULL. */
    int (*loaded)(void *ctx, int64_t entry, struct err *err);
    /* The trace of the recording evaluation_current is in its file, and its samples are loaded. May be NULL. */
    int (*finished)(void *ctx, int64_t entry, struct err *err);
    void *ctx;
};

struct evaluation_result {
    struct events_config events; /* with the thresholds in force */
    struct score_point point;    /* pooled scores under them */
    struct score_point before;   /* under evaluation_config.before; all zero without it */
    double subject_f1;           /* mean of the event F1 of each patient, those without one left out */
    double temperature;          /* for the logits as the detector gives them; 1 unless it was to be fitted */
    double auroc, loss;          /* over labelled samples that were measured; loss: mean cross entropy of the record trace */
    double auroc_error_most;     /* of auroc_error_most (score.h) */
    double sensitivity_at[SCORE_LIMITS];
    struct alarm_sets sets;           /* none without alarm_sets */
    struct score_alarm_report alarms; /* all zero without alarm_hop; its delays are the evaluation's */
};

/* One recording after the evaluation: pointers are valid as long as it. */
struct evaluation_recording {
    const struct manifest_entry *entry;
    int64_t index;              /* of the entry in the manifest */
    struct score_trace trace;   /* without its p */
    const struct event *events; /* under the thresholds in force */
    int64_t n_events;
    const double *alarms_s;
    int n_alarms;
};

/* Sums over the samples of traces: the ROC curve and the cross entropy against the labels; held samples are left out. */
struct evaluation_samples {
    struct auroc auroc;
    double loss;
    int64_t count;
};
/* An entry as it is scored, without its p. Ends with evaluation_view_done. */
int evaluation_view(const struct manifest_entry *entry, struct score_trace *ret, struct err *err);
void evaluation_view_done(struct score_trace *view);
/* p as in struct score_trace, of the recording's segments. */
void evaluation_add_samples(struct evaluation_samples *sums, const struct recording_info *info, const float *p);

struct evaluation;
int evaluation_start(const struct evaluation_config *config, struct evaluation **ret, struct err *err);
/* *ret_done: *ret holds the result; undefined values are NaN. Ranks but rank 0 get no result. */
int evaluation_step(struct evaluation *e, bool *ret_done, struct evaluation_result *ret, struct err *err);
void evaluation_free(struct evaluation *e);         /* takes NULL */
int evaluation_count(const struct evaluation *e);   /* recordings, without those that were left out */
int evaluation_current(const struct evaluation *e); /* recordings whose trace is complete */
/* Every evaluated pair of thresholds; valid as long as e. */
const struct score_sweep *evaluation_sweep(const struct evaluation *e);
/* Every alarm rule that was tried; empty without alarm_sets. Valid as long as e. */
const struct alarm_sweep *evaluation_alarm_sweep(const struct evaluation *e);
/* The trace of a recording that is complete; valid until the next call that takes e. */
int evaluation_trace(struct evaluation *e, int index, const float **ret_p, struct err *err);
/* As evaluation_trace, from the file of a recording that is in no memory; several threads at a time. Ends with trace_drop. */
int evaluation_read_trace(const struct evaluation *e, int index, struct trace_values *ret, struct err *err);
/* The file of an entry's trace under this configuration, and the number of samples in it. */
int evaluation_trace_path(const struct evaluation_config *config, int64_t entry, char *ret_path, size_t size, int64_t *ret_n,
                          struct err *err);
void evaluation_recording(const struct evaluation *e, int index, struct evaluation_recording *ret);
