/* lanes: items of work side by side, on the calling thread and on helpers that wait for its next work. The calling
 * thread takes items itself and returns when all are done: it never waits for a helper that the scheduler keeps
 * from a processor, unless that helper is in the middle of an item. A helper that comes late finds nothing left.
 * Work inside an item is done by that item's thread alone. Which thread has which item, and how many there are,
 * must not change a result. */
#pragma once
#include <stdint.h>

#include "base/err.h"

struct stream;

/* One item, on lane 0..lanes - 1: a lane has one thread at a time, so that items may keep memory for each lane. It
 * treats subnormal floats as the calling thread does. */
typedef void lanes_item(const void *ctx, int64_t i, int lane);
/* Items 0..n - 1, neighbours mostly on one lane, in no order; on one lane in order. */
void lanes_for(int lanes, int64_t n, lanes_item *item, const void *ctx);

/* The same of units that may fail. */
struct lanes_work {
    int (*run)(const void *ctx, int64_t unit, int lane, struct err *err);
    const void *ctx;
    int64_t first, n; /* units */
    int lanes;        /* 1: in order on the calling thread, up to the first error */
};
/* The error of one of the units that failed; with several lanes the others have run all the same. */
int lanes_run(const struct lanes_work *work, struct err *err);
/* As one call of stream s, on the thread that uses it: in the turn of its job, after live windows. The lanes have
 * streams of their own. */
int lanes_run_as(struct stream *s, const struct lanes_work *work, struct err *err);

/* Lanes of the calling thread: 1 inside an item, else those that were set last, else OMP_NUM_THREADS or the
 * processors. */
int lanes_here(void);
/* 0: none are set. Returns what was set before. */
int lanes_set_here(int lanes);
/* Ends the helpers of the calling thread; its next work starts new ones. For threads of a pool, each of which
 * would keep helpers for ever that it needs once. A thread that ends does so itself, and a fork begins without. */
void lanes_dismiss(void);
