/* From the traces of an evaluation to its result: thresholds, alarm rules, then the scores. */

#include "evaluate/evaluation_state.h"

static int load_trace(void *ctx, int i, const float **ret_p, struct err *err) { return evaluation_trace(ctx, i, ret_p, err); }

static int load_alarm_trace(void *ctx, int i, const float **ret_p, struct err *err) {
    return evaluation_alarm_trace(ctx, i, ret_p, err);
}

/* Which pairs will be tried: none when the thresholds are given and no sweep is wanted. */
static int begin_search(struct evaluation *e, struct err *err) {
    struct score_search search;
    e->searched = true;
    e->swept = !e->config.auto_threshold && !e->config.sweep;
    if (e->swept)
        return 0;
    score_search_default(&search, &e->config.events);
    search.load = load_trace;
    search.ctx = e;
    return score_sweep_begin(e->views, e->n_traces, &search, &e->sweep, err);
}

/* The rules that will be tried on the alarm traces, then one recording with all of them. */
static int try_rules(struct evaluation *e, struct err *err) {
    if (e->rules_chosen)
        return alarm_sweep_step(&e->rules, &e->rules_tried, err);
    struct alarm_search search = {.alarm_hop = e->config.alarm_hop, .load = load_alarm_trace, .ctx = e};
    e->rules_chosen = true;
    e->rules_tried = !e->config.alarm_hop || !e->config.alarm_sets;
    if (e->rules_tried)
        return 0;
    alarm_config_of_events(&e->config.events, &search.base);
    search.base.latch = llround(e->config.latch_s * FRONTEND_RATE_HZ);
    return alarm_sweep_begin(e->views, e->n_traces, &search, &e->rules, err);
}

/* The mean over patients of their event F1, from the counts of each trace. */
static double mean_over_subjects(const struct evaluation *e, const struct score_counts *of_trace) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < e->n_traces; i++) {
        struct score_counts counts = {0};
        struct score score;
        bool first = true;
        for (int k = 0; k < e->n_traces; k++)
            if (!strcmp(e->views[k].subject, e->views[i].subject)) {
                first &= k >= i;
                score_counts_add(&counts, &of_trace[k]);
            }
        score_from_counts(&counts, &score);
        if (!first || isnan(score.f1))
            continue;
        sum += score.f1;
        n++;
    }
    return n ? sum / n : NAN;
}

/* Events of every trace under the thresholds in force, and their scores. */
static int find_events(struct evaluation *e, const struct events_config *config, struct evaluation_result *r, struct err *err) {
    struct score_counts sums[SCORE_KINDS] = {{0}};
    struct score_point *ret = &r->point;
    OWNED_MEMORY struct score_counts *of_trace = calloc((size_t)e->n_traces + 1, sizeof *of_trace);
    int rc = of_trace ? events_config_check(config, err) : err_set(err, ERR_EXHAUSTED, "out of memory for the scores of patients");
    for (int i = 0; !rc && i < e->n_traces; i++) {
        struct score_counts own[SCORE_KINDS] = {{0}};
        struct trace *t = &e->traces[i];
        free(t->events);
        t->events = NULL;
        const float *p = NULL;
        if ((rc = evaluation_trace(e, i, &p, err)) || (rc = events_find(config, p, t->n, &t->events, &t->n_events, err)))
            break;
        score_trace_to_time(&e->views[i], t->events, t->n_events);
        rc = score_apply(&e->views[i], t->events, t->n_events, own, err);
        of_trace[i] = own[SCORE_EVENT];
        for (int k = 0; k < SCORE_KINDS; k++)
            score_counts_add(&sums[k], &own[k]);
    }
    if (rc)
        return rc;
    r->subject_f1 = mean_over_subjects(e, of_trace);
    COPY_MEMBERS(*ret, *config, on, off);
    for (int k = 0; k < SCORE_KINDS; k++)
        score_from_counts(&sums[k], &ret->scores[k]);
    return 0;
}

static int score_all_alarms(struct evaluation *e, struct err *err) {
    OWNED_MEMORY struct score_alarms *recs = calloc((size_t)e->n_traces + 1, sizeof *recs);
    if (!recs)
        return err_set(err, ERR_EXHAUSTED, "out of memory scoring alarms");
    for (int i = 0; i < e->n_traces; i++)
        recs[i] = (struct score_alarms){SAME_MEMBERS(e->views[i], name, ref, n_ref, unsure, n_unsure),
                                        .recorded_s = 3600 * score_trace_hours(&e->views[i]), .at_s = e->traces[i].alarms_s,
                                        .n_alarms = e->traces[i].n_alarms};
    score_alarm_report_done(&e->alarms);
    return score_alarms(recs, e->n_traces, &e->alarms, err);
}

/* Before find_events, whose events are those of the recordings from then on. */
static int score_before(struct evaluation *e, struct evaluation_result *r, struct err *err) {
    struct evaluation_result before = {0};
    int rc = find_events(e, e->config.before, &before, err);
    r->before = before.point;
    return rc;
}

static int conclude(struct evaluation *e, struct evaluation_result *r, struct err *err) {
    int best = e->config.auto_threshold ? score_sweep_best(&e->sweep, e->config.target_fa_per_24h) : -1;
    *r = (struct evaluation_result){.events = e->config.events,
                                    .temperature = e->config.temperature ? temperature_fit(&e->seconds) : 1,
                                    .auroc = auroc_value(&e->samples.auroc),
                                    .auroc_error_most = auroc_error_most(&e->samples.auroc),
                                    .loss = e->samples.count ? e->samples.loss / (double)e->samples.count : NAN};
    if (best >= 0) {
        COPY_MEMBERS(r->events, e->sweep.points[best], on, off);
    }
    score_sweep_sensitivities(&e->sweep);
    memcpy(r->sensitivity_at, e->sweep.sensitivity_at, sizeof r->sensitivity_at);
    int rc = e->config.before ? score_before(e, r, err) : 0;
    if (rc || (rc = find_events(e, &r->events, r, err)) || (e->config.alarm_hop && (rc = score_all_alarms(e, err))))
        return rc;
    r->alarms = e->alarms;
    r->sets = e->rules.sets;
    return 0;
}

int evaluation_search(struct evaluation *e, bool *ret_done, struct evaluation_result *ret, struct err *err) {
    if (!e->searched)
        return begin_search(e, err);
    if (!e->swept)
        return score_sweep_step(&e->sweep, &e->swept, err);
    if (!e->rules_tried)
        return try_rules(e, err);
    int rc = conclude(e, ret, err);
    *ret_done = !rc;
    return rc;
}
