#include "run/series.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fsio.h"
#include "base/str.h"

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

/* Numbers that have a file, greatest first; returns how many. */
static int list(const struct series *s, int64_t numbers[MOST]) {
    char dir[PATH];
    DIR *d = str_format(dir, sizeof dir, "%s/checkpoints", s->env->directory) ? opendir(dir) : NULL;
    int n = 0;
    for (struct dirent *e; d && n < MOST && (e = readdir(d));) {
        int64_t number;
        if (!number_of(s, e->d_name, &number))
            continue;
        int at = n++;
        for (; at > 0 && numbers[at - 1] < number; at--)
            numbers[at] = numbers[at - 1];
        numbers[at] = number;
    }
    if (d)
        closedir(d);
    return n;
}

static void retire(const struct series *s, int64_t keep) {
    int64_t numbers[MOST];
    char path[PATH];
    int n = list(s, numbers);
    for (int64_t i = keep; i < n; i++)
        if (!path_of(s, numbers[i], path, NULL))
            unlink(path);
}

int series_write(const struct series *s, struct task_checkpoint *c, int64_t keep,
                 int (*write)(void *task, const char *path, char sha256[DIGEST_HEX_SIZE], struct err *err), void *task,
                 struct err *err) {
    double start = clock_s();
    int rc = path_of(s, c->step, c->path, err);
    if (!rc)
        rc = fsio_mkdirs_above(c->path, err);
    if (!rc)
        rc = write(task, c->path, c->sha256, err);
    if (!rc)
        rc = fsio_size(c->path, &c->bytes, NULL, err);
    if (rc)
        return err_wrap(err, "the checkpoint of %s %lld could not be written; earlier checkpoints are unchanged", s->word,
                        (long long)c->step);
    c->write_s = clock_s() - start;
    if (s->env->checkpoint)
        s->env->checkpoint(s->env->ctx, c);
    retire(s, keep);
    return 0;
}

int series_restore(const struct series *s, int (*restore)(void *task, const char *path, struct err *err), void *task,
                   bool *ret_found, struct err *err) {
    int64_t numbers[MOST];
    char path[PATH];
    int n = list(s, numbers);
    *ret_found = false;
    for (int i = 0; i < n && !*ret_found; i++) {
        struct err why = {0};
        int rc = path_of(s, numbers[i], path, err);
        if (rc)
            return rc;
        *ret_found = !restore(task, path, &why);
        if (*ret_found)
            task_log(s->env, TASK_INFO, "resuming from %s", path);
        else
            task_log(s->env, TASK_WARN, "the checkpoint %s is not used: %s", path, why.message);
    }
    return 0;
}
