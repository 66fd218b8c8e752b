/* best: decides which of a run's validated weights are its best. A metric over few seizures varies by chance, so among weights
 * within the tolerance the newest are kept: their learning rate is the lowest, their average the longest. docs/scores.md. Pure. */
#pragma once
#include "base/base.h"

struct best_value {
    double metric; /* the metric shown to people: an F1, a loss */
    double rank;   /* the higher rank is better; NaN and infinite ranks are never kept */
    double chance; /* ≥ 0: the tolerance of the rank */
};

enum {
    BEST_MAX = 16, /* most weights to keep */
    STEP_NONE = -1 /* the step of what has not happened; step 0 is that of the weights before the first step */
};
struct best_scored {
    int64_t step;
    double rank;
};
struct best {
    int64_t step;                        /* of the kept weights; STEP_NONE before the first */
    double metric;                       /* their metric; NaN before the first */
    double highest;                      /* highest rank so far; NaN before the first */
    struct best_scored scored[BEST_MAX]; /* by rank, highest first; of equal ranks the newest first */
    int n_scored;
};
void best_init(struct best *b);
/* Returns true if the weights of `step` are kept; *ret_gain: true if their rank is the highest so far. */
bool best_offer(struct best *b, int64_t step, const struct best_value *v, bool *ret_gain);
/* Adds the rank of a step to `scored`; best_offer does so too. Ranks that are no finite numbers are ignored. */
void best_score(struct best *b, int64_t step, double rank);
/* True if the weights of `step` are the best, or among the keep - 1 others of the highest ranks. */
bool best_keeps(const struct best *b, int64_t step, int64_t keep);
/* True if ranks by this training.early_stopping.metric depend on AUROC, which breaks the ties of an F1. */
bool best_by_auroc(const char *metric);
