/* brr.v1.Checkpoints: the model files of jobs and uploads, but for calls that carry or read them whole (svc_checkpoint_files.c). */

#include "base/grow.h"
#include "daemon/jobs/pins.h"
#include "daemon/models/upload_owner.h"
#include "daemon/services/checkpoint_find.h"

enum { MAX_LISTED = 10000, LIST_BYTES = 256 << 20 };

/* ---- List ---- */

struct listing {
    struct offload work;
    struct db *db;
    char principal[AUTH_NAME_SIZE];
    bool all; /* the caller sees those of all principals */
    char job_id[JOB_ID_SIZE];
    bool unread; /* the records */
    char folder[LIVE_PATH];
    struct arena arena;          /* of the items */
    Brr__V1__Checkpoint **items; /* the records whose files are there, then uploads */
    size_t n, room;
};

static void drop_listing(struct offload *work) {
    struct listing *l = (struct listing *)work;
    arena_done(&l->arena);
    free(l->items);
}

static int add_item(struct listing *l, Brr__V1__Checkpoint *m) {
    if (!m || !GROW(l->items, l->n, l->room))
        return err_set(&l->work.err, ERR_EXHAUSTED, "out of memory listing checkpoints");
    l->items[l->n++] = m;
    return 0;
}

static int note_record(void *ctx, const struct jobdb_checkpoint *c) {
    struct listing *l = ctx;
    struct jobdb_checkpoint there = *c;
    if (!fsio_exists(c->c.path) && *c->kept)
        str_copy(there.c.path, sizeof there.c.path, c->kept);
    return fsio_exists(there.c.path) ? add_item(l, checkpoint_of_record(&l->arena, &there)) : 0;
}

/* On the pool: a job leaves as many records as it ever wrote checkpoints. A database whose volume is full or lost may have no
 * second connection: then the loop reads them. */
static void look_at_records(struct listing *l) {
    struct db *db = NULL;
    l->unread = jobdb_open_reader(db_path(l->db), &db, NULL) != 0;
    if (!l->unread)
        jobdb_records(db, l->job_id, note_record, l, &l->work.err);
    db_close(db);
}

/* On the pool. Uploads that are no models are passed over. */
static void look_at_files(struct offload *work) {
    struct listing *l = (struct listing *)work;
    db_wait(l->db);
    look_at_records(l);
    OWNED_DIR DIR *d = *l->folder ? opendir(l->folder) : NULL;
    char path[LIVE_PATH], ref[256];
    struct dirent *e = NULL;
    struct err err;
    int uploads = 0;
    if (*l->folder && !d && errno != ENOENT)
        err_errno(&work->err, errno, "cannot open directory %s", l->folder);
    while (d && !work->err.code && uploads <= MAX_LISTED && !fsio_next_entry(d, &e, &work->err) && e) {
        if (*e->d_name == '.' || !str_ends(e->d_name, ".safetensors") || !str_format(ref, sizeof ref, "upload:%s", e->d_name) ||
            fsio_join(path, sizeof path, l->folder, e->d_name, &err) || (!l->all && !upload_owner_is(path, l->principal)))
            continue;
        ref[strlen(ref) - strlen(".safetensors")] = '\0';
        Brr__V1__Checkpoint *m = checkpoint_of_file(&l->arena, ref, path, &err);
        if (m && !add_item(l, m))
            uploads++;
    }
    db_wait(l->db); /* the loop may read it next */
}

static void answer_list(struct offload *work) {
    struct listing *l = (struct listing *)work;
    struct rpc_call *call = work->call;
    Brr__V1__ListCheckpointsResponse out = BRR__V1__LIST_CHECKPOINTS_RESPONSE__INIT;
    if (l->unread && !work->err.code && call)
        jobdb_records(l->db, l->job_id, note_record, l, &work->err);
    if (!offload_good(work))
        return;
    const struct sched *sched = services_of(call)->sched;
    out.checkpoints = l->items;
    for (size_t i = 0; i < l->n; i++)
        if (!*l->items[i]->job_id || services_sees_job(call, sched_get(sched, l->items[i]->job_id)))
            l->items[out.n_checkpoints++] = checkpoint_rank(services_of(call), l->items[i]);
    if (out.n_checkpoints > MAX_LISTED)
        err_set(&work->err, ERR_EXHAUSTED,
                "there are more than %d checkpoints, too many for one answer; ask for those of one job (job_id)", MAX_LISTED);
    offload_answer(work, &out, "checkpoints");
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ListCheckpointsRequest *in = message;
    struct services *services = services_of(call);
    char path[LIVE_PATH];
    if (*in->job_id && !(sched_get(services->sched, in->job_id) && services_sees_job(call, sched_get(services->sched, in->job_id))))
        return err_set(err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", in->job_id);
    struct listing *l = offload_new(call, OFFLOAD_FILES, sizeof *l, drop_listing, err);
    if (!l)
        return err->code;
    l->db = services->db;
    l->arena = arena_of(LIST_BYTES);
    str_copy(l->job_id, sizeof l->job_id, in->job_id);
    str_copy(l->principal, sizeof l->principal, rpc_caller(call)->name);
    l->all = auth_sees(rpc_caller(call), "");
    if (!*in->job_id && !models_upload_path(services->models, "x", path, NULL)) {
        *strrchr(path, '/') = '\0';
        str_copy(l->folder, sizeof l->folder, path);
    }
    offload_start(&l->work, look_at_files, answer_list);
    return 0;
}

static int check_delete(const struct checkpoint_find *o, struct err *err) {
    struct services *services = services_of(o->work.call);
    const char *ref = o->ref, *path = o->file.path;
    const struct job *job = o->recorded ? sched_get(services->sched, o->record.job_id) : NULL;
    if (models_find(services->models, ref))
        return err_set(err, ERR_PRECONDITION, "%s serves; unload it first", ref);
    for (int i = 0; i < models_count(services->models); i++)
        if (!strcmp(models_at(services->models, i)->path, path))
            return err_set(err, ERR_PRECONDITION, "%s serves as %s; unload it first", ref, models_at(services->models, i)->name);
    if (o->recorded && o->record.pinned)
        return err_set(err, ERR_PRECONDITION, "%s is pinned; `brrctl checkpoint unpin %s` first", ref, ref);
    if (job && (!strcmp(job->last, path) || !strcmp(job->best, path)))
        return err_set(err, ERR_PRECONDITION, "%s is the %s checkpoint of job %s, which it needs to go on or to be used", ref,
                       strcmp(job->last, path) ? "best" : "last", job->id);
    if (!o->recorded) {
        char upload[LIVE_PATH];
        if (!str_starts(ref, "upload:") || models_upload_path(services->models, ref + strlen("upload:"), upload, err) ||
            strcmp(upload, path))
            return err_set(err, ERR_DENIED,
                           "%s is neither a job's checkpoint nor an upload; the daemon does not delete other files", ref);
    }
    return 0;
}

static int write_removed(struct db *db, void *what, struct err *err) {
    const struct jobdb_checkpoint *c = what;
    return jobdb_remove_checkpoint(db, c->job_id, c->c.step, err);
}

/* On the pool. */
static int remove_record(struct checkpoint_find *o) {
    const struct db_order order = {.write = write_removed, .what = &o->record, .size = sizeof o->record};
    return db_writer_run(o->writer, &order, &o->work.err);
}

/* On the pool. The record first: a file without one is garbage, a record without its file would be an error for others. */
static void remove_files(struct offload *work) {
    struct checkpoint_find *o = (struct checkpoint_find *)work;
    if (o->recorded && remove_record(o))
        return;
    const char *path = o->file.path;
    char state[LIVE_PATH + 16];
    if (unlink(path) && errno != ENOENT)
        err_errno(&work->err, errno, "%s is no longer listed, but its file cannot be removed; remove it", path);
    if (!o->recorded)
        upload_owner_forget(path);
    if (o->recorded && str_ends(path, ".safetensors") &&
        str_format(state, sizeof state, "%.*s.state.safetensors", (int)(strlen(path) - strlen(".safetensors")), path))
        unlink(state);
}

static void deleted(struct offload *work) { offload_answer(work, ((struct checkpoint_find *)work)->found, "a checkpoint"); }

static void delete_found(struct offload *work) {
    struct checkpoint_find *o = (struct checkpoint_find *)work;
    if (!checkpoint_found(o))
        return;
    if (check_delete(o, &work->err))
        rpc_finish(work->call, &work->err);
    else
        offload_start_must(work, remove_files, deleted);
}

static int delete_one(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__CheckpointRef *in = message;
    return checkpoint_find_start(call, sizeof(struct checkpoint_find), in->ref, checkpoint_find_file, delete_found, err)
               ? 0
               : err->code;
}

struct pinning {
    struct checkpoint_find one;
    const char *results_dir;
    bool pinned;
};

/* On the pool. */
static void change_pin(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    const struct pins pins = {p->results_dir, p->one.writer};
    (p->pinned ? pins_add : pins_remove)(&pins, &p->one.record, &work->err);
}

static void answer_pin(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    p->one.record.pinned = p->pinned;
    offload_answer(work,
                   work->call ? checkpoint_rank(services_of(work->call), checkpoint_of_record(work->arena, &p->one.record)) : NULL,
                   "a checkpoint");
}

static void pin_found(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    if (!checkpoint_found(&p->one))
        return;
    if (!p->one.recorded) {
        err_set(&work->err, ERR_PRECONDITION, "%s was not written by a job; only jobs' checkpoints are pruned and need a pin",
                p->one.ref);
        rpc_finish(work->call, &work->err);
        return;
    }
    offload_start_must(work, change_pin, answer_pin);
}

static int pin(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__PinRequest *in = message;
    struct pinning *p = checkpoint_find_start(call, sizeof *p, in->ref, checkpoint_find_file, pin_found, err);
    if (!p)
        return err->code;
    p->pinned = in->pinned;
    p->results_dir = services_of(call)->places.results_dir;
    return 0;
}

static int promote(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__PromoteRequest *in = message;
    return svc_models_load(call, &(struct models_request){SAME_MEMBERS(*in, name, ref)}, err);
}

const struct rpc_method svc_checkpoints[] = {
    {RPC_METHOD("/brr.v1.Checkpoints/List", ROLE_READ, brr__v1__list_checkpoints_request, list), .end = offload_end},
    {RPC_METHOD("/brr.v1.Checkpoints/Promote", ROLE_ADMIN, brr__v1__promote_request, promote), .end = svc_models_load_end},
    {RPC_METHOD("/brr.v1.Checkpoints/Delete", ROLE_ADMIN, brr__v1__checkpoint_ref, delete_one), .end = offload_end},
    {RPC_METHOD("/brr.v1.Checkpoints/Pin", ROLE_SUBMIT, brr__v1__pin_request, pin), .end = offload_end},
    {.path = NULL},
};
