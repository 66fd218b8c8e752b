/* The directories of a daemon at its start: what an earlier process left there goes by its name, and what anybody else put there
 * stays. */
#include "daemon/paths.h"

#include "base/base.h"
#include "unit/temp_dir.h"

/* Below the cache and the results; a folder ends with "/". */
static const char *const own[] = {"cache/networks/upload-7", "cache/networks/snapshot-0x7f00-1/", "cache/networks/backup-3",
                                  "cache/ranks/train-261127-3-0/", "results/uploads/net.safetensors.tmp-12-3"};
static const char *const others[] = {
    "cache/networks/thesis.sonata", "cache/networks/my upload-7/",     "cache/ranks/notes/",     "cache/ranks/train-final/",
    "cache/ranks/list.txt",         "results/uploads/net.safetensors", "results/uploads/tmp.txt"};

static void put(void **state, const char *name) {
    char path[600], file[700];
    struct err err;
    str_format(path, sizeof path, "%s", in_dir(state, name));
    const bool folder = str_ends(path, "/");
    str_format(file, sizeof file, folder ? "%sinside" : "%s", path);
    assert_int_equal(fsio_mkdirs_above(file, &err), 0);
    assert_int_equal(fsio_write_atomic(file, "x", 1, &err), 0);
}

static void own_leftovers_go_and_the_files_of_others_stay(void **state) {
    char cache[512], results[512];
    struct err err;
    struct paths_locks locks;
    str_copy(cache, sizeof cache, in_dir(state, "cache"));
    str_copy(results, sizeof results, in_dir(state, "results"));
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        put(state, own[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        put(state, others[i]);
    const struct config config = {.cache = cache, .results = results, .data = results};
    assert_int_equal(paths_open(&config, &locks, &err), 0);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (fsio_exists(in_dir(state, own[i])))
            fail_msg("%s is left", own[i]);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!fsio_exists(in_dir(state, others[i])))
            fail_msg("%s is gone", others[i]);
    paths_unlock(&locks);
}

static void daemons_share_neither_a_cache_nor_results(void **state) {
    char paths[4][512];
    static const char *const names[] = {"cache", "results", "cache2", "results2"};
    struct paths_locks locks[2];
    struct err err;
    for (int i = 0; i < 4; i++)
        str_copy(paths[i], sizeof paths[i], in_dir(state, names[i]));
    const struct config first = {.cache = paths[0], .results = paths[1]}, same_cache = {.cache = paths[0], .results = paths[3]},
                        same_results = {.cache = paths[2], .results = paths[1]}, one = {.cache = paths[3], .results = paths[3]};
    assert_int_equal(paths_lock(&first, &locks[0], &err), 0);
    assert_int_equal(paths_lock(&same_cache, &locks[1], &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "another daemon uses paths.cache"));
    assert_int_equal(paths_lock(&same_results, &locks[1], &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "another daemon uses paths.results"));
    paths_unlock(&locks[1]);
    paths_unlock(&locks[0]);
    assert_int_equal(paths_lock(&same_results, &locks[0], &err), 0);
    assert_int_equal(paths_lock(&one, &locks[1], &err), 0);
    paths_unlock(&locks[0]);
    paths_unlock(&locks[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {in_temp_dir(own_leftovers_go_and_the_files_of_others_stay),
                                       in_temp_dir(daemons_share_neither_a_cache_nor_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
