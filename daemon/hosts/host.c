#include "daemon/hosts/host.h"

#include "daemon/hosts/niceness.h"

enum { ORDERS_MAX = 1 << 17 };

struct host {
    const struct host_work *work;
    void *ctx, *state;
    pthread_t thread;
    struct mailbox *orders, *started; /* started: one message, when open has ended */
    struct message ready;
    _Atomic int64_t busy_since_ms; /* 0: idle */
    atomic_bool stopping;
    struct message *left; /* of close */
    int rc;               /* of open; *err too */
    struct err err;
};

static void beat(struct host *h) { atomic_store(&h->busy_since_ms, clock_ms()); }

/* The next order. Waits for one when no step is due, until one is; NULL: none has come, or the mailbox is closed and empty. */
static struct message *next_order(struct host *h, bool due) {
    if (due)
        return mailbox_take(h->orders);
    atomic_store(&h->busy_since_ms, 0);
    const int64_t pause_ms = h->work->pause_ms ? h->work->pause_ms(h->state) : -1;
    if (pause_ms < 0 || !h->work->sleeps_ms || pause_ms > h->work->sleeps_ms(h->state))
        return mailbox_wait(h->orders, pause_ms);
    nanosleep(&(struct timespec){.tv_nsec = pause_ms * 1000000L}, NULL);
    return mailbox_take(h->orders);
}

/* Until the host is to stop and no order waits. */
static void serve(struct host *h) {
    bool due = false;
    for (;;) {
        struct message *m = next_order(h, due);
        if (!m && atomic_load(&h->stopping))
            return;
        for (; m; m = mailbox_take(h->orders)) {
            beat(h);
            h->work->order(h->state, m);
        }
        beat(h);
        due = h->work->step(h->state);
    }
}

static void *host_main(void *arg) {
    struct host *h = arg;
    pthread_setname_np(pthread_self(), h->work->name);
    (h->work->prompt ? niceness_set_prompt : niceness_set)(h->work->niceness);
    h->rc = h->work->open(h->ctx, &h->state, &h->err);
    mailbox_post(h->started, &h->ready);
    if (h->rc)
        return NULL;
    serve(h);
    h->left = h->work->close(h->state);
    return NULL;
}

static void host_free(struct host *h) {
    mailbox_free(h->orders);
    mailbox_free(h->started);
    free(h);
}

int host_start(const struct host_work *work, void *ctx, struct host **ret, struct err *err) {
    struct host *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the thread of %s", work->name);
    h->work = work;
    h->ctx = ctx;
    h->orders = mailbox_new(ORDERS_MAX, NULL, NULL);
    h->started = mailbox_new(1, NULL, NULL);
    if (!h->orders || !h->started || pthread_create(&h->thread, NULL, host_main, h)) {
        host_free(h);
        return err_set(err, ERR_EXHAUSTED, "cannot start the thread of %s", work->name);
    }
    mailbox_wait(h->started, -1);
    if (h->rc) {
        int rc = h->rc;
        if (err)
            *err = h->err;
        pthread_join(h->thread, NULL);
        host_free(h);
        return rc;
    }
    *ret = h;
    return 0;
}

struct message *host_stop(struct host *h) {
    if (!h)
        return NULL;
    atomic_store(&h->stopping, true);
    mailbox_close(h->orders);
    pthread_join(h->thread, NULL);
    struct message *left = h->left;
    host_free(h);
    return left;
}

bool host_post(struct host *h, struct message *order) { return mailbox_post(h->orders, order); }
bool host_post_wait(struct host *h, struct message *order) { return mailbox_post_wait(h->orders, order, -1); }

int64_t host_busy_ms(const struct host *h) {
    int64_t since = atomic_load(&h->busy_since_ms);
    return since ? clock_ms() - since : 0;
}

bool host_waits(const struct host *h, char ret_text[HOST_WAITS_TEXT]) {
    return h->work->waits && h->work->waits(h->state, ret_text);
}
