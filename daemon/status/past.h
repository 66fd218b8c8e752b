/* past: the seizure probability of a stream over the last hours, one point for PAST_STEP_MS: the highest value in it. Shared by
 * reference: the loop adds points, threads that draw it copy them. Bounded: the oldest points go. */
#pragma once
#include "base/base.h"

enum { PAST_STEP_MS = 10 * 1000, PAST_POINTS = 6 * 360 /* six hours */, PAST_BACK_MS = 60 * 1000 };

struct past;
struct past *past_new(void); /* one reference; NULL when out of memory */
struct past *past_share(struct past *t);
void past_drop(struct past *t); /* NULL is fine */
/* A value at a time of day; NaN: there is none. A time at most PAST_BACK_MS before the newest point counts as that one. An earlier
 * time means that the clock was set back: the points after it go, and the series continues from there. */
void past_put(struct past *t, int64_t wall_ms, float p);
/* The points that end at `wall_ms`, oldest first, NaN where there is none. Any thread. */
void past_copy(struct past *t, int64_t wall_ms, float ret[PAST_POINTS]);
