/* train_validate: a validation inside a training, over whole recordings, a few windows per step. The thread that drives the task.
 * Internal to lib/run. */
#ifndef BRR_RUN_TRAIN_VALIDATE_H
#define BRR_RUN_TRAIN_VALIDATE_H
#include "run/train_state.h"

/* The average of the weights takes the place of the weights, where there is one, until the end. */
int train_validate_start(struct train *t, struct err *err);
int train_validate_step(struct train *t, bool *ret_done, struct validation_result *ret, struct err *err);
/* Also without a start, and after an error. */
int train_validate_end(struct train *t, struct err *err);

#endif
