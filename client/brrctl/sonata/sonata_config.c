#include "client/brrctl/sonata/sonata_config.h"

#include "base/base.h"

enum { MOST_BYTES = 64 << 20, MOST_ROUNDS = 16 };

int sonata_json(const char *path, struct json **ret, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(path, MOST_BYTES, &text, &len, err);
    return rc ? rc : json_parse(text, len, path, ret, err);
}

static int document_load(const char *path, struct sonata_document *ret, struct err *err) {
    int rc = fsio_absolute(ret->path, sizeof ret->path, path, err);
    if (rc || (rc = sonata_json(ret->path, &ret->json, err)))
        return rc;
    str_copy(ret->folder, sizeof ret->folder, ret->path);
    char *slash = strrchr(ret->folder, '/');
    slash[slash == ret->folder] = '\0';
    return 0;
}

/* ---- paths ------------------------------------------------------------------------------------------------------ */

/* The value of the longest variable of the manifest that the text begins with, "$NAME" or "${NAME}"; its length there. */
static const char *find_variable(const struct json *manifest, const char *text, size_t *ret_len) {
    struct json_cursor at = {0};
    const char *key, *found = NULL;
    const struct json *value;
    bool braces = text[1] == '{';
    *ret_len = 0;
    while (json_next(manifest, &at, &key, &value)) {
        key += *key == '$';
        size_t n = strlen(key);
        const char *begin = text + 1 + braces;
        bool same = !strncmp(begin, key, n) && (braces ? begin[n] == '}' : !isalnum((unsigned char)begin[n]) && begin[n] != '_');
        if (same && n > *ret_len && json_str(value, NULL)) {
            *ret_len = n;
            found = json_str(value, NULL);
        }
    }
    *ret_len += 1 + 2 * (size_t)braces;
    return found;
}

/* Variables may lead to variables. */
static int fill_in(const struct sonata_document *d, char text[4096], struct err *err) {
    const struct json *manifest = json_get(d->json, "manifest");
    for (int round = 0; round < MOST_ROUNDS; round++) {
        char whole[8192];
        size_t len;
        char *dollar = strchr(text, '$');
        if (!dollar)
            return 0;
        const char *value = find_variable(manifest, dollar, &len);
        if (!value)
            return err_set(err, ERR_INVALID, "%s: the manifest has no variable for %s", d->path, dollar);
        str_format(whole, sizeof whole, "%.*s%s%s", (int)(dollar - text), text, value, dollar + len);
        if (!str_copy(text, 4096, whole))
            break;
    }
    return err_set(err, ERR_INVALID, "%s: the manifest's variables lead to each other, or to a path that is too long", d->path);
}

int sonata_config_path(const struct sonata_document *d, const char *text, const char *what, char ret[4096], struct err *err) {
    char filled[4096], joined[4096];
    if (!text)
        return err_set(err, ERR_INVALID, "%s has no path as %s", d->path, what);
    if (!str_copy(filled, sizeof filled, text))
        return err_set(err, ERR_INVALID, "%s: the path of %s is too long", d->path, what);
    int rc = fill_in(d, filled, err);
    if (rc || (filled[0] != '/' && (rc = fsio_join(joined, sizeof joined, d->folder, filled, err))))
        return rc;
    return fsio_absolute(ret, 4096, filled[0] == '/' ? filled : joined, err);
}

int sonata_config_component(const struct sonata_config *c, const char *key, const char *name, char ret[4096], struct err *err) {
    char folder[4096];
    const struct json *components = json_get(c->circuit.json, "components");
    int rc = sonata_config_path(&c->circuit, json_str(json_get(components, key), NULL), key, folder, err);
    return rc ? rc : fsio_join(ret, 4096, folder, name, err);
}

/* ---- documents -------------------------------------------------------------------------------------------------- */

static void document_done(struct sonata_document *d) {
    json_free(d->json);
    d->json = NULL;
}

/* The document that another one names, or that one itself if it has `part`. */
static int load_named(const struct sonata_document *from, const char *key, const char *part, struct sonata_document *ret,
                      struct err *err) {
    char path[4096];
    const char *text = json_str(json_get(from->json, key), NULL);
    if (!text)
        return part && json_get(from->json, part) ? document_load(from->path, ret, err) : 0;
    int rc = sonata_config_path(from, text, key, path, err);
    return rc ? rc : document_load(path, ret, err);
}

static int load_documents(const char *path, struct sonata_config *c, struct err *err) {
    OWNED(document_done) struct sonata_document root = {0};
    int rc;
    if ((rc = document_load(path, &root, err)) || (rc = load_named(&root, "network", "networks", &c->circuit, err)) ||
        (rc = load_named(&root, "simulation", "run", &c->simulation, err)) ||
        (rc = load_named(&c->simulation, "node_sets_file", NULL, &c->node_sets, err)))
        return rc;
    return json_get(c->circuit.json, "networks")
               ? 0
               : err_set(err, ERR_INVALID,
                         "%s names no SONATA circuit: expected \"networks\", or \"network\" with the path of a file", path);
}

int sonata_config_load(const char *path, struct sonata_config *ret, struct err *err) {
    int rc = load_documents(path, ret, err);
    if (rc)
        sonata_config_done(ret);
    return rc;
}

void sonata_config_done(struct sonata_config *c) {
    document_done(&c->circuit);
    document_done(&c->simulation);
    document_done(&c->node_sets);
}
