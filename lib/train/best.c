#include "train/best.h"

/* Ranks closer than this are equal: one recording more or less moves them further. */
static const double resolution = 1e-5;

void best_init(struct best *b) { *b = (struct best){.step = STEP_NONE, .metric = NAN, .highest = NAN}; }

void best_score(struct best *b, int64_t step, double rank) {
    int at = 0;
    if (!isfinite(rank))
        return;
    while (at < b->n_scored && b->scored[at].rank > rank)
        at++;
    if (at == BEST_MAX)
        return;
    b->n_scored += b->n_scored < BEST_MAX;
    memmove(b->scored + at + 1, b->scored + at, sizeof *b->scored * (size_t)(b->n_scored - at - 1));
    b->scored[at] = (struct best_scored){step, rank};
}

bool best_keeps(const struct best *b, int64_t step, int64_t keep) {
    int64_t others = 0;
    if (step == b->step)
        return true;
    for (int i = 0; i < b->n_scored && others < keep - 1; i++) {
        if (b->scored[i].step == step)
            return true;
        others += b->scored[i].step != b->step;
    }
    return false;
}

bool best_offer(struct best *b, int64_t step, const struct best_value *v, bool *ret_gain) {
    bool first = isnan(b->highest);
    best_score(b, step, v->rank);
    *ret_gain = isfinite(v->rank) && (first || v->rank > b->highest + resolution);
    if (!isfinite(v->rank) || !(first || v->rank >= b->highest - fmax(v->chance, resolution)))
        return false;
    b->step = step;
    b->metric = v->metric;
    b->highest = first ? v->rank : fmax(b->highest, v->rank);
    return true;
}

bool best_by_auroc(const char *metric) { return strcmp(metric, "loss") != 0 && !str_starts(metric, "sensitivity_at"); }
