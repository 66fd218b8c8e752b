#include "daemon/db/db_writer.h"

/* An order on its way to the thread and back. The copy of `what` lies behind it. */
struct order {
    struct message message;
    struct db_order of;
    uint64_t number;
    bool runs, left; /* of db_writer_run: no end is told on the loop; its caller has left */
    bool done;
    int rc;
    struct err err;
    _Alignas(16) char what[];
};

struct db_writer {
    struct db *db;
    struct mailbox *orders, *ended;
    mailbox_wake_fn *wake;
    void *wake_ctx;
    pthread_t thread;
    uint64_t told;        /* loop: the last turn has told the end of all up to this one */
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    struct db_wait *waits;
    int open;                      /* orders that are given and not taken back */
    uint64_t posted, done, failed; /* numbers: the newest given, the newest that has ended, the newest that was not written */
    int64_t begun_ms;              /* when the order at work began; 0: none */
    struct err err;                /* of the newest that was not written */
};

static int carry_out(struct db_writer *w, struct order *o) {
    int rc;
    db_wait(w->db);
    if ((rc = db_begin(w->db, &o->err)))
        return rc;
    return db_end(w->db, o->of.write(w->db, o->what, &o->err), &o->err);
}

/* An order was not written: it fails those who wait for it, whatever is written after it. The lock is held. */
static void note_failure(struct db_writer *w, uint64_t number, const struct err *err) {
    w->err = *err;
    w->failed = number;
    for (struct db_wait *wait = w->waits; wait; wait = wait->next)
        if (wait->after < number && number <= wait->number)
            wait->err = *err;
}

/* An order has ended, for those who wait. The loop may have freed it already, if it does not run for another thread. */
static void note_end(struct db_writer *w, uint64_t number, int rc, const struct err *err, struct order *runs) {
    pthread_mutex_lock(&w->lock);
    w->done = number;
    w->begun_ms = 0;
    if (rc)
        note_failure(w, number, err);
    if (runs)
        runs->done = true;
    const bool left = runs && runs->left;
    w->open -= runs != NULL;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    if (left)
        free(runs);
    if (w->wake)
        w->wake(w->wake_ctx);
}

static void *writer_main(void *arg) {
    struct db_writer *w = arg;
    for (struct order *o; (o = (struct order *)mailbox_wait(w->orders, -1));) {
        const uint64_t number = o->number;
        pthread_mutex_lock(&w->lock);
        w->begun_ms = clock_ms();
        pthread_mutex_unlock(&w->lock);
        const int rc = o->rc = carry_out(w, o);
        const struct err err = o->err;
        if (o->runs) {
            note_end(w, number, rc, &err, o);
        } else {
            mailbox_post_wait(w->ended, &o->message, -1); /* it has room: `open` is bounded */
            note_end(w, number, rc, &err, NULL);
        }
    }
    return NULL;
}

int db_writer_start(struct db *db, mailbox_wake_fn *wake, void *wake_ctx, struct db_writer **ret, struct err *err) {
    struct db_writer *w = calloc(1, sizeof *w);
    struct mailbox *orders = mailbox_new(DB_WRITER_ORDERS, NULL, NULL);
    struct mailbox *ended = mailbox_new(DB_WRITER_ORDERS, NULL, NULL);
    int rc;
    if (!w || !orders || !ended) {
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for the thread of a database");
        goto fail;
    }
    *w = (struct db_writer){.db = db, .orders = orders, .ended = ended, .wake = wake, .wake_ctx = wake_ctx};
    pthread_mutex_init(&w->lock, NULL);
    clock_cond_init(&w->changed);
    if ((rc = pthread_create(&w->thread, NULL, writer_main, w))) {
        rc = err_errno(err, rc, "cannot start the thread of a database");
        goto fail;
    }
    *ret = w;
    return 0;
fail:
    mailbox_free(ended);
    mailbox_free(orders);
    free(w);
    return rc;
}

static struct order *order_new(const struct db_order *of, struct err *err) {
    struct order *o = calloc(1, sizeof *o + of->size);
    if (!o) {
        err_set(err, ERR_EXHAUSTED, "out of memory for a record");
        return NULL;
    }
    o->of = *of;
    memcpy(o->what, of->what, of->size);
    return o;
}

/* Numbers rise in the order of the mailbox. */
static int give(struct db_writer *w, struct order *o, struct err *err) {
    pthread_mutex_lock(&w->lock);
    o->number = w->posted + 1;
    const bool given = w->open < DB_WRITER_ORDERS && mailbox_post(w->orders, &o->message);
    w->posted += given;
    w->open += given;
    pthread_mutex_unlock(&w->lock);
    if (given)
        return 0;
    free(o);
    return err_set(err, ERR_EXHAUSTED, "%d changes wait to be recorded; try again later", DB_WRITER_ORDERS);
}

int db_writer_post(struct db_writer *w, const struct db_order *order, struct err *err) {
    struct order *o = order_new(order, err);
    return o ? give(w, o, err) : ERR_EXHAUSTED;
}

static int late(struct err *err) {
    return err_set(err, ERR_UNAVAILABLE, "the volume of the database does not answer; what was asked for may still happen");
}

int db_writer_run(struct db_writer *w, const struct db_order *order, struct err *err) {
    struct order *o = order_new(order, err);
    int rc;
    if (!o)
        return ERR_EXHAUSTED;
    o->runs = true;
    if ((rc = give(w, o, err)))
        return rc;
    const struct timespec until = clock_after_ms(DB_WRITER_PATIENCE_MS);
    pthread_mutex_lock(&w->lock);
    while (!o->done && pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        ;
    o->left = !o->done;
    rc = o->done ? o->rc : late(err);
    if (o->done && rc && err)
        *err = o->err;
    const bool done = o->done;
    pthread_mutex_unlock(&w->lock);
    if (done)
        free(o);
    return rc;
}

void db_writer_sync(struct db_writer *w) {
    const struct timespec until = clock_after_ms(DB_WRITER_PATIENCE_MS);
    LOCKED(&w->lock);
    const uint64_t number = w->posted;
    while (w->done < number && pthread_cond_timedwait(&w->changed, &w->lock, &until) != ETIMEDOUT)
        ;
}

/* True if the wait is over. The lock is held. */
static bool look(const struct db_writer *w, const struct db_wait *wait, int *ret_rc, struct err *err) {
    const bool ended = w->done >= wait->number, is_late = clock_ms() >= wait->until_ms;
    if (ended && wait->err.code) {
        *err = wait->err;
        *ret_rc = wait->err.code;
    } else if (!ended && is_late) {
        *ret_rc = late(err);
    }
    return ended || is_late;
}

void db_writer_await(struct db_writer *w, struct db_wait *wait, void (*over)(struct db_wait *wait, int rc, const struct err *err)) {
    struct err err = {0};
    int rc = 0;
    pthread_mutex_lock(&w->lock);
    *wait = (struct db_wait){.after = w->told, .number = w->posted, .until_ms = clock_ms() + DB_WRITER_PATIENCE_MS, .over = over};
    if (w->failed > wait->after)
        wait->err = w->err;
    const bool is_over = look(w, wait, &rc, &err);
    if (!is_over) {
        wait->next = w->waits;
        w->waits = wait;
    }
    pthread_mutex_unlock(&w->lock);
    if (is_over)
        over(wait, rc, &err);
}

/* Takes one wait that is over off the list; NULL: none is. */
static struct db_wait *take_over(struct db_writer *w, int *ret_rc, struct err *err) {
    struct db_wait *wait = NULL;
    pthread_mutex_lock(&w->lock);
    for (struct db_wait **at = &w->waits; *at && !wait;) {
        if (look(w, *at, ret_rc, err)) {
            wait = *at;
            *at = wait->next;
        } else {
            at = &(*at)->next;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return wait;
}

static void end_waits(struct db_writer *w) {
    struct err err = {0};
    int rc = 0;
    for (struct db_wait *wait; (wait = take_over(w, &rc, &err)); rc = 0, err = (struct err){0})
        wait->over(wait, rc, &err); /* it may begin another one */
}

void db_writer_turn(struct db_writer *w) {
    pthread_mutex_lock(&w->lock);
    const uint64_t ended = w->done;
    pthread_mutex_unlock(&w->lock);
    for (struct order *o; (o = (struct order *)mailbox_take(w->ended));) {
        pthread_mutex_lock(&w->lock);
        w->open--;
        pthread_mutex_unlock(&w->lock);
        if (o->of.ended)
            o->of.ended(o->of.ctx, o->what, o->rc, &o->err);
        free(o);
    }
    end_waits(w);
    w->told = ended;
}

void db_writer_settle(struct db_writer *w) {
    pthread_mutex_lock(&w->lock);
    while (w->done < w->posted)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    db_writer_turn(w);
}

bool db_writer_late(struct db_writer *w) {
    LOCKED(&w->lock);
    return w->begun_ms && clock_ms() - w->begun_ms > DB_WRITER_LATE_MS;
}

void db_writer_stop(struct db_writer *w) {
    if (!w)
        return;
    mailbox_close(w->orders);
    pthread_join(w->thread, NULL);
    db_writer_turn(w);
    mailbox_free(w->orders);
    mailbox_free(w->ended);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
    free(w);
}
