#include "daemon/services/services.h"

#include "daemon/jobs/jobref.h"

static const struct rpc_method *const tables[] = {
#define SERVICE(table) table,
#include "services.def"
#undef SERVICE
};

size_t services_methods(const struct rpc_method **ret, size_t max) {
    size_t n = 0;
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        for (const struct rpc_method *m = tables[i]; m->path && n < max; m++)
            ret[n++] = m;
    return n;
}

_Static_assert((int)PLACES_VIEWER >= (int)AUTH_NAME_SIZE, "a viewer that is cut might be another one");

/* Paths outside the configured ones are for the daemon itself, and for its own user and root on the unix socket. */
void services_enter(struct services *s, const struct auth_caller *caller) {
    s->places.local_paths = s->local_paths && (!caller || caller->own);
    s->places.limited = caller && !caller->all && caller->role < ROLE_ADMIN;
    str_copy(s->places.viewer, sizeof s->places.viewer, caller ? caller->name : "");
}

bool services_sees_job(const struct rpc_call *call, const struct job *job) {
    return job && !*job->owner ? true : auth_sees(rpc_caller(call), job ? job->owner : "");
}

bool services_hides(const struct rpc_call *call, const char *id) {
    const struct job *job = id ? sched_get(services_of(call)->sched, id) : NULL;
    return job && !services_sees_job(call, job);
}

int services_find_job(struct rpc_call *call, const char *id, const struct job **ret, struct err *err) {
    const struct job *job = NULL;
    int rc = jobref_find(services_of(call)->sched, id, &job, err);
    if (rc)
        return rc;
    if (!services_sees_job(call, job))
        return err_set(err, ERR_NOT_FOUND, "there is no job '%.80s' that this caller may see; `brrctl jobs` lists them", id);
    *ret = job;
    return 0;
}
