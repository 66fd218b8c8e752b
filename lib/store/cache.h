/* cache: a directory of files under SHA-256 keys with a limit in bytes; the oldest unpinned files are evicted when room is needed.
 * There are two kinds of files, objects and windows, which share the limit and one order of last use. Windows that are pinned or
 * being written may exceed the limit, since a job needs all of its windows at once; objects never do.
 *
 *     DIR/.lock                  held while open: one process per directory
 *     DIR/entries/ab/abcdef…     finished objects, always complete (written elsewhere, synced, renamed)
 *     WINDOWS/ab/abcdef….win     finished windows, likewise
 *     DIR/partial/KEY/           a file being written and the writer's journal; both survive the process
 *
 * An entry's life: lookup misses → reserve → the caller writes slot.path → commit (pinned) → use → unpin. A pinned file is never
 * evicted; an open or mapped file stays readable even after eviction. Recency is kept in memory and in the files' times, so it
 * survives the process. Files left by a killed or suspended writer count as used and are removed first when room is needed. All
 * functions are thread-safe. */
#pragma once

#include "store/digest.h"

enum { CACHE_PATH_SIZE = 4096 };

struct cache;

/* Makes the directory if needed and reads its contents; evicts at once if it holds more than max_bytes (> 0).
 * PRECONDITION, naming the process, when another process has it open. windows: a folder of windows on the same volume,
 * or NULL; temporaries of fsio_writer below it are removed. */
int cache_open(const char *dir, const char *windows, int64_t max_bytes, struct cache **ret, struct err *err);
/* No lookup, reservation or pin may be in use any more. Takes NULL. */
void cache_close(struct cache *cache);

/* Returns the file of key, pinned, in ret_path (CACHE_PATH_SIZE bytes). NOT_FOUND on a miss. */
int cache_lookup(struct cache *cache, const char *key, char *ret_path, struct err *err);
int cache_lookup_window(struct cache *cache, const char *key, char *ret_path, struct err *err);
/* Removes one pin. Every successful lookup and commit needs one unpin. */
void cache_unpin(struct cache *cache, const char *key);
/* Removes one pin and, unless others have it pinned, the entry: its file is corrupt. */
void cache_discard(struct cache *cache, const char *key);

/* A file being written: its room is reserved and only its writer sees it. path lies in a directory of the slot's own,
 * where the writer may keep more files (PATH.part, a journal). Both may exist already when an earlier writer of the key
 * was killed or suspended; a file under path itself is complete. */
struct cache_slot {
    char key[DIGEST_HEX_SIZE];
    char path[CACHE_PATH_SIZE];
    bool window;
};
/* Reserves room for `bytes` under key by evicting the oldest unpinned entries. EXHAUSTED, with the fix, when the limit or the
 * volume, less the room reserved by other writers, is too small; nothing is allocated on the volume itself, so processes outside
 * the cache may still use up the room. Several threads may write the same key (only one of them continues the existing partial
 * file); the first commit wins. Call exactly one of commit, abort and suspend afterwards. */
int cache_reserve(struct cache *cache, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err);
/* The same for windows, which only the volume can refuse. */
int cache_reserve_window(struct cache *cache, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err);
/* Evicts the oldest unpinned entries while the volume has less than `bytes` free: room for small files beside the cache. */
void cache_make_room(struct cache *cache, int64_t bytes);
/* Syncs the file and moves it into place, pinned; ret_path (CACHE_PATH_SIZE bytes) is its final path. The file may be
 * larger than reserved if there is room. After an error the slot is gone as after abort. */
int cache_commit(struct cache *cache, struct cache_slot *slot, char *ret_path, struct err *err);
void cache_abort(struct cache *cache, struct cache_slot *slot);
/* Keeps the written bytes for the next writer that reserves the key. */
void cache_suspend(struct cache *cache, struct cache_slot *slot);

struct cache_stats {
    int64_t capacity_bytes, used_bytes; /* used: entries, reservations and the files of suspended writers */
    int64_t window_bytes;               /* part of used_bytes: finished windows */
    int64_t entries, pinned;
    int64_t hits, misses, evictions; /* of objects, since open */
    int64_t window_hits, window_misses, window_evictions;
};
void cache_stats(struct cache *cache, struct cache_stats *ret);
