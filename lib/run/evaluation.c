#include "run/evaluation.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/loader.h"
#include "infer/detector.h"
#include "infer/timeline.h"
#include "run/task.h"

enum { WAIT_MS = 20 };

/* One recording's trace, reference and what was found. */
struct trace {
    const struct manifest_entry *entry;
    int64_t index; /* of the entry in the manifest */
    int loaded;    /* its number for the loader */
    struct recording_info info;
    float *p;
    struct score_event *ref;
    struct event *events;
    int64_t n_events;
    double *alarms_s;
    int n_alarms;
};

struct evaluation {
    struct evaluation_config config;
    struct loader *loader; /* readies the recordings in the order of the traces */
    struct timeline *timeline;
    struct trace *traces;
    struct score_trace *views; /* the same for report/score_sweep.h */
    int n_traces, current;
    struct score_sweep sweep;
    bool searched, swept; /* the pairs to try were chosen; all of them were tried */
    struct auroc auroc;
    double loss;
    int64_t loss_count;
};

static int keep_trace(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct evaluation *e = ctx;
    struct trace *t = &e->traces[e->current];
    if (first + n > t->info.samples)
        return err_set(err, ERR_INTERNAL, "%s: trace longer than the recording", t->entry->relative_path);
    memcpy(t->p + first, p, (size_t)n * sizeof *p);
    return 0;
}

static int keep_alarm(void *ctx, const struct timeline_alarm *alarm, struct err *err) {
    struct evaluation *e = ctx;
    struct trace *t = &e->traces[e->current];
    if (alarm->kind != ALARM_ON)
        return 0;
    double *alarms = realloc(t->alarms_s, (size_t)(t->n_alarms + 1) * sizeof *alarms);
    if (!alarms)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for alarms", t->entry->relative_path);
    t->alarms_s = alarms;
    alarms[t->n_alarms++] = (double)alarm->known / FRONTEND_RATE_HZ;
    return 0;
}

static int add_trace(struct evaluation *e, int64_t index, struct err *err) {
    const struct manifest_entry *entry = manifest_entry(e->config.manifest, index);
    struct trace *t = &e->traces[e->n_traces];
    struct score_trace *view = &e->views[e->n_traces];
    t->entry = entry;
    t->index = index;
    t->loaded = e->n_traces;
    recording_info(entry->recording, &t->info);
    t->p = malloc(((size_t)t->info.samples + 1) * sizeof *t->p);
    t->ref = calloc((size_t)t->info.n_seizures + 1, sizeof *t->ref);
    e->n_traces++;
    if (!t->p || !t->ref)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the trace of %s", entry->relative_path);
    for (int64_t i = 0; i < t->info.samples; i++)
        t->p[i] = NAN;
    for (int i = 0; i < t->info.n_seizures; i++)
        t->ref[i] = (struct score_event){(double)t->info.seizures[i].first / FRONTEND_RATE_HZ,
                                         (double)t->info.seizures[i].end / FRONTEND_RATE_HZ};
    *view = (struct score_trace){.name = entry->relative_path,
                                 .subject = entry->patient,
                                 .p = t->p,
                                 .n = t->info.samples,
                                 .duration_s = (double)t->info.samples / FRONTEND_RATE_HZ,
                                 .ref = t->ref,
                                 .n_ref = t->info.n_seizures};
    return 0;
}

static void trace_done(struct trace *t) {
    free(t->p);
    free(t->ref);
    free(t->events);
    free(t->alarms_s);
}

/* The present recording cannot be loaded. */
static int leave_out(struct evaluation *e, struct err *why, struct err *err) {
    struct trace *t = &e->traces[e->current];
    err_wrap(why, "%s", t->entry->relative_path);
    if (!e->config.bad) {
        if (err)
            *err = *why;
        return why->code;
    }
    int rc = e->config.bad(e->config.ctx, t->index, why, err);
    if (rc)
        return rc;
    trace_done(t);
    e->n_traces--;
    memmove(t, t + 1, (size_t)(e->n_traces - e->current) * sizeof *t);
    memmove(&e->views[e->current], &e->views[e->current + 1], (size_t)(e->n_traces - e->current) * sizeof *e->views);
    return 0;
}

static int start_loader(struct evaluation *e, struct err *err) {
    struct recording **recordings = calloc((size_t)e->n_traces + 1, sizeof *recordings);
    if (!recordings)
        return err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    for (int i = 0; i < e->n_traces; i++)
        recordings[i] = e->traces[i].entry->recording;
    int rc = loader_start(recordings, e->n_traces, e->config.workers, &e->loader, err);
    free(recordings);
    return rc;
}

int evaluation_start(const struct evaluation_config *config, struct evaluation **ret, struct err *err) {
    int64_t entries = manifest_count(config->manifest), wanted = 0;
    struct evaluation *e = calloc(1, sizeof *e);
    for (int64_t i = 0; i < entries; i++)
        wanted += config->role[i] == config->wanted && manifest_entry(config->manifest, i)->recording;
    int rc = 0;
    if (!e || !(e->traces = calloc((size_t)wanted + 1, sizeof *e->traces)) ||
        !(e->views = calloc((size_t)wanted + 1, sizeof *e->views)))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for an evaluation");
    if (!rc)
        e->config = *config;
    for (int64_t i = 0; !rc && i < entries; i++)
        if (config->role[i] == config->wanted && manifest_entry(config->manifest, i)->recording)
            rc = add_trace(e, i, err);
    if (!rc)
        rc = start_loader(e, err);
    if (rc) {
        evaluation_free(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void evaluation_free(struct evaluation *e) {
    if (!e)
        return;
    timeline_free(e->timeline);
    loader_stop(e->loader);
    for (int i = 0; i < e->n_traces; i++)
        trace_done(&e->traces[i]);
    free(e->traces);
    free(e->views);
    score_sweep_done(&e->sweep);
    free(e);
}

int evaluation_count(const struct evaluation *e) { return e->n_traces; }
int evaluation_current(const struct evaluation *e) { return e->current; }
const struct score_sweep *evaluation_sweep(const struct evaluation *e) { return &e->sweep; }

void evaluation_recording(const struct evaluation *e, int index, struct evaluation_recording *ret) {
    const struct trace *t = &e->traces[index];
    *ret = (struct evaluation_recording){t->entry, e->views[index], t->events, t->n_events, t->alarms_s, t->n_alarms};
}

/* Sample-wise loss and ROC of a finished trace; held samples were not measured. */
static void add_samples(struct evaluation *e, const struct trace *t) {
    int seizure = 0, held = 0;
    for (int64_t i = 0; i < t->info.samples; i++) {
        while (seizure < t->info.n_seizures && i >= t->info.seizures[seizure].end)
            seizure++;
        while (held < t->info.n_held && i >= t->info.held[held].end)
            held++;
        if (isnan(t->p[i]) || (held < t->info.n_held && i >= t->info.held[held].first))
            continue;
        uint8_t label = seizure < t->info.n_seizures && i >= t->info.seizures[seizure].first;
        double p = fmin(fmax((double)t->p[i], 1e-7), 1 - 1e-7);
        e->loss -= label ? log(p) : log1p(-p);
        e->loss_count++;
        auroc_add(&e->auroc, &t->p[i], &label, 1);
    }
}

static int run_windows(struct evaluation *e, struct err *err) {
    int rc;
    if (!e->timeline) {
        struct timeline_options options = {.alarm_hop = e->config.alarm_hop, .events = &e->config.events};
        struct timeline_sink sink = {.ctx = e, .probabilities = keep_trace, .alarm = keep_alarm};
        struct recording *rec = e->traces[e->current].entry->recording;
        int number = e->traces[e->current].loaded;
        struct err why = {0};
        if (!recording_ready(rec) && !loader_wait(e->loader, number, WAIT_MS))
            return 0; /* still being fetched or decoded */
        if (!recording_ready(rec) && loader_result(e->loader, number, &why))
            return leave_out(e, &why, err);
        if ((rc = timeline_new_cached(&detector_info(e->config.detector)->file, rec, &options, &sink, &e->timeline, err)))
            return rc;
    }
    int64_t windows = 0;
    rc = detector_run(e->config.detector, e->config.stream, &e->timeline, 1, e->config.windows_per_step, &windows, err);
    if (!rc)
        rc = timeline_status(e->timeline, err);
    if (rc || !timeline_done(e->timeline))
        return rc;
    timeline_free(e->timeline);
    e->timeline = NULL;
    add_samples(e, &e->traces[e->current]);
    e->current++;
    return 0;
}

/* Which pairs will be tried: none when the thresholds are given and no sweep is wanted. */
static int begin_search(struct evaluation *e, struct err *err) {
    struct score_search search;
    e->searched = true;
    e->swept = !e->config.auto_threshold && !e->config.sweep;
    if (e->swept)
        return 0;
    score_search_default(&search, &e->config.events);
    return score_sweep_begin(e->views, e->n_traces, &search, e->config.stream, &e->sweep, err);
}

/* Events of every trace under the thresholds in force, and their scores. */
static int find_events(struct evaluation *e, const struct events_config *config, struct score_point *ret, struct err *err) {
    struct score_counts sums[SCORE_KINDS] = {{0}};
    int rc = events_config_check(config, err);
    for (int i = 0; !rc && i < e->n_traces; i++) {
        struct trace *t = &e->traces[i];
        free(t->events);
        t->events = NULL;
        rc = events_find(config, t->p, t->info.samples, &t->events, &t->n_events, err);
        if (!rc)
            rc = score_apply(&e->views[i], t->events, t->n_events, sums, err);
    }
    ret->on = config->on;
    ret->off = config->off;
    for (int k = 0; k < SCORE_KINDS; k++)
        score_from_counts(&sums[k], &ret->scores[k]);
    return rc;
}

static int score_all_alarms(struct evaluation *e, struct score_alarm_report *ret, struct err *err) {
    struct score_alarms *recs = calloc((size_t)e->n_traces + 1, sizeof *recs);
    if (!recs)
        return err_set(err, ERR_EXHAUSTED, "out of memory scoring alarms");
    for (int i = 0; i < e->n_traces; i++)
        recs[i] = (struct score_alarms){.name = e->views[i].name,
                                        .duration_s = e->views[i].duration_s,
                                        .ref = e->views[i].ref,
                                        .n_ref = e->views[i].n_ref,
                                        .at_s = e->traces[i].alarms_s,
                                        .n_alarms = e->traces[i].n_alarms};
    int rc = score_alarms(recs, e->n_traces, ret, err);
    free(recs);
    return rc;
}

static int conclude(struct evaluation *e, struct evaluation_result *r, struct err *err) {
    int best = e->config.auto_threshold ? score_sweep_best(&e->sweep, e->config.target_fa_per_24h) : -1;
    *r = (struct evaluation_result){
        .events = e->config.events, .auroc = auroc_value(&e->auroc), .loss = e->loss_count ? e->loss / (double)e->loss_count : NAN};
    if (best >= 0) {
        r->events.on = e->sweep.points[best].on;
        r->events.off = e->sweep.points[best].off;
    }
    score_sweep_sensitivities(&e->sweep);
    memcpy(r->sensitivity_at, e->sweep.sensitivity_at, sizeof r->sensitivity_at);
    int rc = find_events(e, &r->events, &r->point, err);
    if (!rc && e->config.alarm_hop)
        rc = score_all_alarms(e, &r->alarms, err);
    return rc;
}

int evaluation_step(struct evaluation *e, bool *ret_done, struct evaluation_result *ret, struct err *err) {
    *ret_done = false;
    if (e->current < e->n_traces)
        return run_windows(e, err);
    if (!e->searched)
        return begin_search(e, err);
    if (!e->swept)
        return score_sweep_step(&e->sweep, &e->swept, err);
    int rc = conclude(e, ret, err);
    *ret_done = !rc;
    return rc;
}
