#include "run/best.h"

#include <math.h>

/* Ranks closer than this are equal: one recording more or less moves them further. */
static const double resolution = 1e-5;

void best_init(struct best *b) { *b = (struct best){.metric = NAN, .highest = NAN}; }

bool best_offer(struct best *b, int64_t step, const struct best_value *v, bool *ret_gain) {
    bool first = isnan(b->highest);
    *ret_gain = isfinite(v->rank) && (first || v->rank > b->highest + resolution);
    if (!isfinite(v->rank) || !(first || v->rank >= b->highest - fmax(v->chance, resolution)))
        return false;
    b->step = step;
    b->metric = v->metric;
    b->highest = first ? v->rank : fmax(b->highest, v->rank);
    return true;
}
