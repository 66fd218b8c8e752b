#include "daemon/models/model_fetch.h"

#include "daemon/models/model_head.h"
#include "detect/model_image.h"

enum { PATH_BYTES = 4096 };
static const char scheme[] = "store://";
static const char staging[] = ".fetch";

bool model_fetch_is_url(const char *ref) { return str_starts(ref, scheme); }

int model_fetch_locate(const struct source_store *stores, int n, const char *url, const struct source_store **ret_store,
                       const char **ret_key, struct err *err) {
    int rc = source_find(stores, n, url + strlen(scheme), ret_store, ret_key, err);
    if (rc == 0 && **ret_key && !str_ends(*ret_key, "/"))
        return 0;
    if (rc == 0)
        err_set(err, ERR_INVALID, "the URL names no object; expected store://NAME/KEY of one model file");
    return err_wrap(err, "model %.200s cannot be used", url);
}

struct fetch {
    const struct source_store *store;
    const char *key, *path; /* of the object, of the file that it becomes */
    const atomic_bool *stop;
    int64_t too_large; /* size of the object if it exceeds the limit for model files */
};

static bool go_on(void *ctx, int64_t done, int64_t total) {
    struct fetch *f = ctx;
    (void)done;
    if (total > MODEL_FETCH_MAX_BYTES)
        f->too_large = total;
    return !f->too_large && !atomic_load(f->stop);
}

/* A place on the same volume that no list of models shows. */
static int stage(const struct fetch *f, char path[PATH_BYTES], struct err *err) {
    const char *base = fsio_basename(f->path);
    char dir[PATH_BYTES];
    if (!str_format(dir, sizeof dir, "%.*s%s", (int)(base - f->path), f->path, staging) ||
        !str_format(path, PATH_BYTES, "%.4000s/%s", dir, base))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    return fsio_mkdirs(dir, err);
}

/* Its header comes first: an object that is no model is not fetched. */
static int get(struct fetch *f, struct store *store, const char *to, struct err *err) {
    const struct store_watch watch = {.progress = go_on, .ctx = f};
    struct store_item item;
    int rc = store_stat(store, f->key, &item, &watch, err);
    if (!rc)
        rc = model_head_check(store, &item, &watch, err);
    if (!rc)
        rc = store_get(store, f->key, to, &watch, err);
    if (rc == ERR_CANCELLED && f->too_large)
        rc = err_set(err, ERR_EXHAUSTED, "the object has %lld bytes; a model file may have at most %lld", (long long)f->too_large,
                     (long long)MODEL_FETCH_MAX_BYTES);
    return rc;
}

/* Also what a get that failed leaves to go on from. */
static void remove_staged(const char *path) {
    static const char *const ends[] = {"", ".part", ".part.journal"};
    char name[PATH_BYTES + 16];
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (str_format(name, sizeof name, "%s%s", path, ends[i]))
            unlink(name);
}

static int fetch(struct fetch *f, const char *staged, struct err *err) {
    struct store *store = NULL;
    int rc;
    if (atomic_load(f->stop)) /* while it waited */
        return err_set(err, ERR_CANCELLED, "cancelled before it was fetched");
    if ((rc = store_open(&f->store->config, &store, err)))
        return rc;
    rc = get(f, store, staged, err);
    store_close(store);
    if (rc || (rc = model_image_check(staged, err)))
        return rc;
    return fsio_rename(staged, f->path, err);
}

int model_fetch(const struct places *places, const char *url, const char *path, const atomic_bool *stop, struct err *err) {
    struct fetch f = {.path = path, .stop = stop};
    char staged[PATH_BYTES];
    int rc;
    if ((rc = model_fetch_locate(places->stores, places->n_stores, url, &f.store, &f.key, err)) || (rc = stage(&f, staged, err)))
        return rc;
    rc = fetch(&f, staged, err);
    remove_staged(staged);
    return rc ? err_wrap(err, "model %s%s/%.200s cannot be used", scheme, f.store->name, f.key) : 0;
}

void model_fetch_clean(const char *folder) {
    char dir[PATH_BYTES];
    if (str_format(dir, sizeof dir, "%s/%s", folder, staging))
        fsio_remove_tree(dir, NULL);
}
