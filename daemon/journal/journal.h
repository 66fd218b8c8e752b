/* journal: what happened to every stream, on disk (journal/journaldb.h), written by a thread of its own, so that a
 * slow, full or silent volume delays nobody else. Alarms, their answers and the ends of streams have a mailbox and
 * transactions of their own, which come first; all other entries wait in a second mailbox. Bounded: JOURNAL_WAITING
 * entries wait in each, of a stream JOURNAL_STREAM_ALARMS and JOURNAL_STREAM_OTHERS; further ones are dropped, counted
 * and logged once a minute, and receivers of alarms (outlet.h) get them all the same. Entries that cannot be written
 * are tried again every second; a full volume takes the room of the oldest entries. Entries older than keep_ms are
 * deleted once the wall clock has been steady for a day, and above max_bytes those of whoever has most. journal_add,
 * _add_again and _tick are for the loop thread, the rest for any thread. */
#pragma once
#include "base/metrics.h"
#include "daemon/db/db.h"
#include "daemon/journal/journal_entry.h"
#include "daemon/journal/outlet.h"

enum { JOURNAL_WAITING = 16384, JOURNAL_STREAM_ALARMS = 1024, JOURNAL_STREAM_OTHERS = 64, JOURNAL_HUNG_MS = 2000 };

struct journal_config {
    const char *path;            /* SQLite file; made when it is missing. Borrowed */
    int64_t keep_ms;             /* -1 = for ever */
    int64_t max_bytes;           /* -1 = no limit */
    struct metrics *metrics;     /* may be NULL */
    const struct outlet *outlet; /* receivers of entries; NULL: there are none. Borrowed */
    void (*wake)(void *ctx);     /* called on the journal's thread after each write; may be NULL */
    void *wake_ctx;
};

struct journal;
int journal_start(const struct journal_config *config, struct journal **ret, struct err *err);
/* Writes what waits; gives up after a few seconds when the volume does not answer: false, and the thread goes on with
 * the outlet until the process ends. NULL is fine. */
bool journal_stop(struct journal *j);
/* Hands a copy to the thread and offers it to receivers; never waits. Returns a number for journal_has, 0 when the
 * entry was dropped. */
int64_t journal_add(struct journal *j, const struct journal_entry *e);
/* Each entry that journal_add takes from now on is shown to `seen` first, on the loop thread, which may add to it. */
void journal_observe(struct journal *j, void (*seen)(void *ctx, struct journal_entry *e), void *ctx);
/* The same for an entry that the journal may have already: receivers wait until it is known to be new, and hear neither
 * of an alarm that somebody has answered nor of the answer. */
int64_t journal_add_again(struct journal *j, const struct journal_entry *e);
/* A receiver is done with a delivery: it leaves the outbox, and of an alarm an entry says so. outcome: "delivered", or
 * why not. */
void journal_told(struct journal *j, const char *receiver, const struct journal_entry *e, const char *outcome);
/* True if the entry of this number is on the disk. */
bool journal_has(const struct journal *j, int64_t number);
/* True while entries cannot be written, and while a call into the database has taken JOURNAL_HUNG_MS. */
bool journal_is_failing(const struct journal *j);
/* Once a second: says in the log what was dropped, and that the volume hangs. */
void journal_tick(struct journal *j);
/* Where no other connection to the file can be opened (db_is_alone), lets a reader use the journal's own: true. The
 * journal does not close it meanwhile. For another thread, before journal_stop. */
bool journal_lend(struct journal *j, void (*use)(void *ctx, struct db *db), void *ctx);
int64_t journal_newest(const struct journal *j); /* id of the newest entry on the disk; 0: there is none */
const char *journal_path(const struct journal *j);
