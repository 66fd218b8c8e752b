#include "daemon/models/pool_share.h"

#include "base/queue.h"
#include "kernels/lanes.h"

static void on_work(uv_work_t *work) {
    struct pool_work *w = work->data;
    w->run(w);
    lanes_dismiss();
}

static void on_done(uv_work_t *work, int status);

/* The first in the line whose owner has room. */
static struct pool_work *next_of(const struct pool_share *share) {
    const int most = (share->most + 1) / 2;
    for (struct pool_work *w = share->first; w; w = w->next) {
        int own = 0;
        for (const struct pool_work *other = share->running; other; other = other->next)
            own += other->owner == w->owner;
        if (!w->owner || own < most)
            return w;
    }
    return NULL;
}

static void begin(struct pool_share *share) {
    for (struct pool_work *w; share->working < share->most && (w = next_of(share));) {
        LIST_REMOVE(share->first, w, next);
        LIST_ADD_LAST(share->running, w, next);
        w->waiting = false;
        share->working++;
        uv_queue_work(w->work.loop, &w->work, on_work, on_done); /* fails only if the work function is NULL */
    }
}

static void on_done(uv_work_t *work, int status) {
    struct pool_work *w = work->data;
    struct pool_share *share = w->share;
    (void)status;
    LIST_REMOVE(share->running, w, next);
    share->working--;
    begin(share);
    w->done(w);
}

void pool_share_start(struct pool_share *share, uv_loop_t *loop, struct pool_work *w, void (*run)(struct pool_work *w),
                      void (*done)(struct pool_work *w)) {
    LIST_ADD_LAST(share->first, w, next);
    w->waiting = true;
    w->share = share;
    w->run = run;
    w->done = done;
    w->work.data = w;
    w->work.loop = loop;
    begin(share);
}

bool pool_share_cancel(struct pool_work *w) {
    if (!w->waiting)
        return false;
    LIST_REMOVE(w->share->first, w, next);
    w->waiting = false;
    return true;
}
