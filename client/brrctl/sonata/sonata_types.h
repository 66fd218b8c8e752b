/* sonata_types: a table of node types or edge types (columns separated by blanks, NULL for an absent value), and the parameters
 * that its rows name. One thread. */
#pragma once
#include "client/brrctl/sonata/sonata_config.h"

enum { SONATA_MOST_TYPES = 4096 };

struct sonata_types {
    char path[4096];
    int n, columns;
    char **cells;      /* (1 + n) rows of `columns`: the names first */
    int64_t *ids;      /* (n) */
    struct json **own; /* (n) parameters of the file that dynamics_params names; NULL: none */
    char **own_path;   /* (n) their files */
};
/* id_name: "node_type_id" or "edge_type_id". path "": no types. */
int sonata_types_load(const char *path, const char *id_name, struct sonata_types *ret, struct err *err);
/* The files that dynamics_params names; components: the key of their folder. */
int sonata_types_parameters(struct sonata_types *t, const struct sonata_config *c, const char *components, struct err *err);
void sonata_types_done(struct sonata_types *t); /* also of a zeroed struct */
/* The row of a type; -1: none. */
int sonata_types_row(const struct sonata_types *t, int64_t id);
/* A value of a row; NULL: the table has none. */
const char *sonata_types_text(const struct sonata_types *t, int row, const char *column);
/* The same as a number; *ret stays where there is none. */
int sonata_types_number(const struct sonata_types *t, int row, const char *column, double *ret, struct err *err);
