#include "store/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/json.h"
#include "base/map.h"

struct safetensors {
    struct fsio_map file;
    struct json *header;
    struct safetensors_entry *entries;
    size_t count;
    struct map *by_name;
};

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
#define SAFETENSORS_ROW(name, bytes) {#name, bytes},
    SAFETENSORS_DTYPES(SAFETENSORS_ROW)
#undef SAFETENSORS_ROW
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype) { return dtypes[dtype].name; }
size_t safetensors_dtype_bytes(enum safetensors_dtype dtype) { return dtypes[dtype].bytes; }

static int dtype_of(const char *name) {
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, name))
            return (int)i;
    return -1;
}

/* Bytes of a shape; false on overflow or a negative dimension. */
static bool shape_bytes(const struct safetensors_entry *e, size_t *ret) {
    size_t bytes = dtypes[e->dtype].bytes;
    for (int i = 0; i < e->rank; i++)
        if (e->shape[i] < 0 || __builtin_mul_overflow(bytes, (size_t)e->shape[i], &bytes))
            return false;
    *ret = bytes;
    return true;
}

static int read_entry(struct safetensors *st, const char *path, const char *name, const struct json *j, size_t data_start,
                      struct err *err) {
    struct safetensors_entry *e = &st->entries[st->count];
    const struct json *shape = json_get(j, "shape"), *offsets = json_get(j, "data_offsets");
    int dtype = dtype_of(json_str(json_get(j, "dtype"), ""));
    if (dtype < 0)
        return err_set(err, ERR_INVALID, "%s: tensor '%s' has dtype '%s', which is unknown", path, name,
                       json_str(json_get(j, "dtype"), "(none)"));
    if (json_kind(shape) != JSON_KIND_ARRAY || json_count(shape) > SAFETENSORS_MAX_RANK || json_count(offsets) != 2)
        return err_set(err, ERR_INVALID, "%s: tensor '%s' lacks a shape of rank ≤ %d or two data_offsets", path, name,
                       SAFETENSORS_MAX_RANK);
    *e = (struct safetensors_entry){.name = name, .dtype = (enum safetensors_dtype)dtype, .rank = (int)json_count(shape)};
    for (int i = 0; i < e->rank; i++)
        e->shape[i] = json_i64(json_at(shape, (size_t)i), -1);
    int64_t first = json_i64(json_at(offsets, 0), -1), end = json_i64(json_at(offsets, 1), -1);
    int64_t room = (int64_t)(st->file.len - data_start);
    if (!shape_bytes(e, &e->bytes) || first < 0 || end < first || (size_t)(end - first) != e->bytes)
        return err_set(err, ERR_INVALID, "%s: tensor '%s': data_offsets [%lld, %lld) do not fit its shape", path, name,
                       (long long)first, (long long)end);
    if (end > room)
        return err_set(err, ERR_DATA_LOSS, "%s: tensor '%s' ends at byte %lld of %lld: the file is truncated", path, name,
                       (long long)end, (long long)room);
    e->data = st->file.data + data_start + first;
    if (map_put(st->by_name, name, e, NULL))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    st->count++;
    return 0;
}

static int by_data(const void *a, const void *b) {
    const struct safetensors_entry *x = a, *y = b;
    return x->data < y->data ? -1 : x->data > y->data;
}

static int read_header(struct safetensors *st, const char *path, struct err *err) {
    uint64_t len = 0;
    if (st->file.len < 8)
        return err_set(err, ERR_DATA_LOSS, "%s: %zu bytes are too few for a safetensors file", path, st->file.len);
    for (int i = 7; i >= 0; i--)
        len = len << 8 | st->file.data[i];
    if (len > SAFETENSORS_MAX_HEADER || len > st->file.len - 8)
        return err_set(err, ERR_INVALID, "%s: not a safetensors file (header of %llu bytes in a file of %zu)", path,
                       (unsigned long long)len, st->file.len);
    int rc = json_parse((const char *)st->file.data + 8, len, path, &st->header, err);
    if (rc)
        return rc;
    size_t members = json_count(st->header);
    st->entries = calloc(members + 1, sizeof *st->entries);
    st->by_name = map_new(members + 1);
    if (!st->entries || !st->by_name)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    for (size_t i = 0; i < members; i++) {
        const char *name = NULL;
        const struct json *value = json_member(st->header, i, &name);
        if (strcmp(name, "__metadata__") && (rc = read_entry(st, path, name, value, 8 + len, err)))
            return rc;
    }
    qsort(st->entries, st->count, sizeof *st->entries, by_data);
    for (size_t i = 0; i < st->count; i++) {
        if (i && (const char *)st->entries[i].data < (const char *)st->entries[i - 1].data + st->entries[i - 1].bytes)
            return err_set(err, ERR_INVALID, "%s: tensors '%s' and '%s' overlap", path, st->entries[i - 1].name,
                           st->entries[i].name);
        map_put(st->by_name, st->entries[i].name, &st->entries[i], NULL);
    }
    return 0;
}

int safetensors_open(const char *path, struct safetensors **ret, struct err *err) {
    struct safetensors *st = calloc(1, sizeof *st);
    if (!st)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    int rc = fsio_map_open(&st->file, path, err);
    if (!rc)
        rc = read_header(st, path, err);
    if (rc) {
        safetensors_close(st);
        return rc;
    }
    *ret = st;
    return 0;
}

void safetensors_close(struct safetensors *st) {
    if (!st)
        return;
    map_free(st->by_name, NULL);
    free(st->entries);
    json_free(st->header);
    fsio_map_close(&st->file);
    free(st);
}

size_t safetensors_count(const struct safetensors *st) { return st->count; }

const struct safetensors_entry *safetensors_at(const struct safetensors *st, size_t index) {
    return index < st->count ? &st->entries[index] : NULL;
}

const struct safetensors_entry *safetensors_find(const struct safetensors *st, const char *name) {
    return map_get(st->by_name, name);
}

const char *safetensors_metadata(const struct safetensors *st, const char *key) {
    return json_str(json_get(json_get(st->header, "__metadata__"), key), NULL);
}

static int make_header(const char *path, const struct safetensors_content *content, struct str *out, struct err *err) {
    struct json_writer w;
    struct map *names = map_new(content->n_entries + 1);
    size_t offset = 0;
    int rc = names ? 0 : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    json_writer_init(&w, out);
    json_begin_object(&w, NULL);
    if (content->n_metadata) {
        json_begin_object(&w, "__metadata__");
        for (size_t i = 0; i < content->n_metadata; i++)
            json_put_str(&w, content->metadata[i].key, content->metadata[i].value);
        json_end(&w, '}');
    }
    for (size_t i = 0; !rc && i < content->n_entries; i++) {
        const struct safetensors_entry *e = &content->entries[i];
        size_t bytes;
        if (!shape_bytes(e, &bytes) || bytes != e->bytes)
            rc = err_set(err, ERR_INVALID, "%s: tensor '%s' has %zu bytes, which do not fit its shape", path, e->name, e->bytes);
        else if (map_get(names, e->name) || map_put(names, e->name, names, NULL))
            rc = err_set(err, ERR_INVALID, "%s: tensor '%s' is given twice", path, e->name);
        json_begin_object(&w, e->name);
        json_put_str(&w, "dtype", dtypes[e->dtype].name);
        json_begin_array(&w, "shape");
        for (int k = 0; k < e->rank; k++)
            json_put_i64(&w, NULL, e->shape[k]);
        json_end(&w, ']');
        json_begin_array(&w, "data_offsets");
        json_put_i64(&w, NULL, (int64_t)offset);
        json_put_i64(&w, NULL, (int64_t)(offset + e->bytes));
        json_end(&w, ']');
        json_end(&w, '}');
        offset += e->bytes;
    }
    json_end(&w, '}');
    while (out->len % 8)
        str_puts(out, " ");
    map_free(names, NULL);
    if (!rc && !str_ok(out))
        rc = err_set(err, ERR_EXHAUSTED, "%s: the header exceeds %d bytes", path, SAFETENSORS_MAX_HEADER);
    return rc;
}

static int put(struct fsio_writer *w, struct digest *d, const void *data, size_t len, struct err *err) {
    digest_update(d, data, len);
    return fsio_writer_write(w, data, len, err);
}

int safetensors_write(const char *path, const struct safetensors_content *content, char ret_sha256[DIGEST_HEX_SIZE],
                      struct err *err) {
    struct str header;
    struct fsio_writer w;
    str_init(&header, SAFETENSORS_MAX_HEADER);
    int rc = make_header(path, content, &header, err);
    if (!rc)
        rc = fsio_writer_open(&w, path, err);
    if (rc) {
        str_done(&header);
        return rc;
    }
    unsigned char len[8];
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)((uint64_t)header.len >> (8 * i));
    struct digest *d = digest_new();
    rc = d ? put(&w, d, len, sizeof len, err) : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    if (!rc)
        rc = put(&w, d, header.data, header.len, err);
    for (size_t i = 0; !rc && i < content->n_entries; i++)
        rc = put(&w, d, content->entries[i].data, content->entries[i].bytes, err);
    str_done(&header);
    char hex[DIGEST_HEX_SIZE];
    digest_finish(d, hex);
    if (rc) {
        fsio_writer_abort(&w);
        return rc;
    }
    if ((rc = fsio_writer_commit(&w, err)))
        return rc;
    memcpy(ret_sha256, hex, sizeof hex);
    return 0;
}
