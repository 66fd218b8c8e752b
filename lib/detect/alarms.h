/* alarms: the rule by which an alarm goes on and off, and the thresholds that a model has for a wanted number of false alarms.
 * The rule is hysteresis over the alarm trace at 256 Hz, without morphology, closing or merging; an alarm that went on stays on for
 * at least `latch` samples, so that a seizure whose probability flickers raises one alarm. Pure arithmetic; any thread. */
#pragma once

#include "base/json.h"
#include "detect/events.h"

struct alarm_config {
    double on, off;
    int64_t min_onset, min_offset; /* samples */
    int64_t latch;                 /* samples; 0 = none */
};
/* The alarms of a model whose sets are not used: the thresholds and the latch of its events. */
void alarm_config_of_events(const struct events_config *events, struct alarm_config *ret);

/* A rule in use; begins as {.config = …}. */
struct alarm_rule {
    struct alarm_config config;
    int64_t run; /* newest samples in a row that count for the next change */
    int64_t age; /* samples since the alarm went on, at most config.latch */
    bool active;
};
/* Takes one probability; returns +1 when the alarm turns on at this sample, −1 when it turns off, else 0. */
int alarm_rule_push(struct alarm_rule *rule, float p);

/* How often an alarm may be false, per 24 h; what a set was chosen for. */
enum { ALARM_RATES = 3 };
extern const double alarm_rates[ALARM_RATES]; /* 1 5 10 */
#define ALARM_RATE_NAMES "1, 5 or 10"

/* The rule for one rate, and what it reached on the recordings on which it was chosen. Intervals: 95 %. */
struct alarm_set {
    double rate;
    struct alarm_config rule;
    double alarm_hop_s; /* interval of the decisions */
    double hours, seizures, patients;
    double sensitivity, sensitivity_low, sensitivity_high;
    double false_alarms_per_24h, false_alarms_low, false_alarms_high, worst_patient_false_alarms_per_24h;
    double delay_p50_s, delay_p95_s;
};
/* By ascending rate; rates that no thresholds reach have none. */
struct alarm_sets {
    int n;
    struct alarm_set sets[ALARM_RATES];
};
/* The set for this rate, or NULL and PRECONDITION when the model has none. */
#define ALARM_SETS_NONE "the model has no alarm thresholds for " /* how its error begins */
const struct alarm_set *alarm_sets_find(const struct alarm_sets *sets, double rate, struct err *err);
void alarm_sets_to_json(const struct alarm_sets *sets, struct json_writer *w, const char *key); /* an array */
/* INVALID: thresholds, rates or samples that cannot be. */
int alarm_sets_from_json(const struct json *array, struct alarm_sets *ret, struct err *err);
