#include "tools/edfgen/plan_parts.h"

#include "base/needed.h"

enum { QUIET_AROUND_SEIZURE_S = 4 };

/* Room for one item more. */
static void *grown(void *items, size_t n, size_t *capacity, size_t bytes_each) {
    if (n < *capacity)
        return items;
    *capacity = *capacity ? *capacity * 2 : 256;
    return needed(realloc(items, *capacity * bytes_each));
}

struct event *plan_add_event(struct recording_plan *plan, enum event_kind kind, int64_t first, int64_t length) {
    plan->events = grown(plan->events, plan->n_events, &plan->event_capacity, sizeof *plan->events);
    struct event *e = &plan->events[plan->n_events++];
    *e = (struct event){.kind = kind, .first = first, .length = length, .growth = 1, .build = 0.5f};
    return e;
}

void plan_add_vigil(struct recording_plan *plan, struct vigil vigil) {
    plan->vigils = grown(plan->vigils, plan->n_vigils, &plan->vigil_capacity, sizeof *plan->vigils);
    plan->vigils[plan->n_vigils++] = vigil;
}

bool plan_near_seizure(const struct recording_plan *plan, int64_t first, int64_t end) {
    const int64_t margin = QUIET_AROUND_SEIZURE_S * RATE_HZ;
    for (size_t i = 0; i < plan->n_events && plan->events[i].kind == EVENT_SEIZURE; i++)
        if (first < plan->events[i].first + plan->events[i].length + margin && end > plan->events[i].first - margin)
            return true;
    return false;
}

void plan_draw_chewing(struct rng *rng, const struct patient *p, struct event *e) {
    e->hz[0] = e->hz[1] = between(rng, 1, 1.9f);
    e->amplitude_uv = p->rms_uv * log_between(rng, 0.8f, 2.5f);
    for (int c = 0; c < ELECTRODES; c++) {
        float lateral = fabsf(SCALP[c].x);
        e->weight[0][c] = e->weight[1][c] = (0.08f + lateral * lateral * lateral) * between(rng, 0.6f, 1);
    }
}

void plan_draw_rocking(struct rng *rng, const struct patient *p, struct event *e) {
    e->hz[0] = e->hz[1] = between(rng, 0.6f, 2.4f);
    e->amplitude_uv = p->rms_uv * log_between(rng, 0.8f, 3);
    for (int h = 0; h < HARMONICS; h++) {
        e->harmonic[h] = powf(between(rng, 0.2f, 0.7f), (float)h);
        e->shift[h] = between(rng, 0, 1);
    }
    for (int c = 0; c < ELECTRODES; c++) {
        e->weight[0][c] = e->weight[1][c] = between(rng, -1, 1);
        e->lag[c] = between(rng, 0, 0.1f);
    }
}

void plan_add_train(struct rng *rng, struct recording_plan *plan, const struct event *one, int64_t length, float hz) {
    for (int64_t at = one->first, end = at + length; at + one->length < end;) {
        struct event *e = plan_add_event(plan, one->kind, at, one->length);
        float strength = between(rng, 0.7f, 1.2f);
        e->amplitude_uv = one->amplitude_uv * strength;
        memcpy(e->weight, one->weight, sizeof e->weight);
        e->noise = rng_u32(rng);
        at += (int64_t)(RATE_HZ / hz * between(rng, 0.85f, 1.15f));
    }
}
