/* plan_icu: what the icu style changes in a wide plan (plan_wide.h): patterns of intensive care that last for minutes and are no
 * seizures. Private to plan. */
#ifndef BRR_TOOLS_EDFGEN_PLAN_ICU_H
#define BRR_TOOLS_EDFGEN_PLAN_ICU_H
#include "tools/edfgen/plan.h"

/* Traits of a slow background; what fills a recording beside its seizures, from its first second on (ERR_EXHAUSTED without
 * memory). */
void plan_icu_patient(struct rng *rng, struct patient *p);
int plan_icu_scenes(struct rng *rng, const struct patient *p, struct recording_plan *plan);

#endif
