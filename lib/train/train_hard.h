/* train_hard: the background windows that a training takes for seizures most (data.balance.hard). After a validation its weights
 * score the training's background, and the worst windows, of no patient more than twice its equal share, are shown more often from
 * then on (windows/sampler). They are part of the checkpoint, so that a training that was killed goes on with the same windows.
 * Internal to lib/train; the thread that drives the task. */
#pragma once
#include "train/train_state.h"

/* Replaces t->hard, with the weights that a validation judges; rank 0 finds the windows for all. Does nothing without
 * data.balance.hard. */
int train_hard_find(struct train *t, struct err *err);
/* The sampler draws from t->hard; no feed may be open. */
int train_hard_apply(struct train *t, struct err *err);
/* The windows as a member of the object open in w, and from such an object; without the member there are none. */
void train_hard_put(const struct train *t, struct json_writer *w);
int train_hard_get(struct train *t, const struct json *counters, struct err *err);
