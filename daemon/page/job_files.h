/* job_files: what a job's record and folder hold for people: results, pictures, curves, the end of its log. Reads files and may
 * wait for their volume; bounded in bytes and number. Any thread. */
#pragma once
#include "base/json.h"
#include "daemon/jobs/job.h"
#include "daemon/page/page.h"

enum { JOB_CURVES_MOST = 8 };

/* The record of a job that the reader may see, from the database; NULL and why. To be freed with job_free. */
struct job *job_record(const struct page_view *v, const char *id, struct err *err);
/* path: "ID/NAME.svg", or "ID/plots/NAME.svg" and deeper: a picture in the job's folder, as it is. False: there is none. */
bool job_picture(struct html *h, const struct page_view *v, const char *path);
void job_put_pictures(struct html *h, const char *id, const char *directory);
void job_put_curves(struct html *h, const char *directory);
/* Draws the curves of up to JOB_CURVES_MOST jobs, a drawing for each quantity with a curve for each job. */
void job_put_curves_of(struct html *h, struct job *const *jobs, int n);
/* Key and value of a result as cells of a table; value NULL: none. */
void job_put_name(struct html *h, const char *key);
void job_put_value(struct html *h, const struct json *value);
void job_put_log(struct html *h, const char *directory);
/* Rows of the tables of events that the job found, of a few recordings. */
void job_put_events(struct html *h, const char *directory);
