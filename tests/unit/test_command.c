/* command: the status and output of a program, and programs that do not end. */
#include "daemon/jobs/command.h"

#include "base/spawn.h"
#include "unit/cmocka_all.h"

enum { OUTPUT_BYTES = 64 << 10 };

static int run_shell(const char *script, int64_t timeout_ms, struct str *out, int *ret_status) {
    const char *const words[] = {"sh", "-c", script, NULL};
    str_init(out, OUTPUT_BYTES);
    return command_run(words, NULL, timeout_ms, out, ret_status, NULL);
}

static void status_and_both_outputs_are_returned(void **state) {
    struct str out;
    int status = -1;
    (void)state;
    assert_int_equal(run_shell("echo one; echo two >&2; exit 3", 10000, &out, &status), 0);
    assert_int_equal(status, 3);
    assert_string_equal(str_cstr(&out), "one\ntwo\n");
    str_done(&out);
}

static void output_beyond_the_limit_is_read_and_dropped(void **state) {
    struct str out;
    int status = -1;
    (void)state;
    assert_int_equal(run_shell("head -c 300000 /dev/zero | tr '\\0' x", 10000, &out, &status), 0);
    assert_int_equal(status, 0);
    assert_true(out.len > 0 && out.len <= OUTPUT_BYTES);
    str_done(&out);
}

static void a_program_that_does_not_end_is_killed_with_its_children(void **state) {
    struct str out;
    int status = -1;
    (void)state;
    assert_int_equal(run_shell("sleep 600 & sleep 600", 100, &out, &status), ERR_DEADLINE);
    str_done(&out);
    assert_int_equal(run_shell("sleep 600 & echo $!", 10000, &out, &status), 0); /* a child that keeps the output open */
    char kill[64];
    str_format(kill, sizeof kill, "kill %d", (int)strtol(str_cstr(&out), NULL, 10));
    str_done(&out);
    assert_int_equal(run_shell(kill, 10000, &out, &status), 0);
    assert_int_equal(status, 0);
    str_done(&out);
}

static void what_is_no_program_is_an_error(void **state) {
    const char *const words[] = {"no-such-program-here", NULL};
    struct str out;
    int status = -1;
    (void)state;
    str_init(&out, OUTPUT_BYTES);
    assert_int_equal(command_run(words, NULL, 1000, &out, &status, NULL), ERR_NOT_FOUND);
    str_done(&out);
    assert_int_equal(run_shell("kill -9 $$", 10000, &out, &status), ERR_INVALID);
    str_done(&out);
}

static void a_program_gets_the_variables_that_are_named(void **state) {
    const char *const words[] = {"sh", "-c", "env | grep -E '^(TEST_|OWN)' | sort", NULL}, *const set[] = {"OWN=1", NULL},
                      *const patterns[] = {"PATH", "TEST_NA*", NULL};
    struct str out;
    int status = -1;
    (void)state;
    assert_int_equal(setenv("TEST_NAMED", "2", 1) + setenv("TEST_SECRET", "3", 1), 0);
    const char **environment = spawn_environment(set, patterns);
    str_init(&out, OUTPUT_BYTES);
    assert_int_equal(command_run(words, environment, 10000, &out, &status, NULL), 0);
    assert_string_equal(str_cstr(&out), "OWN=1\nTEST_NAMED=2\n");
    free(environment);
    str_done(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_both_outputs_are_returned),
        cmocka_unit_test(output_beyond_the_limit_is_read_and_dropped),
        cmocka_unit_test(a_program_that_does_not_end_is_killed_with_its_children),
        cmocka_unit_test(what_is_no_program_is_an_error),
        cmocka_unit_test(a_program_gets_the_variables_that_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
