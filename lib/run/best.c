#include "run/best.h"

#include <math.h>

/* Metrics closer than this are equal: one recording more or less moves them further. */
static const double resolution = 1e-5;

void best_init(struct best *b) { *b = (struct best){.metric = NAN, .highest = NAN}; }

bool best_offer(struct best *b, int64_t step, double metric, double chance, bool *ret_gain) {
    bool first = isnan(b->highest);
    *ret_gain = isfinite(metric) && (first || metric > b->highest + resolution);
    if (!isfinite(metric) || !(first || metric >= b->highest - fmax(chance, resolution)))
        return false;
    b->step = step;
    b->metric = metric;
    b->highest = first ? metric : fmax(b->highest, metric);
    return true;
}
