#include "work/series.h"

enum { PATH = 4096, MOST = 1024 };

static const char ending[] = ".safetensors";

static int path_of(const struct series *s, int64_t number, char path[PATH], struct err *err) {
    const char *directory = s->env->directory;
    bool ok = str_format(path, PATH, "%s/checkpoints/%s-%0*lld%s", directory, s->word, s->digits, (long long)number, ending);
    return ok ? 0 : err_set(err, ERR_RANGE, "path too long: %.200s…", directory);
}

/* False: a file of another name. */
static bool number_of(const struct series *s, const char *name, int64_t *ret) {
    char digits[32];
    size_t head = strlen(s->word) + 1, tail = strlen(ending), len = strlen(name);
    return str_starts(name, s->word) && len > head + tail && name[head - 1] == '-' && str_ends(name, ending) &&
           str_format(digits, sizeof digits, "%.*s", (int)(len - head - tail), name + head) && str_to_i64(digits, ret);
}

/* Numbers that have a file, greatest first, and how many. */
static int list_files(const struct series *s, int64_t numbers[MOST], int *ret_n, struct err *err) {
    char dir[PATH];
    struct dirent *e = NULL;
    int n = 0;
    *ret_n = 0;
    if (!str_format(dir, sizeof dir, "%s/checkpoints", s->env->directory))
        return err_set(err, ERR_RANGE, "path too long: %.200s…", s->env->directory);
    DIR *d = opendir(dir);
    if (!d)
        return errno == ENOENT ? 0 : err_errno(err, errno, "cannot list the checkpoints in %s", dir);
    int rc = fsio_next_entry(d, &e, err);
    for (; !rc && e && n < MOST; rc = fsio_next_entry(d, &e, err)) {
        int64_t number;
        if (!number_of(s, e->d_name, &number))
            continue;
        int at = n++;
        for (; at > 0 && numbers[at - 1] < number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
    closedir(d);
    *ret_n = rc ? 0 : n;
    return rc;
}

/* Tried again after the next checkpoint where it fails. */
static void retire(const struct series *s, int64_t keep) {
    int64_t numbers[MOST];
    char path[PATH];
    int n;
    if (list_files(s, numbers, &n, NULL))
        return;
    for (int64_t i = keep; i < n; i++)
        if (!path_of(s, numbers[i], path, NULL))
            unlink(path);
}

static int write_file(const struct series *s, struct task_checkpoint *c, series_write_fn *write, void *task, struct err *err) {
    int rc;
    if ((rc = path_of(s, c->step, c->path, err)) || (rc = fsio_mkdirs_above(c->path, err)) ||
        (rc = write(task, c->path, c->sha256, err)))
        return rc;
    return fsio_size(c->path, &c->bytes, NULL, err);
}

int series_write(const struct series *s, struct task_checkpoint *c, int64_t keep, series_write_fn *write, void *task,
                 struct err *err) {
    double start = clock_s();
    int rc = write_file(s, c, write, task, err);
    if (rc)
        return err_wrap(err, "the checkpoint of %s %lld could not be written; earlier checkpoints are unchanged", s->word,
                        (long long)c->step);
    c->write_s = clock_s() - start;
    task_tell(s->env, &(struct task_report){.kind = TASK_CHECKPOINT, .checkpoint = c});
    retire(s, keep);
    return 0;
}

int series_restore(const struct series *s, int (*restore)(void *task, const char *path, struct err *err), void *task,
                   bool *ret_found, struct err *err) {
    int64_t numbers[MOST];
    char path[PATH];
    int n, rc = list_files(s, numbers, &n, err);
    *ret_found = false;
    for (int i = 0; !rc && i < n && !*ret_found; i++) {
        struct err why = {0};
        if ((rc = path_of(s, numbers[i], path, err)))
            return rc;
        rc = restore(task, path, &why);
        *ret_found = !rc;
        if (!rc) {
            task_log(s->env, TASK_INFO, "resuming from %s", path);
        } else if (checkpoint_is_broken(rc)) { /* it would count among the newest that are kept */
            task_log(s->env, TASK_WARN, "the checkpoint %s cannot be used and is removed: %s", path, why.message);
            unlink(path);
            rc = 0;
        } else {
            return err_set(err, rc, "the checkpoint %s cannot be read now: %s", path, why.message);
        }
    }
    return rc;
}
