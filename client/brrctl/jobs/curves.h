/* curves: the course of a training (plot/course.h), fetched from the daemon, and as CSV. One thread. */
#pragma once
#include "client/brrctl/jobs/job_files.h"
#include "plot/course.h"

/* Exit code after printing the error, which names a job without curves. */
int curves_fetch(const struct arguments *o, const char *id, struct course *ret);
/* Prints a course that was read with whole lines: a row for each line, a column for each key in the order in which keys first
 * appear. A missing value is empty. */
void curves_print_csv(const struct course *c, FILE *out);
