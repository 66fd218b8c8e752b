#include "windows/recording.h"

#include "base/grow.h"
#include "eeg/feature.h"

static const int64_t MAX_SAMPLES = INT64_C(1) << 40; /* of file time: a century; keeps sizes in range */
enum { PIECE_BYTES = 1 << 20 };                      /* of rows that are written at once */
enum { MAGIC_SIZE = 16, HEAD_SIZE = 64, TRAILER_SIZE = 32, INDEX_MAX_BYTES = 256 << 20 };
static const char MAGIC[MAGIC_SIZE + 1] = "brr recording 1\n";

struct spans {
    struct window_span *items;
    int count, capacity;
};

struct recording_writer {
    struct fsio_writer file;
    bool open;
    uint8_t *piece; /* PIECE_BYTES: rows on their way into the file */
    size_t n_piece;
    int channels, columns;
    struct spans segments, held;
    const struct feature_blocks *measured; /* NULL: nothing */
};

static int spans_add(struct spans *s, struct window_span span, struct err *err) {
    if (s->count == RECORDING_MAX_SPANS)
        return err_set(err, ERR_EXHAUSTED, "the recording has more than %d segments or held gaps", RECORDING_MAX_SPANS);
    if (!GROW(s->items, s->count, s->capacity))
        return err_set(err, ERR_EXHAUSTED, "out of memory for %d spans of a recording", s->count);
    s->items[s->count++] = span;
    return 0;
}

int recording_writer_open(const char *path, int channels, int columns, struct recording_writer **ret, struct err *err) {
    struct recording_writer *w = calloc(1, sizeof *w);
    char head[HEAD_SIZE] = {0};
    if (!w)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the writer of %s", path);
    memcpy(head, MAGIC, MAGIC_SIZE);
    w->channels = channels;
    w->columns = columns;
    w->piece = malloc(PIECE_BYTES);
    int rc =
        w->piece ? fsio_writer_open(&w->file, path, err) : err_set(err, ERR_EXHAUSTED, "out of memory for the writer of %s", path);
    w->open = rc == 0;
    if (rc || (rc = fsio_writer_write(&w->file, head, sizeof head, err)))
        recording_writer_abort(w);
    else
        *ret = w;
    return rc;
}

static void writer_free(struct recording_writer *w) {
    free(w->segments.items);
    free(w->held.items);
    free(w->piece);
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

/* Rows to the file. The system begins to store them, so that the end need not wait for all. */
static int flush(struct recording_writer *w, struct err *err) {
    const int64_t at = w->file.written_bytes;
    int rc = w->n_piece ? fsio_writer_write(&w->file, w->piece, w->n_piece, err) : 0;
    sync_file_range(w->file.fd, at, (off_t)w->n_piece, SYNC_FILE_RANGE_WRITE);
    w->n_piece = 0;
    return rc;
}

static int write_rows(struct recording_writer *w, const void *rows, size_t bytes, struct err *err) {
    for (size_t n; bytes; bytes -= n, rows = (const uint8_t *)rows + n) {
        n = bytes < PIECE_BYTES - w->n_piece ? bytes : PIECE_BYTES - w->n_piece;
        memcpy(w->piece + w->n_piece, rows, n);
        w->n_piece += n;
        int rc = w->n_piece == PIECE_BYTES ? flush(w, err) : 0;
        if (rc)
            return rc;
    }
    return 0;
}

int recording_writer_rows(struct recording_writer *w, const uint16_t *rows_f16, int64_t n, int64_t first, bool segment_start,
                          bool held, struct err *err) {
    int64_t end = w->segments.count ? w->segments.items[w->segments.count - 1].end : 0;
    if (n <= 0)
        return 0;
    if (first < end || (!segment_start && (!w->segments.count || first != end)))
        return err_set(err, ERR_INVALID, "rows from sample %lld on do not follow sample %lld", (long long)first, (long long)end);
    int rc;
    if ((rc = extend(&w->segments, first, n, segment_start, err)) || (held && (rc = extend(&w->held, first, n, false, err))))
        return rc;
    return write_rows(w, rows_f16, sizeof *rows_f16 * (size_t)(n * w->columns), err);
}

void recording_writer_measures(struct recording_writer *w, const struct feature_blocks *blocks) { w->measured = blocks; }

static void put_spans(struct json_writer *json, const char *key, const struct window_span *spans, int n) {
    json_begin_array(json, key);
    for (int i = 0; i < n; i++) {
        json_put_i64(json, NULL, spans[i].first);
        json_put_i64(json, NULL, spans[i].end);
    }
    json_end(json, ']');
}

void recording_put_facts(struct json_writer *json, const struct recording_facts *facts) {
    int64_t end = facts->n_segments ? facts->segments[facts->n_segments - 1].end : 0;
    json_put_i64(json, "version", RECORDING_VERSION);
    JSON_MEMBERS(json, *facts, key, source, montage, channels);
    if (facts->columns != facts->channels)
        json_put_i64(json, "columns", facts->columns);
    json_put_i64(json, "samples", facts->samples > end ? facts->samples : end);
    JSON_MEMBERS(json, *facts, duration_s, labelled, label_source, note, faults, mislabelled);
    if (facts->missing && *facts->missing)
        json_put_str(json, "missing", facts->missing);
    put_spans(json, "segments", facts->segments, facts->n_segments);
    put_spans(json, "held", facts->held, facts->n_held);
    put_spans(json, "seizures", facts->seizures, facts->n_seizures);
    put_spans(json, "unknown", facts->unknown, facts->n_unknown);
}

static void put_index(const struct recording_writer *w, const struct recording_facts *facts, struct str *out) {
    struct json_writer json = json_to(out);
    struct recording_facts all = *facts;
    COPY_MEMBERS(all, *w, channels, columns);
    all.segments = w->segments.items;
    all.n_segments = w->segments.count;
    all.held = w->held.items;
    all.n_held = w->held.count;
    json_begin_object(&json, NULL);
    recording_put_facts(&json, &all);
    json_begin_array(&json, "measured");
    for (int k = 0; w->measured && k < FEATURE_MEASURES; k++)
        json_put_i64(&json, NULL, feature_is_measured(&w->measured[k]) ? w->measured[k].n : 0);
    json_end(&json, ']');
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

/* Index and trailer behind the samples. */
static int write_end(struct recording_writer *w, const struct recording_facts *facts, struct err *err) {
    OWNED(str_done) struct str index = str_of(INDEX_MAX_BYTES);
    uint8_t trailer[TRAILER_SIZE] = {0};
    int rc = flush(w, err);
    if (rc)
        return rc;
    put_index(w, facts, &index);
    if (!str_ok(&index))
        return err_set(err, ERR_EXHAUSTED, "the index of %s is larger than %d bytes", w->file.path, INDEX_MAX_BYTES);
    size_t padding = (size_t)(-w->file.written_bytes & 7);
    if (padding && (rc = fsio_writer_write(&w->file, trailer, padding, err)))
        return rc;
    for (int k = 0; w->measured && k < FEATURE_MEASURES; k++)
        if (feature_is_measured(&w->measured[k]) &&
            (rc = fsio_writer_write(&w->file, w->measured[k].m, sizeof *w->measured[k].m * (size_t)w->measured[k].n, err)))
            return rc;
    put_u64(trailer, (uint64_t)w->file.written_bytes);
    put_u64(trailer + 8, index.len);
    memcpy(trailer + 16, MAGIC, MAGIC_SIZE);
    if ((rc = fsio_writer_write(&w->file, str_cstr(&index), index.len, err)))
        return rc;
    return fsio_writer_write(&w->file, trailer, sizeof trailer, err);
}

int recording_writer_commit(struct recording_writer *w, const struct recording_facts *facts, struct err *err) {
    int rc = write_end(w, facts, err);
    if (rc) {
        recording_writer_abort(w);
        return rc;
    }
    rc = fsio_writer_commit(&w->file, err);
    writer_free(w);
    return rc;
}

/* A sentence that needs the samples; text: NULL until they were loaded for the first time. */
struct said {
    const char *_Atomic text;
    atomic_bool told;
};

struct recording {
    struct fsio_map map; /* without data until a planned recording is loaded */
    struct arena arena;
    void *block;                       /* what a planned recording's facts live in */
    struct recording_info found, info; /* by the labels; without what is hidden */
    const char *key;
    int64_t *first_row; /* (n_segments) rows before each segment */
    struct recording_loader loader;
    pthread_mutex_t lock; /* held while loading */
    struct said mislabelled, missing;
    int64_t measures[FEATURE_MEASURES]; /* where they begin in the file; 0: they are not there */
    atomic_bool ready;
};

/* What a recording computes from its facts. */
struct room {
    int64_t *first_row;         /* (n_segments + 1) */
    struct window_span *masked; /* (n_held + n_unknown) */
};

static int damaged(const char *path, const char *what, struct err *err) {
    return err_set(err, ERR_DATA_LOSS, "cached recording %s: %s; delete the file, it will be built again", path, what);
}

/* A flat list first,end,first,end…, ascending; limit bounds the last end. */
static bool read_spans(struct arena *arena, const struct json *list, int64_t limit, const struct window_span **ret, int *ret_n) {
    size_t n = json_count(list) / 2;
    if (json_kind(list) != JSON_KIND_ARRAY || json_count(list) % 2 || n > RECORDING_MAX_SPANS)
        return false;
    struct window_span *spans = arena_alloc(arena, sizeof *spans * (n + 1));
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

int recording_get_facts(const struct json *index, const char *name, struct arena *arena, struct recording_facts *ret,
                        struct err *err) {
    struct recording_facts f = {.samples = json_i64(json_get(index, "samples"), -1),
                                .labelled = json_bool(json_get(index, "labelled"), false),
                                .duration_s = json_f64(json_get(index, "duration_s"), 0)};
    const char **const texts[] = {&f.key, &f.source, &f.montage, &f.label_source, &f.note, &f.faults, &f.mislabelled, &f.missing};
    static const char *const keys[] = {"key", "source", "montage", "label_source", "note", "faults", "mislabelled", "missing"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!(*texts[i] = arena_strdup(arena, json_str(json_get(index, keys[i]), ""))))
            return err_set(err, ERR_EXHAUSTED, "out of memory for cached recording %s", name);
    int64_t channels = json_i64(json_get(index, "channels"), 0), columns = json_i64(json_get(index, "columns"), channels);
    if (json_i64(json_get(index, "version"), 0) != RECORDING_VERSION || channels < 1 || channels > FRONTEND_MAX_CHANNELS ||
        columns < channels || columns > FRONTEND_MAX_COLUMNS || f.samples < 0 || f.samples > MAX_SAMPLES)
        return damaged(name, "its version, channels or samples are out of range", err);
    f.channels = (int)channels;
    f.columns = (int)columns;
    if (!read_spans(arena, json_get(index, "segments"), f.samples, &f.segments, &f.n_segments) ||
        !read_spans(arena, json_get(index, "held"), f.samples, &f.held, &f.n_held) ||
        !read_spans(arena, json_get(index, "seizures"), f.samples, &f.seizures, &f.n_seizures) ||
        !read_spans(arena, json_get(index, "unknown"), f.samples, &f.unknown, &f.n_unknown))
        return damaged(name, "its segments or label runs are not ascending", err);
    *ret = f;
    return 0;
}

/* Two ascending lists as one; spans that overlap or touch are merged. */
static int join_spans(const struct window_span *a, int n_a, const struct window_span *b, int n_b, struct window_span *ret) {
    int n = 0;
    for (int i = 0, j = 0; i < n_a || j < n_b;) {
        struct window_span next = j == n_b || (i < n_a && a[i].first <= b[j].first) ? a[i++] : b[j++];
        if (n && next.first <= ret[n - 1].end)
            ret[n - 1].end = next.end > ret[n - 1].end ? next.end : ret[n - 1].end;
        else
            ret[n++] = next;
    }
    return n;
}

/* Facts whose texts and spans live as long as rec; room is memory for the rec. */
static void adopt(struct recording *rec, const struct recording_facts *f, const struct room *room) {
    int64_t *first_row = room->first_row;
    rec->key = f->key;
    rec->found = (struct recording_info){
        SAME_MEMBERS(*f, channels, columns, samples, segments, n_segments, seizures, n_seizures, held, n_held, unknown, n_unknown),
        .masked = room->masked, .n_masked = join_spans(f->held, f->n_held, f->unknown, f->n_unknown, room->masked),
        SAME_MEMBERS(*f, labelled, label_source, note, faults, duration_s)};
    rec->info = rec->found;
    int64_t rows = 0;
    for (int s = 0; s < f->n_segments; s++) {
        first_row[s] = rows;
        rows += f->segments[s].end - f->segments[s].first;
    }
    first_row[f->n_segments] = rows;
    rec->first_row = first_row;
}

static struct recording *recording_new(void) {
    struct recording *rec = calloc(1, sizeof *rec);
    if (!rec)
        return NULL;
    arena_init(&rec->arena, INDEX_MAX_BYTES);
    pthread_mutex_init(&rec->lock, NULL);
    return rec;
}

/* Blocks of a feature in the first segment: of samples that are not held. */
static int64_t first_blocks(const struct recording_facts *f) {
    const struct window_span first = f->n_segments ? f->segments[0] : (struct window_span){0, 0};
    int64_t n = first.end - first.first;
    for (int i = 0; i < f->n_held && f->held[i].first < first.end; i++)
        if (f->held[i].end > first.first)
            n -= (f->held[i].end < first.end ? f->held[i].end : first.end) -
                 (f->held[i].first > first.first ? f->held[i].first : first.first);
    return n / FEATURE_BLOCK;
}

/* False: they do not fit the recording. */
static bool find_measures(struct recording *rec, const struct recording_facts *f, const struct json *counts, int64_t end) {
    int64_t at = (HEAD_SIZE + rec->first_row[f->n_segments] * f->columns * 2 + 7) & ~INT64_C(7);
    for (size_t k = 0; k < FEATURE_MEASURES; k++) {
        const int64_t n = json_i64(json_at(counts, k), 0), bytes = n * (int64_t)sizeof(double);
        if (n && (n != first_blocks(f) || at + bytes > end))
            return false;
        rec->measures[k] = n ? at : 0;
        at += bytes;
    }
    return true;
}

/* Facts and samples of the mapped file, checked. */
static int adopt_file(struct recording *rec, const char *cache_file, struct err *err) {
    struct recording_facts facts = {0};
    OWNED_POINTER(json_free) struct json *index = NULL;
    struct room room;
    int rc;
    if (rec->map.len < HEAD_SIZE + TRAILER_SIZE || memcmp(rec->map.data, MAGIC, MAGIC_SIZE) ||
        memcmp(rec->map.data + rec->map.len - MAGIC_SIZE, MAGIC, MAGIC_SIZE))
        return damaged(cache_file, "it is not a whole cache file", err);
    const uint8_t *trailer = rec->map.data + rec->map.len - TRAILER_SIZE;
    uint64_t offset = get_u64(trailer), len = get_u64(trailer + 8), end = rec->map.len - TRAILER_SIZE;
    if (offset < HEAD_SIZE || offset > end || len != end - offset)
        return damaged(cache_file, "its index lies outside the file", err);
    if ((rc = json_parse((const char *)rec->map.data + offset, len, cache_file, &index, err)) ||
        (rc = recording_get_facts(index, cache_file, &rec->arena, &facts, err)))
        return rc;
    room.first_row = arena_alloc(&rec->arena, sizeof *room.first_row * ((size_t)facts.n_segments + 1));
    room.masked = arena_alloc(&rec->arena, sizeof *room.masked * ((size_t)facts.n_held + (size_t)facts.n_unknown + 1));
    if (!room.first_row || !room.masked)
        return err_set(err, ERR_EXHAUSTED, "out of memory for cached recording %s", cache_file);
    adopt(rec, &facts, &room);
    atomic_store(&rec->mislabelled.text, facts.mislabelled);
    atomic_store(&rec->missing.text, facts.missing);
    if (rec->first_row[facts.n_segments] * facts.columns * 2 > (int64_t)offset - HEAD_SIZE)
        return damaged(cache_file, "it holds fewer samples than its index says", err);
    if (!find_measures(rec, &facts, json_get(index, "measured"), (int64_t)offset))
        return damaged(cache_file, "what features measured of it does not fit its segments", err);
    return 0;
}

int recording_open(const char *cache_file, struct recording **ret, struct err *err) {
    struct recording *rec = recording_new();
    int rc;
    if (!rec)
        return err_set(err, ERR_EXHAUSTED, "out of memory for cached recording %s", cache_file);
    if ((rc = fsio_map_open(&rec->map, cache_file, err)) || (rc = adopt_file(rec, cache_file, err))) {
        recording_close(rec);
        return rc;
    }
    atomic_store(&rec->ready, true);
    *ret = rec;
    return 0;
}

static const struct window_span *copy_spans(uint8_t **at, const struct window_span *spans, int n) {
    size_t bytes = sizeof *spans * (size_t)n;
    void *copy = *at;
    if (bytes)
        memcpy(copy, spans, bytes);
    *at += bytes;
    return copy;
}

static const char *copy_text(uint8_t **at, const char *text) {
    size_t bytes = strlen(text) + 1;
    void *copy = *at;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

int recording_plan(const struct recording_facts *facts, const struct recording_loader *loader, struct recording **ret,
                   struct err *err) {
    struct recording_facts f = *facts;
    size_t masked = (size_t)f.n_held + (size_t)f.n_unknown, rows = (size_t)f.n_segments + 1;
    size_t spans = (size_t)f.n_segments + (size_t)f.n_seizures + 2 * masked;
    size_t texts = strlen(f.key) + strlen(f.label_source) + strlen(f.note) + strlen(f.faults) + 4;
    struct recording *rec = recording_new();
    uint8_t *at = malloc(sizeof(struct window_span) * spans + sizeof(int64_t) * rows + texts);
    if (!rec || !at) {
        if (loader->drop)
            loader->drop(loader->ctx);
        recording_close(rec);
        free(at);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a recording");
    }
    rec->loader = *loader;
    rec->block = at; /* thousands are open at a time: one piece of exact size each */
    struct room room = {.first_row = (int64_t *)(void *)at};
    at += sizeof *room.first_row * rows;
    room.masked = (struct window_span *)(void *)at;
    at += sizeof *room.masked * masked;
    f.segments = copy_spans(&at, f.segments, f.n_segments);
    f.held = copy_spans(&at, f.held, f.n_held);
    f.seizures = copy_spans(&at, f.seizures, f.n_seizures);
    f.unknown = copy_spans(&at, f.unknown, f.n_unknown);
    f.key = copy_text(&at, f.key);
    f.label_source = copy_text(&at, f.label_source);
    f.note = copy_text(&at, f.note);
    f.faults = copy_text(&at, f.faults);
    adopt(rec, &f, &room);
    *ret = rec;
    return 0;
}

static bool same_spans(const struct window_span *a, int n_a, const struct window_span *b, int n_b) {
    return n_a == n_b && (!n_a || !memcmp(a, b, sizeof *a * (size_t)n_a));
}

/* The sentence of the built recording, once. */
static int keep_said(struct recording *rec, struct said *said, const struct said *built, struct err *err) {
    const char *text = atomic_load(&said->text);
    if (!text && !(text = arena_strdup(&rec->arena, atomic_load(&built->text))))
        return err_set(err, ERR_EXHAUSTED, "out of memory for a cached recording");
    atomic_store(&said->text, text);
    return 0;
}

/* Take the samples of an open cache file that holds what was planned. */
static int take_samples(struct recording *rec, struct recording *built, const char *path, struct err *err) {
    const struct recording_info *a = &rec->found, *b = &built->found;
    if (strcmp(rec->key, built->key) != 0)
        return err_set(err, ERR_DATA_LOSS, "its source or labels changed after the data were indexed; submit the job again");
    if (a->channels != b->channels || a->columns != b->columns || a->samples != b->samples ||
        !same_spans(a->segments, a->n_segments, b->segments, b->n_segments) ||
        !same_spans(a->held, a->n_held, b->held, b->n_held) ||
        !same_spans(a->seizures, a->n_seizures, b->seizures, b->n_seizures) ||
        !same_spans(a->unknown, a->n_unknown, b->unknown, b->n_unknown))
        return err_set(
            err, ERR_DATA_LOSS,
            "it holds other segments or labels than its header said when the data were indexed (a header that arrived damaged has "
            "been replaced since): the plan made of it does not hold; submit the job again, and if that does not help delete %s",
            path);
    int rc;
    if ((rc = keep_said(rec, &rec->mislabelled, &built->mislabelled, err)) ||
        (rc = keep_said(rec, &rec->missing, &built->missing, err)))
        return rc;
    rec->map = built->map;
    memcpy(rec->measures, built->measures, sizeof rec->measures);
    built->map = (struct fsio_map){0};
    return 0;
}

static void release(struct recording *rec) {
    if (rec->loader.release)
        rec->loader.release(rec->loader.ctx);
}

static int load_locked(struct recording *rec, struct err *err) {
    char path[4096];
    struct recording *built = NULL;
    int rc;
    if ((rc = rec->loader.load(rec->loader.ctx, path, sizeof path, err)))
        return rc;
    if ((rc = recording_open(path, &built, err)) || (rc = take_samples(rec, built, path, err)))
        release(rec);
    else
        atomic_store(&rec->ready, true);
    recording_close(built);
    return rc;
}

int recording_load(struct recording *rec, struct err *err) {
    if (atomic_load(&rec->ready))
        return 0;
    LOCKED(&rec->lock);
    return atomic_load(&rec->ready) ? 0 : load_locked(rec, err);
}

/* The parts of ascending spans that lie in no hidden one; ret has room for all of both. */
static int cut_spans(const struct window_span *spans, int n, const struct window_span *hidden, int n_hidden,
                     struct window_span *ret) {
    int kept = 0;
    for (int i = 0, h = 0; i < n; i++) {
        int64_t from = spans[i].first;
        while (h && hidden[h - 1].end > from)
            h--;
        for (; h < n_hidden && hidden[h].first < spans[i].end; h++) {
            if (hidden[h].first > from)
                ret[kept++] = (struct window_span){from, hidden[h].first};
            from = hidden[h].end > from ? hidden[h].end : from;
        }
        if (from < spans[i].end)
            ret[kept++] = (struct window_span){from, spans[i].end};
    }
    return kept;
}

int recording_hide(struct recording *rec, const struct window_span *spans, int n, struct err *err) {
    const struct recording_info *found = &rec->found;
    const size_t seizures = (size_t)found->n_seizures + (size_t)n, unknown = (size_t)found->n_unknown + (size_t)n;
    const size_t all = seizures + 2 * unknown + (size_t)found->n_held;
    struct window_span *room = arena_alloc(&rec->arena, (all + 1) * sizeof *room);
    if (!room)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %zu spans of a recording", all);
    struct recording_info *info = &rec->info;
    info->seizures = room;
    info->n_seizures = cut_spans(found->seizures, found->n_seizures, spans, n, room);
    info->unknown = room + seizures;
    info->n_unknown = join_spans(found->unknown, found->n_unknown, spans, n, room + seizures);
    info->masked = room + seizures + unknown;
    info->n_masked = join_spans(found->held, found->n_held, info->unknown, info->n_unknown, room + seizures + unknown);
    return 0;
}

void recording_unload(struct recording *rec) {
    if (!rec->loader.load)
        return;
    LOCKED(&rec->lock);
    bool loaded = atomic_exchange(&rec->ready, false);
    fsio_map_close(&rec->map);
    rec->map = (struct fsio_map){0};
    if (loaded)
        release(rec);
}

bool recording_ready(const struct recording *rec) { return atomic_load(&rec->ready); }

static const char *said_text(const struct said *said) {
    const char *text = atomic_load(&said->text);
    return text ? text : "";
}

static const char *tell_said(struct said *said) {
    const char *text = said_text(said);
    return *text && !atomic_exchange(&said->told, true) ? text : "";
}

const char *recording_mislabelled(const struct recording *rec) { return said_text(&rec->mislabelled); }
const char *recording_tell_mislabelled(struct recording *rec) { return tell_said(&rec->mislabelled); }
const char *recording_missing(const struct recording *rec) { return said_text(&rec->missing); }
const char *recording_tell_missing(struct recording *rec) { return tell_said(&rec->missing); }

void recording_close(struct recording *rec) {
    if (!rec)
        return;
    fsio_map_close(&rec->map);
    if (atomic_load(&rec->ready))
        release(rec);
    if (rec->loader.drop)
        rec->loader.drop(rec->loader.ctx);
    pthread_mutex_destroy(&rec->lock);
    arena_done(&rec->arena);
    free(rec->block);
    free(rec);
}

void recording_info(const struct recording *rec, struct recording_info *ret) { *ret = rec->info; }

double recording_recorded_s(const struct recording_info *info) {
    int64_t samples = 0;
    for (int i = 0; i < info->n_segments; i++)
        samples += info->segments[i].end - info->segments[i].first;
    for (int i = 0; i < info->n_held; i++)
        samples -= info->held[i].end - info->held[i].first;
    return (double)samples / FRONTEND_RATE_HZ;
}

void recording_facts(const struct recording *rec, struct recording_facts *ret) {
    const struct recording_info *info = &rec->info;
    *ret = (struct recording_facts){.key = rec->key,
                                    SAME_MEMBERS(*info, label_source, note, faults),
                                    .mislabelled = recording_mislabelled(rec),
                                    .missing = recording_missing(rec),
                                    SAME_MEMBERS(*info, labelled, channels, columns, duration_s, samples, seizures, segments, held,
                                                 n_seizures, n_segments, n_held, unknown, n_unknown)};
}

const uint16_t *recording_rows(const struct recording *rec, int segment, int64_t at) {
    const uint16_t *rows = (const uint16_t *)(const void *)(rec->map.data + HEAD_SIZE);
    return rows + (rec->first_row[segment] + at - rec->info.segments[segment].first) * rec->info.columns;
}

const double *recording_measures(const struct recording *rec, int normalize) {
    const int k = normalize == FRONTEND_LINE_LENGTH ? 0 : normalize == FRONTEND_BAND_POWER ? 1 : FEATURE_MEASURES;
    return k < FEATURE_MEASURES && rec->measures[k] ? (const double *)(const void *)(rec->map.data + rec->measures[k]) : NULL;
}

const char *recording_key(const struct recording *rec) { return rec->key; }
