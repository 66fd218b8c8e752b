#include "daemon/models/model_file.h"

#include <uv.h>

#include "base/log.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/model_head.h"
#include "store/cached.h"

enum { TRIES = 2 }; /* of an object that is replaced while it is fetched */

/* ---- links ---- */

/* Folders of links: new links go into the first; earlier versions left some in the others. */
static const char *const folders[] = {"models", "served", "pinned"};
enum { FOLDERS = sizeof folders / sizeof *folders };

bool model_file_is_link(const char *name) {
    enum { DIGITS = DIGEST_HEX_SIZE - 1 };
    return strspn(name, "0123456789abcdef") == DIGITS && name[DIGITS] == '-';
}

/* The folders of earlier versions have nothing else. */
static bool is_link(int folder, const char *name) { return folder > 0 || model_file_is_link(name); }

int model_file_link(const char *results_dir, const char *owner, const char *from, struct model_file *ret, struct err *err) {
    struct model_file made = {.hold = MODEL_LINKED};
    char tmp[CACHE_PATH_SIZE];
    int rc = digest_file(from, made.sha256, err);
    if (rc)
        return rc;
    if (!str_format(made.path, sizeof made.path, "%s/%s/%s-%s.safetensors", results_dir, folders[0], made.sha256, owner) ||
        !str_format(tmp, sizeof tmp, "%.4000s.tmp", made.path))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    if ((rc = fsio_mkdirs_above(made.path, err)))
        return rc;
    unlink(tmp);
    if (!strcmp(from, made.path)) {
        *ret = made;
        return 0;
    }
    if (link(from, tmp) < 0) { /* another volume, or one without links */
        if (errno != EXDEV && errno != EPERM && errno != EMLINK && errno != ENOTSUP)
            return err_errno(err, errno, "cannot keep %s", from);
        if (model_file_recorded(results_dir, from).hold == MODEL_FREE) {
            str_copy(made.path, sizeof made.path, from);
            made.hold = MODEL_FREE;
            *ret = made;
            return 0;
        }
        rc = fsio_copy(from, tmp, err); /* the other owner may let go */
    }
    if (!rc)
        rc = fsio_rename(tmp, made.path, err); /* durable before its name is recorded */
    unlink(tmp);                               /* rename does nothing when both are the same file already */
    if (rc)
        return err_wrap(err, "cannot keep %s as %s", from, made.path);
    *ret = made;
    return 0;
}

void model_file_unlink(const char *results_dir, const char *owner) {
    char folder[CACHE_PATH_SIZE], ending[300], path[CACHE_PATH_SIZE];
    struct dirent *e = NULL;
    if (!str_format(ending, sizeof ending, "-%s.safetensors", owner) ||
        fsio_join(folder, sizeof folder, results_dir, folders[0], NULL))
        return;
    OWNED_DIR DIR *d = opendir(folder);
    while (d && !fsio_next_entry(d, &e, NULL) && e)
        if (model_file_is_link(e->d_name) && !strcmp(e->d_name + DIGEST_HEX_SIZE - 1, ending) &&
            !fsio_join(path, sizeof path, folder, e->d_name, NULL))
            unlink(path);
}

bool model_file_find(const char *results_dir, const char *sha256, char path[CACHE_PATH_SIZE]) {
    char folder[CACHE_PATH_SIZE];
    struct dirent *e = NULL;
    if (fsio_join(folder, sizeof folder, results_dir, folders[0], NULL))
        return false;
    OWNED_DIR DIR *d = opendir(folder);
    while (d && !fsio_next_entry(d, &e, NULL) && e)
        if (model_file_is_link(e->d_name) && str_starts(e->d_name, sha256))
            return !fsio_join(path, CACHE_PATH_SIZE, folder, e->d_name, NULL);
    return false;
}

struct model_file model_file_recorded(const char *results_dir, const char *path) {
    struct model_file file = {.hold = MODEL_FREE};
    char folder[CACHE_PATH_SIZE];
    str_copy(file.path, sizeof file.path, path);
    for (int i = 0; i < FOLDERS; i++)
        if (str_format(folder, sizeof folder, "%s/%s/", results_dir, folders[i]) && str_starts(path, folder) &&
            is_link(i, path + strlen(folder)))
            file.hold = MODEL_LINKED;
    return file;
}

void model_file_sweep(const char *results_dir, bool (*named)(void *ctx, const char *below), void *ctx) {
    char folder[CACHE_PATH_SIZE], path[CACHE_PATH_SIZE], below[300];
    struct dirent *e = NULL;
    struct stat st;
    for (int i = 0; i < FOLDERS; i++) {
        OWNED_DIR DIR *d = fsio_join(folder, sizeof folder, results_dir, folders[i], NULL) ? NULL : opendir(folder);
        while (d && !fsio_next_entry(d, &e, NULL) && e)
            if (!is_link(i, e->d_name) || fsio_join(path, sizeof path, folder, e->d_name, NULL) ||
                fsio_join(below, sizeof below, folders[i], e->d_name, NULL) || named(ctx, below) || stat(path, &st) ||
                !S_ISREG(st.st_mode))
                continue;
            else if (st.st_nlink > 1)
                unlink(path);
            else
                log_warn("a model file that nothing names stays: remove it, or move it to uploads", "path=%s", path);
    }
}

/* ---- leases ---- */

static bool go_on(void *ctx, int64_t done, int64_t total) {
    (void)done, (void)total;
    return !atomic_load((const atomic_bool *)ctx);
}

/* The object's file in the cache, pinned. */
static int fetch_object(const struct cached_place *place, const struct store_item *item, struct model_file *lease,
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

static int fetch(const struct cached_place *place, const char *key, struct model_file *lease, struct err *err) {
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

static int take(const struct source_store *store, const char *key, const atomic_bool *stop, struct model_file *lease,
                struct err *err) {
    struct cached_place place = {.cache = lease->cache, .progress = go_on, .ctx = (void *)(uintptr_t)stop};
    int rc = store_open(&store->config, &place.store, err);
    if (rc)
        return rc;
    rc = fetch(&place, key, lease, err);
    for (int i = 1; i < TRIES && rc == ERR_ABORTED; i++)
        rc = fetch(&place, key, lease, err);
    store_close(place.store);
    return rc;
}

int model_file_lease(const struct source_config *config, const char *url, const atomic_bool *stop, struct model_file *ret,
                     struct err *err) {
    const struct source_store *store;
    const char *key;
    struct model_file lease = {.hold = MODEL_LEASED, .objects = config->objects};
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

/* ---- the end of a hold ---- */

void model_file_release(struct model_file *file) {
    if (file->hold == MODEL_LEASED) {
        cache_unpin(file->cache, file->cache_key);
        object_cache_leave(file->objects); /* the last user closes the cache */
    } else if (file->hold == MODEL_LINKED) {
        unlink(file->path);
    }
    *file = (struct model_file){.hold = MODEL_FREE};
}

struct releasing {
    uv_work_t work;
    struct model_file file;
};

static void release(uv_work_t *work) { model_file_release(&((struct releasing *)work->data)->file); }

static void released(uv_work_t *work, int status) {
    (void)status;
    free(work->data);
}

void model_file_release_later(uv_loop_t *loop, struct model_file *file) {
    struct releasing *r = file->hold != MODEL_FREE ? calloc(1, sizeof *r) : NULL;
    if (!r) {
        model_file_release(file);
        return;
    }
    r->work.data = r;
    r->file = *file;
    *file = (struct model_file){.hold = MODEL_FREE};
    uv_queue_work(loop, &r->work, release, released); /* fails for want of a function alone */
}
