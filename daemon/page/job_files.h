/* job_files: what a job's folder holds for people: pictures, curves, the end of its log. Reads files and may wait for their volume;
 * bounded in bytes and number. Any thread. */
#ifndef BRR_DAEMON_PAGE_JOB_FILES_H
#define BRR_DAEMON_PAGE_JOB_FILES_H
#include "daemon/page/page.h"

/* path: "ID/NAME.svg", or "ID/plots/NAME.svg" and deeper: a picture in the job's folder, as it is. False: there is none. */
bool job_picture(struct html *h, const struct page_view *v, const char *path);
void job_put_pictures(struct html *h, const char *id, const char *directory);
void job_put_curves(struct html *h, const char *directory);
void job_put_log(struct html *h, const char *directory);
/* Rows of the tables of events that the job found, of a few recordings. */
void job_put_events(struct html *h, const char *directory);

#endif
