/* train_curve: the scores of a training over the answers of readers that it learns from: answers.json and answers.svg in its
 * folder. Each point is a training of its own, a task in a folder below answers/, which begins with the same weights and counts the
 * first of the answers (train_answers); its last weights are scored on the validation recordings. A point is written when it is
 * whole; one that was interrupted goes on from its own checkpoints. The task's thread. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* Makes the points that are missing, after a training has finished and has given back what it computes with. t->drawing is true
 * from then on, and t->point is the training of the present point, NULL between points; work: of trainings. A point that cannot be
 * trained on so few answers has no scores. Returns TASK_STOP as task_point does. */
int train_curve_draw(struct train *t, const struct task_work *work, struct err *err);
