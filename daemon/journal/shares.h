/* shares: how many entries of the journal each principal has, and each bed of it, so that a journal that is too large
 * shrinks by the entries of whoever has most. The journal's thread. */
#pragma once
#include "daemon/journal/journaldb.h"

struct shares;
/* Counts the entries of the database. NULL after an error. */
struct shares *shares_new(struct db *db, struct err *err);
void shares_free(struct shares *s); /* NULL is fine */
void shares_add(struct shares *s, const char *principal, const char *client, int64_t n);
/* Deletes the oldest entries, at most `most`, of the largest bed of the principal that has most; its alarms only when
 * it has nothing else. *ret_n: how many; 0: nothing can go. */
int shares_prune(struct shares *s, struct db *db, int most, int64_t *ret_n, struct err *err);
