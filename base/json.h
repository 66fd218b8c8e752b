/* json: a reader (immutable tree over jansson) and a writer (streams into a struct str).
 * The only module that includes jansson. One thread per document. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/members.h"
#include "base/str.h"

struct json;
enum json_kind {
    JSON_KIND_NULL,
    JSON_KIND_BOOL,
    JSON_KIND_INTEGER,
    JSON_KIND_REAL,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

/* Parses a document; errors carry `name`, line and column. Depth beyond 64, duplicate keys, NUL characters and more than
 * JSON_MAX_NODES nodes are errors, the first and the last before anything is allocated. A node is a value or a key; an array counts
 * as 3 and an object as 4, so that a node takes about 70 bytes of memory. */
enum { JSON_MAX_NODES = 1 << 20 };
int json_parse(const char *text, size_t len, const char *name, struct json **ret, struct err *err);
void json_free(struct json *root); /* takes NULL; only the root of a parse may be freed */
/* The document of a file of at most this many bytes. */
int json_read(const char *path, size_t max_bytes, struct json **ret, struct err *err);
/* json_parse with a smaller limit. */
int json_parse_at_most(const char *text, size_t len, size_t max_nodes, const char *name, struct json **ret, struct err *err);
OWNABLE(struct json, json_free)
enum json_kind json_kind(const struct json *j);                          /* JSON_KIND_NULL for NULL */
const struct json *json_get(const struct json *object, const char *key); /* NULL when absent or not an object */
size_t json_count(const struct json *j);                                 /* members or elements; 0 otherwise */
const struct json *json_at(const struct json *array, size_t index);
/* Iterates over the members in insertion order, O(1) each: start with a zeroed cursor; json_next returns false at the end. */
struct json_cursor {
    void *at;
    bool started;
};
bool json_next(const struct json *object, struct json_cursor *cursor, const char **ret_key, const struct json **ret_value);
/* The value of a scalar, or the fallback when it is absent or has another type. */
const char *json_str(const struct json *j, const char *fallback);
double json_f64(const struct json *j, double fallback); /* integers too */
int64_t json_i64(const struct json *j, int64_t fallback);
bool json_bool(const struct json *j, bool fallback);
/* Members of an object into those of a struct, each found by its name in the struct: JSON_TAKE(tree, *score, f1, seizures). A text
 * is copied into its array, cut where it is longer. Absent ones are "", NaN, 0 and false. */
#define JSON_TAKE(tree, to, ...) EACH_MEMBER(JSON_TAKE_MEMBER, tree, to, __VA_ARGS__)
#define JSON_TAKE_MEMBER(tree, to, member)                                                                                         \
    _Generic((to).member, char * : json_take_text, double : json_take_f64, int64_t : json_take_i64, bool : json_take_bool)(        \
        json_get(tree, #member), (void *)&(to).member, sizeof(to).member);
void json_take_text(const struct json *j, char *to, size_t size);
void json_take_f64(const struct json *j, double *to, size_t size);
void json_take_i64(const struct json *j, int64_t *to, size_t size);
void json_take_bool(const struct json *j, bool *to, size_t size);

/* The writer produces one compact line and inserts commas. key is NULL inside arrays and at the root. Non-finite numbers become
 * null; f64 uses the fewest digits that read back equal; invalid UTF-8 becomes U+FFFD. */
struct json_writer {
    struct str *out;
    uint64_t has_item; /* one bit per depth */
    int depth;
};
/* A writer of JSON to the end of `out`; json_writer_init makes it in place. */
static inline struct json_writer json_to(struct str *out) { return (struct json_writer){.out = out}; }
void json_writer_init(struct json_writer *w, struct str *out);
struct json_writer json_object_to(struct str *out); /* whose object has begun: json_end(&w, '}') */
void json_begin_object(struct json_writer *w, const char *key);
void json_begin_array(struct json_writer *w, const char *key);
void json_end(struct json_writer *w, char close);                             /* '}' or ']' */
void json_put_str(struct json_writer *w, const char *key, const char *value); /* NULL → null */
void json_put_f64(struct json_writer *w, const char *key, double value);
void json_put_i64(struct json_writer *w, const char *key, int64_t value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_null(struct json_writer *w, const char *key);
void json_put_raw(struct json_writer *w, const char *key, const char *json_text); /* already valid JSON */

/* Members of an open object, each under its name in the struct: JSON_MEMBERS(w, *score, f1, precision). JSON_OBJECT: an object of
 * them. */
#define JSON_MEMBERS(w, of, ...)   EACH_MEMBER(JSON_MEMBER, w, of, __VA_ARGS__)
#define JSON_MEMBER(w, of, member) json_put(w, #member, (of).member);
#define JSON_OBJECT(w, key, of, ...)                                                                                               \
    do {                                                                                                                           \
        json_begin_object(w, key);                                                                                                 \
        JSON_MEMBERS(w, of, __VA_ARGS__);                                                                                          \
        json_end(w, '}');                                                                                                          \
    } while (0)
/* An array of n values. */
#define JSON_ARRAY(w, key, values, n)                                                                                              \
    do {                                                                                                                           \
        json_begin_array(w, key);                                                                                                  \
        for (size_t value_ = 0; value_ < (size_t)(n); value_++)                                                                    \
            json_put(w, NULL, (values)[value_]);                                                                                   \
        json_end(w, ']');                                                                                                          \
    } while (0)
/* As the type of the value says: a bool, a text, a number with a fraction or without. */
#define json_put(w, key, value)                                                                                                    \
    _Generic((value), bool                                                                                                         \
             : json_put_bool, char *                                                                                               \
             : json_put_str, const char *                                                                                          \
             : json_put_str, float                                                                                                 \
             : json_put_f64, double                                                                                                \
             : json_put_f64, default                                                                                               \
             : json_put_i64)(w, key, value)
