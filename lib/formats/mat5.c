#include "formats/mat5.h"

#include <zlib.h>

#include "formats/text.h"

enum { HEADER_BYTES = 128, MI_MATRIX = 14, MI_COMPRESSED = 15, MI_UTF8 = 16, MI_UTF16 = 17 };
enum { CLASS_CELL = 1, CLASS_STRUCT = 2, CLASS_CHAR = 4, CLASS_DOUBLE = 6, CLASS_UINT64 = 15 };
enum { MOST_DEPTH = 12, MOST_VARIABLES = 1024, MOST_FIELDS = 4096, MOST_FIELD_NAME = 64, MOST_LOADED = 4096, PIECE = 16 << 10 };
enum { MOST_TEXT = 1 << 20, MOST_VALUES = 1 << 21 };

/* What all variables of a file may inflate to: 64 times its bytes, and 64 MiB where zeros compress better. */
enum { MOST_RATIO = 64, MOST_INFLATED = 64 << 20 };

/* Bytes one after another: of the file, or inflated from a part of it. */
struct mat_stream {
    const struct filebytes *bytes;
    struct arena *arena;
    size_t at, end; /* in the file */
    bool inflating;
    z_stream z;
    uint8_t in[PIECE];
    uint64_t position; /* of what was given out: in the file, or inflated */
    uint64_t most;     /* where inflating ends */
    size_t element;    /* where the compressed bytes began, and how many they are */
    size_t element_bytes;
    const char *const *wanted; /* names of variables and fields that are read, NULL at the end; NULL: all */
    int64_t *values;           /* how many more may be read, of the whole file */
};

static bool is_wanted(const struct mat_stream *s, const char *name) {
    const char *const *wanted = s->wanted;
    while (wanted && *wanted && strcmp(*wanted, name) != 0)
        wanted++;
    return !wanted || *wanted;
}

static int corrupt(const struct mat_stream *s, struct err *err, const char *what) {
    return err_set(err, ERR_INVALID, "%s: %s near byte %zu: the file is damaged or was not written completely", s->bytes->name,
                   what, s->at);
}

static int inflate_some(struct mat_stream *s, uint8_t *to, size_t n, struct err *err) {
    s->z.next_out = to;
    s->z.avail_out = (uInt)n;
    while (s->z.avail_out) {
        if (!s->z.avail_in) {
            const uint8_t *data;
            size_t some = s->end - s->at < sizeof s->in ? s->end - s->at : sizeof s->in;
            int rc = some ? filebytes_get(s->bytes, s->at, some, s->in, &data, err)
                          : corrupt(s, err, "a compressed variable ends early");
            if (rc)
                return rc;
            s->z.next_in = (Bytef *)(uintptr_t)data;
            s->z.avail_in = (uInt)some;
            s->at += some;
        }
        int rc = inflate(&s->z, Z_NO_FLUSH);
        if (rc != Z_OK && !(rc == Z_STREAM_END && !s->z.avail_out))
            return corrupt(s, err, "a compressed variable cannot be inflated");
    }
    return 0;
}

/* The next n bytes. */
static int mat_take(struct mat_stream *s, void *to, size_t n, struct err *err) {
    const uint8_t *data;
    int rc;
    if (!n)
        return 0;
    if (s->inflating) {
        if (n > s->most - s->position)
            return corrupt(s, err, "a compressed variable is longer than its length");
        if ((rc = inflate_some(s, to, n, err)))
            return rc;
    } else {
        if (n > s->end - s->at)
            return corrupt(s, err, "a variable ends early");
        if ((rc = filebytes_get(s->bytes, s->at, n, to, &data, err)))
            return rc;
        if (data != to)
            memcpy(to, data, n);
        s->at += n;
    }
    s->position += n;
    return 0;
}

static int mat_skip(struct mat_stream *s, uint64_t n, struct err *err) {
    uint8_t drain[PIECE];
    if (!s->inflating) {
        if (n > s->end - s->at)
            return corrupt(s, err, "a variable ends early");
        s->at += (size_t)n;
        s->position += n;
        return 0;
    }
    if (n > s->most - s->position)
        return corrupt(s, err, "a compressed variable is longer than its length");
    for (uint64_t some; n; n -= some) {
        some = n < sizeof drain ? n : sizeof drain;
        int rc = mat_take(s, drain, (size_t)some, err);
        if (rc)
            return rc;
    }
    return 0;
}

/* The tag of an element. Of a small one the data are in the tag: they are the next bytes, and `pad` what follows them. */
struct mat_tag {
    uint32_t type, bytes, pad;
    uint8_t small[4];
    bool is_small;
};

static int take_tag(struct mat_stream *s, struct mat_tag *t, struct err *err) {
    uint8_t raw[8];
    int rc = mat_take(s, raw, sizeof raw, err);
    if (rc)
        return rc;
    uint32_t word = filebytes_u32(raw);
    *t = (struct mat_tag){.type = word & 0xFFFF, .bytes = word >> 16, .is_small = word >> 16 != 0};
    memcpy(t->small, raw + 4, 4);
    if (t->is_small)
        return t->bytes <= 4 ? 0 : corrupt(s, err, "a small element of more than 4 bytes");
    t->type = word;
    t->bytes = filebytes_u32(raw + 4);
    t->pad = t->type == MI_COMPRESSED ? 0 : (8 - t->bytes % 8) % 8;
    return 0;
}

/* The data of an element, at most `most` bytes, into the arena, with a NUL behind them. */
static int take_data(struct mat_stream *s, const struct mat_tag *t, size_t most, uint8_t **ret, struct err *err) {
    if (t->bytes > most)
        return corrupt(s, err, "an element is longer than expected");
    uint8_t *data = arena_alloc(s->arena, (size_t)t->bytes + 1);
    if (!data)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
    *ret = data;
    if (t->is_small) {
        memcpy(data, t->small, t->bytes);
        return 0;
    }
    int rc = mat_take(s, data, t->bytes, err);
    return rc ? rc : mat_skip(s, t->pad, err);
}

static int number_bytes(uint32_t type) {
    static const int bytes[] = {[MAT_I8] = 1,  [MAT_U8] = 1,  [MAT_I16] = 2, [MAT_U16] = 2, [MAT_I32] = 4,
                                [MAT_U32] = 4, [MAT_F32] = 4, [MAT_F64] = 8, [MAT_I64] = 8, [MAT_U64] = 8};
    return type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

static double number_of(const uint8_t *p, uint32_t type) {
    float narrow;
    double wide;
    const uint64_t whole = number_bytes(type) == 8 ? (uint64_t)filebytes_u32(p + 4) << 32 | filebytes_u32(p) : 0;
    switch (type) {
    case MAT_I8:
        return (int8_t)p[0];
    case MAT_U8:
        return p[0];
    case MAT_I16:
        return (int16_t)(p[0] | p[1] << 8);
    case MAT_U16:
        return p[0] | p[1] << 8;
    case MAT_I32:
        return (int32_t)filebytes_u32(p);
    case MAT_U32:
        return filebytes_u32(p);
    case MAT_F32:
        memcpy(&narrow, p, sizeof narrow);
        return (double)narrow;
    case MAT_I64:
        return (double)(int64_t)whole;
    case MAT_U64:
        return (double)whole;
    default:
        memcpy(&wide, p, sizeof wide);
        return wide;
    }
}

static int read_numbers(struct mat_stream *s, struct mat_value *v, struct err *err) {
    struct mat_tag t;
    int rc = take_tag(s, &t, err), width;
    if (rc)
        return rc;
    if (!(width = number_bytes(t.type)))
        return v->n ? corrupt(s, err, "numbers of an unknown type") : 0;
    if ((int64_t)(t.bytes / (uint32_t)width) < v->n)
        return corrupt(s, err, "an array has fewer numbers than its dimensions say");
    if (!t.is_small && t.bytes > (s->inflating ? s->most - s->position : s->end - s->at))
        return corrupt(s, err, "the numbers of an array are longer than its length");
    v->kind = MAT_NUMBERS;
    v->place = (struct mat_place){s->inflating ? s->element : 0, s->inflating ? s->element_bytes : 0,
                                  s->position - (t.is_small ? sizeof t.small : 0), (uint64_t)v->n * (uint64_t)width, (int)t.type};
    if (v->n > MOST_LOADED || t.bytes > MOST_LOADED * sizeof(double))
        return 0; /* the caller skips to the end of the array */
    uint8_t *raw;
    double *numbers = arena_alloc(s->arena, ((size_t)v->n + 1) * sizeof *numbers);
    if (!numbers)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
    if ((rc = take_data(s, &t, t.bytes, &raw, err)))
        return rc;
    for (int64_t i = 0; i < v->n; i++)
        numbers[i] = number_of(raw + i * width, t.type);
    v->numbers = numbers;
    return 0;
}

/* A text of one line; of several lines the letters as they are stored. */
static int read_chars(struct mat_stream *s, struct mat_value *v, struct err *err) {
    struct mat_tag t;
    uint8_t *raw;
    int rc = take_tag(s, &t, err);
    if (rc)
        return rc;
    v->kind = MAT_TEXT;
    v->text = "";
    if (t.bytes > MOST_TEXT)
        return 0;
    if ((rc = take_data(s, &t, MOST_TEXT, &raw, err)))
        return rc;
    v->text = (const char *)raw;
    if (t.type != MAT_U16 && t.type != MI_UTF16 && t.type != MAT_I16)
        return 0;
    char *text = arena_alloc(s->arena, (size_t)t.bytes / 2 * 3 + 1);
    if (!text)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
    size_t n = 0;
    for (size_t i = 0; i + 2 <= t.bytes; i += 2)
        n += text_put_utf8(text + n, (uint32_t)raw[i] | (uint32_t)raw[i + 1] << 8);
    v->text = text;
    return 0;
}

static int read_matrix(struct mat_stream *s, const struct mat_tag *t, int depth, struct mat_value *ret, const char **ret_name,
                       struct err *err);

/* The visitor of elements: n of a cell, or the fields of each element of a struct. A field that nobody wants is skipped by the
 * length in its tag, whatever is in it. */
struct mat_items {
    int64_t n;        /* how many are kept */
    const bool *kept; /* (n_fields) NULL: all */
    int n_fields;
};

static int read_items(struct mat_stream *s, int depth, struct mat_items items, struct mat_value *v, struct err *err) {
    const int64_t n = items.n;
    if (n > *s->values)
        return err_set(err, ERR_INVALID, "%s has more than %d values in its cells and structs", s->bytes->name, MOST_VALUES);
    *s->values -= n;
    if (!(v->items = arena_alloc(s->arena, ((size_t)n + 1) * sizeof *v->items)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
    for (int64_t i = 0, done = 0; done < n; i++) {
        struct mat_tag t;
        const char *name;
        int rc = take_tag(s, &t, err);
        if (rc)
            return rc;
        if (items.kept && !items.kept[i % items.n_fields]) {
            if (!t.is_small && (rc = mat_skip(s, (uint64_t)t.bytes + (t.type == MI_MATRIX ? 0 : t.pad), err)))
                return rc;
            continue;
        }
        if (t.type != MI_MATRIX)
            return corrupt(s, err, "an element of a cell or struct is no array");
        if ((rc = read_matrix(s, &t, depth + 1, &v->items[done++], &name, err)))
            return rc;
    }
    return 0;
}

static int read_struct(struct mat_stream *s, int depth, struct mat_value *v, struct err *err) {
    struct mat_tag t;
    uint8_t *raw;
    int rc;
    if ((rc = take_tag(s, &t, err)) || (rc = take_data(s, &t, 8, &raw, err)))
        return rc;
    const uint32_t width = t.bytes >= 4 ? filebytes_u32(raw) : 0;
    if ((rc = take_tag(s, &t, err)) || (rc = take_data(s, &t, (size_t)MOST_FIELDS * MOST_FIELD_NAME, &raw, err)))
        return rc;
    if (t.bytes && (!width || width > MOST_FIELD_NAME || t.bytes % width))
        return corrupt(s, err, "the names of a struct's fields");
    const int all = t.bytes ? (int)(t.bytes / width) : 0;
    const char **names = arena_alloc(s->arena, ((size_t)all + 1) * sizeof *names);
    bool *kept = arena_alloc(s->arena, (size_t)all + 1);
    if (!names || !kept)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
    for (int i = 0; i < all; i++) {
        raw[(size_t)(i + 1) * width - 1] = '\0';
        names[v->n_fields] = (const char *)raw + (size_t)i * width;
        kept[i] = is_wanted(s, names[v->n_fields]);
        v->n_fields += kept[i];
    }
    v->fields = names;
    v->kind = MAT_STRUCT;
    return read_items(s, depth, (struct mat_items){v->n * v->n_fields, kept, all}, v, err);
}

/* Flags, dimensions and the name. */
static int read_array_head(struct mat_stream *s, struct mat_value *v, int *ret_class, const char **ret_name, struct err *err) {
    struct mat_tag t;
    uint8_t *raw;
    int rc;
    if ((rc = take_tag(s, &t, err)) || (rc = take_data(s, &t, 8, &raw, err)))
        return rc;
    if (t.bytes != 8)
        return corrupt(s, err, "an array has no flags");
    *ret_class = raw[0];
    if ((rc = take_tag(s, &t, err)) || (rc = take_data(s, &t, 256, &raw, err)))
        return rc;
    v->n = t.bytes >= 8 ? 1 : 0;
    for (uint32_t i = 0; i + 4 <= t.bytes; i += 4) {
        int64_t size = (int32_t)filebytes_u32(raw + i);
        int64_t *side = i == 0 ? &v->rows : &v->columns; /* of an array that is empty, columns may be beyond all bounds */
        if (size < 0 || __builtin_mul_overflow(v->n, size, &v->n) || v->n > (int64_t)1 << 32 ||
            __builtin_mul_overflow(i < 8 ? 1 : *side, size, side))
            return corrupt(s, err, "the dimensions of an array");
    }
    if ((rc = take_tag(s, &t, err)) || (rc = take_data(s, &t, 1024, &raw, err)))
        return rc;
    *ret_name = (const char *)raw;
    return 0;
}

static int read_matrix(struct mat_stream *s, const struct mat_tag *t, int depth, struct mat_value *ret, const char **ret_name,
                       struct err *err) {
    const uint64_t end = s->position + t->bytes;
    int class = 0, rc;
    *ret = (struct mat_value){0};
    *ret_name = "";
    if (t->is_small || !t->bytes)
        return 0;
    if (depth > MOST_DEPTH)
        return mat_skip(s, t->bytes, err);
    if ((rc = read_array_head(s, ret, &class, ret_name, err)))
        return rc;
    if (!depth && !is_wanted(s, *ret_name)) {
        *ret_name = "";
        return 0; /* the caller goes on behind it */
    }
    if (class == CLASS_CELL) {
        ret->kind = MAT_CELL;
        rc = read_items(s, depth, (struct mat_items){.n = ret->n}, ret, err);
    } else if (class == CLASS_STRUCT)
        rc = read_struct(s, depth, ret, err);
    else if (class == CLASS_CHAR)
        rc = read_chars(s, ret, err);
    else if (class >= CLASS_DOUBLE && class <= CLASS_UINT64)
        rc = read_numbers(s, ret, err);
    if (rc)
        return rc;
    if (s->position > end + 8)
        return corrupt(s, err, "an array is longer than its length");
    return s->position < end ? mat_skip(s, end - s->position, err) : 0;
}

static int begin_inflating(struct mat_stream *inner, const struct mat_stream *s, size_t at, size_t bytes, struct err *err) {
    memset(inner, 0, sizeof *inner);
    inner->most = sizeof(uint64_t); /* the tag of the variable */
    COPY_MEMBERS(*inner, *s, bytes, arena, wanted, values);
    inner->at = inner->element = at;
    inner->element_bytes = bytes;
    inner->end = at + bytes;
    inner->inflating = true;
    return inflateInit(&inner->z) == Z_OK ? 0 : err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
}

/* Lets the variable inflate to the length that its tag states, unless the file then inflates to more than it may. */
static int allow(struct mat_stream *s, struct mat_stream *inner, const struct mat_tag *t, struct err *err) {
    const uint64_t most = (uint64_t)s->bytes->len * MOST_RATIO + MOST_INFLATED;
    s->most += t->bytes;
    if (s->most > most)
        return err_set(err, ERR_INVALID,
                       "%s: its compressed variables inflate to %llu bytes; expected at most %llu of a file of %zu bytes; save it "
                       "again without compression (in EEGLAB as two files)",
                       s->bytes->name, (unsigned long long)s->most, (unsigned long long)most, s->bytes->len);
    inner->most += (uint64_t)t->bytes + t->pad;
    return 0;
}

/* A variable that is compressed. */
static int read_compressed(struct mat_stream *s, size_t bytes, struct mat_value *ret, const char **ret_name, struct err *err) {
    OWNED_MEMORY struct mat_stream *inner = malloc(sizeof *inner);
    struct mat_tag t;
    int rc =
        inner ? begin_inflating(inner, s, s->at, bytes, err) : err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->bytes->name);
    if (rc)
        return rc;
    if (!(rc = take_tag(inner, &t, err)) && !(rc = allow(s, inner, &t, err)) && t.type == MI_MATRIX)
        rc = read_matrix(inner, &t, 0, ret, ret_name, err);
    inflateEnd(&inner->z);
    return rc;
}

static int read_variable(struct mat_stream *s, struct mat_value *ret, const char **ret_name, struct err *err) {
    struct mat_tag t;
    int rc = take_tag(s, &t, err);
    if (rc)
        return rc;
    *ret = (struct mat_value){0};
    *ret_name = "";
    if (t.is_small || t.bytes > s->end - s->at)
        return corrupt(s, err, "a variable is longer than the file");
    const size_t end = s->at + t.bytes;
    rc = t.type == MI_COMPRESSED ? read_compressed(s, t.bytes, ret, ret_name, err)
         : t.type == MI_MATRIX   ? read_matrix(s, &t, 0, ret, ret_name, err)
                                 : 0;
    s->at = end;
    s->position = end;
    return rc;
}

bool mat_probe(const uint8_t *start, size_t n) {
    return n >= HEADER_BYTES && !memcmp(start, "MATLAB ", 7) && start[126] == 'I' && start[127] == 'M';
}

int mat_read(const struct filebytes *bytes, const char *const *wanted, struct arena *arena, struct mat_value *ret,
             struct err *err) {
    int64_t most_values = MOST_VALUES;
    OWNED_MEMORY struct mat_stream *s = calloc(1, sizeof *s);
    const char **names = arena_alloc(arena, MOST_VARIABLES * sizeof *names);
    struct mat_value *values = arena_alloc(arena, MOST_VARIABLES * sizeof *values);
    int n = 0, rc;
    if (!s || !names || !values)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", bytes->name);
    s->bytes = bytes;
    s->arena = arena;
    s->wanted = wanted;
    s->values = &most_values;
    s->end = bytes->len;
    s->at = HEADER_BYTES;
    s->position = HEADER_BYTES;
    while (s->at + 8 <= s->end && n < MOST_VARIABLES)
        if ((rc = read_variable(s, &values[n], &names[n], err)))
            return rc;
        else
            n += *names[n] != '\0';
    *ret = (struct mat_value){.kind = MAT_STRUCT, .rows = 1, .columns = 1, .n = 1, .fields = names, .n_fields = n, .items = values};
    return 0;
}

const struct mat_value *mat_field(const struct mat_value *value, int64_t index, const char *name) {
    if (!value || value->kind != MAT_STRUCT || index < 0 || index >= value->n)
        return NULL;
    for (int i = 0; i < value->n_fields; i++)
        if (!strcmp(value->fields[i], name))
            return &value->items[index * value->n_fields + i];
    return NULL;
}

/* A cell with one value stands for it. */
static const struct mat_value *inside(const struct mat_value *value) {
    for (int depth = 0; value && value->kind == MAT_CELL && value->n == 1 && depth < MOST_DEPTH; depth++)
        value = value->items;
    return value;
}

double mat_number(const struct mat_value *value, double otherwise) {
    value = inside(value);
    return value && value->kind == MAT_NUMBERS && value->n && value->numbers ? value->numbers[0] : otherwise;
}

const char *mat_text(const struct mat_value *value) {
    value = inside(value);
    return value && value->kind == MAT_TEXT ? value->text : NULL;
}

static int write_inflated(int fd, const uint8_t *data, size_t n, struct err *err) {
    while (n) {
        ssize_t some = write(fd, data, n);
        if (some < 0 && errno != EINTR)
            return err_errno(err, errno, "cannot write the inflated samples");
        data += some > 0 ? some : 0;
        n -= some > 0 ? (size_t)some : 0;
    }
    return 0;
}

int mat_inflate(const struct filebytes *bytes, const struct mat_place *place, int fd, struct err *err) {
    const struct mat_stream outer = {.bytes = bytes};
    OWNED_MEMORY struct mat_stream *s = malloc(sizeof *s);
    OWNED_MEMORY uint8_t *piece = malloc(PIECE);
    int rc = s && piece ? begin_inflating(s, &outer, place->element, place->element_bytes, err)
                        : err_set(err, ERR_EXHAUSTED, "%s: out of memory", bytes->name);
    if (rc)
        return rc;
    s->most = place->offset + place->bytes; /* which mat_read allowed */
    rc = mat_skip(s, place->offset, err);
    for (uint64_t left = place->bytes, some; !rc && left; left -= some) {
        some = left < PIECE ? left : PIECE;
        rc = mat_take(s, piece, (size_t)some, err);
        rc = rc ? rc : write_inflated(fd, piece, (size_t)some, err);
    }
    inflateEnd(&s->z);
    return rc;
}
