#include "daemon/services/checkpoint_find.h"

#include "base/base.h"

/* ---- messages ---- */

Brr__V1__Checkpoint *checkpoint_message_of(struct rpc_call *call, const struct jobdb_checkpoint *c) {
    struct arena *arena = rpc_arena(call);
    const struct job *job = sched_get(services_of(call)->sched, c->job_id);
    Brr__V1__Checkpoint *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__checkpoint__init(m);
    m->ref = arena_printf(arena, "job:%s@%lld", c->job_id, (long long)c->c.step);
    m->job_id = arena_strdup(arena, c->job_id);
    m->step = c->c.step;
    m->epoch = c->c.epoch;
    m->path = arena_strdup(arena, c->c.path);
    m->bytes = c->c.bytes;
    m->sha256 = arena_strdup(arena, c->c.sha256);
    m->created_ms = c->created_ms;
    m->best = job && !strcmp(job->best, c->c.path);
    m->last = job && !strcmp(job->last, c->c.path);
    m->pinned = c->pinned;
    m->metric = c->c.metric;
    m->metric_name = arena_strdup(arena, c->c.metric_name);
    return m->ref && m->job_id && m->path && m->sha256 && m->metric_name ? m : NULL;
}

int checkpoint_file_read(struct checkpoint_file *f, const char *ref, const char *path, struct err *err) {
    struct modelfile file;
    int rc = fsio_size(path, &f->bytes, &f->mtime_ns, err);
    if (rc || (rc = modelfile_read(path, &file, err)))
        return rc;
    str_copy(f->ref, sizeof f->ref, ref);
    str_copy(f->path, sizeof f->path, path);
    f->step = file.step;
    f->epoch = file.epoch;
    return 0;
}

Brr__V1__Checkpoint *checkpoint_message_of_file(struct arena *arena, const struct checkpoint_file *f) {
    Brr__V1__Checkpoint *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__checkpoint__init(m);
    m->ref = arena_strdup(arena, f->ref);
    m->path = arena_strdup(arena, f->path);
    COPY_MEMBERS(*m, *f, bytes, step, epoch);
    m->created_ms = f->mtime_ns / 1000000;
    m->metric = (double)NAN;
    return m->ref && m->path ? m : NULL;
}

/* ---- one checkpoint by its REF ---- */

void checkpoint_find_file(struct offload *work) {
    struct checkpoint_find *o = (struct checkpoint_find *)work;
    if (!model_resolve(&o->model, NULL, &o->file, &work->err))
        checkpoint_file_read(&o->about, o->ref, o->file.path, &o->unreadable);
    db_wait(o->db); /* its record is read next */
}

void *checkpoint_find_new(struct rpc_call *call, size_t size, const char *ref, void (*drop)(struct offload *work),
                          struct err *err) {
    struct checkpoint_find *o = offload_new(call, OFFLOAD_FILES, size, drop, err);
    if (!o || models_refer(services_of(call)->models, ref, &o->model, err))
        return NULL;
    str_copy(o->ref, sizeof o->ref, ref);
    o->db = services_of(call)->db;
    o->writer = sched_writer(services_of(call)->sched);
    return o;
}

Brr__V1__Checkpoint *checkpoint_found(struct checkpoint_find *o) {
    struct rpc_call *call = o->work.call;
    Brr__V1__Checkpoint *m = NULL;
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
        !(m = o->recorded ? checkpoint_message_of(call, &o->record) : checkpoint_message_of_file(rpc_arena(call), &o->about)))
        err_set(&o->work.err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
    if (!m)
        rpc_finish(call, &o->work.err);
    return m;
}
