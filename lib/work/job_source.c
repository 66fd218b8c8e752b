#include "work/job_source.h"

#define WEIGHT_LEAST 1e-3
#define WEIGHT_MOST  1e3
enum { NAME_SIZE = 64 };

/* One item of the list, as written. */
struct item {
    const struct yaml_node *node;
    const char *uri, *name;
    double weight; /* 0: none */
    int number;
};

static int bad(const struct jobfile *job, const struct item *item, const char *what, struct err *err) {
    return options_error(item->node, job->file, err, "data.source[%d]: %s", item->number, what);
}

static int read_key(const struct jobfile *job, const struct yaml_node *node, struct item *item, struct err *err) {
    bool text = node->type == YAML_SCALAR && *node->text && !yaml_is_null(node);
    if (!strcmp(node->key, "uri") && text)
        item->uri = node->text;
    else if (!strcmp(node->key, "name") && text)
        item->name = node->text;
    else if (!strcmp(node->key, "weight") && text && str_to_f64(node->text, &item->weight) && item->weight >= WEIGHT_LEAST &&
             item->weight <= WEIGHT_MOST)
        return 0;
    else
        return options_error(node, job->file, err,
                             "data.source[%d].%s: expected uri (text), name (text) or weight (a number, 0.001 to 1000)",
                             item->number, node->key);
    return 0;
}

/* The last part of the URI. */
static const char *last_part(const char *uri, struct arena *arena) {
    size_t end = strlen(uri);
    while (end && uri[end - 1] == '/')
        end--;
    size_t start = end;
    while (start && uri[start - 1] != '/')
        start--;
    return arena_strndup(arena, uri + start, end - start);
}

static bool is_name(const char *name) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return *name && *name != '.' && strlen(name) < NAME_SIZE && !name[strspn(name, allowed)];
}

static int read_item(const struct jobfile *job, struct item *item, struct arena *arena, struct err *err) {
    const struct yaml_node *node = item->node;
    int rc = 0;
    if (node->type == YAML_SCALAR)
        item->uri = node->text;
    for (const struct yaml_node *key = node->type == YAML_MAPPING ? node->child : NULL; key && !rc; key = key->next)
        rc = read_key(job, key, item, err);
    if (rc)
        return rc;
    if (!item->uri || !*item->uri || strchr(item->uri, '\n'))
        return bad(job, item, "expected a source's uri, such as {uri: \"store://NAME/prefix\", weight: 2}", err);
    if (!item->name && !(item->name = last_part(item->uri, arena)))
        return err_set(err, ERR_EXHAUSTED, "%s: data.source is too long", job->file);
    return is_name(item->name) ? 0
                               : bad(job, item,
                                     "its name must consist of at most 63 letters, digits, '-', '_' and '.', and not begin with "
                                     "'.'; add a name",
                                     err);
}

static int add_item(const struct jobfile *job, const struct item *item, struct manifest_source *sources, struct err *err) {
    for (int i = 0; i < item->number; i++)
        if (!strcmp(sources[i].name, item->name))
            return options_error(item->node, job->file, err, "data.source[%d]: another source has the name %s; add a name to each",
                                 item->number, item->name);
    sources[item->number] = (struct manifest_source){item->name, item->weight, item->uri, NULL};
    return 0;
}

static int check_kind(const struct jobfile *job, const struct yaml_node *list, const struct manifest_source *sources, int n,
                      struct err *err) {
    if (job->kind->recordings == KIND_RECORDINGS_OR_ONE)
        return options_error(list, job->file, err, "data.source: a %s job reads one source; submit a job for each",
                             job->kind->name);
    for (int i = 0; i < n && strcmp(job->kind->name, "train"); i++)
        if (sources[i].weight > 0)
            return options_error(list, job->file, err, "data.source[%d].weight: it has no effect in a job of kind %s; remove it", i,
                                 job->kind->name);
    return 0;
}

int job_source_read(const struct jobfile *job, struct job_data *data, struct arena *arena, struct err *err) {
    const struct yaml_node *list = yaml_path(job->root, "data.source");
    if (!list || list->type != YAML_SEQUENCE)
        return 0;
    struct manifest_source *sources = arena_alloc(arena, MANIFEST_MAX_SOURCES * sizeof *sources);
    const char *text = "";
    bool weighted = false;
    int n = 0, rc = sources ? 0 : err_set(err, ERR_EXHAUSTED, "%s: data.source is too long", job->file);
    for (const struct yaml_node *node = list->child; node && !rc; node = node->next, n++) {
        struct item item = {.node = node, .number = n};
        if (n == MANIFEST_MAX_SOURCES)
            return options_error(node, job->file, err, "data.source: more than %d sources", MANIFEST_MAX_SOURCES);
        if ((rc = read_item(job, &item, arena, err)) || (rc = add_item(job, &item, sources, err)))
            break;
        weighted |= item.weight > 0;
        if (!(text = arena_printf(arena, "%s%s%s", text, n ? " " : "", item.uri)))
            rc = err_set(err, ERR_EXHAUSTED, "%s: data.source is too long", job->file);
    }
    if (rc)
        return rc;
    if (!n)
        return options_error(list, job->file, err, "data.source: the list is empty");
    for (int i = 0; i < n && weighted; i++)
        sources[i].weight = sources[i].weight > 0 ? sources[i].weight : 1;
    data->source = text;
    data->sources = sources;
    data->n_sources = n;
    return check_kind(job, list, sources, n, err);
}

int job_source_place(const struct jobfile *job, const char *roots, struct arena *arena, struct err *err) {
    for (int i = 0; job->data && i < job->data->n_sources; i++) {
        struct manifest_source *source = &job->data->sources[i];
        const size_t len = strcspn(roots, "\n");
        if (!len)
            return err_set(err, ERR_INVALID, "data.source %s has no folder", source->name);
        if (!(source->root = arena_strndup(arena, roots, len)))
            return err_set(err, ERR_EXHAUSTED, "%s: data.source is too long", job->file);
        roots += len + (roots[len] == '\n');
    }
    return 0;
}
