/* Lent work: on the calling thread without a taker, on the thread for errands with one; the device is out of its reach. */
#include "daemon/jobs/errand.h"

#include <pthread.h>

#include "unit/cmocka_all.h"

enum { KIND = 7 };

struct lender {
    struct device *device;
    struct mailbox *box;
    struct errand *errand;
    pthread_t where, nested; /* threads on which work ran */
};

/* As the worker does it, without streams. */
static int take(void *ctx, device_work_fn *work, void *arg, struct err *err) {
    struct lender *l = ctx;
    errand_begin(l->errand, work, arg, err);
    struct message *m = mailbox_wait(l->box, -1);
    int rc = errand_end(l->errand);
    assert_true(!m || m->kind == KIND); /* NULL: the mailbox is closed */
    return rc;
}

static int look(void *arg, struct err *err) {
    struct lender *l = arg;
    (void)err;
    l->nested = pthread_self();
    return 0;
}

static int read_nothing(void *arg, struct err *err) {
    struct lender *l = arg;
    l->where = pthread_self();
    assert_int_equal(device_lend(l->device, look, l, err), 0);
    return err_set(err, ERR_NOT_FOUND, "as the test wants it");
}

static int use_device(void *arg, struct err *err) {
    struct lender *l = arg;
    void *data = NULL;
    return device_alloc(l->device, 64, &data, err);
}

static void open_lender(struct lender *l, bool taker) {
    *l = (struct lender){.box = mailbox_new(4, NULL, NULL)};
    assert_non_null(l->box);
    assert_int_equal(device_open("cpu", 1, &l->device, NULL), 0);
    assert_int_equal(errand_open(l->box, KIND, &l->errand, NULL), 0);
    if (taker)
        device_lend_to(l->device, take, l);
}

static void close_lender(struct lender *l) {
    errand_close(l->errand);
    device_close(l->device);
    mailbox_free(l->box);
}

/* What every way of running it has in common. */
static void check_work(struct lender *l, bool beside) {
    struct err err = {0};
    void *data = NULL;
    assert_int_equal(device_lend(l->device, read_nothing, l, &err), ERR_NOT_FOUND);
    assert_string_equal(err.message, "as the test wants it");
    assert_true(beside == !pthread_equal(l->where, pthread_self()));
    assert_true(pthread_equal(l->where, l->nested));
    assert_int_equal(device_lend(l->device, use_device, l, &err), ERR_INTERNAL);
    assert_int_equal(device_alloc(l->device, 64, &data, &err), 0);
    device_free(l->device, data);
    assert_int_equal(device_lend(l->device, look, l, NULL), 0);
}

static void without_a_taker_work_runs_here(void **state) {
    struct lender l;
    (void)state;
    open_lender(&l, false);
    check_work(&l, false);
    close_lender(&l);
}

static void with_a_taker_work_runs_on_its_thread(void **state) {
    struct lender l;
    (void)state;
    open_lender(&l, true);
    for (int i = 0; i < 100; i++)
        check_work(&l, true);
    device_lend_to(l.device, NULL, NULL);
    check_work(&l, false);
    close_lender(&l);
}

/* The owner is about to end: nobody takes the message, and the work is still waited for. */
static void a_closed_mailbox_does_not_lose_an_errand(void **state) {
    struct lender l;
    (void)state;
    open_lender(&l, true);
    mailbox_close(l.box);
    check_work(&l, true);
    close_lender(&l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_taker_work_runs_here),
        cmocka_unit_test(with_a_taker_work_runs_on_its_thread),
        cmocka_unit_test(a_closed_mailbox_does_not_lose_an_errand),
    };
    return cmocka_run_group_tests_name("errand", tests, NULL, NULL);
}
