/* outlet: receivers of entries of the journal (daemon/hooks), as the journal's thread sees them. An entry that a receiver wants
 * goes into the outbox in the transaction that writes the entry, and leaves it when the receiver says that it is done
 * (journal_delivered), so that a restart loses none and a stream that goes on makes none twice. */
#ifndef BRR_DAEMON_JOURNAL_OUTLET_H
#define BRR_DAEMON_JOURNAL_OUTLET_H
#include "base/mailbox.h"
#include "daemon/journal/journal_entry.h"

enum { OUTLET_MAX = 16, OUTLET_ID = 33 };

/* One entry on its way to one receiver; belongs to who takes it. */
struct delivery {
    struct message message;
    int64_t outbox;  /* its row; 0: it has none */
    int64_t made_ms; /* Unix time */
    char id[OUTLET_ID];
    char *body; /* free() */
};
void delivery_free(struct delivery *d); /* NULL is fine */

/* n receivers; all functions are called on the journal's thread. */
struct outlet {
    void *ctx;
    int n;
    const char *(*name)(void *ctx, int i);
    bool (*wants)(void *ctx, int i, const struct journal_entry *e);
    char *(*body)(void *ctx, int i, const struct journal_entry *e, const char *id); /* malloc'd */
    int (*room)(void *ctx, int i);                                                  /* deliveries that it takes now */
    bool (*post)(void *ctx, int i, struct delivery *d);                             /* false: it takes none; d stays the caller's */
};

#endif
