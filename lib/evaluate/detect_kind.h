/* detect_kind: what a detect job asks for: the configuration that its keys are read into. Any thread. */
#pragma once
#include "work/job_data.h"

struct detect_config {
    struct job_data data;
    const char *model; /* resolved to a path by the owner unless it is a URL */
    double on, off;    /* thresholds; 0 = the model's */
    int format;        /* of the events files, an index of eeg/events.h */
    int precision;     /* enum task_precision */
};
