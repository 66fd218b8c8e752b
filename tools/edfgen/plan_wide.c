#include "tools/edfgen/plan_wide.h"

#include "tools/edfgen/plan_parts.h"
#include "tools/edfgen/plan_rich.h"

/* A kind of seizure: its frequencies at the start, which fall to the share of `falls`, and what its waves are like. */
struct kind {
    float share; /* of all seizures */
    float hz[2], falls[2];
    float growth[2]; /* amplitude at the start over that of the plateau */
    float sharpness[2];
    float first_width[2], last_width[2]; /* of the place on the scalp */
};
static const struct kind KINDS[] = {
    {0.45f, {3, 14}, {0.2f, 0.9f}, {0.1f, 0.8f}, {0, 0.65f}, {0.3f, 0.8f}, {0.6f, 2.5f}}, /* a rhythm that slows down */
    {0.20f, {2.5f, 4.5f}, {0.75f, 1}, {0.5f, 1}, {0.45f, 0.75f}, {0.8f, 2.5f}, {1, 3}},   /* spikes and waves, at once and wide */
    {0.20f, {13, 25}, {0.12f, 0.5f}, {0.06f, 0.3f}, {0, 0.5f}, {0.4f, 2}, {0.6f, 2.5f}},  /* begins low and fast */
    {0.15f, {1, 4}, {0.7f, 1.1f}, {0.15f, 0.9f}, {0, 0.5f}, {0.35f, 1}, {0.5f, 2.5f}},    /* slow waves */
};

void plan_wide_patient(struct rng *rng, struct patient *p) {
    plan_rich_patient(rng, p);
    p->rms_uv = log_between(rng, 6, 50);
    p->slope = between(rng, 0.25f, 0.85f);
    p->alpha_hz = between(rng, 7, 12);
    p->alpha = between(rng, 0.2f, 2);
    p->muscle = log_between(rng, 0.03f, 0.6f);
}

static const struct kind *draw_kind(struct rng *rng) {
    float pick = (float)rng_uniform(rng);
    size_t i = 0;
    while (i + 1 < sizeof KINDS / sizeof *KINDS && pick >= KINDS[i].share)
        pick -= KINDS[i++].share;
    return &KINDS[i];
}

static float within(struct rng *rng, const float range[2]) { return between(rng, range[0], range[1]); }

/* Harmonics with a common maximum, or, in a third of the seizures, with phases of their own. */
static void draw_waves(struct rng *rng, float sharpness, struct event *e) {
    bool free_phases = rng_uniform(rng) < 1.0 / 3;
    for (int h = 0; h < HARMONICS; h++) {
        e->harmonic[h] = h ? powf(sharpness, (float)h) : 1;
        e->shift[h] = free_phases ? between(rng, 0, 1) : 0.25f;
    }
}

void plan_wide_seizure(struct rng *rng, const struct patient *p, struct event *e) {
    const struct kind *k = draw_kind(rng);
    float x = p->focus_x, y = p->focus_y;
    if (rng_uniform(rng) < p->elsewhere) {
        x = between(rng, -0.9f, 0.9f);
        y = between(rng, -0.9f, 0.9f);
    }
    e->hz[0] = log_between(rng, k->hz[0], k->hz[1]);
    e->hz[1] = fmaxf(1, e->hz[0] * log_between(rng, k->falls[0], k->falls[1]));
    e->growth = log_between(rng, k->growth[0], k->growth[1]);
    e->build = between(rng, 0.1f, 0.9f);
    e->amplitude_uv = p->rms_uv * log_between(rng, 1.5f, 10);
    draw_waves(rng, within(rng, k->sharpness), e);
    scalp_weights(x, y, within(rng, k->first_width), e->weight[0]);
    scalp_weights(x, y, within(rng, k->last_width), e->weight[1]);
    if (rng_uniform(rng) < 0.25)
        memcpy(e->weight[1], e->weight[0], sizeof e->weight[0]);
    float lag = between(rng, 0, 0.25f);
    for (int c = 0; c < ELECTRODES; c++)
        e->lag[c] = lag * scalp_distance(c, x, y);
    e->noise = rng_u32(rng);
}

/* Muscle in the later part of some seizures. */
static void add_muscle(struct rng *rng, const struct patient *p, struct recording_plan *plan) {
    size_t seizures = plan->n_events;
    for (size_t i = 0; i < seizures; i++) {
        int64_t length = plan->events[i].length, late = (int64_t)(between(rng, 0.1f, 0.6f) * (float)length);
        if (rng_uniform(rng) >= 0.4)
            continue;
        struct event *e = plan_add_event(plan, EVENT_MUSCLE, plan->events[i].first + late, length - late);
        e->amplitude_uv = p->rms_uv * log_between(rng, 0.3f, 2.5f);
        scalp_weights(rng_uniform(rng) < 0.5 ? -1 : 1, between(rng, -0.4f, 0.9f), log_between(rng, 0.6f, 2.5f), e->weight[0]);
        e->noise = rng_u32(rng);
    }
}

void plan_wide_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan) {
    add_muscle(rng, p, plan);
    plan_rich_scenes(rng, p, plan);
}
