/* hold_volume: a library to preload before a program, which makes one directory a volume that does not answer: while the file
 * BRR_HOLD_FLAG exists, every call that touches a path below BRR_HOLD_PATH waits, as it would on a network file system whose server
 * is gone. The program knows nothing of it. */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static bool held(void) {
    const char *flag = getenv("BRR_HOLD_FLAG");
    return flag && syscall(SYS_faccessat, AT_FDCWD, flag, F_OK, 0) == 0;
}

static bool below(const char *path) {
    const char *root = getenv("BRR_HOLD_PATH");
    return root && path && !strncmp(path, root, strlen(root));
}

static void wait_path(const char *path) {
    static const struct timespec turn = {.tv_nsec = 20 * 1000 * 1000};
    while (below(path) && held())
        nanosleep(&turn, NULL);
}

static void wait_fd(int fd) {
    char link[64], path[4096];
    if (!held())
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (n > 0) {
        path[n] = '\0';
        wait_path(path);
    }
}

/* The function behind this one. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A function whose first argument is a path, or an open file. */
#define ON_PATH(type, name, parameters, arguments)                                                                                 \
    EXPORT type name parameters {                                                                                                  \
        wait_path(path);                                                                                                           \
        return REAL(name) arguments;                                                                                               \
    }
#define ON_FD(type, name, parameters, arguments)                                                                                   \
    EXPORT type name parameters {                                                                                                  \
        wait_fd(fd);                                                                                                               \
        return REAL(name) arguments;                                                                                               \
    }

EXPORT int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    wait_path(path);
    return REAL(open)(path, flags, mode);
}

EXPORT int openat(int dir, const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    wait_path(path);
    wait_fd(dir);
    return REAL(openat)(dir, path, flags, mode);
}

ON_PATH(FILE *, fopen, (const char *path, const char *mode), (path, mode))
ON_PATH(DIR *, opendir, (const char *path), (path))
ON_PATH(int, access, (const char *path, int mode), (path, mode))
ON_PATH(int, stat, (const char *path, struct stat *st), (path, st))
ON_PATH(int, lstat, (const char *path, struct stat *st), (path, st))
ON_PATH(int, statvfs, (const char *path, struct statvfs *st), (path, st))
ON_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))
ON_PATH(int, rmdir, (const char *path), (path))
ON_PATH(int, unlink, (const char *path), (path))
ON_PATH(int, link, (const char *path, const char *to), (path, to))
ON_PATH(int, rename, (const char *path, const char *to), (path, to))
ON_PATH(char *, realpath, (const char *path, char *buf), (path, buf))
ON_FD(ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
ON_FD(ssize_t, pread, (int fd, void *buf, size_t n, off_t at), (fd, buf, n, at))
ON_FD(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
ON_FD(ssize_t, pwrite, (int fd, const void *buf, size_t n, off_t at), (fd, buf, n, at))

/* A disk that takes writes and never says that they are safe: while the file BRR_HOLD_SYNC exists, which holds a directory, fsync
 * of files below that directory waits. */
static bool holds_sync(int fd) {
    const char *flag = getenv("BRR_HOLD_SYNC");
    char root[4096] = "", link[64], path[4096] = "";
    int file = flag ? (int)syscall(SYS_openat, AT_FDCWD, flag, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return false;
    ssize_t n = syscall(SYS_read, file, root, sizeof root - 1);
    syscall(SYS_close, file);
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return n > 0 && syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1) > 0 && !strncmp(path, root, (size_t)n);
}

static void wait_sync(int fd) {
    static const struct timespec turn = {.tv_nsec = 20 * 1000 * 1000};
    while (holds_sync(fd))
        nanosleep(&turn, NULL);
    wait_fd(fd);
}

EXPORT int fsync(int fd) {
    wait_sync(fd);
    return REAL(fsync)(fd);
}

EXPORT int fdatasync(int fd) {
    wait_sync(fd);
    return REAL(fdatasync)(fd);
}

ON_FD(int, fstat, (int fd, struct stat *st), (fd, st))
ON_FD(int, fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags))
ON_FD(int, ftruncate, (int fd, off_t length), (fd, length))
ON_FD(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))

/* The same under the names that SQLite uses. */
EXPORT int open64(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = va_arg(ap, mode_t);
    va_end(ap);
    return open(path, flags, mode);
}

ON_PATH(int, stat64, (const char *path, struct stat64 *st), (path, st))
ON_PATH(int, lstat64, (const char *path, struct stat64 *st), (path, st))
ON_FD(int, fstat64, (int fd, struct stat64 *st), (fd, st))
ON_FD(ssize_t, pread64, (int fd, void *buf, size_t n, off64_t at), (fd, buf, n, at))
ON_FD(ssize_t, pwrite64, (int fd, const void *buf, size_t n, off64_t at), (fd, buf, n, at))
ON_FD(int, ftruncate64, (int fd, off64_t length), (fd, length))

/* The same as a program calls them that was built with _FORTIFY_SOURCE: with the size of the buffer, or without a mode. */
#define FORTIFIED(type, name, parameters, call)                                                                                    \
    EXPORT type name parameters;                                                                                                   \
    EXPORT type name parameters { return call; }
FORTIFIED(int, __open_2, (const char *path, int flags), open(path, flags, 0))
FORTIFIED(int, __open64_2, (const char *path, int flags), open(path, flags, 0))
FORTIFIED(int, __openat_2, (int dir, const char *path, int flags), openat(dir, path, flags, 0))
FORTIFIED(char *, __realpath_chk, (const char *path, char *buf, size_t size),
          (size < PATH_MAX ? abort() : (void)0, realpath(path, buf)))
FORTIFIED(ssize_t, __read_chk, (int fd, void *buf, size_t n, size_t size), (n > size ? abort() : (void)0, read(fd, buf, n)))
FORTIFIED(ssize_t, __pread_chk, (int fd, void *buf, size_t n, off_t at, size_t size),
          (n > size ? abort() : (void)0, pread(fd, buf, n, at)))
FORTIFIED(ssize_t, __pread64_chk, (int fd, void *buf, size_t n, off64_t at, size_t size),
          (n > size ? abort() : (void)0, pread64(fd, buf, n, at)))
