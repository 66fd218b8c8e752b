/* job_row: a job of a status as a line of a table, or at length while it runs. For the pages. */
#ifndef BRR_DAEMON_PAGE_JOB_ROW_H
#define BRR_DAEMON_PAGE_JOB_ROW_H
#include "daemon/page/html.h"
#include "daemon/status/status.h"

void job_put_head(struct html *h); /* begins the table */
void job_put_row(struct html *h, const struct status_job *j, int64_t now_ms);
void job_put_foot(struct html *h);
void job_put_running(struct html *h, const struct status_job *j, int64_t now_ms);

#endif
