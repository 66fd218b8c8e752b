#include "store/outputs.h"

#include <sys/file.h>

#include "base/json.h"
#include "store/digest.h"

enum { PATH_SIZE = 4096, LIST_BYTES = 256 << 20 };

static bool is_regular(const char *path) {
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode);
}

/* The folder of a path, "." without one, and the path of its list. */
static bool places(const char *path, char folder[PATH_SIZE], char list[PATH_SIZE]) {
    const char *name = fsio_basename(path);
    size_t len = (size_t)(name - path);
    return str_format(folder, PATH_SIZE, "%.*s", len ? (int)len : 1, len ? path : ".") &&
           str_format(list, PATH_SIZE, "%.*s" OUTPUTS_LIST, (int)len, path);
}

/* The list as JSON, NULL when there is none that can be read. */
static struct json *read_list(const char *list) {
    struct json *json = NULL;
    return fsio_exists(list) && !json_read(list, LIST_BYTES, &json, NULL) ? json : NULL;
}

static const char own_files[] = "files", copies[] = "copies"; /* the maps of a list */

/* The digests of a file in a map, separated by blanks: one, or two while a copy is replaced; "" = it is not listed. */
static const char *digests_of(const struct json *list, const char *map, const char *path) {
    return json_str(json_get(json_get(list, map), fsio_basename(path)), "");
}

/* True if the map has the file as it is now. */
static bool is_listed(const char *path, const char *map) {
    char folder[PATH_SIZE], list[PATH_SIZE], sha256[DIGEST_HEX_SIZE];
    if (!places(path, folder, list))
        return false;
    OWNED_POINTER(json_free) struct json *json = read_list(list);
    const char *listed = digests_of(json, map, path);
    return *listed && is_regular(path) && !digest_file(path, sha256, NULL) && strstr(listed, sha256);
}

bool outputs_own(const char *path) { return is_listed(path, own_files); }

int outputs_check(const char *path, bool force, struct err *err) {
    if (force || !is_regular(path) || outputs_own(path) || is_listed(path, copies))
        return 0;
    return err_set(
        err, ERR_EXISTS,
        "%.300s exists, and brrd did not write it or it was changed since; name another file, or replace it with --force", path);
}

/* A map without the file, and with it again if sha256 is not NULL. */
static void put_map(const struct json *json, const char *map, const char *name, const char *sha256, struct json_writer *w) {
    struct json_cursor at = {0};
    const struct json *value;
    const char *key;
    json_begin_object(w, map);
    while (json_next(json_get(json, map), &at, &key, &value))
        if (strcmp(key, name) != 0)
            json_put_str(w, key, json_str(value, ""));
    if (sha256)
        json_put_str(w, name, sha256);
    json_end(w, '}');
}

static void put_listed_model(const char *name, const char *sha256, int64_t seen, int64_t all, struct json_writer *w) {
    json_begin_object(w, "model");
    json_put_str(w, "name", name);
    json_put_str(w, "sha256", sha256);
    if (seen < 0)
        json_put_null(w, "patients_seen");
    else
        json_put_i64(w, "patients_seen", seen);
    json_put_i64(w, "patients", all);
    json_end(w, '}');
}

static void put_model(const struct json *json, struct json_writer *w) {
    const struct json *model = json_get(json, "model");
    const char *sha256 = json_str(json_get(model, "sha256"), "");
    if (model)
        put_listed_model(json_str(json_get(model, "name"), ""), sha256, json_i64(json_get(model, "patients_seen"), -1),
                         json_i64(json_get(model, "patients"), 0), w);
}

int outputs_set_model(const char *folder, const struct outputs_model *model, struct err *err) {
    char list[PATH_SIZE];
    OWNED(str_done) struct str text = str_of(LIST_BYTES);
    struct json_writer w = json_to(&text);
    int rc = fsio_join(list, sizeof list, folder, OUTPUTS_LIST, err);
    if (rc)
        return rc;
    OWNED_FD int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        flock(lock, LOCK_EX);
    OWNED_POINTER(json_free) struct json *json = read_list(list);
    json_begin_object(&w, NULL);
    put_map(json, own_files, "", NULL, &w);
    put_map(json, copies, "", NULL, &w);
    put_listed_model(model->name, model->sha256, model->seen, model->patients, &w);
    json_end(&w, '}');
    str_puts(&text, "\n");
    return fsio_write_text(list, &text, err);
}

bool outputs_get_model(const char *path, struct outputs_model *ret) {
    char list[PATH_SIZE];
    const bool folder = fsio_is_dir(path);
    const size_t len = folder ? strlen(path) : (size_t)(fsio_basename(path) - path);
    if (!str_format(list, sizeof list, "%.*s%s" OUTPUTS_LIST, (int)len, path, folder ? "/" : ""))
        return false;
    OWNED_POINTER(json_free) struct json *json = read_list(list);
    const struct json *model = json_get(json, "model");
    *ret = (struct outputs_model){.seen = (int)json_i64(json_get(model, "patients_seen"), -1),
                                  .patients = (int)json_i64(json_get(model, "patients"), 0)};
    JSON_TAKE(model, *ret, name, sha256);
    return model != NULL;
}

/* beside: a digest that is listed stays, in front of this one. */
static int enter(const char *path, const char *sha256, bool copy, bool beside, struct err *err) {
    char folder[PATH_SIZE], list[PATH_SIZE];
    OWNED(str_done) struct str text = str_of(LIST_BYTES);
    struct json_writer w = json_to(&text);
    if (!places(path, folder, list))
        return err_set(err, ERR_RANGE, "%.200s…: the path is too long", path);
    OWNED_FD int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock >= 0)
        flock(lock, LOCK_EX); /* without locks on this volume two writers may lose an entry */
    OWNED_POINTER(json_free) struct json *json = read_list(list);
    const char *name = fsio_basename(path);
    char now[DIGEST_HEX_SIZE], both[2 * DIGEST_HEX_SIZE];
    if (beside && is_regular(path) && !digest_file(path, now, NULL) && strstr(digests_of(json, copies, path), now) &&
        str_format(both, sizeof both, "%s %s", now, sha256))
        sha256 = both;
    json_begin_object(&w, NULL);
    put_map(json, own_files, name, copy ? NULL : sha256, &w);
    put_map(json, copies, name, copy ? sha256 : NULL, &w);
    put_model(json, &w);
    json_end(&w, '}');
    str_puts(&text, "\n");
    return fsio_write_text(list, &text, err);
}

int outputs_announce(const char *path, const char *sha256, struct err *err) { return enter(path, sha256, false, false, err); }
int outputs_announce_copy(const char *path, const char *sha256, struct err *err) { return enter(path, sha256, true, true, err); }

static int add(const char *path, bool copy, struct err *err) {
    char sha256[DIGEST_HEX_SIZE];
    if (!is_regular(path))
        return 0;
    int rc = digest_file(path, sha256, err);
    return rc ? rc : enter(path, sha256, copy, false, err);
}

int outputs_add(const char *path, struct err *err) { return add(path, false, err); }
int outputs_add_copy(const char *path, struct err *err) { return add(path, true, err); }
