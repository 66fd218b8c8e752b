/* lanes: units of work side by side, each on one thread of the OpenMP pool. Parallel regions inside a unit have one thread, so a
 * unit waits for no other. Where threads are shared with other work that costs less than one unit on all threads, which waits at
 * the end of every region for the thread that was interrupted. */
#pragma once
#include <stdint.h>

#include "base/err.h"

struct stream;

struct lanes_work {
    /* One unit, on lane 0..lanes - 1: a lane has its own thread, the same one in every call from the same thread. */
    int (*run)(const void *ctx, int64_t unit, int lane, struct err *err);
    const void *ctx;
    int64_t first, n; /* units */
    int lanes;        /* 1: in order on the calling thread */
};
/* The error of one of the units that failed; with several lanes the others have run all the same. */
int lanes_run(const struct lanes_work *work, struct err *err);
/* As one call of stream s, on the thread that uses it: in the turn of its job, after live windows. The lanes have streams of their
 * own. */
int lanes_run_as(struct stream *s, const struct lanes_work *work, struct err *err);
/* Ends the threads that parallel regions of the calling thread left waiting; the next region starts new ones. For threads of a
 * pool, each of which would keep a team for ever that it needs once. */
void lanes_dismiss(void);
