#include "score/score.h"

#include "base/order.h"

/* Constants of SzCORE (timescoring): masks at 10 Hz, merge below 90 s, split above 300 s, tolerance 30 s before and 60 s after. */
enum { EVENT_HZ = 10, MERGE_S = 90, SPLIT_S = 300, BEFORE_S = 30, AFTER_S = 60, MAX_SECONDS = 60 * 24 * 3600 };

const char *score_kind_name(enum score_kind kind) {
    static const char *const names[] = {"event", "sample", "any_overlap", "taes"};
    return names[kind];
}

struct span {
    int64_t first, end;
};

/* Events in order, overlapping ones joined, those without length left out: what the NEDC scores work on. */
struct tidy {
    struct score_event *items;
    bool *spent;
    int n;
};

/* Everything one recording needs while it is scored. */
struct workspace {
    int64_t seconds;
    uint8_t *ref, *hyp, *unsure, *covered; /* masks at 1 Hz; at 10 Hz what extended references cover */
    struct span *spans;
    struct tidy ref_events, hyp_events;
};

/* Whole-second mask with truncated edges, as the evaluation builds it. */
static void second_mask(const struct score_event *events, int n, int64_t seconds, uint8_t *mask) {
    memset(mask, 0, (size_t)seconds + 1);
    for (int i = 0; i < n; i++) {
        int64_t first = (int64_t)events[i].onset_s, end = (int64_t)events[i].end_s;
        first = first < 0 ? 0 : first;
        end = end > seconds ? seconds : end;
        if (first < end)
            memset(mask + first, 1, (size_t)(end - first));
    }
}

/* Runs of a mask, in 10 Hz samples, merged (gap < 90 s) and split (> 300 s). out holds room for one run per two seconds
 * plus the pieces. */
static int64_t runs_of(const uint8_t *mask, int64_t seconds, struct span *out) {
    int64_t n = 0, k = 0;
    for (int64_t t = 0; t < seconds;) {
        int64_t start = t;
        while (t < seconds && mask[t] == mask[start])
            t++;
        if (!mask[start])
            continue;
        if (n && start - out[n - 1].end / EVENT_HZ < MERGE_S)
            out[n - 1].end = t * EVENT_HZ;
        else
            out[n++] = (struct span){start * EVENT_HZ, t * EVENT_HZ};
    }
    for (int64_t i = 0; i < n; i++) /* count the pieces, then spread from the back */
        k += (out[i].end - out[i].first + SPLIT_S * EVENT_HZ - 1) / (SPLIT_S * EVENT_HZ);
    int64_t total = k;
    for (int64_t i = n - 1; i >= 0; i--) {
        struct span whole = out[i];
        int64_t pieces = (whole.end - whole.first + SPLIT_S * EVENT_HZ - 1) / (SPLIT_S * EVENT_HZ);
        for (int64_t q = pieces - 1; q >= 0; q--) {
            int64_t first = whole.first + q * SPLIT_S * EVENT_HZ;
            out[--k] = (struct span){first, q == pieces - 1 ? whole.end : first + SPLIT_S * EVENT_HZ};
        }
    }
    return total;
}

static void score_events(struct workspace *w, struct score_counts *ret) {
    struct span *r = w->spans, *h = w->spans + w->seconds + 2;
    uint8_t *covered = w->covered;
    int64_t n_ref = runs_of(w->ref, w->seconds, r), n_hyp = runs_of(w->hyp, w->seconds, h), samples = w->seconds * EVENT_HZ;
    memset(covered, 0, (size_t)samples + 1);
    double tp = 0, fp = 0;
    for (int64_t i = 0; i < n_ref; i++) {
        int64_t first = r[i].first - BEFORE_S * EVENT_HZ, end = r[i].end + AFTER_S * EVENT_HZ;
        first = first < 0 ? 0 : first;
        end = end > samples ? samples : end;
        int64_t overlap = 0;
        for (int64_t k = 0; k < n_hyp; k++) {
            int64_t a = h[k].first > first ? h[k].first : first, b = h[k].end < end ? h[k].end : end;
            overlap += b > a ? b - a : 0;
        }
        if ((double)overlap / (double)(end - first) <= 1e-6)
            continue;
        tp++;
        memset(covered + first, 1, (size_t)(end - first));
    }
    for (int64_t k = 0; k < n_hyp; k++)
        fp += memchr(covered + h[k].first, 1, (size_t)(h[k].end - h[k].first)) == NULL;
    ret->tp += tp;
    ret->fp += fp;
    ret->fn += (double)n_ref - tp;
    ret->ref += (double)n_ref;
}

static void score_samples(const struct workspace *w, struct score_counts *ret) {
    for (int64_t t = 0; t < w->seconds; t++) {
        if (w->unsure[t])
            continue;
        ret->tp += w->ref[t] && w->hyp[t];
        ret->fp += !w->ref[t] && w->hyp[t];
        ret->fn += w->ref[t] && !w->hyp[t];
        ret->ref += w->ref[t];
    }
}

static double overlap_of(const struct score_event *a, const struct score_event *b) {
    double first = fmax(a->onset_s, b->onset_s), end = fmin(a->end_s, b->end_s);
    return end > first ? end - first : 0;
}

ORDER_BY(by_onset, struct score_event, order_f64(x->onset_s, y->onset_s))

static int tidy_init(const struct score_event *items, int n, struct tidy *ret) {
    struct tidy e = {malloc(((size_t)n + 1) * sizeof *e.items), calloc((size_t)n + 1, sizeof *e.spent), 0};
    *ret = e;
    if (!e.items || !e.spent)
        return ERR_EXHAUSTED;
    int used = 0;
    for (int i = 0; i < n; i++)
        if (items[i].end_s > items[i].onset_s)
            e.items[used++] = items[i];
    SORT(e.items, used, by_onset);
    for (int i = 0; i < used; i++)
        if (e.n && e.items[i].onset_s < e.items[e.n - 1].end_s)
            e.items[e.n - 1].end_s = fmax(e.items[e.n - 1].end_s, e.items[i].end_s);
        else
            e.items[e.n++] = e.items[i];
    ret->n = e.n;
    return 0;
}

/* How many of a touch any of b. */
static int touching(const struct tidy *a, const struct tidy *b) {
    int count = 0, k = 0;
    for (int i = 0; i < a->n; i++) {
        while (k < b->n && b->items[k].end_s <= a->items[i].onset_s)
            k++;
        count += k < b->n && b->items[k].onset_s < a->items[i].end_s;
    }
    return count;
}

static void score_any_overlap(const struct tidy *ref, const struct tidy *hyp, struct score_counts *ret) {
    int hits = touching(ref, hyp);
    ret->tp += hits;
    ret->fn += ref->n - hits;
    ret->fp += hyp->n - touching(hyp, ref);
    ret->ref += ref->n;
}

/* Share of the reference that a hypothesis covers, and what it spends outside in units of the reference's length, at most 1. */
static void taes_pair(const struct score_event *ref, const struct score_event *hyp, struct score_counts *ret) {
    double length = ref->end_s - ref->onset_s, overlap = overlap_of(ref, hyp);
    ret->tp += overlap / length;
    ret->fn -= overlap / length;
    ret->fp += fmin(1, (hyp->end_s - hyp->onset_s - overlap) / length);
}

/* NEDC TAES over sorted events that do not overlap within a list. References in order: the first free hypothesis that
 * touches one decides. If it outlasts the reference, later references it touches are missed whole and spent; else the
 * further hypotheses within the reference add to it. What stays free is a miss or a false alarm of 1. */
static void score_taes(const struct tidy *ref, const struct tidy *hyp, struct score_counts *ret) {
    bool *ref_spent = ref->spent, *hyp_spent = hyp->spent;
    int start = 0;
    for (int i = 0; i < ref->n; i++) {
        const struct score_event *r = &ref->items[i];
        ret->fn++;
        if (ref_spent[i])
            continue;
        while (start < hyp->n && hyp->items[start].end_s <= r->onset_s)
            start++;
        for (int k = start; k < hyp->n && hyp->items[k].onset_s < r->end_s; k++) {
            const struct score_event *h = &hyp->items[k];
            if (hyp_spent[k])
                continue;
            hyp_spent[k] = true;
            taes_pair(r, h, ret);
            for (int j = i + 1; !ref_spent[i] && h->end_s >= r->end_s && j < ref->n && ref->items[j].onset_s < h->end_s; j++)
                ref_spent[j] = true;
            ref_spent[i] = true;
        }
    }
    for (int k = 0; k < hyp->n; k++)
        ret->fp += !hyp_spent[k];
    ret->ref += ref->n;
}

static int check_events(const char *name, const char *which, const struct score_event *items, int n, struct err *err) {
    for (int i = 0; i < n; i++)
        if (!(fabs(items[i].onset_s) < MAX_SECONDS && fabs(items[i].end_s) < MAX_SECONDS && items[i].end_s >= items[i].onset_s))
            return err_set(err, ERR_INVALID,
                           "%s: %s event %d runs from %g s to %g s; expected an end not before its onset, both below %d", name,
                           which, i + 1, items[i].onset_s, items[i].end_s, MAX_SECONDS);
    return 0;
}

static void workspace_done(struct workspace *w) {
    FREE_MEMBERS(*w, ref, spans);
    free(w->ref_events.items);
    free(w->ref_events.spent);
    free(w->hyp_events.items);
    free(w->hyp_events.spent);
}

static int workspace_init(struct workspace *w, const struct score_recording *rec, struct err *err) {
    size_t seconds = (size_t)rec->duration_s;
    *w = (struct workspace){.seconds = (int64_t)seconds,
                            .ref = malloc(3 * (seconds + 1) + seconds * EVENT_HZ + 1),
                            .spans = malloc(2 * (seconds + 2) * sizeof *w->spans)};
    if (!w->ref || !w->spans || tidy_init(rec->ref, rec->n_ref, &w->ref_events) ||
        tidy_init(rec->hyp, rec->n_hyp, &w->hyp_events)) {
        workspace_done(w);
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory scoring", rec->name);
    }
    w->hyp = w->ref + seconds + 1;
    w->unsure = w->hyp + seconds + 1;
    w->covered = w->unsure + seconds + 1;
    return 0;
}

/* True if an event shares time with one of these, or with what extends them. */
static bool touches(const struct score_event *e, const struct score_event *others, int n, double before_s, double after_s) {
    for (int i = 0; i < n; i++)
        if (e->onset_s < others[i].end_s + after_s && e->end_s > others[i].onset_s - before_s)
            return true;
    return false;
}

/* The recording without the hypotheses that only unsure time explains. */
static int leave_out_unsure(const struct score_recording *rec, struct score_recording *ret, struct err *err) {
    struct score_event *hyp = malloc(((size_t)rec->n_hyp + 1) * sizeof *hyp);
    *ret = *rec;
    if (!hyp)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory scoring", rec->name);
    ret->hyp = hyp;
    ret->n_hyp = 0;
    for (int i = 0; i < rec->n_hyp; i++)
        if (!touches(&rec->hyp[i], rec->unsure, rec->n_unsure, 0, 0) ||
            touches(&rec->hyp[i], rec->ref, rec->n_ref, BEFORE_S, AFTER_S))
            hyp[ret->n_hyp++] = rec->hyp[i];
    return 0;
}

/* Whole seconds that are unsure and in no reference, or in a gap. */
static int64_t mask_unsure(const struct score_recording *rec, struct workspace *w) {
    int64_t n = 0;
    second_mask(rec->unsure, rec->n_unsure, w->seconds, w->unsure);
    second_mask(rec->gaps, rec->n_gaps, w->seconds, w->covered);
    for (int64_t t = 0; t < w->seconds; t++) {
        w->unsure[t] = w->covered[t] || (w->unsure[t] && !w->ref[t]);
        n += w->unsure[t];
    }
    return n;
}

static int score_counted(const struct score_recording *rec, struct score_counts ret[SCORE_KINDS], struct err *err) {
    struct workspace w;
    struct score_counts counts[SCORE_KINDS] = {{0}};
    int rc = workspace_init(&w, rec, err);
    if (rc)
        return rc;
    second_mask(rec->ref, rec->n_ref, w.seconds, w.ref);
    second_mask(rec->hyp, rec->n_hyp, w.seconds, w.hyp);
    int64_t unsure = mask_unsure(rec, &w);
    score_events(&w, &counts[SCORE_EVENT]);
    score_samples(&w, &counts[SCORE_SAMPLE]);
    score_any_overlap(&w.ref_events, &w.hyp_events, &counts[SCORE_ANY_OVERLAP]);
    score_taes(&w.ref_events, &w.hyp_events, &counts[SCORE_TAES]);
    for (int i = 0; i < SCORE_KINDS; i++) /* the masks of the first two hold whole seconds */
        counts[i].duration_s = (i == SCORE_EVENT || i == SCORE_SAMPLE ? (double)w.seconds : rec->duration_s) - (double)unsure;
    memcpy(ret, counts, sizeof counts);
    workspace_done(&w);
    return 0;
}

double score_recorded_s(double duration_s, const struct score_event *gaps, int n_gaps) {
    for (int i = 0; i < n_gaps; i++)
        duration_s -= gaps[i].end_s - gaps[i].onset_s;
    return duration_s;
}

int score_recording(const struct score_recording *rec, struct score_counts ret[SCORE_KINDS], struct err *err) {
    struct score_recording counted;
    int rc = 0;
    if (!(rec->duration_s > 0 && rec->duration_s < MAX_SECONDS))
        return err_set(err, ERR_INVALID, "%s: duration %g s; expected a positive number of seconds below %d", rec->name,
                       rec->duration_s, MAX_SECONDS);
    if ((rc = check_events(rec->name, "reference", rec->ref, rec->n_ref, err)) ||
        (rc = check_events(rec->name, "unsure", rec->unsure, rec->n_unsure, err)) ||
        (rc = check_events(rec->name, "hypothesis", rec->hyp, rec->n_hyp, err)))
        return rc;
    if (!rec->n_unsure)
        return score_counted(rec, ret, err);
    if ((rc = leave_out_unsure(rec, &counted, err)))
        return rc;
    rc = score_counted(&counted, ret, err);
    free((void *)(uintptr_t)counted.hyp);
    return rc;
}

void score_from_counts(const struct score_counts *c, struct score *ret) {
    ret->counts = *c;
    ret->sensitivity = c->ref > 0 ? c->tp / c->ref : NAN;
    ret->precision = c->tp + c->fp > 0 ? c->tp / (c->tp + c->fp) : NAN;
    ret->f1 = c->ref + c->fp > 0 ? 2 * c->tp / (2 * c->tp + c->fp + c->fn) : NAN;
    ret->false_alarms_per_24h = c->duration_s > 0 ? c->fp / (c->duration_s / 86400) : NAN;
}

void score_counts_add(struct score_counts *to, const struct score_counts *c) {
    to->tp += c->tp;
    to->fp += c->fp;
    to->fn += c->fn;
    to->ref += c->ref;
    to->duration_s += c->duration_s;
}

/* Mean over subjects, undefined values left out. */
static double nan_mean(const struct score_report *r, int kind, size_t offset) {
    double sum = 0;
    int n = 0;
    for (int i = 0; i < r->n_subjects; i++) {
        double value;
        memcpy(&value, (const char *)&r->subjects[i].scores[kind] + offset, sizeof value);
        if (isnan(value))
            continue;
        sum += value;
        n++;
    }
    return n ? sum / n : NAN;
}

static struct score_subject *subject_named(struct score_report *r, const char *name) {
    for (int i = 0; i < r->n_subjects; i++)
        if (!strcmp(r->subjects[i].subject, name))
            return &r->subjects[i];
    struct score_subject *s = &r->subjects[r->n_subjects++];
    *s = (struct score_subject){.subject = name};
    return s;
}

double score_percentile(const double *sorted, int64_t n, double q) {
    if (!n)
        return NAN;
    double at = q * (double)(n - 1);
    int64_t low = (int64_t)at, high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (at - (double)low) * (sorted[high] - sorted[low]);
}

/* The earliest onset among the events that share time with ref, NaN = none does. */
static double first_onset(const struct score_recording *rec, const struct score_event *ref) {
    double first = NAN;
    for (int i = 0; i < rec->n_hyp; i++)
        if (rec->hyp[i].onset_s < ref->end_s && rec->hyp[i].end_s > ref->onset_s)
            first = fmin(first, rec->hyp[i].onset_s);
    return first;
}

static int score_onsets(const struct score_recording *recs, int n, struct score_onsets *ret, struct err *err) {
    int64_t references = 0, found = 0;
    for (int i = 0; i < n; i++)
        references += recs[i].n_ref;
    double *errors = malloc(((size_t)references + 1) * sizeof *errors);
    if (!errors)
        return err_set(err, ERR_EXHAUSTED, "out of memory scoring %d recordings", n);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < recs[i].n_ref; k++) {
            double onset = first_onset(&recs[i], &recs[i].ref[k]);
            if (!isnan(onset))
                errors[found++] = fabs(onset - recs[i].ref[k].onset_s);
        }
    SORT(errors, found, order_f64s);
    *ret = (struct score_onsets){found, score_percentile(errors, found, 0.5), score_percentile(errors, found, 0.9)};
    free(errors);
    return 0;
}

int score_all(const struct score_recording *recs, int n, struct score_report *ret, struct err *err) {
    struct score_report r = {.subjects = calloc((size_t)n + 1, sizeof *r.subjects)};
    struct score_counts pooled[SCORE_KINDS] = {{0}};
    int rc = r.subjects ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory scoring %d recordings", n);
    for (int i = 0; !rc && i < n; i++) {
        struct score_counts counts[SCORE_KINDS];
        rc = score_recording(&recs[i], counts, err);
        struct score_subject *s = rc ? NULL : subject_named(&r, recs[i].subject ? recs[i].subject : "");
        for (int k = 0; s && k < SCORE_KINDS; k++) {
            score_counts_add(&s->scores[k].counts, &counts[k]);
            score_counts_add(&pooled[k], &counts[k]);
        }
    }
    if (rc || (rc = score_onsets(recs, n, &r.onsets, err))) {
        free(r.subjects);
        return rc;
    }
    for (int k = 0; k < SCORE_KINDS; k++) {
        for (int i = 0; i < r.n_subjects; i++) {
            struct score_counts counts = r.subjects[i].scores[k].counts;
            score_from_counts(&counts, &r.subjects[i].scores[k]);
        }
        score_from_counts(&pooled[k], &r.pooled[k]);
        r.subject_mean[k] = (struct score){
            .sensitivity = nan_mean(&r, k, offsetof(struct score, sensitivity)),
            .precision = nan_mean(&r, k, offsetof(struct score, precision)),
            .f1 = nan_mean(&r, k, offsetof(struct score, f1)),
            .false_alarms_per_24h = nan_mean(&r, k, offsetof(struct score, false_alarms_per_24h)),
            .counts = pooled[k],
        };
    }
    *ret = r;
    return 0;
}

void score_report_done(struct score_report *r) {
    free(r->subjects);
    *r = (struct score_report){0};
}

static void put_scores(struct json_writer *w, const char *key, const struct score scores[SCORE_KINDS]) {
    json_begin_object(w, key);
    for (int k = 0; k < SCORE_KINDS; k++) {
        const struct score *s = &scores[k];
        json_begin_object(w, score_kind_name((enum score_kind)k));
        JSON_MEMBERS(w, *s, sensitivity, precision, f1, false_alarms_per_24h);
        JSON_MEMBERS(w, s->counts, tp, fp, ref);
        json_end(w, '}');
    }
    json_end(w, '}');
}

void score_report_json(const struct score_report *r, struct json_writer *w) {
    json_begin_object(w, NULL);
    score_report_members(r, w);
    json_end(w, '}');
}

void score_report_members(const struct score_report *r, struct json_writer *w) {
    json_put_str(w, "definition", SCORE_DEFINITION);
    json_put_f64(w, "hours", r->pooled[0].counts.duration_s / 3600);
    json_begin_object(w, "onset_error");
    json_put_i64(w, "seizures", r->onsets.n);
    JSON_MEMBERS(w, r->onsets, p50_s, p90_s);
    json_end(w, '}');
    put_scores(w, "pooled", r->pooled);
    put_scores(w, "subject_mean", r->subject_mean);
    json_begin_object(w, "per_subject");
    for (int i = 0; i < r->n_subjects; i++)
        put_scores(w, r->subjects[i].subject, r->subjects[i].scores);
    json_end(w, '}');
}

const char *score_text(double value, int digits, char buf[32]) {
    str_format(buf, 32, isnan(value) ? "none" : "%.*f", digits, value);
    return buf;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* The bits of a positive float are ordered as the float is, and so fine near 0 as log-odds are there; those of 1 − p do
 * the same near 1, down to the 2^-25 below which p rounds to 1. */
static size_t auroc_bin(float p) {
    const uint32_t half = bits_of(0.5F);
    if (!(p > 0))
        return 0;
    return (p < 0.5F ? bits_of(p) : 2 * half - bits_of(fmaxf(1 - p, 0x1p-25F))) >> 12;
}

void auroc_add_run(struct auroc *a, float p, bool positive, uint64_t n) {
    const size_t bin = auroc_bin(p);
    const uint32_t one = p > 0 ? bits_of(p) + 1 : 1;
    (positive ? a->positive : a->negative)[bin] += n;
    a->one[bin] = !a->one[bin] || a->one[bin] == one ? one : AUROC_SEVERAL;
}

struct auroc_sums {
    double positives, negatives, wins; /* wins: pairs whose positive is in a higher bin */
    double ties, unsure;               /* pairs in one bin; unsure: in one that holds several values */
};

static struct auroc_sums sum_auroc(const struct auroc *a) {
    struct auroc_sums s = {0};
    for (int i = 0; i < AUROC_BINS; i++) {
        s.wins += (double)a->positive[i] * s.negatives;
        const double ties = (double)a->positive[i] * (double)a->negative[i];
        s.ties += ties;
        s.unsure += a->one[i] == AUROC_SEVERAL ? ties : 0;
        s.positives += (double)a->positive[i];
        s.negatives += (double)a->negative[i];
    }
    return s;
}

double auroc_value(const struct auroc *a) {
    const struct auroc_sums s = sum_auroc(a);
    return s.positives > 0 && s.negatives > 0 ? (s.wins + 0.5 * s.ties) / (s.positives * s.negatives) : NAN;
}

double auroc_error_most(const struct auroc *a) {
    const struct auroc_sums s = sum_auroc(a);
    return s.positives > 0 && s.negatives > 0 ? 0.5 * s.unsure / (s.positives * s.negatives) : NAN;
}
