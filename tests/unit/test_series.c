/* Checkpoints of one file each: which are restored, which are removed, and which errors are not the file's. */
#include "unit/temp_dir.h"

#include "work/series.h"

/* A restore that answers with the code that the file holds, "0" or an error. */
static int restore(void *task, const char *path, struct err *err) {
    char *text = NULL;
    size_t len = 0;
    int code = 0;
    assert_int_equal(fsio_read(path, 100, &text, &len, NULL), 0);
    assert_int_equal(sscanf(text, "%d", &code), 1);
    free(text);
    str_copy(task, 512, path);
    return code ? err_set(err, code, "as the test wants it") : 0;
}

static int restore_all(void **state, char used[512], bool *found, struct err *err) {
    struct task_env env = {.directory = *state};
    const struct series s = {&env, "tick", 6};
    *used = '\0';
    assert_int_equal(device_open("cpu", 1, &env.device, NULL), 0);
    int rc = series_restore(&s, restore, used, found, err);
    device_close(env.device);
    return rc;
}

static const char *checkpoint(void **state, int tick, int code) {
    static char paths[3][512];
    char *path = paths[tick / 10 - 1], name[64], text[16];
    str_format(name, sizeof name, "checkpoints/tick-%06d.safetensors", tick);
    str_format(text, sizeof text, "%d", code);
    assert_int_equal(fsio_mkdirs(in_dir(state, "checkpoints"), NULL), 0);
    str_copy(path, sizeof paths[0], in_dir(state, name));
    put_file(path, text, strlen(text));
    return path;
}

static void without_checkpoints_a_task_begins_anew(void **state) {
    char used[512];
    bool found = true;
    assert_int_equal(restore_all(state, used, &found, NULL), 0);
    assert_false(found);
}

/* A broken one would count among those that are kept, and push out the ones that follow. */
static void broken_checkpoints_are_removed_and_the_one_before_is_used(void **state) {
    char used[512];
    bool found = false;
    const char *first = checkpoint(state, 10, 0), *cut = checkpoint(state, 20, ERR_DATA_LOSS),
               *wrong = checkpoint(state, 30, ERR_INVALID);
    assert_int_equal(restore_all(state, used, &found, NULL), 0);
    assert_true(found);
    assert_string_equal(used, first);
    assert_true(fsio_exists(first) && !fsio_exists(cut) && !fsio_exists(wrong));
}

/* Nothing is begun anew because memory was short for a moment. */
static void errors_that_are_not_the_files_end_the_attempt(void **state) {
    char used[512];
    bool found = true;
    struct err err = {0};
    const char *older = checkpoint(state, 10, 0), *newest = checkpoint(state, 20, ERR_EXHAUSTED);
    assert_int_equal(restore_all(state, used, &found, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.message, newest));
    assert_false(found);
    assert_true(fsio_exists(older) && fsio_exists(newest));
}

static void a_folder_that_cannot_be_listed_is_not_an_empty_one(void **state) {
    char used[512];
    bool found;
    struct err err = {0};
    put_file(in_dir(state, "checkpoints"), "", 0);
    assert_int_not_equal(restore_all(state, used, &found, &err), 0);
    assert_non_null(strstr(err.message, "cannot list the checkpoints"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(without_checkpoints_a_task_begins_anew),
        in_temp_dir(broken_checkpoints_are_removed_and_the_one_before_is_used),
        in_temp_dir(errors_that_are_not_the_files_end_the_attempt),
        in_temp_dir(a_folder_that_cannot_be_listed_is_not_an_empty_one),
    };
    return cmocka_run_group_tests_name("series", tests, NULL, NULL);
}
