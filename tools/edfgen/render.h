/* render: plays a recording_plan as microvolts, one second at a time: 1/f background in regional and local sources, alpha, sleep
 * waves, spindles, muscle noise, drift and mains, suppressed outside of the plan's bursts if it has any, and the plan's events on
 * top. The same plan gives the same samples. One thread per renderer. */
#pragma once

#include "tools/edfgen/plan.h"

struct renderer;
struct renderer *render_new(const struct patient *patient, const struct recording_plan *plan);
void render_free(struct renderer *r);
/* The next RATE_HZ samples of every electrode against a common reference. */
void render_second(struct renderer *r, float uv[ELECTRODES][RATE_HZ]);
