#include "daemon/models/model_lease.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/str.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/model_head.h"
#include "detect/modelfile.h"
#include "store/cached.h"

enum { TRIES = 2 }; /* of an object that is replaced while it is fetched */

static bool go_on(void *ctx, int64_t done, int64_t total) {
    (void)done, (void)total;
    return !atomic_load((const atomic_bool *)ctx);
}

/* The object's file in the cache, pinned. */
static int fetch_object(const struct cached_place *place, const struct store_item *item, struct model_lease *lease,
                        struct err *err) {
    const struct store_watch watch = {.progress = place->progress, .ctx = place->ctx};
    struct cached_object object;
    int rc = cached_object_init(&object, place->store, item, err);
    if (rc)
        return rc;
    if (!cached_find(place, &object, lease->path) &&
        ((rc = model_head_check(place->store, item, &watch, err)) || (rc = cached_fetch(place, &object, lease->path, err))))
        return rc;
    str_copy(lease->cache_key, sizeof lease->cache_key, object.cache_key);
    return 0;
}

static int fetch(const struct cached_place *place, const char *key, struct model_lease *lease, struct err *err) {
    const struct store_watch watch = {.progress = place->progress, .ctx = place->ctx};
    struct store_item item;
    int rc = store_stat(place->store, key, &item, &watch, err);
    if (rc)
        return rc;
    if (item.size_bytes > MODEL_FETCH_MAX_BYTES)
        return err_set(err, ERR_EXHAUSTED, "the object has %lld bytes; a model file may have at most %lld",
                       (long long)item.size_bytes, (long long)MODEL_FETCH_MAX_BYTES);
    if ((rc = fetch_object(place, &item, lease, err)))
        return rc;
    if ((rc = digest_file(lease->path, lease->sha256, err)))
        cache_unpin(place->cache, lease->cache_key);
    return rc;
}

static int take(const struct source_store *store, const char *key, const atomic_bool *stop, struct model_lease *lease,
                struct err *err) {
    struct cached_place place = {.cache = lease->cache, .progress = go_on, .ctx = (void *)(uintptr_t)stop};
    int rc = store_open_config(&store->config, &place.store, err);
    if (rc)
        return rc;
    rc = fetch(&place, key, lease, err);
    for (int i = 1; i < TRIES && rc == ERR_ABORTED; i++)
        rc = fetch(&place, key, lease, err);
    store_close(place.store);
    return rc;
}

int model_lease_take(const struct source_config *config, const char *url, const atomic_bool *stop, struct model_lease *ret,
                     struct err *err) {
    const struct source_store *store;
    const char *key;
    struct model_lease lease = {.objects = config->objects};
    int rc = model_fetch_locate(config->stores, config->n_stores, url, &store, &key, err);
    if (rc)
        return rc;
    bool entered = !object_cache_enter(lease.objects, &lease.cache, err);
    if (entered && !take(store, key, stop, &lease, err)) {
        *ret = lease;
        return 0;
    }
    if (entered)
        object_cache_leave(lease.objects);
    (void)err_in_cache(err);
    return err_wrap(err, "model %.200s cannot be used", url);
}

void model_lease_drop(struct model_lease *lease) {
    if (!lease->objects)
        return;
    cache_unpin(lease->cache, lease->cache_key);
    object_cache_leave(lease->objects);
    *lease = (struct model_lease){0};
}

struct releasing {
    uv_work_t work;
    struct model_lease lease;
};

static void release(uv_work_t *work) { model_lease_drop(&((struct releasing *)work->data)->lease); }

static void released(uv_work_t *work, int status) {
    (void)status;
    free(work->data);
}

void model_lease_release(uv_loop_t *loop, struct model_lease *lease) {
    struct releasing *r = lease->objects ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        model_lease_drop(lease);
        return;
    }
    r->work.data = r;
    r->lease = *lease;
    *lease = (struct model_lease){0};
    uv_queue_work(loop, &r->work, release, released); /* fails for want of a function alone */
}

/* ---- on a thread of its own ---- */

struct model_leasing {
    uv_async_t ended;
    pthread_t thread;
    struct source_config config;
    char *url;
    int *threads;
    model_lease_done_fn *done; /* NULL: nobody wants it any more */
    void *ctx;
    atomic_bool stop;
    struct model_lease lease;
    struct err err;
};

static void *leasing_main(void *arg) {
    struct model_leasing *l = arg;
    struct modelfile file;
    if (!model_lease_take(&l->config, l->url, &l->stop, &l->lease, &l->err) && modelfile_read(l->lease.path, &file, &l->err)) {
        model_lease_drop(&l->lease);
        err_wrap(&l->err, "model %.200s cannot be used", l->url);
    }
    uv_async_send(&l->ended);
    return NULL;
}

static void on_closed(uv_handle_t *handle) {
    struct model_leasing *l = handle->data;
    free(l->url);
    free(l);
}

static void on_ended(uv_async_t *async) {
    struct model_leasing *l = async->data;
    bool leased = l->lease.objects != NULL;
    pthread_join(l->thread, NULL); /* it has sent its last word */
    --*l->threads;
    if (l->done)
        l->done(l->ctx, leased ? &l->lease : NULL, leased ? NULL : &l->err);
    else
        model_lease_release(async->loop, &l->lease);
    uv_close((uv_handle_t *)async, on_closed);
}

int model_lease_start(const struct model_lease_start *start, const char *url, struct model_leasing **ret, struct err *err) {
    struct model_leasing *l = calloc(1, sizeof *l);
    if (!l || !(l->url = strdup(url))) {
        free(l);
        return err_set(err, ERR_EXHAUSTED, "out of memory fetching a model");
    }
    l->config = *start->config;
    l->threads = start->threads;
    l->done = start->done;
    l->ctx = start->ctx;
    uv_async_init(start->loop, &l->ended, on_ended);
    l->ended.data = l;
    if (pthread_create(&l->thread, NULL, leasing_main, l)) {
        uv_close((uv_handle_t *)&l->ended, on_closed);
        return err_set(err, ERR_EXHAUSTED, "cannot start a thread to fetch a model");
    }
    ++*l->threads;
    *ret = l;
    return 0;
}

void model_lease_forget(struct model_leasing *l) {
    l->done = NULL;
    atomic_store(&l->stop, true);
}
