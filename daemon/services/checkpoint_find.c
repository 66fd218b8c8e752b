#include "daemon/services/checkpoint_find.h"

/* ---- messages ---- */

static Brr__V1__Checkpoint *checkpoint_new(struct arena *arena, const char *path) {
    Brr__V1__Checkpoint *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__checkpoint__init(m);
    m->path = arena_strdup(arena, path);
    return m->path ? m : NULL;
}

Brr__V1__Checkpoint *checkpoint_of_record(struct arena *arena, const struct jobdb_checkpoint *c) {
    Brr__V1__Checkpoint *m = checkpoint_new(arena, c->c.path);
    if (!m)
        return NULL;
    m->ref = arena_printf(arena, "job:%s@%lld", c->job_id, (long long)c->c.step);
    m->job_id = arena_strdup(arena, c->job_id);
    m->sha256 = arena_strdup(arena, c->c.sha256);
    m->metric_name = arena_strdup(arena, c->c.metric_name);
    COPY_MEMBERS(*m, c->c, step, epoch, bytes, metric);
    COPY_MEMBERS(*m, *c, created_ms, pinned);
    return m->ref && m->job_id && m->sha256 && m->metric_name ? m : NULL;
}

/* Whether m is the checkpoint that was written to `path`; a pinned one may be elsewhere by now. */
static bool is_from(struct db *db, const char *path, const Brr__V1__Checkpoint *m) {
    struct jobdb_checkpoint c;
    bool found = false;
    if (!m->pinned || !strcmp(path, m->path))
        return !strcmp(path, m->path);
    return *path && !jobdb_record_at(db, path, &c, &found, NULL) && found && c.c.step == m->step;
}

Brr__V1__Checkpoint *checkpoint_rank(const struct services *s, Brr__V1__Checkpoint *m) {
    const struct job *job = m ? sched_get(s->sched, m->job_id) : NULL;
    if (job) {
        m->best = is_from(s->db, job->best, m);
        m->last = is_from(s->db, job->last, m);
    }
    return m;
}

Brr__V1__Checkpoint *checkpoint_of_file(struct arena *arena, const char *ref, const char *path, struct err *err) {
    struct modelfile file;
    int64_t bytes, mtime_ns;
    if (fsio_size(path, &bytes, &mtime_ns, err) || modelfile_read(path, &file, err))
        return NULL;
    Brr__V1__Checkpoint *m = checkpoint_new(arena, path);
    if (!m || !(m->ref = arena_strdup(arena, ref))) {
        err_set(err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
        return NULL;
    }
    COPY_MEMBERS(*m, file, step, epoch);
    m->bytes = bytes;
    m->created_ms = mtime_ns / 1000000;
    m->metric = (double)NAN;
    return m;
}

/* ---- one checkpoint by its REF ---- */

void checkpoint_find_file(struct offload *work) {
    struct checkpoint_find *o = (struct checkpoint_find *)work;
    if (!model_resolve(&o->model, NULL, &o->file, &work->err))
        o->about = checkpoint_of_file(o->work.arena, o->ref, o->file.path, &o->unreadable);
    db_wait(o->db); /* its record is read next */
}

void *checkpoint_find_start(struct rpc_call *call, size_t size, const char *ref, void (*run)(struct offload *work),
                            void (*done)(struct offload *work), struct err *err) {
    struct checkpoint_find *o = offload_new(call, OFFLOAD_FILES, size, NULL, err);
    if (!o || models_refer(services_of(call)->models, ref, &o->model, err))
        return NULL;
    str_copy(o->ref, sizeof o->ref, ref);
    o->db = services_of(call)->db;
    o->writer = sched_writer(services_of(call)->sched);
    offload_start(&o->work, run, done);
    return o;
}

Brr__V1__Checkpoint *checkpoint_found(struct checkpoint_find *o) {
    struct rpc_call *call = o->work.call;
    if (!call)
        return NULL;
    if (!o->work.err.code && !jobdb_record_at(services_of(call)->db, o->file.path, &o->record, &o->recorded, &o->work.err) &&
        o->recorded)
        str_copy(o->record.c.path, sizeof o->record.c.path, o->file.path); /* where it is now */
    if (!o->work.err.code && o->recorded && o->model.origin != MODEL_SERVED &&
        !services_sees_job(call, sched_get(services_of(call)->sched, o->record.job_id)))
        err_set(&o->work.err, ERR_NOT_FOUND, "there is no checkpoint '%.200s' that this caller may see", o->ref);
    if (!o->work.err.code && !o->recorded)
        o->work.err = o->unreadable;
    if (!o->work.err.code &&
        !(o->found = o->recorded ? checkpoint_rank(services_of(call), checkpoint_of_record(o->work.arena, &o->record)) : o->about))
        err_set(&o->work.err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
    if (!o->found)
        rpc_finish(call, &o->work.err);
    return o->found;
}
