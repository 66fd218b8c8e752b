#include "score/score_rejecter.h"

#include "base/base.h"
#include "base/order.h"

/* The sensitive pair has at most so many false alarms in 24 h, or one per seizure. */
static const double most_false_per_24h = 24, equal = 1e-9;

/* An event of the sensitive pair before it is cut into pieces of the maximum duration. */
struct candidate {
    int trace;
    int64_t first, end; /* of its pieces in rejecter_progress.pieces */
    struct rejecter_event event;
    bool scored, kept; /* scored: it counts in the event score, which leaves out events shorter than a second */
    double sum;        /* of the rejecter in question */
};

struct rejecter_progress {
    struct rejecter_search search;
    struct events_config config;         /* of the sensitive pair */
    int trace, patient;                  /* the next whose events are found, and the first trace of the next who is left out */
    int *patient_of;                     /* per trace: the first one of the same patient */
    struct event *pieces;                /* of all traces, in file time */
    struct candidate *items;             /* of all traces, ascending in each */
    int64_t n_pieces, n_items, capacity; /* capacity: of both */
    int64_t *begins;                     /* n + 1: the first item of each trace */
    struct score_counts *all, left_out;  /* event counts: of each trace with all its events; of the patients left out so far */
};

static void end_progress(struct score_rejecter *r) {
    struct rejecter_progress *s = r->progress;
    if (!s)
        return;
    FREE_MEMBERS(*s, patient_of, pieces, items, begins, all);
    free(s);
    r->progress = NULL;
}

void score_rejecter_done(struct score_rejecter *r) { end_progress(r); }

/* Most seizures found; then fewest false alarms; then the best sample F1. */
static bool is_more_sensitive(const struct score_point *a, const struct score_point *b) {
    const struct score_counts *x = &a->scores[SCORE_EVENT].counts, *y = &b->scores[SCORE_EVENT].counts;
    if (fabs(x->tp - y->tp) > equal)
        return x->tp > y->tp;
    if (fabs(x->fp - y->fp) > equal)
        return x->fp < y->fp;
    return a->scores[SCORE_SAMPLE].f1 > b->scores[SCORE_SAMPLE].f1;
}

static const struct score_point *sensitive_point(const struct score_sweep *sweep) {
    const struct score_point *best = NULL;
    for (int i = 0; i < sweep->n; i++) {
        const struct score_counts *c = &sweep->points[i].scores[SCORE_EVENT].counts;
        double most = fmax(most_false_per_24h * c->duration_s / 86400, c->ref);
        if (c->tp > 0 && c->fp <= most && (!best || is_more_sensitive(&sweep->points[i], best)))
            best = &sweep->points[i];
    }
    return best;
}

static int make_progress(const struct rejecter_search *search, struct rejecter_progress **ret, struct err *err) {
    size_t n = (size_t)search->n;
    struct rejecter_progress *s = *ret = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory choosing a rejecter");
    *s = (struct rejecter_progress){.search = *search,
                                    .config = *search->base,
                                    .patient_of = calloc(n + 1, sizeof *s->patient_of),
                                    .begins = calloc(n + 1, sizeof *s->begins),
                                    .all = calloc(n + 1, sizeof *s->all)};
    if (!s->patient_of || !s->begins || !s->all)
        return err_set(err, ERR_EXHAUSTED, "out of memory choosing a rejecter");
    for (int i = 0; i < search->n; i++)
        while (strcmp(search->traces[s->patient_of[i]].subject, search->traces[i].subject) != 0)
            s->patient_of[i]++;
    return 0;
}

int score_rejecter_begin(const struct rejecter_search *search, struct score_rejecter *ret, struct err *err) {
    int best = score_sweep_best(search->sweep, search->target_fa_per_24h);
    const struct score_point *sensitive = sensitive_point(search->sweep);
    *ret = (struct score_rejecter){.used = false};
    if (best < 0 || !sensitive) {
        str_copy(ret->why, sizeof ret->why, "no pair of thresholds finds a seizure with few enough false alarms");
        return 0;
    }
    int rc = make_progress(search, &ret->progress, err);
    if (rc) {
        end_progress(ret);
        return rc;
    }
    const struct score_point *usual = &search->sweep->points[best];
    ret->usual_on = usual->on;
    ret->usual_off = usual->off;
    ret->usual = usual->scores[SCORE_EVENT];
    ret->on = ret->progress->config.on = sensitive->on;
    ret->off = ret->progress->config.off = sensitive->off;
    events_config_keep_all(&ret->progress->config);
    return 0;
}

/* ---- the events ---- */

/* Room for n more pieces, each of them an event. */
static int reserve(struct rejecter_progress *s, int64_t n, struct err *err) {
    int64_t capacity = 2 * (s->n_pieces + n);
    if (s->n_pieces + n <= s->capacity)
        return 0;
    struct candidate *items = realloc(s->items, (size_t)capacity * sizeof *items);
    s->items = items ? items : s->items;
    struct event *pieces = realloc(s->pieces, (size_t)capacity * sizeof *pieces);
    s->pieces = pieces ? pieces : s->pieces;
    if (!items || !pieces)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld events", (long long)capacity);
    s->capacity = capacity;
    return 0;
}

static int count_events(const struct score_trace *t, const struct event *events, int64_t n, struct score_counts *ret,
                        struct err *err) {
    struct score_counts sums[SCORE_KINDS] = {{0}};
    int rc = score_apply(t, events, n, sums, err);
    *ret = sums[SCORE_EVENT];
    return rc;
}

/* Pieces that touch are one event: events are at least a sample apart. Features come from its first piece, as in detect/events.h.
 */
static int add_candidates(struct rejecter_progress *s, const float *p, const struct event *found, int64_t n, struct err *err) {
    int rc = reserve(s, n, err);
    if (rc)
        return rc;
    for (int64_t i = 0; i < n; i++, s->n_pieces++) {
        if (!i || found[i].first != found[i - 1].end) {
            struct candidate *c = &s->items[s->n_items++];
            *c = (struct candidate){.trace = s->trace, .first = s->n_pieces, .kept = true};
            rejecter_features(p + found[i].first, found[i].end - found[i].first, c->event.features);
        }
        s->pieces[s->n_pieces] = found[i];
        s->items[s->n_items - 1].end = s->n_pieces + 1;
    }
    return 0;
}

/* Each event by what it counts alone in the event score; then all of them. */
static int label_candidates(struct rejecter_progress *s, struct score_rejecter *r, struct err *err) {
    const struct score_trace *t = &s->search.traces[s->trace];
    int64_t begin = s->begins[s->trace], first = begin < s->n_items ? s->items[begin].first : s->n_pieces;
    score_trace_to_time(t, s->pieces + first, s->n_pieces - first);
    for (int64_t i = begin; i < s->n_items; i++) {
        struct candidate *c = &s->items[i];
        struct score_counts own;
        int rc = count_events(t, s->pieces + c->first, c->end - c->first, &own, err);
        if (rc)
            return rc;
        c->event.seizure = own.tp > 0;
        c->scored = own.tp > 0 || own.fp > 0;
        r->seizures += c->event.seizure;
        r->false_events += c->scored && !c->event.seizure;
    }
    return count_events(t, s->pieces + first, s->n_pieces - first, &s->all[s->trace], err);
}

static int find_candidates(struct rejecter_progress *s, struct score_rejecter *r, struct err *err) {
    const struct score_trace *t = &s->search.traces[s->trace];
    const float *p = t->p;
    OWNED_MEMORY struct event *found = NULL;
    int64_t n = 0;
    int rc = s->search.load ? s->search.load(s->search.ctx, s->trace, &p, err) : 0;
    if (rc || (rc = events_find(&s->config, p, t->n, &found, &n, err)) || (rc = add_candidates(s, p, found, n, err)) ||
        (rc = label_candidates(s, r, err)))
        return rc;
    s->begins[++s->trace] = s->n_items;
    return 0;
}

/* ---- the fit and its cut ---- */

/* Event counts of a trace with the events that are kept. */
static int count_kept(const struct rejecter_progress *s, int trace, struct score_counts *ret, struct err *err) {
    int64_t begin = s->begins[trace], end = s->begins[trace + 1], n = 0;
    int64_t most = begin < end ? s->items[end - 1].end - s->items[begin].first : 0;
    OWNED_MEMORY struct event *kept = calloc((size_t)most + 1, sizeof *kept);
    if (!kept)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld events", (long long)most);
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = s->items[i].first; s->items[i].kept && k < s->items[i].end; k++)
            kept[n++] = s->pieces[k];
    return count_events(&s->search.traces[trace], kept, n, ret, err);
}

static bool is_of(const struct rejecter_progress *s, const struct candidate *c, int patient) {
    return s->patient_of[c->trace] == patient;
}

static int by_sum(const void *a, const void *b) {
    const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
    return order_then(order_f64(x->sum, y->sum), (x > y) - (x < y));
}

/* A level below which events are dropped, and the event F1 then. */
struct cut {
    double at, f1;
};
struct cuts {
    struct cut *items;
    int64_t n;
};

/* The best one; of equals the one in their middle, the lower of two that are as near to it. */
static double best_cut(const struct cuts *cuts) {
    double best = -1, low = INFINITY, high = -INFINITY, nearest = INFINITY, at = 0;
    for (int64_t i = 0; i < cuts->n; i++)
        best = fmax(best, cuts->items[i].f1);
    for (int64_t i = 0; i < cuts->n; i++) {
        const struct cut *c = &cuts->items[i];
        low = c->f1 >= best - equal ? fmin(low, c->at) : low;
        high = c->f1 >= best - equal ? fmax(high, c->at) : high;
    }
    for (int64_t i = 0; i < cuts->n; i++) {
        const struct cut *c = &cuts->items[i];
        double distance = fabs(c->at - (low + high) / 2);
        if (c->f1 < best - equal || distance >= nearest - equal)
            continue;
        nearest = distance;
        at = c->at;
    }
    return at;
}

/* Drops one event after the other, the lowest sum first; a cut lies between two sums. At least one event is kept. */
static int try_cuts(const struct rejecter_progress *s, int patient, struct candidate **order, int64_t n, struct cuts *ret,
                    struct err *err) {
    OWNED_MEMORY struct score_counts *now = malloc(((size_t)s->search.n + 1) * sizeof *now);
    struct score_counts total = {0};
    struct score score;
    int rc = now ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory choosing a rejecter");
    for (int i = 0; !rc && i < s->search.n; i++) {
        now[i] = s->all[i];
        if (s->patient_of[i] != patient)
            score_counts_add(&total, &now[i]);
    }
    for (int64_t i = 0; !rc && i < n; i++) {
        double below = i ? order[i - 1]->sum : order[i]->sum - 2, above = order[i]->sum;
        score_from_counts(&total, &score);
        if (below < above)
            ret->items[ret->n++] = (struct cut){(below + above) / 2, score.f1};
        struct score_counts *of = &now[order[i]->trace], before = *of;
        order[i]->kept = false;
        rc = count_kept(s, order[i]->trace, of, err);
        total.tp += of->tp - before.tp;
        total.fp += of->fp - before.fp;
        total.fn += of->fn - before.fn;
    }
    for (int64_t i = 0; i < n; i++)
        order[i]->kept = true;
    return rc;
}

/* The rejecter of all patients but one (−1: of all), with the bias that gives their best event F1. */
static int fit_without(struct rejecter_progress *s, int patient, struct event_rejecter *ret, struct err *err) {
    size_t most = (size_t)s->n_items + 1;
    OWNED_MEMORY struct rejecter_event *events = calloc(most, sizeof *events);
    OWNED_MEMORY struct candidate **order = calloc(most, sizeof *order);
    OWNED_MEMORY struct cut *items = calloc(most, sizeof *items);
    struct cuts cuts = {items, 0};
    int64_t n = 0, n_order = 0;
    int rc;
    if (!events || !order || !items)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld events", (long long)s->n_items);
    for (int64_t i = 0; i < s->n_items; i++) {
        if (is_of(s, &s->items[i], patient))
            continue;
        order[n_order++] = &s->items[i];
        if (s->items[i].scored)
            events[n++] = s->items[i].event;
    }
    *ret = (struct event_rejecter){.on = s->config.on, .off = s->config.off};
    if ((rc = rejecter_fit(events, n, ret, err)))
        return rc;
    for (int64_t i = 0; i < n_order; i++)
        order[i]->sum = rejecter_sum(ret, order[i]->event.features);
    qsort(order, (size_t)n_order, sizeof(struct candidate *), by_sum);
    if ((rc = try_cuts(s, patient, order, n_order, &cuts, err)))
        return rc;
    ret->bias -= best_cut(&cuts);
    return 0;
}

/* ---- the judgement ---- */

/* A patient's events pass the rejecter of the others. */
static int leave_out(struct rejecter_progress *s, struct score_rejecter *r, struct err *err) {
    int patient = s->patient++, rc;
    struct event_rejecter others = {0};
    int64_t events = 0;
    if (s->patient_of[patient] != patient)
        return 0;
    for (int64_t i = 0; i < s->n_items; i++)
        events += is_of(s, &s->items[i], patient);
    if (events && (rc = fit_without(s, patient, &others, err)))
        return rc;
    for (int64_t i = 0; i < s->n_items; i++)
        if (is_of(s, &s->items[i], patient))
            s->items[i].kept = rejecter_sum(&others, s->items[i].event.features) >= 0;
    r->patients += events > 0;
    for (int i = 0; i < s->search.n; i++) {
        struct score_counts counts;
        if (s->patient_of[i] != patient)
            continue;
        if ((rc = count_kept(s, i, &counts, err)))
            return rc;
        score_counts_add(&s->left_out, &counts);
    }
    for (int64_t i = 0; i < s->n_items; i++)
        s->items[i].kept = true;
    return 0;
}

static int judge(struct rejecter_progress *s, struct score_rejecter *r, struct err *err) {
    const struct score_counts *usual = &r->usual.counts, *own = &s->left_out;
    double target = s->search.target_fa_per_24h;
    score_from_counts(own, &r->left_out);
    bool higher = r->left_out.f1 > r->usual.f1 + equal, same = r->left_out.f1 >= r->usual.f1 - equal;
    if (target > 0 && own->fp > fmax(ceil(target * own->duration_s / 86400), usual->fp))
        str_format(r->why, sizeof r->why, "with patients left out it has more false alarms than the target of %g in 24 h", target);
    else if (!higher && !(same && own->fp < usual->fp))
        str_format(r->why, sizeof r->why, "with patients left out it is no better than the usual thresholds");
    r->used = !*r->why;
    return r->used ? fit_without(s, -1, &r->rejecter, err) : 0;
}

/* A fit has too few events: why says how many. */
static void give_up(const struct rejecter_progress *s, struct score_rejecter *r, const struct err *why) {
    bool of_all = r->seizures < REJECTER_LEAST || r->false_events < REJECTER_LEAST;
    if (of_all)
        str_format(r->why, sizeof r->why, "%lld events in seizures and %lld false ones; a fit takes at least %d of each",
                   (long long)r->seizures, (long long)r->false_events, REJECTER_LEAST);
    else
        str_format(r->why, sizeof r->why, "without %.40s %.140s", s->search.traces[s->patient - 1].subject, why->message);
}

static int next(struct rejecter_progress *s, struct score_rejecter *r, bool *ret_done, struct err *err) {
    struct err why = {0};
    *ret_done = false;
    if (s->trace < s->search.n)
        return find_candidates(s, r, err);
    *ret_done = true;
    if (s->patient == s->search.n)
        return judge(s, r, err);
    int rc = leave_out(s, r, &why);
    if (rc == ERR_PRECONDITION) {
        give_up(s, r, &why);
        return 0;
    }
    *ret_done = false;
    if (rc && err)
        *err = why;
    return rc;
}

int score_rejecter_step(struct score_rejecter *r, bool *ret_done, struct err *err) {
    *ret_done = true;
    if (!r->progress)
        return 0;
    int rc = next(r->progress, r, ret_done, err);
    if (rc || *ret_done)
        end_progress(r);
    return rc;
}

static void put_row(struct json_writer *w, const char *key, double on, double off, const struct score *s) {
    json_begin_object(w, key);
    json_put_f64(w, "on", on);
    json_put_f64(w, "off", off);
    json_put_f64(w, "seizures", s->counts.ref);
    json_put_f64(w, "found", s->counts.tp);
    json_put_f64(w, "false_events", s->counts.fp);
    json_put_f64(w, "event_f1", s->f1);
    json_put_f64(w, "false_alarms_per_24h", s->false_alarms_per_24h);
    json_end(w, '}');
}

void score_rejecter_json(const struct score_rejecter *r, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    JSON_MEMBERS(w, *r, used, why, on, off);
    json_put_i64(w, "true_events", r->seizures);
    JSON_MEMBERS(w, *r, false_events, patients);
    if (r->on > 0)
        put_row(w, "usual", r->usual_on, r->usual_off, &r->usual);
    if (r->left_out.counts.ref > 0)
        put_row(w, "left_out", r->on, r->off, &r->left_out);
    if (r->used)
        rejecter_to_json(&r->rejecter, w, "rejecter");
    json_end(w, '}');
}
