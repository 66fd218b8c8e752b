/* evaluate_report: what an evaluate task leaves behind: scores, events of each recording, plots, a table and the whole report. The
 * thread that drives the task, except where noted. Internal to lib/evaluate. */
#pragma once
#include "evaluate/evaluate_state.h"

/* Scores of all recordings under the thresholds in force. */
int evaluate_report_score(struct evaluate *e, struct err *err);
/* events/PATH_events.tsv and, for the first evaluate.plots of them, whose samples must be loaded, plots/PATH.svg of recording
 * `index`. Several threads at a time. */
int evaluate_report_recording(struct evaluate *e, int index, struct err *err);
/* The member "baselines" of an object: a list of what baseline_json writes. */
void evaluate_report_baselines(const struct evaluate *e, struct json_writer *w);
/* report.json: everything; recordings.tsv: a line per recording; selected.json: whom it chose thresholds on, if any. */
int evaluate_report_write(struct evaluate *e, struct err *err);
