#include "score/score_alarms.h"

#include "base/order.h"

enum { BEFORE_S = 30, AFTER_S = 60 };

static bool near(const struct score_event *ref, double at_s) {
    return at_s >= ref->onset_s - BEFORE_S && at_s <= ref->end_s + AFTER_S;
}

static bool is_false(const struct score_alarms *rec, double at_s) {
    for (int i = 0; i < rec->n_ref; i++)
        if (near(&rec->ref[i], at_s))
            return false;
    for (int i = 0; i < rec->n_unsure; i++)
        if (near(&rec->unsure[i], at_s))
            return false;
    return true;
}

/* True if an alarm of the recording is near the seizure. Adds the delay of the first alarm at or after its onset to the report. */
static bool add_seizure(const struct score_alarms *rec, const struct score_event *ref, struct score_alarm_report *r) {
    bool alarmed = false;
    for (int k = 0; k < rec->n_alarms; k++) {
        if (!near(ref, rec->at_s[k]))
            continue;
        alarmed = true;
        if (rec->at_s[k] < ref->onset_s)
            continue;
        r->delays_s[r->n_delays++] = rec->at_s[k] - ref->onset_s;
        break;
    }
    return alarmed;
}

int score_alarms(const struct score_alarms *recs, int n, struct score_alarm_report *ret, struct err *err) {
    struct score_alarm_report r = {0};
    for (int i = 0; i < n; i++)
        r.references += recs[i].n_ref;
    double seconds = 0;
    if (!(r.delays_s = malloc(((size_t)r.references + 1) * sizeof *r.delays_s)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for alarm delays");
    for (int i = 0; i < n; i++) {
        const struct score_alarms *rec = &recs[i];
        seconds += rec->recorded_s;
        r.alarms += rec->n_alarms;
        for (int k = 0; k < rec->n_alarms; k++)
            r.false_alarms += is_false(rec, rec->at_s[k]);
        for (int j = 0; j < rec->n_ref; j++)
            r.alarmed += add_seizure(rec, &rec->ref[j], &r);
    }
    SORT(r.delays_s, r.n_delays, order_f64s);
    r.hours = seconds / 3600;
    r.sensitivity = r.references ? (double)r.alarmed / (double)r.references : NAN;
    r.false_alarms_per_24h = seconds > 0 ? (double)r.false_alarms / (seconds / 86400) : NAN;
    r.delay_p50_s = score_percentile(r.delays_s, r.n_delays, 0.5);
    r.delay_p95_s = score_percentile(r.delays_s, r.n_delays, 0.95);
    *ret = r;
    return 0;
}

void score_alarm_report_done(struct score_alarm_report *r) {
    free(r->delays_s);
    *r = (struct score_alarm_report){0};
}

void score_alarm_report_json(const struct score_alarm_report *r, struct json_writer *w, const char *key) {
    JSON_OBJECT(w, key, *r, references, alarmed, alarms, false_alarms, hours, sensitivity, false_alarms_per_24h, delay_p50_s,
                delay_p95_s);
}
