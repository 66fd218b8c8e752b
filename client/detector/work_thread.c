#include "client/detector/work_thread.h"

struct work_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int (*work)(void *context, struct err *err); /* NULL: none waits */
    void *context;
    struct err *err;
    int result;
    bool taken, done, ending; /* a caller has the thread; its work is done */
};

static void *serve_callers(void *p) {
    struct work_thread *t = p;
    pthread_mutex_lock(&t->lock);
    while (!t->ending) {
        if (t->work && !t->done) {
            pthread_mutex_unlock(&t->lock);
            int result = t->work(t->context, t->err);
            pthread_mutex_lock(&t->lock);
            t->result = result;
            t->done = true;
            pthread_cond_broadcast(&t->changed);
        } else {
            pthread_cond_wait(&t->changed, &t->lock);
        }
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

int work_thread_start(struct work_thread **ret, struct err *err) {
    struct work_thread *t = calloc(1, sizeof *t);
    if (!t)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a detector");
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (pthread_create(&t->thread, NULL, serve_callers, t)) {
        free(t);
        return err_set(err, ERR_EXHAUSTED, "no thread can be started for a detector");
    }
    *ret = t;
    return 0;
}

int work_thread_run(struct work_thread *t, int (*work)(void *context, struct err *err), void *context, struct err *err) {
    LOCKED(&t->lock);
    while (t->taken)
        pthread_cond_wait(&t->changed, &t->lock);
    t->taken = true;
    t->done = false;
    t->context = context;
    t->err = err;
    t->work = work;
    pthread_cond_broadcast(&t->changed);
    while (!t->done)
        pthread_cond_wait(&t->changed, &t->lock);
    int result = t->result;
    t->work = NULL;
    t->taken = false;
    pthread_cond_broadcast(&t->changed);
    return result;
}

void work_thread_stop(struct work_thread *t) {
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->ending = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}
