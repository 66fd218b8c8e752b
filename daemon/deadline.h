/* deadline: ends the process at a certain time, on a thread of its own, whatever the loop thread waits for. A volume that does not
 * answer can hold up any step of the daemon's end; none of these steps is needed for the data. */
#pragma once
#include "base/base.h"

struct deadline {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct timespec until;
    int status;
    bool started, cancelled, last;
};
/* In `ms` milliseconds the process exits with this status. Where no thread can be started, a signal ends it, in whole seconds. */
void deadline_start(struct deadline *d, int64_t ms, int status);
/* From now on it is at most `ms` milliseconds. */
void deadline_shorten(struct deadline *d, int64_t ms);
/* The end is there. Does nothing if the deadline was not started. */
void deadline_cancel(struct deadline *d);
