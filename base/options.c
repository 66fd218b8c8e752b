#include "base/options.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

enum { LIST_MAX = 100000 };

struct reading {
    const struct option_part *parts;
    size_t n_parts;
    const char *file;
    struct arena *arena;
    struct err *err;
};

/* "file:line:col" of a node, or "file: --set" for one that came from the command line. */
static void where_of(const struct yaml_node *node, const char *file, char *buf, size_t size) {
    int line = node->key_line ? node->key_line : node->line;
    int column = node->key_line ? node->key_column : node->column;
    if (line)
        str_format(buf, size, "%.300s:%d:%d", file, line, column);
    else
        str_format(buf, size, "%.300s: --set", file);
}

int options_error(const struct yaml_node *node, const char *file, struct err *err, const char *fmt, ...) {
    char where[340], text[400];
    where_of(node, file, where, sizeof where);
    STR_ARGUMENTS(text, fmt);
    return err_set(err, ERR_INVALID, "%s: %s", where, text);
}

int options_check_list(const struct yaml_node *node, const char *file, const char *name, struct err *err) {
    if (node->type != YAML_SCALAR || node->quoted || !strchr(node->text, ','))
        return 0;
    return options_error(node, file, err, "%s is '%.80s'; expected a list: [%.80s]", name, node->text, node->text);
}

bool options_is_pattern(const char *text) {
    for (const char *p = text; *p; p++) {
        const bool set = *p == '[';
        if ((set || *p == '\\') && !*(p += 1 + (set && (p[1] == '!' || p[1] == '^'))))
            return false;
        if (set && !(p = strchr(p + 1, ']'))) /* "[]a]" stands for "]" and "a" */
            return false;
    }
    return true;
}

int options_check_patterns(const struct yaml_node *node, const char *file, const char *name, const struct option_list *list,
                           struct err *err) {
    for (size_t i = 0; i < list->count; i++)
        if (!options_is_pattern(list->items[i]))
            return options_error(node, file, err, "%s: '%.100s' has a [ without its ]", name, list->items[i]);
    return 0;
}

static const char *type_name(const struct option *o) {
    switch (o->type) {
    case OPTION_BOOL:
        return "true or false";
    case OPTION_I64:
        return "a whole number";
    case OPTION_F64:
        return "a number";
    case OPTION_STRING:
        return "text";
    case OPTION_SOURCE:
        return "text, or a list of sources";
    case OPTION_PATH:
        return "a file";
    case OPTION_RULE:
        return "a word, a pattern or a .csv";
    case OPTION_MODEL:
        return "a model";
    case OPTION_DURATION:
        return "a duration like 90s, 15m or 24h";
    case OPTION_BYTES:
        return "a size like 512MiB or 2TB";
    case OPTION_STRINGS:
        return "a list";
    case OPTION_F64S:
        return "a list of numbers";
    case OPTION_ENUM:
        return o->choices;
    default:
        return "a value";
    }
}

static int bad_value(struct reading *r, const struct option *o, const struct yaml_node *node) {
    const char *shown = node->type == YAML_SCALAR ? node->text : node->type == YAML_SEQUENCE ? "a list" : "a mapping";
    return options_error(node, r->file, r->err, "%s is '%.100s'; expected %s", o->name, shown, type_name(o));
}

/* "1 to 100", "at least 1000 ms": what check_range accepts; false when that is everything. */
static bool range_text(const struct option *o, char *buf, size_t size) {
    const char *unit = o->type == OPTION_DURATION ? " ms" : o->type == OPTION_BYTES ? " bytes" : "";
    if (o->min == 0 && o->max == 0)
        return false;
    if (o->max == 0 && o->min > 0)
        str_format(buf, size, "at least %.15g%s", o->min, unit);
    else
        str_format(buf, size, "%.15g to %.15g%s", o->min, o->max, unit);
    return true;
}

static int check_range(struct reading *r, const struct option *o, const struct yaml_node *node, double value) {
    char range[80];
    bool no_top = o->max == 0 && o->min > 0;
    if (!range_text(o, range, sizeof range) || (value >= o->min && (no_top || value <= o->max)))
        return 0;
    return options_error(node, r->file, r->err, "%s is %s; expected %s", o->name, node->text, range);
}

static int choice_of(const char *choices, const char *text) {
    size_t len = strlen(text);
    int index = 0;
    for (const char *p = choices;; index++) {
        size_t n = strcspn(p, "|");
        if (n == len && !strncmp(p, text, n))
            return index;
        if (!p[n])
            return -1;
        p += n + 1;
    }
}

static int read_number_list(struct reading *r, const struct option *o, const struct yaml_node *node, struct option_numbers *out) {
    size_t n = 0;
    for (const struct yaml_node *c = node->child; c; c = c->next)
        n++;
    if (node->type != YAML_SEQUENCE || n > LIST_MAX)
        return bad_value(r, o, node);
    double *items = arena_alloc(r->arena, (n + 1) * sizeof *items);
    if (!items)
        return err_set(r->err, ERR_EXHAUSTED, "%s: the file is too large", r->file);
    size_t i = 0;
    for (const struct yaml_node *c = node->child; c; c = c->next, i++) {
        int rc = c->type == YAML_SCALAR && !c->quoted && str_to_f64(c->text, &items[i]) ? check_range(r, o, c, items[i])
                                                                                        : bad_value(r, o, c);
        if (rc)
            return rc;
    }
    *out = (struct option_numbers){items, n};
    return 0;
}

static int read_string_list(struct reading *r, const struct option *o, const struct yaml_node *node, struct option_list *out) {
    size_t n = node->type == YAML_SCALAR ? 1 : 0;
    for (const struct yaml_node *c = node->child; c; c = c->next)
        n++;
    if (node->type == YAML_MAPPING || n > LIST_MAX)
        return bad_value(r, o, node);
    int rc = options_check_list(node, r->file, o->name, r->err);
    if (rc)
        return rc;
    const char **items = arena_alloc(r->arena, (n + 1) * sizeof *items);
    if (!items)
        return err_set(r->err, ERR_EXHAUSTED, "%s: the file is too large", r->file);
    size_t i = 0;
    if (node->type == YAML_SCALAR)
        items[i++] = node->text;
    for (const struct yaml_node *c = node->child; c; c = c->next) {
        if (c->type != YAML_SCALAR)
            return bad_value(r, o, c);
        items[i++] = c->text;
    }
    *out = (struct option_list){items, n};
    return 0;
}

/* "300" and "3e2"; the second form only where a double holds every whole number. */
static bool whole_number(const char *text, int64_t *ret) {
    double value;
    if (str_to_i64(text, ret))
        return true;
    if (!str_to_f64(text, &value) || !(value >= -0x1p53 && value <= 0x1p53) || value != (double)(int64_t)value)
        return false;
    *ret = (int64_t)value;
    return true;
}

static int read_scalar(struct reading *r, const struct option *o, const struct yaml_node *node, void *out) {
    const char *text = node->text;
    bool null = yaml_is_null(node);
    if (o->type == OPTION_SOURCE && node->type == YAML_SEQUENCE) {
        *(const char **)out = "";
        return 0;
    }
    if (node->type != YAML_SCALAR)
        return bad_value(r, o, node);
    switch (o->type) {
    case OPTION_STRING:
    case OPTION_PATH:
    case OPTION_RULE:
    case OPTION_MODEL:
    case OPTION_SOURCE:
        *(const char **)out = null ? NULL : text;
        return 0;
    case OPTION_BOOL:
        if (node->quoted || (strcmp(text, "true") && strcmp(text, "false")))
            return bad_value(r, o, node);
        *(bool *)out = !strcmp(text, "true");
        return 0;
    case OPTION_I64:
        if (node->quoted || !whole_number(text, out))
            return bad_value(r, o, node);
        return check_range(r, o, node, (double)*(int64_t *)out);
    case OPTION_F64:
        if (node->quoted || !str_to_f64(text, out))
            return bad_value(r, o, node);
        return check_range(r, o, node, *(double *)out);
    case OPTION_ENUM: {
        int index = choice_of(o->choices, text);
        if (index < 0)
            return bad_value(r, o, node);
        *(int *)out = index;
        return 0;
    }
    default: { /* DURATION, BYTES */
        int64_t *value = out;
        if (null || !strcmp(text, "none")) {
            *value = -1;
            return 0;
        }
        if (!(o->type == OPTION_DURATION ? str_to_duration_ms(text, value) : str_to_bytes(text, value)))
            return bad_value(r, o, node);
        return check_range(r, o, node, (double)*value);
    }
    }
}

static int read_value(struct reading *r, const struct option *o, void *target, const struct yaml_node *node) {
    void *out = (char *)target + o->offset;
    switch (o->type) {
    case OPTION_NOTICE:
        return 0;
    case OPTION_NODE:
        *(const struct yaml_node **)out = node;
        return 0;
    case OPTION_STRINGS:
        return read_string_list(r, o, node, out);
    case OPTION_F64S:
        return read_number_list(r, o, node, out);
    default:
        return read_scalar(r, o, node, out);
    }
}

static bool is_row(const struct option_part *parts, size_t n_parts, const char *name) {
    for (size_t p = 0; p < n_parts; p++)
        for (size_t i = 0; i < parts[p].table->count; i++)
            if (!strcmp(parts[p].table->rows[i].name, name))
                return true;
    return false;
}

bool options_known(const struct option_part *parts, size_t n_parts, const char *name) {
    size_t len = strlen(name);
    for (size_t p = 0; p < n_parts; p++)
        for (size_t i = 0; i < parts[p].table->count; i++) {
            const char *row = parts[p].table->rows[i].name;
            if (!strncmp(row, name, len) && (row[len] == '.' || !row[len]))
                return true;
        }
    return false;
}

/* How far `name` is from the row or group `candidate`; the right last part in the wrong place is near. */
static int distance_to(const char *candidate, const char *name) {
    const char *last = strrchr(candidate, '.'), *mine = strrchr(name, '.');
    int distance = str_distance(candidate, name);
    bool misplaced = !strcmp(last ? last + 1 : candidate, mine ? mine + 1 : name);
    return misplaced && distance > 2 ? 2 : distance;
}

/* The row or group of rows of the table that is nearest to `name`, when it is nearer than *best. */
static void look_for_nearest(const struct option_table *table, const char *name, int *best, char nearest[192]) {
    for (size_t i = 0; i < table->count; i++) {
        const char *row = table->rows[i].name;
        for (const char *dot = row; dot;) { /* "data", then "data.split", then "data.split.train" */
            char candidate[192];
            dot = strchr(dot + (dot != row), '.');
            if (!str_format(candidate, sizeof candidate, "%.*s", dot ? (int)(dot - row) : (int)strlen(row), row))
                break;
            int distance = distance_to(candidate, name);
            if (distance < *best) {
                *best = distance;
                str_copy(nearest, 192, candidate);
            }
        }
    }
}

static int unknown_key(struct reading *r, const struct yaml_node *node, const char *name) {
    char nearest[192] = "";
    int best = INT_MAX;
    for (size_t p = 0; p < r->n_parts; p++)
        look_for_nearest(r->parts[p].table, name, &best, nearest);
    if (!*nearest || 2 * (size_t)best > strlen(name)) /* near to nothing: a file of another kind? */
        return options_error(node, r->file, r->err,
                             "unknown key '%.100s'; `brrctl keys` lists those of a job file, `brrd --help-config` the daemon's",
                             name);
    return options_error(node, r->file, r->err, "unknown key '%.100s'; the nearest known key is '%s'", name, nearest);
}

/* Check that every key of the tree is a row or a group of rows. */
static int check_keys(struct reading *r, const struct yaml_node *mapping, const char *prefix) {
    for (const struct yaml_node *n = mapping->child; n; n = n->next) {
        char name[192];
        if (!str_format(name, sizeof name, "%s%s%s", prefix, *prefix ? "." : "", n->key))
            return unknown_key(r, n, n->key);
        if (is_row(r->parts, r->n_parts, name))
            continue;
        if (!options_known(r->parts, r->n_parts, name))
            return unknown_key(r, n, name);
        if (n->type == YAML_SCALAR && yaml_is_null(n))
            continue;
        if (n->type != YAML_MAPPING)
            return options_error(n, r->file, r->err, "%s is %.80s; expected keys below it", name,
                                 n->type == YAML_SCALAR ? n->text : "a list");
        int rc = check_keys(r, n, name);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_default(struct reading *r, const struct option *o, void *target) {
    if (o->type == OPTION_NOTICE)
        return 0;
    if (o->type == OPTION_NODE) {
        *(const struct yaml_node **)(void *)((char *)target + o->offset) = NULL;
        return 0;
    }
    if (!o->fallback)
        return err_set(r->err, ERR_INVALID, "%s: %s is missing; expected %s (%s)", r->file, o->name, type_name(o), o->help);
    struct yaml_node scalar = {.type = YAML_SCALAR, .text = o->fallback}, *node = &scalar;
    if (o->type == OPTION_F64S || o->type == OPTION_STRINGS) {
        int rc = yaml_parse(r->arena, o->fallback, strlen(o->fallback), o->name, &node, r->err);
        if (rc)
            return rc;
    }
    return read_value(r, o, target, node);
}

static int read_part(struct reading *r, const struct option_part *part, const struct yaml_node *root) {
    int rc;
    for (size_t i = 0; i < part->table->count; i++) {
        const struct option *o = &part->table->rows[i];
        const struct yaml_node *node = yaml_path(root, o->name);
        bool nullable = o->type == OPTION_DURATION || o->type == OPTION_BYTES;
        if (node && yaml_is_null(node) && (!nullable || !o->fallback))
            node = NULL;
        if ((rc = node ? read_value(r, o, part->target, node) : read_default(r, o, part->target)))
            return rc;
    }
    return 0;
}

int options_read_parts(const struct option_part *parts, size_t n_parts, const struct yaml_node *root, const char *file,
                       struct arena *arena, struct err *err) {
    struct reading r = {parts, n_parts, file, arena, err};
    if (root->type != YAML_MAPPING)
        return options_error(root, file, err, "expected keys and values");
    int rc = check_keys(&r, root, "");
    if (rc)
        return rc;
    for (size_t p = 0; p < n_parts; p++)
        if ((rc = read_part(&r, &parts[p], root)))
            return rc;
    return 0;
}

int options_read(const struct option_table *table, const struct yaml_node *root, const char *file, struct arena *arena,
                 void *target, struct err *err) {
    return options_read_parts(&(struct option_part){table, target}, 1, root, file, arena, err);
}

void options_notices(const struct option_table *table, const struct yaml_node *root,
                     void (*visit)(void *ctx, const char *key, const char *help), void *ctx) {
    for (size_t i = 0; i < table->count; i++)
        if (table->rows[i].type == OPTION_NOTICE && yaml_path(root, table->rows[i].name))
            visit(ctx, table->rows[i].name, table->rows[i].help);
}

/* "a number, 0 to 600" */
static const char *accepts_text(const struct option *o, char *buf, size_t size) {
    char range[80];
    bool ranged = range_text(o, range, sizeof range);
    str_format(buf, size, "%s%s%s", type_name(o), ranged ? ", " : "", ranged ? range : "");
    return buf;
}

/* As it would stand in YAML; NULL = required. */
static const char *default_text(const struct option *o) { return !o->fallback && o->type == OPTION_NODE ? "none" : o->fallback; }

void options_print(const struct option_table *table, FILE *out) {
    for (size_t i = 0; i < table->count; i++) {
        const struct option *o = &table->rows[i];
        char accepts[400];
        if (o->type == OPTION_NOTICE)
            continue;
        fprintf(out, "  %-36s %s\n", o->name, o->help);
        fprintf(out, "  %-36s   %s; %s%s\n", "", accepts_text(o, accepts, sizeof accepts),
                default_text(o) ? "default " : "required", default_text(o) ? default_text(o) : "");
    }
}

void options_put_json(const struct option *o, struct json_writer *w) {
    char accepts[400];
    json_put_str(w, "key", o->name);
    json_put_str(w, "accepts", accepts_text(o, accepts, sizeof accepts));
    json_put_bool(w, "required", !default_text(o));
    json_put_str(w, "default", default_text(o));
    json_put_str(w, "meaning", o->help);
}

const char **option_list_words(struct arena *arena, const struct option_list *list) {
    const char **words = arena_alloc(arena, (list->count + 1) * sizeof *words);
    for (size_t i = 0; words && i < list->count; i++)
        words[i] = list->items[i];
    if (words)
        words[list->count] = NULL;
    return words;
}
