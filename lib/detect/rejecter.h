/* rejecter: a logistic function of a few features of a finished event, which drops events that look like false alarms, and its fit
 * to labelled events. Arithmetic in double; any thread. Definitions: docs/models.md. */
#pragma once

#include "base/base.h"
#include "base/json.h"

/* Log-odds of the mean and of the highest probability inside the event, each probability at least 1e-6 and at most 1 - 1e-6, and
 * the natural logarithm of the duration in seconds. */
enum { REJECTER_FEATURES = 3 };
/* An event is dropped if bias + the sum of weights·features is below 0. All zero: no rejecter. */
struct event_rejecter {
    double on, off; /* the thresholds of the events that it was fitted to */
    double bias, weights[REJECTER_FEATURES];
};
bool rejecter_is_set(const struct event_rejecter *r);
/* INVALID: weights that are not finite or above a million, or thresholds other than 0 < off <= on < 1. */
int rejecter_check(const struct event_rejecter *r, struct err *err);
/* {"on": 0.5, "off": 0.4, "bias": 1, "mean": 1, "peak": 1, "duration": 1} */
void rejecter_to_json(const struct event_rejecter *r, struct json_writer *w, const char *key);
/* None where j is NULL. INVALID also: a member is missing. */
int rejecter_from_json(const struct json *j, struct event_rejecter *ret, struct err *err);

/* Features of an event over its n ≥ 1 probabilities at 256 Hz. */
void rejecter_features(const float *p, int64_t n, double ret[REJECTER_FEATURES]);
double rejecter_sum(const struct event_rejecter *r, const double features[REJECTER_FEATURES]);

struct rejecter_event {
    double features[REJECTER_FEATURES];
    bool seizure;
};
/* Each fit takes at least so many events in seizures and so many false ones. */
enum { REJECTER_LEAST = 3 };
/* Bias and weights with the least Σ ln(1 + exp(−y·sum)) + Σ v²/2, y = ±1, v the weights of standardised features; on and off stay.
 * PRECONDITION: too few events of a kind. */
int rejecter_fit(const struct rejecter_event *events, int64_t n, struct event_rejecter *ret, struct err *err);
