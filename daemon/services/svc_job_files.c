/* brr.v1.Jobs/Files: files of a job's folder as parts, listed and read on the thread pool as the client takes them. */
#include <fnmatch.h>

#include "base/grow.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/services/services.h"

enum { FILES_MAX = 1 << 16, FILES_MAX_PATTERNS = 16 };

struct files_call {
    struct offload work;
    char directory[4096];
    const Brr__V1__JobFilesRequest *request;
    char **paths; /* relative to the directory, sorted */
    size_t n_paths, next, room;
    bool listed;
};

static void files_drop(struct offload *work) {
    struct files_call *f = (struct files_call *)work;
    for (size_t i = 0; i < f->n_paths; i++)
        free(f->paths[i]);
    free(f->paths);
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
    for (size_t i = 0; i < f->request->n_patterns && !wanted; i++)
        wanted = !fnmatch(f->request->patterns[i], relative, 0);
    if (!wanted || files_is_private(relative))
        return 0;
    if (f->n_paths == FILES_MAX)
        return err_set(err, ERR_EXHAUSTED, "more than %d files match; name fewer", FILES_MAX);
    if (!GROW(f->paths, f->n_paths, f->room) || !(f->paths[f->n_paths] = strdup(relative)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for the files of a job");
    f->n_paths++;
    return 0;
}

/* Opens the next file that is still there. False after the last one and after an error. */
static bool files_open_next(struct files_call *f, struct err *err) {
    while (f->next < f->n_paths) {
        char path[8192];
        size_t bytes;
        if (fsio_join(path, sizeof path, f->directory, f->paths[f->next++], err))
            return false;
        int rc = fsio_open_file(path, &f->work.fd, &bytes, err);
        if (rc != ERR_NOT_FOUND)
            return !rc;
        *err = (struct err){0};
    }
    return false;
}

/* On the pool: the next part of the open file, or the first one of the next file. A job that has not begun has no folder, and so no
 * files. */
static void files_pack(struct offload *work) {
    struct files_call *f = (struct files_call *)work;
    Brr__V1__JobFilePart out = BRR__V1__JOB_FILE_PART__INIT;
    const bool begins = work->fd < 0;
    if (!f->listed && fsio_is_dir(f->directory) && fsio_walk(f->directory, files_visit, f, &work->err))
        return;
    f->listed = true;
    if ((begins && !files_open_next(f, &work->err)) || !offload_read(work, f->paths[f->next - 1], &out.data))
        return;
    out.path = begins ? f->paths[f->next - 1] : out.path;
    out.last = !out.data.len;
    offload_pack(work, &out.base);
}

static int files_check(struct rpc_call *call, const Brr__V1__JobFilesRequest *in, const struct job **ret, struct err *err) {
    rpc_concerns(call, "job", in->id);
    if (!in->n_patterns || in->n_patterns > FILES_MAX_PATTERNS)
        return err_set(err, ERR_INVALID, "%zu patterns of files; expected 1 to %d, such as \"report.json\" or \"*\"",
                       in->n_patterns, FILES_MAX_PATTERNS);
    return services_find_job(call, in->id, ret, err);
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
    f->request = in;
    str_copy(f->directory, sizeof f->directory, job->directory);
    offload_stream(&f->work, files_pack);
    return 0;
}

const struct rpc_method svc_job_files[] = {
    {RPC_METHOD("/brr.v1.Jobs/Files", ROLE_READ, brr__v1__job_files_request, files), .reading = true, .writable = offload_writable,
     .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {.path = NULL},
};
