#include "base/json.h"

#include <jansson.h>
#include <math.h>

#include "base/fsio.h"

/* struct json is json_t under another name: nobody above sees jansson. */
static const json_t *tree(const struct json *j) { return (const json_t *)(const void *)j; }
static const struct json *node(const json_t *j) { return (const struct json *)(const void *)j; }

enum { MAX_DEPTH = 64, ARRAY_NODES = 3, OBJECT_NODES = 4 };

struct extent {
    size_t nodes;
    int depth; /* the greatest */
};

/* How large the tree of a document is at most: a look at its brackets, commas and colons. */
static struct extent measure(const char *text, size_t len) {
    struct extent e = {.nodes = 1};
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            e.nodes += c == '[' ? ARRAY_NODES : OBJECT_NODES;
            e.depth = ++depth > e.depth ? depth : e.depth;
        } else if (c == ']' || c == '}') {
            depth--;
        } else {
            e.nodes += c == ',' || c == ':';
        }
    }
    return e;
}

int json_parse_at_most(const char *text, size_t len, size_t max_nodes, const char *name, struct json **ret, struct err *err) {
    const struct extent e = measure(text, len);
    if (e.depth > MAX_DEPTH)
        return err_set(err, ERR_INVALID, "%s: JSON nested deeper than %d", name, MAX_DEPTH);
    if (e.nodes > max_nodes)
        return err_set(err, ERR_INVALID, "%s: JSON of %zu nodes; at most %zu are read", name, e.nodes, max_nodes);
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!root)
        return err_set(err, ERR_INVALID, "%s:%d:%d: not valid JSON: %s", name, error.line, error.column, error.text);
    *ret = (struct json *)(void *)root;
    return 0;
}

int json_parse(const char *text, size_t len, const char *name, struct json **ret, struct err *err) {
    return json_parse_at_most(text, len, JSON_MAX_NODES, name, ret, err);
}

int json_read(const char *path, size_t max_bytes, struct json **ret, struct err *err) {
    OWNED_MEMORY char *text = NULL;
    size_t len = 0;
    int rc = fsio_read(path, max_bytes, &text, &len, err);
    return rc ? rc : json_parse(text, len, path, ret, err);
}

void json_free(struct json *root) {
    if (root)
        json_decref((json_t *)(void *)root);
}

enum json_kind json_kind(const struct json *j) {
    if (!j)
        return JSON_KIND_NULL;
    switch (json_typeof(tree(j))) {
    case JSON_OBJECT:
        return JSON_KIND_OBJECT;
    case JSON_ARRAY:
        return JSON_KIND_ARRAY;
    case JSON_STRING:
        return JSON_KIND_STRING;
    case JSON_INTEGER:
        return JSON_KIND_INTEGER;
    case JSON_REAL:
        return JSON_KIND_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return JSON_KIND_BOOL;
    default:
        return JSON_KIND_NULL;
    }
}

const struct json *json_get(const struct json *object, const char *key) {
    return json_kind(object) == JSON_KIND_OBJECT ? node(json_object_get(tree(object), key)) : NULL;
}

size_t json_count(const struct json *j) {
    if (json_kind(j) == JSON_KIND_OBJECT)
        return json_object_size(tree(j));
    return json_kind(j) == JSON_KIND_ARRAY ? json_array_size(tree(j)) : 0;
}

const struct json *json_at(const struct json *array, size_t index) {
    return json_kind(array) == JSON_KIND_ARRAY ? node(json_array_get(tree(array), index)) : NULL;
}

bool json_next(const struct json *object, struct json_cursor *cursor, const char **ret_key, const struct json **ret_value) {
    if (json_kind(object) != JSON_KIND_OBJECT)
        return false;
    json_t *mutable = (json_t *)(uintptr_t)tree(object); /* jansson's iterators want it so; nothing is changed */
    cursor->at = cursor->started ? json_object_iter_next(mutable, cursor->at) : json_object_iter(mutable);
    cursor->started = true;
    if (!cursor->at)
        return false;
    *ret_key = json_object_iter_key(cursor->at);
    *ret_value = node(json_object_iter_value(cursor->at));
    return true;
}

const char *json_str(const struct json *j, const char *fallback) {
    return json_kind(j) == JSON_KIND_STRING ? json_string_value(tree(j)) : fallback;
}

double json_f64(const struct json *j, double fallback) {
    enum json_kind kind = json_kind(j);
    return kind == JSON_KIND_REAL || kind == JSON_KIND_INTEGER ? json_number_value(tree(j)) : fallback;
}

int64_t json_i64(const struct json *j, int64_t fallback) {
    return json_kind(j) == JSON_KIND_INTEGER ? json_integer_value(tree(j)) : fallback;
}

bool json_bool(const struct json *j, bool fallback) { return json_kind(j) == JSON_KIND_BOOL ? json_is_true(tree(j)) : fallback; }

void json_take_text(const struct json *j, char *to, size_t size) { str_copy(to, size, json_str(j, "")); }
void json_take_f64(const struct json *j, double *to, size_t size) { (void)size, *to = json_f64(j, NAN); }
void json_take_i64(const struct json *j, int64_t *to, size_t size) { (void)size, *to = json_i64(j, 0); }
void json_take_bool(const struct json *j, bool *to, size_t size) { (void)size, *to = json_bool(j, false); }

void json_writer_init(struct json_writer *w, struct str *out) { *w = json_to(out); }

struct json_writer json_object_to(struct str *out) {
    struct json_writer w = json_to(out);
    json_begin_object(&w, NULL);
    return w;
}

/* One byte that cannot stand in a JSON string as it is. */
static void put_escaped(struct str *out, unsigned char c) {
    if (c == '"' || c == '\\')
        str_printf(out, "\\%c", c);
    else if (c == '\n')
        str_puts(out, "\\n");
    else if (c == '\t')
        str_puts(out, "\\t");
    else if (c < 0x20)
        str_printf(out, "\\u%04x", c);
    else
        str_puts(out, "\xEF\xBF\xBD"); /* U+FFFD */
}

static void put_quoted(struct str *out, const char *text) {
    const char *plain = text, *p = text;
    str_puts(out, "\"");
    while (*p) {
        int step = str_utf8_step(p);
        if (step && (unsigned char)*p >= 0x20 && *p != '"' && *p != '\\') {
            p += step;
            continue;
        }
        str_append(out, plain, (size_t)(p - plain));
        put_escaped(out, (unsigned char)*p);
        plain = ++p;
    }
    str_append(out, plain, (size_t)(p - plain));
    str_puts(out, "\"");
}

static void before_item(struct json_writer *w, const char *key) {
    uint64_t bit = 1ull << (w->depth & 63);
    if (w->has_item & bit)
        str_puts(w->out, ",");
    w->has_item |= bit;
    if (key) {
        put_quoted(w->out, key);
        str_puts(w->out, ":");
    }
}

static void open_level(struct json_writer *w, const char *key, const char *bracket) {
    before_item(w, key);
    str_puts(w->out, bracket);
    w->depth++;
    w->has_item &= ~(1ull << (w->depth & 63));
}

void json_begin_object(struct json_writer *w, const char *key) { open_level(w, key, "{"); }
void json_begin_array(struct json_writer *w, const char *key) { open_level(w, key, "["); }

void json_end(struct json_writer *w, char close) {
    w->depth--;
    str_append(w->out, &close, 1);
}

void json_put_str(struct json_writer *w, const char *key, const char *value) {
    before_item(w, key);
    if (value)
        put_quoted(w->out, value);
    else
        str_puts(w->out, "null");
}

void json_put_f64(struct json_writer *w, const char *key, double value) {
    before_item(w, key);
    if (!isfinite(value)) {
        str_puts(w->out, "null");
        return;
    }
    if (value == 0 && signbit(value))
        str_puts(w->out, "-0.0"); /* "-0" would read back as the integer 0 */
    else
        str_put_f64(w->out, value);
}

void json_put_i64(struct json_writer *w, const char *key, int64_t value) {
    before_item(w, key);
    str_printf(w->out, "%lld", (long long)value);
}

void json_put_bool(struct json_writer *w, const char *key, bool value) {
    before_item(w, key);
    str_puts(w->out, value ? "true" : "false");
}

void json_put_null(struct json_writer *w, const char *key) { json_put_str(w, key, NULL); }

void json_put_raw(struct json_writer *w, const char *key, const char *json_text) {
    before_item(w, key);
    str_puts(w->out, json_text);
}
