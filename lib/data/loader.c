#include "data/loader.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct loader {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* monotonic clock */
    int64_t n, done;
    bool stop;
    struct recording *recordings[];
};

static void *run(void *arg) {
    struct loader *l = arg;
    pthread_mutex_lock(&l->lock);
    while (l->done < l->n && !l->stop) {
        struct recording *rec = l->recordings[l->done];
        pthread_mutex_unlock(&l->lock);
        recording_load(rec, NULL);
        pthread_mutex_lock(&l->lock);
        l->done++;
        pthread_cond_signal(&l->changed);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

int loader_start(struct recording *const *recordings, int64_t n, struct loader **ret, struct err *err) {
    pthread_condattr_t monotonic;
    struct loader *l = calloc(1, sizeof *l + sizeof *recordings * (size_t)n);
    if (!l)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)n);
    l->n = n;
    if (n)
        memcpy(l->recordings, recordings, sizeof *recordings * (size_t)n);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    int errnum = pthread_create(&l->thread, NULL, run, l);
    if (errnum) {
        pthread_cond_destroy(&l->changed);
        pthread_mutex_destroy(&l->lock);
        free(l);
        return err_errno(err, errnum, "cannot start a thread that loads recordings");
    }
    *ret = l;
    return 0;
}

bool loader_wait(struct loader *l, int64_t i, int wait_ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_mutex_lock(&l->lock);
    while (l->done <= i && !pthread_cond_timedwait(&l->changed, &l->lock, &until))
        ;
    bool passed = l->done > i;
    pthread_mutex_unlock(&l->lock);
    return passed;
}

void loader_stop(struct loader *l) {
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->stop = true;
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}
