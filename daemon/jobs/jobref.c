#include "daemon/jobs/jobref.h"

#include "daemon/jobs/jobdb.h"

int jobref_find(const struct sched *sched, const char *id, const struct job **ret, struct err *err) {
    const struct job *found = sched_get(sched, id);
    int n = found ? 1 : 0;
    for (int i = 0; !found && strlen(id) >= JOBREF_PREFIX && i < sched_count(sched); i++)
        n += str_starts(sched_at(sched, i)->id, id);
    if (!n)
        return err_set(err, ERR_NOT_FOUND, "there is no job '%.100s'; `brrctl jobs` lists them", id);
    if (n > 1)
        return err_set(err, ERR_INVALID, "the ids of %d jobs begin with '%.100s'; give more characters", n, id);
    for (int i = 0; !found; i++)
        found = str_starts(sched_at(sched, i)->id, id) ? sched_at(sched, i) : NULL;
    *ret = found;
    return 0;
}

static int find_step(struct db *db, const char *id, int64_t step, struct jobref *ret, struct err *err) {
    struct jobdb_checkpoint c = {.kept = ""};
    bool found;
    int rc = jobdb_record(db, id, step, &c, &found, err);
    str_copy(ret->path, sizeof ret->path, c.c.path);
    str_copy(ret->spare, sizeof ret->spare, c.kept);
    return rc;
}

/* The pin of a best or last checkpoint, whose own file may be gone with the job's folder, as after a restore. */
static int find_pin(struct db *db, struct jobref *ret, struct err *err) {
    struct jobdb_checkpoint c = {.kept = ""};
    bool found;
    int rc = *ret->path ? jobdb_record_at(db, ret->path, &c, &found, err) : 0;
    str_copy(ret->spare, sizeof ret->spare, c.kept);
    return rc;
}

int jobref_resolve(const struct sched *sched, struct db *db, const char *ref, struct jobref *ret, struct err *err) {
    char id[JOB_ID_SIZE + 64];
    str_copy(id, sizeof id, ref + strlen("job:"));
    char *at = strchr(id, '@');
    if (at)
        *at++ = '\0';
    const struct job *job = sched_get(sched, id);
    int64_t step;
    int rc = 0;
    *ret = (struct jobref){.path = ""};
    if (!job)
        return err_set(err, ERR_NOT_FOUND, "%s: there is no job '%s'; `brrctl jobs` lists them", ref, id);
    str_copy(ret->owner, sizeof ret->owner, job->owner);
    if (!at)
        str_copy(ret->path, sizeof ret->path, job_learned(job));
    else if (!strcmp(at, "best"))
        str_copy(ret->path, sizeof ret->path, job->best);
    else if (!strcmp(at, "last"))
        str_copy(ret->path, sizeof ret->path, job->saved_step ? job->last : "");
    else if (str_to_i64(at, &step))
        rc = find_step(db, id, step, ret, err);
    else
        return err_set(err, ERR_INVALID, "%s: expected job:ID, job:ID@best, job:ID@last or job:ID@STEP", ref);
    if (!*ret->path && *job->last && !job->saved_step && !(at && str_to_i64(at, &step)))
        err_set(&ret->absent, ERR_NOT_FOUND, "%s: nothing learned yet; job:%s@0 is the untrained network", ref, id);
    else
        err_set(&ret->absent, ERR_NOT_FOUND, "%s: job %s (%s) has no such checkpoint; `brrctl checkpoints %s` lists them", ref, id,
                job_state_name(job->state), id);
    if (rc || (!*ret->spare && (rc = find_pin(db, ret, err))) || *ret->path)
        return rc;
    if (err)
        *err = ret->absent;
    return ERR_NOT_FOUND;
}
