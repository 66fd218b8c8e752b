/* failing_reads: a library to preload before a program, whose disk has bad sectors: reads of the files listed in BRR_BAD_FILES
 * (paths with a colon between them) fail with EIO from byte BRR_BAD_BYTE on. The files themselves are whole. */
#undef _FORTIFY_SOURCE /* whose pread is a function of its own */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static bool is_bad(int fd, off_t end) {
    const char *files = getenv("BRR_BAD_FILES"), *from = getenv("BRR_BAD_BYTE");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = files && from && end > atoll(from) ? readlink(link, path, sizeof path - 1) : -1;
    if (n <= 0)
        return false;
    path[n] = '\0';
    for (const char *at = files; (at = strstr(at, path)); at += n)
        if ((at == files || at[-1] == ':') && (at[n] == ':' || !at[n]))
            return true;
    return false;
}

static ssize_t read_at(int fd, void *buf, size_t n, off_t at) {
    if (!is_bad(fd, at + (off_t)n))
        return syscall(SYS_pread64, fd, buf, n, at);
    errno = EIO;
    return -1;
}

EXPORT ssize_t pread(int fd, void *buf, size_t n, off_t at) { return read_at(fd, buf, n, at); }
EXPORT ssize_t pread64(int fd, void *buf, size_t n, off64_t at) { return read_at(fd, buf, n, at); }

/* The same as a program calls it that was built with _FORTIFY_SOURCE. */
#define CHECKED(name)                                                                                                              \
    EXPORT ssize_t name(int fd, void *buf, size_t n, off_t at, size_t size);                                                       \
    EXPORT ssize_t name(int fd, void *buf, size_t n, off_t at, size_t size) {                                                      \
        return (n > size ? abort() : (void)0, read_at(fd, buf, n, at));                                                            \
    }
CHECKED(__pread_chk)
CHECKED(__pread64_chk)
