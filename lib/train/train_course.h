/* train_course: the course of a training: metrics.jsonl, a line per ten steps and per validation, and training.svg drawn from it.
 * The thread that drives the task. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* One line of metrics.jsonl; v is NULL for a line of kind "step". The log says so when lines begin to be lost. */
void train_course_add(struct train *t, const char *kind, const struct validation_result *v);
/* training.svg from all lines; the log says so when it cannot be drawn. */
void train_course_draw(struct train *t);
