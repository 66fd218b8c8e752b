/* notify: a service manager that reads nothing holds up nothing, and hears of each state when it reads again. */
#include "daemon/notify.h"

#include "base/base.h"
#include "unit/temp_dir.h"

/* The service manager's side. */
struct fixture {
    void *dir;
    char path[300], heard[64];
    int fd;
    struct notify notify;
};

static void listen_at(struct fixture *f, const char *address) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    str_copy(at.sun_path, sizeof at.sun_path, address);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(address) + (*address == '/'));
    if (*address == '@')
        at.sun_path[0] = '\0';
    f->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(f->fd, (struct sockaddr *)&at, len), 0);
    assert_int_equal(notify_open(&f->notify, address, NULL), 0);
}

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    *state = f;
    if (temp_dir_make(&f->dir))
        return -1;
    str_format(f->path, sizeof f->path, "%s/notify", (char *)f->dir);
    listen_at(f, f->path);
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    notify_close(&f->notify);
    close(f->fd);
    int rc = temp_dir_remove(&f->dir);
    free(f);
    return rc;
}

/* The next message, or "". */
static const char *hear(struct fixture *f) {
    ssize_t n = recv(f->fd, f->heard, sizeof f->heard - 1, 0);
    f->heard[n < 0 ? 0 : n] = '\0';
    return f->heard;
}

static void fill(const struct fixture *f) {
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    while (sendto(fd, "x", 1, 0, (const struct sockaddr *)&f->notify.to, f->notify.len) == 1) {
    }
    close(fd);
}

static void empty(struct fixture *f) {
    while (*hear(f))
        assert_string_equal(f->heard, "x");
}

static void messages_arrive(void **state) {
    struct fixture *f = *state;
    notify_state(&f->notify, "READY=1");
    notify_pulse(&f->notify, "WATCHDOG=1");
    assert_string_equal(hear(f), "READY=1");
    assert_string_equal(hear(f), "WATCHDOG=1");
    notify_tick(&f->notify);
    assert_string_equal(hear(f), "");
}

static void a_full_queue_delays_states_and_drops_signs_of_life(void **state) {
    struct fixture *f = *state;
    fill(f);
    notify_state(&f->notify, "READY=1");
    notify_pulse(&f->notify, "WATCHDOG=1");
    empty(f);
    notify_tick(&f->notify);
    assert_string_equal(hear(f), "READY=1");
    assert_string_equal(hear(f), "");
    fill(f);
    notify_state(&f->notify, "STOPPING=1");
    empty(f);
    notify_pulse(&f->notify, "WATCHDOG=1"); /* after what is due */
    assert_string_equal(hear(f), "STOPPING=1");
    assert_string_equal(hear(f), "WATCHDOG=1");
}

static void the_newest_state_replaces_one_that_was_not_sent(void **state) {
    struct fixture *f = *state;
    fill(f);
    notify_state(&f->notify, "READY=1");
    notify_state(&f->notify, "STOPPING=1");
    empty(f);
    notify_tick(&f->notify);
    assert_string_equal(hear(f), "STOPPING=1");
    assert_string_equal(hear(f), "");
}

static void an_abstract_socket_is_one_too(void **state) {
    struct fixture *f = *state;
    char name[64];
    str_format(name, sizeof name, "@brr-test-notify-%ld", (long)getpid());
    notify_close(&f->notify);
    close(f->fd);
    listen_at(f, name);
    notify_state(&f->notify, "READY=1");
    assert_string_equal(hear(f), "READY=1");
}

static void without_a_service_manager_nothing_is_sent(void **state) {
    struct notify n;
    struct err err;
    (void)state;
    assert_int_equal(notify_open(&n, NULL, NULL), 0);
    notify_state(&n, "READY=1");
    assert_null(n.due);
    notify_close(&n);
    assert_int_equal(notify_open(&n, "vsock:2:1", &err), ERR_INVALID);
    assert_non_null(strstr(err.message, "NOTIFY_SOCKET"));
    notify_pulse(&n, "WATCHDOG=1");
    notify_close(&n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_arrive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_queue_delays_states_and_drops_signs_of_life, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_state_replaces_one_that_was_not_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_abstract_socket_is_one_too, set_up, tear_down),
        cmocka_unit_test(without_a_service_manager_nothing_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
