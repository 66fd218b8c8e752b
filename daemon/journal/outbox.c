#include "daemon/journal/outbox.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/str.h"

void delivery_free(struct delivery *d) {
    if (d)
        free(d->body);
    free(d);
}

int outbox_setup(struct db *db, int64_t *newest, struct err *err) {
    static const struct db_column columns[] = {
        {"id", "INTEGER"}, {"hook", "TEXT"}, {"delivery", "TEXT"}, {"made_ms", "INTEGER"}, {"body", "TEXT"}};
    struct db_query q;
    bool row = false;
    int rc;
    if ((rc = db_table(db, "outbox", columns, sizeof columns / sizeof *columns, "id", err)) ||
        (rc = db_query(db, "SELECT max(id) FROM outbox", "read deliveries", &q, err)))
        return rc;
    if (!(rc = db_next(&q, &row, err)) && row && db_int(&q, 0) > *newest)
        *newest = db_int(&q, 0);
    db_done(&q);
    return rc;
}

static bool make_id(char ret[OUTLET_ID]) {
    unsigned char bytes[(OUTLET_ID - 1) / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        str_format(ret + 2 * i, 3, "%02x", bytes[i]);
    return true;
}

struct delivery *outbox_direct(const struct outlet *outlet, int i, const struct journal_entry *e) {
    struct delivery *d = calloc(1, sizeof *d);
    if (d && make_id(d->id) && (d->body = outlet->body(outlet->ctx, i, e, d->id))) {
        d->made_ms = clock_wall_ms();
        return d;
    }
    delivery_free(d);
    return NULL;
}

int outbox_add(struct db *db, const struct outlet *outlet, int i, const struct journal_entry *e, int64_t *newest, struct err *err) {
    struct db_query q;
    struct delivery *d = outbox_direct(outlet, i, e);
    if (!d)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a delivery");
    int rc = db_query(db, "INSERT INTO outbox(id, hook, delivery, made_ms, body) VALUES(?,?,?,?,?)", "keep a delivery", &q, err);
    if (!rc) {
        db_put_int(&q, ++*newest);
        db_put_text(&q, outlet->name(outlet->ctx, i));
        db_put_text(&q, d->id);
        db_put_int(&q, d->made_ms);
        db_put_text(&q, d->body);
        rc = db_run(&q, err);
    }
    delivery_free(d);
    return rc;
}

int outbox_remove(struct db *db, int64_t id, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "DELETE FROM outbox WHERE id = ?", "forget a delivery", &q, err);
    if (rc)
        return rc;
    db_put_int(&q, id);
    return db_run(&q, err);
}

/* The current row, handed over; false: no memory, or no room. */
static bool hand_row(const struct db_query *q, const struct outlet *outlet, int i) {
    struct delivery *d = calloc(1, sizeof *d);
    if (!d || !(d->body = strdup(db_text(q, 3)))) {
        delivery_free(d);
        return false;
    }
    d->outbox = db_int(q, 0);
    str_copy(d->id, sizeof d->id, db_text(q, 1));
    d->made_ms = db_int(q, 2);
    if (outlet->post(outlet->ctx, i, d))
        return true;
    delivery_free(d);
    return false;
}

int outbox_hand(struct db *db, const struct outlet *outlet, int i, int64_t *handed, struct err *err) {
    struct db_query q;
    bool row = false;
    int room = outlet->room(outlet->ctx, i), rc;
    if (room <= 0)
        return 0;
    if ((rc = db_query(db, "SELECT id, delivery, made_ms, body FROM outbox WHERE hook = ?1 AND id > ?2 ORDER BY id LIMIT ?3",
                       "read deliveries", &q, err)))
        return rc;
    db_put_text(&q, outlet->name(outlet->ctx, i));
    db_put_int(&q, *handed);
    db_put_int(&q, room);
    while (!(rc = db_next(&q, &row, err)) && row && hand_row(&q, outlet, i))
        *handed = db_int(&q, 0);
    db_done(&q);
    return rc;
}

int outbox_prune(struct db *db, int64_t before_ms, int64_t *ret_n, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "DELETE FROM outbox WHERE made_ms < ?", "delete old deliveries", &q, err);
    if (rc)
        return rc;
    db_put_int(&q, before_ms);
    if ((rc = db_run(&q, err)))
        return rc;
    *ret_n = db_changes(db);
    return 0;
}
