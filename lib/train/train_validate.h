/* train_validate: a validation inside a training, over whole recordings. The task's thread. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* Validates the present weights, or their average where there is one: the average takes the place of the weights meanwhile
 * (optim.exchanged). Calls task_point between pieces of work: TASK_STOP ends the validation, and a resumed training begins it anew.
 */
int train_validate(struct train *t, struct validation_result *ret, struct err *err);
