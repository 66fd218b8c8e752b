/* outbox: deliveries that are not done, in the journal's database. The journal's thread. */
#ifndef BRR_DAEMON_JOURNAL_OUTBOX_H
#define BRR_DAEMON_JOURNAL_OUTBOX_H
#include "daemon/db/db.h"
#include "daemon/journal/outlet.h"

/* *newest becomes the newest row, unless it is newer already. */
int outbox_setup(struct db *db, int64_t *newest, struct err *err);
/* A delivery of this entry to the i-th receiver, in a row after *newest, which becomes it. (SQLite alone would use the row of a
 * delivery that is done again, behind what a receiver was handed.) */
int outbox_add(struct db *db, const struct outlet *outlet, int i, const struct journal_entry *e, int64_t *newest, struct err *err);
int outbox_remove(struct db *db, int64_t id, struct err *err);
/* Hands the rows of the i-th receiver behind *handed to it, as many as it takes; *handed becomes the newest of these. */
int outbox_hand(struct db *db, const struct outlet *outlet, int i, int64_t *handed, struct err *err);
/* Deletes rows made before this Unix time: their receiver is no longer configured, or did not take them. */
int outbox_prune(struct db *db, int64_t before_ms, int64_t *ret_n, struct err *err);
/* A delivery without a row; NULL when out of memory. */
struct delivery *outbox_direct(const struct outlet *outlet, int i, const struct journal_entry *e);

#endif
