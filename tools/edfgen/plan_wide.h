/* plan_wide: what the wide style changes in a rich plan (plan_rich.h): patients and seizures of all kinds that a network may meet.
 * Private to plan. */
#pragma once
#include "tools/edfgen/plan.h"

/* Traits drawn wider; a seizure whole, its waveform and places included; the muscle in seizures, beside the rich scenes. */
void plan_wide_patient(struct rng *rng, struct patient *p);
void plan_wide_seizure(struct rng *rng, const struct patient *p, struct event *e);
void plan_wide_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan);
