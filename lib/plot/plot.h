/* plot: pictures (SVG) of results: a recording with probability, events and reference over time, and the course of a training.
 * Memory is bounded for recordings of any length: a trace keeps minimum, maximum and mean of each column. Only values passed by the
 * caller are drawn, nothing from file headers. One thread per object. */
#pragma once

#include "base/base.h"

enum { PLOT_COLUMNS = 1000, PLOT_MAX_CHANNELS = 24, PLOT_MAX_SPANS = 100000 };

/* The envelope of one signal over the whole recording. Plain data. */
struct plot_trace {
    char name[32];
    double duration_s, rate_hz;
    float low[PLOT_COLUMNS], high[PLOT_COLUMNS]; /* low > high: no sample in this column */
    double sum[PLOT_COLUMNS];
    int64_t count[PLOT_COLUMNS];
};
void plot_trace_init(struct plot_trace *t, const char *name, double duration_s, double rate_hz);
/* Adds n samples from index `first` on, in any order of calls. NaN and samples outside the duration are ignored. */
void plot_trace_add(struct plot_trace *t, int64_t first, const float *values, int64_t n);
/* For envelopes alone, which need no mean: the end of the samples that are drawn in one column with sample `at`, and the
 * lowest and the highest of some of these; low > high: all are NaN. */
int64_t plot_trace_until(const struct plot_trace *t, int64_t at);
void plot_trace_extend(struct plot_trace *t, int64_t at, float low, float high);

struct plot_span {
    double onset_s, end_s;
};
struct plot_recording {
    const char *title, *subtitle; /* file name; model, filters, montage, score or NULL */
    bool has_clock;               /* adds clock times to the axis */
    double clock_s;               /* time of day of its start, in seconds */
    double duration_s;
    const struct plot_trace *const *channels; /* EEG in µV, top to bottom; may be none */
    int n_channels;
    const struct plot_trace *probability; /* NULL = none */
    const struct plot_trace *suppression; /* ratio of burst suppression, 0..1; NULL = no row */
    double on, off;                       /* thresholds; 0 = not drawn */
    const struct plot_span *detected, *reference;
    int n_detected, n_reference;
    bool has_reference;     /* the recording is labelled: draws the reference row even without a seizure */
    bool has_alarms;        /* alarms were computed: draws their row even without one */
    const double *alarms_s; /* times at which alarms turned on */
    int n_alarms;
};
/* Writes atomically. INVALID for a duration that is not positive or lists that are too long. */
int plot_recording(const char *path, const struct plot_recording *r, struct err *err);

struct plot_point {
    double x, y;
};
struct plot_curve {
    const char *name;
    const struct plot_point *points; /* ascending x; points with a non-finite y are skipped */
    int n;
};
/* Losses over steps (left axis, from 0) and scores between 0 and 1 over steps (right axis). best_step < 0: no mark. Without losses
 * the scores have the left axis, and each of their points is marked. */
struct plot_training {
    const char *title, *subtitle;
    const struct plot_curve *losses, *scores;
    int n_losses, n_scores;
    double best_step;
    const char *x_name; /* NULL: "step" */
};
int plot_training(const char *path, const struct plot_training *t, struct err *err);
