/* Validation: whole recordings through the inference path, then a sweep that applies each threshold pair for real and scores events
 * in absolute time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "run/train_state.h"

enum { CANDIDATES = 19 };
/* off / on of the fixed defaults, 0.78 / 0.86. */
static const double off_ratio = 0.907;

/* One recording's trace and reference. */
struct trace {
    const struct manifest_entry *entry;
    struct recording_info info;
    float *p;
    struct score_event *ref;
    int n_ref;
};

struct candidate {
    double on, off;
    struct score score; /* SzCORE event, pooled */
};

struct validation {
    struct train *train;
    struct detector *detector;
    struct timeline *timeline;
    struct trace *traces;
    int n_traces, current, n_candidates, candidate;
    struct candidate candidates[CANDIDATES];
    struct auroc auroc;
    double loss;
    int64_t loss_count;
};

static int keep_trace(void *ctx, int64_t first, const float *p, int64_t n, struct err *err) {
    struct validation *v = ctx;
    struct trace *t = &v->traces[v->current];
    if (first + n > t->info.samples)
        return err_set(err, ERR_INTERNAL, "%s: trace longer than the recording", t->entry->relative_path);
    memcpy(t->p + first, p, (size_t)n * sizeof *p);
    return 0;
}

static int add_trace(struct validation *v, const struct manifest_entry *entry, struct err *err) {
    struct trace *t = &v->traces[v->n_traces];
    t->entry = entry;
    recording_info(entry->recording, &t->info);
    t->p = malloc((size_t)t->info.samples * sizeof *t->p);
    t->ref = calloc((size_t)t->info.n_seizures + 1, sizeof *t->ref);
    v->n_traces++;
    if (!t->p || !t->ref)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the trace of %s", entry->relative_path);
    for (int64_t i = 0; i < t->info.samples; i++)
        t->p[i] = NAN;
    for (int i = 0; i < t->info.n_seizures; i++)
        t->ref[t->n_ref++] = (struct score_event){(double)t->info.seizures[i].first / FRONTEND_RATE_HZ,
                                                  (double)t->info.seizures[i].end / FRONTEND_RATE_HZ};
    return 0;
}

int validation_start(struct train *t, struct validation **ret, struct err *err) {
    struct validation *v = calloc(1, sizeof *v);
    int rc = v ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a validation");
    if (!rc)
        v->train = t;
    if (!rc && !(v->traces = calloc((size_t)t->validation_recordings + 1, sizeof *v->traces)))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a validation");
    for (int64_t i = 0; !rc && i < manifest_count(t->manifest); i++)
        if (t->role[i] == 2 && manifest_entry(t->manifest, i)->recording)
            rc = add_trace(v, manifest_entry(t->manifest, i), err);
    if (!rc)
        rc = detector_wrap(t->env.device, t->net, &t->file, (int)t->job->training.micro_batch_size, &v->detector, err);
    for (int i = 0; !rc && t->job->auto_threshold && i < CANDIDATES; i++) {
        double on = 0.05 * (i + 1);
        v->candidates[v->n_candidates++] = (struct candidate){.on = on, .off = on * off_ratio};
    }
    if (!rc && !t->job->auto_threshold)
        v->candidates[v->n_candidates++] = (struct candidate){.on = t->job->events.on, .off = t->job->events.off};
    if (rc) {
        validation_free(v);
        return rc;
    }
    str_copy(t->progress.phase, sizeof t->progress.phase, "validate");
    t->progress.done = 0;
    t->progress.total = v->n_traces;
    *ret = v;
    return 0;
}

void validation_free(struct validation *v) {
    if (!v)
        return;
    timeline_free(v->timeline);
    detector_close(v->detector);
    for (int i = 0; i < v->n_traces; i++) {
        free(v->traces[i].p);
        free(v->traces[i].ref);
    }
    free(v->traces);
    free(v);
}

/* Sample-wise loss and ROC of a finished trace. */
static void add_samples(struct validation *v, const struct trace *t) {
    int next = 0;
    for (int64_t i = 0; i < t->info.samples; i++) {
        while (next < t->info.n_seizures && i >= t->info.seizures[next].end)
            next++;
        if (isnan(t->p[i]))
            continue;
        uint8_t label = next < t->info.n_seizures && i >= t->info.seizures[next].first;
        double p = fmin(fmax((double)t->p[i], 1e-7), 1 - 1e-7);
        v->loss -= label ? log(p) : log1p(-p);
        v->loss_count++;
        auroc_add(&v->auroc, &t->p[i], &label, 1);
    }
}

static int run_windows(struct validation *v, struct err *err) {
    struct train *t = v->train;
    int rc = 0;
    if (!v->timeline) {
        struct timeline_options options = {0};
        struct timeline_sink sink = {.ctx = v, .probabilities = keep_trace};
        if ((rc = timeline_new_cached(v->detector, v->traces[v->current].entry->recording, &options, &sink, &v->timeline, err)))
            return rc;
    }
    int64_t windows = 0;
    rc = detector_run(v->detector, t->stream, &v->timeline, 1, t->job->training.micro_batch_size, &windows, err);
    if (!rc)
        rc = timeline_status(v->timeline, err);
    if (rc || !timeline_done(v->timeline))
        return rc;
    timeline_free(v->timeline);
    v->timeline = NULL;
    add_samples(v, &v->traces[v->current]);
    t->progress.done = ++v->current;
    return 0;
}

/* Events of one trace under a threshold pair, as seconds. */
static int find_events(const struct events_config *config, const struct trace *t, struct score_event **ret, int *ret_n,
                       struct err *err) {
    struct event *events = NULL;
    int64_t n = 0;
    int rc = events_find(config, t->p, t->info.samples, &events, &n, err);
    struct score_event *out = rc ? NULL : calloc((size_t)n + 1, sizeof *out);
    if (!rc && !out)
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for events");
    for (int64_t i = 0; !rc && i < n; i++)
        out[i] = (struct score_event){(double)events[i].first / FRONTEND_RATE_HZ, (double)events[i].end / FRONTEND_RATE_HZ};
    free(events);
    if (!rc) {
        *ret = out;
        *ret_n = (int)n;
    }
    return rc;
}

static int try_candidate(struct validation *v, struct err *err) {
    struct candidate *c = &v->candidates[v->candidate];
    struct events_config config = v->train->job->events;
    struct score_counts sum = {0};
    config.on = c->on;
    config.off = c->off;
    for (int i = 0; i < v->n_traces; i++) {
        struct trace *t = &v->traces[i];
        struct score_event *hyp = NULL;
        int n_hyp = 0, rc = find_events(&config, t, &hyp, &n_hyp, err);
        struct score_counts counts[SCORE_KINDS];
        struct score_recording rec = {.name = t->entry->relative_path,
                                      .subject = t->entry->patient,
                                      .duration_s = (double)t->info.samples / FRONTEND_RATE_HZ,
                                      .ref = t->ref,
                                      .n_ref = t->n_ref,
                                      .hyp = hyp,
                                      .n_hyp = n_hyp};
        if (!rc)
            rc = score_recording(&rec, counts, err);
        free(hyp);
        if (rc)
            return rc;
        sum.tp += counts[SCORE_EVENT].tp;
        sum.fp += counts[SCORE_EVENT].fp;
        sum.fn += counts[SCORE_EVENT].fn;
        sum.ref += counts[SCORE_EVENT].ref;
        sum.duration_s += counts[SCORE_EVENT].duration_s;
    }
    score_from_counts(&sum, &c->score);
    v->candidate++;
    return 0;
}

static double f1_of(const struct candidate *c) { return isnan(c->score.f1) ? 0 : c->score.f1; }

/* Best F1 within the wanted false alarms if any candidate keeps them; in the middle of a plateau. */
static const struct candidate *choose(const struct validation *v) {
    double target = v->train->job->target_fa_per_24h, best = -1;
    int first = 0, last = 0;
    bool any = false;
    for (int i = 0; i < v->n_candidates; i++)
        any |= v->candidates[i].score.false_alarms_per_24h <= target && f1_of(&v->candidates[i]) > 0;
    for (int i = 0; i < v->n_candidates; i++) {
        double f1 = f1_of(&v->candidates[i]);
        if (any && v->candidates[i].score.false_alarms_per_24h > target)
            continue;
        if (f1 > best + 1e-12) {
            best = f1;
            first = i;
        }
        if (f1 > best - 1e-12 && (f1 > best + 1e-12 || last == i - 1 || first == i))
            last = i;
        best = fmax(best, f1);
    }
    return &v->candidates[(first + (last > first ? last : first)) / 2];
}

static double sensitivity_at(const struct validation *v, double target) {
    double best = 0;
    for (int i = 0; i < v->n_candidates; i++)
        if (v->candidates[i].score.false_alarms_per_24h <= target)
            best = fmax(best, v->candidates[i].score.sensitivity);
    return best;
}

static void conclude(const struct validation *v, struct validation_result *r) {
    static const double targets[4] = {10, 5, 2.5, 1};
    static const char *const names[4] = {"sensitivity_at_10fa", "sensitivity_at_5fa", "sensitivity_at_2.5fa", "sensitivity_at_1fa"};
    const struct jobfile *job = v->train->job;
    const struct candidate *c = choose(v);
    *r = (struct validation_result){.event_f1 = f1_of(c),
                                    .auroc = auroc_value(&v->auroc),
                                    .false_alarms_per_24h = c->score.false_alarms_per_24h,
                                    .loss = v->loss / (double)(v->loss_count ? v->loss_count : 1),
                                    .events = job->events};
    r->events.on = c->on;
    r->events.off = c->off;
    r->metric = r->event_f1 + 1e-3 * (isnan(r->auroc) ? 0 : r->auroc); /* AUROC breaks ties */
    for (int i = 0; i < 4; i++) {
        r->sensitivity_at[i] = sensitivity_at(v, targets[i]);
        if (!strcmp(job->training.stop_metric, names[i]))
            r->metric = r->sensitivity_at[i];
    }
    if (!strcmp(job->training.stop_metric, "auroc"))
        r->metric = r->auroc;
    else if (!strcmp(job->training.stop_metric, "loss"))
        r->metric = -r->loss;
}

int validation_step(struct validation *v, bool *ret_done, struct validation_result *ret, struct err *err) {
    *ret_done = false;
    if (v->current < v->n_traces)
        return run_windows(v, err);
    if (v->candidate < v->n_candidates)
        return try_candidate(v, err);
    conclude(v, ret);
    *ret_done = true;
    return 0;
}
