#include "daemon/hosts/thread_room.h"

enum { FIXED = 64, EACH_CPU = 5, STACK_BYTES = 64 << 10 };

static int cpus(void) {
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return (int)(n > 0 ? n : 1);
}

int thread_room_of_team(void) { return 1 + cpus(); }
int thread_room_needed(void) { return FIXED + EACH_CPU * cpus(); }

static void *wait_for_end(void *gate) {
    LOCKED(gate);
    return NULL;
}

int thread_room_check(int n, struct err *err) {
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = calloc((size_t)n + 1, sizeof *threads);
    pthread_attr_t attr;
    int started = 0, failed = 0;
    if (!threads)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d threads", n);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_mutex_lock(&gate); /* they stay until all were started */
    while (started < n && !(failed = pthread_create(&threads[started], &attr, wait_for_end, &gate)))
        started++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attr);
    free(threads);
    if (!failed)
        return 0;
    return err_set(err, ERR_EXHAUSTED,
                   "the daemon needs about %d threads, and %d can be started (%s): raise TasksMax of its service, the pids limit "
                   "of its container, or ulimit -u",
                   n, started, strerror(failed));
}
