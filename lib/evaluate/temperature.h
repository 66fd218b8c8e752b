/* temperature: the number by which logits are divided so that the probabilities of a network are calibrated: it has the least cross
 * entropy over the seconds of traces. Arithmetic in double, in the order of the traces; one thread per object. */
#pragma once
#include "windows/window.h"

/* The range of temperatures. */
#define TEMPERATURE_LEAST 0.05
#define TEMPERATURE_MOST  20.0

/* A second of signal: the log-odds of its mean probability, and the share of its samples inside seizures. */
struct temperature_second {
    float z, seizure;
};
struct temperature_seconds { /* begins as zeros */
    struct temperature_second *items;
    int64_t n, capacity;
};
/* Adds the whole seconds of each segment of a recording's trace p (as in struct score_trace). Samples without a probability and
 * held ones do not count; a second with fewer than half of its samples is left out. Probabilities are at least 1e-7 and at most
 * 1 − 1e-7. EXHAUSTED. */
int temperature_add(struct temperature_seconds *s, const struct recording_info *info, const float *p, struct err *err);
/* The temperature between TEMPERATURE_LEAST and TEMPERATURE_MOST with the least mean of −y·ln σ(z/T) − (1 − y)·ln(1 − σ(z/T)); 1
 * where seconds with or without seizure are missing. */
double temperature_fit(const struct temperature_seconds *s);
void temperature_seconds_done(struct temperature_seconds *s);
