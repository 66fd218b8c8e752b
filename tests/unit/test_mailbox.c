#include "unit/cmocka_all.h"

#include "base/mailbox.h"

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void count_wake(void *ctx) { atomic_fetch_add((atomic_int *)ctx, 1); }

static void messages_come_out_in_order_and_wake_once_per_filling(void **state) {
    (void)state;
    atomic_int wakes = 0;
    struct message m[3] = {{.kind = 1}, {.kind = 2}, {.kind = 3}};
    struct mailbox *box = mailbox_new(8, count_wake, &wakes);
    assert_null(mailbox_take(box));
    for (int i = 0; i < 3; i++)
        assert_true(mailbox_post(box, &m[i]));
    assert_int_equal(wakes, 1);
    assert_int_equal(mailbox_count(box), 3);
    for (int i = 0; i < 3; i++)
        assert_ptr_equal(mailbox_take(box), &m[i]);
    assert_null(mailbox_take(box));
    assert_true(mailbox_post(box, &m[0]));
    assert_int_equal(wakes, 2);
    assert_ptr_equal(mailbox_take(box), &m[0]);
    mailbox_free(box);
    mailbox_free(NULL);
}

static void a_corked_box_wakes_at_the_end_or_when_it_is_full(void **state) {
    (void)state;
    atomic_int wakes = 0;
    struct message m[3] = {{.kind = 1}, {.kind = 2}, {.kind = 3}};
    struct mailbox *box = mailbox_new(3, count_wake, &wakes);
    mailbox_cork(box);
    for (int i = 0; i < 2; i++)
        assert_true(mailbox_post(box, &m[i]));
    assert_int_equal(wakes, 0);
    mailbox_flush(box);
    assert_int_equal(wakes, 1);
    for (int i = 0; i < 2; i++)
        assert_ptr_equal(mailbox_take(box), &m[i]);
    for (int i = 0; i < 3; i++)
        assert_true(mailbox_post(box, &m[i]));
    assert_int_equal(wakes, 2); /* it is full */
    mailbox_uncork(box);
    assert_int_equal(wakes, 2); /* nothing came since */
    while (mailbox_take(box))
        ;
    assert_true(mailbox_post(box, &m[0]));
    assert_int_equal(wakes, 3);
    assert_ptr_equal(mailbox_take(box), &m[0]);
    mailbox_free(box);
}

static void a_full_box_refuses_or_waits_as_long_as_told(void **state) {
    (void)state;
    struct message a = {0}, b = {0};
    struct mailbox *box = mailbox_new(1, NULL, NULL);
    assert_true(mailbox_post(box, &a));
    assert_false(mailbox_post(box, &b));
    int64_t start = now_ms();
    assert_false(mailbox_post_wait(box, &b, 30));
    assert_in_range(now_ms() - start, 29, 5000);
    assert_ptr_equal(mailbox_take(box), &a);
    assert_true(mailbox_post_wait(box, &b, 30));
    assert_ptr_equal(mailbox_wait(box, -1), &b);
    start = now_ms();
    assert_null(mailbox_wait(box, 30));
    assert_in_range(now_ms() - start, 29, 5000);
    mailbox_free(box);
}

static void closing_refuses_posts_and_lets_the_rest_out(void **state) {
    (void)state;
    struct message a = {0}, b = {0};
    struct mailbox *box = mailbox_new(4, NULL, NULL);
    assert_true(mailbox_post(box, &a));
    mailbox_close(box);
    assert_false(mailbox_post(box, &b));
    assert_false(mailbox_post_wait(box, &b, -1));
    assert_ptr_equal(mailbox_wait(box, -1), &a);
    assert_null(mailbox_wait(box, -1)); /* returns at once: nothing can come any more */
    mailbox_free(box);
}

enum { PRODUCERS = 3, EACH = 2000 };

struct numbered {
    struct message message;
    int producer, serial;
};

struct producer {
    struct mailbox *box;
    struct numbered *items;
    bool failed;
};

static void *produce(void *arg) {
    struct producer *p = arg;
    for (int i = 0; i < EACH; i++)
        if (!mailbox_post_wait(p->box, &p->items[i].message, -1))
            p->failed = true;
    return NULL;
}

static void producers_on_threads_lose_nothing_and_keep_their_order(void **state) {
    (void)state;
    pthread_t threads[PRODUCERS];
    struct producer producers[PRODUCERS];
    struct mailbox *box = mailbox_new(5, NULL, NULL);
    for (int p = 0; p < PRODUCERS; p++) {
        producers[p] = (struct producer){box, calloc(EACH, sizeof(struct numbered)), false};
        assert_non_null(producers[p].items);
        for (int i = 0; i < EACH; i++)
            producers[p].items[i] = (struct numbered){.producer = p, .serial = i};
        assert_int_equal(pthread_create(&threads[p], NULL, produce, &producers[p]), 0);
    }
    int next[PRODUCERS] = {0};
    for (int i = 0; i < PRODUCERS * EACH; i++) {
        struct numbered *n = (struct numbered *)(void *)mailbox_wait(box, 10000);
        assert_non_null(n);
        assert_int_equal(n->serial, next[n->producer]++);
        assert_true(mailbox_count(box) <= 5);
    }
    assert_null(mailbox_take(box));
    for (int p = 0; p < PRODUCERS; p++) {
        pthread_join(threads[p], NULL);
        assert_false(producers[p].failed);
        free(producers[p].items);
    }
    mailbox_free(box);
}

static void *wait_for_ever(void *box) { return mailbox_wait(box, -1); }

static void closing_wakes_a_waiting_taker(void **state) {
    (void)state;
    pthread_t thread;
    void *got = &thread;
    struct mailbox *box = mailbox_new(1, NULL, NULL);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, box), 0);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    mailbox_close(box);
    pthread_join(thread, &got);
    assert_null(got);
    mailbox_free(box);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_out_in_order_and_wake_once_per_filling),
        cmocka_unit_test(a_corked_box_wakes_at_the_end_or_when_it_is_full),
        cmocka_unit_test(a_full_box_refuses_or_waits_as_long_as_told),
        cmocka_unit_test(closing_refuses_posts_and_lets_the_rest_out),
        cmocka_unit_test(producers_on_threads_lose_nothing_and_keep_their_order),
        cmocka_unit_test(closing_wakes_a_waiting_taker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
