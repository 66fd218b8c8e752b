/* train_report: the figures of a training so far: its result object, and report.json in its folder. Internal to lib/train. */
#pragma once
#include "train/train_state.h"

/* task_work.result. Scores are those of the validation patients, on whom weights and thresholds were selected ("selected_on"). */
void train_report_result(void *task, struct json_writer *w, const char *key);
/* The points of the curve over answers, as an array. */
void train_curve_put(const struct train *t, struct json_writer *w, const char *key);
/* Replaces report.json: the result and the names of the patients in each role. A failure is a line of the log. */
void train_report_write(struct train *t);
