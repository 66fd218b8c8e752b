#include "data/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

struct item {
    struct recording *recording;
    struct err *fault; /* malloc'd, NULL when it is ready or there was no memory to say why not */
    int code;
    bool done;
};

struct loader {
    pthread_t threads[LOADER_MAX_WORKERS];
    int n_threads;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* monotonic clock */
    int64_t n, next, done;
    bool stop;
    struct item items[];
};

static void *run(void *arg) {
    struct loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (l->next < l->n && !l->stop) {
        struct item *item = &l->items[l->next++];
        struct err err = {0};
        pthread_mutex_unlock(&l->lock);
        item->code = recording_load(item->recording, &err);
        if (item->code && (item->fault = malloc(sizeof err)))
            *item->fault = err;
        pthread_mutex_lock(&l->lock);
        item->done = true;
        l->done++;
        pthread_cond_broadcast(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int loader_start(struct recording *const *recordings, int64_t n, int workers, struct loader **ret, struct err *err) {
    struct loader *l = calloc(1, sizeof *l + sizeof *l->items * (size_t)n);
    int errnum = 0;
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)n);
    l->n = n;
    for (int64_t i = 0; i < n; i++)
        l->items[i].recording = recordings[i];
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->changed);
    workers = workers < 1 ? 1 : workers > LOADER_MAX_WORKERS ? LOADER_MAX_WORKERS : workers;
    while (l->n_threads < workers && l->n_threads < n && !errnum)
        if (!(errnum = pthread_create(&l->threads[l->n_threads], NULL, run, l)))
            l->n_threads++;
    if (errnum && !l->n_threads) {
        loader_stop(l);
        return err_errno(err, errnum, "cannot start a thread that loads recordings");
    }
    *ret = l;
    return 0;
}

bool loader_wait(struct loader *l, int64_t i, int wait_ms) {
    struct timespec until = clock_after_ms(wait_ms);
    pthread_mutex_lock(&l->lock);
    while (!l->items[i].done && !pthread_cond_timedwait(&l->changed, &l->lock, &until))
        ;
    bool passed = l->items[i].done;
    pthread_mutex_unlock(&l->lock);
    return passed;
}

int loader_result(struct loader *l, int64_t i, struct err *err) {
    const struct item *item = &l->items[i];
    pthread_mutex_lock(&l->lock);
    bool done = item->done;
    pthread_mutex_unlock(&l->lock);
    if (!done)
        return err_set(err, ERR_PRECONDITION, "recording %lld is not loaded yet", (long long)i);
    if (item->code && !item->fault)
        return err_set(err, item->code, "it cannot be loaded, and there is no memory to say why");
    if (item->code && err)
        *err = *item->fault;
    return item->code;
}

int64_t loader_done(struct loader *l) {
    pthread_mutex_lock(&l->lock);
    int64_t done = l->done;
    pthread_mutex_unlock(&l->lock);
    return done;
}

void loader_stop(struct loader *l) {
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    for (int i = 0; i < l->n_threads; i++)
        pthread_join(l->threads[i], NULL);
    for (int64_t i = 0; i < l->n; i++)
        free(l->items[i].fault);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
