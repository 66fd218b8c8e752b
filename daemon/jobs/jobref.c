#include "daemon/jobs/jobref.h"

#include <string.h>

#include "base/fsio.h"
#include "base/str.h"
#include "daemon/jobs/jobdb.h"

enum { PATH_SIZE = 4096 };

struct wanted {
    int64_t step;
    char *path;
};

static int match_step(void *ctx, const struct jobdb_checkpoint *c) {
    struct wanted *w = ctx;
    if (c->c.step == w->step)
        str_copy(w->path, PATH_SIZE, c->c.path);
    return 0;
}

int jobref_resolve(const struct sched *sched, struct db *db, const char *ref, char path[PATH_SIZE], struct err *err) {
    char id[JOB_ID_SIZE + 64];
    str_copy(id, sizeof id, ref + strlen("job:"));
    char *at = strchr(id, '@');
    if (at)
        *at++ = '\0';
    const struct job *job = sched_get(sched, id);
    struct wanted w = {.path = path};
    int rc = 0;
    path[0] = '\0';
    if (!job)
        return err_set(err, ERR_NOT_FOUND, "%s: there is no job '%s'; `brrctl jobs` lists them", ref, id);
    if (!at)
        str_copy(path, PATH_SIZE, *job->best ? job->best : job->last);
    else if (!strcmp(at, "best"))
        str_copy(path, PATH_SIZE, job->best);
    else if (!strcmp(at, "last"))
        str_copy(path, PATH_SIZE, job->last);
    else if (str_to_i64(at, &w.step))
        rc = jobdb_checkpoints(db, id, match_step, &w, err);
    else
        return err_set(err, ERR_INVALID, "%s: expected job:ID, job:ID@best, job:ID@last or job:ID@STEP", ref);
    if (!rc && (!*path || !fsio_exists(path)))
        rc = err_set(err, ERR_NOT_FOUND, "%s: job %s (%s) has no such checkpoint; `brrctl checkpoints %s` lists them", ref, id,
                     job_state_name(job->state), id);
    return rc;
}
