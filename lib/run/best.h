/* best: which of a run's validated weights are kept as its best. A metric of few seizures is partly chance, so of weights that are
 * as good but for chance the newest are kept: their learning rate is the lowest, their average the longest. docs/scores.md. Pure.
 */
#ifndef BRR_RUN_BEST_H
#define BRR_RUN_BEST_H
#include <stdbool.h>
#include <stdint.h>

struct best_value {
    double metric; /* as people know it: an F1, a loss */
    double rank;   /* of two, the higher is better; NaN and infinite ones are never kept */
    double chance; /* ≥ 0: how much of the rank may be luck */
};

struct best {
    int64_t step;   /* whose weights are kept; 0 = none yet */
    double metric;  /* theirs; NaN before the first */
    double highest; /* rank of all; NaN before the first */
};
void best_init(struct best *b);
/* Whether the weights of `step` are kept; *ret_gain: whether their rank is higher than ever, chance or not. */
bool best_offer(struct best *b, int64_t step, const struct best_value *v, bool *ret_gain);

#endif
