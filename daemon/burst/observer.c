#include "daemon/burst/observer.h"

#include "base/queue.h"

struct observer {
    atomic_int holders;
    struct observer_share *share;
    pthread_mutex_t lock; /* of everything below */
    struct observer_frame *first, *last;
    int frames, most_frames;
    int64_t bytes, missed;
    bool notified, left, ended;
    mailbox_wake_fn *wake;
    void *wake_ctx;
};

struct observer *observer_new(int frames, struct observer_share *share, mailbox_wake_fn *wake, void *wake_ctx) {
    struct observer *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    atomic_init(&o->holders, 1);
    pthread_mutex_init(&o->lock, NULL);
    o->share = share;
    o->most_frames = frames;
    o->wake = wake;
    o->wake_ctx = wake_ctx;
    return o;
}

static int64_t bytes_for(int64_t fired) {
    return (int64_t)sizeof(struct observer_frame) + fired * (int64_t)sizeof((struct observer_frame *)0)->ids[0];
}

void observer_frame_free(struct observer_frame *f) {
    if (f)
        atomic_fetch_sub(&f->share->used, bytes_for(f->fired));
    free(f);
}

/* With the lock. */
static struct observer_frame *take_first(struct observer *o) {
    struct observer_frame *f = o->first;
    if (!f)
        return NULL;
    QUEUE_DROP(o, next);
    o->frames--;
    o->bytes -= bytes_for(f->fired);
    return f;
}

void observer_hold(struct observer *o) { atomic_fetch_add(&o->holders, 1); }

void observer_release(struct observer *o) {
    if (!o || atomic_fetch_sub(&o->holders, 1) > 1)
        return;
    for (struct observer_frame *f; (f = take_first(o));)
        observer_frame_free(f);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* True if the reader must be woken. The lock is held. */
static bool tell(struct observer *o) {
    bool wake = !o->notified && !o->left;
    o->notified = true;
    return wake;
}

static bool share(struct observer_share *s, int64_t bytes) {
    bool fits = atomic_fetch_add(&s->used, bytes) + bytes <= s->most;
    if (!fits)
        atomic_fetch_sub(&s->used, bytes);
    return fits;
}

/* Drops what is oldest until one more frame fits; true if its bytes have been taken from the share. With the lock. */
static bool make_room(struct observer *o, int64_t bytes) {
    bool fits = false;
    while (o->first && (o->frames >= o->most_frames || o->bytes + bytes > OBSERVER_BYTES || !(fits = share(o->share, bytes)))) {
        observer_frame_free(take_first(o));
        o->missed++;
    }
    return fits || share(o->share, bytes);
}

/* A frame whose bytes have been taken from the share; NULL gives them back. */
static struct observer_frame *copy_of(struct observer *o, const struct burst_frame *frame, int64_t bytes) {
    struct observer_frame *f = malloc((size_t)bytes);
    if (!f) {
        atomic_fetch_sub(&o->share->used, bytes);
        return NULL;
    }
    *f = (struct observer_frame){.share = o->share, .tick = frame->tick, .candidates = frame->candidates, .fired = frame->fired};
    memcpy(f->ids, frame->ids, (size_t)frame->fired * sizeof *f->ids);
    return f;
}

/* The frame, for which there is room, joins the queue. With the lock. */
static void join(struct observer *o, struct observer_frame *f) {
    QUEUE_ADD(o, f, next);
    o->frames++;
    o->bytes += bytes_for(f->fired);
}

void observer_add(struct observer *o, const struct burst_frame *frame) {
    int64_t bytes = bytes_for(frame->fired);
    pthread_mutex_lock(&o->lock);
    bool fits = !o->left && make_room(o, bytes);
    pthread_mutex_unlock(&o->lock);
    struct observer_frame *f = fits ? copy_of(o, frame, bytes) : NULL; /* the reader, which only takes, need not wait for it */
    pthread_mutex_lock(&o->lock);
    if (o->left)
        observer_frame_free(f);
    else if (f)
        join(o, f);
    else
        o->missed++;
    bool wake = tell(o);
    pthread_mutex_unlock(&o->lock);
    if (wake)
        o->wake(o->wake_ctx);
}

bool observer_has_left(struct observer *o) {
    LOCKED(&o->lock);
    return o->left;
}

void observer_end(struct observer *o) {
    pthread_mutex_lock(&o->lock);
    o->ended = true;
    bool wake = tell(o);
    pthread_mutex_unlock(&o->lock);
    if (wake)
        o->wake(o->wake_ctx);
}

struct observer_frame *observer_take(struct observer *o, int64_t *ret_missed, bool *ret_ended) {
    LOCKED(&o->lock);
    struct observer_frame *f = take_first(o);
    if (!f)
        o->notified = false;
    *ret_missed = o->missed;
    *ret_ended = o->ended;
    return f;
}

void observer_leave(struct observer *o) {
    LOCKED(&o->lock);
    o->left = true;
    for (struct observer_frame *f; (f = take_first(o));)
        observer_frame_free(f);
}
