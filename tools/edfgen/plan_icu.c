#include "tools/edfgen/plan_icu.h"

#include "tools/edfgen/plan_parts.h"
#include "tools/edfgen/plan_wide.h"

void plan_icu_patient(struct rng *rng, struct patient *p) {
    plan_wide_patient(rng, p);
    p->delta = between(rng, 0.6f, 2);
    p->alpha = between(rng, 0, 0.4f);
    p->spikes_per_hour = log_between(rng, 1, 30);
}

/* A pattern lies all over the scalp, most of all in front, or on one side. */
static void draw_place(struct rng *rng, float weight[ELECTRODES]) {
    if (rng_uniform(rng) < 0.5)
        scalp_weights(0, between(rng, -0.2f, 0.9f), log_between(rng, 1.5f, 5), weight);
    else
        scalp_weights(rng_uniform(rng) < 0.5 ? -0.6f : 0.6f, between(rng, -0.7f, 0.7f), log_between(rng, 0.4f, 1), weight);
}

/* Discharges at a pace of their own, every one with its after-going slow wave. */
static void add_periodic(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length) {
    struct event one = {.kind = EVENT_SPIKE, .first = first, .length = (int64_t)(0.4 * RATE_HZ)};
    one.amplitude_uv = p->rms_uv * log_between(rng, 3, 12);
    draw_place(rng, one.weight[0]);
    plan_add_train(rng, plan, &one, length, log_between(rng, 0.5f, 2.5f));
}

/* Rhythmic delta: waves of one frequency, round or sharp. */
static void add_rhythmic(struct rng *rng, const struct patient *p, struct recording_plan *plan, int64_t first, int64_t length) {
    struct event *e = plan_add_event(plan, EVENT_RUN, first, length);
    float content = between(rng, 0, 0.6f);
    e->hz[0] = e->hz[1] = log_between(rng, 0.7f, 4);
    e->amplitude_uv = p->rms_uv * log_between(rng, 1.5f, 6);
    e->growth = 1;
    for (int h = 0; h < HARMONICS; h++) {
        e->harmonic[h] = powf(content, (float)h);
        e->shift[h] = between(rng, 0, 1);
    }
    draw_place(rng, e->weight[0]);
    memcpy(e->weight[1], e->weight[0], sizeof e->weight[0]);
    e->noise = rng_u32(rng);
}

void plan_icu_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan) {
    for (int64_t at = 0; at + 10 * RATE_HZ < plan->samples;) {
        int64_t length = (int64_t)(log_between(rng, 15, 240) * RATE_HZ), left = plan->samples - at;
        length = length < left ? length : left;
        while (length > 10 * RATE_HZ && plan_near_seizure(plan, at, at + length)) /* until the seizure, if there is time */
            length -= 5 * RATE_HZ;
        double kind = rng_uniform(rng);
        if (!plan_near_seizure(plan, at, at + length) && kind >= 0.15)
            (kind < 0.6 ? add_periodic : add_rhythmic)(rng, p, plan, at, length);
        at += length;
    }
}
