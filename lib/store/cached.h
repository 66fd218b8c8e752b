/* cached: one object of a store as a file of a cache. The key is made of store, name, tag and size, so an unchanged object is not
 * fetched again and a changed one is never mistaken for the old. Thread-safe; several threads may request the same object. */
#pragma once

#include "store/cache.h"
#include "store/store.h"

/* One version of an object. */
struct cached_object {
    const char *key; /* name in the store; borrowed */
    int64_t bytes;
    char tag[STORE_TAG_SIZE], cache_key[DIGEST_HEX_SIZE];
};
/* The version named by a list or stat of the store; its key is borrowed, not copied. */
int cached_object_init(struct cached_object *o, const struct store *store, const struct store_item *item, struct err *err);

struct cached_place {
    struct store *store;
    struct cache *cache;
    store_progress_fn *progress; /* returning false cancels a fetch; may be NULL */
    void *ctx;
};
/* Returns true if the whole object is in the cache; it is then pinned at path. */
bool cached_find(const struct cached_place *place, const struct cached_object *o, char path[CACHE_PATH_SIZE]);
/* Fetches and verifies the whole object unless the cache has it; pinned at path until cache_unpin of its cache_key. Errors: those
 * of the store, ABORTED when the object has changed since it was listed, and those of the cache. */
int cached_fetch(const struct cached_place *place, const struct cached_object *o, char path[CACHE_PATH_SIZE], struct err *err);
