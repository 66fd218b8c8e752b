#include "evaluate/baseline.h"

#include "detect/builtin.h"
#include "eeg/feature.h"
#include "eeg/half.h"
#include "windows/recording.h"

enum { ROWS = 4096 };

struct baseline {
    struct modelfile model;
    pthread_mutex_t lock;              /* samples */
    struct evaluation_samples samples; /* its loss depends on the order, and nobody reads it */
    int64_t entries;
    struct score_counts (*counts)[SCORE_KINDS]; /* of each entry */
};

int baseline_new(const char *name, int64_t entries, struct baseline **ret, struct err *err) {
    struct baseline *b = calloc(1, sizeof *b);
    if (!b)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a baseline");
    pthread_mutex_init(&b->lock, NULL);
    b->entries = entries;
    b->counts = calloc((size_t)entries + 1, sizeof *b->counts);
    int rc = b->counts ? builtin_model(name, &b->model, err) : err_set(err, ERR_EXHAUSTED, "out of memory for a baseline");
    if (rc)
        baseline_free(b);
    else
        *ret = b;
    return rc;
}

void baseline_free(struct baseline *b) {
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b->counts);
    free(b);
}

static bool is_held(const struct recording_info *info, int64_t at, int *held) {
    while (*held < info->n_held && at >= info->held[*held].end)
        ++*held;
    return *held < info->n_held && at >= info->held[*held].first;
}

/* Rows [first, end) of a segment, all of them held or none, as probabilities. */
static void run_rows(const struct baseline *b, struct feature *f, const struct feature_rows *in, float *p) {
    const struct seizure_map map = seizure_map(b->model.model.type);
    const float scale = modelfile_logit_scale(&b->model);
    uint16_t halves[ROWS];
    feature_run(f, *in, (struct feature_output){halves, 1});
    for (int64_t i = 0; i < in->n; i++) { /* the feature is the same for FEATURE_BLOCK rows */
        const bool same = i && halves[i] == halves[i - 1];
        p[i] = same ? p[i - 1] : 1 / (1 + expf(-scale * (map.weight * half_to_f32(halves[i]) + map.bias)));
    }
}

/* The trace as in struct score_trace. */
static void run_segments(const struct baseline *b, const struct recording *rec, const struct recording_info *info,
                         struct feature *f, float *p) {
    int held = 0;
    if (b->model.frontend.learn_background)
        feature_learn(f);
    if (b->model.frontend.hold_background)
        feature_hold(f);
    for (int s = 0; s < info->n_segments; s++) {
        int64_t end = info->segments[s].end;
        const uint16_t *row = recording_rows(rec, s, info->segments[s].first);
        if (s && b->model.frontend.learn_background)
            feature_resume(f, row, (double)(info->segments[s].first - info->segments[s - 1].end) / FRONTEND_RATE_HZ);
        else
            feature_start(f, row);
        const double *measures = s ? NULL : recording_measures(rec, b->model.frontend.normalize);
        if (measures && b->model.frontend.learn_background)
            feature_give(f, measures);
        for (int64_t at = info->segments[s].first, n; at < end; at += n, p += n) {
            bool now = is_held(info, at, &held);
            int64_t until = held == info->n_held ? end : now ? info->held[held].end : info->held[held].first;
            until = until < end ? until : end;
            n = until - at < ROWS ? until - at : ROWS;
            run_rows(b, f, &(struct feature_rows){recording_rows(rec, s, at), n, info->columns, now}, p);
        }
        if (s + 1 < info->n_segments)
            *p++ = NAN;
    }
}

/* Events of the trace in file time, and their scores. */
static int score(const struct baseline *b, const struct score_trace *view, const float *p, struct score_counts *ret,
                 struct err *err) {
    OWNED(events_trace_done) struct events_trace trace = {0};
    OWNED_MEMORY struct event *events = NULL;
    int64_t n = 0;
    int rc = events_trace_init(&trace, p, view->n, err);
    if (rc || (rc = events_find_spans(&b->model.events, &trace, &events, &n, err)))
        return rc;
    score_trace_to_time(view, events, n);
    return score_apply(view, events, n, ret, err);
}

int baseline_add(struct baseline *b, int64_t i, const struct manifest_entry *entry, struct err *err) {
    OWNED(evaluation_view_done) struct score_trace view = {0};
    OWNED_POINTER(feature_free) struct feature *f = NULL;
    struct recording_info info;
    recording_info(entry->recording, &info);
    int rc = evaluation_view(entry, &view, err);
    OWNED_MEMORY float *p = rc ? NULL : malloc(((size_t)view.n + 1) * sizeof *p);
    if (!rc && !p)
        rc = err_set(err, ERR_EXHAUSTED, "%s: out of memory for a baseline", entry->relative_path);
    if (rc || (rc = feature_new(b->model.frontend.normalize, info.channels, &f, err)))
        return rc;
    run_segments(b, entry->recording, &info, f, p);
    pthread_mutex_lock(&b->lock);
    evaluation_add_samples(&b->samples, &info, p);
    pthread_mutex_unlock(&b->lock);
    return score(b, &view, p, b->counts[i], err);
}

void baseline_json(const struct baseline *b, struct json_writer *w) {
    static const enum score_kind kinds[] = {SCORE_EVENT, SCORE_SAMPLE};
    struct score_counts sums[SCORE_KINDS] = {{0}};
    for (int64_t i = 0; i < b->entries; i++)
        for (int k = 0; k < SCORE_KINDS; k++)
            score_counts_add(&sums[k], &b->counts[i][k]);
    json_begin_object(w, NULL);
    json_put_str(w, "name", seizure_type_name(b->model.model.type));
    json_put_f64(w, "auroc", auroc_value(&b->samples.auroc));
    json_put_f64(w, "auroc_error_most", auroc_error_most(&b->samples.auroc));
    JSON_MEMBERS(w, b->model.events, on, off);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct score s;
        score_from_counts(&sums[kinds[i]], &s);
        JSON_OBJECT(w, score_kind_name(kinds[i]), s, f1, sensitivity, precision, false_alarms_per_24h);
    }
    json_end(w, '}');
}
