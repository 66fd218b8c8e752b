/* db_writer: the thread that writes to a SQLite file, so that the loop never waits for a disk. Orders are carried out
 * one after the other, each in a transaction of its own, in the order in which they were given. Memory is ahead of the
 * file meanwhile: what is acknowledged to others waits for db_writer_await. Loop thread, except where noted. */
#pragma once
#include "base/mailbox.h"
#include "daemon/db/db.h"

enum { DB_WRITER_ORDERS = 4096 /* that wait */, DB_WRITER_PATIENCE_MS = 5000 /* of callers */, DB_WRITER_LATE_MS = 2000 };

struct db_writer;
/* db: lent until the end. wake: called on the thread when db_writer_turn has something to do. */
int db_writer_start(struct db *db, mailbox_wake_fn *wake, void *wake_ctx, struct db_writer **ret, struct err *err);
/* Waits for all orders, tells how they ended, and joins the thread. NULL is allowed. */
void db_writer_stop(struct db_writer *w);

/* Statements of one transaction, on the thread. `what` is the order's copy. */
typedef int db_write_fn(struct db *db, void *what, struct err *err);
struct db_order {
    db_write_fn *write;
    const void *what; /* copied, `size` bytes; what it points to stays the caller's until `ended` */
    size_t size;
    /* How it ended, in db_writer_turn; releases what `what` points to. May be NULL. */
    void (*ended)(void *ctx, void *what, int rc, const struct err *err);
    void *ctx;
};
/* EXHAUSTED when too many orders wait or memory is short: nothing was given then, and `ended` is not called. */
int db_writer_post(struct db_writer *w, const struct db_order *order, struct err *err);
/* The same from another thread, which waits for the end. `ended` and ctx are not used. UNAVAILABLE after
 * DB_WRITER_PATIENCE_MS: it may still happen. */
int db_writer_run(struct db_writer *w, const struct db_order *order, struct err *err);
/* On another thread: waits until all orders given so far have ended, DB_WRITER_PATIENCE_MS at most. */
void db_writer_sync(struct db_writer *w);

/* Somebody who waits until all that was given so far is in the file; embedded, lives until `over`. */
struct db_wait {
    struct db_wait *next;
    uint64_t after, number; /* it waits for all up to `number`, and fails with those after `after` */
    struct err err;         /* of the newest of these that was not written */
    int64_t until_ms;
    void (*over)(struct db_wait *wait, int rc, const struct err *err);
};
/* Calls over, at once if nothing has to be waited for. An order that could not be written, and whose end no earlier
 * turn has told: its error, also when later ones could. UNAVAILABLE after DB_WRITER_PATIENCE_MS: what was ordered may
 * still happen. */
void db_writer_await(struct db_writer *w, struct db_wait *wait, void (*over)(struct db_wait *wait, int rc, const struct err *err));
/* Call when woken, and once a second. */
void db_writer_turn(struct db_writer *w);
/* Waits for all orders given so far, then as db_writer_turn: for the start and for tests. */
void db_writer_settle(struct db_writer *w);
/* True if the file or its volume has kept an order waiting for DB_WRITER_LATE_MS. */
bool db_writer_late(struct db_writer *w);
