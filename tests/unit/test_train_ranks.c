/* train_ranks: each rank of each training has a folder of its own for the files of its validations. */
#include "train/train_ranks.h"

#include "unit/cmocka_all.h"

static void folder_of(const char *job, int rank, char ret[256]) {
    struct world world = {.rank = rank, .size = 4};
    const struct train t = {.env = {.directory = job, .cache_dir = "/cache"}, .world = &world};
    struct err err;
    assert_int_equal(train_ranks_folder(&t, ret, 256, &err), 0);
}

static void no_two_ranks_or_jobs_share_a_folder(void **state) {
    (void)state;
    static const char *const jobs[] = {"/results/jobs/train-1", "/results/jobs/train-2"};
    char folders[8][256];
    for (int i = 0; i < 8; i++) {
        folder_of(jobs[i / 4], i % 4, folders[i]);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(folders[i], folders[k]);
    }
    assert_string_equal(folders[0], jobs[0]);
    assert_int_equal(strncmp(folders[1], "/cache/", 7), 0);
}

static void a_path_that_does_not_fit_is_an_error(void **state) {
    (void)state;
    struct world world = {.rank = 1, .size = 2};
    const struct train t = {.env = {.directory = "/results/jobs/train-1", .cache_dir = "/cache"}, .world = &world};
    struct err err;
    char small[12];
    assert_int_equal(train_ranks_folder(&t, small, sizeof small, &err), ERR_RANGE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_ranks_or_jobs_share_a_folder),
        cmocka_unit_test(a_path_that_does_not_fit_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
