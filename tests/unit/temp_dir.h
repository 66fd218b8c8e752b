/* temp_dir: a directory of its own for each test: setup and teardown functions for cmocka, and paths below it. */
#pragma once

#include "unit/cmocka_all.h"

/* *state becomes the malloc'd path of a fresh directory. */
static inline int temp_dir_make(void **state) {
    const char *base = getenv("TMPDIR");
    char path[256];
    if (!str_format(path, sizeof path, "%s/brr-test-XXXXXX", base && *base ? base : "/tmp") || !mkdtemp(path))
        return -1;
    *state = strdup(path);
    return *state ? 0 : -1;
}

static inline int temp_dir_remove(void **state) {
    int rc = fsio_remove_tree(*state, NULL);
    free(*state);
    return rc;
}

/* "DIR/name" in one of four buffers that take turns. */
static inline const char *in_dir(void **state, const char *name) {
    static char paths[4][512];
    static int turn;
    char *path = paths[turn++ & 3];
    assert_true(str_format(path, sizeof paths[0], "%s/%s", (const char *)*state, name));
    return path;
}

static inline void put_file(const char *path, const void *data, size_t len) {
    struct err failure = {0};
    if (fsio_write_atomic(path, data, len, &failure))
        fail_msg("%s", failure.message);
}

#define in_temp_dir(test) cmocka_unit_test_setup_teardown(test, temp_dir_make, temp_dir_remove)
