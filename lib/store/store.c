#include "store/store.h"

#include "store/local.h"
#include "store/s3.h"

int store_open(const struct store_config *config, struct store **ret, struct err *err) {
    if (str_starts(config->url, "file:///"))
        return local_open(config->url + strlen("file://"), ret, err);
    if (str_starts(config->url, "s3://"))
        return s3_open(config, ret, err);
    return err_set(err, ERR_INVALID,
                   "'%.200s' is no store; expected file:///DIRECTORY with an absolute path, or s3://BUCKET/PREFIX", config->url);
}

const char *store_identity(const struct store *store) { return store->identity; }

void store_close(struct store *store) {
    if (store)
        store->ops->close(store);
}

/* A key, or with `partial` the start of one: its last part may be cut anywhere, it may be empty. */
static int check_key(const char *key, bool partial, struct err *err) {
    if (strlen(key) >= STORE_KEY_SIZE || (!*key && !partial))
        return err_set(err, ERR_INVALID, "'%.100s…' is no key: expected 1 to %d bytes", key, STORE_KEY_SIZE - 1);
    for (const char *p = key; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return err_set(err, ERR_INVALID, "'%.*s' is followed by a control character, which no key may hold", (int)(p - key),
                           key);
    for (const char *part = key; *key;) {
        size_t len = strcspn(part, "/");
        bool last = !part[len];
        bool dots = (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.');
        if ((len == 0 || dots) && !(last && partial))
            return err_set(err, ERR_INVALID, "'%.200s' is no key: it is a relative path without empty parts, '.' or '..'", key);
        if (last)
            return 0;
        part += len + 1;
    }
    return 0;
}

int store_list(struct store *store, const char *prefix, const char *after, struct store_page *ret, struct err *err) {
    enum { PAGE_BYTES = 4 << 20 };
    int rc;
    if ((rc = check_key(prefix, true, err)) || (rc = check_key(after, true, err)))
        return rc;
    struct store_page page = {0};
    arena_init(&page.memory, PAGE_BYTES);
    page.items = arena_alloc(&page.memory, STORE_PAGE_MAX * sizeof *page.items);
    rc =
        page.items ? store->ops->list(store, prefix, after, &page, err) : err_set(err, ERR_EXHAUSTED, "out of memory listing keys");
    if (rc)
        store_page_done(&page);
    else
        *ret = page;
    return rc;
}

void store_page_done(struct store_page *page) {
    arena_done(&page->memory);
    *page = (struct store_page){0};
}

int store_stat(struct store *store, const char *key, struct store_item *ret, const struct store_watch *watch, struct err *err) {
    static const struct store_watch nobody;
    int rc = check_key(key, false, err);
    return rc ? rc : store->ops->stat(store, key, ret, watch ? watch : &nobody, err);
}

int store_read(struct store *store, const char *key, struct store_piece *piece, const struct store_watch *watch, struct err *err) {
    static const struct store_watch nobody;
    int rc = check_key(key, false, err);
    if (rc)
        return rc;
    if (piece->offset < 0)
        return err_set(err, ERR_INVALID, "%s: cannot read from byte %lld", key, (long long)piece->offset);
    return store->ops->read(store, key, piece, watch ? watch : &nobody, err);
}

int store_get(struct store *store, const char *key, const char *path, const struct store_watch *watch, struct err *err) {
    static const struct store_watch nobody;
    int rc = check_key(key, false, err);
    return rc ? rc : store->ops->get(store, key, path, watch ? watch : &nobody, err);
}

int store_put(struct store *store, const char *path, const char *key, const struct store_watch *watch, struct err *err) {
    static const struct store_watch nobody;
    int rc = check_key(key, false, err);
    return rc ? rc : store->ops->put(store, path, key, watch ? watch : &nobody, err);
}
