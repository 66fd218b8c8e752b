/* A job file on its way to the daemon: its text, --set and --name; local paths leave absolute, those of the file relative to it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "base/yaml.h"
#include "client/brrctl/brrctl.h"

enum { JOB_FILE_MAX = 200 * 1024, PATH_SIZE = 4096, ARENA_MAX = 64 << 20 };

/* Keys whose value may be a local path; `scheme`: only behind file://, a plain word means something else. */
static const struct {
    const char *key;
    bool scheme;
} path_keys[] = {{"data.source", true}, {"model.init_from", false}, {"evaluate.checkpoint", false}, {"detect.model", false}};

/* The value as an absolute path, or false when it is none that this machine should complete. */
static bool complete(const char *value, bool scheme, const char *dir, char *buf, size_t size) {
    const char *path = str_starts(value, "file://") ? value + 7 : value;
    char joined[PATH_SIZE];
    if ((scheme && path == value) || !*path || *path == '/' || str_starts(path, "job:") || strstr(path, "://"))
        return false;
    if (!scheme && path == value && !strchr(path, '/') && !str_ends(path, ".safetensors"))
        return false; /* a served or uploaded name */
    if (fsio_join(joined, sizeof joined, dir, path, NULL) || fsio_absolute(buf, size, joined, NULL))
        return false;
    return true;
}

/* "KEY=VALUE" with an absolute path where VALUE is a relative one, else a copy. */
static char *absolute_override(const char *assignment) {
    char path[PATH_SIZE], *out = NULL;
    for (size_t i = 0; i < sizeof path_keys / sizeof *path_keys; i++) {
        size_t len = strlen(path_keys[i].key);
        if (strncmp(assignment, path_keys[i].key, len) || assignment[len] != '=')
            continue;
        if (complete(assignment + len + 1, path_keys[i].scheme, ".", path, sizeof path) &&
            asprintf(&out, "%s=%s%s", path_keys[i].key, path_keys[i].scheme ? "file://" : "", path) >= 0)
            return out;
    }
    return strdup(assignment);
}

/* Relative paths inside the file become overrides in front of the others. What is wrong with the file is the daemon's to say. */
static void complete_file_paths(struct brrctl_job_file *f, const char *file, size_t len) {
    struct arena arena;
    struct yaml_node *root = NULL;
    char dir[PATH_SIZE], path[PATH_SIZE], *text = NULL;
    arena_init(&arena, ARENA_MAX);
    str_copy(dir, sizeof dir, file);
    char *slash = strrchr(dir, '/');
    str_copy(slash ? slash : dir, slash ? 1 : sizeof dir, slash ? "" : ".");
    if (slash == dir)
        str_copy(dir, sizeof dir, "/");
    if (!yaml_parse(&arena, f->text, len, file, &root, NULL))
        for (size_t i = 0; i < sizeof path_keys / sizeof *path_keys; i++) {
            const struct yaml_node *node = yaml_path(root, path_keys[i].key);
            if (node && node->type == YAML_SCALAR && !yaml_is_null(node) &&
                complete(node->text, path_keys[i].scheme, dir, path, sizeof path) &&
                asprintf(&text, "%s=%s%s", path_keys[i].key, path_keys[i].scheme ? "file://" : "", path) >= 0)
                f->overrides[f->message.n_overrides++] = text;
        }
    arena_done(&arena);
}

/* What is no UTF-8 (a comment in Latin-1, a file of another kind) cannot be sent. */
static int check_text(const char *text, size_t len, const char *file, struct err *err) {
    int line = 1, step = 1;
    size_t at = 0;
    for (; at < len && (step = str_utf8_step(text + at)); at += (size_t)step)
        line += text[at] == '\n';
    return at < len ? err_set(err, ERR_INVALID, "%s:%d: this is no UTF-8 text; expected a job file, saved as UTF-8", file, line)
                    : 0;
}

int brrctl_job_file_open(struct brrctl_job_file *f, const struct arguments *o, struct err *err) {
    size_t len = 0;
    *f = (struct brrctl_job_file){.message = BRR__V1__JOB_FILE__INIT};
    int rc = fsio_read(o->args[0], JOB_FILE_MAX, &f->text, &len, err);
    if (!rc)
        rc = check_text(f->text, len, o->args[0], err);
    if (rc) {
        brrctl_job_file_done(f);
        return rc;
    }
    complete_file_paths(f, o->args[0], len);
    for (int i = 0; i < o->n_set; i++)
        f->overrides[f->message.n_overrides++] = absolute_override(o->set[i]);
    char *name = NULL;
    if (o->name && asprintf(&name, "name=%s", o->name) >= 0)
        f->overrides[f->message.n_overrides++] = name;
    f->message.yaml = f->text;
    f->message.name = (char *)(uintptr_t)o->args[0];
    f->message.overrides = f->overrides;
    return 0;
}

void brrctl_job_file_done(struct brrctl_job_file *f) {
    for (size_t i = 0; i < f->message.n_overrides; i++)
        free(f->overrides[i]);
    free(f->text);
    *f = (struct brrctl_job_file){.message = BRR__V1__JOB_FILE__INIT};
}
