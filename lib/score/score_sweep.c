#include "score/score_sweep.h"

#include "base/order.h"

enum { RATE_HZ = 256, BINS = 65536, STEP_SAMPLES = 1 << 28 };

const double score_limits_fa_per_24h[SCORE_LIMITS] = {10, 5, 2.5, 1};

void score_search_default(struct score_search *s, const struct events_config *base) {
    *s = (struct score_search){.base = base, .candidates = 32, .off_ratios = {1, 0.78 / 0.86, 0.75, 0.5, 0.35}, .n_off_ratios = 5};
}

/* Histograms of all probabilities and of those inside references. */
struct histogram {
    uint64_t all[BINS], inside[BINS], n_all, n_inside;
};

int64_t score_trace_length(const struct score_span *segments, int n_segments) {
    int64_t n = n_segments ? n_segments - 1 : 0;
    for (int s = 0; s < n_segments; s++)
        n += segments[s].end - segments[s].first;
    return n;
}

double score_trace_hours(const struct score_trace *t) { return score_recorded_s(t->duration_s, t->gaps, t->n_gaps) / 3600; }

void score_trace_to_time(const struct score_trace *t, struct event *events, int64_t n) {
    int64_t begin = 0; /* of segment s in p */
    for (int64_t i = 0, s = 0; t->segments && i < n; i++) {
        int64_t after;
        while (events[i].first >= (after = begin + t->segments[s].end - t->segments[s].first + 1)) {
            begin = after;
            s++;
        }
        events[i].first += t->segments[s].first - begin;
        events[i].end += t->segments[s].first - begin;
    }
}

/* Marks the samples of p that lie in [first, end) of file time. */
static void mark(const struct score_trace *t, int64_t first, int64_t end, uint8_t *inside) {
    const struct score_span whole = {0, t->n}, *segments = t->segments ? t->segments : &whole;
    int n = t->segments ? t->n_segments : 1;
    int64_t begin = 0;
    for (int s = 0; s < n && segments[s].first < end; s++) {
        int64_t from = first > segments[s].first ? first : segments[s].first, to = end < segments[s].end ? end : segments[s].end;
        if (from < to)
            memset(inside + begin + from - segments[s].first, 1, (size_t)(to - from));
        begin += segments[s].end - segments[s].first + 1;
    }
}

static void add_trace(struct histogram *h, const struct score_trace *t, uint8_t *inside) {
    memset(inside, 0, (size_t)t->n);
    for (int i = 0; i < t->n_ref; i++)
        mark(t, llround(fmax(t->ref[i].onset_s, 0) * RATE_HZ), llround(fmax(t->ref[i].end_s, 0) * RATE_HZ), inside);
    for (int64_t i = 0, end; i < t->n; i = end) { /* samples that are alike */
        for (end = i + 1; end < t->n && t->p[end] == t->p[i] && inside[end] == inside[i];)
            end++;
        if (isnan(t->p[i]))
            continue;
        const float clipped = t->p[i] > 0 ? t->p[i] < 1 ? t->p[i] : 1 : 0;
        const size_t bin = (size_t)(clipped * (BINS - 1));
        const uint64_t n = (uint64_t)(end - i), n_inside = inside[i] ? n : 0;
        h->all[bin] += n;
        h->n_all += n;
        h->inside[bin] += n_inside;
        h->n_inside += n_inside;
    }
}

/* Lower edge of the bin above which at most `share` of the samples lie. */
static int bin_with_tail(const uint64_t *bins, uint64_t n, double share) {
    double allowed = share * (double)n, above = 0;
    int bin = BINS - 1;
    while (bin > 0 && above + (double)bins[bin] <= allowed)
        above += (double)bins[bin--];
    return bin;
}

/* Thresholds must lie inside (0, 1). */
static double threshold_of(int bin) {
    double value = (double)bin / (BINS - 1);
    return fmin(fmax(value, 1.0 / BINS), 1 - 1.0 / BINS);
}

static double log_odds(double p) { return log(p / (1 - p)); }

static int spread(const struct histogram *h, int count, double *ret_on) {
    int n = 0, inside = h->n_inside ? count / 3 : 0, even = count / 3, all = count - inside - even;
    if (!h->n_all)
        return 0;
    for (int i = 0; i < all; i++) /* tail shares 0.5 … 1e-5, evenly in their logarithm */
        ret_on[n++] = threshold_of(bin_with_tail(h->all, h->n_all, 0.5 * pow(2e-5, all > 1 ? (double)i / (all - 1) : 0)));
    double low = log_odds(ret_on[0]), high = log_odds(ret_on[n - 1]);
    for (int i = 0; i < even; i++)
        ret_on[n++] = 1 / (1 + exp(-(low + (high - low) * (i + 1) / (even + 1))));
    for (int i = 0; i < inside; i++)
        ret_on[n++] = threshold_of(bin_with_tail(h->inside, h->n_inside, (i + 0.5) / inside));
    SORT(ret_on, n, order_f64s);
    int distinct = 0;
    for (int i = 0; i < n; i++)
        if (!distinct || ret_on[i] > ret_on[distinct - 1])
            ret_on[distinct++] = ret_on[i];
    return distinct;
}

/* The trace with its p. */
static int load(const struct score_trace *traces, int i, score_load_fn *fn, void *ctx, struct score_trace *ret, struct err *err) {
    *ret = traces[i];
    return fn ? fn(ctx, i, &ret->p, err) : 0;
}

int score_candidates(const struct score_trace *traces, int n, const struct score_search *search, double *ret_on, int *ret_n,
                     struct err *err) {
    int count = search->candidates;
    if (count < 2 || count > SCORE_MAX_CANDIDATES)
        return err_set(err, ERR_INVALID, "%d threshold candidates; expected 2 to %d", count, SCORE_MAX_CANDIDATES);
    int64_t longest = 1;
    for (int i = 0; i < n; i++)
        longest = traces[i].n > longest ? traces[i].n : longest;
    OWNED_MEMORY struct histogram *h = calloc(1, sizeof *h);
    OWNED_MEMORY uint8_t *inside = malloc((size_t)longest);
    if (!h || !inside)
        return err_set(err, ERR_EXHAUSTED, "out of memory choosing thresholds");
    for (int i = 0; i < n; i++) {
        struct score_trace t;
        int rc = load(traces, i, search->load, search->ctx, &t, err);
        if (rc)
            return rc;
        add_trace(h, &t, inside);
    }
    *ret_n = spread(h, count, ret_on);
    return 0;
}

int score_apply(const struct score_trace *t, const struct event *events, int64_t n, struct score_counts sums[SCORE_KINDS],
                struct err *err) {
    OWNED_MEMORY struct score_event *hyp = malloc(((size_t)n + 1) * sizeof *hyp);
    struct score_counts counts[SCORE_KINDS];
    if (!hyp)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for events", t->name);
    for (int64_t i = 0; i < n; i++)
        hyp[i] = (struct score_event){(double)events[i].first / RATE_HZ, (double)events[i].end / RATE_HZ};
    const struct score_recording rec = {SAME_MEMBERS(*t, name, subject, duration_s, ref, n_ref, unsure, n_unsure, gaps, n_gaps),
                                        .hyp = hyp, .n_hyp = (int)n};
    int rc = score_recording(&rec, counts, err);
    if (rc)
        return rc;
    for (int k = 0; k < SCORE_KINDS; k++)
        score_counts_add(&sums[k], &counts[k]);
    return 0;
}

void score_sweep_sensitivities(struct score_sweep *s) {
    for (int i = 0; i < SCORE_LIMITS; i++) {
        s->sensitivity_at[i] = NAN;
        for (int k = 0; k < s->n; k++) {
            const struct score *e = &s->points[k].scores[SCORE_EVENT];
            double value = e->false_alarms_per_24h <= score_limits_fa_per_24h[i] ? e->sensitivity : 0;
            if (e->counts.ref > 0)
                s->sensitivity_at[i] = isnan(s->sensitivity_at[i]) ? value : fmax(s->sensitivity_at[i], value);
        }
    }
}

struct sweep_progress {
    const struct score_trace *traces;
    int n_traces, trace, point; /* the next to try */
    struct score_trace shown;   /* the present trace, loaded */
    struct events_trace search;
    struct events_config base;
    score_load_fn *load;
    void *ctx;
    struct score_counts (*sums)[SCORE_KINDS]; /* of each point */
};

static void end_progress(struct score_sweep *s) {
    if (!s->progress)
        return;
    events_trace_done(&s->progress->search);
    free(s->progress->sums);
    free(s->progress);
    s->progress = NULL;
}

void score_sweep_done(struct score_sweep *s) {
    end_progress(s);
    free(s->points);
    *s = (struct score_sweep){0};
}

int score_sweep_begin(const struct score_trace *traces, int n, const struct score_search *search, struct score_sweep *ret,
                      struct err *err) {
    double on[SCORE_MAX_CANDIDATES];
    int n_on = 0;
    if (search->n_off_ratios < 1 || search->n_off_ratios > SCORE_MAX_RATIOS)
        return err_set(err, ERR_INVALID, "%d off ratios; expected 1 to %d", search->n_off_ratios, SCORE_MAX_RATIOS);
    int rc = score_candidates(traces, n, search, on, &n_on, err);
    if (rc)
        return rc;
    struct score_sweep s = {.n = n_on * search->n_off_ratios};
    struct sweep_progress *p = s.progress = calloc(1, sizeof *p);
    s.points = calloc((size_t)s.n + 1, sizeof *s.points);
    if (p) {
        *p = (struct sweep_progress){
            .traces = traces, .n_traces = n, .base = *search->base, .load = search->load, .ctx = search->ctx};
        p->sums = calloc((size_t)s.n + 1, sizeof *p->sums);
    }
    if (!s.points || !p || !p->sums)
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for a threshold sweep");
    for (int i = 0; !rc && i < s.n; i++) {
        struct events_config pair = *search->base;
        s.points[i].on = pair.on = on[i % n_on];
        s.points[i].off = pair.off = on[i % n_on] * search->off_ratios[i / n_on];
        rc = events_config_check(&pair, err);
    }
    if (rc)
        score_sweep_done(&s);
    else
        *ret = s;
    return rc;
}

static int next_trace(struct sweep_progress *p, struct err *err) {
    int rc = load(p->traces, p->trace, p->load, p->ctx, &p->shown, err);
    events_trace_done(&p->search);
    return rc ? rc : events_trace_init(&p->search, p->shown.p, p->shown.n, err);
}

static int try_pair(struct score_sweep *s, int point, struct err *err) {
    struct sweep_progress *p = s->progress;
    struct events_config pair = p->base;
    struct event *events = NULL;
    int64_t count = 0;
    COPY_MEMBERS(pair, s->points[point], on, off);
    int rc = events_find_spans(&pair, &p->search, &events, &count, err);
    if (rc)
        return rc;
    score_trace_to_time(&p->shown, events, count);
    rc = score_apply(&p->shown, events, count, p->sums[point], err);
    free(events);
    return rc;
}

/* All pairs on the present trace, or some if it is long. */
static int try_pairs(struct score_sweep *s, struct err *err) {
    struct sweep_progress *p = s->progress;
    int most = (int)(STEP_SAMPLES / p->traces[p->trace].n) + 1, rc = p->point ? 0 : next_trace(p, err);
    while (!rc && most-- && p->point < s->n)
        rc = try_pair(s, p->point++, err);
    if (p->point == s->n) {
        p->point = 0;
        p->trace++;
    }
    return rc;
}

int score_sweep_step(struct score_sweep *s, bool *ret_done, struct err *err) {
    struct sweep_progress *p = s->progress;
    *ret_done = true;
    if (!p)
        return 0;
    while (p->trace < p->n_traces && p->traces[p->trace].n < 1)
        p->trace++;
    if (s->n && p->trace < p->n_traces) {
        *ret_done = false;
        return try_pairs(s, err);
    }
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < SCORE_KINDS; k++)
            score_from_counts(&p->sums[i][k], &s->points[i].scores[k]);
    score_sweep_sensitivities(s);
    end_progress(s);
    return 0;
}

void score_sweep_json(const struct score_sweep *s, struct json_writer *w, const char *key) {
    static const char *const names[SCORE_LIMITS] = {"10", "5", "2.5", "1"};
    json_begin_object(w, key);
    json_begin_object(w, "sensitivity_at_fa_per_24h");
    for (int i = 0; i < SCORE_LIMITS; i++)
        json_put_f64(w, names[i], s->sensitivity_at[i]);
    json_end(w, '}');
    json_begin_array(w, "points");
    for (int i = 0; i < s->n; i++) {
        const struct score *e = &s->points[i].scores[SCORE_EVENT];
        json_begin_object(w, NULL);
        JSON_MEMBERS(w, s->points[i], on, off);
        json_put_f64(w, "f1", e->f1);
        json_put_f64(w, "sample_f1", s->points[i].scores[SCORE_SAMPLE].f1);
        JSON_MEMBERS(w, *e, sensitivity, false_alarms_per_24h);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_end(w, '}');
}

/* F1 of a point; −1 of one that may not be chosen. Of hours that would see less than one false alarm at the target, one is no sign
 * of more. */
static double f1_of(const struct score_point *p, enum score_kind kind, double target) {
    const struct score *event = &p->scores[SCORE_EVENT];
    bool eligible = event->f1 > 0 && event->counts.fp <= ceil(target * event->counts.duration_s / 86400);
    double f1 = p->scores[kind].f1;
    return !eligible ? -1 : isnan(f1) ? 0 : f1;
}

/* docs/scores.md says why these. */
static const double sample_slack = 0.02, equal = 1e-9;

double score_f1_chance(double seizures) { return 0.1 * fmin(1, sqrt(10 / fmax(1, seizures))); }

static double best_f1(const struct score_sweep *s, enum score_kind kind, double target, const bool *among) {
    double best = 0;
    for (int i = 0; i < s->n; i++)
        if (!among || among[i])
            best = fmax(best, f1_of(&s->points[i], kind, target));
    return best;
}

/* Points that are as good as the best but for chance. */
static void mark_good(const struct score_sweep *s, double target, bool *good) {
    double event = best_f1(s, SCORE_EVENT, target, NULL) - score_f1_chance(s->points[0].scores[SCORE_EVENT].counts.ref);
    for (int i = 0; i < s->n; i++)
        good[i] = f1_of(&s->points[i], SCORE_EVENT, target) >= fmax(event, 0);
    double sample = best_f1(s, SCORE_SAMPLE, target, good) - sample_slack;
    for (int i = 0; i < s->n; i++)
        good[i] = good[i] && f1_of(&s->points[i], SCORE_SAMPLE, target) >= sample;
}

/* Log-odds in the middle between the lowest and the highest `on` of the good points. */
static double middle_of(const struct score_sweep *s, const bool *good) {
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < s->n; i++)
        if (good[i]) {
            low = fmin(low, log_odds(s->points[i].on));
            high = fmax(high, log_odds(s->points[i].on));
        }
    return (low + high) / 2;
}

/* Nearer to the middle; then higher; then with the better sample F1. */
static bool is_better(const struct score_point *a, const struct score_point *b, double middle) {
    double nearer = fabs(log_odds(b->on) - middle) - fabs(log_odds(a->on) - middle);
    if (fabs(nearer) > equal)
        return nearer > 0;
    return a->on > b->on || (a->on >= b->on && a->scores[SCORE_SAMPLE].f1 > b->scores[SCORE_SAMPLE].f1);
}

int score_sweep_best(const struct score_sweep *s, double target_fa_per_24h) {
    bool good[SCORE_MAX_POINTS];
    double target = target_fa_per_24h > 0 ? target_fa_per_24h : INFINITY;
    int best = -1;
    if (!s->n || s->n > SCORE_MAX_POINTS)
        return -1;
    mark_good(s, target, good);
    double middle = middle_of(s, good);
    for (int i = 0; i < s->n; i++)
        if (good[i] && (best < 0 || is_better(&s->points[i], &s->points[best], middle)))
            best = i;
    return best >= 0 || isinf(target) ? best : score_sweep_best(s, 0);
}
