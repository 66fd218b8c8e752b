#include "score/alarm_sweep.h"

#include "base/grow.h"
#include "base/order.h"
#include "base/rng.h"
#include "score/interval.h"

enum { RATE_HZ = 256, BLOCK = 16, SHIFT = 1, CANDIDATES = 32, DRAWS = 1000, BOOTSTRAP_SEED = 1 };
static const double off_ratios[] = {1, 0.75};
static const int64_t min_onsets[] = {64, 128, 256, 512, 1024}; /* samples */
enum { N_RATIOS = sizeof off_ratios / sizeof *off_ratios, N_ONSETS = sizeof min_onsets / sizeof *min_onsets };
static const double delay_slack_s = 2; /* docs/scores.md */

/* Of one rule on one recording. */
struct tally {
    int32_t alarmed, false_alarms;
};

/* Lowest and highest value of BLOCK samples of a segment, the first of which lacks SHIFT, so that a feature stays the same in each;
 * and how many blocks from this one on have no NaN. */
struct block {
    float lowest, highest;
    int32_t present;
};

struct alarm_progress {
    const struct score_trace *traces;
    int n_traces, trace;
    struct alarm_search search;
    struct tally *tallies; /* (traces, points) */
    int *patient;          /* of each trace */
    struct block *blocks;  /* of the present trace */
    int64_t n_blocks;
    int64_t *next; /* of each block: the first one from it on that reaches the `on` of the rules at hand; n_blocks: none */
    double *at_s;  /* alarms of one rule on the present trace */
    int n_alarms, capacity;
};

static void end_progress(struct alarm_sweep *s) {
    if (!s->progress)
        return;
    FREE_MEMBERS(*s->progress, tallies, patient, blocks, next, at_s);
    free(s->progress);
    s->progress = NULL;
}

void alarm_sweep_done(struct alarm_sweep *s) {
    end_progress(s);
    for (int i = 0; s->points && i < s->n; i++)
        free(s->points[i].delays_s);
    free(s->points);
    *s = (struct alarm_sweep){0};
}

/* ---- the rules ---- */

static void make_points(struct alarm_sweep *s, const double *on, int n_on) {
    s->n = 0;
    for (int o = 0; o < N_ONSETS; o++)
        for (int r = 0; r < N_RATIOS; r++)
            for (int i = 0; i < n_on; i++) {
                struct alarm_config rule = s->progress->search.base;
                rule.on = on[i];
                rule.off = on[i] * off_ratios[r];
                rule.min_onset = min_onsets[o];
                s->points[s->n++] = (struct alarm_point){.rule = rule};
            }
}

/* Numbers the patients in the order of their first recording. */
static int number_patients(const struct score_trace *traces, int n, int *ret_patient) {
    int patients = 0;
    for (int i = 0; i < n; i++) {
        int first = 0;
        while (strcmp(traces[first].subject, traces[i].subject) != 0)
            first++;
        ret_patient[i] = first < i ? ret_patient[first] : patients++;
    }
    return patients;
}

int alarm_sweep_begin(const struct score_trace *traces, int n, const struct alarm_search *search, struct alarm_sweep *ret,
                      struct err *err) {
    double on[CANDIDATES];
    int n_on = 0;
    const struct score_search candidates = {.candidates = CANDIDATES, .load = search->load, .ctx = search->ctx};
    int rc = score_candidates(traces, n, &candidates, on, &n_on, err);
    if (rc)
        return rc;
    struct alarm_sweep s = {.n = 0};
    size_t points = (size_t)n_on * N_RATIOS * N_ONSETS;
    struct alarm_progress *p = s.progress = calloc(1, sizeof *p);
    s.points = calloc(points + 1, sizeof *s.points);
    if (p) {
        *p = (struct alarm_progress){.traces = traces, .n_traces = n, .search = *search};
        p->tallies = calloc(points * (size_t)n + 1, sizeof *p->tallies);
        p->patient = calloc((size_t)n + 1, sizeof *p->patient);
    }
    if (!s.points || !p || !p->tallies || !p->patient) {
        alarm_sweep_done(&s);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a sweep of alarm rules");
    }
    make_points(&s, on, n_on);
    s.patients = number_patients(traces, n, p->patient);
    for (int i = 0; i < n; i++) {
        s.references += traces[i].n_ref;
        s.hours += score_trace_hours(&traces[i]);
    }
    *ret = s;
    return 0;
}

/* ---- one rule on one trace ---- */

static int note_alarm(struct alarm_progress *p, int64_t known, struct err *err) {
    if (!GROW(p->at_s, p->n_alarms, p->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for alarms");
    p->at_s[p->n_alarms++] = (double)known / RATE_HZ;
    return 0;
}

static int64_t blocks_of(int64_t samples) { return samples ? (samples + SHIFT + BLOCK - 1) / BLOCK : 0; }
/* Where a block of a segment begins. */
static int64_t begin_of(int64_t block) { return block ? block * BLOCK - SHIFT : 0; }

/* The blocks of every segment of p, one after the other; the last one of a segment may be short. */
static int make_blocks(struct alarm_progress *p, const struct score_trace *t, struct err *err) {
    const struct score_span whole = {0, t->n}, *segments = t->segments ? t->segments : &whole;
    int n = t->segments ? t->n_segments : 1;
    const float *x = t->p;
    struct block *blocks = realloc(p->blocks, (size_t)(t->n / BLOCK + 2 * n + 1) * sizeof *blocks);
    p->blocks = blocks ? blocks : p->blocks;
    int64_t *next = blocks ? realloc(p->next, (size_t)(t->n / BLOCK + 2 * n + 1) * sizeof *next) : NULL;
    if (!next)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for a sweep of alarm rules", t->name);
    p->next = next;
    p->n_blocks = 0;
    for (int s = 0; s < n; s++, x++)
        for (int64_t at = 0, all = segments[s].end - segments[s].first, size; at < all; at += size) {
            const int64_t end = begin_of((at + SHIFT) / BLOCK + 1);
            size = (end < all ? end : all) - at;
            float lowest = INFINITY, highest = -INFINITY;
            int32_t present = 1;
#pragma omp simd reduction(min : lowest) reduction(max : highest) reduction(& : present)
            for (int64_t i = 0; i < size; i++) {
                present &= x[i] == x[i];
                lowest = x[i] < lowest ? x[i] : lowest;
                highest = x[i] > highest ? x[i] : highest;
            }
            blocks[p->n_blocks++] = (struct block){lowest, highest, present};
            x += size;
        }
    for (int64_t i = p->n_blocks - 2; i >= 0; i--)
        blocks[i].present += blocks[i].present ? blocks[i + 1].present : 0;
    return 0;
}

/* Where a rule with this `on` that is off may go on. */
static void find_next(struct alarm_progress *p, double on) {
    int64_t next = p->n_blocks;
    for (int64_t i = p->n_blocks - 1; i >= 0; i--)
        p->next[i] = next = (double)p->blocks[i].highest >= on ? i : next;
}

/* What `size` samples do to a rule, if it can be said without looking at each: they raise no alarm, and none, or all, count for the
 * next change. */
static bool pass_block(struct alarm_rule *rule, const struct block *b, int64_t size) {
    const struct alarm_config *c = &rule->config;
    if (!b->present)
        return false;
    if (!rule->active) {
        const bool all = (double)b->lowest >= c->on && rule->run + size < c->min_onset;
        if (!all && (double)b->highest >= c->on)
            return false;
        rule->run = all ? rule->run + size : 0;
        return true;
    }
    bool below = (double)b->highest < c->off;
    if (!below && (double)b->lowest < c->off)
        return false;
    rule->run = below ? rule->run + size : 0;
    rule->age = rule->age + size < c->latch ? rule->age + size : c->latch;
    if (below && rule->run >= c->min_offset && rule->age >= c->latch) { /* and what follows is below `on` as well */
        rule->active = false;
        rule->run = rule->age = 0;
    }
    return true;
}

/* How many of n blocks a rule that is on can pass: it stays on, and samples after them decide when it ends. */
static int64_t latched_blocks(const struct alarm_rule *rule, const struct block *b, int64_t n) {
    const int64_t blocks = (rule->config.latch - rule->age - rule->config.min_offset) / BLOCK,
                  most = n < b->present ? n : b->present;
    return !rule->active || blocks < 0 ? 0 : blocks < most ? blocks : most;
}

/* The samples of one segment. */
static int run_segment(struct alarm_progress *p, const struct alarm_config *rule_of, const struct score_span *segment,
                       const float *x, const struct block *blocks, struct err *err) {
    struct alarm_rule rule = {.config = *rule_of};
    const int64_t n = segment->end - segment->first, hop = p->search.alarm_hop, first = blocks - p->blocks;
    int rc;
    for (int64_t at = 0, size; at < n; at += size) {
        const int64_t block = (at + SHIFT) / BLOCK;
        if (!rule.active && !rule.run && p->next[first + block] > first + block) {
            size = begin_of(p->next[first + block] - first) - at;
            continue;
        }
        blocks = p->blocks + first + block;
        size = begin_of(block + latched_blocks(&rule, blocks, (n - at) / BLOCK)) - at;
        if (size) {
            rule.age += size;
            rule.run = 0;
            continue;
        }
        size = (begin_of(block + 1) < n ? begin_of(block + 1) : n) - at;
        if (pass_block(&rule, blocks, size))
            continue;
        for (int64_t i = at; i < at + size; i++) {
            if (isnan(x[i]) || alarm_rule_push(&rule, x[i]) <= 0)
                continue;
            if ((rc = note_alarm(p, segment->first + (i / hop + 1) * hop, err)))
                return rc;
            if (pass_block(&rule, blocks, at + size - i - 1))
                break;
        }
    }
    return 0;
}

static int run_rule(struct alarm_progress *p, const struct alarm_config *rule, const struct score_trace *t, struct err *err) {
    const struct score_span whole = {0, t->n}, *segments = t->segments ? t->segments : &whole;
    int n = t->segments ? t->n_segments : 1, rc = 0;
    const float *x = t->p;
    const struct block *blocks = p->blocks;
    p->n_alarms = 0;
    for (int s = 0; !rc && s < n; s++) {
        int64_t size = segments[s].end - segments[s].first;
        rc = run_segment(p, rule, &segments[s], x, blocks, err);
        x += size + 1;
        blocks += blocks_of(size);
    }
    return rc;
}

static int keep_delays(struct alarm_point *point, const struct score_alarm_report *r, struct err *err) {
    if (!r->n_delays)
        return 0;
    double *more = realloc(point->delays_s, (size_t)(point->n_delays + r->n_delays) * sizeof *more);
    if (!more)
        return err_set(err, ERR_EXHAUSTED, "out of memory for alarm delays");
    point->delays_s = more;
    memcpy(more + point->n_delays, r->delays_s, (size_t)r->n_delays * sizeof *more);
    point->n_delays += r->n_delays;
    return 0;
}

static int try_rule(struct alarm_sweep *s, int index, const struct score_trace *t, struct err *err) {
    struct alarm_progress *p = s->progress;
    struct alarm_point *point = &s->points[index];
    struct score_alarm_report r;
    int rc = run_rule(p, &point->rule, t, err);
    if (rc)
        return rc;
    const struct score_alarms alarms = {t->name,    3600 * score_trace_hours(t), t->ref, p->at_s, t->n_ref, p->n_alarms, t->unsure,
                                        t->n_unsure};
    if ((rc = score_alarms(&alarms, 1, &r, err)))
        return rc;
    p->tallies[p->trace * s->n + index] = (struct tally){(int32_t)r.alarmed, (int32_t)r.false_alarms};
    point->alarmed += r.alarmed;
    point->false_alarms += r.false_alarms;
    rc = keep_delays(point, &r, err);
    score_alarm_report_done(&r);
    return rc;
}

/* ---- all rules on all traces ---- */

/* Sums over the recordings of each patient. */
struct patient {
    double alarmed, false_alarms, references, hours;
};

static void sum_patients(const struct alarm_sweep *s, int index, struct patient *ret) {
    const struct alarm_progress *p = s->progress;
    memset(ret, 0, (size_t)s->patients * sizeof *ret);
    for (int i = 0; i < p->n_traces; i++) {
        struct patient *to = &ret[p->patient[i]];
        const struct tally *tally = &p->tallies[i * s->n + index];
        to->alarmed += tally->alarmed;
        to->false_alarms += tally->false_alarms;
        to->references += p->traces[i].n_ref;
        to->hours += score_trace_hours(&p->traces[i]);
    }
}

static void finish_point(struct alarm_sweep *s, int index, struct patient *patients) {
    struct alarm_point *point = &s->points[index];
    double worst = 0;
    sum_patients(s, index, patients);
    for (int i = 0; i < s->patients; i++)
        worst = fmax(worst, patients[i].hours > 0 ? patients[i].false_alarms * 24 / patients[i].hours : 0);
    SORT(point->delays_s, point->n_delays, order_f64s);
    point->sensitivity = s->references ? (double)point->alarmed / (double)s->references : NAN;
    point->false_alarms_per_24h = s->hours > 0 ? (double)point->false_alarms * 24 / s->hours : NAN;
    point->worst_patient_false_alarms_per_24h = worst;
    point->delay_p50_s = score_percentile(point->delays_s, point->n_delays, 0.5);
    point->delay_p95_s = score_percentile(point->delays_s, point->n_delays, 0.95);
}

/* Alarms that all came before the onset are not late. */
static double lateness(const struct alarm_point *p) { return isnan(p->delay_p50_s) ? 0 : p->delay_p50_s; }

static bool better(const struct alarm_point *a, const struct alarm_point *b) {
    double worst = a->worst_patient_false_alarms_per_24h - b->worst_patient_false_alarms_per_24h;
    if (worst < 0 || worst > 0)
        return worst < 0;
    if (a->false_alarms != b->false_alarms)
        return a->false_alarms < b->false_alarms;
    if (a->rule.on < b->rule.on || a->rule.on > b->rule.on)
        return a->rule.on > b->rule.on;
    return a->rule.min_onset > b->rule.min_onset;
}

/* The point for a rate, or −1: most seizures, a median delay near the shortest of those, then the fewest false alarms. */
static int choose(const struct alarm_sweep *s, double rate) {
    int64_t most = 1;
    double soonest = INFINITY;
    int best = -1;
    for (int i = 0; i < s->n; i++)
        if (s->points[i].false_alarms_per_24h <= rate && s->points[i].alarmed > most)
            most = s->points[i].alarmed;
    for (int i = 0; i < s->n; i++)
        if (s->points[i].false_alarms_per_24h <= rate && s->points[i].alarmed == most)
            soonest = fmin(soonest, lateness(&s->points[i]));
    for (int i = 0; i < s->n; i++) {
        const struct alarm_point *p = &s->points[i];
        if (p->false_alarms_per_24h <= rate && p->alarmed == most && lateness(p) <= soonest + delay_slack_s &&
            (best < 0 || better(p, &s->points[best])))
            best = i;
    }
    return best;
}

/* 95 % intervals of a set: the wider of what patients drawn with replacement give, and of what the counts alone allow. */
static void put_intervals(const struct alarm_sweep *s, const struct patient *patients, double draws[2][DRAWS],
                          struct alarm_set *set, const struct alarm_point *point) {
    struct rng rng;
    int n[2] = {0, 0};
    rng_init(&rng, BOOTSTRAP_SEED, RNG_BOOTSTRAP, 0);
    for (int d = 0; d < DRAWS; d++) {
        struct patient sum = {0};
        for (int i = 0; i < s->patients; i++) {
            const struct patient *drawn = &patients[rng_below(&rng, (uint64_t)s->patients)];
            sum.alarmed += drawn->alarmed;
            sum.false_alarms += drawn->false_alarms;
            sum.references += drawn->references;
            sum.hours += drawn->hours;
        }
        if (sum.references > 0)
            draws[0][n[0]++] = sum.alarmed / sum.references;
        if (sum.hours > 0)
            draws[1][n[1]++] = sum.false_alarms * 24 / sum.hours;
    }
    for (int k = 0; k < 2; k++)
        qsort(draws[k], (size_t)n[k], sizeof draws[k][0], order_f64s);
    struct interval share = interval_share((double)point->alarmed, (double)s->references);
    struct interval count = interval_count((double)point->false_alarms);
    set->sensitivity_low = fmin(share.low, score_percentile(draws[0], n[0], 0.025));
    set->sensitivity_high = fmax(share.high, score_percentile(draws[0], n[0], 0.975));
    set->false_alarms_low = fmin(count.low * 24 / s->hours, score_percentile(draws[1], n[1], 0.025));
    set->false_alarms_high = fmax(count.high * 24 / s->hours, score_percentile(draws[1], n[1], 0.975));
}

static int choose_sets(struct alarm_sweep *s, struct patient *patients, struct err *err) {
    double(*draws)[DRAWS] = malloc(2 * sizeof *draws);
    if (!draws)
        return err_set(err, ERR_EXHAUSTED, "out of memory for intervals");
    for (int i = 0; i < ALARM_RATES; i++) {
        int best = choose(s, alarm_rates[i]);
        if (best < 0)
            continue;
        const struct alarm_point *p = &s->points[best];
        struct alarm_set *set = &s->sets.sets[s->sets.n];
        *set = (struct alarm_set){
            .rate = alarm_rates[i],
            .rule = p->rule,
            .alarm_hop_s = (double)s->progress->search.alarm_hop / RATE_HZ,
            SAME_MEMBERS(*s, hours, patients),
            .seizures = (double)s->references,
            SAME_MEMBERS(*p, sensitivity, false_alarms_per_24h, worst_patient_false_alarms_per_24h, delay_p50_s, delay_p95_s)};
        sum_patients(s, best, patients);
        put_intervals(s, patients, draws, set, p);
        s->chosen[s->sets.n++] = best;
    }
    free(draws);
    return 0;
}

static int finish(struct alarm_sweep *s, struct err *err) {
    struct patient *patients = calloc((size_t)s->patients + 1, sizeof *patients);
    if (!patients)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the scores of alarms");
    for (int i = 0; i < s->n; i++)
        finish_point(s, i, patients);
    int rc = choose_sets(s, patients, err);
    free(patients);
    end_progress(s);
    return rc;
}

int alarm_sweep_step(struct alarm_sweep *s, bool *ret_done, struct err *err) {
    struct alarm_progress *p = s->progress;
    *ret_done = !p;
    if (!p)
        return 0;
    if (p->trace == p->n_traces) {
        int rc = finish(s, err);
        *ret_done = !rc;
        return rc;
    }
    struct score_trace t = p->traces[p->trace];
    int rc = p->search.load ? p->search.load(p->search.ctx, p->trace, &t.p, err) : 0;
    if (!rc)
        rc = make_blocks(p, &t, err);
    for (int on = 0, n_on = s->n / (N_RATIOS * N_ONSETS); !rc && on < n_on; on++) { /* as make_points puts them */
        find_next(p, s->points[on].rule.on);
        for (int i = on; !rc && i < s->n; i += n_on)
            rc = try_rule(s, i, &t, err);
    }
    p->trace++;
    return rc;
}

void alarm_sweep_json(const struct alarm_sweep *s, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    alarm_sets_to_json(&s->sets, w, "sets");
    json_begin_array(w, "points");
    for (int i = 0; i < s->n; i++) {
        const struct alarm_point *p = &s->points[i];
        json_begin_object(w, NULL);
        JSON_MEMBERS(w, p->rule, on, off, min_onset);
        JSON_MEMBERS(w, *p, sensitivity, false_alarms_per_24h, worst_patient_false_alarms_per_24h, delay_p50_s);
        json_end(w, '}');
    }
    json_end(w, ']');
    json_end(w, '}');
}
