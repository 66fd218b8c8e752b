#include "run/score.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Constants of SzCORE (timescoring): masks at 10 Hz, merge below 90 s, split above 300 s, tolerance 30 s before and 60 s after. */
enum { EVENT_HZ = 10, MERGE_S = 90, SPLIT_S = 300, BEFORE_S = 30, AFTER_S = 60, MAX_SECONDS = 60 * 24 * 3600 };

const char *score_kind_name(enum score_kind kind) {
    static const char *const names[] = {"event", "sample", "any_overlap", "taes"};
    return names[kind];
}

struct span {
    int64_t first, end;
};

/* Whole-second mask with truncated edges, as the evaluation builds it. Returns the number of seconds. */
static int64_t second_mask(const struct score_event *events, int n, double duration_s, uint8_t *mask) {
    int64_t seconds = (int64_t)duration_s;
    memset(mask, 0, (size_t)seconds + 1);
    for (int i = 0; i < n; i++)
        for (int64_t t = (int64_t)events[i].onset_s; t < (int64_t)events[i].end_s && t < seconds; t++)
            if (t >= 0)
                mask[t] = 1;
    return seconds;
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

static void score_events(const uint8_t *ref, const uint8_t *hyp, int64_t seconds, struct span *spans, uint8_t *covered,
                         struct score_counts *ret) {
    struct span *r = spans, *h = spans + seconds + 2;
    int64_t n_ref = runs_of(ref, seconds, r), n_hyp = runs_of(hyp, seconds, h), samples = seconds * EVENT_HZ;
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

static void score_samples(const uint8_t *ref, const uint8_t *hyp, int64_t seconds, struct score_counts *ret) {
    for (int64_t t = 0; t < seconds; t++) {
        ret->tp += ref[t] && hyp[t];
        ret->fp += !ref[t] && hyp[t];
        ret->fn += ref[t] && !hyp[t];
        ret->ref += ref[t];
    }
}

static double overlap_of(const struct score_event *a, const struct score_event *b) {
    double first = fmax(a->onset_s, b->onset_s), end = fmin(a->end_s, b->end_s);
    return end > first ? end - first : 0;
}

static void score_any_overlap(const struct score_recording *rec, struct score_counts *ret) {
    for (int i = 0; i < rec->n_ref; i++) {
        bool hit = false;
        for (int k = 0; k < rec->n_hyp; k++)
            hit |= overlap_of(&rec->ref[i], &rec->hyp[k]) > 0;
        ret->tp += hit;
        ret->fn += !hit;
    }
    for (int k = 0; k < rec->n_hyp; k++) {
        bool touches = false;
        for (int i = 0; i < rec->n_ref; i++)
            touches |= overlap_of(&rec->ref[i], &rec->hyp[k]) > 0;
        ret->fp += !touches;
    }
    ret->ref += rec->n_ref;
}

/* TAES: a reference gains the share of it that hypotheses cover; what a hypothesis spends outside its reference counts towards
 * false alarms, at most 1 per hypothesis, in units of the reference's length. A hypothesis belongs to the first reference it
 * touches; later references under the same long hypothesis are missed. */
static void score_taes(const struct score_recording *rec, bool *used, struct score_counts *ret) {
    memset(used, 0, (size_t)(rec->n_hyp + 1) * sizeof *used);
    for (int i = 0; i < rec->n_ref; i++) {
        double length = rec->ref[i].end_s - rec->ref[i].onset_s, hit = 0;
        for (int k = 0; k < rec->n_hyp; k++) {
            double overlap = overlap_of(&rec->ref[i], &rec->hyp[k]);
            if (overlap <= 0 || used[k])
                continue;
            used[k] = true;
            hit += overlap / length;
            ret->fp += fmin(1, (rec->hyp[k].end_s - rec->hyp[k].onset_s - overlap) / length);
        }
        hit = fmin(hit, 1);
        ret->tp += hit;
        ret->fn += 1 - hit;
    }
    for (int k = 0; k < rec->n_hyp; k++)
        ret->fp += !used[k];
    ret->ref += rec->n_ref;
}

int score_recording(const struct score_recording *rec, struct score_counts ret[SCORE_KINDS], struct err *err) {
    if (!(rec->duration_s > 0 && rec->duration_s < MAX_SECONDS))
        return err_set(err, ERR_INVALID, "%s: duration %g s; expected a positive number of seconds below %d", rec->name,
                       rec->duration_s, MAX_SECONDS);
    size_t seconds = (size_t)rec->duration_s;
    uint8_t *masks = malloc(2 * (seconds + 1) + seconds * EVENT_HZ + 1);
    struct span *spans = malloc(2 * (seconds + 2) * sizeof *spans);
    bool *used = malloc(((size_t)rec->n_hyp + 1) * sizeof *used);
    int rc = 0;
    if (masks && spans && used) {
        struct score_counts counts[SCORE_KINDS] = {{0}};
        uint8_t *ref = masks, *hyp = masks + seconds + 1, *covered = hyp + seconds + 1;
        second_mask(rec->ref, rec->n_ref, rec->duration_s, ref);
        second_mask(rec->hyp, rec->n_hyp, rec->duration_s, hyp);
        score_events(ref, hyp, (int64_t)seconds, spans, covered, &counts[SCORE_EVENT]);
        score_samples(ref, hyp, (int64_t)seconds, &counts[SCORE_SAMPLE]);
        score_any_overlap(rec, &counts[SCORE_ANY_OVERLAP]);
        score_taes(rec, used, &counts[SCORE_TAES]);
        for (int i = 0; i < SCORE_KINDS; i++)
            counts[i].duration_s = rec->duration_s;
        memcpy(ret, counts, sizeof counts);
    } else {
        rc = err_set(err, ERR_EXHAUSTED, "%s: out of memory scoring", rec->name);
    }
    free(masks);
    free(spans);
    free(used);
    return rc;
}

void score_from_counts(const struct score_counts *c, struct score *ret) {
    ret->counts = *c;
    ret->sensitivity = c->ref > 0 ? c->tp / c->ref : NAN;
    ret->precision = c->tp + c->fp > 0 ? c->tp / (c->tp + c->fp) : NAN;
    ret->f1 = c->ref + c->fp > 0 ? 2 * c->tp / (2 * c->tp + c->fp + c->fn) : NAN;
    ret->false_alarms_per_24h = c->duration_s > 0 ? c->fp / (c->duration_s / 86400) : NAN;
}

static void add_counts(struct score_counts *to, const struct score_counts *c) {
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

int score_all(const struct score_recording *recs, int n, struct score_report *ret, struct err *err) {
    struct score_report r = {.subjects = calloc((size_t)n + 1, sizeof *r.subjects)};
    struct score_counts pooled[SCORE_KINDS] = {{0}};
    int rc = r.subjects ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory scoring %d recordings", n);
    for (int i = 0; !rc && i < n; i++) {
        struct score_counts counts[SCORE_KINDS];
        rc = score_recording(&recs[i], counts, err);
        struct score_subject *s = rc ? NULL : subject_named(&r, recs[i].subject);
        for (int k = 0; s && k < SCORE_KINDS; k++) {
            add_counts(&s->scores[k].counts, &counts[k]);
            add_counts(&pooled[k], &counts[k]);
        }
    }
    if (rc) {
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
        json_put_f64(w, "sensitivity", s->sensitivity);
        json_put_f64(w, "precision", s->precision);
        json_put_f64(w, "f1", s->f1);
        json_put_f64(w, "false_alarms_per_24h", s->false_alarms_per_24h);
        json_put_f64(w, "tp", s->counts.tp);
        json_put_f64(w, "fp", s->counts.fp);
        json_put_f64(w, "ref", s->counts.ref);
        json_end(w, '}');
    }
    json_end(w, '}');
}

void score_report_json(const struct score_report *r, struct json_writer *w) {
    json_begin_object(w, NULL);
    json_put_str(w, "definition", SCORE_DEFINITION);
    json_put_f64(w, "hours", r->pooled[0].counts.duration_s / 3600);
    put_scores(w, "pooled", r->pooled);
    put_scores(w, "subject_mean", r->subject_mean);
    json_begin_object(w, "per_subject");
    for (int i = 0; i < r->n_subjects; i++)
        put_scores(w, r->subjects[i].subject, r->subjects[i].scores);
    json_end(w, '}');
    json_end(w, '}');
}

void auroc_add(struct auroc *a, const float *p, const uint8_t *labels, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (isnan(p[i]) || labels[i] > 1)
            continue;
        float clipped = fminf(fmaxf(p[i], 0), 1);
        uint64_t *bins = labels[i] ? a->positive : a->negative;
        bins[(size_t)(clipped * 65535)]++;
    }
}

double auroc_value(const struct auroc *a) {
    double positives = 0, negatives = 0, wins = 0;
    for (int i = 0; i < 65536; i++) {
        wins += (double)a->positive[i] * (negatives + 0.5 * (double)a->negative[i]);
        positives += (double)a->positive[i];
        negatives += (double)a->negative[i];
    }
    return positives > 0 && negatives > 0 ? wins / (positives * negatives) : NAN;
}
