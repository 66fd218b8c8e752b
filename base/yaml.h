/* yaml: one YAML document as a tree whose nodes carry line and column. The only module that includes libyaml.
 * Tags, anchors, aliases, further documents and duplicate keys are errors with file:line:column. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"

enum yaml_type { YAML_SCALAR, YAML_SEQUENCE, YAML_MAPPING };

struct yaml_node {
    enum yaml_type type;
    const char *text; /* scalar value, or "" */
    bool quoted;      /* scalar was quoted: never a number, bool or null */
    int line, column; /* from 1; 0 for nodes made by yaml_set */
    const char *key;  /* within a mapping, else NULL */
    int key_line, key_column;
    struct yaml_node *child, *next; /* first child; next sibling */
};

/* All nodes live in the arena. An empty document is an empty mapping. */
int yaml_parse(struct arena *arena, const char *text, size_t len, const char *file, struct yaml_node **ret, struct err *err);
struct yaml_node *yaml_get(const struct yaml_node *mapping, const char *key);
/* Returns the node at "a.b.c" through nested mappings, or NULL. */
struct yaml_node *yaml_path(const struct yaml_node *root, const char *path);
/* Applies "a.b=value" (the --set form): value is parsed as a YAML flow value; missing mappings on the path are created. */
int yaml_set(struct arena *arena, struct yaml_node *root, const char *assignment, struct err *err);
/* True for an unquoted empty value, "~" and null. */
bool yaml_is_null(const struct yaml_node *node);
