#include "data/recording.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/fsio.h"
#include "base/json.h"
#include "base/str.h"

enum { MAGIC_SIZE = 16, HEAD_SIZE = 64, TRAILER_SIZE = 32, INDEX_MAX_BYTES = 256 << 20 };
static const char MAGIC[MAGIC_SIZE + 1] = "brr recording 1\n";

struct spans {
    struct window_span *items;
    int count, capacity;
};

struct recording_writer {
    struct fsio_writer file;
    bool open;
    int channels;
    struct spans segments, held;
};

static int spans_add(struct spans *s, struct window_span span, struct err *err) {
    if (s->count == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 64;
        if (capacity > RECORDING_MAX_SPANS)
            return err_set(err, ERR_EXHAUSTED, "the recording has more than %d segments or held gaps", RECORDING_MAX_SPANS);
        struct window_span *items = realloc(s->items, sizeof *items * (size_t)capacity);
        if (!items)
            return err_set(err, ERR_EXHAUSTED, "out of memory for %d spans of a recording", capacity);
        s->items = items;
        s->capacity = capacity;
    }
    s->items[s->count++] = span;
    return 0;
}

int recording_writer_open(const char *path, int channels, struct recording_writer **ret, struct err *err) {
    struct recording_writer *w = calloc(1, sizeof *w);
    char head[HEAD_SIZE] = {0};
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the writer of %s", path);
    memcpy(head, MAGIC, MAGIC_SIZE);
    w->channels = channels;
    int rc = fsio_writer_open(&w->file, path, err);
    w->open = rc == 0;
    if (!rc)
        rc = fsio_writer_write(&w->file, head, sizeof head, err);
    if (rc)
        recording_writer_abort(w);
    else
        *ret = w;
    return rc;
}

static void writer_free(struct recording_writer *w) {
    free(w->segments.items);
    free(w->held.items);
    free(w);
}

void recording_writer_abort(struct recording_writer *w) {
    if (!w)
        return;
    if (w->open)
        fsio_writer_abort(&w->file);
    writer_free(w);
}

/* Extend the newest span or begin one. */
static int extend(struct spans *s, int64_t first, int64_t n, bool fresh, struct err *err) {
    if (!fresh && s->count && s->items[s->count - 1].end == first) {
        s->items[s->count - 1].end += n;
        return 0;
    }
    return spans_add(s, (struct window_span){first, first + n}, err);
}

int recording_writer_rows(struct recording_writer *w, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start,
                          bool held, struct err *err) {
    int64_t end = w->segments.count ? w->segments.items[w->segments.count - 1].end : 0;
    if (n <= 0)
        return 0;
    if (first < end || (!segment_start && (!w->segments.count || first != end)))
        return err_set(err, ERR_INVALID, "rows from sample %lld on do not follow sample %lld", (long long)first, (long long)end);
    int rc = extend(&w->segments, first, n, segment_start, err);
    if (!rc && held)
        rc = extend(&w->held, first, n, false, err);
    return rc ? rc : fsio_writer_write(&w->file, rows_f16, sizeof *rows_f16 * (size_t)(n * w->channels), err);
}

static void put_spans(struct json_writer *json, const char *key, const struct window_span *spans, int n) {
    json_begin_array(json, key);
    for (int i = 0; i < n; i++) {
        json_put_i64(json, NULL, spans[i].first);
        json_put_i64(json, NULL, spans[i].end);
    }
    json_end(json, ']');
}

static void put_index(const struct recording_writer *w, const struct recording_facts *facts, struct str *out) {
    struct json_writer json;
    int64_t end = w->segments.count ? w->segments.items[w->segments.count - 1].end : 0;
    json_writer_init(&json, out);
    json_begin_object(&json, NULL);
    json_put_i64(&json, "version", RECORDING_VERSION);
    json_put_str(&json, "key", facts->key);
    json_put_str(&json, "source", facts->source);
    json_put_str(&json, "montage", facts->montage);
    json_put_i64(&json, "channels", w->channels);
    json_put_i64(&json, "samples", facts->samples > end ? facts->samples : end);
    json_put_f64(&json, "duration_s", facts->duration_s);
    json_put_bool(&json, "labelled", facts->labelled);
    json_put_str(&json, "label_source", facts->label_source);
    json_put_str(&json, "note", facts->note);
    put_spans(&json, "segments", w->segments.items, w->segments.count);
    put_spans(&json, "held", w->held.items, w->held.count);
    put_spans(&json, "seizures", facts->seizures, facts->n_seizures);
    json_end(&json, '}');
}

static void put_u64(uint8_t *to, uint64_t value) {
    for (int i = 0; i < 8; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t get_u64(const uint8_t *from) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value |= (uint64_t)from[i] << (8 * i);
    return value;
}

int recording_writer_commit(struct recording_writer *w, const struct recording_facts *facts, struct err *err) {
    struct str index;
    uint8_t trailer[TRAILER_SIZE] = {0};
    str_init(&index, INDEX_MAX_BYTES);
    put_index(w, facts, &index);
    int rc =
        str_ok(&index) ? 0 : err_set(err, ERR_EXHAUSTED, "the index of %s is larger than %d bytes", w->file.path, INDEX_MAX_BYTES);
    size_t padding = (size_t)(-w->file.written_bytes & 7);
    if (!rc && padding)
        rc = fsio_writer_write(&w->file, trailer, padding, err);
    put_u64(trailer, (uint64_t)w->file.written_bytes);
    put_u64(trailer + 8, index.len);
    memcpy(trailer + 16, MAGIC, MAGIC_SIZE);
    if (!rc)
        rc = fsio_writer_write(&w->file, str_cstr(&index), index.len, err);
    if (!rc)
        rc = fsio_writer_write(&w->file, trailer, sizeof trailer, err);
    str_done(&index);
    if (rc) {
        recording_writer_abort(w);
        return rc;
    }
    rc = fsio_writer_commit(&w->file, err);
    writer_free(w);
    return rc;
}

struct recording {
    struct fsio_map map;
    struct arena arena;
    struct recording_info info;
    const char *key;
    int64_t *first_row; /* (n_segments) rows before each segment */
};

static int damaged(const char *path, const char *what, struct err *err) {
    return err_set(err, ERR_DATA_LOSS, "cached recording %s: %s; delete the file, it will be built again", path, what);
}

/* A flat list first,end,first,end…, ascending; inside_limit bounds the last end. */
static bool read_spans(struct recording *rec, const struct json *list, int64_t limit, const struct window_span **ret, int *ret_n) {
    size_t n = json_count(list) / 2;
    if (json_kind(list) != JSON_KIND_ARRAY || json_count(list) % 2 || n > RECORDING_MAX_SPANS)
        return false;
    struct window_span *spans = arena_alloc(&rec->arena, sizeof *spans * (n + 1));
    int64_t end = 0;
    for (size_t i = 0; spans && i < n; i++) {
        spans[i].first = json_i64(json_at(list, 2 * i), -1);
        spans[i].end = json_i64(json_at(list, 2 * i + 1), -1);
        if (spans[i].first < end || spans[i].end <= spans[i].first || spans[i].end > limit)
            return false;
        end = spans[i].end;
    }
    *ret = spans;
    *ret_n = (int)n;
    return spans != NULL;
}

static int read_index(struct recording *rec, const struct json *index, int64_t data_bytes, const char *path, struct err *err) {
    struct recording_info *info = &rec->info;
    int64_t channels = json_i64(json_get(index, "channels"), 0);
    info->samples = json_i64(json_get(index, "samples"), -1);
    info->labelled = json_bool(json_get(index, "labelled"), false);
    info->duration_s = json_f64(json_get(index, "duration_s"), 0);
    info->label_source = arena_strdup(&rec->arena, json_str(json_get(index, "label_source"), "none"));
    info->note = arena_strdup(&rec->arena, json_str(json_get(index, "note"), ""));
    rec->key = arena_strdup(&rec->arena, json_str(json_get(index, "key"), ""));
    if (json_i64(json_get(index, "version"), 0) != RECORDING_VERSION || channels < 1 || channels > FRONTEND_MAX_CHANNELS ||
        info->samples < 0)
        return damaged(path, "its version, channels or samples are out of range", err);
    info->channels = (int)channels;
    if (!read_spans(rec, json_get(index, "segments"), info->samples, &info->segments, &info->n_segments) ||
        !read_spans(rec, json_get(index, "held"), info->samples, &info->held, &info->n_held) ||
        !read_spans(rec, json_get(index, "seizures"), info->samples, &info->seizures, &info->n_seizures))
        return damaged(path, "its segments or label runs are not ascending", err);
    rec->first_row = arena_alloc(&rec->arena, sizeof *rec->first_row * ((size_t)info->n_segments + 1));
    if (!rec->first_row || !info->label_source || !info->note || !rec->key)
        return err_set(err, ERR_EXHAUSTED, "out of memory for cached recording %s", path);
    int64_t rows = 0;
    for (int s = 0; s < info->n_segments; s++) {
        rec->first_row[s] = rows;
        rows += info->segments[s].end - info->segments[s].first;
    }
    return rows * channels * 2 <= data_bytes ? 0 : damaged(path, "it holds fewer samples than its index says", err);
}

int recording_open(const char *cache_file, struct recording **ret, struct err *err) {
    struct recording *rec = calloc(1, sizeof *rec);
    struct json *index = NULL;
    if (!rec)
        return err_set(err, ERR_EXHAUSTED, "out of memory for cached recording %s", cache_file);
    arena_init(&rec->arena, INDEX_MAX_BYTES);
    int rc = fsio_map_open(&rec->map, cache_file, err);
    if (rc)
        goto fail;
    if (rec->map.len < HEAD_SIZE + TRAILER_SIZE || memcmp(rec->map.data, MAGIC, MAGIC_SIZE) ||
        memcmp(rec->map.data + rec->map.len - MAGIC_SIZE, MAGIC, MAGIC_SIZE)) {
        rc = damaged(cache_file, "it is not a whole cache file", err);
        goto fail;
    }
    const uint8_t *trailer = rec->map.data + rec->map.len - TRAILER_SIZE;
    uint64_t offset = get_u64(trailer), len = get_u64(trailer + 8), end = rec->map.len - TRAILER_SIZE;
    if (offset < HEAD_SIZE || offset > end || len != end - offset) {
        rc = damaged(cache_file, "its index lies outside the file", err);
        goto fail;
    }
    if (!(rc = json_parse((const char *)rec->map.data + offset, len, cache_file, &index, err)))
        rc = read_index(rec, index, (int64_t)offset - HEAD_SIZE, cache_file, err);
    json_free(index);
    if (rc)
        goto fail;
    *ret = rec;
    return 0;
fail:
    recording_close(rec);
    return rc;
}

void recording_close(struct recording *rec) {
    if (!rec)
        return;
    fsio_map_close(&rec->map);
    arena_done(&rec->arena);
    free(rec);
}

void recording_info(const struct recording *rec, struct recording_info *ret) { *ret = rec->info; }

const uint16_t *recording_rows(const struct recording *rec, int segment, int64_t at) {
    const uint16_t *rows = (const uint16_t *)(const void *)(rec->map.data + HEAD_SIZE);
    return rows + (rec->first_row[segment] + at - rec->info.segments[segment].first) * rec->info.channels;
}

const char *recording_key(const struct recording *rec) { return rec->key; }
