/* pool_share: file work on libuv's thread pool, of which each class of work has a share. Work beyond the share waits in a line, so
 * that a volume that does not answer holds the threads of the classes that use it and no others. Of work that has an owner, one
 * owner has at most half of the share. Loop thread, except `run`. */
#pragma once
#include "base/base.h"
#include <uv.h>

struct pool_work {
    uv_work_t work;
    void (*run)(struct pool_work *w);  /* on a thread of the pool */
    void (*done)(struct pool_work *w); /* on the loop */
    struct pool_share *share;
    uint64_t owner;         /* a number for the caller; 0 = none. Set before pool_share_start */
    struct pool_work *next; /* in the line, or among those that run */
    bool waiting;           /* in the line */
};

/* Zeroed but for `most`. */
struct pool_share {
    int most, working; /* pieces of work at a time */
    struct pool_work *first, *running;
};

/* Calls run on the pool, then done; w must live until then. */
void pool_share_start(struct pool_share *share, uv_loop_t *loop, struct pool_work *w, void (*run)(struct pool_work *w),
                      void (*done)(struct pool_work *w));
/* True if the work had not begun: neither function will be called. */
bool pool_share_cancel(struct pool_work *w);
