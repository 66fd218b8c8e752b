/* slurm_record: what a job's directory says about its attempts in a cluster survives as it was written. */
#include "daemon/jobs/slurm_record.h"

#include "unit/cmocka_all.h"

static char dir[] = "/tmp/brr-slurm-record-XXXXXX";

static int make_dir(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state) {
    (void)state;
    return fsio_remove_tree(dir, NULL);
}

static void put(const char *name, const char *text) {
    char path[128];
    str_format(path, sizeof path, "%s/%s", dir, name);
    assert_int_equal(fsio_write_atomic(path, text, strlen(text), NULL), 0);
}

static void a_record_reads_back(void **state) {
    (void)state;
    struct slurm_record out, records[] = {{.attempt = 3, .state = SLURM_BEGUN},
                                          {.attempt = 12, .state = SLURM_OVER},
                                          {1, SLURM_LISTED, 999, "brrd-train-1-1", "/shared/a folder/jobs/train-1"},
                                          {1, SLURM_JOINED, 0, "brrd-train-1-1", "/x"}};
    slurm_record_read(dir, &out);
    assert_true(out.state == SLURM_NONE && out.attempt == 0);
    for (size_t i = 0; i < sizeof records / sizeof *records; i++) {
        assert_int_equal(slurm_record_write(dir, &records[i], NULL), 0);
        slurm_record_read(dir, &out);
        assert_true(out.attempt == records[i].attempt && out.state == records[i].state && out.task == records[i].task);
        assert_string_equal(out.array, records[i].array);
        assert_string_equal(out.directory, records[i].directory);
    }
}

static void what_is_no_record_counts_as_none(void **state) {
    (void)state;
    static const char *const texts[] = {"", "begun\n", "1\n", "1 halfway\n", "1 listed 3\n", "1 joined 3 brrd-train-1-1\n"};
    struct slurm_record out;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        put("slurm", texts[i]);
        slurm_record_read(dir, &out);
        assert_int_equal(out.state, SLURM_NONE);
    }
    put("slurm", "4 begun\n"); /* as earlier versions wrote it */
    slurm_record_read(dir, &out);
    assert_true(out.attempt == 4 && out.state == SLURM_BEGUN);
}

static void a_new_attempt_has_no_exit_code(void **state) {
    (void)state;
    assert_int_equal(slurm_record_exit(dir), -1);
    put("exit", "75\n");
    put("tries", "2\n");
    assert_int_equal(slurm_record_exit(dir), 75);
    assert_int_equal(slurm_record_clear(dir, NULL), 0);
    assert_int_equal(slurm_record_clear(dir, NULL), 0);
    assert_int_equal(slurm_record_exit(dir), -1);
}

static void the_batch_script_gets_a_line_for_each_override(void **state) {
    (void)state;
    char path[128], *text = NULL;
    size_t len = 0;
    assert_int_equal(slurm_record_job(dir, "kind: train\n", "[\"a=1\",\"data.split.test=[\\\"sub 1\\\", \\\"b\\\"]\"]", NULL), 0);
    str_format(path, sizeof path, "%s/sets", dir);
    assert_int_equal(fsio_read(path, 1000, &text, &len, NULL), 0);
    assert_string_equal(text, "a=1\ndata.split.test=[\"sub 1\", \"b\"]\n");
    free(text);
    str_format(path, sizeof path, "%s/job.yaml", dir);
    assert_int_equal(fsio_read(path, 1000, &text, &len, NULL), 0);
    assert_string_equal(text, "kind: train\n");
    free(text);
}

static void a_state_that_nobody_knows_is_no_end(void **state) {
    (void)state;
    assert_true(slurm_state_is_over("COMPLETED") && slurm_state_is_over("NODE_FAIL") && slurm_state_is_over("CANCELLED"));
    assert_false(slurm_state_is_over("RUNNING") || slurm_state_is_over("RESV_DEL_HOLD") || slurm_state_is_over("STAGE_OUT"));
    assert_false(slurm_state_is_over("OF_A_LATER_VERSION"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_that_nobody_knows_is_no_end),
        cmocka_unit_test(a_record_reads_back),
        cmocka_unit_test(what_is_no_record_counts_as_none),
        cmocka_unit_test(a_new_attempt_has_no_exit_code),
        cmocka_unit_test(the_batch_script_gets_a_line_for_each_override),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
