#include "work/identity.h"

enum { PATH_SIZE = 4096, IDENTITY_BYTES = 4 << 20 };

static const char file_name[] = "identity.json";

/* Keys of kinds that say how a job computes, and not what; so do all keys that every job has. */
static bool changes_results(const struct option *row) {
    static const char *const others[] = {"kind",
                                         "name",
                                         "priority",
                                         "device",
                                         "devices",
                                         "executor",
                                         "resources.",
                                         "array.",
                                         "limits.",
                                         "checkpoint.every",
                                         "checkpoint.keep",
                                         "checkpoint.keep_best",
                                         "checkpoint.upload",
                                         "data.loader_workers",
                                         "data.num_workers",
                                         "data.resident"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (str_ends(others[i], ".") ? str_starts(row->name, others[i]) : !strcmp(row->name, others[i]))
            return false;
    return row->type != OPTION_NOTICE;
}

/* A value as it would stand in YAML. */
static void put_node(const struct yaml_node *node, struct str *out) {
    if (node->type == YAML_SCALAR) {
        str_puts(out, node->text);
        return;
    }
    str_puts(out, node->type == YAML_SEQUENCE ? "[" : "{");
    for (const struct yaml_node *child = node->child; child; child = child->next) {
        if (child->key)
            str_printf(out, "%s: ", child->key);
        put_node(child, out);
        str_puts(out, child->next ? ", " : "");
    }
    str_puts(out, node->type == YAML_SEQUENCE ? "]" : "}");
}

static void put_value(const struct jobfile *job, const struct option *row, struct str *out) {
    const struct yaml_node *node = yaml_path(job->root, row->name);
    if (node && !yaml_is_null(node))
        put_node(node, out);
    else
        str_puts(out, row->fallback ? row->fallback : "");
}

typedef void row_fn(void *ctx, const struct option *row, const char *value);

static void each_key(const struct jobfile *job, row_fn *visit, void *ctx) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    int n = jobfile_tables(job->kind, tables);
    for (int t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct option *row = &tables[t]->rows[i];
            OWNED(str_done) struct str value = str_of(IDENTITY_BYTES);
            if (!changes_results(row))
                continue;
            put_value(job, row, &value);
            visit(ctx, row, str_cstr(&value));
        }
}

static void put_row(void *ctx, const struct option *row, const char *value) { json_put_str(ctx, row->name, value); }

static int write_identity(const struct jobfile *job, const char *path, struct err *err) {
    OWNED(str_done) struct str text = str_of(IDENTITY_BYTES);
    struct json_writer w = json_object_to(&text);
    json_put_str(&w, "kind", job->kind->name);
    json_begin_object(&w, "keys");
    each_key(job, put_row, &w);
    json_end(&w, '}');
    json_end(&w, '}');
    str_puts(&text, "\n");
    return fsio_write_text(path, &text, err);
}

/* "1e-3" is "0.001". */
static bool same(const char *a, const char *b) {
    double x, y;
    return !strcmp(a, b) || (str_to_f64(a, &x) && str_to_f64(b, &y) && !(x < y) && !(x > y));
}

struct difference {
    const struct json *keys; /* as they were */
    struct str text;
    int n;
    bool longer; /* a training of another length */
};

static void compare_row(void *ctx, const struct option *row, const char *value) {
    enum { SHOWN = 6 };
    struct difference *d = ctx;
    const char *was = json_str(json_get(d->keys, row->name), row->fallback ? row->fallback : "");
    if (same(was, value))
        return;
    d->longer |= !strcmp(row->name, "training.max_steps") || !strcmp(row->name, "training.epochs");
    if (d->n++ < SHOWN)
        str_printf(&d->text, "%s%s: %.60s (was %.60s)", d->n > 1 ? ", " : "", row->name, *value ? value : "none",
                   *was ? was : "none");
}

static int compare(const struct jobfile *job, const char *directory, const struct json *identity, struct err *err) {
    const char *kind = json_str(json_get(identity, "kind"), "");
    struct difference d = {.keys = json_get(identity, "keys")};
    if (strcmp(kind, job->kind->name) != 0)
        return err_set(err, ERR_PRECONDITION, "%.200s holds a job of kind %.20s, and this one is of kind %s; take another folder",
                       directory, kind, job->kind->name);
    str_init(&d.text, IDENTITY_BYTES);
    each_key(job, compare_row, &d);
    int rc =
        !d.n ? 0
             : err_set(err, ERR_PRECONDITION, "%.100s holds a job with other values of %d key%s: %.230s%s; take another folder%s",
                       directory, d.n, d.n == 1 ? "" : "s", str_cstr(&d.text), d.text.len > 230 ? "…" : "",
                       d.longer ? ", and train its model further with model.init_from" : "");
    str_done(&d.text);
    return rc;
}

int identity_claim(const struct jobfile *job, const char *directory, bool write, struct err *err) {
    char path[PATH_SIZE];
    OWNED_MEMORY char *text = NULL;
    OWNED_POINTER(json_free) struct json *identity = NULL;
    size_t len;
    int rc = fsio_join(path, sizeof path, directory, file_name, err);
    if (rc)
        return rc;
    if (!fsio_exists(path))
        return write ? write_identity(job, path, err) : 0;
    if ((rc = fsio_read(path, IDENTITY_BYTES, &text, &len, err)))
        return rc;
    if (json_parse(text, len, path, &identity, err))
        return err_wrap(err, "%s is no identity of a job; move it away", path);
    return compare(job, directory, identity, err);
}
