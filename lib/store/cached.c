#include "store/cached.h"

int cached_object_init(struct cached_object *o, const struct store *store, const struct store_item *item, struct err *err) {
    struct str id = str_of(8192);
    *o = (struct cached_object){.key = item->key, .bytes = item->size_bytes};
    str_copy(o->tag, sizeof o->tag, item->tag);
    str_printf(&id, "%s\n%s\n%s\n%lld", store_identity(store), item->key, item->tag, (long long)item->size_bytes);
    if (!*item->tag) /* a server without ETags: the time must do */
        str_printf(&id, "\n%lld", (long long)item->mtime_ns);
    bool ok = str_ok(&id) && digest_bytes(str_cstr(&id), id.len, o->cache_key);
    str_done(&id);
    return ok ? 0 : err_set(err, ERR_EXHAUSTED, "%s: out of memory for %.200s", store_identity(store), item->key);
}

/* An entry of the cache with the size it must have. */
bool cached_find(const struct cached_place *place, const struct cached_object *o, char path[CACHE_PATH_SIZE]) {
    int64_t bytes = 0;
    if (cache_lookup(place->cache, o->cache_key, path, NULL))
        return false;
    if (!fsio_size(path, &bytes, NULL, NULL) && bytes == o->bytes)
        return true;
    cache_discard(place->cache, o->cache_key); /* a broken volume */
    return false;
}

/* True if an error leaves something to go on from, and room to leave it. */
static bool worth_keeping(int rc) { return rc != ERR_ABORTED && rc != ERR_DATA_LOSS && rc != ERR_NOT_FOUND && rc != ERR_EXHAUSTED; }

/* Fetches the object to path unless the file there is complete: the process was killed before it put it in place. */
static int fetch_into(const struct cached_place *place, const struct cached_object *o, const char *path, struct err *err) {
    const struct store_watch watch = {.progress = place->progress, .ctx = place->ctx, .tag = o->tag};
    int64_t bytes = 0;
    int rc;
    if (!fsio_size(path, &bytes, NULL, NULL) && bytes == o->bytes)
        return 0;
    if ((rc = store_get(place->store, o->key, path, &watch, err)) || (rc = fsio_size(path, &bytes, NULL, err)))
        return rc;
    if (bytes != o->bytes) /* a newer version than the one named must not stand under its key */
        return err_set(err, ERR_ABORTED, "%s changed since it was listed (%lld bytes, was %lld); start the job again", o->key,
                       (long long)bytes, (long long)o->bytes);
    return 0;
}

int cached_fetch(const struct cached_place *place, const struct cached_object *o, char path[CACHE_PATH_SIZE], struct err *err) {
    struct cache_slot slot;
    if (cached_find(place, o, path))
        return 0;
    const struct store_ops *ops = place->store->ops;
    int rc = cache_reserve(place->cache, o->cache_key, o->bytes + (ops->get_beside ? ops->get_beside(o->bytes) : 0), &slot, err);
    if (rc)
        return rc;
    if (!(rc = fetch_into(place, o, slot.path, err)))
        return cache_commit(place->cache, &slot, path, err);
    if (worth_keeping(rc))
        cache_suspend(place->cache, &slot);
    else
        cache_abort(place->cache, &slot);
    return rc;
}
