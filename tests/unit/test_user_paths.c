/* user_paths: the directories of the XDG specification, and whether somebody listens on a socket. */
#include "base/user_paths.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "unit/cmocka_all.h"

static int clear(void **state) {
    (void)state;
    static const char *const names[] = {"XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    return setenv("HOME", "/home/ada", 1);
}

static void homes_are_the_default(void **state) {
    (void)state;
    char p[USER_PATH_SIZE];
    assert_int_equal(user_path(USER_CONFIG, "daemon.yaml", p, NULL), 0);
    assert_string_equal(p, "/home/ada/.config/brrd/daemon.yaml");
    assert_int_equal(user_path(USER_CACHE, NULL, p, NULL), 0);
    assert_string_equal(p, "/home/ada/.cache/brrd");
    assert_int_equal(user_path_socket(p, NULL), 0);
    assert_string_equal(p, "/home/ada/.local/state/brrd/brrd.sock");
}

static void variables_count_when_they_are_absolute(void **state) {
    (void)state;
    char p[USER_PATH_SIZE];
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("XDG_STATE_HOME", "/state", 1);
    setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
    assert_int_equal(user_path(USER_CACHE, NULL, p, NULL), 0);
    assert_string_equal(p, "/home/ada/.cache/brrd");
    assert_int_equal(user_path(USER_STATE, NULL, p, NULL), 0);
    assert_string_equal(p, "/state/brrd");
    assert_int_equal(user_path_socket(p, NULL), 0);
    assert_string_equal(p, "/run/user/7/brrd/brrd.sock");
}

static void a_user_without_home_is_told(void **state) {
    (void)state;
    char p[USER_PATH_SIZE], text[400], deep[2 * USER_PATH_SIZE];
    struct err err = {0};
    setenv("HOME", "/", 1); /* of services and containers */
    assert_int_equal(user_path(USER_CONFIG, NULL, p, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err_text(&err, text, sizeof text), "HOME is /, the root of the file system"));
    unsetenv("HOME");
    assert_int_equal(user_path(USER_CONFIG, NULL, p, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err_text(&err, text, sizeof text), "XDG_CONFIG_HOME"));
    memset(deep, 'x', sizeof deep);
    deep[0] = '/';
    deep[sizeof deep - 1] = 0;
    setenv("HOME", deep, 1);
    assert_int_equal(user_path(USER_CONFIG, NULL, p, &err), ERR_RANGE);
}

static void a_socket_answers_while_somebody_listens(void **state) {
    (void)state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/brr-user-XXXXXX";
    assert_non_null(mkdtemp(dir));
    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", dir);
    assert_false(user_path_answers(address.sun_path));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_false(user_path_answers(address.sun_path));
    assert_int_equal(listen(fd, 4), 0);
    assert_true(user_path_answers(address.sun_path));
    close(fd);
    assert_false(user_path_answers(address.sun_path)); /* what a killed daemon leaves */
    unlink(address.sun_path);
    rmdir(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(homes_are_the_default, clear),
        cmocka_unit_test_setup(variables_count_when_they_are_absolute, clear),
        cmocka_unit_test_setup(a_user_without_home_is_told, clear),
        cmocka_unit_test(a_socket_answers_while_somebody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
