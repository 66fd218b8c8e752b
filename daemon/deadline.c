#include "daemon/deadline.h"

#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

static void *deadline_main(void *arg) {
    struct deadline *d = arg;
    bool late = false;
    pthread_mutex_lock(&d->lock);
    while (!d->cancelled && !late)
        late = pthread_cond_timedwait(&d->changed, &d->lock, &d->until) == ETIMEDOUT;
    late = late && !d->cancelled;
    pthread_mutex_unlock(&d->lock);
    if (late) {
        log_warn("the daemon did not end within jobs.stop_wait: exiting; a volume does not answer", NULL);
        _exit(d->status);
    }
    return NULL;
}

void deadline_start(struct deadline *d, int64_t ms, int status) {
    pthread_mutex_init(&d->lock, NULL);
    clock_cond_init(&d->changed);
    d->until = clock_after_ms(ms);
    d->status = status;
    d->started = !pthread_create(&d->thread, NULL, deadline_main, d);
    if (!d->started)
        log_warn("no thread limits the time of the stop", NULL);
}

void deadline_cancel(struct deadline *d) {
    if (!d->started)
        return;
    pthread_mutex_lock(&d->lock);
    d->cancelled = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
    d->started = false;
}
