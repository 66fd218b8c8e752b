#include "daemon/jobs/removal.h"

#include "base/log.h"

/* True if the text names a file of the folder. */
static bool names(const char *text, const char *folder) {
    size_t len = strlen(folder);
    for (const char *at = len ? strstr(text, folder) : NULL; at; at = strstr(at + 1, folder))
        if (at[len] == '/')
            return true;
    return false;
}

static int check_users(const struct removal *r, const struct job *job, struct err *err) {
    for (int i = 0; i < models_count(r->models); i++)
        if (names(models_at(r->models, i)->path, job->directory))
            return err_set(err, ERR_PRECONDITION, "a model of job %s serves as %s; unload it first", job->id,
                           models_at(r->models, i)->name);
    for (int i = 0; i < sched_open_count(r->sched); i++) {
        const struct job *other = sched_open_at(r->sched, i);
        if (other != job && names(other->overrides, job->directory))
            return err_set(err, ERR_PRECONDITION, "job %s, which is %s, needs a model of job %s; wait for its end", other->id,
                           job_state_name(other->state), job->id);
    }
    return 0;
}

int removal_check(const struct removal *r, const struct job *job, struct err *err) {
    int64_t pinned = -1;
    if (!job_is_over(job->state))
        return err_set(err, ERR_PRECONDITION, "job %s is %s; only jobs that have ended can be deleted: `brrctl cancel %s` ends it",
                       job->id, job_state_name(job->state), job->id);
    int rc = jobdb_pinned(r->db, job->id, &pinned, err);
    if (rc)
        return rc;
    if (pinned >= 0)
        return err_set(err, ERR_PRECONDITION, "job:%s@%lld is pinned; `brrctl checkpoint unpin job:%s@%lld` first", job->id,
                       (long long)pinned, job->id, (long long)pinned);
    return check_users(r, job, err);
}

int removal_record(const struct removal *r, const char *id, char ret_folder[2048], struct err *err) {
    const struct job *job = sched_get(r->sched, id);
    char own[JOB_ID_SIZE + 8], folder[2048];
    int rc;
    if (!job)
        return err_set(err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", id);
    str_format(own, sizeof own, "/jobs/%s", job->id);
    str_copy(folder, sizeof folder, str_ends(job->directory, own) ? job->directory : "");
    if ((rc = removal_check(r, job, err)) || (rc = sched_remove(r->sched, id, folder, err)))
        return rc;
    str_copy(ret_folder, 2048, folder);
    return 0;
}

int removal_files(const char *folder, struct err *err) {
    int rc = *folder ? fsio_remove_tree(folder, err) : 0;
    return rc ? err_wrap(err,
                         "the job is no longer listed, but its folder %s cannot be removed; brrd tries again at its next start",
                         folder)
              : 0;
}

/* A record that cannot be removed does no harm: the next start finds no folder. */
static int end(struct db *db, void *id, struct err *err) { return jobdb_end_removal(db, id, err); }

static void ended(void *ctx, void *id, int rc, const struct err *err) {
    (void)ctx;
    if (rc)
        log_warn("the folder of a deleted job is gone, but its record is not", "job=%s error=\"%s\"", (const char *)id,
                 err->message);
}

void removal_end(const struct removal *r, const char *id) {
    char what[JOB_ID_SIZE];
    struct err err;
    str_copy(what, sizeof what, id);
    const struct db_order order = {.write = end, .what = what, .size = sizeof what, .ended = ended};
    if (db_writer_post(sched_writer(r->sched), &order, &err))
        ended(NULL, what, err.code, &err);
}
