/* metrics: the process-wide registry behind /metrics and the Metrics RPC. Families are declared once in a
 * table; updates are lock-free atomics; HELP and TYPE of every family are always printed. Any thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

struct metric_family {
    const char *name; /* "brrd_rpc_duration_seconds" */
    enum metric_type type;
    const char *help;
    const char *labels;    /* "service,method" or "" */
    const double *buckets; /* histogram upper bounds, ascending, without +Inf */
    size_t bucket_count;
};
/* Rows of a table; bounds: an array. */
#define COUNTER(name, help, labels)                                                                                                \
    { name, METRIC_COUNTER, help, labels, NULL, 0 }
#define GAUGE(name, help, labels)                                                                                                  \
    { name, METRIC_GAUGE, help, labels, NULL, 0 }
#define HISTOGRAM(name, help, labels, bounds)                                                                                      \
    { name, METRIC_HISTOGRAM, help, labels, bounds, sizeof bounds / sizeof *bounds }

struct metrics;
struct metric; /* one series; valid until metrics_free or metrics_drop of its labels */

/* The table must outlive the registry. At most max_series series per family. */
struct metrics *metrics_new(const struct metric_family *table, size_t families, size_t max_series);
void metrics_free(struct metrics *m);
/* Returns the series of family `name` with the label values joined by '\x1f' in table order ("" without labels); a new series
 * starts at 0. NULL when the family is unknown or full. */
struct metric *metrics_series(struct metrics *m, const char *name, const char *label_values);
void metrics_drop(struct metrics *m, const char *name, const char *label_values);
/* Leaves all series whose label `label` has this value out of pages and visits until one of them is updated again, with its values
 * so far. Their pointers stay valid. */
void metrics_hide(struct metrics *m, const char *label, const char *value);
void metric_add(struct metric *series, double value);     /* counter, gauge; NULL series is ignored */
void metric_set(struct metric *series, double value);     /* gauge */
void metric_observe(struct metric *series, double value); /* histogram */
double metric_value(const struct metric *series);
/* Prometheus text format 0.0.4. */
void metrics_print(struct metrics *m, struct str *out);
/* Calls visit(ctx, name with suffix, "k=\"v\",…", value) for every sample. Used by the Metrics RPC. */
typedef void metrics_visit_fn(void *ctx, const char *name, const char *labels, double value);
void metrics_visit(struct metrics *m, metrics_visit_fn *visit, void *ctx);
