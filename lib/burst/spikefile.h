/* spikefile: what goes into a network and what comes out of it, as files: injections as a table, fired neurons as numpy's .npy. */
#pragma once
#include "burst/burst_data.h"

/* A tab-separated table with the header `tick id potential`, ticks from 1, of at most 64 MiB. *ret is malloc'd, in the order of the
 * file. INVALID names file, line and column. */
int spikefile_read_injections(const char *path, struct burst_injection **ret, int64_t *ret_n, struct err *err);

/* INVALID, with file and line, unless all n injections of the table at path are for one of the neurons. */
int spikefile_check_injections(const char *path, const struct burst_injection *list, int64_t n, int64_t neurons, struct err *err);

/* Reads fired neurons of a file ".npy" (int64 [n,2] of tick and id) or ".tsv" (header `tick id`, at most 64 MiB), sorted by both;
 * sink is called once for each tick with a spike, in order; candidates and events are 0. INVALID names the file and its row. */
typedef void spikefile_sink(void *ctx, const struct burst_frame *frame);
int spikefile_read_fired(const char *path, spikefile_sink *sink, void *ctx, struct err *err);

/* Fired neurons while a network runs: an int64 array [n,2] of (tick, id), sorted as ticks come. The file appears when it is closed.
 * After an error only spikefile_abort. */
struct spikefile {
    struct fsio_writer out;
    int64_t rows;
    int64_t *pairs; /* those of one call */
    int64_t room;
};
int spikefile_open(struct spikefile *f, const char *path, struct err *err);
int spikefile_add(struct spikefile *f, const struct burst_frame *frame, struct err *err);
int spikefile_close(struct spikefile *f, struct err *err);
/* The same file for float32 rows of `columns` values each, such as membranes. */
int spikefile_add_row(struct spikefile *f, const float *row, int64_t columns, struct err *err);
int spikefile_close_rows(struct spikefile *f, int64_t columns, struct err *err);
void spikefile_abort(struct spikefile *f);
