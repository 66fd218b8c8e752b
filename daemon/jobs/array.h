/* array: jobs that a cluster gets together, as the tasks of one array, because their files say so (array.* in the job file, which
 * `brrctl sweep` sets): which jobs belong together, and whether all of them have been submitted. Plain functions over the jobs that
 * have not ended. Loop thread. */
#pragma once
#include "daemon/jobs/job.h"

/* Once no further job has come for so long, the array is taken as it is: the client has gone. */
enum { ARRAY_PATIENCE_MS = 60000 };

/* Copies array.* of the job file into the job. */
void array_read(struct job *job, const struct jobfile *file);
/* To be called when a job was submitted; it is one of the n open jobs. */
void array_entered(struct job *const *open, int n, const struct job *job, int64_t now_ms);
/* False: other jobs of its array are still to come. */
bool array_is_due(const struct job *job, int64_t now_ms);
/* The members of the job's array, by index, among the n open jobs; NULL where there is none. They have the same owner, executor and
 * resources. Returns the array's size; 0: the job is in none. */
int array_members(struct job *const *open, int n, const struct job *job, const struct job *ret[JOBFILE_MAX_ARRAY]);
