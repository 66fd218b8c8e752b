/* crew: threads that share a list of items. Each thread takes the next item, works on it, keeps its result and takes another one,
 * until the list ends or the crew is stopped. Items are taken in their order, each by one thread, and finish in any order: whenever
 * an item has begun, all earlier ones have. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { CREW_MAX_THREADS = 64 };

struct crew_work {
    int64_t n;   /* items, numbered from 0 */
    int threads; /* 1 to CREW_MAX_THREADS are used, no more than there are items */
    /* Works on one item, on a thread of the crew. */
    int (*run)(void *ctx, int64_t item, struct err *err);
    /* Called after run with its result, by one thread at a time; returns true if no further item is to begin. NULL: an error of one
     * item does not keep the others from beginning. It must not call the crew. */
    bool (*finished)(void *ctx, int64_t item, int rc);
    void *ctx; /* must outlive the crew */
};
struct crew;
/* Starts fewer threads when the system has no more. Errors: EXHAUSTED, and those of starting the first thread. */
int crew_start(const struct crew_work *work, struct crew **ret, struct err *err);
/* Stops the crew and frees it once the items in progress have finished. Takes NULL. */
void crew_close(struct crew *c);
OWNABLE(struct crew, crew_close)

/* Thread-safe: */

/* No further item begins; items in progress go on. */
void crew_stop(struct crew *c);
/* Waits until all threads have ended. Meanwhile calls `turn` (may be NULL) on this thread every 100 ms, and once at the end, with
 * the number of finished items and the item that finished last (0 while none has). When turn returns false, the crew is stopped,
 * turn is not called again, and crew_follow returns false. */
bool crew_follow(struct crew *c, bool (*turn)(void *ctx, int64_t done, int64_t newest), void *ctx);
/* Waits up to wait_ms until the item has finished; returns true if it has. */
bool crew_wait(struct crew *c, int64_t item, int wait_ms);
/* The result of a finished item; PRECONDITION for another one. */
int crew_result(struct crew *c, int64_t item, struct err *err);
/* The error of the item that failed first, in time; 0 when none has failed. */
int crew_failure(struct crew *c, struct err *err);
/* The number of finished items. */
int64_t crew_done(struct crew *c);
