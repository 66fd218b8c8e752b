#include "eeg/background.h"

static const double QUANTILE = 0.4, DOUBLING_S = 240, NEAR = 0.25;
static const double PRIOR_S = 5, PRIOR_DEVIATION = 0.6, KNOWN_S = 20, KNOWN_DEVIATION = 0.2, KNOWN_HALF_S = 600;

void background_start(struct background *b, double prior, bool learns) {
    *b = (struct background){.learns = learns, .prior = prior, .level = prior};
}

double background_worth_s(double gap_s) { return KNOWN_S * exp2(-gap_s / KNOWN_HALF_S); }

/* The share of a normal distribution below x, times its worth. */
static double normal_share(double x, double median, double deviation, double worth) {
    return worth / 2 * erfc((median - x) / (deviation * M_SQRT2));
}

static int64_t heard_below(const struct background *b, double x) {
    int64_t first = 0, end = b->heard;
    while (first < end) {
        int64_t middle = (first + end) / 2;
        if (b->values[middle] <= x)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

/* The quantile of both priors and of what was heard. */
static double quantile(const struct background *b) {
    enum { HALVINGS = 40 };
    const double prior = PRIOR_S * BACKGROUND_BLOCKS_PER_S, wanted = QUANTILE * (prior + b->worth + (double)b->heard);
    double low = -16, high = 16; /* of ln µV */
    for (int i = 0; i < HALVINGS; i++) {
        const double x = (low + high) / 2;
        double below = normal_share(x, b->prior, PRIOR_DEVIATION, prior) + (double)heard_below(b, x);
        below += b->worth > 0 ? normal_share(x, b->known, KNOWN_DEVIATION, b->worth) : 0;
        if (below < wanted)
            low = x;
        else
            high = x;
    }
    return high;
}

static void settle_level(struct background *b) {
    const double highest = b->level > b->prior ? b->level : b->prior;
    b->level = fmin(quantile(b), highest);
}

void background_resume(struct background *b, double gap_s) {
    b->known = b->level;
    b->worth = background_worth_s(gap_s) * BACKGROUND_BLOCKS_PER_S;
    b->heard = 0;
    settle_level(b);
}

void background_hear(struct background *b, double value) {
    static const double rate = 1 / (DOUBLING_S * BACKGROUND_BLOCKS_PER_S) / NEAR; /* in ln 2, of the distance up to NEAR */
    if (!b->learns || b->heard == BACKGROUND_LEARNED) {
        b->level += b->holds ? 0 : M_LN2 * rate * fmin(fmax(value - b->level, -NEAR), NEAR);
        return;
    }
    const int64_t at = heard_below(b, value);
    memmove(b->values + at + 1, b->values + at, (size_t)(b->heard++ - at) * sizeof *b->values);
    b->values[at] = value;
    settle_level(b);
}

int background_left_s(const struct background *b) {
    const int64_t left = b->learns ? BACKGROUND_LEARNED - b->heard : 0;
    return (int)((left + BACKGROUND_BLOCKS_PER_S - 1) / BACKGROUND_BLOCKS_PER_S);
}

void background_pack(struct background *b, struct packer *p) {
    PACKED_MEMBERS(p, *b, level);
    packed_require(p, isfinite(b->level));
    if (!b->learns)
        return;
    PACKED_MEMBERS(p, *b, known, worth);
    PACKED(p, b->heard, 0, BACKGROUND_LEARNED);
    packed_bytes(p, b->values, sizeof *b->values * (size_t)b->heard);
    packed_require(p, isfinite(b->known) && b->worth >= 0 && isfinite(b->worth));
    for (int64_t i = 0; !p->from.failed && i < b->heard; i++)
        packed_require(p, isfinite(b->values[i]) && (!i || b->values[i] >= b->values[i - 1]));
}
