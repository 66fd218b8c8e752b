/* process: a child of the daemon that is stopped ends at the limits of its job, by the daemon's clock, or when it has said nothing
 * for a minute of the daemon's own work. The children are this program. */
#include <poll.h>
#include <signal.h>

#include "base/base.h"
#include "daemon/jobs/process.h"
#include "unit/temp_dir.h"

/* The daemon's clock: from the child's first word on, each look at it comes step_ms later. */
static int64_t ahead_ms, step_ms;
static bool heard, once;
int64_t __real_clock_ms(void);
int64_t __wrap_clock_ms(void);
int64_t __wrap_clock_ms(void) {
    if (heard)
        ahead_ms += step_ms;
    if (heard && once)
        step_ms = 0;
    return __real_clock_ms() + ahead_ms;
}

struct ending {
    int rc;
    enum stop_reason stopped;
    char text[800];
};

static int on_report(void *ctx, const struct task_report *r) {
    struct ending *e = ctx;
    heard = true;
    if (r->kind == TASK_END) {
        *e = (struct ending){.rc = r->end->rc, .stopped = r->end->stopped};
        err_text(&r->end->err, e->text, sizeof e->text);
    }
    return 0;
}

/* The end of a job with these limits, whose child behaves so. */
static struct ending end_of(void **state, const char *child, const char *limits) {
    char yaml[200];
    struct ending e = {.rc = -1};
    struct runner_wish wish;
    str_format(yaml, sizeof yaml, "kind: train\ndata:\n  source: .\nmodel:\n  preset: tiny\n%s", limits);
    const struct process_config config = {.config = "daemon.yaml", .device = "cpu", .cache = "cache", .page = "page", .threads = 1};
    const struct runner_config runner = {.default_wall_clock_ms = -1, .price_per_hour = 3600};
    const struct runner_job job = {.id = "train-1",
                                   .directory = *state,
                                   .data_root = "",
                                   .yaml = yaml,
                                   .file = "t.yaml",
                                   .overrides = "[]",
                                   .device_ms = 5000};
    const struct runner_owner owner = {on_report, &e};
    setenv("TEST_CHILD", child, 1);
    ahead_ms = 0;
    heard = false;
    runner_wish_init(&wish);
    process_run(&config, &runner, &job, &owner, &wish);
    return e;
}

static void a_child_that_is_stopped_is_killed_after_a_minute(void **state) {
    once = false;
    step_ms = 900;
    const struct ending e = end_of(state, "stops", "");
    assert_int_equal(e.rc, ERR_UNAVAILABLE);
    assert_int_equal(e.stopped, STOP_NONE);
    assert_non_null(strstr(e.text, "said nothing for 60 s"));
}

static void a_child_that_is_stopped_ends_at_the_limits_of_its_job(void **state) {
    once = false;
    step_ms = 900;
    struct ending e = end_of(state, "stops", "limits:\n  wall_clock: 20s\n");
    assert_true(e.rc == ERR_CANCELLED && e.stopped == STOP_TIME_LIMIT);
    step_ms = 900;
    e = end_of(state, "stops", "limits:\n  wall_clock: 1h\n  cost: 25\n"); /* of which 5 are spent */
    assert_true(e.rc == ERR_CANCELLED && e.stopped == STOP_COST_LIMIT);
}

static void what_the_daemon_slept_through_is_no_silence(void **state) {
    once = true;
    step_ms = 3600 * 1000;
    const struct ending e = end_of(state, "ends", "");
    assert_non_null(strstr(e.text, "exit code 3"));
}

static void empty_lines_are_words(void **state) {
    once = false;
    step_ms = 900;
    const struct ending e = end_of(state, "beats", "limits:\n  wall_clock: 20s\n");
    assert_non_null(strstr(e.text, "exit code 4"));
}

/* `run --order FILE` of this program. */
static int child(const char *how) {
    puts("begins");
    fflush(stdout);
    if (!strcmp(how, "stops"))
        raise(SIGSTOP);
    for (int i = 0; !strcmp(how, "beats") && i < 500; i++) {
        poll(NULL, 0, 10);
        putchar('\n');
        fflush(stdout);
    }
    poll(NULL, 0, 200);
    return !strcmp(how, "beats") ? 4 : 3;
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "run"))
        return child(getenv("TEST_CHILD"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_that_is_stopped_is_killed_after_a_minute),
        cmocka_unit_test(a_child_that_is_stopped_ends_at_the_limits_of_its_job),
        cmocka_unit_test(what_the_daemon_slept_through_is_no_silence),
        cmocka_unit_test(empty_lines_are_words),
    };
    return cmocka_run_group_tests(tests, temp_dir_make, temp_dir_remove);
}
