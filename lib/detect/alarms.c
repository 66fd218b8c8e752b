#include "detect/alarms.h"

enum { RATE_HZ = 256, MAX_SAMPLES = 3600 * RATE_HZ };

const double alarm_rates[ALARM_RATES] = {1, 5, 10};

void alarm_config_of_events(const struct events_config *e, struct alarm_config *ret) {
    *ret = (struct alarm_config){
        .on = e->on, SAME_MEMBERS(*e, off, min_onset, min_offset), .latch = llround(e->alarm_latch_s * RATE_HZ)};
}

int alarm_rule_push(struct alarm_rule *rule, float p) {
    const struct alarm_config *c = &rule->config;
    bool counts = rule->active ? (double)p < c->off : (double)p >= c->on;
    rule->run = counts ? rule->run + 1 : 0;
    rule->age += rule->active && rule->age < c->latch;
    if (rule->run < (rule->active ? c->min_offset : c->min_onset) || (rule->active && rule->age < c->latch))
        return 0;
    rule->active = !rule->active;
    rule->run = rule->age = 0;
    return rule->active ? 1 : -1;
}

static bool is_rate(double a, double b) { return fabs(a - b) < 1e-9; }

const struct alarm_set *alarm_sets_find(const struct alarm_sets *sets, double rate, struct err *err) {
    char rates[64] = "";
    size_t at = 0;
    for (int i = 0; i < sets->n; i++) {
        if (is_rate(sets->sets[i].rate, rate))
            return &sets->sets[i];
        str_format(rates + at, sizeof rates - at, "%s%g", i ? ", " : "", sets->sets[i].rate);
        at = strlen(rates);
    }
    if (!sets->n)
        err_set(err, ERR_PRECONDITION,
                ALARM_SETS_NONE "a rate of false alarms; `brrctl tune` makes a model that has them, or choose "
                                "thresholds yourself (--on, --off)");
    else
        err_set(err, ERR_PRECONDITION,
                ALARM_SETS_NONE "%g false alarms per 24 h, only for %s; choose one of these, or tune the model "
                                "on more recordings (`brrctl tune`)",
                rate, rates);
    return NULL;
}

/* Also the names in JSON. */
#define SET_NUMBERS(X)                                                                                                             \
    X(rate)                                                                                                                        \
    X(alarm_hop_s)                                                                                                                 \
    X(hours)                                                                                                                       \
    X(seizures)                                                                                                                    \
    X(patients)                                                                                                                    \
    X(sensitivity)                                                                                                                 \
    X(sensitivity_low)                                                                                                             \
    X(sensitivity_high)                                                                                                            \
    X(false_alarms_per_24h)                                                                                                        \
    X(false_alarms_low)                                                                                                            \
    X(false_alarms_high)                                                                                                           \
    X(worst_patient_false_alarms_per_24h)                                                                                          \
    X(delay_p50_s)                                                                                                                 \
    X(delay_p95_s)
#define RULE_SAMPLES(X) X(min_onset) X(min_offset) X(latch)

void alarm_sets_to_json(const struct alarm_sets *sets, struct json_writer *w, const char *key) {
    json_begin_array(w, key);
    for (int i = 0; i < sets->n; i++) {
        const struct alarm_set *s = &sets->sets[i];
        json_begin_object(w, NULL);
        JSON_MEMBERS(w, s->rule, on, off);
#define PUT(field) json_put_i64(w, #field, s->rule.field);
        RULE_SAMPLES(PUT)
#undef PUT
#define PUT(field) json_put_f64(w, #field, s->field);
        SET_NUMBERS(PUT)
#undef PUT
        json_end(w, '}');
    }
    json_end(w, ']');
}

static int check(const struct alarm_set *s, int before, const struct alarm_set *sets, struct err *err) {
    const struct alarm_config *c = &s->rule;
    bool known = false;
    for (int i = 0; i < ALARM_RATES; i++)
        known |= is_rate(s->rate, alarm_rates[i]);
    if (!known || (before && s->rate <= sets[before - 1].rate))
        return err_set(err, ERR_INVALID, "alarm thresholds for %g false alarms per 24 h; expected " ALARM_RATE_NAMES ", ascending",
                       s->rate);
    if (!(c->on > 0 && c->on < 1 && c->off > 0 && c->off <= c->on))
        return err_set(err, ERR_INVALID, "alarm thresholds on %g and off %g: expected 0 < off <= on < 1", c->on, c->off);
    if (c->min_onset < 1 || c->min_onset > MAX_SAMPLES || c->min_offset < 1 || c->min_offset > MAX_SAMPLES || c->latch < 0 ||
        c->latch > MAX_SAMPLES)
        return err_set(err, ERR_INVALID, "an alarm's min_onset, min_offset or latch is not within 0 to %d samples", MAX_SAMPLES);
    return 0;
}

int alarm_sets_from_json(const struct json *array, struct alarm_sets *ret, struct err *err) {
    struct alarm_sets sets = {.n = 0};
    size_t n = json_count(array);
    if (json_kind(array) != JSON_KIND_ARRAY || n > ALARM_RATES)
        return err_set(err, ERR_INVALID, "expected an array of at most %d alarm thresholds", ALARM_RATES);
    for (size_t i = 0; i < n; i++) {
        const struct json *j = json_at(array, i);
        struct alarm_set *s = &sets.sets[sets.n];
        s->rule.on = json_f64(json_get(j, "on"), NAN);
        s->rule.off = json_f64(json_get(j, "off"), NAN);
#define GET(field) s->rule.field = json_i64(json_get(j, #field), -1);
        RULE_SAMPLES(GET)
#undef GET
#define GET(field) s->field = json_f64(json_get(j, #field), NAN);
        SET_NUMBERS(GET)
#undef GET
        int rc = check(s, sets.n, sets.sets, err);
        if (rc)
            return rc;
        sets.n++;
    }
    *ret = sets;
    return 0;
}
