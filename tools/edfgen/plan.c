#include "tools/edfgen/plan.h"

#include "base/needed.h"
#include "base/order.h"
#include "tools/edfgen/plan_icu.h"
#include "tools/edfgen/plan_parts.h"
#include "tools/edfgen/plan_rich.h"
#include "tools/edfgen/plan_wide.h"

enum {
    SEIZURE_MIN_S = 15,
    SEIZURE_MAX_S = 90,
    SEIZURE_APART_S = 125, /* 120 is promised; labels are rounded */
    SEIZURE_MARGIN_S = 35, /* 30 is promised */
    BURSTS_STEP = 1 << 20, /* of the patient's streams, beyond those of plan_recordings */
};

/* Streams of one patient: step 0 holds the traits, 1 the placing of seizures, 2 + r what happens in recording r, BURSTS_STEP + r
 * the bursts of recording r. */
static void patient_rng(struct rng *rng, const struct patient *p, uint32_t step) {
    rng_init(rng, p->seed, RNG_SYNTH + 1 + p->index, step);
}

void plan_patient(struct patient *p, uint64_t seed, uint32_t index, enum style style) {
    struct rng rng;
    *p = (struct patient){.seed = seed, .index = index, .style = style, .mains_hz = 60};
    patient_rng(&rng, p, 0);
    p->rms_uv = log_between(&rng, 11, 32);
    p->slope = between(&rng, 0.35f, 0.75f);
    p->alpha_hz = between(&rng, 8.3f, 11.5f);
    p->alpha = between(&rng, 0.6f, 1.5f);
    p->delta = between(&rng, 1.2f, 2.4f);
    p->line = between(&rng, 0.05f, 0.4f);
    p->muscle = between(&rng, 0.05f, 0.2f);
    int focus = (int)rng_below(&rng, ELECTRODES);
    p->focus_x = SCALP[focus].x + between(&rng, -0.1f, 0.1f);
    p->focus_y = SCALP[focus].y + between(&rng, -0.1f, 0.1f);
    p->elsewhere = between(&rng, 0.4f, 0.9f);
    p->seizure_hz[0] = between(&rng, 6.3f, 8);
    p->seizure_hz[1] = between(&rng, 2.5f, 3.3f);
    p->distractors_per_hour = between(&rng, 20, 36);
    p->spikes_per_hour = log_between(&rng, 5, 60);
    if (style == STYLE_RICH)
        plan_rich_patient(&rng, p);
    if (style == STYLE_PEOPLE)
        plan_people_patient(&rng, p);
    if (style == STYLE_WIDE)
        plan_wide_patient(&rng, p);
    if (style == STYLE_ICU)
        plan_icu_patient(&rng, p);
}

/* ---- seizures ---- */

/* Sharp spike and slow wave: harmonics in phase at the spike. Sharpness varies from seizure to seizure. */
static void spike_wave(struct rng *rng, struct event *e) {
    float sharpness = between(rng, 0.35f, 0.65f);
    for (int h = 0; h < HARMONICS; h++) {
        e->harmonic[h] = powf(sharpness, (float)h);
        e->shift[h] = 0.25f; /* a common maximum */
    }
}

static void draw_seizure(struct rng *rng, const struct patient *p, struct event *e) {
    float x = p->focus_x, y = p->focus_y;
    if (rng_uniform(rng) < p->elsewhere) {
        const struct electrode *other = &SCALP[rng_below(rng, ELECTRODES)];
        x = other->x;
        y = other->y;
    }
    x += between(rng, -0.3f, 0.3f);
    y += between(rng, -0.3f, 0.3f);
    e->amplitude_uv = p->rms_uv * between(rng, 0.7f, 2.5f);
    e->hz[0] = p->seizure_hz[0] * between(rng, 0.88f, 1.12f);
    e->hz[1] = p->seizure_hz[1] * between(rng, 0.88f, 1.12f);
    e->growth = between(rng, 0.4f, 0.7f);
    if (p->style != STYLE_SIMPLE)
        plan_rich_seizure(rng, p, e);
    spike_wave(rng, e);
    scalp_weights(x, y, between(rng, 0.35f, 0.55f), e->weight[0]);
    scalp_weights(x, y, between(rng, 1, 1.8f), e->weight[1]);
    for (int c = 0; c < ELECTRODES; c++)
        e->lag[c] = 0.12f * scalp_distance(c, x, y);
    e->noise = rng_u32(rng);
}

struct placed {
    int recording;
    int64_t length_s;
};

/* Recording time that is still free for seizures. */
static int64_t room_s(int64_t samples, const struct placed *placed, int n, int recording) {
    int64_t room = samples / RATE_HZ - 2 * SEIZURE_MARGIN_S + SEIZURE_APART_S;
    for (int i = 0; i < n; i++)
        if (placed[i].recording == recording)
            room -= placed[i].length_s + SEIZURE_APART_S;
    return room;
}

/* Lengths and recordings of all seizures; `longest` is lowered by the caller until they fit. */
static bool try_lengths(struct rng *rng, const int64_t *samples, int n, int seizures, int longest, struct placed *placed) {
    for (int i = 0; i < seizures; i++) {
        placed[i].length_s = SEIZURE_MIN_S + (int64_t)rng_below(rng, (uint64_t)(longest - SEIZURE_MIN_S + 1));
        /* A recording is drawn with the weight of its free time, among those where the seizure fits. */
        int64_t total = 0;
        for (int r = 0; r < n; r++) {
            int64_t room = room_s(samples[r], placed, i, r);
            total += room >= placed[i].length_s + SEIZURE_APART_S ? room : 0;
        }
        if (!total)
            return false;
        int64_t pick = (int64_t)rng_below(rng, (uint64_t)total);
        for (int r = 0; r < n; r++) {
            int64_t room = room_s(samples[r], placed, i, r);
            pick -= room >= placed[i].length_s + SEIZURE_APART_S ? room : 0;
            placed[i].recording = r;
            if (pick < 0)
                break;
        }
    }
    return true;
}

/* Seizures of one recording at random times: the free time is cut at sorted random points. */
static void place_seizures(struct rng *rng, const struct patient *p, const struct placed *placed, int n, int recording,
                           struct recording_plan *plan) {
    OWNED_MEMORY double *cuts = needed(malloc(((size_t)n + 1) * sizeof *cuts));
    int count = 0;
    for (int i = 0; i < n; i++)
        if (placed[i].recording == recording)
            cuts[count++] = rng_uniform(rng);
    qsort(cuts, (size_t)count, sizeof *cuts, order_f64s);
    double slack = (double)(room_s(plan->samples, placed, n, recording));
    double used = SEIZURE_MARGIN_S;
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (placed[i].recording != recording)
            continue;
        int64_t first = (int64_t)((used + cuts[k++] * slack) * RATE_HZ);
        struct event *e = plan_add_event(plan, EVENT_SEIZURE, first, placed[i].length_s * RATE_HZ);
        (p->style >= STYLE_WIDE ? plan_wide_seizure : draw_seizure)(rng, p, e);
        used += (double)(placed[i].length_s + SEIZURE_APART_S);
    }
}

/* ---- everything else ---- */

/* A rhythm of fixed frequency and place, as strong as a seizure; rounder, and its harmonics have random phases. */
static void draw_run(struct rng *rng, const struct patient *p, struct event *e) {
    float x = between(rng, -0.8f, 0.8f), y = between(rng, -0.8f, 0.8f), content = between(rng, 0, 0.25f);
    e->hz[0] = e->hz[1] = rng_uniform(rng) < 0.75 ? log_between(rng, 2.6f, 7.8f) : between(rng, 8, 11.5f);
    e->amplitude_uv = p->rms_uv * log_between(rng, 0.6f, 2.8f);
    e->growth = rng_uniform(rng) < 0.4 ? between(rng, 0.4f, 0.9f) : 1;
    for (int h = 0; h < HARMONICS; h++) {
        e->harmonic[h] = powf(content, (float)h);
        e->shift[h] = between(rng, 0, 1);
    }
    scalp_weights(x, y, log_between(rng, 0.4f, 2), e->weight[0]);
    memcpy(e->weight[1], e->weight[0], sizeof e->weight[0]);
    for (int c = 0; c < ELECTRODES; c++)
        e->lag[c] = 0.12f * scalp_distance(c, x, y);
}

static void add_distractors(struct rng *rng, const struct patient *p, struct recording_plan *plan) {
    const float mean_length_s = 25;
    float gap_s = 3600 / p->distractors_per_hour - mean_length_s;
    int64_t at = (int64_t)(between(rng, 0, 2 * gap_s) * RATE_HZ);
    for (;;) {
        int64_t length = (int64_t)(between(rng, 10, 40) * RATE_HZ);
        if (at + length > plan->samples)
            return;
        double kind = rng_uniform(rng);
        if (!plan_near_seizure(plan, at, at + length)) {
            struct event *e = plan_add_event(plan,
                                             kind < 0.64   ? EVENT_RUN
                                             : kind < 0.82 ? EVENT_CHEWING
                                                           : EVENT_ROCKING,
                                             at, length);
            if (e->kind == EVENT_RUN)
                draw_run(rng, p, e);
            else if (e->kind == EVENT_CHEWING)
                plan_draw_chewing(rng, p, e);
            else
                plan_draw_rocking(rng, p, e);
            e->noise = rng_u32(rng);
            at += length;
        }
        /* Often one follows the other at once, so that power stays high for as long as in a seizure. */
        float pause_s = rng_uniform(rng) < 0.35 ? between(rng, 0.5f, 4) : -1.5f * gap_s * logf(1 - (float)rng_uniform(rng));
        at += (int64_t)(pause_s * RATE_HZ);
    }
}

/* Short artefacts and spikes: Poisson in time. */
static void add_short_events(struct rng *rng, const struct patient *p, struct recording_plan *plan, enum event_kind kind,
                             float per_hour) {
    for (double at_s = 0;;) {
        at_s -= log(1 - rng_uniform(rng)) * 3600 / per_hour;
        int64_t first = (int64_t)(at_s * RATE_HZ);
        float length_s = kind == EVENT_BLINK    ? 0.4f
                         : kind == EVENT_MUSCLE ? log_between(rng, 0.5f, 6)
                         : kind == EVENT_POP    ? 2
                                                : 0.4f;
        if (first + (int64_t)(length_s * RATE_HZ) > plan->samples)
            return;
        struct event *e = plan_add_event(plan, kind, first, (int64_t)(length_s * RATE_HZ));
        float x, y;
        switch (kind) {
        case EVENT_BLINK:
            e->amplitude_uv = between(rng, 60, 160);
            scalp_weights(0, 1.1f, 0.4f, e->weight[0]);
            break;
        case EVENT_MUSCLE:
            e->amplitude_uv = p->rms_uv * log_between(rng, 0.4f, 2);
            x = rng_uniform(rng) < 0.5 ? -1 : 1;
            y = between(rng, -0.4f, 0.9f);
            scalp_weights(x, y, between(rng, 0.3f, 0.9f), e->weight[0]);
            break;
        case EVENT_POP:
            e->amplitude_uv = between(rng, 80, 350) * (rng_uniform(rng) < 0.5 ? -1 : 1);
            e->weight[0][rng_below(rng, ELECTRODES)] = 1;
            break;
        default:
            e->amplitude_uv = p->rms_uv * between(rng, 2.5f, 5);
            scalp_weights(p->focus_x, p->focus_y, between(rng, 0.3f, 0.6f), e->weight[0]);
        }
        memcpy(e->weight[1], e->weight[0], sizeof e->weight[0]);
        e->noise = rng_u32(rng);
    }
}

static void add_vigils(struct rng *rng, struct recording_plan *plan) {
    bool asleep = rng_uniform(rng) < 0.4;
    for (int64_t at = 0; at < plan->samples;) {
        int64_t end = at + (int64_t)(between(rng, 240, 1200) * RATE_HZ);
        if (asleep) {
            plan_add_vigil(plan, (struct vigil){at, between(rng, 0.4f, 1), true});
        } else {
            /* Awake: eyes open and closed in turn. */
            for (int64_t part = at; part < end;) {
                plan_add_vigil(plan, (struct vigil){part, between(rng, 0, 0.15f), rng_uniform(rng) < 0.5});
                part += (int64_t)(log_between(rng, 6, 90) * RATE_HZ);
            }
        }
        asleep = !asleep;
        at = end;
    }
}

ORDER_BY(by_first, struct event, order_then(order_i64(x->first, y->first), (int)x->kind - (int)y->kind))

static void plan_recording(const struct patient *p, const struct placed *placed, int seizures, int recording,
                           struct recording_plan *plan) {
    static const struct {
        enum event_kind kind;
        float per_hour;
    } artefacts[] = {{EVENT_BLINK, 400}, {EVENT_MUSCLE, 50}, {EVENT_POP, 12}};
    static void (*const scenes[])(struct rng * rng, const struct patient *p,
                                  struct recording_plan *plan) = {[STYLE_SIMPLE] = add_distractors,
                                                                  [STYLE_RICH] = plan_rich_scenes,
                                                                  [STYLE_PEOPLE] = plan_rich_scenes,
                                                                  [STYLE_WIDE] = plan_wide_scenes,
                                                                  [STYLE_ICU] = plan_icu_scenes};
    struct rng rng;
    patient_rng(&rng, p, 2 + (uint32_t)recording);
    plan->noise = rng_u32(&rng);
    place_seizures(&rng, p, placed, seizures, recording, plan);
    scenes[p->style](&rng, p, plan);
    for (size_t i = 0; i < sizeof artefacts / sizeof *artefacts; i++)
        add_short_events(&rng, p, plan, artefacts[i].kind, artefacts[i].per_hour);
    add_short_events(&rng, p, plan, EVENT_SPIKE, p->spikes_per_hour);
    (p->style == STYLE_SIMPLE ? add_vigils : plan_rich_vigils)(&rng, plan);
    if (plan->n_events)
        qsort(plan->events, plan->n_events, sizeof *plan->events, by_first);
}

int plan_recordings(const struct patient *p, const int64_t *samples, int n, int seizures, struct recording_plan *plans,
                    struct err *err) {
    struct rng rng;
    patient_rng(&rng, p, 1);
    OWNED_MEMORY struct placed *placed = needed(calloc((size_t)seizures + 1, sizeof *placed));
    bool fits = false;
    for (int longest = SEIZURE_MAX_S; !fits && longest >= SEIZURE_MIN_S; longest -= 5)
        fits = try_lengths(&rng, samples, n, seizures, longest, placed);
    if (!fits)
        return err_set(err, ERR_RANGE,
                       "%d seizures of 15 s or more, 120 s apart and 30 s from the ends, do not fit one patient's hours; "
                       "give fewer seizures or more hours",
                       seizures);
    for (int r = 0; r < n; r++) {
        plans[r].samples = samples[r];
        plan_recording(p, placed, seizures, r, &plans[r]);
    }
    return 0;
}

/* ---- burst suppression ---- */

static void place_bursts(struct rng *rng, double ratio, struct recording_plan *plan) {
    const float shortest_s = 1.2f, longest_s = 3;
    float pause_s = (shortest_s + longest_s) / 2 * (float)(ratio / (1 - ratio));
    size_t most = (size_t)(plan->samples / (int64_t)(shortest_s * RATE_HZ)) + 1;
    plan->bursts = needed(calloc(most, sizeof *plan->bursts));
    for (int64_t at = 0;;) {
        at += (int64_t)(pause_s * between(rng, 0.5f, 1.5f) * RATE_HZ);
        int64_t end = at + (int64_t)(between(rng, shortest_s, longest_s) * RATE_HZ);
        if (end + (int64_t)(pause_s / 2 * RATE_HZ) > plan->samples)
            return;
        plan->bursts[plan->n_bursts++] = (struct burst){at, end};
        at = end;
    }
}

void plan_burst_suppression(const struct patient *p, const int64_t *samples, int n, double ratio, struct recording_plan *plans) {
    for (int r = 0; r < n; r++) {
        struct rng rng;
        patient_rng(&rng, p, BURSTS_STEP + (uint32_t)r);
        plans[r].samples = samples[r];
        plans[r].noise = rng_u32(&rng);
        /* Coma: slow waves as in the deepest sleep, no alpha rhythm. */
        plan_add_vigil(&plans[r], (struct vigil){0, 1, true});
        place_bursts(&rng, ratio, &plans[r]);
    }
}

void plan_done(struct recording_plan *plan) {
    FREE_MEMBERS(*plan, bursts, events, vigils);
    *plan = (struct recording_plan){0};
}
