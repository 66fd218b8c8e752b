#include "daemon/rpc/accept.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "unit/cmocka_all.h"

/* Listeners under a limit of 128 descriptors, of which TCP leaves 16 and the unix socket 8. */
enum { LIMIT = 128, TCP_LEAVES = LIMIT / 8, UNIX_LEAVES = LIMIT / 16 };

struct ears {
    struct rlimit before;
    int tcp, unix_socket, port;
    struct sockaddr_un path;
};

static int port_of(int fd) {
    struct sockaddr_in at = {0};
    socklen_t len = sizeof at;
    return getsockname(fd, (struct sockaddr *)&at, &len) ? -1 : ntohs(at.sin_port);
}

static int setup(void **state) {
    struct ears *e = calloc(1, sizeof *e);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    getrlimit(RLIMIT_NOFILE, &e->before);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){LIMIT, e->before.rlim_max});
    e->tcp = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    e->unix_socket = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    e->path.sun_family = AF_UNIX;
    snprintf(e->path.sun_path + 1, sizeof e->path.sun_path - 1, "brr-test-accept-%d", getpid());
    *state = e;
    if (bind(e->tcp, (struct sockaddr *)&any, sizeof any) || listen(e->tcp, 64) ||
        bind(e->unix_socket, (struct sockaddr *)&e->path, sizeof e->path) || listen(e->unix_socket, 64))
        return -1;
    e->port = port_of(e->tcp);
    return 0;
}

static int teardown(void **state) {
    struct ears *e = *state;
    setrlimit(RLIMIT_NOFILE, &e->before);
    close(e->tcp);
    close(e->unix_socket);
    free(e);
    return 0;
}

/* A client whose descriptor is above the server's limit, so that it takes none from it. */
static int away(int fd) {
    struct rlimit limit, more;
    getrlimit(RLIMIT_NOFILE, &limit);
    more = (struct rlimit){1024, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &more), 0);
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 600);
    assert_true(moved >= 0);
    close(fd);
    setrlimit(RLIMIT_NOFILE, &limit);
    return moved;
}

static int call_tcp(const struct ears *e) {
    const struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)e->port)};
    int fd = away(socket(AF_INET, SOCK_STREAM, 0));
    assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

static int call_unix(const struct ears *e) {
    int fd = away(socket(AF_UNIX, SOCK_STREAM, 0));
    assert_int_equal(connect(fd, (const struct sockaddr *)&e->path, sizeof e->path), 0);
    return fd;
}

static bool closed_by_peer(int fd) {
    char byte;
    return recv(fd, &byte, 1, 0) <= 0;
}

/* Opens files until `leave` descriptors are left; returns their number. */
static int fill(int *files, int leave) {
    int n = 0, fd;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0 && fd < LIMIT - leave)
        files[n++] = fd;
    if (fd >= 0)
        close(fd);
    return n;
}

static void empty(const int *files, int n) {
    for (int i = 0; i < n; i++)
        close(files[i]);
}

static void connections_leave_descriptors_for_files_and_for_the_unix_socket(void **state) {
    const struct ears *e = *state;
    int files[LIMIT], n = fill(files, TCP_LEAVES);
    const uint64_t before = accept_refused();
    int tcp = call_tcp(e), local = call_unix(e);
    assert_int_equal(accept4(e->tcp, NULL, NULL, SOCK_CLOEXEC), -1);
    assert_int_equal(errno, EAGAIN);
    assert_true(closed_by_peer(tcp));
    assert_int_equal(accept_refused(), before + 1);
    int accepted = accept4(e->unix_socket, NULL, NULL, SOCK_CLOEXEC);
    assert_true(accepted >= 0);
    close(accepted);
    empty(files, n);
    n = fill(files, UNIX_LEAVES);
    close(local);
    local = call_unix(e);
    assert_int_equal(accept4(e->unix_socket, NULL, NULL, SOCK_CLOEXEC), -1);
    assert_true(closed_by_peer(local));
    empty(files, n);
    close(tcp);
    close(local);
}

static void running_out_of_descriptors_is_no_error_of_the_listener(void **state) {
    const struct ears *e = *state;
    int files[LIMIT], calls[3], n;
    for (int i = 0; i < 3; i++)
        calls[i] = call_tcp(e);
    assert_int_equal(accept4(e->unix_socket, NULL, NULL, 0), -1); /* the spare descriptor is there from the first call on */
    n = fill(files, 0);
    assert_int_equal(accept4(e->tcp, NULL, NULL, SOCK_CLOEXEC), -1);
    assert_int_equal(errno, EAGAIN);
    for (int i = 0; i < 3; i++) {
        assert_true(closed_by_peer(calls[i]));
        close(calls[i]);
    }
    empty(files, n);
    int call = call_tcp(e);
    struct sockaddr_in peer = {0};
    socklen_t len = sizeof peer;
    int accepted = accept4(e->tcp, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
    assert_true(accepted >= 0 && len == sizeof peer && peer.sin_family == AF_INET);
    close(accepted);
    close(call);
}

static void a_port_whose_connections_wait_is_slow_and_catches_up(void **state) {
    const struct ears *e = *state;
    struct accept_watch w;
    int64_t now = 1000;
    accept_watch_init(&w, e->port, now);
    assert_int_equal(w.n, 1);
    assert_int_equal(accept_watch_look(&w, now += 10 * ACCEPT_SLOW_MS), ACCEPT_WELL); /* nobody calls */
    int first = call_tcp(e), second = call_tcp(e);
    assert_int_equal(accept_watch_look(&w, now += ACCEPT_SLOW_MS - 1), ACCEPT_WELL);
    int accepted = accept4(e->tcp, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(accept_watch_look(&w, now += ACCEPT_SLOW_MS), ACCEPT_WELL); /* one waits, but another was accepted meanwhile */
    assert_int_equal(accept_watch_look(&w, now += ACCEPT_SLOW_MS - 1), ACCEPT_WELL);
    assert_int_equal(accept_watch_look(&w, now += 1), ACCEPT_SLOW);
    assert_int_equal(accept_watch_look(&w, now += 100 * ACCEPT_SLOW_MS), ACCEPT_SLOW);
    close(accepted);
    accepted = accept4(e->tcp, NULL, NULL, SOCK_CLOEXEC);
    assert_int_equal(accept_watch_look(&w, now += ACCEPT_SLOW_MS), ACCEPT_WELL);
    close(accepted);
    close(first);
    close(second);
}

static void a_port_that_nothing_will_accept_from_is_deaf(void **state) {
    const struct ears *e = *state;
    struct accept_watch w;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int64_t now = 1000;
    int set = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, e->tcp, &event), 0);
    accept_watch_init(&w, e->port, now);
    int waiting = call_tcp(e);
    assert_int_equal(accept_watch_look(&w, now += ACCEPT_SLOW_MS), ACCEPT_SLOW);
    close(set); /* it is in no set any more */
    assert_int_equal(accept_watch_look(&w, now), ACCEPT_DEAF);
    set = epoll_create1(EPOLL_CLOEXEC);
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, e->tcp, &event), 0);
    assert_int_equal(accept_watch_look(&w, now), ACCEPT_SLOW);
    assert_int_equal(shutdown(e->tcp, SHUT_RD), 0);
    assert_int_equal(accept_watch_look(&w, now), ACCEPT_DEAF);
    assert_int_equal(accept4(e->tcp, NULL, NULL, 0), -1); /* EINVAL: its owner gives it up */
    assert_int_equal(listen(e->tcp, 64), 0);
    close(waiting);
    struct ears again = *e;
    again.port = port_of(e->tcp); /* it may be another */
    waiting = call_tcp(&again);
    assert_int_equal(accept_watch_look(&w, now += ACCEPT_SLOW_MS), ACCEPT_DEAF);
    close(waiting);
    close(set);
}

static bool still_open(int fd) {
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

/* Of one address. Callers who are known stay, and a new one is accepted. */
static void strangers_cannot_take_all_connections(void **state) {
    const struct ears *e = *state;
    enum { MORE = 5, ALL = ACCEPT_STRANGERS_OF_ADDRESS + MORE };
    int calls[ALL], accepted[ALL];
    struct accept_watch w;
    accept_watch_init(&w, e->port, 0);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){512, e->before.rlim_max});
    for (int i = 0; i < ALL; i++) {
        struct sockaddr_in peer;
        socklen_t len = sizeof peer;
        char text[64];
        calls[i] = call_tcp(e);
        accepted[i] = accept4(e->tcp, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
        assert_true(accepted[i] >= 0);
        snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(peer.sin_port));
        if (i < 2)
            accept_admit(text);
    }
    for (int i = 0; i < ALL; i++)
        assert_int_equal(still_open(calls[i]), i < 2 || i >= MORE); /* strangers 2, 3 and 4 have made room */
    close(accepted[MORE]);
    calls[2] = call_tcp(e);
    accepted[MORE] = accept4(e->tcp, NULL, NULL, SOCK_CLOEXEC); /* in place of the one that was closed */
    assert_true(accepted[MORE] >= 0 && still_open(calls[MORE + 1]));
    assert_int_equal(accept_end_strangers(clock_ms()), 0);
    assert_int_equal(accept_end_strangers(clock_ms() + ACCEPT_STRANGER_MS), ACCEPT_STRANGERS_OF_ADDRESS);
    assert_true(still_open(calls[0]) && still_open(calls[1]) && !still_open(calls[2]) && !still_open(calls[MORE + 1]));
    for (int i = 0; i < ALL; i++) {
        close(accepted[i]);
        close(calls[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(connections_leave_descriptors_for_files_and_for_the_unix_socket, setup, teardown),
        cmocka_unit_test_setup_teardown(running_out_of_descriptors_is_no_error_of_the_listener, setup, teardown),
        cmocka_unit_test_setup_teardown(a_port_whose_connections_wait_is_slow_and_catches_up, setup, teardown),
        cmocka_unit_test_setup_teardown(strangers_cannot_take_all_connections, setup, teardown),
        cmocka_unit_test_setup_teardown(a_port_that_nothing_will_accept_from_is_deaf, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
