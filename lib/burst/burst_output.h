/* burst_output: the files that a burst job writes while its network ticks: fired neurons, rates of areas, membranes. Each grows as
 * DIR/NAME.part, is cut back to where a checkpoint was when the job resumes, and gets its name at the end; so a job that was killed
 * leaves the same bytes as one that was not. Also counts what a result tells. One owner, one thread; all
 * functions that write may block on the volume. */
#pragma once
#include "base/json.h"
#include "burst/burst.h"
#include "burst/burst_kind.h"
#include "burst/ledger.h"
#include "work/task.h"

/* A file that grows at its end. fd -1: not open. */
struct burst_growing {
    int fd;
    char path[4096], part[4096];
    int64_t bytes; /* those in the buffer too */
    char *buffer;
    size_t used;
};

struct burst_output {
    const struct burst_config *config;
    const struct connectome *net; /* names of areas, and the area of each neuron */
    struct burst_growing fired, rates, membranes;
    int64_t ticks, spikes, events; /* so far */
    int64_t spike_rows, membrane_rows;
    int64_t *area_neurons, *area_spikes, *row_spikes; /* (n_areas): all, all, since the last row of rates */
    float *v;                                         /* (n) NULL without membranes */
    struct ledger ledger;                             /* its state is a part of the checkpoint's */
    char ledger_path[4096];                           /* "": no file */
};

/* Where the files and counts stood at a checkpoint, as JSON; NULL: a new job. ret must stay where it is. DATA_LOSS when a file is
 * shorter than it was then. After a failure nothing is open. net and config must stay. */
int burst_output_open(struct burst_output *ret, const struct task_env *env, const struct burst_config *config,
                      const struct connectome *net, const struct json *counts, struct err *err);
/* Host memory that the ledger of a job with so many neurons takes at most. */
int64_t burst_output_ledger_bytes(const struct burst_config *config, int64_t neurons);
void burst_output_close(struct burst_output *o); /* also of a zeroed struct; .part files stay */
/* One tick, in order. */
int burst_output_add(struct burst_output *o, const struct burst_frame *frame, struct err *err);
/* Ticks until the membranes must be given, at most n. */
int64_t burst_output_until_membranes(const struct burst_output *o, int64_t n);
/* After each slice of ticks: writes the membranes if they are due now. */
int burst_output_membranes(struct burst_output *o, struct burst *b, struct err *err);
/* Makes everything durable and writes the counts as an open object's members. */
int burst_output_sync(struct burst_output *o, struct json_writer *counts, struct err *err);
/* Gives all files their names. */
int burst_output_finish(struct burst_output *o, struct err *err);
/* Members of the result object. */
void burst_output_result(const struct burst_output *o, struct json_writer *w);
