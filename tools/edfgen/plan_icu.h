/* plan_icu: what the icu style changes in a wide plan (plan_wide.h): patterns of intensive care that last for minutes and are no
 * seizures. Private to plan. */
#pragma once
#include "tools/edfgen/plan.h"

/* Traits of a slow background; what fills a recording beside its seizures, from its first second on. */
void plan_icu_patient(struct rng *rng, struct patient *p);
void plan_icu_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan);
