#include "base/yaml.h"

#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"

#include <string.h>
#include <yaml.h>

enum { MAX_DEPTH = 32, MAX_KEYS = 10000 };

struct reader {
    struct arena *arena;
    yaml_parser_t parser;
    const char *file, *text;
    size_t len;
    struct err *err;
};

static int fail_at(struct reader *r, yaml_mark_t mark, const char *what) {
    return err_set(r->err, ERR_INVALID, "%s:%zu:%zu: %s", r->file, mark.line + 1, mark.column + 1, what);
}

static int next_event(struct reader *r, yaml_event_t *event) {
    if (yaml_parser_parse(&r->parser, event))
        return 0;
    const char *problem = r->parser.problem ? r->parser.problem : "not valid YAML";
    yaml_mark_t mark = r->parser.problem_mark;
    if (r->parser.error == YAML_READER_ERROR) { /* bad encoding: libyaml tells the offset only */
        mark = (yaml_mark_t){0};
        for (size_t i = 0; i < r->parser.problem_offset && i < r->len; i++) {
            mark.column = r->text[i] == '\n' ? 0 : mark.column + 1;
            mark.line += r->text[i] == '\n';
        }
    }
    return fail_at(r, mark, problem);
}

static int read_node(struct reader *r, const yaml_event_t *event, int depth, struct yaml_node **ret);

static struct yaml_node *make_node(struct reader *r, enum yaml_type type, yaml_mark_t mark) {
    struct yaml_node *node = arena_alloc(r->arena, sizeof *node);
    if (node)
        *node = (struct yaml_node){.type = type, .text = "", .line = (int)mark.line + 1, .column = (int)mark.column + 1};
    return node;
}

static int check_plain(struct reader *r, const yaml_event_t *event, const yaml_char_t *anchor, const yaml_char_t *tag) {
    if (anchor)
        return fail_at(r, event->start_mark, "anchors are not accepted; write the value out where it is needed");
    if (tag)
        return fail_at(r, event->start_mark, "tags are not accepted; quote a value to make it text");
    return 0;
}

static int read_scalar(struct reader *r, const yaml_event_t *event, struct yaml_node **ret) {
    int rc = check_plain(r, event, event->data.scalar.anchor, event->data.scalar.tag);
    if (rc)
        return rc;
    struct yaml_node *node = make_node(r, YAML_SCALAR, event->start_mark);
    char *text = node ? arena_strndup(r->arena, (const char *)event->data.scalar.value, event->data.scalar.length) : NULL;
    if (!text)
        return err_set(r->err, ERR_EXHAUSTED, "%s: the document is too large", r->file);
    if (strlen(text) != event->data.scalar.length)
        return fail_at(r, event->start_mark, "a NUL character is not accepted");
    node->text = text;
    node->quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    *ret = node;
    return 0;
}

static void keys_done(struct map **keys) { map_free(*keys, NULL); }

/* Children up to the end event of a sequence or mapping. */
static int read_children(struct reader *r, struct yaml_node *parent, int depth) {
    struct yaml_node **tail = &parent->child;
    yaml_event_type_t end = parent->type == YAML_SEQUENCE ? YAML_SEQUENCE_END_EVENT : YAML_MAPPING_END_EVENT;
    OWNED(keys_done) struct map *keys = parent->type == YAML_MAPPING ? map_new(MAX_KEYS) : NULL;
    if (parent->type == YAML_MAPPING && !keys)
        return err_set(r->err, ERR_EXHAUSTED, "%s: out of memory", r->file);
    for (int n_keys = 0;;) {
        yaml_event_t event;
        struct yaml_node *key = NULL, *child = NULL;
        int rc = next_event(r, &event);
        if (rc)
            return rc;
        if (event.type == end) {
            yaml_event_delete(&event);
            return 0;
        }
        if (parent->type == YAML_MAPPING) {
            rc = event.type == YAML_SCALAR_EVENT ? read_scalar(r, &event, &key)
                                                 : fail_at(r, event.start_mark, "a key must be plain text");
            if (!rc && ++n_keys > MAX_KEYS)
                rc = fail_at(r, event.start_mark, "more than 10000 keys in one mapping");
            if (!rc && map_get(keys, key->text))
                rc = err_set(r->err, ERR_INVALID, "%s:%d:%d: key '%s' appears twice", r->file, key->line, key->column, key->text);
            yaml_event_delete(&event);
            if (rc || (rc = next_event(r, &event)))
                return rc;
        }
        rc = read_node(r, &event, depth + 1, &child);
        yaml_event_delete(&event);
        if (rc)
            return rc;
        if (key) {
            if ((rc = map_put(keys, key->text, child, NULL)))
                return err_set(r->err, rc, "%s: out of memory", r->file);
            child->key = key->text;
            child->key_line = key->line;
            child->key_column = key->column;
        }
        *tail = child;
        tail = &child->next;
    }
}

static int read_node(struct reader *r, const yaml_event_t *event, int depth, struct yaml_node **ret) {
    if (depth > MAX_DEPTH)
        return fail_at(r, event->start_mark, "nested too deeply");
    if (event->type == YAML_ALIAS_EVENT)
        return fail_at(r, event->start_mark, "aliases are not accepted");
    if (event->type == YAML_SCALAR_EVENT)
        return read_scalar(r, event, ret);
    bool sequence = event->type == YAML_SEQUENCE_START_EVENT;
    if (!sequence && event->type != YAML_MAPPING_START_EVENT)
        return fail_at(r, event->start_mark, "expected a value");
    int rc = sequence ? check_plain(r, event, event->data.sequence_start.anchor, event->data.sequence_start.tag)
                      : check_plain(r, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
    if (rc)
        return rc;
    struct yaml_node *node = make_node(r, sequence ? YAML_SEQUENCE : YAML_MAPPING, event->start_mark);
    if (!node)
        return err_set(r->err, ERR_EXHAUSTED, "%s: the document is too large", r->file);
    if ((rc = read_children(r, node, depth)))
        return rc;
    *ret = node;
    return 0;
}

static int read_document(struct reader *r, struct yaml_node **ret) {
    yaml_event_t event;
    int rc;
    bool seen = false;
    for (;;) {
        if ((rc = next_event(r, &event)))
            return rc;
        yaml_event_type_t type = event.type;
        if (type == YAML_DOCUMENT_START_EVENT && seen)
            rc = fail_at(r, event.start_mark, "only one document is accepted");
        if (type == YAML_DOCUMENT_START_EVENT) {
            seen = true;
        } else if (!rc && type != YAML_STREAM_START_EVENT && type != YAML_STREAM_END_EVENT && type != YAML_DOCUMENT_END_EVENT) {
            rc = read_node(r, &event, 0, ret);
        }
        yaml_event_delete(&event);
        if (rc || type == YAML_STREAM_END_EVENT)
            return rc;
    }
}

/* The root node of the text; *ret stays NULL when it has none (blanks, comments). */
static int read_text(struct arena *arena, const char *text, size_t len, const char *file, struct yaml_node **ret, struct err *err) {
    struct reader r = {.arena = arena, .file = file, .text = text, .len = len, .err = err};
    if (!yaml_parser_initialize(&r.parser))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", file);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
    int rc = read_document(&r, ret);
    yaml_parser_delete(&r.parser);
    return rc;
}

int yaml_parse(struct arena *arena, const char *text, size_t len, const char *file, struct yaml_node **ret, struct err *err) {
    struct yaml_node *root = NULL;
    int rc = read_text(arena, text, len, file, &root, err);
    if (rc)
        return rc;
    if (!root || yaml_is_null(root)) {
        root = arena_alloc(arena, sizeof *root);
        if (!root)
            return err_set(err, ERR_EXHAUSTED, "%s: the document is too large", file);
        *root = (struct yaml_node){.type = YAML_MAPPING, .text = "", .line = 1, .column = 1};
    }
    *ret = root;
    return 0;
}

struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key) {
    if (!mapping || mapping->type != YAML_MAPPING)
        return NULL;
    for (struct yaml_node *n = mapping->child; n; n = n->next)
        if (!strcmp(n->key, key))
            return n;
    return NULL;
}

struct yaml_node *yaml_path(const struct yaml_node *root, const char *path) {
    char part[128];
    struct yaml_node *node = NULL;
    for (const struct yaml_node *at = root;; at = node) {
        size_t len = strcspn(path, ".");
        if (len >= sizeof part)
            return NULL;
        memcpy(part, path, len);
        part[len] = '\0';
        node = yaml_get(at, part);
        if (!node || !path[len])
            return node;
        path += len + 1;
    }
}

/* The value node takes the place of (or is added as) `key` in mapping. */
static void put_child(struct yaml_node *mapping, const char *key, struct yaml_node *value) {
    struct yaml_node **link = &mapping->child;
    while (*link && strcmp((*link)->key, key))
        link = &(*link)->next;
    value->next = *link ? (*link)->next : NULL;
    value->key = key;
    *link = value;
}

static void forget_lines(struct yaml_node *node) {
    node->line = node->column = node->key_line = node->key_column = 0;
    for (struct yaml_node *n = node->child; n; n = n->next)
        forget_lines(n);
}

int yaml_set(struct arena *arena, struct yaml_node *root, const char *assignment, struct err *err) {
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment)
        return err_set(err, ERR_INVALID, "--set %s: expected KEY=VALUE", assignment);
    char name[192];
    struct yaml_node *value = NULL;
    int rc = 0;
    str_format(name, sizeof name, "--set %.*s", (int)(equals - assignment), assignment);
    if (!equals[1]) {
        if (!(value = arena_alloc(arena, sizeof *value)))
            return err_set(err, ERR_EXHAUSTED, "%s: the document is too large", name);
        *value = (struct yaml_node){.type = YAML_SCALAR, .text = ""};
    } else if ((rc = read_text(arena, equals + 1, strlen(equals + 1), name, &value, err))) {
        return rc;
    } else if (!value) {
        return err_set(err, ERR_INVALID, "%s: '%s' holds no value; quote it if it is meant as text", name, equals + 1);
    }
    forget_lines(value);
    struct yaml_node *at = root;
    for (const char *p = assignment;;) {
        size_t len = strcspn(p, ".=");
        char *key = arena_strndup(arena, p, len);
        if (!key)
            return err_set(err, ERR_EXHAUSTED, "%s: the document is too large", name);
        if (!len || at->type != YAML_MAPPING)
            return err_set(err, ERR_INVALID, "%s: '%s' has no keys below it", name, key);
        if (p[len] == '=') {
            put_child(at, key, value);
            return 0;
        }
        struct yaml_node *next = yaml_get(at, key);
        if (!next || yaml_is_null(next)) {
            if (!(next = arena_alloc(arena, sizeof *next)))
                return err_set(err, ERR_EXHAUSTED, "%s: the document is too large", name);
            *next = (struct yaml_node){.type = YAML_MAPPING, .text = ""};
            put_child(at, key, next);
        }
        at = next;
        p += len + 1;
    }
}

bool yaml_is_null(const struct yaml_node *node) {
    return node->type == YAML_SCALAR && !node->quoted && (!*node->text || !strcmp(node->text, "~") || !strcmp(node->text, "null"));
}
