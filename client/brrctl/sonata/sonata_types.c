#include "client/brrctl/sonata/sonata_types.h"

#include "base/base.h"
#include "eeg/table.h"

static bool is_absent(const char *text) { return !*text || !strcmp(text, "NULL") || !strcmp(text, "None"); }

static int copy_cells(struct sonata_types *t, const char *const *texts, int n, struct err *err) {
    char **row = t->cells + (size_t)t->columns * (size_t)(1 + t->n);
    for (int i = 0; i < t->columns; i++)
        if (!(row[i] = strdup(i < n ? texts[i] : "")))
            return err_set(err, ERR_EXHAUSTED, "%s: out of memory", t->path);
    return 0;
}

static int read_types(struct sonata_types *t, struct table *table, const char *id_name, struct err *err) {
    bool more = true;
    int id, rc = table_require(table, id_name, &id, err);
    if (rc)
        return rc;
    t->columns = table->n_names;
    t->cells = calloc((size_t)t->columns * (SONATA_MOST_TYPES + 1), sizeof *t->cells);
    t->ids = calloc(SONATA_MOST_TYPES, sizeof *t->ids);
    t->own = calloc(SONATA_MOST_TYPES, sizeof(struct json *));
    t->own_path = calloc(SONATA_MOST_TYPES, sizeof *t->own_path);
    if (!t->cells || !t->ids || !t->own || !t->own_path)
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", t->path);
    t->n = -1; /* the names are row −1 */
    if ((rc = copy_cells(t, table->names, table->n_names, err)))
        return rc;
    for (t->n = 0; !(rc = table_next(table, &more, err)) && more; t->n++) {
        if (t->n == SONATA_MOST_TYPES)
            return err_set(err, ERR_UNSUPPORTED, "%s has more than %d types", t->path, SONATA_MOST_TYPES);
        if ((rc = copy_cells(t, table->fields, table->n_fields, err)))
            return rc;
        if (!str_to_i64(table_field(table, id), &t->ids[t->n]))
            return err_set(err, ERR_INVALID, "%s:%d: %s is '%s'; expected a whole number", t->path, table->line, id_name,
                           table_field(table, id));
    }
    return rc;
}

int sonata_types_parameters(struct sonata_types *t, const struct sonata_config *c, const char *components, struct err *err) {
    for (int i = 0; i < t->n; i++) {
        const char *name = sonata_types_text(t, i, "dynamics_params");
        char path[4096];
        int rc;
        if (!name)
            continue;
        if ((rc = sonata_config_component(c, components, name, path, err)) || (rc = sonata_json(path, &t->own[i], err)))
            return rc;
        if (!(t->own_path[i] = strdup(path)))
            return err_set(err, ERR_EXHAUSTED, "%s: out of memory", t->path);
    }
    return 0;
}

int sonata_types_load(const char *path, const char *id_name, struct sonata_types *ret, struct err *err) {
    struct sonata_types t = {0};
    struct table table;
    str_copy(t.path, sizeof t.path, path);
    int rc;
    *ret = t;
    if (!*path)
        return 0;
    if ((rc = table_open(&table, path, ' ', NULL, NULL, err)))
        return rc;
    rc = read_types(&t, &table, id_name, err);
    table_close(&table);
    if (rc)
        sonata_types_done(&t);
    else
        *ret = t;
    return rc;
}

void sonata_types_done(struct sonata_types *t) {
    for (size_t i = 0; t->cells && i < (size_t)t->columns * (SONATA_MOST_TYPES + 1); i++)
        free(t->cells[i]);
    for (int i = 0; i < t->n; i++) {
        json_free(t->own[i]);
        free(t->own_path[i]);
    }
    FREE_MEMBERS(*t, cells, ids, own, own_path);
    *t = (struct sonata_types){0};
}

int sonata_types_row(const struct sonata_types *t, int64_t id) {
    for (int i = 0; i < t->n; i++)
        if (t->ids[i] == id)
            return i;
    return -1;
}

const char *sonata_types_text(const struct sonata_types *t, int row, const char *column) {
    for (int i = 0; row >= 0 && i < t->columns; i++) {
        const char *text = t->cells[(size_t)t->columns * (size_t)(1 + row) + (size_t)i];
        if (!strcmp(t->cells[i], column))
            return is_absent(text) ? NULL : text;
    }
    return NULL;
}

int sonata_types_number(const struct sonata_types *t, int row, const char *column, double *ret, struct err *err) {
    const char *text = sonata_types_text(t, row, column);
    if (text && !str_to_f64(text, ret))
        return err_set(err, ERR_INVALID, "%s: %s of type %lld is '%s'; expected a number", t->path, column, (long long)t->ids[row],
                       text);
    return 0;
}
