#include "base/volume.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fsio.h"

struct volume {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char *directory;
    bool asked, stopping;           /* asked: a call is on its way */
    bool ended;                     /* the thread touches nothing any more */
    bool abandoned;                 /* volume_close has returned: the thread frees everything */
    int64_t asked_ms;               /* when it began */
    int64_t answers;                /* how many came */
    int64_t free_bytes, size_bytes; /* as the newest answer said */
};

static void release(struct volume *v) {
    pthread_cond_destroy(&v->changed);
    pthread_mutex_destroy(&v->lock);
    free(v->directory);
    free(v);
}

static void *volume_main(void *arg) {
    struct volume *v = arg;
    pthread_mutex_lock(&v->lock);
    while (!v->stopping) {
        if (!v->asked) {
            pthread_cond_wait(&v->changed, &v->lock);
            continue;
        }
        pthread_mutex_unlock(&v->lock);
        (void)fsio_is_dir(v->directory);
        int64_t free_bytes = fsio_free_bytes(v->directory); /* statvfs is answered by the server, never from a cache */
        int64_t size_bytes = fsio_size_bytes(v->directory);
        pthread_mutex_lock(&v->lock);
        v->free_bytes = free_bytes;
        v->size_bytes = size_bytes;
        v->asked = false;
        v->answers++;
        pthread_cond_broadcast(&v->changed);
    }
    v->ended = true;
    const bool abandoned = v->abandoned;
    pthread_cond_broadcast(&v->changed);
    pthread_mutex_unlock(&v->lock);
    if (abandoned)
        release(v);
    return NULL;
}

int volume_open(const char *directory, struct volume **ret, struct err *err) {
    struct volume *v = calloc(1, sizeof *v);
    if (!v || !(v->directory = strdup(directory))) {
        free(v);
        return err_set(err, ERR_EXHAUSTED, "out of memory watching %s", directory);
    }
    v->free_bytes = v->size_bytes = -1;
    pthread_mutex_init(&v->lock, NULL);
    clock_cond_init(&v->changed);
    int code = pthread_create(&v->thread, NULL, volume_main, v);
    if (!code) {
        *ret = v;
        return 0;
    }
    release(v);
    return err_set(err, ERR_EXHAUSTED, "cannot start a thread to watch %s: %s", directory, strerror(code));
}

/* False if the thread is still in a call that is too old: it frees everything. */
static bool wait_end(struct volume *v) {
    LOCKED(&v->lock);
    const int64_t age_ms = v->asked ? clock_ms() - v->asked_ms : 0;
    const struct timespec until = clock_after_ms(age_ms < VOLUME_WAIT_MS ? VOLUME_WAIT_MS - age_ms : 0);
    v->stopping = true;
    pthread_cond_broadcast(&v->changed);
    while (!v->ended && pthread_cond_timedwait(&v->changed, &v->lock, &until) != ETIMEDOUT) {
    }
    const bool ended = v->ended;
    v->abandoned = !ended;
    return ended;
}

void volume_close(struct volume *v) {
    if (!v)
        return;
    const pthread_t thread = v->thread;
    if (!wait_end(v)) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    release(v);
}

/* The age of the call that is on its way, which begins here if there is none. The lock is held. */
static int64_t ask(struct volume *v) {
    if (v->asked)
        return clock_ms() - v->asked_ms;
    v->asked = true;
    v->asked_ms = clock_ms();
    pthread_cond_broadcast(&v->changed);
    return 0;
}

/* The lock is held. */
static bool wait_answer(struct volume *v) {
    int64_t before = v->answers, left_ms = VOLUME_WAIT_MS - ask(v);
    struct timespec until = clock_after_ms(left_ms > 0 ? left_ms : 0);
    while (left_ms > 0 && v->answers == before && pthread_cond_timedwait(&v->changed, &v->lock, &until) != ETIMEDOUT) {
    }
    return v->answers != before;
}

bool volume_answers(struct volume *v) {
    LOCKED(&v->lock);
    return wait_answer(v);
}

void volume_wait(struct volume *v) {
    LOCKED(&v->lock);
    int64_t before = v->answers;
    ask(v);
    while (v->answers == before)
        pthread_cond_wait(&v->changed, &v->lock);
}

bool volume_look(struct volume *v) {
    LOCKED(&v->lock);
    return ask(v) < VOLUME_WAIT_MS;
}

int64_t volume_free_bytes(struct volume *v) {
    LOCKED(&v->lock);
    return ask(v) < VOLUME_WAIT_MS ? v->free_bytes : -1;
}

int64_t volume_size_bytes(struct volume *v) {
    LOCKED(&v->lock);
    return v->size_bytes;
}
