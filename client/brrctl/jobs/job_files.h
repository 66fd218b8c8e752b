/* job_files: files of a job's folder, which the daemon sends: curves, reports, pictures, events. One thread. */
#pragma once

#include "client/brrctl/brrctl.h"

/* A whole file; valid during the call. Returns 0 to go on; any other value ends the transfer with *err. */
struct job_file {
    const char *path; /* relative to the job's folder; stays below it */
    const char *data; /* NUL-terminated; the NUL is not counted */
    size_t len;
};
typedef int job_files_fn(void *ctx, const struct job_file *file, struct err *err);
/* Visits the files whose paths match one of the n shell patterns ("*" matches '/' too). Returns an exit code after printing the
 * error.
 */
int job_files_each(const struct arguments *o, const char *id, const char *const *patterns, size_t n, job_files_fn *visit,
                   void *ctx);
/* Writes them below a directory here. */
int job_files_fetch(const struct arguments *o, const char *id, const char *const *patterns, size_t n, const char *directory);

/* The job itself, or NULL after printing the error. */
Brr__V1__Job *job_files_job(const struct arguments *o, const char *id, int *ret_exit);
