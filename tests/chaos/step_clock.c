/* step_clock: a library to preload before a program, which shifts the program's wall clock by the number of seconds (int64) at the
 * start of the file BRR_CLOCK_FILE. The file is mapped, so a new number takes effect at once. Monotonic clocks stay as they are,
 * and absolute wall-clock deadlines given to the kernel are shifted back: those of condition variables, and of futexes, which
 * abseil uses through syscall(). */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { CONDITION_IS_MONOTONIC = 2 }; /* glibc's flag in a condition variable */

static const volatile int64_t *shift;

__attribute__((constructor)) static void map_shift(void) {
    const char *path = getenv("BRR_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *p = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (p != MAP_FAILED)
        shift = p;
}

static int64_t seconds(void) { return shift ? *shift : 0; }

static bool is_wall(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

/* The function behind this one. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret) {
    static __typeof__(&clock_gettime) real;
    if (!real)
        real = REAL(clock_gettime);
    int rc = real(clock, ret);
    if (!rc && is_wall(clock))
        ret->tv_sec += seconds();
    return rc;
}

EXPORT int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *ret = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

EXPORT time_t time(time_t *ret) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (ret)
        *ret = now.tv_sec;
    return now.tv_sec;
}

EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict lock,
                                  const struct timespec *restrict deadline) {
    if (cond->__data.__wrefs & CONDITION_IS_MONOTONIC)
        return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, deadline);
    const struct timespec real = {.tv_sec = deadline->tv_sec - seconds(), .tv_nsec = deadline->tv_nsec};
    return pthread_cond_clockwait(cond, lock, CLOCK_REALTIME, &real);
}

EXPORT long syscall(long number, ...) {
    static __typeof__(&syscall) real;
    long a[6];
    struct timespec deadline;
    va_list ap;
    va_start(ap, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(ap, long);
    va_end(ap);
    if (!real)
        real = REAL(syscall);
    if (number == SYS_futex && (a[1] & FUTEX_CLOCK_REALTIME) && (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && a[3]) {
        deadline = *(const struct timespec *)a[3];
        deadline.tv_sec -= seconds();
        a[3] = (long)&deadline;
    }
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
