/* journal: what happened to every stream, on disk (journal/journaldb.h), written by a thread of its own, so that a slow, full or
 * silent volume delays nobody else. Bounded: JOURNAL_WAITING entries wait; further ones are dropped and counted. Entries that
 * cannot be written are tried again every second; a full volume takes the room of the oldest entries. Entries older than keep_ms
 * and the oldest beyond max_bytes are deleted and counted. journal_add is for the loop thread, the rest for any thread. */
#ifndef BRR_DAEMON_JOURNAL_JOURNAL_H
#define BRR_DAEMON_JOURNAL_JOURNAL_H
#include "base/err.h"
#include "base/metrics.h"
#include "daemon/journal/journal_entry.h"
#include "daemon/journal/outlet.h"

enum { JOURNAL_WAITING = 8192 };

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
/* Writes what waits; gives up after a few seconds when the volume does not answer: false, and the thread goes on with the outlet
 * until the process ends. NULL is fine. */
bool journal_stop(struct journal *j);
/* Hands a copy to the thread; never waits. Returns a number for journal_has, 0 when the entry was dropped. */
int64_t journal_add(struct journal *j, const struct journal_entry *e);
/* Each entry that journal_add takes from now on is shown to `seen` first, on the loop thread. */
void journal_observe(struct journal *j, void (*seen)(void *ctx, const struct journal_entry *e), void *ctx);
/* A delivery of the outlet is done: its row goes. Any thread; what finds no room is delivered again after a restart. */
void journal_delivered(struct journal *j, int64_t outbox);
/* True if the entries up to this number are on the disk. */
bool journal_has(const struct journal *j, int64_t number);
/* True while entries cannot be written. */
bool journal_is_failing(const struct journal *j);
int64_t journal_newest(const struct journal *j); /* id of the newest entry on the disk; 0: there is none */
const char *journal_path(const struct journal *j);

#endif
