#include "daemon/models/pool_share.h"

#include "kernels/lanes.h"
#include "unit/cmocka_all.h"

enum { SHARE = 4, WORKS = 6 };

/* Each piece of work waits until it may go. */
static atomic_bool go;
static atomic_int begun[3]; /* by owner */
static int done;

static void run(struct pool_work *w) {
    atomic_fetch_add(&begun[w->owner], 1);
    while (!atomic_load(&go))
        uv_sleep(1);
}

static void on_done(struct pool_work *w) {
    (void)w;
    done++;
}

static int setup(void **state) {
    (void)state;
    atomic_store(&go, false);
    for (int i = 0; i < 3; i++)
        atomic_store(&begun[i], 0);
    done = 0;
    return 0;
}

static void await(atomic_int *n, int value) {
    while (atomic_load(n) < value)
        uv_sleep(1);
}

static void one_owner_has_half_of_a_share(void **state) {
    uv_loop_t loop;
    struct pool_share share = {.most = SHARE};
    struct pool_work first[WORKS] = {0}, second[WORKS] = {0};
    (void)state;
    uv_loop_init(&loop);
    for (int i = 0; i < WORKS; i++) {
        first[i].owner = 1;
        pool_share_start(&share, &loop, &first[i], run, on_done);
    }
    await(&begun[1], SHARE / 2);
    second[0].owner = second[1].owner = 2;
    pool_share_start(&share, &loop, &second[0], run, on_done);
    await(&begun[2], 1); /* before the rest of the first one's */
    assert_int_equal(atomic_load(&begun[1]), SHARE / 2);
    pool_share_start(&share, &loop, &second[1], run, on_done);
    await(&begun[2], 2);
    assert_true(pool_share_cancel(&first[WORKS - 1]));
    assert_false(pool_share_cancel(&second[1]));
    atomic_store(&go, true);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(done, WORKS - 1 + 2);
    assert_true(!share.first && !share.running && !share.working);
    uv_loop_close(&loop);
}

static void work_without_an_owner_has_all_of_it(void **state) {
    uv_loop_t loop;
    struct pool_share share = {.most = SHARE};
    struct pool_work works[WORKS] = {0};
    (void)state;
    uv_loop_init(&loop);
    for (int i = 0; i < WORKS; i++)
        pool_share_start(&share, &loop, &works[i], run, on_done);
    await(&begun[0], SHARE);
    assert_int_equal(share.working, SHARE);
    atomic_store(&go, true);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(done, WORKS);
    uv_loop_close(&loop);
}

static int threads_of_process(void) {
    int n = -2; /* . and .. */
    DIR *dir = opendir("/proc/self/task");
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static int seen; /* threads of the process while the team computes */

static int count(const void *ctx, int64_t unit, int lane, struct err *err) {
    (void)ctx, (void)lane, (void)err;
    if (!unit)
        seen = threads_of_process();
    return 0;
}

static void run_team(struct pool_work *w) {
    (void)w;
    assert_int_equal(lanes_run(&(struct lanes_work){count, NULL, 0, 4, 4}, NULL), 0);
}

static void threads_of_a_team_end_with_the_work(void **state) {
    uv_loop_t loop;
    struct pool_share share = {.most = SHARE};
    struct pool_work work = {0};
    const int before = threads_of_process();
    (void)state;
    uv_loop_init(&loop);
    pool_share_start(&share, &loop, &work, run_team, on_done);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(seen > before);
    while (threads_of_process() > before) /* they have been told to end */
        uv_sleep(1);
    uv_loop_close(&loop);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(one_owner_has_half_of_a_share, setup),
        cmocka_unit_test_setup(work_without_an_owner_has_all_of_it, setup),
        cmocka_unit_test(threads_of_a_team_end_with_the_work), /* the last: the pool has its threads */
    };
    setenv("UV_THREADPOOL_SIZE", "8", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
