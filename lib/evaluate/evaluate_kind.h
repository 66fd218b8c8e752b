/* evaluate_kind: what an evaluate job asks for: the configuration that its keys are read into. Any thread. */
#pragma once
#include "work/job_data.h"

enum { EVALUATE_THRESHOLD_MODEL, EVALUATE_THRESHOLD_AUTO };
enum { EVALUATE_MAX_BASELINES = 8 };
struct evaluate_config {
    struct job_data data;
    const char *checkpoint; /* the model, resolved to a path by the owner unless it is a URL */
    int split;              /* "all|train|dev|eval" */
    int threshold;          /* "model|auto" */
    double target_fa_per_24h, lookback_s;
    int unseen;    /* "all|unseen" */
    bool not_seen; /* declared by the job file */
    int precision; /* enum task_precision */
    double alarm_rate, alarm_hop_s, alarm_latch_s;
    int64_t plots;
    struct option_list baselines; /* names of built-in models (detect/builtin.h) */
};
