#include "daemon/rpc/accept.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/log.h"

enum { COUNTED = 1024 /* listeners, by descriptor */, LINE_MS = 1000 };

static atomic_uint_fast64_t accepted[COUNTED], refused;
static atomic_bool given_up[COUNTED]; /* the last accept4 had an error after which its caller does not try again */
static atomic_int_fast64_t line_ms;   /* of the newest line in the log */
static pthread_mutex_t spare_lock = PTHREAD_MUTEX_INITIALIZER;
static int spare = -1; /* given up for a moment to close a connection when no descriptor is left */

uint64_t accept_refused(void) { return atomic_load(&refused); }

/* ---- strangers ---- */

/* A connection without an admitted call. */
struct stranger {
    int fd;
    uint16_t port; /* of the peer, in network order; with the address it names the connection */
    struct in6_addr address;
    int64_t since_ms;
};
static struct stranger strangers[ACCEPT_STRANGERS];
static int n_strangers;
static pthread_mutex_t strangers_lock = PTHREAD_MUTEX_INITIALIZER; /* the two above */
static atomic_bool guarded[COUNTED];

static void guard(int listener) {
    if (listener >= 0 && listener < COUNTED)
        atomic_store(&guarded[listener], true);
}

static void put_ipv4(const struct in_addr *from, struct in6_addr *to) {
    *to = (struct in6_addr){0};
    to->s6_addr[10] = to->s6_addr[11] = 0xff;
    memcpy(to->s6_addr + 12, from, sizeof *from);
}

/* The other side of a TCP connection. */
static bool peer_of(int fd, struct stranger *ret) {
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    if (getpeername(fd, (struct sockaddr *)&at, &len) || (at.ss_family != AF_INET && at.ss_family != AF_INET6))
        return false;
    if (at.ss_family == AF_INET) {
        put_ipv4(&((struct sockaddr_in *)&at)->sin_addr, &ret->address);
        ret->port = ((struct sockaddr_in *)&at)->sin_port;
    } else {
        ret->address = ((struct sockaddr_in6 *)&at)->sin6_addr;
        ret->port = ((struct sockaddr_in6 *)&at)->sin6_port;
    }
    return true;
}

/* The same of "10.0.0.7:4711" or "[fe80::1%eth0]:4711". */
static bool parse_peer(const char *text, struct stranger *ret) {
    char host[INET6_ADDRSTRLEN + 1];
    const char *colon = strrchr(text, ':'), *begin = *text == '[' ? text + 1 : text;
    int64_t port;
    struct in_addr v4;
    if (!colon || !str_to_i64(colon + 1, &port) || port < 0 || port > UINT16_MAX)
        return false;
    const size_t len = strcspn(begin, *text == '[' ? "]%" : ":");
    if (!str_format(host, sizeof host, "%.*s", (int)len, begin))
        return false;
    ret->port = htons((uint16_t)port);
    if (inet_pton(AF_INET, host, &v4) == 1)
        put_ipv4(&v4, &ret->address);
    else if (inet_pton(AF_INET6, host, &ret->address) != 1)
        return false;
    return true;
}

static bool is_same(const struct stranger *a, const struct stranger *b) {
    return a->port == b->port && !memcmp(&a->address, &b->address, sizeof a->address);
}

/* One address of IPv4, or one /64 of IPv6, which a single machine may have. */
static bool is_neighbour(const struct stranger *a, const struct stranger *b) {
    const bool mapped = IN6_IS_ADDR_V4MAPPED(&a->address);
    return !memcmp(&a->address, &b->address, mapped ? sizeof a->address : sizeof a->address / 2);
}

/* Whether the descriptor is still that connection: its owner may have closed it. */
static bool is_there(const struct stranger *s) {
    struct stranger now;
    return peer_of(s->fd, &now) && is_same(&now, s);
}

static void forget(int i) { strangers[i] = strangers[--n_strangers]; }

/* Its owner sees the end and closes it. */
static bool end_stranger(int i) {
    const bool there = is_there(&strangers[i]);
    if (there)
        shutdown(strangers[i].fd, SHUT_RDWR);
    forget(i);
    return there;
}

/* Lists a new connection. If it is one too many, the oldest makes room: a caller who is known soon gets in whatever others hold.
 * True: one had to. */
static bool list_stranger(int fd) {
    struct stranger s = {.fd = fd, .since_ms = clock_ms()};
    int neighbours = 0, oldest = -1, oldest_neighbour = -1;
    if (!peer_of(fd, &s))
        return false;
    LOCKED(&strangers_lock);
    for (int i = n_strangers - 1; i >= 0; i--)
        if (strangers[i].fd == fd || (is_neighbour(&s, &strangers[i]) && !is_there(&strangers[i])))
            forget(i);
    for (int i = 0; i < n_strangers; i++) {
        const bool near = is_neighbour(&s, &strangers[i]);
        neighbours += near;
        if (oldest < 0 || strangers[i].since_ms < strangers[oldest].since_ms)
            oldest = i;
        if (near && (oldest_neighbour < 0 || strangers[i].since_ms < strangers[oldest_neighbour].since_ms))
            oldest_neighbour = i;
    }
    bool ended = false;
    if (neighbours >= ACCEPT_STRANGERS_OF_ADDRESS)
        ended = end_stranger(oldest_neighbour);
    else if (n_strangers == ACCEPT_STRANGERS)
        ended = end_stranger(oldest);
    strangers[n_strangers++] = s;
    return ended;
}

void accept_admit(const char *peer) {
    struct stranger s = {0};
    if (!parse_peer(peer, &s))
        return;
    LOCKED(&strangers_lock);
    for (int i = n_strangers - 1; i >= 0; i--)
        if (is_same(&s, &strangers[i]))
            forget(i);
}

int accept_end_strangers(int64_t now_ms) {
    int n = 0;
    LOCKED(&strangers_lock);
    for (int i = n_strangers - 1; i >= 0; i--) {
        if (now_ms - strangers[i].since_ms < ACCEPT_STRANGER_MS)
            continue;
        n += end_stranger(i);
    }
    return n;
}

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
    LOCKED(&spare_lock);
    if (spare >= 0)
        close(spare);
    int fd = accept_now(listener, NULL, NULL, SOCK_CLOEXEC), error = errno;
    if (fd >= 0)
        close(fd);
    spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    errno = error;
    return fd;
}

static void keep_spare(void) {
    LOCKED(&spare_lock);
    if (spare < 0)
        spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static bool is_guarded(int listener) { return listener >= 0 && listener < COUNTED && atomic_load(&guarded[listener]); }

static void count_refused(int listener, bool stranger) {
    const int64_t now = clock_ms();
    int_fast64_t last = atomic_load(&line_ms);
    const uint64_t n = atomic_fetch_add(&refused, 1) + 1;
    if ((last && now - last < LINE_MS) || !atomic_compare_exchange_strong(&line_ms, &last, now))
        return;
    if (stranger)
        log_warn("connections refused: too many without an admitted call", "listener=tcp refused=%llu of_address=%d all=%d",
                 (unsigned long long)n, ACCEPT_STRANGERS_OF_ADDRESS, ACCEPT_STRANGERS);
    else
        log_error("connections refused: the other file descriptors are kept for files", "listener=%s refused=%llu fix=\"%s\"",
                  option(listener, SO_DOMAIN) == AF_UNIX ? "unix" : "tcp", (unsigned long long)n,
                  "raise LimitNOFILE, or end clients that open connections and do not use them");
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The error concerns the connection that was to be accepted: the next one may be accepted at once. */
static bool passes(int error) {
    static const int errors[] = {ECONNABORTED, EPROTO,       EPERM,      ENETDOWN,    ENOPROTOOPT, EHOSTDOWN,
                                 ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, ETIMEDOUT};
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
    const bool gone = passes(error), again = error == EAGAIN || error == EINTR;
    if (!gone && !again)
        give_up(listener, true);
    errno = gone ? EINTR : error == ENOMEM || error == ENOBUFS ? EAGAIN : error;
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
        if (fd >= 0 && fd < first_reserved(listener)) {
            if (is_guarded(listener) && list_stranger(fd))
                count_refused(listener, true);
            return fd;
        }
        if (none_left && accept_with_spare(listener) < 0) {
            give_up(listener, errno == EMFILE || errno == ENFILE); /* the connection waits, and no event announces it again */
            errno = EAGAIN;
            return -1;
        }
        if (fd >= 0)
            close(fd);
        count_refused(listener, false);
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
    OWNED_DIR DIR *all = opendir("/proc/self/fdinfo");
    bool found = !all; /* unknown: no reason to give up */
    for (struct dirent *entry; all && !found && (entry = readdir(all));) {
        int64_t n, target;
        str_format(path, sizeof path, "/proc/self/fdinfo/%s", entry->d_name);
        OWNED_FILE FILE *f = str_to_i64(entry->d_name, &n) ? fopen(path, "re") : NULL;
        while (f && !found && fgets(line, sizeof line, f)) {
            char *save = NULL, *word = strtok_r(line, " \t", &save);
            found =
                word && !strcmp(word, "tfd:") && (word = strtok_r(NULL, " \t", &save)) && str_to_i64(word, &target) && target == fd;
        }
    }
    return found;
}

static bool was_given_up(int fd) { return fd < COUNTED && atomic_load(&given_up[fd]); }
static uint64_t accepted_by(int fd) { return fd < COUNTED ? atomic_load(&accepted[fd]) : 0; }

void accept_watch_init(struct accept_watch *w, int port, int64_t now_ms) {
    OWNED_DIR DIR *all = opendir("/proc/self/fd");
    *w = (struct accept_watch){0};
    for (struct dirent *entry; all && w->n < ACCEPT_WATCHED && (entry = readdir(all));) {
        int64_t fd;
        if (!str_to_i64(entry->d_name, &fd) || !listens_at((int)fd, port))
            continue;
        guard((int)fd);
        w->sockets[w->n].fd = (int)fd;
        w->sockets[w->n].accepted = accepted_by((int)fd);
        w->sockets[w->n].polled = in_epoll_set((int)fd);
        w->sockets[w->n++].heard_ms = now_ms;
    }
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
