/* plan_rich: what the rich style adds to a plan (plan.h): traits, seizures, scenes and sleep as on a ward. Private to plan. */
#pragma once
#include "tools/edfgen/plan.h"

/* Further traits; a seizure's amplitude, frequencies and build-up; everything else that happens; sleep. */
void plan_rich_patient(struct rng *rng, struct patient *p);
void plan_people_patient(struct rng *rng, struct patient *p); /* and with the waking background of people */
void plan_rich_seizure(struct rng *rng, const struct patient *p, struct event *e);
void plan_rich_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan);
void plan_rich_vigils(struct rng *rng, struct recording_plan *plan);
