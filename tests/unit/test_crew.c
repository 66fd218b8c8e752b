#include "unit/cmocka_all.h"

#include "base/crew.h"

enum { N = 200, FAILS = 7 };

struct list {
    atomic_int begun[N];                   /* how often each item has begun */
    atomic_int inside, overlaps, refusals; /* threads in `finished`, and how often a second one was; calls of `refuse` */
    int64_t stop_at;                       /* this item ends the work; -1: none does */
    int finished, failed;
};

/* Every FAILS-th item fails. */
static int work_on(void *ctx, int64_t i, struct err *err) {
    struct list *l = ctx;
    atomic_fetch_add(&l->begun[i], 1);
    return i % FAILS ? 0 : err_set(err, ERR_NOT_FOUND, "item %d", (int)i);
}

static bool count(void *ctx, int64_t i, int rc) {
    struct list *l = ctx;
    atomic_fetch_add(&l->overlaps, atomic_fetch_add(&l->inside, 1));
    l->finished++;
    l->failed += rc != 0;
    atomic_fetch_sub(&l->inside, 1);
    return i == l->stop_at;
}

static struct crew *start(struct list *l, int64_t n, int threads) {
    struct crew *c = NULL;
    const struct crew_work work = {.n = n, .threads = threads, .run = work_on, .finished = count, .ctx = l};
    assert_int_equal(crew_start(&work, &c, NULL), 0);
    return c;
}

static bool see(void *ctx, int64_t done, int64_t newest) {
    int64_t *last = ctx;
    assert_true(done >= *last && newest < N);
    *last = done;
    return true;
}

static void each_item_is_worked_on_once_and_keeps_its_result(void **state) {
    (void)state;
    static const int threads[] = {0, 1, 3, CREW_MAX_THREADS + 1};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        struct list l = {.stop_at = -1};
        struct crew *c = start(&l, N, threads[t]);
        struct err err = {0};
        int64_t last = 0;
        assert_true(crew_follow(c, see, &last));
        assert_int_equal(last, N);
        assert_int_equal(crew_done(c), N);
        assert_int_equal(l.finished, N);
        assert_int_equal(l.overlaps, 0);
        assert_int_equal(l.failed, (N + FAILS - 1) / FAILS);
        for (int i = 0; i < N; i++) {
            char text[32];
            assert_int_equal(l.begun[i], 1);
            assert_true(crew_wait(c, i, 0));
            assert_int_equal(crew_result(c, i, NULL), i % FAILS ? 0 : ERR_NOT_FOUND);
            snprintf(text, sizeof text, "item %d", i);
            assert_true(i % FAILS || (crew_result(c, i, &err) && !strcmp(err.message, text)));
        }
        assert_int_equal(crew_failure(c, &err), ERR_NOT_FOUND);
        crew_close(c);
    }
}

/* Items are taken in order: with n items begun, these are the first n. */
static int begun_prefix(const struct list *l) {
    int n = 0;
    while (n < N && l->begun[n])
        n++;
    for (int i = n; i < N; i++)
        assert_int_equal(l->begun[i], 0);
    return n;
}

static void an_item_may_be_the_last(void **state) {
    (void)state;
    enum { LAST = 20 };
    for (int threads = 1; threads <= 4; threads += 3) {
        struct list l = {.stop_at = LAST};
        struct crew *c = start(&l, N, threads);
        assert_true(crew_follow(c, NULL, NULL));
        const int n = begun_prefix(&l);
        assert_true(n > LAST && (threads > 1 || n == LAST + 1));
        assert_int_equal(crew_done(c), n);
        assert_true(n == N || crew_result(c, n, NULL) == ERR_PRECONDITION);
        assert_true(n == N || !crew_wait(c, N - 1, 10));
        crew_close(c);
    }
}

/* An item ends some milliseconds after the follower has refused to go on. */
static int wait_for_refusal(void *ctx, int64_t i, struct err *err) {
    struct list *l = ctx;
    (void)err;
    atomic_fetch_add(&l->begun[i], 1);
    while (!atomic_load(&l->refusals))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    return 0;
}

static bool refuse(void *ctx, int64_t done, int64_t newest) {
    struct list *l = ctx;
    assert_int_equal(done, 0);
    assert_int_equal(newest, 0);
    atomic_fetch_add(&l->refusals, 1);
    return false;
}

static void a_follower_can_end_the_work(void **state) {
    (void)state;
    struct list l = {.stop_at = -1};
    const struct crew_work work = {.n = N, .threads = 2, .run = wait_for_refusal, .ctx = &l};
    struct crew *c = NULL;
    assert_int_equal(crew_start(&work, &c, NULL), 0);
    assert_false(crew_follow(c, refuse, &l));
    assert_int_equal(l.refusals, 1);
    const int n = begun_prefix(&l);
    assert_in_range(n, 1, N - 1);
    assert_int_equal(crew_done(c), n);
    crew_close(c);
}

static void closing_ends_the_crew_and_an_empty_list_has_no_work(void **state) {
    (void)state;
    struct list l = {.stop_at = -1}, none = {.stop_at = -1};
    struct crew *c = start(&l, N, 2);
    crew_stop(c);
    crew_close(c); /* whatever it was at */
    assert_int_equal(begun_prefix(&l), l.finished);
    int64_t last = 0;
    c = start(&none, 0, 4);
    assert_true(crew_follow(c, see, &last));
    assert_int_equal(crew_done(c), 0);
    assert_int_equal(crew_failure(c, NULL), 0);
    crew_close(c);
    crew_close(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_item_is_worked_on_once_and_keeps_its_result),
        cmocka_unit_test(an_item_may_be_the_last),
        cmocka_unit_test(a_follower_can_end_the_work),
        cmocka_unit_test(closing_ends_the_crew_and_an_empty_list_has_no_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
