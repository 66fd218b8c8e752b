/* observer: the frames of one network on their way to one reader. The host adds them, the loop takes them; neither waits
 * for the other. Bounded by frames and bytes, and by the bytes that all observers share: when full, the oldest frames of this one
 * are dropped and counted as missed, then the new one, so a reader that does not read never slows the network. Shared by both
 * threads and freed by whoever releases it last. Any thread, except where noted.
 */
#pragma once

#include "base/mailbox.h"
#include "burst/burst_data.h"

enum { OBSERVER_FRAMES = 4096, OBSERVER_MOST_FRAMES = 65536, OBSERVER_BYTES = 16 << 20, OBSERVER_SHARED_BYTES = 256 << 20 };

/* Bytes of frames that observers hold together, those taken and not yet freed too. Outlives observers and frames. */
struct observer_share {
    int64_t most;
    atomic_int_least64_t used;
};

struct observer;
/* The caller holds it. frames: 1 to OBSERVER_MOST_FRAMES; a frame of more than OBSERVER_BYTES waits alone. wake is called on the
 * worker's thread once frames wait, and again only after the reader has found none. NULL when out of memory. */
struct observer *observer_new(int frames, struct observer_share *share, mailbox_wake_fn *wake, void *wake_ctx);
void observer_hold(struct observer *o);
void observer_release(struct observer *o); /* NULL is fine */

/* The worker: copies the frame; nothing once the reader has left. */
void observer_add(struct observer *o, const struct burst_frame *frame);
bool observer_has_left(struct observer *o);
/* The worker: no frame follows, since the network has ended. */
void observer_end(struct observer *o);

struct observer_frame {
    struct observer_frame *next;
    struct observer_share *share;
    uint64_t tick;
    int64_t candidates, fired;
    uint32_t ids[];
};
void observer_frame_free(struct observer_frame *f); /* NULL is fine */
/* The loop: the oldest frame, which the caller frees, or NULL; then *ret_ended says whether more can follow.
 * ret_missed: frames dropped so far. */
struct observer_frame *observer_take(struct observer *o, int64_t *ret_missed, bool *ret_ended);
/* The loop: nobody reads any more. Frees what waits. */
void observer_leave(struct observer *o);
