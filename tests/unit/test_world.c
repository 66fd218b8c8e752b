/* What the ranks of a world exchange, here threads of one process, and what happens when one of them does not come. */
#include "base/world.h"

#include "base/world_mpi.h"
#include "unit/cmocka_all.h"

enum { RANKS = 8, LIMIT_MS = 20000 };

struct rank {
    struct world world;
    pthread_t thread;
    int gathered[RANKS], received, limit_ms, rc;
    int *common[2];
    struct err err;
};
static struct rank ranks[RANKS];

static void *use_all(void *arg) {
    struct rank *r = arg;
    r->gathered[r->world.rank] = 100 + r->world.rank;
    r->received = r->world.rank ? -1 : 7;
    if ((r->rc = world_gather(&r->world, r->gathered, sizeof r->gathered[0], LIMIT_MS, &r->err)) ||
        (r->rc = world_broadcast(&r->world, &r->received, sizeof r->received, LIMIT_MS, &r->err)))
        return NULL;
    r->rc = world_barrier(&r->world, LIMIT_MS, &r->err);
    return NULL;
}

static void run(int n, int first, void *(*work)(void *arg)) {
    struct world worlds[RANKS];
    struct err err = {0};
    memset(ranks, 0, sizeof ranks);
    assert_int_equal(world_threads(worlds, n, &err), 0);
    for (int i = 0; i < n; i++)
        ranks[i].world = worlds[i];
    for (int i = first; i < n; i++)
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, work, &ranks[i]), 0);
    for (int i = first; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    for (int i = 0; i < n; i++)
        world_close(&ranks[i].world, !ranks[i].rc);
}

static void every_rank_gets_what_all_have_and_what_rank_0_says(void **state) {
    (void)state;
    for (int n = 1; n <= RANKS; n++) {
        run(n, 0, use_all);
        for (int i = 0; i < n; i++) {
            assert_int_equal(ranks[i].rc, 0);
            assert_int_equal(ranks[i].received, 7);
            for (int k = 0; k < n; k++)
                assert_int_equal(ranks[i].gathered[k], 100 + k);
        }
    }
}

/* Two pieces; the second one is still there when the world is closed. */
static void *have_in_common(void *arg) {
    struct rank *r = arg;
    for (int i = 0; i < 2; i++) {
        void *common = NULL;
        if ((r->rc = world_common(&r->world, sizeof ranks[0].gathered, &common, &r->err)))
            return NULL;
        r->common[i] = common;
        r->common[i][r->world.rank] = 10 * i + r->world.rank;
    }
    r->rc = world_barrier(&r->world, LIMIT_MS, &r->err);
    for (int k = 0; k < RANKS; k++)
        r->gathered[k] = r->common[0][k];
    world_common_free(r->common[0]);
    return NULL;
}

static void ranks_that_are_threads_have_memory_in_common(void **state) {
    struct world alone;
    void *none = ranks;
    (void)state;
    run(RANKS, 0, have_in_common);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].rc, 0);
        assert_ptr_equal(ranks[i].common[1], ranks[0].common[1]);
        assert_int_equal(ranks[i].common[1][i], 10 + i);
        for (int k = 0; k < RANKS; k++)
            assert_int_equal(ranks[i].gathered[k], k);
    }
    for (int i = 0; i < RANKS; i++)
        world_common_free(ranks[i].common[1]);
    world_alone(&alone);
    assert_int_equal(world_common(&alone, 1, &none, &ranks[0].err), 0);
    assert_null(none);
}

static void *wait_for_rank_0(void *arg) {
    struct rank *r = arg;
    r->rc = world_barrier(&r->world, 50, &r->err);
    return NULL;
}

static void a_rank_that_does_not_come_ends_the_exchange_of_all(void **state) {
    (void)state;
    run(4, 1, wait_for_rank_0);
    for (int i = 1; i < 4; i++)
        assert_int_equal(ranks[i].rc, ERR_UNAVAILABLE);
}

static void *give_away(void *arg) {
    struct rank *r = arg;
    char text[16] = "";
    const struct world_parts out = {"hello", 6, NULL, 0}, in = {NULL, 0, text, 6};
    r->rc = world_exchange(&r->world, 1 - r->world.rank, r->world.rank ? &in : &out, LIMIT_MS, &r->err);
    r->received = !strcmp(text, "hello");
    return NULL;
}

static void data_may_go_in_one_direction(void **state) {
    (void)state;
    run(2, 0, give_away);
    assert_int_equal(ranks[0].rc | ranks[1].rc, 0);
    assert_int_equal(ranks[1].received, 1);
}

static void *disagree(void *arg) {
    struct rank *r = arg;
    char text[16] = "";
    const struct world_parts parts = {text, 8, text + 8, r->world.rank ? 8 : 4};
    r->rc = world_exchange(&r->world, 1 - r->world.rank, &parts, LIMIT_MS, &r->err);
    return NULL;
}

static void other_sizes_than_expected_are_an_error(void **state) {
    (void)state;
    run(2, 0, disagree);
    assert_int_equal(ranks[0].rc, ERR_INTERNAL);
    assert_true(ranks[1].rc != 0);
}

static void nothing_is_exchanged_after_a_failure(void **state) {
    (void)state;
    struct world alone;
    struct err err = {0};
    world_alone(&alone);
    assert_int_equal(world_barrier(&alone, LIMIT_MS, &err), 0);
    alone.broken = true;
    alone.size = 2;
    assert_int_equal(world_barrier(&alone, LIMIT_MS, &err), ERR_INTERNAL);
}

static void worlds_have_at_least_one_rank_and_not_too_many(void **state) {
    (void)state;
    struct world worlds[1];
    struct err err = {0};
    assert_int_equal(world_threads(worlds, 0, &err), ERR_INVALID);
    assert_int_equal(world_threads(worlds, WORLD_MAX + 1, &err), ERR_INVALID);
}

/* Slurm without PMIx starts processes that do not find one another. */
static void ranks_that_do_not_find_one_another_are_refused(void **state) {
    (void)state;
    static const char *const names[] = {"PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"};
    struct world world;
    struct err err = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    assert_int_equal(world_launched(&world, &err), 0);
    assert_int_equal(world.size, 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    assert_int_equal(world_launched(&world, &err), ERR_PRECONDITION);
    assert_non_null(strstr(err.message, "--mpi=pmix"));
    setenv("SLURM_STEP_NUM_TASKS", "1", 1);
    assert_int_equal(world_launched(&world, &err), 0);
    setenv("PMIX_RANK", "0", 1);
    setenv("BRR_MPI_LIBRARY", "/proc/nonexistent/libbrr_mpi.so", 1);
    assert_int_equal(world_launched(&world, &err), 0); /* a shell of `srun --pty`: one task, which needs no MPI */
    assert_int_equal(world.size, 1);
    setenv("SLURM_STEP_NUM_TASKS", "2", 1);
    assert_int_equal(world_launched(&world, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.message, "libbrr_mpi.so"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_rank_gets_what_all_have_and_what_rank_0_says),
        cmocka_unit_test(a_rank_that_does_not_come_ends_the_exchange_of_all),
        cmocka_unit_test(ranks_that_are_threads_have_memory_in_common),
        cmocka_unit_test(data_may_go_in_one_direction),
        cmocka_unit_test(other_sizes_than_expected_are_an_error),
        cmocka_unit_test(nothing_is_exchanged_after_a_failure),
        cmocka_unit_test(worlds_have_at_least_one_rank_and_not_too_many),
        cmocka_unit_test(ranks_that_do_not_find_one_another_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
