/* Ownership by scope. A variable that is declared with one of these is released when its scope is left, on every path: the last
 * declared first. It must hold a value that its release function accepts (NULL, -1, zeroes) before any statement that can leave
 * the scope. A function that gives the value away
 * sets the variable to NULL.
 *
 *     OWNED_MEMORY float *row = malloc(bytes);
 *     OWNED(str_done) struct str text;
 *     OWNED_POINTER(json_free) struct json *note = NULL;
 *
 * A mutex likewise: LOCKED(&queue->lock) takes it, and the end of the scope gives it back. */
#pragma once
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* The release function takes the address of the variable. */
#define OWNED(release) __attribute__((cleanup(release)))

/* The variable is a pointer, which the release function takes; OWNABLE stands beside the function. */
#define OWNED_POINTER(release) OWNED(release##_owned)
#define OWNABLE(type, release)                                                                                                     \
    static inline void release##_owned(type **owned) {                                                                             \
        if (*owned)                                                                                                                \
            release(*owned);                                                                                                       \
    }

#define OWNED_MEMORY OWNED(cleanup_memory) /* a pointer for free() */
#define OWNED_FILE   OWNED(cleanup_file)   /* a FILE * that was only read: errors of closing are ignored */
#define OWNED_DIR    OWNED(cleanup_dir)    /* a DIR * */
#define OWNED_FD     OWNED(cleanup_fd)     /* a file descriptor or -1 */

#define LOCKED(mutex) OWNED(cleanup_lock) pthread_mutex_t *locked_mutex = cleanup_locked(mutex)

/* The end of a function that makes an object: gives the object away if rc is 0, else releases it. Its value is rc, a variable. */
#define GIVEN(ret, object, release, rc) ((rc) ? (release(object), (rc)) : (*(ret) = (object), 0))

static inline pthread_mutex_t *cleanup_locked(pthread_mutex_t *mutex) {
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void cleanup_lock(pthread_mutex_t *const *locked) { pthread_mutex_unlock(*locked); }

static inline void cleanup_memory(void *owned) { free(*(void **)owned); }

static inline void cleanup_file(FILE **owned) {
    if (*owned)
        fclose(*owned);
}

static inline void cleanup_dir(DIR **owned) {
    if (*owned)
        closedir(*owned);
}

static inline void cleanup_fd(const int *owned) {
    if (*owned >= 0)
        close(*owned);
}
