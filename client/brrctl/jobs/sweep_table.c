#include "client/brrctl/jobs/sweep.h"

#include "client/brrctl/output.h"
#include "score/interval.h"

const char *sweep_value(const struct sweep *s, int point, int axis) {
    for (int i = s->n_axes - 1; i > axis; i--)
        point /= s->axes[i].n;
    return s->axes[axis].values[point % s->axes[axis].n];
}

void sweep_fold_text(const struct sweep *s, int fold, const char *quote, struct str *out) {
    for (int i = fold; i < s->n_patients; i += s->n_folds)
        str_printf(out, "%s%s%s%s", i == fold ? "" : ", ", quote, s->patients[i], quote);
}

struct pooled {
    double seizures, found, false_events, hours;
    int folds, missing;
};

static struct pooled pool(const struct sweep *s, int point) {
    struct pooled p = {0};
    for (int i = 0; i < s->n_members; i++) {
        const struct member *m = &s->members[i];
        if (m->point != point)
            continue;
        p.folds++;
        if (isnan(m->hours)) {
            p.missing++;
            continue;
        }
        p.seizures += m->seizures;
        p.found += m->found;
        p.false_events += m->false_events;
        p.hours += m->hours;
    }
    return p;
}

static double f1_of(const struct pooled *p) {
    double all = p->seizures + p->found + p->false_events; /* each found seizure is one true event */
    return all > 0 ? 2 * p->found / all : NAN;
}

static double precision_of(double found, double false_events) {
    return found + false_events > 0 ? found / (found + false_events) : NAN;
}

static void put_number(struct str *out, double value) {
    char text[32];
    str_printf(out, "\t%s", isnan(value) ? "-" : output_figure(value, text, sizeof text));
}

static void put_values(const struct sweep *s, int point, struct str *out) {
    for (int i = 0; i < s->n_axes; i++)
        str_printf(out, "\t%s", sweep_value(s, point, i));
}

/* Sensitivity and false alarms per 24 h, each with the ends of its 95 % interval. */
static void put_intervals(struct str *out, double found, double seizures, double false_events, double hours) {
    const struct interval share = interval_share(found, seizures), rate = interval_count(false_events);
    const double days = hours > 0 ? hours / 24 : NAN;
    put_number(out, seizures > 0 ? found / seizures : NAN);
    put_number(out, seizures > 0 ? share.low : NAN);
    put_number(out, seizures > 0 ? share.high : NAN);
    put_number(out, rate.low / days);
    put_number(out, rate.high / days);
}

static void put_member(const struct sweep *s, const struct member *m, struct str *out) {
    str_puts(out, m->job);
    put_values(s, m->point, out);
    if (s->n_folds) {
        str_puts(out, "\t");
        sweep_fold_text(s, m->fold, "", out);
    }
    str_printf(out, "\t%s", brr_job_state_name((int)m->state));
    put_number(out, m->f1);
    put_number(out, m->false_alarms);
    put_number(out, m->auroc);
    if (s->n_folds) {
        put_number(out, precision_of(m->found, m->false_events));
        put_number(out, m->sample_f1);
        put_number(out, m->found);
        put_number(out, m->seizures);
        put_number(out, m->false_events);
        put_number(out, m->hours);
        put_intervals(out, m->found, m->seizures, m->false_events, m->hours);
    }
    str_puts(out, "\n");
}

static void put_pooled(const struct sweep *s, int point, struct str *out) {
    const struct pooled p = pool(s, point);
    const double days = p.hours / 24;
    str_puts(out, "pooled");
    put_values(s, point, out);
    str_printf(out, "\t%d of %d folds\t-", p.folds - p.missing, p.folds);
    put_number(out, f1_of(&p));
    put_number(out, p.hours > 0 ? p.false_events / days : NAN);
    str_puts(out, "\t-");
    put_number(out, precision_of(p.found, p.false_events));
    str_puts(out, "\t-");
    put_number(out, p.found);
    put_number(out, p.seizures);
    put_number(out, p.false_events);
    put_number(out, p.hours);
    put_intervals(out, p.found, p.seizures, p.false_events, p.hours);
    str_puts(out, "\n");
}

/* The mean over the folds of a combination, as SzCORE takes it over patients; a fold without the figure does not count. */
struct means {
    double f1, false_alarms, auroc, precision, sample_f1, sensitivity;
};
static struct means mean_of(const struct sweep *s, int point) {
    double sum[6] = {0}, n[6] = {0};
    for (int i = 0; i < s->n_members; i++) {
        const struct member *m = &s->members[i];
        const double figures[6] = {m->f1,        m->false_alarms,
                                   m->auroc,     precision_of(m->found, m->false_events),
                                   m->sample_f1, m->seizures > 0 ? m->found / m->seizures : NAN};
        for (int k = 0; m->point == point && k < 6; k++) {
            sum[k] += isnan(figures[k]) ? 0 : figures[k];
            n[k] += !isnan(figures[k]);
        }
    }
    for (int k = 0; k < 6; k++)
        sum[k] = n[k] > 0 ? sum[k] / n[k] : NAN;
    return (struct means){sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
}

static void put_mean(const struct sweep *s, int point, struct str *out) {
    const struct means m = mean_of(s, point);
    str_puts(out, "mean");
    put_values(s, point, out);
    str_puts(out, "\tof folds\t-");
    put_number(out, m.f1);
    put_number(out, m.false_alarms);
    put_number(out, m.auroc);
    put_number(out, m.precision);
    put_number(out, m.sample_f1);
    str_puts(out, "\t-\t-\t-\t-");
    put_number(out, m.sensitivity);
    str_puts(out, "\t-\t-\t-\t-\n");
}

void sweep_table(const struct sweep *s, struct str *out) {
    str_puts(out, "job");
    for (int i = 0; i < s->n_axes; i++)
        str_printf(out, "\t%s", s->axes[i].key);
    str_printf(out, "%s\tstate\tevent_f1\tfalse_alarms_per_24h\tauroc%s\n", s->n_folds ? "\tleft_out" : "",
               s->n_folds ? "\tprecision\tsample_f1\tfound\tseizures\tfalse_events\thours\tsensitivity\tsensitivity_"
                            "low\tsensitivity_high\tfa_low\tfa_high"
                          : "");
    for (int point = 0; point < s->n_points; point++) {
        for (int i = 0; i < s->n_members; i++)
            if (s->members[i].point == point)
                put_member(s, &s->members[i], out);
        if (s->n_folds) {
            put_mean(s, point, out);
            put_pooled(s, point, out);
        }
    }
}

static void json_member_of(const struct sweep *s, const struct member *m) {
    struct json_writer *w = output_begin();
    OWNED(str_done) struct str left = str_of(SWEEP_TABLE_BYTES);
    json_put_str(w, "job", m->job);
    json_put_str(w, "evaluation", *m->evaluation ? m->evaluation : NULL);
    json_begin_object(w, "values");
    for (int i = 0; i < s->n_axes; i++)
        json_put_str(w, s->axes[i].key, sweep_value(s, m->point, i));
    json_end(w, '}');
    if (s->n_folds) {
        sweep_fold_text(s, m->fold, "", &left);
        json_put_str(w, "left_out", str_cstr(&left));
    }
    json_put_str(w, "state", brr_job_state_name((int)m->state));
    json_put_f64(w, "event_f1", m->f1);
    json_put_f64(w, "false_alarms_per_24h", m->false_alarms);
    json_put_f64(w, "auroc", m->auroc);
    if (s->n_folds) {
        json_put_f64(w, "precision", precision_of(m->found, m->false_events));
        JSON_MEMBERS(w, *m, sample_f1, found, seizures, false_events, hours);
    }
    output_end(w);
}

static void json_mean_of(struct json_writer *w, const struct sweep *s, int point) {
    const struct means m = mean_of(s, point);
    json_begin_object(w, "mean");
    json_put_f64(w, "event_f1", m.f1);
    json_put_f64(w, "false_alarms_per_24h", m.false_alarms);
    JSON_MEMBERS(w, m, auroc, precision, sample_f1, sensitivity);
    json_end(w, '}');
}

static void json_pooled_of(const struct sweep *s, int point) {
    const struct pooled p = pool(s, point);
    const struct interval share = interval_share(p.found, p.seizures), rate = interval_count(p.false_events);
    const double days = p.hours / 24;
    struct json_writer *w = output_begin();
    json_begin_object(w, "pooled");
    for (int i = 0; i < s->n_axes; i++)
        json_put_str(w, s->axes[i].key, sweep_value(s, point, i));
    json_end(w, '}');
    JSON_MEMBERS(w, p, folds, missing);
    json_put_f64(w, "event_f1", f1_of(&p));
    JSON_MEMBERS(w, p, found, seizures, false_events, hours);
    json_put_f64(w, "sensitivity", p.seizures > 0 ? p.found / p.seizures : NAN);
    json_put_f64(w, "sensitivity_low", share.low);
    json_put_f64(w, "sensitivity_high", share.high);
    json_put_f64(w, "false_alarms_per_24h", p.hours > 0 ? p.false_events / days : NAN);
    json_put_f64(w, "false_alarms_per_24h_low", p.hours > 0 ? rate.low / days : NAN);
    json_put_f64(w, "false_alarms_per_24h_high", p.hours > 0 ? rate.high / days : NAN);
    json_mean_of(w, s, point);
    output_end(w);
}

void sweep_json(const struct sweep *s) {
    for (int i = 0; i < s->n_members; i++)
        json_member_of(s, &s->members[i]);
    for (int point = 0; s->n_folds && point < s->n_points; point++)
        json_pooled_of(s, point);
}
