/* job_source: data.source as a list of sources, [{uri: …, weight: 2, name: …}, …] or [uri, …]. Any thread. */
#ifndef BRR_WORK_JOB_SOURCE_H
#define BRR_WORK_JOB_SOURCE_H
#include "work/job_data.h"

/* Reads the list into data->source, sources and n_sources, in the arena; a single source stays as it is. A name that is not given
 * is the last part of the URI. Weights are given for all sources or 1 for the others; without any they are 0. INVALID names the
 * item. */
int job_source_read(const struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err);
/* For the owner of a job with several sources: their roots become those of the job's record, where they are separated by line ends,
 * in the arena. INVALID: there are fewer. */
int job_source_place(const struct jobfile *job, const char *roots, struct arena *arena, struct err *err);

#endif
