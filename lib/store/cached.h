/* cached: one object of a store as a file of a cache, under a key made of store, name, tag and size: what did not change is not
 * fetched again, and what changed is never taken for the old. Any thread; several may want the same object. */
#ifndef BRR_STORE_CACHED_H
#define BRR_STORE_CACHED_H
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "store/cache.h"
#include "store/store.h"

/* One version of an object. */
struct cached_object {
    const char *key; /* in the store; the caller's */
    int64_t bytes;
    char tag[STORE_TAG_SIZE], cache_key[DIGEST_HEX_SIZE];
};
/* The version that a list or stat of the store has named; its key is not copied. */
int cached_object_init(struct cached_object *o, const struct store *store, const struct store_item *item, struct err *err);

struct cached_place {
    struct store *store;
    struct cache *cache;
    store_progress_fn *progress; /* false gives a fetch up; NULL = nobody watches */
    void *ctx;
};
/* Whether the whole object is in the cache; then pinned at path. */
bool cached_find(const struct cached_place *place, const struct cached_object *o, char path[CACHE_PATH_SIZE]);
/* The whole object, fetched and verified unless it is there; pinned at path until cache_unpin of its cache_key. Errors: those of
 * the store, ABORTED when the object has changed since, and those of the cache. */
int cached_fetch(const struct cached_place *place, const struct cached_object *o, char path[CACHE_PATH_SIZE], struct err *err);

#endif
