/* A process that may not start threads: the start of the daemon says so, and its stop has a limit all the same. */
#include <sys/resource.h>
#include <sys/wait.h>

#include "daemon/deadline.h"
#include "daemon/hosts/thread_room.h"
#include "skip.h"
#include "unit/cmocka_all.h"

enum { NOBODY = 65534, NO_LIMIT = 77 };

/* As a user whose processes may have n threads in all; root has no such limit. False where that cannot be had. */
static bool limit_threads(rlim_t n) {
    const struct rlimit limit = {n, n};
    if (!getuid() && setuid(NOBODY))
        return false;
    return !setrlimit(RLIMIT_NPROC, &limit);
}

/* Runs body in a process of its own; its exit status. */
static int status_of(void (*body)(void)) {
    int status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void enough_threads_are_enough(void **state) {
    (void)state;
    struct err err;
    assert_int_equal(thread_room_check(thread_room_needed(), &err), 0);
}

static void check_few(void) {
    struct err err;
    if (!limit_threads(3))
        _exit(NO_LIMIT);
    if (thread_room_check(100, &err) != ERR_EXHAUSTED || !strstr(err.message, "needs about 100 threads") ||
        !strstr(err.message, "TasksMax"))
        _exit(1);
}

static void too_few_threads_are_named_before_a_library_ends_the_process(void **state) {
    (void)state;
    int status = status_of(check_few);
    if (status == NO_LIMIT)
        skip_because(SKIP_RIGHTS, "no user whose threads can be limited");
    assert_int_equal(status, 0);
}

static void end_late(void) {
    struct deadline d = {.started = false};
    deadline_start(&d, 600 * 1000, 7);
    deadline_shorten(&d, 50);
    sleep(60);
}

static void end_late_without_threads(void) {
    if (!limit_threads(1))
        _exit(7);
    end_late();
}

static void a_stop_has_a_limit_that_can_be_shortened(void **state) {
    (void)state;
    assert_int_equal(status_of(end_late), 7);
    assert_int_equal(status_of(end_late_without_threads), 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enough_threads_are_enough),
        cmocka_unit_test(too_few_threads_are_named_before_a_library_ends_the_process),
        cmocka_unit_test(a_stop_has_a_limit_that_can_be_shortened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
