/* job_row: a job of a status as a line of a table, which can be sorted, or at length while it runs. For the pages. */
#pragma once
#include "daemon/page/html.h"
#include "daemon/status/status.h"

/* Begins the table. A page of jobs that are chosen has boxes, and heads by which it is sorted (page_view.sort, "" for none); others
 * have neither: NULL. */
void job_put_head(struct html *h, const char *sort);
void job_put_row(struct html *h, const struct status_job *j, bool box);
/* Sorts pointers to at most STATUS_JOBS jobs by a column, "f1", or from its end, "-f1". Jobs without a value of it
 * come last. Others keep their order. */
void job_sort(const struct status_job **jobs, int n, const char *sort);
void job_put_foot(struct html *h);
void job_put_running(struct html *h, const struct status *s, const struct job *j); /* s: which has it */
