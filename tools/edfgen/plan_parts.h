/* plan_parts: the pieces of a plan that all styles of corpus are made of. Private to plan, plan_rich, plan_wide and plan_icu. */
#pragma once

#include "tools/edfgen/plan.h"

static inline float between(struct rng *rng, float low, float high) { return low + (high - low) * (float)rng_uniform(rng); }
static inline float log_between(struct rng *rng, float low, float high) { return low * powf(high / low, (float)rng_uniform(rng)); }

/* A new event at the end of the plan's list, valid until the next one is added. */
struct event *plan_add_event(struct recording_plan *plan, enum event_kind kind, int64_t first, int64_t length);
/* Copies of a short event: every 1/hz with jitter, over `length` samples from its own first one on. */
void plan_add_train(struct rng *rng, struct recording_plan *plan, const struct event *one, int64_t length, float hz);
void plan_add_vigil(struct recording_plan *plan, struct vigil vigil);
/* Whether samples [first, end) touch a seizure or the seconds around it. PRECONDITION: the seizures lead the plan's events. */
bool plan_near_seizure(const struct recording_plan *plan, int64_t first, int64_t end);
void plan_draw_chewing(struct rng *rng, const struct patient *p, struct event *e);
void plan_draw_rocking(struct rng *rng, const struct patient *p, struct event *e);
