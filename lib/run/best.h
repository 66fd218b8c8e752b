/* best: which of a run's validated weights are kept as its best. A metric of few seizures is partly chance, so of weights that are
 * as good but for chance the newest are kept: their learning rate is the lowest, their average the longest. docs/scores.md. Pure.
 */
#ifndef BRR_RUN_BEST_H
#define BRR_RUN_BEST_H
#include <stdbool.h>
#include <stdint.h>

struct best {
    int64_t step;           /* whose weights are kept; 0 = none yet */
    double metric, highest; /* of the kept ones; of all: NaN before the first */
};
void best_init(struct best *b);
/* The weights of `step` with this metric (higher is better; NaN and infinite ones are never kept) of which `chance` (≥ 0) may be
 * luck. Whether they are kept; *ret_gain: whether the metric is higher than ever, chance or not. */
bool best_offer(struct best *b, int64_t step, double metric, double chance, bool *ret_gain);

#endif
