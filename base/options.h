/* options: a configuration file as a table, one row per key. Reads a YAML tree into a plain struct with
 * defaults, types and ranges; unknown keys, wrong types and values out of range are errors that name
 * file:line:column, the expected value and the nearest known key. daemon.yaml and every job kind have one
 * table each; --help texts and docs are generated from the tables. */
#pragma once
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/json.h"
#include "base/yaml.h"

enum option_type {
    OPTION_BOOL,     /* bool */
    OPTION_I64,      /* int64_t, min..max */
    OPTION_F64,      /* double, min..max */
    OPTION_STRING,   /* const char * in the arena; NULL where the default is null */
    OPTION_PATH,     /* the same, naming a local file or the URL of an object */
    OPTION_RULE,     /* the same, a word or pattern, or, where it ends in .csv, a local file */
    OPTION_MODEL,    /* the same, naming a model: a job, a served name, a local file or the URL of an object */
    OPTION_SOURCE,   /* the same, naming where recordings are: a store's URL, a file:// folder or a prefix. "" for a list of
                      * sources, which the owner reads from the tree */
    OPTION_ENUM,     /* int: index into choices "a|b|c" */
    OPTION_DURATION, /* int64_t milliseconds; "none" and null → -1 */
    OPTION_BYTES,    /* int64_t bytes; "none" and null → -1 */
    OPTION_STRINGS,  /* struct option_list of const char *: a sequence of scalars, or one scalar */
    OPTION_F64S,     /* struct option_numbers: a sequence of numbers */
    OPTION_NODE,     /* const struct yaml_node *: a free-form subtree the owner reads; NULL when absent */
    OPTION_NOTICE,   /* accepted for old files, does nothing; help says what to tell the user */
};

/* True if a value of this type names a local file. */
static inline bool option_names_file(enum option_type type, const char *value) {
    const size_t len = value ? strlen(value) : 0;
    return value && (type == OPTION_PATH || (type == OPTION_RULE && len > 4 && !strcmp(value + len - 4, ".csv")));
}

struct option_list {
    const char **items;
    size_t count;
};
/* The items and NULL behind them, in the arena; NULL when out of memory. */
const char **option_list_words(struct arena *arena, const struct option_list *list);
struct option_numbers {
    double *items;
    size_t count;
};

struct option {
    const char *name; /* "data.window_s" */
    enum option_type type;
    size_t offset;        /* into the target struct; ignored for NOTICE */
    const char *fallback; /* default as it would stand in YAML; NULL = required */
    double min, max;      /* numbers, durations in ms, bytes; both 0 = unlimited, max 0 under a positive min = no upper limit.
                             Lists: each element */
    const char *choices;  /* ENUM: "a|b|c" */
    const char *help;     /* one line */
};

struct option_table {
    const struct option *rows;
    size_t count;
};
/* The table of all rows of an array. */
#define OPTION_TABLE(rows)                                                                                                         \
    { rows, sizeof(rows) / sizeof *(rows) }

/* Several tables that make up one file, each with a target of its own. */
struct option_part {
    const struct option_table *table;
    void *target;
};

/* Fill the targets from defaults and tree. Strings and lists live in the arena. A null value means the default, except for
 * durations and sizes (-1); so a string is NULL only where its default is "null". A required key that is null is missing. */
int options_read_parts(const struct option_part *parts, size_t n_parts, const struct yaml_node *root, const char *file,
                       struct arena *arena, struct err *err);
/* The same of one table. */
int options_read(const struct option_table *table, const struct yaml_node *root, const char *file, struct arena *arena,
                 void *target, struct err *err);
/* True if a row has this name, or names that begin with it and a dot. */
bool options_known(const struct option_part *parts, size_t n_parts, const char *name);
/* Calls visit for each NOTICE key present in the tree. */
void options_notices(const struct option_table *table, const struct yaml_node *root,
                     void (*visit)(void *ctx, const char *key, const char *help), void *ctx);
/* Error at a node, for owners of OPTION_NODE subtrees: "file:line:col: message". */
int options_error(const struct yaml_node *node, const char *file, struct err *err, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* INVALID for a plain text such as "a, b" where a list is expected; other texts are lists of one. */
int options_check_list(const struct yaml_node *node, const char *file, const char *name, struct err *err);
/* False for a pattern of fnmatch with a "[" without its "]", or a backslash at its end: it would match itself alone. */
bool options_is_pattern(const char *text);
/* INVALID unless all texts of the list are such patterns. */
int options_check_patterns(const struct yaml_node *node, const char *file, const char *name, const struct option_list *list,
                           struct err *err);
/* The table for people; NOTICE rows are left out. */
void options_print(const struct option_table *table, FILE *out);
/* Members of an open object for programs: key, accepts, required, default, meaning. */
void options_put_json(const struct option *row, struct json_writer *w);
