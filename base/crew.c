#include "base/crew.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"

enum { TURN_MS = 100 };

struct crew_item {
    struct err *fault; /* malloc'd; NULL when it has no error, or there was no memory to say which */
    int code;
    bool done;
};

struct crew {
    struct crew_work work;
    pthread_t threads[CREW_MAX_THREADS];
    int n_threads;
    pthread_mutex_t lock;               /* everything below */
    pthread_cond_t changed;             /* an item has finished, or a thread has ended; monotonic clock */
    int64_t next, done, newest, failed; /* failed: the item that failed first, -1 = none */
    int running;
    bool stop;
    struct crew_item items[];
};

/* Lock held. */
static void keep_result(struct crew *c, int64_t i, int rc, const struct err *err) {
    struct crew_item *item = &c->items[i];
    if (rc && (item->fault = malloc(sizeof *err)))
        *item->fault = *err;
    if (rc && c->failed < 0)
        c->failed = i;
    item->code = rc;
    item->done = true;
    c->newest = i;
    c->done++;
}

static void *crew_main(void *arg) {
    struct crew *c = arg;
    const struct crew_work *work = &c->work;
    pthread_mutex_lock(&c->lock);
    while (!c->stop && c->next < work->n) {
        const int64_t i = c->next++;
        struct err err = {0};
        pthread_mutex_unlock(&c->lock);
        const int rc = work->run(work->ctx, i, &err);
        pthread_mutex_lock(&c->lock);
        keep_result(c, i, rc, &err);
        if (work->finished && work->finished(work->ctx, i, rc))
            c->stop = true;
        pthread_cond_broadcast(&c->changed);
    }
    c->running--;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

int crew_start(const struct crew_work *work, struct crew **ret, struct err *err) {
    struct crew *c = calloc(1, sizeof *c + sizeof *c->items * (size_t)work->n);
    int errnum = 0, wanted = work->threads < 1 ? 1 : work->threads > CREW_MAX_THREADS ? CREW_MAX_THREADS : work->threads;
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld items of work", (long long)work->n);
    c->work = *work;
    c->failed = -1;
    pthread_mutex_init(&c->lock, NULL);
    clock_cond_init(&c->changed);
    pthread_mutex_lock(&c->lock);
    while (c->n_threads < wanted && c->n_threads < work->n && !errnum)
        if (!(errnum = pthread_create(&c->threads[c->n_threads], NULL, crew_main, c)))
            c->n_threads++;
    c->running = c->n_threads;
    pthread_mutex_unlock(&c->lock);
    if (errnum && !c->n_threads) {
        crew_close(c);
        return err_errno(err, errnum, "cannot start a worker thread");
    }
    *ret = c;
    return 0;
}

void crew_close(struct crew *c) {
    if (!c)
        return;
    crew_stop(c);
    for (int i = 0; i < c->n_threads; i++)
        pthread_join(c->threads[i], NULL);
    for (int64_t i = 0; i < c->work.n; i++)
        free(c->items[i].fault);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

void crew_stop(struct crew *c) {
    LOCKED(&c->lock);
    c->stop = true;
}

bool crew_follow(struct crew *c, bool (*turn)(void *ctx, int64_t done, int64_t newest), void *ctx) {
    bool running, go_on = true;
    do {
        const struct timespec until = clock_after_ms(TURN_MS);
        int late = 0;
        pthread_mutex_lock(&c->lock);
        while (c->running && !late)
            late = pthread_cond_timedwait(&c->changed, &c->lock, &until);
        running = c->running > 0;
        const int64_t done = c->done, newest = c->newest;
        pthread_mutex_unlock(&c->lock);
        if (!go_on || !turn || turn(ctx, done, newest))
            continue;
        go_on = false;
        crew_stop(c);
    } while (running);
    return go_on;
}

bool crew_wait(struct crew *c, int64_t item, int wait_ms) {
    const struct timespec until = clock_after_ms(wait_ms);
    LOCKED(&c->lock);
    while (!c->items[item].done && !pthread_cond_timedwait(&c->changed, &c->lock, &until))
        ;
    return c->items[item].done;
}

int crew_result(struct crew *c, int64_t item, struct err *err) {
    const struct crew_item *it = &c->items[item];
    pthread_mutex_lock(&c->lock);
    const bool done = it->done;
    pthread_mutex_unlock(&c->lock);
    if (!done)
        return err_set(err, ERR_PRECONDITION, "item %lld has not finished", (long long)item);
    if (it->code && !it->fault)
        return err_set(err, it->code, "item %lld failed, and there is no memory to say why", (long long)item);
    if (it->code && err)
        *err = *it->fault;
    return it->code;
}

int crew_failure(struct crew *c, struct err *err) {
    pthread_mutex_lock(&c->lock);
    const int64_t failed = c->failed;
    pthread_mutex_unlock(&c->lock);
    return failed < 0 ? 0 : crew_result(c, failed, err);
}

int64_t crew_done(struct crew *c) {
    LOCKED(&c->lock);
    return c->done;
}
