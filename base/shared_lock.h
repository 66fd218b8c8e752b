/* shared_lock: a mutex in memory that processes share. A process that dies with the lock leaves it to the next one. */
#pragma once
#include <errno.h>
#include <pthread.h>

static inline void shared_lock_init(pthread_mutex_t *lock) {
    pthread_mutexattr_t shared;
    pthread_mutexattr_init(&shared);
    pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(lock, &shared);
    pthread_mutexattr_destroy(&shared);
}

/* Takes the result of pthread_mutex_lock or _trylock: 0 if the caller has the lock now. *ret_died: whoever had it died, and what it
 * protects may be half written. */
static inline int shared_lock_taken(pthread_mutex_t *lock, int rc, int *ret_died) {
    *ret_died = rc == EOWNERDEAD;
    return *ret_died ? pthread_mutex_consistent(lock) : rc;
}
