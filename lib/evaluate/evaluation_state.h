/* evaluation_state: the state of an evaluation, shared by the files that implement it. The device's thread only. */
#pragma once
#include "detect/timeline.h"
#include "evaluate/evaluation.h"
#include "evaluate/flight.h"
#include "evaluate/temperature.h"
#include "windows/loader.h"

/* One recording's trace, reference and what was found. */
struct trace {
    const struct manifest_entry *entry;
    int64_t index;    /* of the entry in the manifest */
    int loaded;       /* its number for the loader; −1: its trace was kept, or is another rank's */
    int owner;        /* the rank that computes it */
    struct err *lost; /* why this rank could not, or NULL */
    struct recording_info info;
    int64_t n;            /* samples of p */
    float *p;             /* as in struct score_trace; NULL: not computed yet, or in its file */
    float *alarm_p;       /* the alarm trace, as p; NULL without alarms too */
    struct event *events; /* in file time */
    int64_t n_events;
    double *alarms_s;
    int n_alarms;
};

/* A segment of the present recording, and where it begins in the traces. */
struct place {
    int segment;
    int64_t begin;
};

/* Where the newest values of both traces of a recording under way go. */
struct seat {
    struct evaluation *evaluation;
    struct place place, alarm_place;
};

struct evaluation {
    struct evaluation_config config;
    int rank, ranks;
    bool collected; /* rank 0 has the traces of all */
    char folder[TRACES_PATH];
    struct loader *loader; /* readies the recordings in the order of the traces */
    int64_t *entries;      /* of the loader's recordings */
    struct flight *flight; /* over the traces */
    struct seat seats[FLIGHT_MOST];
    int64_t under_way; /* bytes of the traces of recordings that have a seat */
    struct trace *traces;
    struct score_trace *views; /* the same for score/score_sweep.h (evaluation_view) */
    int n_traces, current;
    int64_t room, held;        /* bytes of traces that may stay in memory, and that do */
    bool spooled;              /* the folder was made */
    struct trace_values shown; /* of the trace that was read last, shown_index; −1 = none */
    int shown_index;
    struct score_sweep sweep;
    bool searched, swept; /* the pairs to try were chosen; all of them were tried */
    struct alarm_sweep rules;
    bool rules_chosen, rules_tried;
    struct evaluation_samples samples;
    struct temperature_seconds seconds;
    struct score_alarm_report alarms;
};

/* ---- evaluation_traces.c ---- */

/* Lists the recordings of the wanted role, and begins to load them. */
int evaluation_open(struct evaluation *e, struct err *err);
/* Some batches of windows of the recordings under way, or a wait of some milliseconds for their samples. */
int evaluation_run_windows(struct evaluation *e, struct err *err);
void evaluation_traces_done(struct evaluation *e);
/* n values that are not known; the caller frees them. NULL: no memory. */
float *evaluation_new_trace(int64_t n);
/* The evaluation goes on without the present recording. */
int evaluation_drop(struct evaluation *e, const struct err *why, struct err *err);
/* Adds a trace to the sums over all of them. */
int evaluation_add_up(struct evaluation *e, const struct trace *t, const float *p, struct err *err);
/* Keeps a trace in memory while there is room, else in its file. */
int evaluation_store(struct evaluation *e, struct trace *t, struct err *err);
/* As evaluation_trace, for the alarm trace. INTERNAL: the evaluation has no alarms. */
int evaluation_alarm_trace(struct evaluation *e, int i, const float **ret_p, struct err *err);

/* ---- evaluation_ranks.c ---- */

/* Rank 0 adds up all traces in the order of recordings, as it would alone. */
int evaluation_collect(struct evaluation *e, struct err *err);

/* ---- evaluation_scores.c ---- */

/* The next step of the search for thresholds and alarm rules, and after the last one the scores. */
int evaluation_search(struct evaluation *e, bool *ret_done, struct evaluation_result *ret, struct err *err);
