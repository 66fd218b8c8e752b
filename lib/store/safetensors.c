#include "store/safetensors.h"

#include "base/arena.h"
#include "base/json.h"
#include "base/map.h"
#include "base/order.h"
#include "base/pages.h"

enum { MOST_NODES_OF_A_TENSOR = 26 };

struct safetensors {
    uint8_t *bytes; /* of the file: all len of them, or its beginning alone when there are no data */
    size_t len;
    bool has_data;
    struct json *header;
    struct safetensors_entry *entries;
    size_t count;
    struct map *by_name;
    struct arena copies; /* of tensors that do not stand aligned in the file */
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

/* Bytes of a shape; false on overflow, a negative dimension, or a rank or dtype there is not. */
static bool shape_bytes(const struct safetensors_entry *e, size_t *ret) {
    if (e->rank < 0 || e->rank > SAFETENSORS_MAX_RANK || (size_t)e->dtype >= sizeof dtypes / sizeof *dtypes)
        return false;
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
    int64_t room = (int64_t)(st->len - data_start);
    if (!shape_bytes(e, &e->bytes) || first < 0 || end < first || (size_t)(end - first) != e->bytes)
        return err_set(err, ERR_INVALID, "%s: tensor '%s': data_offsets [%lld, %lld) do not fit its shape", path, name,
                       (long long)first, (long long)end);
    if (end > room)
        return err_set(err, ERR_DATA_LOSS, "%s: tensor '%s' ends at byte %lld of %lld: the file is truncated", path, name,
                       (long long)end, (long long)room);
    e->data = st->has_data ? st->bytes + data_start + first : NULL;
    if (e->data && e->bytes && (uintptr_t)e->data % dtypes[dtype].bytes) {
        void *copy = arena_alloc(&st->copies, e->bytes);
        if (!copy)
            return err_set(err, ERR_EXHAUSTED, "%s: out of memory for tensor '%s'", path, name);
        e->data = memcpy(copy, e->data, e->bytes);
    }
    if (map_put(st->by_name, name, e, NULL))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    st->count++;
    return 0;
}

/* Where a tensor stands in the data, while the layout is checked. */
struct extent {
    size_t first, end, index;
};

ORDER_BY(by_first, struct extent, order_then(order_u64(x->first, y->first), order_u64(x->end, y->end)))

/* The tensors must cover the data one after another: no overlap, no byte that belongs to none. */
static int check_layout(const struct safetensors *st, const char *path, struct extent *extents, size_t data_bytes,
                        struct err *err) {
    size_t at = 0;
    SORT(extents, st->count, by_first);
    for (size_t i = 0; i < st->count; i++) {
        const char *name = st->entries[extents[i].index].name;
        if (extents[i].first < at)
            return err_set(err, ERR_INVALID, "%s: tensors '%s' and '%s' overlap", path, st->entries[extents[i - 1].index].name,
                           name);
        if (extents[i].first > at)
            return err_set(err, ERR_INVALID, "%s: %zu bytes before tensor '%s' belong to no tensor", path, extents[i].first - at,
                           name);
        at = extents[i].end;
    }
    if (at != data_bytes)
        return err_set(err, ERR_INVALID, "%s: %zu bytes after the last tensor; expected the file to end there", path,
                       data_bytes - at);
    return 0;
}

static int check_metadata(const struct json *metadata, const char *path, struct err *err) {
    struct json_cursor cursor = {0};
    const struct json *value;
    const char *key;
    if (json_kind(metadata) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "%s: __metadata__ is not an object", path);
    while (json_next(metadata, &cursor, &key, &value))
        if (json_kind(value) != JSON_KIND_STRING)
            return err_set(err, ERR_INVALID, "%s: __metadata__ maps '%s' to something other than a string", path, key);
    return 0;
}

/* Every member of the header, then the layout as a whole. */
static int read_members(struct safetensors *st, const char *path, size_t data_start, struct extent *extents, struct err *err) {
    struct json_cursor cursor = {0};
    const struct json *value;
    const char *name;
    int rc = 0;
    while (!rc && json_next(st->header, &cursor, &name, &value)) {
        if (!strcmp(name, "__metadata__")) {
            rc = check_metadata(value, path, err);
            continue;
        }
        size_t index = st->count;
        if (!(rc = read_entry(st, path, name, value, data_start, err))) {
            size_t first = (size_t)json_i64(json_at(json_get(value, "data_offsets"), 0), 0);
            extents[index] = (struct extent){first, first + st->entries[index].bytes, index};
        }
    }
    return rc ? rc : check_layout(st, path, extents, st->len - data_start, err);
}

static int read_range(int fd, const char *path, uint8_t *to, size_t from, size_t n, struct err *err) {
    for (size_t done = 0; done < n;) {
        ssize_t got = pread(fd, to + done, n - done, (off_t)(from + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return err_errno(err, errno, "cannot read %s", path);
        if (got == 0)
            return err_set(err, ERR_DATA_LOSS, "%s was cut to %zu bytes while it was read", path, from + done);
        done += (size_t)got;
    }
    return 0;
}

/* The bytes of the file, or of its header; *ret_len is the header's length. Not mapped: a file that is cut while it is
 * in use must be an error, and a mapped one would be the end of the process. */
static int read_bytes(struct safetensors *st, int fd, const char *path, size_t *ret_len, struct err *err) {
    uint8_t first[8];
    uint64_t len = 0;
    if (st->len < sizeof first)
        return err_set(err, ERR_DATA_LOSS, "%s: %zu bytes are too few for a safetensors file", path, st->len);
    int rc = read_range(fd, path, first, 0, sizeof first, err);
    if (rc)
        return rc;
    for (int i = 7; i >= 0; i--)
        len = len << 8 | first[i];
    if (len > SAFETENSORS_MAX_HEADER && len > st->len - sizeof first)
        return err_set(err, ERR_INVALID, "%s: not a safetensors file", path);
    if (len > st->len - sizeof first)
        return err_set(err, ERR_INVALID, "%s: not a safetensors file (header of %llu bytes in a file of %zu)", path,
                       (unsigned long long)len, st->len);
    if (len > SAFETENSORS_MAX_HEADER)
        return err_set(err, ERR_INVALID, "%s: a header of %llu bytes; at most %d are read", path, (unsigned long long)len,
                       SAFETENSORS_MAX_HEADER);
    size_t wanted = st->has_data ? st->len : sizeof first + (size_t)len;
    if (!(st->bytes = pages_alloc(wanted)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory for %zu bytes", path, wanted);
    *ret_len = (size_t)len;
    return read_range(fd, path, st->bytes, 0, wanted, err);
}

static int read_header(struct safetensors *st, const char *path, size_t len, struct err *err) {
    int rc = json_parse_at_most((const char *)st->bytes + 8, len, SAFETENSORS_MAX_NODES, path, &st->header, err);
    if (rc)
        return rc;
    if (json_kind(st->header) != JSON_KIND_OBJECT)
        return err_set(err, ERR_INVALID, "%s: not a safetensors file (the header is no JSON object)", path);
    size_t members = json_count(st->header);
    struct extent *extents = calloc(members + 1, sizeof *extents);
    st->entries = calloc(members + 1, sizeof *st->entries);
    st->by_name = map_new(members + 1);
    arena_init(&st->copies, st->has_data ? st->len + 16 * members : 16);
    rc = extents && st->entries && st->by_name ? read_members(st, path, 8 + len, extents, err)
                                               : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    free(extents);
    return rc;
}

static int open_file(const char *path, bool has_data, struct safetensors **ret, struct err *err) {
    struct safetensors *st = calloc(1, sizeof *st);
    size_t len = 0;
    OWNED_FD int fd = -1;
    if (!st)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    st->has_data = has_data;
    int rc;
    if ((rc = fsio_open_file(path, &fd, &st->len, err)) || (rc = read_bytes(st, fd, path, &len, err)) ||
        (rc = read_header(st, path, len, err)))
        safetensors_close(st);
    else
        *ret = st;
    return rc;
}

int safetensors_open(const char *path, struct safetensors **ret, struct err *err) { return open_file(path, true, ret, err); }
int safetensors_open_header(const char *path, struct safetensors **ret, struct err *err) {
    return open_file(path, false, ret, err);
}

void safetensors_close(struct safetensors *st) {
    if (!st)
        return;
    map_free(st->by_name, NULL);
    free(st->entries);
    arena_done(&st->copies);
    json_free(st->header);
    free(st->bytes);
    free(st);
}

bool safetensors_digest(const struct safetensors *st, char ret_hex[DIGEST_HEX_SIZE]) {
    return st->has_data && digest_bytes(st->bytes, st->len, ret_hex);
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

void safetensors_each_metadata(const struct safetensors *st, void (*visit)(void *ctx, const char *key, const char *value),
                               void *ctx) {
    struct json_cursor at = {0};
    const struct json *metadata = json_get(st->header, "__metadata__"), *value;
    const char *key;
    while (metadata && json_next(metadata, &at, &key, &value))
        visit(ctx, key, json_str(value, ""));
}

/* Names are unique and no reserved word, sizes fit their shapes. */
static int check_content(const char *path, const struct safetensors_content *content, struct err *err) {
    if (content->n_entries > (SAFETENSORS_MAX_NODES - 2 * content->n_metadata) / MOST_NODES_OF_A_TENSOR)
        return err_set(err, ERR_EXHAUSTED, "%s: %zu tensors are too many for a header", path, content->n_entries);
    struct map *names = map_new(content->n_entries + 1);
    int rc = names ? 0 : err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    for (size_t i = 0; !rc && i < content->n_entries; i++) {
        const struct safetensors_entry *e = &content->entries[i];
        size_t bytes;
        if (!shape_bytes(e, &bytes) || bytes != e->bytes)
            rc = err_set(err, ERR_INVALID, "%s: tensor '%s' has %zu bytes, which do not fit its shape", path, e->name, e->bytes);
        else if (!strcmp(e->name, "__metadata__"))
            rc = err_set(err, ERR_INVALID, "%s: a tensor cannot be called __metadata__", path);
        else if (map_get(names, e->name))
            rc = err_set(err, ERR_INVALID, "%s: tensor '%s' is given twice", path, e->name);
        else if (map_put(names, e->name, names, NULL))
            rc = err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    }
    map_free(names, NULL);
    for (size_t i = 0; !rc && i < content->n_metadata; i++)
        for (size_t k = 0; !rc && k < i; k++)
            if (!strcmp(content->metadata[i].key, content->metadata[k].key))
                rc = err_set(err, ERR_INVALID, "%s: metadata '%s' is given twice", path, content->metadata[i].key);
    return rc;
}

/* The k-th entry to write: wide elements first, so that each tensor stands aligned behind the one before. */
static size_t *write_order(const struct safetensors_content *content) {
    size_t *order = calloc(content->n_entries + 1, sizeof *order), n = 0;
    for (size_t width = 8; order && width; width /= 2)
        for (size_t i = 0; i < content->n_entries; i++)
            if (dtypes[content->entries[i].dtype].bytes == width)
                order[n++] = i;
    return order;
}

static void put_metadata(struct json_writer *w, const struct safetensors_content *content) {
    if (!content->n_metadata)
        return;
    json_begin_object(w, "__metadata__");
    for (size_t i = 0; i < content->n_metadata; i++)
        json_put_str(w, content->metadata[i].key, content->metadata[i].value);
    json_end(w, '}');
}

static int make_header(const char *path, const struct safetensors_content *content, const size_t *order, struct str *out,
                       struct err *err) {
    struct json_writer w = json_to(out);
    size_t offset = 0;
    json_begin_object(&w, NULL);
    put_metadata(&w, content);
    for (size_t i = 0; i < content->n_entries; i++) {
        const struct safetensors_entry *e = &content->entries[order[i]];
        json_begin_object(&w, e->name);
        json_put_str(&w, "dtype", dtypes[e->dtype].name);
        JSON_ARRAY(&w, "shape", e->shape, e->rank);
        json_begin_array(&w, "data_offsets");
        json_put_i64(&w, NULL, (int64_t)offset);
        json_put_i64(&w, NULL, (int64_t)(offset + e->bytes));
        json_end(&w, ']');
        json_end(&w, '}');
        offset += e->bytes;
    }
    json_end(&w, '}');
    while (str_ok(out) && out->len % 8)
        str_puts(out, " ");
    return str_ok(out) ? 0 : err_set(err, ERR_EXHAUSTED, "%s: the header exceeds %d bytes", path, SAFETENSORS_MAX_HEADER);
}

static int put(struct fsio_writer *w, struct digest *d, const void *data, size_t len, struct err *err) {
    digest_update(d, data, len);
    return fsio_writer_write(w, data, len, err);
}

static int write_file(const char *path, const struct safetensors_content *content, const size_t *order, const struct str *header,
                      char *ret_sha256, struct err *err) {
    struct fsio_writer w;
    unsigned char len[8];
    for (int i = 0; i < 8; i++)
        len[i] = (unsigned char)((uint64_t)header->len >> (8 * i));
    int rc = fsio_writer_open(&w, path, err);
    if (rc)
        return rc;
    struct digest *d = ret_sha256 ? digest_new() : NULL;
    if (!(rc = put(&w, d, len, sizeof len, err)))
        rc = put(&w, d, str_cstr(header), header->len, err);
    for (size_t i = 0; !rc && i < content->n_entries; i++)
        rc = put(&w, d, content->entries[order[i]].data, content->entries[order[i]].bytes, err);
    char hex[DIGEST_HEX_SIZE];
    if (!digest_finish(d, hex) && !rc && ret_sha256)
        rc = err_set(err, ERR_INTERNAL, "%s: OpenSSL could not compute its SHA-256", path);
    if (rc) {
        fsio_writer_abort(&w);
        return rc;
    }
    if ((rc = fsio_writer_commit(&w, err)))
        return rc;
    if (ret_sha256)
        memcpy(ret_sha256, hex, sizeof hex);
    return 0;
}

int safetensors_write(const char *path, const struct safetensors_content *content, char *ret_sha256, struct err *err) {
    int rc = check_content(path, content, err);
    if (rc)
        return rc;
    OWNED_MEMORY size_t *order = write_order(content);
    if (!order)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", path);
    OWNED(str_done) struct str header = str_of(SAFETENSORS_MAX_HEADER);
    rc = make_header(path, content, order, &header, err);
    return rc ? rc : write_file(path, content, order, &header, ret_sha256, err);
}

/* True if all bits of the exponent are set: NaN or an infinity. */
static bool is_finite(const struct safetensors_entry *e, size_t i) {
    switch (e->dtype) {
    case SAFETENSORS_F64:
        return isfinite(((const double *)e->data)[i]);
    case SAFETENSORS_F32:
        return isfinite(((const float *)e->data)[i]);
    case SAFETENSORS_F16:
        return (((const uint16_t *)e->data)[i] & 0x7C00) != 0x7C00;
    case SAFETENSORS_BF16:
        return (((const uint16_t *)e->data)[i] & 0x7F80) != 0x7F80;
    default:
        return true;
    }
}

int safetensors_check_finite(const struct safetensors_entry *e, const char *path, struct err *err) {
    size_t n = e->data ? e->bytes / safetensors_dtype_bytes(e->dtype) : 0;
    for (size_t i = 0; i < n; i++)
        if (!is_finite(e, i))
            return err_set(err, ERR_INVALID, "%s: element %zu of the tensor '%s' is NaN or infinite; the file is no usable model",
                           path, i, e->name);
    return 0;
}
