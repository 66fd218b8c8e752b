#include "windows/manifest_index.h"

#include "base/arena.h"
#include "base/grow.h"
#include "base/json.h"
#include "base/order.h"
#include "store/digest.h"

enum { INDEX_VERSION = 4, PATH_BYTES = 4096, INDEX_MAX_BYTES = 1 << 30, FLUSH_BYTES = 1 << 20 };

struct item {
    const char *relative_path;
    struct manifest_identity identity;
    bool skipped;
    struct recording_facts facts;
};

struct manifest_index {
    char path[PATH_BYTES];
    struct arena arena; /* items' texts and spans */
    struct item *items; /* in order of path */
    int64_t count, capacity;
};

/* Where the index of this source and these settings is. */
static int index_path(const struct manifest_config *c, char *ret, size_t size, struct err *err) {
    char digest[DIGEST_HEX_SIZE], *root = realpath(c->root, NULL);
    struct str text = str_of(1 << 20);
    struct json_writer json = json_to(&text);
    if (!root)
        return err_errno(err, errno, "cannot open %s", c->root);
    json_begin_object(&json, NULL);
    json_put_i64(&json, "index", INDEX_VERSION);
    json_put_i64(&json, "recording", RECORDING_VERSION);
    json_put_str(&json, "root", root);
    JSON_MEMBERS(&json, c->frontend, montage, notch_hz);
    json_put_f64(&json, "low_hz", c->frontend.bandpass_hz[0]);
    json_put_f64(&json, "high_hz", c->frontend.bandpass_hz[1]);
    json_put_f64(&json, "fill_gap_s", c->frontend.fill_gap_s);
    if (c->frontend.normalize != FRONTEND_WINDOW)
        json_put_str(&json, "normalize", frontend_normalize_name(c->frontend.normalize));
    if (c->frontend.reference != FRONTEND_REFERENCE_RECORDED)
        json_put_str(&json, "reference", frontend_reference_name(c->frontend.reference));
    if (c->frontend.learn_background)
        json_put_bool(&json, "learn_background", true);
    if (c->frontend.hold_background)
        json_put_bool(&json, "hold_background", true);
    if (c->frontend.rename)
        json_put_str(&json, "rename", c->frontend.rename);
    if (c->frontend.unit)
        json_put_str(&json, "unit", c->frontend.unit);
    if (getenv("BRR_TEXT_ENCODING"))
        json_put_str(&json, "encoding", getenv("BRR_TEXT_ENCODING"));
    JSON_MEMBERS(&json, *c, labels, unlabeled);
    if (c->hole_every_s > 0)
        json_put_f64(&json, "hole_every_s", c->hole_every_s);
    json_end(&json, '}');
    free(root);
    int rc = str_ok(&text) && digest_bytes(str_cstr(&text), text.len, digest)
                 ? 0
                 : err_set(err, ERR_EXHAUSTED, "out of memory for the index of %s", c->root);
    str_done(&text);
    if (rc)
        return rc;
    if (!str_format(ret, size, "%s/manifests/%s.jsonl", c->cache_dir, digest))
        return err_set(err, ERR_RANGE, "the cache folder's path is too long: %s", c->cache_dir);
    return 0;
}

ORDER_BY(by_path, struct item, strcmp(x->relative_path, y->relative_path))

static int add_item(struct manifest_index *index, const struct json *line, struct err *err) {
    struct item item = {
        .identity = {.size_bytes = json_i64(json_get(line, "size"), -1), .mtime_ns = json_i64(json_get(line, "mtime_ns"), -1)},
        .skipped = json_bool(json_get(line, "skipped"), false)};
    const char *stamp = json_str(json_get(line, "label_files"), NULL), *path = json_str(json_get(line, "path"), NULL);
    if (!stamp || !path || !str_copy(item.identity.labels, sizeof item.identity.labels, stamp))
        return err_set(err, ERR_DATA_LOSS, "%s: a line without path or label files", index->path);
    int rc = item.skipped ? 0 : recording_get_facts(line, index->path, &index->arena, &item.facts, err);
    if (rc)
        return rc;
    item.relative_path = arena_strdup(&index->arena, path);
    if (!GROW(index->items, index->count, index->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %lld recordings", (long long)index->capacity);
    if (!item.relative_path)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the index %s", index->path);
    index->items[index->count++] = item;
    return 0;
}

static int read_lines(struct manifest_index *index, const char *text, size_t len, struct err *err) {
    for (const char *line = text, *end; line < text + len; line = end + 1) {
        OWNED_POINTER(json_free) struct json *json = NULL;
        int rc;
        end = memchr(line, '\n', (size_t)(text + len - line));
        if (!end)
            return err_set(err, ERR_DATA_LOSS, "%s: the last line is cut", index->path);
        if ((rc = json_parse(line, (size_t)(end - line), index->path, &json, err)) || (rc = add_item(index, json, err)))
            return rc;
    }
    return 0;
}

int manifest_index_open(const struct manifest_config *config, struct manifest_index **ret, struct err *err) {
    struct manifest_index *index = calloc(1, sizeof *index);
    struct fsio_map map = {0};
    struct err own = {0};
    if (!index)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the index of %s", config->root);
    arena_init(&index->arena, INDEX_MAX_BYTES);
    int rc = index_path(config, index->path, sizeof index->path, err);
    if (rc) {
        manifest_index_close(index);
        return rc;
    }
    if (!config->rebuild && !fsio_map_open(&map, index->path, NULL)) {
        if (map.len > INDEX_MAX_BYTES || read_lines(index, (const char *)map.data, map.len, &own))
            index->count = 0; /* a damaged index is no index: everything is looked at anew */
        fsio_map_close(&map);
        SORT(index->items, index->count, by_path);
    }
    *ret = index;
    return 0;
}

void manifest_index_close(struct manifest_index *index) {
    if (!index)
        return;
    arena_done(&index->arena);
    free(index->items);
    free(index);
}

int64_t manifest_index_count(const struct manifest_index *index) { return index->count; }

const struct recording_facts *manifest_index_find(const struct manifest_index *index, const char *relative_path,
                                                  const struct manifest_identity *identity, bool *ret_skipped) {
    struct item key = {.relative_path = relative_path};
    const struct item *found = index->count ? bsearch(&key, index->items, (size_t)index->count, sizeof key, by_path) : NULL;
    if (!found || found->identity.size_bytes != identity->size_bytes || found->identity.mtime_ns != identity->mtime_ns ||
        strcmp(found->identity.labels, identity->labels) != 0)
        return NULL;
    *ret_skipped = found->skipped;
    return &found->facts;
}

static void put_line(const struct manifest_entry *e, const struct manifest_identity *identity, struct str *out) {
    struct json_writer json = json_to(out);
    json_begin_object(&json, NULL);
    json_put_str(&json, "path", e->relative_path);
    json_put_i64(&json, "size", identity->size_bytes);
    json_put_i64(&json, "mtime_ns", identity->mtime_ns);
    json_put_str(&json, "label_files", identity->labels);
    if (e->skipped)
        json_put_bool(&json, "skipped", true);
    if (e->recording) {
        struct recording_facts facts;
        recording_facts(e->recording, &facts);
        recording_put_facts(&json, &facts);
    }
    json_end(&json, '}');
    str_puts(out, "\n");
}

static int put_lines(struct fsio_writer *writer, const struct manifest_index_content *content, struct err *err) {
    OWNED(str_done) struct str text = str_of(INDEX_MAX_BYTES);
    for (int64_t i = 0; i < content->n; i++) {
        const struct manifest_entry *e = &content->entries[i];
        if (e->recording || e->skipped)
            put_line(e, &content->identities[i], &text);
        if (text.len < FLUSH_BYTES && i + 1 < content->n)
            continue;
        if (!str_ok(&text))
            return err_set(err, ERR_EXHAUSTED, "out of memory writing %s", writer->path);
        int rc = fsio_writer_write(writer, str_cstr(&text), text.len, err);
        if (rc)
            return rc;
        str_clear(&text);
    }
    return 0;
}

int manifest_index_write(const struct manifest_index *index, const struct manifest_index_content *content, struct err *err) {
    struct fsio_writer writer;
    int rc = fsio_mkdirs_above(index->path, err);
    if (rc || (rc = fsio_writer_open(&writer, index->path, err)))
        return rc;
    if ((rc = put_lines(&writer, content, err))) {
        fsio_writer_abort(&writer);
        return rc;
    }
    return fsio_writer_commit(&writer, err);
}
