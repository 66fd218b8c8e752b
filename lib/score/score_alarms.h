/* score_alarms: the score of alarms, their delays and their false alarms. Definitions: docs/scores.md, Alarms. Any thread. */
#pragma once
#include "score/score.h"

/* Alarms of one recording. at_s: recording time of the alarm, the end of the window that raised it. */
struct score_alarms {
    const char *name;
    double recorded_s; /* gaps left out */
    const struct score_event *ref;
    const double *at_s; /* ascending */
    int n_ref, n_alarms;
    const struct score_event *unsure; /* an alarm near such a time is neither true nor false */
    int n_unsure;
};
struct score_alarm_report {
    int64_t references, alarmed, alarms, false_alarms;
    double hours, sensitivity, false_alarms_per_24h;
    double delay_p50_s, delay_p95_s; /* from a seizure's onset to its first alarm at or after it; NaN without one */
    double *delays_s;                /* malloc'd, ascending: all of these delays */
    int64_t n_delays;                /* ≤ alarmed: a seizure whose alarm came before its onset has none */
};
/* A seizure is alarmed by an alarm from 30 s before its onset to 60 s after its end; an alarm near no seizure is false. */
int score_alarms(const struct score_alarms *recs, int n, struct score_alarm_report *ret, struct err *err);
void score_alarm_report_done(struct score_alarm_report *r);
void score_alarm_report_json(const struct score_alarm_report *r, struct json_writer *w, const char *key);
