/* The sweep of alarm rules against one that looks at every sample, counts in its own way, and chooses by its own order. */

#include "base/order.h"
#include "base/rng.h"
#include "score/alarm_sweep.h"
#include "seed.h"
#include "unit/cmocka_all.h"

enum { TRACES = 5, SEGMENTS = 2, HOP = 640, MAX_N = 70000, MAX_ALARMS = 4096 };

struct recording {
    float p[MAX_N];
    struct score_span segments[SEGMENTS];
    struct score_event ref[4];
};
static struct recording recordings[TRACES];
static struct score_trace traces[TRACES];
static uint64_t seed;

/* Probabilities that wander, with plateaus longer than a block, and high inside of most references. */
static void fill(struct rng *rng, const struct score_trace *t, float *p) {
    float level = 0.2f;
    int64_t at = 0;
    for (int s = 0; s < t->n_segments; s++, at++) {
        int64_t first = t->segments[s].first, n = t->segments[s].end - first;
        if (s)
            p[at - 1] = NAN;
        for (int64_t i = 0; i < n; i++) {
            double time = (double)(first + i) / 256;
            bool inside = false;
            for (int k = 0; k < t->n_ref; k++)
                inside |= time >= t->ref[k].onset_s + 2 && time < t->ref[k].end_s;
            if (rng_below(rng, 300) == 0)
                level = (float)rng_uniform(rng) * (inside ? 1.f : 0.7f) + (inside ? 0.2f : 0);
            p[at + i] = i < 30 * 256 ? NAN : fminf(level + (rng_below(rng, 2) ? 0.01f : 0), 1);
        }
        at += n;
    }
}

static void make_traces(void) {
    static const char *const patients[TRACES] = {"a", "b", "a", "c", "b"};
    struct rng rng;
    rng_init(&rng, seed, RNG_SYNTH, 7);
    for (int i = 0; i < TRACES; i++) {
        struct recording *r = &recordings[i];
        int64_t first = 20000 + (int64_t)rng_below(&rng, 5000), second = 22000 + (int64_t)rng_below(&rng, 20000);
        r->segments[0] = (struct score_span){0, first};
        r->segments[1] = (struct score_span){first + 3000, first + 3000 + second};
        int n_ref = i == 3 ? 0 : 2;
        r->ref[0] = (struct score_event){40, 60};
        r->ref[1] = (struct score_event){(double)(first + 3000) / 256 + 45, (double)(first + 3000) / 256 + 70};
        traces[i] = (struct score_trace){.name = "r",
                                         .subject = patients[i],
                                         .p = r->p,
                                         .duration_s = (double)r->segments[1].end / 256,
                                         .ref = r->ref,
                                         .n_ref = n_ref,
                                         .segments = r->segments,
                                         .n_segments = SEGMENTS};
        traces[i].n = score_trace_length(r->segments, SEGMENTS);
        assert_true(traces[i].n < MAX_N);
        fill(&rng, &traces[i], r->p);
    }
}

static int each_alarm(const struct score_trace *t, const struct alarm_config *c, double *ret_s) {
    int n = 0;
    int64_t at = 0;
    for (int s = 0; s < t->n_segments; s++) {
        int64_t run = 0, since = 0;
        bool on = false;
        for (int64_t i = t->segments[s].first; i < t->segments[s].end; i++, at++) {
            if (isnan(t->p[at]))
                continue;
            since += on;
            run = (on ? (double)t->p[at] < c->off : (double)t->p[at] >= c->on) ? run + 1 : 0;
            if (!on && run >= c->min_onset) {
                int64_t end = t->segments[s].first;
                while (end <= i)
                    end += HOP;
                ret_s[n++] = (double)end / 256;
                on = true;
                run = since = 0;
            } else if (on && run >= c->min_offset && since >= c->latch) {
                on = false;
                run = 0;
            }
        }
        at++;
    }
    return n;
}

struct counted {
    int alarmed, references, wrong;
    double hours;
};

static struct counted count(const struct score_trace *t, const struct alarm_config *c, double *delays, int *n_delays) {
    static double at_s[MAX_ALARMS];
    int n = each_alarm(t, c, at_s);
    struct counted r = {.references = t->n_ref, .hours = t->duration_s / 3600};
    for (int k = 0; k < n; k++) {
        bool near = false;
        for (int j = 0; j < t->n_ref; j++)
            near |= at_s[k] >= t->ref[j].onset_s - 30 && at_s[k] <= t->ref[j].end_s + 60;
        r.wrong += !near;
    }
    for (int j = 0; j < t->n_ref; j++) {
        bool found = false, timed = false;
        for (int k = 0; k < n; k++) {
            if (at_s[k] < t->ref[j].onset_s - 30 || at_s[k] > t->ref[j].end_s + 60)
                continue;
            found = true;
            if (!timed && at_s[k] >= t->ref[j].onset_s) {
                delays[(*n_delays)++] = at_s[k] - t->ref[j].onset_s;
                timed = true;
            }
        }
        r.alarmed += found;
    }
    return r;
}

static void check_point(const struct alarm_sweep *s, const struct alarm_point *p) {
    double delays[16], hours[256] = {0}, wrong[256] = {0}, worst = 0, all_hours = 0;
    int n_delays = 0, alarmed = 0, false_alarms = 0;
    for (int i = 0; i < TRACES; i++) {
        struct counted c = count(&traces[i], &p->rule, delays, &n_delays);
        alarmed += c.alarmed;
        false_alarms += c.wrong;
        all_hours += c.hours;
        hours[(int)*traces[i].subject] += c.hours;
        wrong[(int)*traces[i].subject] += c.wrong;
    }
    for (int i = 'a'; i <= 'c'; i++)
        worst = fmax(worst, wrong[i] / hours[i] * 24);
    qsort(delays, (size_t)n_delays, sizeof *delays, order_f64s);
    assert_int_equal(p->alarmed, alarmed);
    assert_int_equal(p->false_alarms, false_alarms);
    assert_int_equal(p->n_delays, n_delays);
    assert_true(fabs(p->worst_patient_false_alarms_per_24h - worst) < 1e-9);
    assert_true(fabs(p->false_alarms_per_24h - false_alarms / all_hours * 24) < 1e-9);
    assert_true(fabs(p->sensitivity - alarmed / (double)s->references) < 1e-12);
    for (int i = 0; i < n_delays; i++)
        assert_true(fabs(p->delays_s[i] - delays[i]) < 1e-9);
}

static void run(struct alarm_sweep *s, int64_t latch) {
    struct alarm_search search = {.base = {.min_offset = 256, .latch = latch}, .alarm_hop = HOP};
    bool done = false;
    assert_int_equal(alarm_sweep_begin(traces, TRACES, &search, s, NULL), 0);
    while (!done)
        assert_int_equal(alarm_sweep_step(s, &done, NULL), 0);
}

static void every_rule_scores_as_if_each_sample_were_looked_at(void **state) {
    (void)state;
    struct alarm_sweep s;
    int64_t alarmed = 0, wrong = 0;
    for (int latch = 0; latch < 2; latch++) {
        run(&s, latch * 20 * 256);
        assert_true(s.n > 100 && s.references == 8 && s.patients == 3);
        for (int i = 0; i < s.n; i++) {
            check_point(&s, &s.points[i]);
            alarmed += s.points[i].alarmed;
            wrong += s.points[i].false_alarms;
        }
        alarm_sweep_done(&s);
    }
    assert_true(alarmed > 100 && wrong > 100);
}

/* A set is as sensitive as any rule within its rate, within its rate, and the intervals hold what was measured. */
static void sets_are_the_most_sensitive_within_their_rates(void **state) {
    (void)state;
    struct alarm_sweep s;
    run(&s, 60 * 256);
    for (int k = 0; k < s.sets.n; k++) {
        const struct alarm_set *set = &s.sets.sets[k];
        const struct alarm_point *chosen = &s.points[s.chosen[k]];
        int64_t most = 0;
        assert_true(chosen->false_alarms_per_24h <= set->rate && chosen->alarmed > 0);
        assert_memory_equal(&set->rule, &chosen->rule, sizeof set->rule);
        for (int i = 0; i < s.n; i++)
            if (s.points[i].false_alarms_per_24h <= set->rate && s.points[i].alarmed > most)
                most = s.points[i].alarmed;
        assert_int_equal(chosen->alarmed, most);
        for (int i = 0; i < s.n; i++) {
            const struct alarm_point *p = &s.points[i];
            if (p->false_alarms_per_24h <= set->rate && p->alarmed == most && p->delay_p50_s <= chosen->delay_p50_s)
                assert_true(p->worst_patient_false_alarms_per_24h >= chosen->worst_patient_false_alarms_per_24h);
        }
        assert_true(set->sensitivity_low <= set->sensitivity && set->sensitivity <= set->sensitivity_high);
        assert_true(set->false_alarms_low <= set->false_alarms_per_24h && set->false_alarms_per_24h <= set->false_alarms_high);
        assert_true(set->false_alarms_high > 3 * 24 / s.hours); /* none in so few hours proves little */
        assert_true(set->rule.latch == 60 * 256 && set->alarm_hop_s == 2.5);
    }
    alarm_sweep_done(&s);
}

/* One seizure with a clear alarm at once; others high for too short to count. */
static void a_clear_seizure_has_a_set_for_every_rate(void **state) {
    (void)state;
    struct alarm_sweep s;
    for (int i = 0; i < TRACES; i++) {
        int64_t at = 0;
        for (int k = 0; k < SEGMENTS; k++, at++)
            for (int64_t t = traces[i].segments[k].first; t < traces[i].segments[k].end; t++, at++) {
                float *p = &recordings[i].p[at];
                double time = (double)t / 256;
                if (isnan(*p))
                    continue;
                *p = t % 1000 < 100 ? 0.95f : 0.1f;
                for (int j = 0; j < traces[i].n_ref; j++)
                    *p = time >= traces[i].ref[j].onset_s + 3 && time < traces[i].ref[j].end_s ? 0.9f : *p;
            }
    }
    run(&s, 0);
    assert_int_equal(s.sets.n, ALARM_RATES);
    for (int k = 0; k < ALARM_RATES; k++) {
        const struct alarm_set *set = &s.sets.sets[k];
        assert_true(set->sensitivity == 1 && set->false_alarms_per_24h == 0 && set->rule.min_onset > 100);
        assert_true(set->delay_p50_s > 3 && set->delay_p50_s < 11);
    }
    alarm_sweep_done(&s);
}

static int setup(void **state) {
    (void)state;
    make_traces();
    return 0;
}

int main(void) {
    seed = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(every_rule_scores_as_if_each_sample_were_looked_at, setup),
        cmocka_unit_test_setup(sets_are_the_most_sensitive_within_their_rates, setup),
        cmocka_unit_test_setup(a_clear_seizure_has_a_set_for_every_rate, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
