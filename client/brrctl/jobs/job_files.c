#include "client/brrctl/jobs/job_files.h"

enum { JOB_FILE_BYTES = 256 << 20 };

struct transfer {
    job_files_fn *visit;
    void *ctx;
    char path[4096]; /* of the file that arrives; "" = none */
    struct str data;
    struct err err;
};

static int begin_file(struct transfer *t, const char *path) {
    if (*t->path || !fsio_is_below(path))
        return err_set(&t->err, ERR_DATA_LOSS, "the daemon sent a file '%.200s' out of its place", path);
    str_clear(&t->data);
    return str_copy(t->path, sizeof t->path, path) ? 0 : err_set(&t->err, ERR_RANGE, "path too long: %.200s…", path);
}

static int end_file(struct transfer *t) {
    struct job_file file = {t->path, str_cstr(&t->data), t->data.len};
    if (!str_ok(&t->data))
        return err_set(&t->err, ERR_EXHAUSTED, "%s has more than %d bytes", t->path, JOB_FILE_BYTES);
    int rc = t->visit(t->ctx, &file, &t->err);
    *t->path = '\0';
    return rc;
}

static bool on_part(void *ctx, const void *message) {
    struct transfer *t = ctx;
    const Brr__V1__JobFilePart *part = message;
    if (*part->path && begin_file(t, part->path))
        return false;
    if (!*t->path)
        return err_set(&t->err, ERR_DATA_LOSS, "the daemon sent data without a file"), false;
    str_append(&t->data, part->data.data, part->data.len);
    return !part->last || !end_file(t);
}

int job_files_each(const struct arguments *o, const char *id, const char *const *patterns, size_t n, job_files_fn *visit,
                   void *ctx) {
    Brr__V1__JobFilesRequest in = BRR__V1__JOB_FILES_REQUEST__INIT;
    struct transfer t = {.visit = visit, .ctx = ctx};
    in.id = (char *)(uintptr_t)id;
    in.patterns = (char **)(uintptr_t)patterns;
    in.n_patterns = n;
    str_init(&t.data, JOB_FILE_BYTES);
    int code = brrctl_follow(o, "/brr.v1.Jobs/Files", &in.base, on_part, &t);
    str_done(&t.data);
    return code || !t.err.code ? code : brrctl_fail(&t.err);
}

static int write_file(void *ctx, const struct job_file *file, struct err *err) {
    char path[8192];
    int rc;
    if ((rc = fsio_join(path, sizeof path, ctx, file->path, err)) || (rc = fsio_mkdirs_above(path, err)))
        return rc;
    return fsio_write_atomic(path, file->data, file->len, err);
}

int job_files_fetch(const struct arguments *o, const char *id, const char *const *patterns, size_t n, const char *directory) {
    return job_files_each(o, id, patterns, n, write_file, (void *)(uintptr_t)directory);
}

Brr__V1__Job *job_files_job(const struct arguments *o, const char *id, int *ret_exit) {
    Brr__V1__GetJobRequest in = BRR__V1__GET_JOB_REQUEST__INIT;
    in.id = (char *)(uintptr_t)(str_starts(id, "job:") ? id + 4 : id);
    return brrctl_call(o, "/brr.v1.Jobs/Get", &in.base, ret_exit);
}
