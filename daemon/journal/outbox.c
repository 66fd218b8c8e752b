#include "daemon/journal/outbox.h"

#include "base/log.h"
#include "base/trusted_time.h"
#include "daemon/journal/journaldb.h"
#include "store/digest.h"

void outlet_id(const char *receiver, const struct journal_entry *e, char ret[LINE_DELIVERY]) {
    char text[512], hex[DIGEST_HEX_SIZE];
    str_format(text, sizeof text, "%s\n%s\n%s\n%lld\n%lld", receiver, e->session, journal_kind_name(e->kind),
               (long long)(e->number < 0 ? e->received_ms : e->number), (long long)e->step);
    (void)digest_bytes(text, strlen(text), hex);
    str_copy(ret, LINE_DELIVERY, hex);
}

static const char keeping[] = "keep deliveries";

/* After a boot of the machine the age is what the wall clock says; a clock that is before the entry says nothing. */
static int restart_ages(struct db *db, struct err *err) {
    char boot[TRUSTED_BOOT_ID];
    trusted_boot_id(boot);
    return DB_RUN(db, "UPDATE outbox SET boot = ?1, boot_ms = ?2 - max(0, ?3 - made_ms) WHERE boot <> ?1 OR boot_ms > ?2", keeping,
                  err, boot, trusted_boot_ms(), clock_wall_ms());
}

int outbox_setup(struct db *db, struct err *err) {
    static const struct db_column columns[] = {{"id", "INTEGER"},      {"hook", "TEXT"},     {"delivery", "TEXT"},
                                               {"made_ms", "INTEGER"}, {"entry", "INTEGER"}, {"boot", "TEXT"},
                                               {"boot_ms", "INTEGER"}};
    int rc;
    if ((rc = db_table(db, "outbox", columns, sizeof columns / sizeof *columns, "id", err)) ||
        (rc = DB_RUN(db, "CREATE INDEX IF NOT EXISTS outbox_delivery ON outbox(delivery)", keeping, err)) ||
        (rc = DB_RUN(db, "DELETE FROM outbox WHERE entry IS NULL", keeping, err))) /* of an earlier version */
        return rc;
    if (db_changes(db))
        log_warn("deliveries to hooks that an earlier version had not made are dropped", "deliveries=%lld",
                 (long long)db_changes(db));
    return restart_ages(db, err);
}

int outbox_add(struct db *db, const char *receiver, const struct journal_entry *e, struct err *err) {
    char delivery[LINE_DELIVERY], boot[TRUSTED_BOOT_ID];
    outlet_id(receiver, e, delivery);
    trusted_boot_id(boot);
    return DB_RUN(db, "INSERT INTO outbox(hook, delivery, made_ms, entry, boot, boot_ms) VALUES(?,?,?,?,?,?)", "keep a delivery",
                  err, receiver, delivery, e->received_ms, e->id, boot, trusted_boot_ms());
}

int outbox_remove(struct db *db, const char *delivery, struct err *err) {
    return DB_RUN(db, "DELETE FROM outbox WHERE delivery = ?", keeping, err, delivery);
}

/* Lines that a receiver was offered, which it may not tell before it has all of them: an alarm that is on is not told
 * as one when its end follows. */
struct offered {
    struct journal_line *lines[OUTBOX_MOST];
    int n;
};

/* The current row: age, then the entry. */
static void offer_row(const struct db_query *q, const struct outlet *outlet, int i, struct offered *all) {
    struct journal_entry e;
    if (!journaldb_row(q, 1, &e))
        return; /* a kind of a later version */
    struct journal_line *l = journal_line_new(&e);
    if (!l)
        return; /* the next start offers it */
    const int64_t age = db_int(q, 0);
    l->made_ms -= age > 0 ? age : 0;
    l->again = true; /* receivers wait for its state */
    l->answered = db_int(q, 1 + JOURNALDB_COLUMNS) != 0;
    outlet->offer(outlet->ctx, i, l);
    all->lines[all->n++] = l;
}

static void release(struct offered *all, const struct outlet *outlet) {
    for (int k = 0; k < all->n; k++)
        atomic_store(&all->lines[k]->state, LINE_WRITTEN);
    outlet->written(outlet->ctx);
    for (int k = 0; k < all->n; k++)
        journal_line_drop(all->lines[k]);
    free(all);
}

int outbox_offer(struct db *db, const struct outlet *outlet, int i, struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = false;
    int rc = 0;
    db_query(db,
             "SELECT ?1 - outbox.boot_ms, " JOURNALDB_ROW
             ", ifnull(answered.newest > journal.id, 0) FROM outbox JOIN journal ON journal.id = outbox.entry LEFT JOIN (SELECT "
             "alarm AS answered_alarm, max(id) AS newest FROM journal WHERE " JOURNALDB_OF_ALARMS " AND kind = 'answered' AND "
             "detail LIKE 'acknowledge%' GROUP BY alarm) answered ON answered.answered_alarm = journal.alarm WHERE outbox.id IN "
             "(SELECT id FROM outbox WHERE hook = ?2 ORDER BY id DESC LIMIT ?3) ORDER BY outbox.id",
             "read deliveries", &q, err);
    struct offered *all = calloc(1, sizeof *all);
    DB_PUT(&q, trusted_boot_ms(), outlet->name(outlet->ctx, i), OUTBOX_MOST);
    while (all && !(rc = db_next(&q, &row, err)) && row)
        offer_row(&q, outlet, i, all);
    if (!all)
        return err_set(err, ERR_EXHAUSTED, "out of memory for deliveries");
    release(all, outlet);
    return rc;
}

int outbox_prune(struct db *db, int64_t older_than_ms, int64_t *ret_n, struct err *err) {
    int rc = DB_RUN(db, "DELETE FROM outbox WHERE boot_ms < ?", "delete old deliveries", err, trusted_boot_ms() - older_than_ms);
    if (rc)
        return rc;
    *ret_n = db_changes(db);
    return 0;
}
