#include "daemon/models/model_ref.h"

#include "daemon/models/model_fetch.h"
#include "daemon/models/upload_owner.h"
#include "detect/detector.h"
#include "detect/modelfile.h"

enum { MAX_NAME = 64 };

int model_ref_object(const struct places *places, const char *url, struct model_ref *ret, struct err *err) {
    const struct source_store *store;
    const char *key;
    *ret = (struct model_ref){.origin = MODEL_OBJECT, .name = "store", .places = *places};
    int rc = model_fetch_locate(places->stores, places->n_stores, url, &store, &key, err);
    if (rc)
        return rc;
    return str_copy(ret->path, sizeof ret->path, url) ? 0 : err_set(err, ERR_RANGE, "model %.200s…: the name is too long", url);
}

int model_upload_path(const char *results_dir, const char *name, char path[LIVE_PATH], struct err *err) {
    const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    if (!n || name[n] || n > MAX_NAME || *name == '.')
        return err_set(err, ERR_INVALID, "'%s' is not a valid model name; expected up to %d characters of A-Z a-z 0-9 . _ -", name,
                       MAX_NAME);
    if (!str_format(path, LIVE_PATH, "%s/uploads/%s.safetensors", results_dir, name))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    return 0;
}

static int say_absent(const struct model_ref *ref, struct err *err) {
    if (err)
        *err = ref->absent;
    return ref->absent.code;
}

static int find_there(const struct model_ref *r, char path[LIVE_PATH], struct err *err) {
    if (r->origin == MODEL_OF_CALLER)
        return places_model_file(&r->places, r->path, path, err);
    if (r->origin == MODEL_UPLOAD && r->places.limited && !upload_owner_is(r->path, r->places.viewer))
        return say_absent(r, err);
    const bool there = r->origin == MODEL_SERVED || fsio_exists(r->path);
    if (!there && !(*r->spare && fsio_exists(r->spare)))
        return say_absent(r, err);
    str_copy(path, LIVE_PATH, there ? r->path : r->spare);
    return 0;
}

/* The object becomes the upload of its owner. */
static int fetch_upload(const struct model_ref *r, const struct model_wish *wish, char path[LIVE_PATH], struct err *err) {
    int rc = model_upload_path(r->places.results_dir, wish->owner, path, err);
    return rc ? rc : model_fetch(&r->places, r->path, path, wish->stop, err);
}

static int lease_model(const struct model_ref *r, const struct model_wish *wish, struct model_file *ret, struct err *err) {
    struct modelfile file;
    int rc = model_file_lease(wish->source, r->path, wish->stop, ret, err);
    if (rc || !(rc = modelfile_read(ret->path, &file, err)))
        return rc;
    model_file_release(ret);
    return err_wrap(err, "model %.200s cannot be used", r->path);
}

static int find_ref(const struct model_ref *r, const struct model_wish *wish, char path[LIVE_PATH], struct err *err) {
    return r->origin == MODEL_OBJECT ? fetch_upload(r, wish, path, err) : find_there(r, path, err);
}

static int check_weights(const char *path, const char *sha256, struct err *err) {
    char found[DIGEST_HEX_SIZE];
    int rc = digest_file(path, found, err);
    if (rc || !strcmp(found, sha256))
        return rc;
    return err_set(err, ERR_NOT_FOUND, "the file has other weights now, with SHA-256 %.12s…", found);
}

/* A link that holds the weights, else the file of the REF, if that still has them. */
static int find_weights(const struct model_ref *r, const struct model_wish *wish, char path[LIVE_PATH], struct err *err) {
    if (model_file_find(r->places.results_dir, wish->sha256, path) && !check_weights(path, wish->sha256, NULL))
        return 0;
    int rc = find_ref(r, wish, path, err);
    return rc ? rc : check_weights(path, wish->sha256, err);
}

int model_resolve(const struct model_ref *ref, const struct model_wish *wish, struct model_file *ret, struct err *err) {
    const bool object = ref->origin == MODEL_OBJECT;
    struct model_file found = {.hold = MODEL_FREE};
    int rc;
    if (object && wish && wish->source)
        return lease_model(ref, wish, ret, err);
    if (object && !(wish && wish->owner))
        return err_set(err, ERR_PRECONDITION,
                       "model %.200s lies in a store, which jobs and streams alone can name; here serve it first: `brrctl "
                       "checkpoint promote %.200s NAME`, and say NAME",
                       ref->path, ref->path);
    if ((rc = wish && wish->sha256 ? find_weights(ref, wish, found.path, err) : find_ref(ref, wish, found.path, err)))
        return rc;
    if (wish && wish->owner) {
        if (atomic_load(wish->stop)) /* too late for the fetch, but nobody waits any more */
            return err_set(err, ERR_CANCELLED, "model %.200s is not served: given up meanwhile", ref->path);
        rc = detector_check(found.path, err);
        return rc ? rc : model_file_link(ref->places.results_dir, wish->owner, found.path, ret, err);
    }
    *ret = found;
    return 0;
}
