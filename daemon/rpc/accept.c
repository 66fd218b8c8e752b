#include "daemon/rpc/accept.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"

enum { COUNTED = 1024 /* listeners, by descriptor */, LINE_MS = 1000 };

static atomic_uint_fast64_t accepted[COUNTED], refused;
static atomic_bool given_up[COUNTED]; /* the last accept4 had an error after which its caller does not try again */
static atomic_int_fast64_t line_ms;   /* of the newest line in the log */
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static int spare = -1; /* given up for a moment to close a connection when no descriptor is left */

uint64_t accept_refused(void) { return atomic_load(&refused); }

/* ---- accept4 ---- */

static int option(int fd, int name) {
    int value = 0;
    socklen_t len = sizeof value;
    return getsockopt(fd, SOL_SOCKET, name, &value, &len) ? 0 : value;
}

/* The first descriptor that a connection of this listener must not take. Descriptors are given out lowest first. */
static int first_reserved(int listener) {
    const bool local = option(listener, SO_DOMAIN) == AF_UNIX;
    const int64_t most = local ? ACCEPT_RESERVE_FILES : ACCEPT_RESERVE_UNIX, part = local ? 16 : 8;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur > INT32_MAX)
        return INT32_MAX;
    const int64_t share = (int64_t)limit.rlim_cur / part;
    return (int)((int64_t)limit.rlim_cur - (share < most ? share : most));
}

static int accept_now(int listener, struct sockaddr *address, socklen_t *len, int flags) {
    return (int)syscall(SYS_accept4, listener, address, len, flags);
}

/* Even the reserve is in use: accepts the next connection in place of the spare descriptor. -1: there is none. */
static int accept_with_spare(int listener) {
    pthread_mutex_lock(&spare_lock);
    if (spare >= 0)
        close(spare);
    int fd = accept_now(listener, NULL, NULL, SOCK_CLOEXEC), error = errno;
    if (fd >= 0)
        close(fd);
    spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    errno = error;
    pthread_mutex_unlock(&spare_lock);
    return fd;
}

static void keep_spare(void) {
    pthread_mutex_lock(&spare_lock);
    if (spare < 0)
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&spare_lock);
}

static void count_refused(int listener) {
    const int64_t now = clock_ms();
    int_fast64_t last = atomic_load(&line_ms);
    const uint64_t n = atomic_fetch_add(&refused, 1) + 1;
    if ((last && now - last < LINE_MS) || !atomic_compare_exchange_strong(&line_ms, &last, now))
        return;
    log_error("connections refused: the other file descriptors are kept for files", "listener=%s refused=%llu fix=\"%s\"",
              option(listener, SO_DOMAIN) == AF_UNIX ? "unix" : "tcp", (unsigned long long)n,
              "raise LimitNOFILE, or end clients that open connections and do not use them");
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The error concerns the connection that was to be accepted, or passes: a listener must outlive it. */
static bool passes(int error) {
    static const int errors[] = {ECONNABORTED, EPROTO, EPERM,        ENOBUFS,    ENOMEM,      ENETDOWN, ENOPROTOOPT,
                                 EHOSTDOWN,    ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, ETIMEDOUT};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (error == errors[i])
            return true;
    return false;
}

static void give_up(int listener, bool value) {
    if (listener >= 0 && listener < COUNTED)
        atomic_store(&given_up[listener], value);
}

/* Returns -1 with the error for the listener's owner. gRPC gives a listener up at any error but EAGAIN and EINTR. */
static int fail(int listener, int error) {
    if (passes(error))
        error = EAGAIN;
    else if (error != EAGAIN && error != EINTR)
        give_up(listener, true);
    errno = error;
    return -1;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): libc's are reserved */
__attribute__((visibility("default"))) int accept4(int listener, __SOCKADDR_ARG address, socklen_t *restrict len, int flags) {
    const socklen_t room = len ? *len : 0;
    pthread_once(&once, keep_spare);
    give_up(listener, false);
    for (;;) {
        int fd = accept_now(listener, address.__sockaddr__, len, flags);
        const bool none_left = fd < 0 && (errno == EMFILE || errno == ENFILE);
        if (listener >= 0 && listener < COUNTED && (fd >= 0 || none_left))
            atomic_fetch_add(&accepted[listener], 1);
        if (fd < 0 && !none_left)
            return fail(listener, errno);
        if (fd >= 0 && fd < first_reserved(listener))
            return fd;
        if (none_left && accept_with_spare(listener) < 0) {
            give_up(listener, errno == EMFILE || errno == ENFILE); /* the connection waits, and no event announces it again */
            errno = EAGAIN;
            return -1;
        }
        if (fd >= 0)
            close(fd);
        count_refused(listener);
        if (len)
            *len = room;
    }
}

/* ---- watch ---- */

static bool listens_at(int fd, int port) {
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    if (option(fd, SO_ACCEPTCONN) != 1 || getsockname(fd, (struct sockaddr *)&at, &len))
        return false;
    return (at.ss_family == AF_INET && ntohs(((struct sockaddr_in *)&at)->sin_port) == port) ||
           (at.ss_family == AF_INET6 && ntohs(((struct sockaddr_in6 *)&at)->sin6_port) == port);
}

/* True if one of the process's epoll sets has the descriptor. */
static bool in_epoll_set(int fd) {
    char path[64], line[128];
    DIR *all = opendir("/proc/self/fdinfo");
    bool found = !all; /* unknown: no reason to give up */
    for (struct dirent *entry; all && !found && (entry = readdir(all));) {
        int64_t n, target;
        str_format(path, sizeof path, "/proc/self/fdinfo/%s", entry->d_name);
        FILE *f = str_to_i64(entry->d_name, &n) ? fopen(path, "re") : NULL;
        while (f && !found && fgets(line, sizeof line, f)) {
            char *save = NULL, *word = strtok_r(line, " \t", &save);
            found =
                word && !strcmp(word, "tfd:") && (word = strtok_r(NULL, " \t", &save)) && str_to_i64(word, &target) && target == fd;
        }
        if (f)
            fclose(f);
    }
    if (all)
        closedir(all);
    return found;
}

static bool was_given_up(int fd) { return fd < COUNTED && atomic_load(&given_up[fd]); }
static uint64_t accepted_by(int fd) { return fd < COUNTED ? atomic_load(&accepted[fd]) : 0; }

void accept_watch_init(struct accept_watch *w, int port, int64_t now_ms) {
    DIR *all = opendir("/proc/self/fd");
    *w = (struct accept_watch){0};
    for (struct dirent *entry; all && w->n < ACCEPT_WATCHED && (entry = readdir(all));) {
        int64_t fd;
        if (!str_to_i64(entry->d_name, &fd) || !listens_at((int)fd, port))
            continue;
        w->sockets[w->n].fd = (int)fd;
        w->sockets[w->n].accepted = accepted_by((int)fd);
        w->sockets[w->n].polled = in_epoll_set((int)fd);
        w->sockets[w->n++].heard_ms = now_ms;
    }
    if (all)
        closedir(all);
}

enum accept_state accept_watch_look(struct accept_watch *w, int64_t now_ms) {
    enum accept_state state = ACCEPT_WELL;
    for (int i = 0; i < w->n; i++) {
        struct tcp_info info = {0};
        socklen_t len = sizeof info;
        const int fd = w->sockets[i].fd;
        const bool listens = !getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) && info.tcpi_state == TCP_LISTEN;
        const uint64_t n = accepted_by(fd);
        if (listens && (!info.tcpi_unacked || n != w->sockets[i].accepted)) /* of a listener: connections that wait */
            w->sockets[i].heard_ms = now_ms;
        w->sockets[i].accepted = n;
        const bool slow = now_ms - w->sockets[i].heard_ms >= ACCEPT_SLOW_MS;
        if (!listens || (slow && (was_given_up(fd) || (w->sockets[i].polled && !in_epoll_set(fd)))))
            return ACCEPT_DEAF;
        state = slow ? ACCEPT_SLOW : state;
    }
    return state;
}
