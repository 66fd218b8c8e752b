/* outbox: deliveries that are not done, in the journal's database. Ages are by the clock that runs from the boot of the
 * machine, which nobody can set. The journal's thread. */
#pragma once
#include "daemon/db/db.h"
#include "daemon/journal/outlet.h"

/* Makes the table. Deliveries of an earlier boot are as old as the wall clock says. */
int outbox_setup(struct db *db, struct err *err);
/* A delivery of this entry, which has its id. */
int outbox_add(struct db *db, const char *receiver, const struct journal_entry *e, struct err *err);
int outbox_remove(struct db *db, const char *delivery, struct err *err);
/* Offers the i-th receiver what is left for it, the newest OUTBOX_MOST at most, oldest first. */
enum { OUTBOX_MOST = 4096 };
int outbox_offer(struct db *db, const struct outlet *outlet, int i, struct err *err);
/* Deletes deliveries older than this: their receiver is no longer configured. */
int outbox_prune(struct db *db, int64_t older_than_ms, int64_t *ret_n, struct err *err);
