#include "daemon/jobs/errand.h"

#include <pthread.h>
#include <stdlib.h>

struct errand {
    struct message message;
    struct mailbox *box;
    pthread_t thread;
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t changed;
    device_work_fn *work; /* NULL: no errand */
    void *arg;
    struct err *err;
    int rc;
    bool stop;
};

static void *errand_main(void *arg) {
    struct errand *e = arg;
    pthread_mutex_lock(&e->lock);
    for (;;) {
        while (!e->work && !e->stop)
            pthread_cond_wait(&e->changed, &e->lock);
        if (!e->work)
            break;
        pthread_mutex_unlock(&e->lock);
        e->rc = e->work(e->arg, e->err); /* the owner waits for `work` to become NULL */
        mailbox_post_wait(e->box, &e->message, -1);
        pthread_mutex_lock(&e->lock);
        e->work = NULL;
        pthread_cond_signal(&e->changed);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

int errand_open(struct mailbox *box, int kind, struct errand **ret, struct err *err) {
    struct errand *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the thread of file work");
    e->message.kind = kind;
    e->box = box;
    pthread_mutex_init(&e->lock, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (pthread_create(&e->thread, NULL, errand_main, e)) {
        pthread_cond_destroy(&e->changed);
        pthread_mutex_destroy(&e->lock);
        free(e);
        return err_set(err, ERR_EXHAUSTED, "cannot start the thread of file work");
    }
    *ret = e;
    return 0;
}

void errand_close(struct errand *e) {
    if (!e)
        return;
    pthread_mutex_lock(&e->lock);
    e->stop = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
    pthread_join(e->thread, NULL);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->lock);
    free(e);
}

void errand_begin(struct errand *e, device_work_fn *work, void *arg, struct err *err) {
    pthread_mutex_lock(&e->lock);
    e->work = work;
    e->arg = arg;
    e->err = err;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

int errand_end(struct errand *e) {
    pthread_mutex_lock(&e->lock);
    while (e->work)
        pthread_cond_wait(&e->changed, &e->lock);
    int rc = e->rc;
    pthread_mutex_unlock(&e->lock);
    return rc;
}
