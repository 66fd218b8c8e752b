#include "daemon/jobs/jobref.h"

#include <string.h>

#include "base/str.h"
#include "daemon/jobs/jobdb.h"

struct wanted {
    int64_t step;
    struct jobref *ret;
};

static int match_step(void *ctx, const struct jobdb_checkpoint *c) {
    const struct wanted *w = ctx;
    if (c->c.step != w->step)
        return 0;
    str_copy(w->ret->path, sizeof w->ret->path, c->c.path);
    str_copy(w->ret->spare, sizeof w->ret->spare, c->kept);
    return 0;
}

int jobref_resolve(const struct sched *sched, struct db *db, const char *ref, struct jobref *ret, struct err *err) {
    char id[JOB_ID_SIZE + 64];
    str_copy(id, sizeof id, ref + strlen("job:"));
    char *at = strchr(id, '@');
    if (at)
        *at++ = '\0';
    const struct job *job = sched_get(sched, id);
    struct wanted w = {.ret = ret};
    int rc = 0;
    *ret = (struct jobref){.path = ""};
    if (!job)
        return err_set(err, ERR_NOT_FOUND, "%s: there is no job '%s'; `brrctl jobs` lists them", ref, id);
    if (!at)
        str_copy(ret->path, sizeof ret->path, *job->best ? job->best : job->last);
    else if (!strcmp(at, "best"))
        str_copy(ret->path, sizeof ret->path, job->best);
    else if (!strcmp(at, "last"))
        str_copy(ret->path, sizeof ret->path, job->last);
    else if (str_to_i64(at, &w.step))
        rc = jobdb_records(db, id, match_step, &w, err);
    else
        return err_set(err, ERR_INVALID, "%s: expected job:ID, job:ID@best, job:ID@last or job:ID@STEP", ref);
    err_set(&ret->absent, ERR_NOT_FOUND, "%s: job %s (%s) has no such checkpoint; `brrctl checkpoints %s` lists them", ref, id,
            job_state_name(job->state), id);
    if (rc || *ret->path)
        return rc;
    if (err)
        *err = ret->absent;
    return ERR_NOT_FOUND;
}
