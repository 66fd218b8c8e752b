#include "evaluate/evaluate_operating.h"

#include "plot/plot_operating.h"

enum { PATH_SIZE = 4096, NAME_SIZE = 96 };

/* Malloc'd points of both sweeps, and the marks and delays of what was chosen. */
struct picture {
    struct plot_point *events, *alarms;
    struct plot_mark in_force, marks[ALARM_RATES + 1];
    struct plot_delays delays[ALARM_RATES + 1];
    char names[ALARM_RATES][NAME_SIZE];
    int n_marks, n_delays;
};

/* Rates for which the same rule was chosen share a mark: "1, 5 a day". */
static void add_sets(struct picture *p, const struct alarm_sweep *s) {
    for (int i = 0, last = 0; i < s->sets.n; i = last + 1) {
        char *name = p->names[p->n_marks];
        const struct alarm_point *chosen = &s->points[s->chosen[i]];
        str_format(name, NAME_SIZE, "alarms, at most %g", s->sets.sets[i].rate);
        for (last = i; last + 1 < s->sets.n && s->chosen[last + 1] == s->chosen[i]; last++) {
            size_t at = strlen(name);
            str_format(name + at, NAME_SIZE - at, ", %g", s->sets.sets[last + 1].rate);
        }
        size_t at = strlen(name);
        str_format(name + at, NAME_SIZE - at, " a day, if chosen on these recordings (optimistic)");
        p->marks[p->n_marks++] = (struct plot_mark){name, chosen->false_alarms_per_24h, chosen->sensitivity};
        p->delays[p->n_delays++] = (struct plot_delays){name, chosen->delays_s, chosen->n_delays};
    }
}

static int collect(const struct evaluate *e, struct picture *p, struct err *err) {
    const struct score_sweep *sweep = evaluation_sweep(e->evaluation);
    const struct alarm_sweep *rules = evaluation_alarm_sweep(e->evaluation);
    const struct score *event = &e->found.point.scores[SCORE_EVENT];
    p->events = calloc((size_t)sweep->n + 1, sizeof *p->events);
    p->alarms = calloc((size_t)rules->n + 1, sizeof *p->alarms);
    if (!p->events || !p->alarms)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a plot");
    for (int i = 0; i < sweep->n; i++) {
        const struct score *s = &sweep->points[i].scores[SCORE_EVENT];
        p->events[i] = (struct plot_point){s->false_alarms_per_24h, s->sensitivity};
    }
    for (int i = 0; i < rules->n; i++)
        p->alarms[i] = (struct plot_point){rules->points[i].false_alarms_per_24h, rules->points[i].sensitivity};
    p->in_force = (struct plot_mark){"events, as the model is set", event->false_alarms_per_24h, event->sensitivity};
    add_sets(p, rules);
    if (e->config->alarm_hop_s > 0)
        p->marks[p->n_marks++] =
            (struct plot_mark){"alarms, as the model is set", e->found.alarms.false_alarms_per_24h, e->found.alarms.sensitivity};
    p->delays[p->n_delays++] =
        (struct plot_delays){"alarms, as the model is set", e->found.alarms.delays_s, e->found.alarms.n_delays};
    return 0;
}

static int draw(const struct evaluate *e, const struct picture *p, struct err *err) {
    const struct score *event = &e->found.point.scores[SCORE_EVENT];
    char path[PATH_SIZE], subtitle[256];
    const struct plot_operating plot = {
        .title = "Sensitivity, false alarms and delay",
        .subtitle = subtitle,
        .events = {"events", p->events, evaluation_sweep(e->evaluation)->n, &p->in_force, 1},
        .alarms = {"alarms", p->alarms, evaluation_alarm_sweep(e->evaluation)->n, p->marks, p->n_marks},
        SAME_MEMBERS(*p, delays, n_delays),
        .seizures = e->found.alarms.references};
    str_format(subtitle, sizeof subtitle, "%.100s; model SHA-256 %.12s; %.2f hours, %.0f seizures", e->job->name,
               detector_info(e->detector)->sha256, event->counts.duration_s / 3600, event->counts.ref);
    return str_format(path, sizeof path, "%s/operating.svg", e->env.directory)
               ? plot_operating(path, &plot, err)
               : err_set(err, ERR_RANGE, "path too long: %.200s…", e->env.directory);
}

int evaluate_operating(const struct evaluate *e, struct err *err) {
    struct picture p = {.n_marks = 0};
    int rc = collect(e, &p, err);
    if (!rc)
        rc = draw(e, &p, err);
    FREE_MEMBERS(p, events, alarms);
    return rc;
}
