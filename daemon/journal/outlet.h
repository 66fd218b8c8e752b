/* outlet: receivers of entries of the journal (daemon/hooks), as the journal sees them. A receiver is offered each
 * entry that it wants when the entry is made; it waits until the entry is on the disk, or for OUTLET_WAIT_MS, and so
 * needs no disk. In the transaction that writes the entry its delivery goes into the outbox, and leaves it when the
 * receiver is done (journal_told): a restart offers again what is left there. */
#pragma once
#include "daemon/journal/journal_line.h"

enum { OUTLET_WAIT_MS = 500 };

struct outlet {
    void *ctx;
    int n;
    const char *(*name)(void *ctx, int i);
    void (*see)(void *ctx, const struct journal_entry *e); /* every entry that is made, before wants; NULL: of no interest */
    bool (*wants)(void *ctx, int i, const struct journal_entry *e);
    void (*offer)(void *ctx, int i, struct journal_line *line); /* never waits; the receiver takes a hold of its own */
    void (*written)(void *ctx);                                 /* states of lines have changed */
};

/* The id of a delivery: a digest of receiver, session, kind and number, so that it is the same after any restart. */
void outlet_id(const char *receiver, const struct journal_entry *e, char ret[LINE_DELIVERY]);
