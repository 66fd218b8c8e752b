#include "tools/edfgen/plan_rich.h"

#include "tools/edfgen/plan_parts.h"

/* Each scene is as strong, as long and as wide on the scalp as a seizure in some band, so that no threshold of band power tells
 * them apart. A seizure differs by its evolution: sharp waves in phase whose amplitude builds up and whose frequency falls. */

enum { LONGEST_SCENE_S = 90 };

void plan_rich_patient(struct rng *rng, struct patient *p) {
    p->reference = (enum reference)rng_below(rng, 3);
    p->mains_hz = rng_uniform(rng) < 0.5 ? 50 : 60;
    p->line = log_between(rng, 0.03f, 0.8f);
    p->muscle = log_between(rng, 0.05f, 0.35f);
    p->seizure_hz[0] = between(rng, 6, 9.5f);
    p->seizure_hz[1] = between(rng, 2.2f, 3.4f);
    p->distractors_per_hour = between(rng, 26, 40);
    p->spikes_per_hour = log_between(rng, 10, 200);
}

/* Normal, within what was measured. */
static float like(struct rng *rng, float mean, float deviation, float low, float high) {
    return fminf(high, fmaxf(low, mean + deviation * (float)rng_normal(rng)));
}

/* Means, deviations and ranges over twelve healthy adults of eegmat and eegmmidb (PhysioNet, ODC-By 1.0; tools/edfgen_spectra.py).
 */
void plan_people_patient(struct rng *rng, struct patient *p) {
    plan_rich_patient(rng, p);
    p->rms_uv = expf(like(rng, 2.32f, 0.59f, 1.64f, 3.74f));
    p->slope = like(rng, 0.71f, 0.18f, 0.51f, 1);
    p->alpha_hz = like(rng, 10.32f, 0.80f, 8.48f, 11.18f);
    p->alpha = expf(like(rng, 0.50f, 0.42f, -0.24f, 1.15f));
    p->muscle = log_between(rng, 0.18f, 1.03f); /* of two people: the others are filtered */
}

void plan_rich_seizure(struct rng *rng, const struct patient *p, struct event *e) {
    e->amplitude_uv = p->rms_uv * log_between(rng, 0.9f, 2.2f);
    e->growth = between(rng, 0.2f, 0.45f);
    e->build = between(rng, 0.25f, 0.7f);
}

/* ---- scenes ---- */

static void anywhere(struct rng *rng, float *x, float *y) {
    *x = between(rng, -0.9f, 0.9f);
    *y = between(rng, -0.9f, 0.9f);
}

/* A rhythm that may grow and spread like a seizure, but keeps its frequency; its harmonics have random phases. */
static void draw_rhythm(struct rng *rng, const struct patient *p, struct event *e) {
    float x, y, content = between(rng, 0, 0.5f);
    anywhere(rng, &x, &y);
    e->hz[0] = e->hz[1] = rng_uniform(rng) < 0.8 ? log_between(rng, 2.2f, 8) : between(rng, 8, 12);
    e->amplitude_uv = p->rms_uv * log_between(rng, 0.7f, 4);
    e->growth = rng_uniform(rng) < 0.6 ? between(rng, 0.2f, 0.6f) : 1;
    e->build = between(rng, 0.2f, 0.9f);
    for (int h = 0; h < HARMONICS; h++) {
        e->harmonic[h] = powf(content, (float)h);
        e->shift[h] = between(rng, 0, 1);
    }
    scalp_weights(x, y, log_between(rng, 0.35f, 1.5f), e->weight[0]);
    scalp_weights(x, y, log_between(rng, 0.8f, 2.5f), e->weight[1]);
    if (rng_uniform(rng) < 0.4)
        memcpy(e->weight[1], e->weight[0], sizeof e->weight[0]);
    for (int c = 0; c < ELECTRODES; c++)
        e->lag[c] = 0.12f * scalp_distance(c, x, y);
}

/* The eyes: slow rolling to the sides, or lids that flutter. */
static void draw_eyes(struct rng *rng, const struct patient *p, struct event *e) {
    bool rolling = rng_uniform(rng) < 0.5;
    e->hz[0] = e->hz[1] = rolling ? between(rng, 0.3f, 0.8f) : between(rng, 2, 6);
    e->amplitude_uv = p->rms_uv * log_between(rng, 1.5f, 5);
    e->harmonic[0] = 1;
    e->harmonic[1] = between(rng, 0, 0.4f);
    e->shift[1] = between(rng, 0, 1);
    for (int c = 0; c < ELECTRODES; c++) {
        float front = expf(2.2f * (SCALP[c].y - 1));
        e->weight[0][c] = e->weight[1][c] = front * (rolling ? SCALP[c].x * 1.4f : 1);
    }
}

static void draw_muscle(struct rng *rng, const struct patient *p, struct event *e) {
    e->amplitude_uv = p->rms_uv * log_between(rng, 0.4f, 3);
    scalp_weights(rng_uniform(rng) < 0.5 ? -1 : 1, between(rng, -0.4f, 0.9f), log_between(rng, 0.4f, 2), e->weight[0]);
}

/* A loose electrode: pops without end. */
static void add_pops(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length) {
    struct event one = {.kind = EVENT_POP, .first = first, .length = RATE_HZ};
    one.amplitude_uv = p->rms_uv * between(rng, 4, 14) * (rng_uniform(rng) < 0.5 ? -1 : 1);
    one.weight[0][rng_below(rng, ELECTRODES)] = 1;
    plan_add_train(rng, plan, &one, length, between(rng, 0.5f, 2));
}

/* Periodic discharges: interictal spikes at a fixed pace. */
static void add_discharges(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length) {
    struct event one = {.kind = EVENT_SPIKE, .first = first, .length = (int64_t)(0.4 * RATE_HZ)};
    one.amplitude_uv = p->rms_uv * between(rng, 2.5f, 6);
    scalp_weights(p->focus_x, p->focus_y, log_between(rng, 0.35f, 1.8f), one.weight[0]);
    plan_add_train(rng, plan, &one, length, between(rng, 0.7f, 2));
}

/* Waking up: faster waves and muscle at once. */
static void add_arousal(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length) {
    struct event *e = plan_add_event(plan, EVENT_RUN, first, length);
    draw_rhythm(rng, p, e);
    e->noise = rng_u32(rng);
    e = plan_add_event(plan, EVENT_MUSCLE, first, length);
    draw_muscle(rng, p, e);
    e->noise = rng_u32(rng);
}

static void add_scene(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length) {
    static const struct {
        float share; /* of all scenes */
        enum event_kind kind;
        void (*draw)(struct rng *rng, const struct patient *p, struct event *e); /* one event, or: */
        void (*add)(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length);
    } scenes[] = {
        {0.44f, EVENT_RUN, draw_rhythm, NULL},           {0.10f, EVENT_CHEWING, plan_draw_chewing, NULL},
        {0.12f, EVENT_ROCKING, plan_draw_rocking, NULL}, {0.10f, EVENT_RUN, draw_eyes, NULL},
        {0.08f, EVENT_MUSCLE, draw_muscle, NULL},        {0.05f, EVENT_POP, NULL, add_pops},
        {0.05f, EVENT_SPIKE, NULL, add_discharges},      {0.06f, EVENT_RUN, NULL, add_arousal},
    };
    float pick = (float)rng_uniform(rng);
    size_t i = 0;
    while (i + 1 < sizeof scenes / sizeof *scenes && pick >= scenes[i].share)
        pick -= scenes[i++].share;
    if (scenes[i].add) {
        scenes[i].add(rng, p, plan, first, length);
        return;
    }
    struct event *e = plan_add_event(plan, scenes[i].kind, first, length);
    scenes[i].draw(rng, p, e);
    e->noise = rng_u32(rng);
}

/* Scenes of 8 to 90 s, often one right after another, so that power stays high for as long as in a seizure. */
void plan_rich_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan) {
    float gap_s = fmaxf(20, 3600 / p->distractors_per_hour - 35);
    int64_t at = (int64_t)(between(rng, 0, 2 * gap_s) * RATE_HZ);
    for (;;) {
        int64_t length = (int64_t)(log_between(rng, 8, LONGEST_SCENE_S) * RATE_HZ);
        if (at + length > plan->samples)
            return;
        if (!plan_near_seizure(plan, at, at + length)) {
            add_scene(rng, p, plan, at, length);
            at += length;
        }
        float pause_s = rng_uniform(rng) < 0.35 ? between(rng, 0.5f, 4) : -1.5f * gap_s * logf(1 - (float)rng_uniform(rng));
        at += (int64_t)(pause_s * RATE_HZ);
    }
}

/* Awake with eyes open and closed in turn, drowsy, light and deep sleep, each for some minutes. */
void plan_rich_vigils(struct rng *rng, struct recording_plan *plan) {
    static const float depths[4][2] = {{0, 0.15f}, {0.15f, 0.4f}, {0.4f, 0.7f}, {0.7f, 1}};
    int stage = (int)rng_below(rng, 4);
    for (int64_t at = 0; at < plan->samples;) {
        int64_t end = at + (int64_t)(log_between(rng, 60, 900) * RATE_HZ);
        while (at < end) { /* depth and alpha wander within a stage */
            plan_add_vigil(plan, (struct vigil){at, between(rng, depths[stage][0], depths[stage][1]), rng_uniform(rng) < 0.5});
            at += (int64_t)(log_between(rng, 6, 90) * RATE_HZ);
        }
        bool deeper = stage == 0 || (stage < 3 && rng_uniform(rng) < 0.5);
        stage = deeper ? stage + 1 : rng_uniform(rng) < 0.3 ? 0 : stage - 1;
    }
}
