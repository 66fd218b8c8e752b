#include "daemon/burst/observer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct observer {
    atomic_int holders;
    pthread_mutex_t lock; /* of everything below */
    struct observer_frame *first, *last;
    int frames, most_frames;
    int64_t bytes, missed;
    struct observer_total *total;
    bool told, left, ended;
    mailbox_wake_fn *wake;
    void *wake_ctx;
};

struct observer *observer_new(int frames, struct observer_total *total, mailbox_wake_fn *wake, void *wake_ctx) {
    struct observer *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    atomic_init(&o->holders, 1);
    pthread_mutex_init(&o->lock, NULL);
    o->most_frames = frames;
    o->total = total;
    o->wake = wake;
    o->wake_ctx = wake_ctx;
    return o;
}

static int64_t bytes_of(const struct observer_frame *f) { return (int64_t)sizeof *f + f->fired * (int64_t)sizeof *f->ids; }

/* With the lock. */
static struct observer_frame *take_first(struct observer *o) {
    struct observer_frame *f = o->first;
    if (!f)
        return NULL;
    o->first = f->next;
    if (!o->first)
        o->last = NULL;
    o->frames--;
    o->bytes -= bytes_of(f);
    atomic_fetch_sub(&o->total->bytes, bytes_of(f));
    return f;
}

void observer_hold(struct observer *o) { atomic_fetch_add(&o->holders, 1); }

void observer_release(struct observer *o) {
    if (!o || atomic_fetch_sub(&o->holders, 1) > 1)
        return;
    for (struct observer_frame *f; (f = take_first(o));)
        free(f);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

/* True if the reader must be woken. The lock is held. */
static bool tell(struct observer *o) {
    bool wake = !o->told && !o->left;
    o->told = true;
    return wake;
}

/* The frame joins the queue, in place of older ones where there is no room; a NULL one could not be copied. With the lock. */
static void join(struct observer *o, struct observer_frame *f) {
    int64_t bytes = f ? bytes_of(f) : 0, total = atomic_fetch_add(&o->total->bytes, bytes) + bytes;
    while (f && o->first && (o->frames >= o->most_frames || o->bytes + bytes > OBSERVER_BYTES || total > OBSERVERS_BYTES)) {
        free(take_first(o));
        o->missed++;
        total = atomic_load(&o->total->bytes);
    }
    if (!f || total > OBSERVERS_BYTES) {
        atomic_fetch_sub(&o->total->bytes, bytes);
        free(f);
        o->missed++;
        return;
    }
    if (o->last)
        o->last->next = f;
    else
        o->first = f;
    o->last = f;
    o->frames++;
    o->bytes += bytes;
}

void observer_add(struct observer *o, const struct burst_frame *frame) {
    struct observer_frame *f = malloc(sizeof *f + (size_t)frame->fired * sizeof *f->ids);
    if (f) {
        *f = (struct observer_frame){.tick = frame->tick, .candidates = frame->candidates, .fired = frame->fired};
        memcpy(f->ids, frame->ids, (size_t)frame->fired * sizeof *f->ids);
    }
    pthread_mutex_lock(&o->lock);
    if (o->left)
        free(f);
    else
        join(o, f);
    bool wake = tell(o);
    pthread_mutex_unlock(&o->lock);
    if (wake)
        o->wake(o->wake_ctx);
}

bool observer_has_left(struct observer *o) {
    pthread_mutex_lock(&o->lock);
    bool left = o->left;
    pthread_mutex_unlock(&o->lock);
    return left;
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
    pthread_mutex_lock(&o->lock);
    struct observer_frame *f = take_first(o);
    if (!f)
        o->told = false;
    *ret_missed = o->missed;
    *ret_ended = o->ended;
    pthread_mutex_unlock(&o->lock);
    return f;
}

void observer_leave(struct observer *o) {
    pthread_mutex_lock(&o->lock);
    o->left = true;
    for (struct observer_frame *f; (f = take_first(o));)
        free(f);
    pthread_mutex_unlock(&o->lock);
}
