/* curves: the course of a training (plot/course.h), fetched from the daemon, and as CSV. One thread. */
#pragma once
#include "client/brrctl/jobs/job_files.h"
#include "plot/course.h"

/* Exit code after printing the error, which names a job without curves. */
int curves_fetch(const struct arguments *o, const char *id, struct course *ret);
/* Of a course with whole lines: one row a line, one column a key, in the order of their first appearance; missing values are empty.
 */
void curves_print_csv(const struct course *c, FILE *out);
