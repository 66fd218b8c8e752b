#include "daemon/deadline.h"

#include <signal.h>

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
        log_warn(d->last ? "the threads of the RPC library do not end: exiting without them"
                         : "the daemon did not end within jobs.stop_wait: exiting; a volume does not answer",
                 NULL);
        _exit(d->status);
    }
    return NULL;
}

static volatile sig_atomic_t alarm_status;

static void exit_at_alarm(int number) {
    (void)number;
    _exit(alarm_status);
}

void deadline_start(struct deadline *d, int64_t ms, int status) {
    pthread_mutex_init(&d->lock, NULL);
    clock_cond_init(&d->changed);
    d->until = clock_after_ms(ms);
    d->status = status;
    d->started = !pthread_create(&d->thread, NULL, deadline_main, d);
    if (d->started)
        return;
    alarm_status = status;
    signal(SIGALRM, exit_at_alarm);
    alarm((unsigned)((ms + 999) / 1000));
}

void deadline_shorten(struct deadline *d, int64_t ms) {
    if (!d->started) {
        if (alarm(0))
            alarm((unsigned)((ms + 999) / 1000));
        return;
    }
    LOCKED(&d->lock);
    d->until = clock_after_ms(ms);
    d->last = true;
    pthread_cond_broadcast(&d->changed);
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
