/* brr.v1.Jobs/Files: files of a job's folder as parts, listed and read on the thread pool as the client takes them. */
#include <fnmatch.h>

#include "base/base.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/services/offload.h"
#include "daemon/services/services.h"

enum { FILES_PART_BYTES = 256 << 10, FILES_MAX = 1 << 16, FILES_MAX_PATTERNS = 16 };

struct files_call {
    struct offload work;
    char directory[4096];
    char *patterns[FILES_MAX_PATTERNS];
    size_t n_patterns;
    char **paths; /* relative to the directory, sorted */
    size_t n_paths, next;
    uint8_t *part;
    size_t got; /* bytes in part */
    int fd;     /* of paths[next - 1]; -1 = none */
    bool begins, last, over;
};

static void files_drop(struct offload *work) {
    struct files_call *f = (struct files_call *)work;
    if (f->fd >= 0)
        close(f->fd);
    for (size_t i = 0; i < f->n_paths; i++)
        free(f->paths[i]);
    for (size_t i = 0; i < f->n_patterns; i++)
        free(f->patterns[i]);
    free(f->paths);
    free(f->part);
    free(f);
}

/* Checkpoints have calls of their own; traces are work in progress. */
static bool files_is_private(const char *path) {
    return str_starts(path, "checkpoints/") || str_starts(path, "traces/") || fsio_is_temporary(fsio_basename(path));
}

/* On the pool. */
static int files_visit(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct files_call *f = ctx;
    bool wanted = false;
    (void)size;
    for (size_t i = 0; i < f->n_patterns && !wanted; i++)
        wanted = !fnmatch(f->patterns[i], relative, 0);
    if (!wanted || files_is_private(relative))
        return 0;
    if (f->n_paths == FILES_MAX)
        return err_set(err, ERR_EXHAUSTED, "more than %d files match; name fewer", FILES_MAX);
    if (f->n_paths % 256 == 0) {
        char **more = realloc(f->paths, (f->n_paths + 256) * sizeof *more);
        if (!more)
            return err_set(err, ERR_EXHAUSTED, "out of memory for the files of a job");
        f->paths = more;
    }
    if (!(f->paths[f->n_paths] = strdup(relative)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the files of a job");
    f->n_paths++;
    return 0;
}

/* On the pool. A job that has not begun has no folder, and so no files. */
static void files_list(struct offload *work) {
    struct files_call *f = (struct files_call *)work;
    if (fsio_is_dir(f->directory))
        fsio_walk(f->directory, files_visit, f, &work->err);
}

/* Opens the next file that is still there. */
static int files_open_next(struct files_call *f, struct err *err) {
    while (f->fd < 0 && f->next < f->n_paths) {
        char path[8192];
        size_t bytes;
        int rc = fsio_join(path, sizeof path, f->directory, f->paths[f->next++], err);
        if (rc || (rc = fsio_open_file(path, &f->fd, &bytes, err))) {
            if (rc != ERR_NOT_FOUND)
                return rc;
            *err = (struct err){0};
        }
    }
    f->over = f->fd < 0;
    f->begins = !f->over;
    return 0;
}

/* On the pool: the next part of the open file, or the first one of the next file. */
static void files_read(struct offload *work) {
    struct files_call *f = (struct files_call *)work;
    if (f->fd < 0 && (files_open_next(f, &work->err) || f->over))
        return;
    ssize_t n = read(f->fd, f->part, FILES_PART_BYTES);
    if (n < 0) {
        err_errno(&work->err, errno, "cannot read %s of the job", f->paths[f->next - 1]);
        return;
    }
    f->got = (size_t)n;
    f->last = !n;
    if (!n) {
        close(f->fd);
        f->fd = -1;
    }
}

static void files_send(struct offload *work) {
    struct files_call *f = (struct files_call *)work;
    Brr__V1__JobFilePart out = BRR__V1__JOB_FILE_PART__INIT;
    if (!offload_good(work))
        return;
    if (f->over) {
        rpc_finish(work->call, NULL);
        return;
    }
    out.path = f->begins ? f->paths[f->next - 1] : out.path;
    out.data = (ProtobufCBinaryData){f->got, f->part};
    out.last = f->last;
    f->begins = false;
    offload_send(work, &out.base, files_read, files_send);
}

static void files_listed(struct offload *work) {
    if (offload_good(work))
        offload_start(work, files_read, files_send);
}

static int files_check(struct rpc_call *call, const Brr__V1__JobFilesRequest *in, const struct job **ret, struct err *err) {
    rpc_concerns(call, "job", in->id);
    if (!in->n_patterns || in->n_patterns > FILES_MAX_PATTERNS)
        return err_set(err, ERR_INVALID, "%zu patterns of files; expected 1 to %d, such as \"report.json\" or \"*\"",
                       in->n_patterns, FILES_MAX_PATTERNS);
    return services_find_job(call, in->id, ret, err);
}

static int files_prepare(struct files_call *f, const Brr__V1__JobFilesRequest *in, const char *directory, struct err *err) {
    str_copy(f->directory, sizeof f->directory, directory);
    f->part = malloc(FILES_PART_BYTES);
    for (size_t i = 0; f->part && i < in->n_patterns; i++)
        if ((f->patterns[i] = strdup(in->patterns[i])))
            f->n_patterns++;
        else
            return err_set(err, ERR_EXHAUSTED, "out of memory for the files of a job");
    return f->part ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for the files of a job");
}

static int files(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__JobFilesRequest *in = message;
    const struct job *job = NULL;
    int rc = files_check(call, in, &job, err);
    if (rc)
        return rc;
    struct files_call *f = offload_new(call, OFFLOAD_LOGS, sizeof *f, files_drop, err);
    if (!f)
        return err->code;
    f->fd = -1;
    if ((rc = files_prepare(f, in, job->directory, err)))
        return rc;
    offload_start(&f->work, files_list, files_listed);
    return 0;
}

const struct rpc_method svc_job_files[] = {
    {RPC_METHOD("/brr.v1.Jobs/Files", ROLE_READ, brr__v1__job_files_request, files), .reading = true, .writable = offload_writable,
     .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {.path = NULL},
};
