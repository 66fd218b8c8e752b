/* Items on lanes: each once, whatever the number of callers, lanes and helpers that can be started, and however
 * late those are. */
#include "kernels/lanes.h"

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/subnormals.h"
#include "skip.h"
#include "unit/cmocka_all.h"

enum { ITEMS = 1000, LANES = 4, CALLERS = 3, TINY_JOBS = 4000, NOBODY = 65534, NO_LIMIT = 77 };

/* What the items of a piece of work have done; the memory is the caller's and gone when it returns. */
struct counts {
    atomic_int times[ITEMS], at_work[LANES], faults;
    int lanes;
};

static void count(const void *ctx, int64_t i, int lane) {
    struct counts *c = (struct counts *)(uintptr_t)ctx;
    if (lane < 0 || lane >= c->lanes || atomic_fetch_add(&c->at_work[lane], 1) || lanes_here() != 1)
        atomic_fetch_add(&c->faults, 1);
    atomic_fetch_add(&c->times[i], 1);
    atomic_fetch_sub(&c->at_work[lane], 1);
}

/* True if each item was done once. */
static bool counted(int lanes, int64_t n) {
    struct counts c = {.lanes = lanes};
    lanes_for(lanes, n, count, &c);
    bool right = !atomic_load(&c.faults);
    for (int i = 0; i < ITEMS; i++)
        right = right && atomic_load(&c.times[i]) == (i < n);
    memset(&c, 0xff, sizeof c); /* a helper that came late would leave its trace in the caller's next frames */
    return right;
}

static void each_item_is_done_once(void **state) {
    (void)state;
    for (int lanes = 1; lanes <= LANES; lanes++)
        for (int64_t n = 0; n <= ITEMS; n += n < 140 ? 1 : 43)
            assert_true(counted(lanes, n));
}

static void *many_jobs(void *arg) {
    for (int i = 0; i < TINY_JOBS; i++)
        if (!counted(1 + i % LANES, i % 37))
            return NULL;
    return arg;
}

static void callers_do_not_meet(void **state) {
    (void)state;
    pthread_t threads[CALLERS];
    void *done[CALLERS] = {0};
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, many_jobs, &done[i]), 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(threads[i], &done[i]);
    for (int i = 0; i < CALLERS; i++)
        assert_ptr_equal(done[i], &done[i]);
}

static _Thread_local int mine;

static void nested_item(const void *ctx, int64_t i, int lane) {
    (void)i, (void)lane;
    mine += *(const int *)ctx;
}

/* Items inside of an item are on its thread: a variable of the thread counts all of them. */
static void outer_item(const void *ctx, int64_t i, int lane) {
    struct counts *c = (struct counts *)(uintptr_t)ctx;
    const int one = 1, before = mine;
    (void)lane;
    lanes_for(LANES, 50, nested_item, &one);
    atomic_store(&c->times[i], mine - before);
}

static void work_inside_an_item_is_done_by_its_thread(void **state) {
    (void)state;
    struct counts c = {.lanes = LANES};
    lanes_for(LANES, ITEMS, outer_item, &c);
    for (int i = 0; i < ITEMS; i++)
        assert_int_equal(atomic_load(&c.times[i]), 50);
    assert_true(counted(LANES, ITEMS)); /* side by side again */
}

static int set_subnormals(void) {
    const unsigned flushed = subnormals_keep() & SUBNORMALS_FLUSHED;
    subnormals_restore(flushed);
    return (int)flushed;
}

static void see_subnormals(const void *ctx, int64_t i, int lane) {
    (void)lane;
    struct counts *c = (struct counts *)(uintptr_t)ctx;
    atomic_store(&c->times[i], set_subnormals());
}

static void helpers_treat_subnormals_as_their_caller(void **state) {
    (void)state;
    for (int flushed = 0; flushed < 2; flushed++) {
        struct counts c = {.lanes = LANES};
        const unsigned was = subnormals_set(flushed ? SUBNORMALS_FLUSHED : 0);
        const int here = set_subnormals();
        lanes_for(LANES, ITEMS, see_subnormals, &c);
        subnormals_restore(was);
        for (int i = 0; i < ITEMS; i++)
            assert_int_equal(atomic_load(&c.times[i]), here);
    }
}

/* An item of a helper that is held up: the caller does all others meanwhile, and the helper is in one item alone. */
static atomic_int left_to_do;
static pthread_t caller;

static void hold_helpers(const void *ctx, int64_t i, int lane) {
    (void)ctx, (void)i, (void)lane;
    if (pthread_equal(pthread_self(), caller)) {
        while (atomic_load(&left_to_do) == ITEMS) /* until a helper has one */
            sched_yield();
        atomic_fetch_sub(&left_to_do, 1);
        return;
    }
    for (int left = atomic_fetch_sub(&left_to_do, 1) - 1; left > 2 * ITEMS / 32;)
        left = atomic_load(&left_to_do);
}

/* Returns once a helper has done an item. */
static void wait_for_a_helper(void) {
    caller = pthread_self();
    atomic_store(&left_to_do, ITEMS);
    lanes_for(2, ITEMS, hold_helpers, NULL);
}

static void a_helper_that_is_held_up_holds_up_its_item_alone(void **state) {
    (void)state;
    wait_for_a_helper(); /* returns: the caller has done what was left */
    assert_int_equal(atomic_load(&left_to_do), 0);
}

static int fail_some(const void *ctx, int64_t unit, int lane, struct err *err) {
    (void)lane;
    atomic_fetch_add((atomic_int *)(uintptr_t)ctx, 1);
    return unit % 10 == 7 ? err_set(err, ERR_INVALID, "unit %d", (int)unit) : 0;
}

static void an_error_of_a_unit_is_the_work_s(void **state) {
    (void)state;
    atomic_int done = 0;
    struct err err;
    assert_int_equal(lanes_run(&(struct lanes_work){fail_some, &done, 10, 20, LANES}, &err), ERR_INVALID);
    assert_true(!strcmp(err.message, "unit 17") || !strcmp(err.message, "unit 27"));
    assert_int_equal(atomic_load(&done), 20);
    assert_int_equal(lanes_run(&(struct lanes_work){fail_some, &done, 10, 20, 1}, &err), ERR_INVALID);
    assert_string_equal(err.message, "unit 17");
    assert_int_equal(atomic_load(&done), 28); /* none after it on one lane */
    assert_int_equal(lanes_run(&(struct lanes_work){fail_some, &done, 0, 7, LANES}, NULL), 0);
}

static void set_lanes(const void *ctx, int64_t i, int lane) {
    (void)ctx, (void)lane;
    lanes_set_here((int)i + 1);
}

static void items_leave_the_lanes_of_their_caller(void **state) {
    (void)state;
    lanes_set_here(3);
    for (int lanes = 1; lanes <= LANES; lanes++) {
        lanes_for(lanes, ITEMS, set_lanes, NULL);
        assert_int_equal(lanes_here(), 3);
    }
    assert_int_equal(lanes_set_here(0), 3);
}

static void helpers_end_and_start_again(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_true(counted(LANES, ITEMS));
        lanes_dismiss();
    }
    lanes_dismiss();
}

/* Runs body in a process of its own; its exit status. */
static int status_of(int (*body)(void)) {
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child)
        _exit(body());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int count_all(void) { return !counted(LANES, ITEMS); }

static int work_with_others(void) {
    wait_for_a_helper();
    return !counted(2, ITEMS) || count_all();
}

static int dismiss_first(void) {
    lanes_dismiss();
    return work_with_others();
}

/* One that kept its parent's would wait for threads that it does not have. */
static void a_fork_has_helpers_of_its_own(void **state) {
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip_because(SKIP_PACKAGE, "the thread sanitizer lets no thread begin after a fork");
#endif
    lanes_dismiss();
    wait_for_a_helper();
    assert_int_equal(status_of(work_with_others), 0);
    assert_int_equal(status_of(count_all), 0);
    assert_int_equal(status_of(dismiss_first), 0);
    wait_for_a_helper(); /* the parent's are still there */
}

static int count_without_threads(void) {
    const struct rlimit limit = {1, 1};
    if ((!getuid() && setuid(NOBODY)) || setrlimit(RLIMIT_NPROC, &limit))
        return NO_LIMIT;
    return count_all();
}

static void a_caller_without_its_helpers_does_all(void **state) {
    (void)state;
    assert_true(counted(LANES, ITEMS));
    lanes_dismiss();
    const int status = status_of(count_without_threads);
    if (status == NO_LIMIT)
        skip_because(SKIP_RIGHTS, "no user whose threads can be limited");
    assert_int_equal(status, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_is_done_once),
        cmocka_unit_test(callers_do_not_meet),
        cmocka_unit_test(work_inside_an_item_is_done_by_its_thread),
        cmocka_unit_test(helpers_treat_subnormals_as_their_caller),
        cmocka_unit_test(a_helper_that_is_held_up_holds_up_its_item_alone),
        cmocka_unit_test(an_error_of_a_unit_is_the_work_s),
        cmocka_unit_test(items_leave_the_lanes_of_their_caller),
        cmocka_unit_test(helpers_end_and_start_again),
        cmocka_unit_test(a_fork_has_helpers_of_its_own),
        cmocka_unit_test(a_caller_without_its_helpers_does_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
