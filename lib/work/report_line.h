/* report_line: a report of a task (report.h) as one line of JSON. `brrd run --json` writes such lines; the daemon reads them from
 * the children and the clusters that run jobs for it. Any thread. */
#pragma once

#include "work/report.h"

/* What the last line says beside the report; texts are borrowed. */
struct report_frame {
    const char *job, *kind, *checkpoint; /* checkpoint: the newest one's file, NULL if there is none */
    const char *state, *reason;          /* "succeeded", "interrupted" or "failed" */
};
/* Appends the line without a line end. `frame`: of TASK_END; else NULL. */
void report_write(struct str *out, const struct task_report *report, const struct report_frame *frame);

/* A line that was read; report and frame point into it. */
struct report_line {
    struct task_report report;
    struct report_frame frame;
    struct task_progress progress;
    struct task_checkpoint checkpoint;
    struct task_end end;
    struct json *tree;
};
/* Free it with report_line_done after success. INVALID: no report, such as a line that a kill has torn. */
int report_read(const char *line, size_t len, struct report_line *ret, struct err *err);
void report_line_done(struct report_line *line);
