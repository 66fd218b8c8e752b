#include "base/mailbox.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/queue.h"

struct mailbox {
    pthread_mutex_t lock;
    pthread_cond_t filled, drained;
    struct message *first, *last;
    size_t count, max;
    bool closed, corked, owed; /* owed: wake was not called for messages that wait */
    mailbox_wake_fn *wake;
    void *ctx;
};

struct mailbox *mailbox_new(size_t max_messages, mailbox_wake_fn *wake, void *ctx) {
    struct mailbox *box = calloc(1, sizeof *box);
    if (!box)
        return NULL;
    pthread_mutex_init(&box->lock, NULL);
    clock_cond_init(&box->filled);
    clock_cond_init(&box->drained);
    box->max = max_messages;
    box->wake = wake;
    box->ctx = ctx;
    return box;
}

void mailbox_free(struct mailbox *box) {
    if (!box)
        return;
    pthread_cond_destroy(&box->filled);
    pthread_cond_destroy(&box->drained);
    pthread_mutex_destroy(&box->lock);
    free(box);
}

/* Wait on cond until *deadline (NULL = for ever); false when it has passed. The lock is held. */
static bool wait_until(struct mailbox *box, pthread_cond_t *cond, const struct timespec *deadline) {
    if (!deadline)
        return pthread_cond_wait(cond, &box->lock) == 0;
    return pthread_cond_timedwait(cond, &box->lock, deadline) != ETIMEDOUT;
}

/* Unlocks, and calls wake if that is owed and now is the time. */
static void pay(struct mailbox *box, bool now) {
    const bool wakes = now && box->owed;
    box->owed = box->owed && !now;
    pthread_mutex_unlock(&box->lock);
    if (wakes && box->wake)
        box->wake(box->ctx);
}

bool mailbox_post_wait(struct mailbox *box, struct message *msg, int64_t timeout_ms) {
    struct timespec deadline = clock_after_ms(timeout_ms > 0 ? timeout_ms : 0);
    pthread_mutex_lock(&box->lock);
    while (!box->closed && box->count >= box->max)
        if (timeout_ms == 0 || !wait_until(box, &box->drained, timeout_ms < 0 ? NULL : &deadline))
            break;
    if (box->closed || box->count >= box->max) {
        pthread_mutex_unlock(&box->lock);
        return false;
    }
    box->owed = box->owed || !box->count;
    box->count++;
    QUEUE_ADD(box, msg, next);
    pthread_cond_signal(&box->filled);
    pay(box, !box->corked || box->count == box->max);
    return true;
}

void mailbox_cork(struct mailbox *box) {
    LOCKED(&box->lock);
    box->corked = true;
}

void mailbox_uncork(struct mailbox *box) {
    pthread_mutex_lock(&box->lock);
    box->corked = false;
    pay(box, true);
}

void mailbox_flush(struct mailbox *box) {
    pthread_mutex_lock(&box->lock);
    pay(box, true);
}

bool mailbox_post(struct mailbox *box, struct message *msg) { return mailbox_post_wait(box, msg, 0); }

struct message *mailbox_wait(struct mailbox *box, int64_t timeout_ms) {
    struct timespec deadline = clock_after_ms(timeout_ms > 0 ? timeout_ms : 0);
    LOCKED(&box->lock);
    while (!box->first && !box->closed && timeout_ms != 0)
        if (!wait_until(box, &box->filled, timeout_ms < 0 ? NULL : &deadline))
            break;
    struct message *msg = box->first;
    if (msg) {
        QUEUE_DROP(box, next);
        box->count--;
        msg->next = NULL;
        pthread_cond_signal(&box->drained);
    }
    return msg;
}

struct message *mailbox_take(struct mailbox *box) {
    return mailbox_wait(box, 0);
}

void mailbox_close(struct mailbox *box) {
    LOCKED(&box->lock);
    box->closed = true;
    pthread_cond_broadcast(&box->filled);
    pthread_cond_broadcast(&box->drained);
}

size_t mailbox_count(const struct mailbox *box) {
    struct mailbox *b = (struct mailbox *)(uintptr_t)box; /* the lock is not part of the logical state */
    LOCKED(&b->lock);
    return b->count;
}
