/* cache: a directory of files under SHA-256 keys with a limit in bytes; the oldest unpinned ones go when room is needed.
 *
 *     DIR/.lock                  held while open: one process per directory
 *     DIR/entries/ab/abcdef…     finished files, complete by construction (written elsewhere, synced, renamed)
 *     DIR/partial/KEY/           a file being written, and whatever its writer needs to go on; outlives the process
 *
 * Life of an entry: lookup misses → reserve → the caller writes slot.path → commit (pinned) → use → unpin. A pinned file stays;
 * what is open or mapped stays readable even after eviction. Recency is kept in memory and in the files' times, so it outlives the
 * process. What a killed or suspended writer left counts as used, and is the first to go when room is needed. All functions from
 * any thread. */
#ifndef BRR_STORE_CACHE_H
#define BRR_STORE_CACHE_H
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "store/digest.h"

enum { CACHE_PATH_SIZE = 4096 };

struct cache;

/* Make the directory if need be and take stock of it; evicts at once if it holds more than max_bytes (> 0). PRECONDITION naming the
 * process when another one has it open. */
int cache_open(const char *dir, int64_t max_bytes, struct cache **ret, struct err *err);
/* No lookup, reservation or pin may be in use any more. NULL is fine. */
void cache_close(struct cache *cache);

/* The file of key, pinned, in ret_path (CACHE_PATH_SIZE bytes). NOT_FOUND is a miss. */
int cache_lookup(struct cache *cache, const char *key, char *ret_path, struct err *err);
/* One pin less. Every successful lookup and commit needs one. */
void cache_unpin(struct cache *cache, const char *key);
/* One pin less, and the entry goes unless others have it pinned: its file is not what it should be. */
void cache_discard(struct cache *cache, const char *key);

/* A file in the making: its room is set aside, nobody else sees it. path lies in a directory of the slot's own, where the writer
 * may keep more (PATH.part, a journal). Both may be there already when an earlier writer of the key was killed or suspended: what
 * stands under path itself was put there whole. */
struct cache_slot {
    char key[DIGEST_HEX_SIZE];
    char path[CACHE_PATH_SIZE];
};
/* Room for `bytes` under key, evicting the oldest unpinned entries. EXHAUSTED, with the mend, when more is wanted than the limit or
 * the volume gives, less what other writers were promised; nothing is set aside on the volume itself, so others than writers of the
 * cache may still be faster. Several threads may fill the same key (only one goes on from what is there); the first commit wins.
 * Then commit, abort or suspend, exactly one. */
int cache_reserve(struct cache *cache, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err);
/* Sync the file and put it in place, pinned; ret_path (CACHE_PATH_SIZE bytes) is where it stands. It may be larger than reserved if
 * there is room. After an error the slot is gone as after abort. */
int cache_commit(struct cache *cache, struct cache_slot *slot, char *ret_path, struct err *err);
void cache_abort(struct cache *cache, struct cache_slot *slot);
/* Leave what is written for the next one who reserves the key. */
void cache_suspend(struct cache *cache, struct cache_slot *slot);

struct cache_stats {
    int64_t capacity_bytes, used_bytes; /* used: entries, reservations and what suspended writers left */
    int64_t entries, pinned;
    int64_t hits, misses, evictions; /* since open */
};
void cache_stats(struct cache *cache, struct cache_stats *ret);

#endif
