#include "daemon/models/places.h"

#include "base/principal.h"

/* True if path is the directory or lies in it; both absolute. */
static bool within(const char *path, const char *dir) {
    size_t len = strlen(dir);
    return !strncmp(path, dir, len) && (len == 1 || path[len] == '/' || !path[len]);
}

/* PREFIX below DIR as an absolute path; DENIED when it leads out of it. */
static int below(const char *dir, const char *key, const char *prefix, char path[4096], struct err *err) {
    char root[4096], joined[4096];
    int rc;
    if ((rc = fsio_absolute(root, sizeof root, dir, err)) || (rc = fsio_join(joined, sizeof joined, root, prefix, err)) ||
        (rc = fsio_absolute(path, 4096, joined, err)))
        return rc;
    if (!within(path, root))
        return err_set(err, ERR_DENIED, "%s: %s is outside %s", key, prefix, root);
    return 0;
}

static int store_source(const struct places *p, const char *name, bool or_file, char path[4096], struct err *err) {
    const struct source_store *store;
    const char *prefix;
    int rc = source_find(p->stores, p->n_stores, name, &store, &prefix, err);
    if (rc)
        return rc;
    if (store->dir && ((rc = below(store->dir, "data.source", *prefix ? prefix : ".", path, err)) || !or_file ||
                       fsio_is_dir(path) || !fsio_exists(path)))
        return rc;
    return str_format(path, 4096, "store://%s", name) ? 0 : err_set(err, ERR_RANGE, "data.source is too long");
}

static int local(const struct places *p, const char *key, const char *source, char path[4096], struct err *err) {
    char data[4096];
    int rc;
    if ((rc = fsio_absolute(path, 4096, source, err)) || (rc = fsio_absolute(data, sizeof data, p->data_dir, err)))
        return rc;
    if (!p->local_paths && !within(path, data))
        return err_set(err, ERR_DENIED,
                       "%s: file://%s lies outside paths.data (%s); put the data there, or name it as the daemon's user with "
                       "local_paths: true",
                       key, source, data);
    return 0;
}

static int source_path(const struct places *p, const struct jobfile *job, const char *source, char path[4096], struct err *err) {
    if (str_starts(source, "store://"))
        return store_source(p, source + 8, job->kind->recordings == KIND_RECORDINGS_OR_ONE, path, err);
    if (str_starts(source, "file://"))
        return local(p, "data.source", source + 7, path, err);
    if (strstr(source, "://"))
        return err_set(err, ERR_INVALID,
                       "data.source: '%.200s' has an unknown scheme; expected store://NAME/prefix of the daemon's stores, "
                       "file:///folder, or a folder below paths.data",
                       source);
    return below(p->data_dir, "data.source", source, path, err);
}

/* The directory of one source, or its URL. */
static int find_source(const struct places *p, const struct jobfile *job, const char *source, char path[4096], struct err *err) {
    int rc = source_path(p, job, source, path, err);
    if (rc)
        return rc;
    if (!str_starts(path, "store://") && !fsio_is_dir(path))
        return err_set(err, ERR_NOT_FOUND, "data.source: %s is not a directory that the daemon can read%s%s", path,
                       *source == '/' ? "; a folder outside paths.data is named file://" : "", *source == '/' ? source : "");
    return strchr(path, '\n') ? err_set(err, ERR_INVALID, "data.source: the path %s has a line end", path) : 0;
}

int places_source(const struct places *p, const struct jobfile *job, char *buf, size_t size, struct err *err) {
    const struct job_data *data = job->data;
    size_t used = 0;
    char path[4096];
    if (!data->n_sources) {
        int rc = find_source(p, job, data->source, path, err);
        return rc ? rc : str_copy(buf, size, path) ? 0 : err_set(err, ERR_RANGE, "data.source is too long");
    }
    for (int i = 0; i < data->n_sources; i++) {
        if (find_source(p, job, data->sources[i].root, path, err))
            return err_wrap(err, "source %s", data->sources[i].name);
        if (!str_format(buf + used, size - used, "%s%s", i ? "\n" : "", path))
            return err_set(err, ERR_RANGE, "data.source has too many or too long paths");
        used += strlen(buf + used);
    }
    return 0;
}

int places_file(const struct places *p, const char *key, const char *ref, char path[4096], struct err *err) {
    bool url = str_starts(ref, "file://");
    int rc;
    if ((rc = url || *ref == '/' ? local(p, key, url ? ref + 7 : ref, path, err) : below(p->data_dir, key, ref, path, err)))
        return rc;
    if (fsio_is_dir(path) || !fsio_exists(path))
        return err_set(err, ERR_NOT_FOUND, "%s: %s is not a file that the daemon can read", key, path);
    return 0;
}

static bool lies_in(const char *path, const char *dir) {
    char absolute[4096];
    return !fsio_absolute(absolute, sizeof absolute, dir, NULL) && within(path, absolute);
}

bool places_show(const struct places *p, const char *owner) {
    return !p->limited || !*owner || principal_is_same(owner, p->viewer);
}

int places_model_file(const struct places *p, const char *ref, char path[4096], struct err *err) {
    char real[4096], *resolved;
    int rc = fsio_absolute(path, 4096, str_starts(ref, "file://") ? ref + 7 : ref, err);
    if (rc)
        return rc;
    if ((resolved = realpath(path, NULL))) {
        bool fits = str_copy(real, sizeof real, resolved);
        free(resolved);
        if (!fits)
            return err_set(err, ERR_RANGE, "the path of model %s is too long", ref);
    } else {
        str_copy(real, sizeof real, path);
    }
    if (!p->local_paths && !lies_in(real, p->results_dir) && !lies_in(real, p->data_dir))
        return err_set(err, ERR_DENIED,
                       "model %s lies outside paths.results and paths.data; put it there, upload it, or name it "
                       "as the daemon's user with local_paths: true",
                       path);
    if (p->limited && lies_in(real, p->results_dir))
        return err_set(err, ERR_DENIED, "model %s lies in paths.results; name it as job:ID or upload:NAME", path);
    if (!resolved)
        return err_set(err, ERR_NOT_FOUND, "there is no model file %s", path);
    str_copy(path, 4096, real);
    return 0;
}
