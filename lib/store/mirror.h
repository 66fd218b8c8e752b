/* mirror: the recordings and labels below a prefix of a store as a local directory tree: files stand in a cache, keyed by store,
 * key and tag, pinned while the mirror is open; the tree holds links to them. What is there already is not fetched again; an object
 * that changed has another tag and so another key. The thread that opens drives; transfers run on threads of their own. */
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
    const char *directory;  /* where the tree stands; emptied before */
    int64_t max_recordings; /* only the first so many *.edf and *.bdf in order of their keys; 0 = all */
    /* Called when a recording stands in the tree, and all labels do, on the thread that fetched it, several at a time; others go on
     * fetching while it works. NULL: nobody waits for single recordings. */
    void (*arrived)(void *ctx, const char *path);
    void *arrived_ctx;
};
/* Called every 100 ms or so on the opening thread; false cancels (CANCELLED). Counts are files and bytes. */
struct mirror_progress {
    int64_t done_files, files, done_bytes, bytes;
};
typedef bool mirror_progress_fn(void *ctx, const struct mirror_progress *p);

struct mirror;
/* NOT_FOUND when there is no recording below the prefix. What arrived before an error stays in the cache. */
int mirror_open(const struct mirror_config *config, mirror_progress_fn *progress, void *ctx, struct mirror **ret, struct err *err);
/* Unpins, and removes the tree. NULL is fine. */
void mirror_close(struct mirror *m);

#endif
