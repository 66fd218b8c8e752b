/* A job file on its way to the daemon: its text, --set and --name; local paths leave absolute, those of the file relative to it. */

#include "client/brrctl/brrctl.h"
#include "work/jobfile.h"

#define OPTIONS struct job_options

enum { JOB_FILE_MAX = 200 * 1024, PATH_SIZE = 4096, ARENA_MAX = 64 << 20 };

/* The value as an absolute path, or false when this machine has nothing to complete: only file:// names a local data.source, and a
 * plain word may be the name of a model. */
static bool complete(const char *value, enum option_type type, const char *dir, char *buf, size_t size) {
    const char *path = str_starts(value, "file://") ? value + 7 : value;
    char joined[PATH_SIZE];
    if ((type == OPTION_RULE && !option_names_file(type, value)) || (type == OPTION_SOURCE && path == value) || !*path ||
        *path == '/' || str_starts(path, "job:") || str_starts(path, "upload:") || strstr(path, "://"))
        return false;
    if (type == OPTION_MODEL && path == value && !strchr(path, '/') && !str_ends(path, ".safetensors"))
        return false; /* a served name */
    if (fsio_join(joined, sizeof joined, dir, path, NULL) || fsio_absolute(buf, size, joined, NULL))
        return false;
    return true;
}

static bool may_be_path(const struct option *row) {
    return row && (row->type == OPTION_PATH || row->type == OPTION_RULE || row->type == OPTION_MODEL || row->type == OPTION_SOURCE);
}

/* "KEY=/absolute/path" of a relative one, malloc'd; NULL: nothing to complete. */
static char *assignment_of(const struct option *row, const char *value, const char *dir) {
    char path[PATH_SIZE], *out = NULL;
    if (!complete(value, row->type, dir, path, sizeof path) ||
        asprintf(&out, "%s=%s%s", row->name, row->type == OPTION_SOURCE ? "file://" : "", path) < 0)
        return NULL;
    return out;
}

/* One of several sources, with an absolute path in place of a relative one; *changed is set then. False: the daemon will say what
 * is wrong with it. */
static bool put_source(const struct yaml_node *item, const char *dir, struct json_writer *w, bool *changed) {
    char path[PATH_SIZE], url[PATH_SIZE];
    const struct yaml_node *key = item->type == YAML_MAPPING ? item->child : item;
    json_begin_object(w, NULL);
    for (; key; key = item->type == YAML_MAPPING ? key->next : NULL) {
        const char *name = item->type == YAML_MAPPING ? key->key : "uri";
        double number;
        if (key->type != YAML_SCALAR || yaml_is_null(key))
            return false;
        if (!strcmp(name, "uri") && complete(key->text, OPTION_SOURCE, dir, path, sizeof path)) {
            if (!str_format(url, sizeof url, "file://%s", path))
                return false;
            json_put_str(w, name, url);
            *changed = true;
        } else if (!strcmp(name, "weight") && str_to_f64(key->text, &number)) {
            json_put_f64(w, name, number);
        } else {
            json_put_str(w, name, key->text);
        }
    }
    json_end(w, '}');
    return true;
}

/* The same for a list of sources. */
static char *assignment_of_list(const struct option *row, const struct yaml_node *list, const char *dir) {
    OWNED(str_done) struct str text = str_of(JOB_FILE_MAX);
    struct json_writer w = json_to(&text);
    bool changed = false, known = true;
    str_printf(&text, "%s=", row->name);
    json_begin_array(&w, NULL);
    for (const struct yaml_node *item = list->child; item && known; item = item->next)
        known = put_source(item, dir, &w, &changed);
    json_end(&w, ']');
    return known && changed ? str_take(&text) : NULL;
}

/* The same of an override, which holds the list as text. */
static char *assignment_of_text(const struct option *row, const char *assignment) {
    OWNED(arena_done) struct arena arena = arena_of(ARENA_MAX);
    struct yaml_node *root = NULL;
    const struct yaml_node *list = yaml_parse(&arena, "{}", 2, "", &root, NULL) || yaml_set(&arena, root, assignment, NULL)
                                       ? NULL
                                       : yaml_path(root, row->name);
    return list && list->type == YAML_SEQUENCE ? assignment_of_list(row, list, ".") : NULL;
}

/* "KEY=VALUE" with an absolute path where VALUE is a relative one, else a copy. */
static char *absolute_override(const struct task_kind *kind, const char *assignment) {
    const char *equals = strchr(assignment, '=');
    char key[128];
    if (equals && str_format(key, sizeof key, "%.*s", (int)(equals - assignment), assignment)) {
        const struct option *row = jobfile_key(kind, key);
        bool list = row && row->type == OPTION_SOURCE && equals[1] == '[';
        char *out = list ? assignment_of_text(row, assignment) : may_be_path(row) ? assignment_of(row, equals + 1, ".") : NULL;
        if (out)
            return out;
    }
    return strdup(assignment);
}

/* Relative paths inside the file become overrides in front of the others. */
static void complete_file_paths(struct brrctl_job_file *f, const struct task_kind *kind, const struct yaml_node *root,
                                const char *file) {
    const struct option_table *tables[JOBFILE_MAX_TABLES];
    char dir[PATH_SIZE];
    str_copy(dir, sizeof dir, file);
    char *slash = strrchr(dir, '/');
    str_copy(slash ? slash : dir, slash ? 1 : sizeof dir, slash ? "" : ".");
    if (slash == dir)
        str_copy(dir, sizeof dir, "/");
    int n = jobfile_tables(kind, tables);
    for (int t = 0; t < n; t++)
        for (size_t i = 0; i < tables[t]->count; i++) {
            const struct option *row = &tables[t]->rows[i];
            const struct yaml_node *node = may_be_path(row) ? yaml_path(root, row->name) : NULL;
            bool text = node && node->type == YAML_SCALAR && !yaml_is_null(node);
            bool list = node && node->type == YAML_SEQUENCE && row->type == OPTION_SOURCE;
            char *out = f->message.n_overrides >= JOBFILE_MAX_REFS ? NULL
                        : text                                     ? assignment_of(row, node->text, dir)
                        : list                                     ? assignment_of_list(row, node, dir)
                                                                   : NULL;
            if (out)
                f->overrides[f->message.n_overrides++] = out;
        }
}

/* The kind that the file and --set say; NULL: the daemon will say what is wrong. */
static const struct task_kind *kind_of(struct arena *arena, struct yaml_node *root, const struct arguments *o) {
    for (int i = 0; i < own(o)->set.n; i++)
        if (str_starts(own(o)->set.items[i], "kind=") && yaml_set(arena, root, own(o)->set.items[i], NULL))
            return NULL;
    const struct yaml_node *node = yaml_path(root, "kind");
    return node && node->type == YAML_SCALAR ? task_kind_find(node->text) : NULL;
}

static void add_overrides(struct brrctl_job_file *f, size_t len, const struct arguments *o) {
    OWNED(arena_done) struct arena arena = arena_of(ARENA_MAX);
    struct yaml_node *root = NULL;
    const struct task_kind *kind = yaml_parse(&arena, f->text, len, o->args[0], &root, NULL) ? NULL : kind_of(&arena, root, o);
    if (kind)
        complete_file_paths(f, kind, root, o->args[0]);
    f->budget = root && yaml_path(root, "limits.cost");
    for (int i = 0; i < own(o)->set.n; i++)
        f->budget |= str_starts(own(o)->set.items[i], "limits.cost=");
    for (int i = 0; i < own(o)->set.n; i++)
        f->overrides[f->message.n_overrides++] =
            kind ? absolute_override(kind, own(o)->set.items[i]) : strdup(own(o)->set.items[i]);
}

/* Text that is not UTF-8 (a comment in Latin-1, a file of another kind) cannot be sent. */
static int check_text(const char *text, size_t len, const char *file, struct err *err) {
    int line = 1, step = 1;
    size_t at = 0;
    for (; at < len && (step = str_utf8_step(text + at)); at += (size_t)step)
        line += text[at] == '\n';
    return at < len ? err_set(err, ERR_INVALID, "%s:%d: the file is not UTF-8 text; expected a job file saved as UTF-8", file, line)
                    : 0;
}

int brrctl_job_file_open(struct brrctl_job_file *f, const struct arguments *o, struct err *err) {
    size_t len = 0;
    *f = (struct brrctl_job_file){.message = BRR__V1__JOB_FILE__INIT};
    int rc;
    if ((rc = fsio_read(o->args[0], JOB_FILE_MAX, &f->text, &len, err)) || (rc = check_text(f->text, len, o->args[0], err))) {
        brrctl_job_file_done(f);
        return rc;
    }
    add_overrides(f, len, o);
    char *text = NULL;
    if (own(o)->name && asprintf(&text, "name=%s", own(o)->name) >= 0)
        f->overrides[f->message.n_overrides++] = text;
    if (own(o)->after && asprintf(&text, "after=%s", own(o)->after) >= 0)
        f->overrides[f->message.n_overrides++] = text;
    f->message.yaml = f->text;
    f->message.name = (char *)(uintptr_t)o->args[0];
    f->message.overrides = f->overrides;
    return 0;
}

void brrctl_job_file_hint(const struct arguments *o, int code) {
    static const char key[] = "data.source=";
    const char *value = NULL;
    for (int i = 0; i < own(o)->set.n; i++)
        if (str_starts(own(o)->set.items[i], key))
            value = own(o)->set.items[i] + strlen(key);
    if (code == EXIT_NOT_FOUND && value && *value && *value != '/' && !strstr(value, "://") && fsio_is_dir(value))
        fprintf(stderr, "brrctl: note: the folder %s exists here; --set %sfile://%s names it\n", value, key, value);
}

void brrctl_job_file_done(struct brrctl_job_file *f) {
    for (size_t i = 0; i < f->message.n_overrides; i++)
        free(f->overrides[i]);
    free(f->text);
    *f = (struct brrctl_job_file){.message = BRR__V1__JOB_FILE__INIT};
}
