#include "daemon/jobs/submission.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fsio.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/models/model_fetch.h"

int submission_resolve(const struct submission_rules *rules, const struct jobfile_ref *ref, char path[4096], struct err *err) {
    const struct source_store *store;
    const char *object;
    if (model_fetch_is_url(ref->value)) { /* fetched when the job runs */
        *path = '\0';
        return model_fetch_locate(rules->places->stores, rules->places->n_stores, ref->value, &store, &object, err);
    }
    bool model = ref->type != OPTION_PATH;
    int rc = model ? rules->resolve_model(rules->ctx, ref->value, path, err)
                   : places_file(rules->places, ref->key, ref->value, path, err);
    if (rc)
        return model ? err_wrap(err, "%s", ref->key) : rc;
    if (strpbrk(path, "\"\\\n"))
        return err_set(err, ERR_INVALID, "%s: the path %s cannot be used: it has quotes, backslashes or line ends", ref->key, path);
    return 0;
}

int submission_source(const struct submission_rules *rules, const struct jobfile *file, char *root, size_t size, struct err *err) {
    const char *upload = file->checkpoint.upload;
    const struct source_store *store;
    const char *prefix;
    if (upload && str_starts(upload, "store://") &&
        source_find(rules->places->stores, rules->places->n_stores, upload + strlen("store://"), &store, &prefix, err))
        return err_wrap(err, "checkpoint.upload");
    return file->data ? places_source(rules->places, file, root, size, err) : 0;
}

/* Adds the resolved path of each model and file that the job file names as a further override; URLs of objects stay. */
static int pin_refs(const struct submission_rules *rules, struct job *job, const struct jobfile *file, int n_overrides,
                    struct err *err) {
    struct jobfile_ref refs[JOBFILE_MAX_REFS];
    char path[4096], assignment[4200];
    const char *line = assignment;
    int n = jobfile_refs(file, refs), rc = 0;
    if (n_overrides + n > JOBFILE_MAX_OVERRIDES)
        return err_set(err, ERR_INVALID,
                       "%d overrides (--set) beside %d paths of models and files; at most %d in all are accepted, put the other "
                       "overrides into the file",
                       n_overrides, n, JOBFILE_MAX_OVERRIDES);
    for (int i = 0; i < n && !(rc = submission_resolve(rules, &refs[i], path, err)); i++) {
        if (!*path)
            continue;
        if (!str_format(assignment, sizeof assignment, "%s=\"%s\"", refs[i].key, path))
            return err_set(err, ERR_RANGE, "%s: the path %s is too long", refs[i].key, path);
        char *more = job_overrides(job->overrides, &line, 1);
        if (!more)
            return err_set(err, ERR_EXHAUSTED, "out of memory for a job");
        free(job->overrides);
        job->overrides = more;
    }
    return rc;
}

int submission_fill(const struct submission_rules *rules, const struct submission *r, const struct jobfile *file, struct job *job,
                    struct err *err) {
    job->priority = file->priority;
    str_copy(job->kind, sizeof job->kind, file->kind->name);
    str_copy(job->name, sizeof job->name, file->name);
    job->yaml = strdup(r->yaml);
    job->file = strdup(r->file);
    job->overrides = job_overrides(NULL, r->overrides, r->n_overrides);
    job->request_id = strdup(r->request_id);
    if (!job->yaml || !job->file || !job->overrides || !job->request_id)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a job");
    int rc = submission_source(rules, file, job->data_root, sizeof job->data_root, err);
    return rc ? rc : pin_refs(rules, job, file, r->n_overrides, err);
}

/* name-of-kind, date and sequence: readable, unique in this database. */
static void make_id(struct job *job) {
    time_t t = (time_t)(job->created_ms / 1000);
    struct tm utc;
    char stamp[20];
    gmtime_r(&t, &utc);
    strftime(stamp, sizeof stamp, "%y%m%d", &utc);
    str_format(job->id, sizeof job->id, "%s-%s-%lld", job->kind, stamp, (long long)job->sequence);
}

int submission_place(const char *results_dir, struct job *job, int64_t *next, struct err *err) {
    char jobs[sizeof job->directory];
    if (!str_format(jobs, sizeof jobs, "%s/jobs", results_dir))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    int rc = fsio_mkdirs(jobs, err);
    while (!rc) {
        job->sequence = (*next)++;
        make_id(job);
        if (!str_format(job->directory, sizeof job->directory, "%s/%s", jobs, job->id))
            return err_set(err, ERR_RANGE, "paths.results is too long");
        rc = fsio_mkdir_new(job->directory, err);
        if (rc != ERR_EXISTS)
            return rc;
        log_warn("the directory of a job exists already: its number is left out", "path=%s", job->directory);
        rc = 0;
    }
    return rc;
}
