/* traces: record traces, alarm traces and alarms of recordings that an evaluation has finished, so that it holds one at a time: a
 * file each, whole and durable before it has its name. One thread. Internal to lib/train. */
#pragma once

#include "base/base.h"

#define TRACES_FOLDER "traces" /* of a job */
enum { TRACES_PATH = 4096 };

/* What a trace was computed from. */
struct trace_origin {
    const char *key, *model; /* recording_key; SHA-256 of the model file */
    int64_t alarm_hop;
};

struct safetensors;
struct trace_values {
    const float *p;       /* as in struct score_trace */
    const float *alarm_p; /* as p: what the alarm rule took (`judged` in detect/timeline.h); NULL without an alarm hop */
    int64_t n;
    const double *alarms_s;
    int64_t n_alarms;
    struct safetensors *file; /* that holds them, or NULL */
};

/* DIRECTORY/traces/NAME.safetensors, its name made from the origin; RANGE when it does not fit. */
int trace_path(const char *directory, const struct trace_origin *origin, char *ret, size_t size, struct err *err);
/* The folder must exist. */
int trace_write(const char *path, const struct trace_values *values, struct err *err);
/* DATA_LOSS when the file does not hold traces of n samples, as those of older versions. Ends with trace_drop. */
int trace_read(const char *path, int64_t n, struct trace_values *ret, struct err *err);
/* Looks at the file's header alone. */
int trace_check(const char *path, int64_t n, struct err *err);
void trace_drop(struct trace_values *values);
