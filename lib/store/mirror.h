/* mirror: the recordings and labels below a prefix of a store as a local directory tree: files stand in a cache, keyed by store,
 * key and tag, pinned while the mirror is open; the tree holds links to them. What is there already is not fetched again; an object
 * that changed has another tag and so another key. The thread that opens drives; transfers run on threads of their own.
 *
 * With head_bytes, opening fetches only the start of each recording, and the tree links to that: who needs the whole file takes it
 * (mirror_take), which fetches it on the taker's thread, and drops it when done with it. Only what is taken is pinned, so that a
 * prefix may be larger than the cache. */
#ifndef BRR_STORE_MIRROR_H
#define BRR_STORE_MIRROR_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/cache.h"
#include "store/store.h"

struct mirror_config {
    struct store *store;
    struct cache *cache;
    const char *prefix;     /* a "directory" of the store, with or without the '/' at its end; "" = all */
    bool or_recording;      /* prefix may also be the key of one *.edf or *.bdf, which the tree then holds alone, without labels */
    const char *directory;  /* where the tree stands; emptied before */
    int64_t max_recordings; /* only the first so many *.edf and *.bdf in order of their keys; 0 = all */
    size_t head_bytes;      /* how much of a recording opening fetches; 0 = all of it */
};
/* Called every 100 ms or so on the opening thread; false cancels (CANCELLED). Counts are files and bytes. */
struct mirror_progress {
    int64_t done_files, files, done_bytes, bytes;
};
typedef bool mirror_progress_fn(void *ctx, const struct mirror_progress *p);

struct mirror;
/* NOT_FOUND when there is no recording below the prefix. What arrived before an error stays in the cache. */
int mirror_open(const struct mirror_config *config, mirror_progress_fn *progress, void *ctx, struct mirror **ret, struct err *err);
/* Unpins, and removes the tree. Nothing may be taken any more. NULL is fine. */
void mirror_close(struct mirror *m);
/* Where the tree stands, absolute; the mirror's. */
const char *mirror_directory(const struct mirror *m);

/* The functions below are for any thread; path is that of a recording in the tree, below mirror_directory (else NOT_FOUND). */

struct mirror_file {
    int64_t bytes;                 /* of the whole file */
    char version[DIGEST_HEX_SIZE]; /* another one for every other store, key, tag or size */
    int mends;                     /* how often its head turned out to be damaged, since opening */
};
int mirror_stat(const struct mirror *m, const char *path, struct mirror_file *ret, struct err *err);
/* The whole file, fetched if it is not in the cache, as ret_path (CACHE_PATH_SIZE bytes); pinned until mirror_drop, of which every
 * success needs one. A thread that finds no room waits while others have files taken: take one at a time. Errors name the object:
 * those of the store, ABORTED when it changed since it was listed, EXHAUSTED when it does not fit the cache, CANCELLED after
 * mirror_stop. A head carries no checksum, the whole file does: when it does not begin as its head did, the head is replaced, here
 * and in the cache, and mirror_stat counts that: what was read of the head before does not hold. */
int mirror_take(struct mirror *m, const char *path, char *ret_path, struct err *err);
void mirror_drop(struct mirror *m, const char *path);
/* What is being taken and all that is asked for from now on ends with CANCELLED, within a fraction of a second. */
void mirror_stop(struct mirror *m);
/* The error of the first take that failed, but for CANCELLED; 0 when none has. */
int mirror_failure(struct mirror *m, struct err *err);

#endif
