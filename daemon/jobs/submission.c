#include "daemon/jobs/submission.h"

#include <sys/statvfs.h>

#include "base/counted.h"
#include "base/log.h"
#include "base/principal.h"
#include "daemon/jobs/slurm_record.h"
#include "daemon/models/model_fetch.h"
#include "work/estimate.h"

enum { DRAFT_BYTES = 16 << 20 };

/* A file that is not a model is looked for by its path alone. */
static int refer(const struct submission_rules *rules, const struct jobfile_ref *ref, struct model_ref *ret, struct err *err) {
    if (model_fetch_is_url(ref->value)) /* fetched when the job runs */
        return model_ref_object(rules->places, ref->value, ret, err);
    int rc = ref->type != OPTION_PATH ? rules->refer_model(rules->ctx, ref->value, ret, err) : 0;
    return rc ? err_wrap(err, "%s", ref->key) : 0;
}

/* A job writes below stores.NAME.write alone. Without the key, only the daemon's own user may name a place in the store, who could
 * write there anyway. */
static int check_upload(const struct places *places, const char *target, struct err *err) {
    const struct source_store *store;
    const char *prefix;
    int rc = source_find(places->stores, places->n_stores, target, &store, &prefix, err);
    if (rc)
        return err_wrap(err, "checkpoint.upload");
    const char *below = store->config.write;
    if (!below)
        return places->local_paths
                   ? 0
                   : err_set(err, ERR_DENIED,
                             "checkpoint.upload: jobs may not write to the store %s; set stores.%s.write to a prefix", store->name,
                             store->name);
    const size_t len = strlen(below);
    const bool inside = !len || (str_starts(prefix, below) && (!prefix[len] || prefix[len] == '/' || below[len - 1] == '/'));
    return inside && !strstr(prefix, "..")
               ? 0
               : err_set(err, ERR_DENIED,
                         "checkpoint.upload: '%s' is not below '%s', where jobs may write in the store %s (stores.%s.write)",
                         prefix, below, store->name, store->name);
}

int submission_refer(const struct submission_rules *rules, const struct jobfile *file, struct submission_refs *ret,
                     struct err *err) {
    const struct places *places = rules->places;
    const char *upload = file->checkpoint.upload;
    struct jobfile_ref refs[JOBFILE_MAX_REFS];
    int rc;
    ret->places = *places;
    ret->n = jobfile_refs(file, refs);
    if (file->device && rules->find_device && (rc = rules->find_device(rules->ctx, file->device, err)))
        return rc;
    if (rules->n_devices && file->devices > rules->n_devices)
        return err_set(err, ERR_INVALID, "devices: %lld, and the daemon has at most %d of one kind (`devices` in daemon.yaml)",
                       (long long)file->devices, rules->n_devices);
    if (file->executor && rules->find_executor && (rc = rules->find_executor(rules->ctx, file->executor, err)))
        return rc;
    if (rules->check && (rc = rules->check(rules->ctx, file, err)))
        return rc;
    if (upload && str_starts(upload, "store://") && (rc = check_upload(places, upload + strlen("store://"), err)))
        return rc;
    for (int i = 0; i < ret->n; i++) {
        ret->at[i].ref = refs[i];
        if ((rc = refer(rules, &refs[i], &ret->at[i].model, err)))
            return rc;
    }
    return 0;
}

static int find_file(const struct places *places, const struct jobfile_ref *ref, const struct model_ref *model,
                     char path[LIVE_PATH], struct err *err) {
    struct model_file found;
    if (model->origin == MODEL_OBJECT)
        return 0;
    if (ref->type == OPTION_PATH)
        return places_file(places, ref->key, ref->value, path, err);
    if (model_resolve(model, NULL, &found, err))
        return err_wrap(err, "%s", ref->key);
    str_copy(path, LIVE_PATH, found.path);
    return 0;
}

int submission_look(struct submission_refs *r, const struct jobfile *file, struct err *err) {
    int rc;
    if (file->data && (rc = places_source(&r->places, file, r->data_root, sizeof r->data_root, err)))
        return rc;
    for (int i = 0; i < r->n; i++) {
        if ((rc = find_file(&r->places, &r->at[i].ref, &r->at[i].model, r->at[i].path, err)))
            return rc;
        if (strpbrk(r->at[i].path, "\"\\\n"))
            return err_set(err, ERR_INVALID, "%s: the path %s cannot be used: it has quotes, backslashes or line ends",
                           r->at[i].ref.key, r->at[i].path);
    }
    return 0;
}

/* Adds the resolved path of each model and file that the job file names as a further override; URLs of objects stay. */
static int pin_refs(struct draft *d, struct err *err) {
    const struct submission_refs *r = &d->refs;
    char assignment[4200];
    const char *line = assignment;
    const int most = JOBFILE_MAX_OVERRIDES - (d->file.after != NULL); /* the end of the wait takes one */
    if (d->n_overrides + r->n > most)
        return err_set(err, ERR_INVALID,
                       "%d overrides (--set) beside %d paths of models and files; at most %d in all are accepted, put the other "
                       "overrides into the file",
                       d->n_overrides, r->n, most);
    for (int i = 0; i < r->n; i++) {
        const char *key = r->at[i].ref.key, *path = r->at[i].path;
        if (!*path)
            continue;
        if (!str_format(assignment, sizeof assignment, "%s=\"%s\"", key, path))
            return err_set(err, ERR_RANGE, "%s: the path %s is too long", key, path);
        char *more = job_overrides(d->job->overrides, &line, 1);
        if (!more)
            return err_set(err, ERR_EXHAUSTED, "out of memory for a job");
        free(d->job->overrides);
        d->job->overrides = more;
    }
    return 0;
}

/* The record, but for what its files and its number decide. */
static int fill(struct job *job, const struct submission *r, const struct jobfile *file, struct err *err) {
    job->priority = file->priority;
    str_copy(job->kind, sizeof job->kind, file->kind->name);
    str_copy(job->name, sizeof job->name, file->name);
    str_copy(job->owner, sizeof job->owner, r->owner ? r->owner : "");
    job->yaml = strdup(r->yaml);
    job->file = strdup(r->file);
    job->overrides = job_overrides(NULL, r->overrides, r->n_overrides);
    job->request_id = strdup(r->request_id);
    return job->yaml && job->file && job->overrides && job->request_id ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a job");
}

int draft_parse(const struct submission *r, int64_t now_ms, struct draft **ret, struct err *err) {
    struct draft *d = calloc(1, sizeof *d);
    int rc;
    if (!d || !(d->job = job_new())) {
        free(d);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a job");
    }
    arena_init(&d->arena, DRAFT_BYTES);
    d->n_overrides = r->n_overrides;
    d->job->created_ms = now_ms;
    if ((rc = jobfile_parse(r->yaml, r->file, r->overrides, r->n_overrides, &d->arena, &d->file, err)) ||
        (rc = fill(d->job, r, &d->file, err)))
        draft_free(d);
    else
        *ret = d;
    return rc;
}

int draft_refer(const struct submission_rules *rules, struct draft *d, struct err *err) {
    d->estimate_device = rules->estimate_device;
    COPY_MEMBERS(*d, *rules, estimate_threads, kept_most, shared);
    return submission_refer(rules, &d->file, &d->refs, err);
}

int draft_new(const struct submission_rules *rules, const struct submission *r, int64_t now_ms, struct draft **ret,
              struct err *err) {
    struct draft *d = NULL;
    int rc;
    if ((rc = draft_parse(r, now_ms, &d, err)))
        return rc;
    if ((rc = draft_refer(rules, d, err)))
        draft_free(d);
    else
        *ret = d;
    return rc;
}

static void no_notice(void *ctx, const char *text) { (void)ctx, (void)text; }

/* What a job with recordings needs of a device's memory, by the plan of its model; 0: its model cannot be looked at now. */
static int64_t memory_of(const struct draft *d) {
    const struct task_work *kind = task_work_of(d->file.kind);
    struct estimate_file files[JOBFILE_MAX_REFS];
    struct estimate_config config = {
        .job = &d->file, .device = d->estimate_device, .threads = d->estimate_threads, .files = files, .notice = no_notice};
    struct estimate estimate = {0};
    for (int i = 0; i < d->refs.n; i++)
        if (*d->refs.at[i].path)
            files[config.n_files++] = (struct estimate_file){d->refs.at[i].ref.key, d->refs.at[i].ref.value, d->refs.at[i].path};
    return kind->estimate && !kind->estimate(&config, &estimate, NULL) ? estimate.memory_bytes : 0;
}

int draft_look(struct draft *d, struct err *err) {
    int rc;
    if ((rc = submission_look(&d->refs, &d->file, err)) || (rc = pin_refs(d, err)))
        return rc;
    str_copy(d->job->data_root, sizeof d->job->data_root, d->refs.data_root);
    d->job->memory_bytes = d->estimate_device && d->file.data && !d->file.executor ? memory_of(d) : 0;
    return 0;
}

/* Such a model may be pruned, unloaded or replaced while the job waits. */
static bool may_vanish(const struct draft *d, int i) {
    const char *results = d->refs.places.results_dir, *path = d->refs.at[i].path;
    return d->refs.at[i].ref.type != OPTION_PATH && str_starts(path, results) && path[strlen(results)] == '/';
}

static int find_kept_most(struct draft *d, struct err *err) {
    struct statvfs v;
    if (!d->shared || !d->job->kept_bytes)
        return 0;
    if (!d->kept_most && statvfs(d->refs.places.results_dir, &v))
        return err_errno(err, errno, "%s: its size is unknown", d->refs.places.results_dir);
    d->kept_most = principal_share(d->kept_most ? d->kept_most : (int64_t)v.f_blocks * (int64_t)v.f_frsize, true);
    return 0;
}

int draft_check_kept(const struct draft *d, int64_t others, struct err *err) {
    if (!d->shared || !d->job->kept_bytes || others + d->job->kept_bytes <= d->kept_most)
        return 0;
    return err_set(err, ERR_EXHAUSTED,
                   "the models that this job keeps while it waits take %s; those of your other jobs take %s, and one caller may "
                   "keep %s of paths.results: wait until a job has run, or delete one",
                   counted(d->job->kept_bytes, "byte").text, counted(others, "byte").text, counted(d->kept_most, "byte").text);
}

/* Where the volume has no hard links the job goes without. */
static int keep_models(struct draft *d, struct err *err) {
    char kept[4096];
    int64_t bytes, mtime_ns;
    int rc;
    for (int i = 0; i < d->refs.n; i++) {
        const char *path = d->refs.at[i].path;
        if (!may_vanish(d, i) || !task_kept_model(d->job->directory, path, kept) || fsio_exists(kept))
            continue;
        if ((rc = fsio_mkdirs_above(kept, err)))
            return rc;
        if (!link(path, kept) && !fsio_size(kept, &bytes, &mtime_ns, NULL))
            d->job->kept_bytes += bytes;
        else if (!fsio_exists(path))
            return err_set(err, ERR_NOT_FOUND, "%s: %s was removed meanwhile; submit the job again", d->refs.at[i].ref.key, path);
    }
    return find_kept_most(d, err);
}

int draft_place(struct draft *d, struct err *err) {
    int rc;
    if ((rc = draft_look(d, err)) || (rc = submission_place(d->refs.places.results_dir, d->job, d->next, err)) ||
        (rc = keep_models(d, err)) || !d->file.executor || !d->file.array.size)
        return rc;
    return slurm_record_job(d->job->directory, d->job->yaml, d->job->overrides, err);
}

void draft_discard(struct draft *d) {
    struct err err;
    if (d->job && *d->job->directory && fsio_remove_tree(d->job->directory, &err))
        log_warn("the directory of a job that was not queued stays", "path=%s error=\"%s\"", d->job->directory, err.message);
}

void draft_free(struct draft *d) {
    if (!d)
        return;
    job_free(d->job);
    arena_done(&d->arena);
    free(d);
}

/* name-of-kind, date and sequence: readable, unique in this database. */
static void make_id(struct job *job) {
    char stamp[20];
    str_format(job->id, sizeof job->id, "%s-%s-%lld", job->kind, clock_utc(job->created_ms, "%y%m%d", stamp, sizeof stamp),
               (long long)job->sequence);
}

int submission_place(const char *results_dir, struct job *job, _Atomic int64_t *next, struct err *err) {
    char jobs[sizeof job->directory];
    struct err why;
    if (!str_format(jobs, sizeof jobs, "%s/jobs", results_dir))
        return err_set(err, ERR_RANGE, "paths.results is too long");
    int rc = fsio_mkdirs(jobs, err);
    while (!rc) {
        job->sequence = atomic_fetch_add(next, 1);
        make_id(job);
        if (!str_format(job->directory, sizeof job->directory, "%s/%s", jobs, job->id))
            rc = err_set(err, ERR_RANGE, "paths.results is too long");
        else if (!(rc = fsio_mkdir_new(job->directory, &why)))
            return 0;
        else if (rc == ERR_EXISTS)
            log_warn("the directory of a job exists already: its number is left out", "path=%s", job->directory);
        else if (err)
            *err = why;
        rc = rc == ERR_EXISTS ? 0 : rc;
    }
    *job->directory = '\0'; /* not this job's */
    return rc;
}
