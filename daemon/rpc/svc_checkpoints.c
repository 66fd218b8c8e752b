/* brr.v1.Checkpoints: the model files of jobs and uploads. Files are read, hashed and made durable on libuv's thread pool; the loop
 * only passes parts on. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "base/fsio.h"
#include "base/str.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/offload.h"
#include "daemon/rpc/services.h"
#include "store/digest.h"

enum { PART_BYTES = 1 << 20, MAX_LISTED = 10000 };
static const int64_t max_upload_bytes = INT64_C(16) << 30;

static struct services *services_of(const struct rpc_call *call) { return rpc_context(call); }
static void fail(struct rpc_call *call, const struct err *err) { rpc_finish(call, err->code, err); }

/* ---- messages ---- */

static Brr__V1__Checkpoint *message_of(struct rpc_call *call, const struct jobdb_checkpoint *c) {
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

/* A model file that no job wrote, as the pool has read it. */
struct found_file {
    char ref[LIVE_PATH], path[LIVE_PATH];
    int64_t bytes, mtime_ns, step, epoch;
};

/* On the pool. */
static int read_file(struct found_file *f, const char *ref, const char *path, struct err *err) {
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

static Brr__V1__Checkpoint *message_of_file(struct arena *arena, const struct found_file *f) {
    Brr__V1__Checkpoint *m = arena_alloc(arena, sizeof *m);
    if (!m)
        return NULL;
    brr__v1__checkpoint__init(m);
    m->ref = arena_strdup(arena, f->ref);
    m->path = arena_strdup(arena, f->path);
    m->bytes = f->bytes;
    m->step = f->step;
    m->epoch = f->epoch;
    m->created_ms = f->mtime_ns / 1000000;
    m->metric = (double)NAN;
    return m->ref && m->path ? m : NULL;
}

/* ---- one checkpoint by its REF ---- */

/* A call about one checkpoint: its file is found on the pool, its record, when a job wrote it, on the loop. First member of the
 * state of each such call. */
struct one {
    struct offload work;
    char ref[LIVE_PATH];
    struct model_ref file;
    struct found_file about; /* what the file says of itself, or */
    struct err unreadable;   /* why it says nothing, which matters only without a record */
    struct jobdb_checkpoint record;
    bool recorded;
};

static int match_path(void *ctx, const struct jobdb_checkpoint *c) {
    struct one *o = ctx;
    if (strcmp(o->file.path, c->c.path) != 0 && strcmp(o->file.path, c->kept) != 0)
        return 0;
    o->record = *c;
    o->recorded = true;
    str_copy(o->record.c.path, sizeof o->record.c.path, o->file.path); /* where it is now */
    return 0;
}

/* On the pool. */
static void find_file(struct offload *work) {
    struct one *o = (struct one *)work;
    if (!model_ref_find(&o->file, &work->err))
        read_file(&o->about, o->ref, o->file.path, &o->unreadable);
}

/* The call's state with the REF, not yet looked for; NULL after the call was refused. */
static void *one_new(struct rpc_call *call, size_t size, const char *ref, void (*drop)(struct offload *work)) {
    struct err err;
    struct one *o = offload_new(call, size, drop);
    if (!o)
        return NULL;
    if (models_refer(services_of(call)->models, ref, &o->file, &err)) {
        fail(call, &err);
        return NULL;
    }
    str_copy(o->ref, sizeof o->ref, ref);
    return o;
}

/* The checkpoints that were found, as a message of the call's arena; NULL after the call was refused, or when it has ended. */
static Brr__V1__Checkpoint *one_found(struct one *o) {
    struct rpc_call *call = o->work.call;
    Brr__V1__Checkpoint *m = NULL;
    if (!call)
        return NULL;
    if (!o->work.err.code)
        jobdb_records(services_of(call)->db, "", match_path, o, &o->work.err);
    if (!o->work.err.code && !o->recorded)
        o->work.err = o->unreadable;
    if (!o->work.err.code && !(m = o->recorded ? message_of(call, &o->record) : message_of_file(rpc_arena(call), &o->about)))
        err_set(&o->work.err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
    if (!m)
        fail(call, &o->work.err);
    return m;
}

/* ---- List, Delete, Pin, Promote ---- */

/* A record, and what the pool finds out about its files. */
struct listed {
    char job_id[JOB_ID_SIZE];
    int64_t step;
    char *paths[2]; /* of the checkpoint, and of the link that keeps it */
    int there;      /* which of them is there; -1 = none */
};

struct listing {
    struct offload work;
    char job_id[JOB_ID_SIZE];
    struct found_file *uploads; /* as the pool has read them */
    size_t n_uploads;
    struct listed *records; /* of jobs; those whose file is gone are not listed */
    size_t n_records, room, at;
    char folder[LIVE_PATH];
    Brr__V1__Checkpoint **items;
    size_t n;
};

static void drop_listing(struct offload *work) {
    struct listing *l = (struct listing *)work;
    for (size_t i = 0; i < l->n_records; i++) {
        free(l->records[i].paths[0]);
        free(l->records[i].paths[1]);
    }
    free(l->records);
    free(l->uploads);
    free(l);
}

static int note_record(void *ctx, const struct jobdb_checkpoint *c) {
    struct listing *l = ctx;
    if (l->n_records == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        struct listed *more = realloc(l->records, room * sizeof *more);
        if (!more)
            return err_set(&l->work.err, ERR_EXHAUSTED, "out of memory listing checkpoints");
        l->records = more;
        l->room = room;
    }
    struct listed *r = &l->records[l->n_records++];
    *r = (struct listed){.step = c->c.step, .paths = {strdup(c->c.path), strdup(c->kept)}, .there = -1};
    str_copy(r->job_id, sizeof r->job_id, c->job_id);
    return 0;
}

/* On the pool. Uploads that are no models are passed over. */
static void look_at_files(struct offload *work) {
    struct listing *l = (struct listing *)work;
    for (size_t i = 0; i < l->n_records; i++)
        for (int k = 1; k >= 0; k--)
            if (l->records[i].paths[k] && *l->records[i].paths[k] && fsio_exists(l->records[i].paths[k]))
                l->records[i].there = k;
    DIR *d = *l->folder ? opendir(l->folder) : NULL;
    char path[LIVE_PATH], name[256];
    struct err err;
    for (struct dirent *e; d && l->n_uploads < MAX_LISTED && (e = readdir(d));) {
        if (*e->d_name == '.' || !str_ends(e->d_name, ".safetensors") || !str_copy(name, sizeof name, e->d_name) ||
            fsio_join(path, sizeof path, l->folder, e->d_name, &err))
            continue;
        struct found_file *more = realloc(l->uploads, (l->n_uploads + 1) * sizeof *more);
        if (!more)
            break;
        l->uploads = more;
        more[l->n_uploads] = (struct found_file){.bytes = 0};
        name[strlen(name) - strlen(".safetensors")] = '\0';
        l->n_uploads += !read_file(&more[l->n_uploads], name, path, &err);
    }
    if (d)
        closedir(d);
}

static int add_checkpoint(void *ctx, const struct jobdb_checkpoint *c) {
    struct listing *l = ctx;
    size_t i = l->at;
    while (i < l->n_records && (l->records[i].step != c->c.step || strcmp(l->records[i].job_id, c->job_id) != 0))
        i++;
    if (i == l->n_records)
        return 0; /* written since */
    l->at = i + 1;
    if (l->records[i].there < 0 || l->n == MAX_LISTED)
        return 0;
    struct jobdb_checkpoint found = *c;
    str_copy(found.c.path, sizeof found.c.path, l->records[i].paths[l->records[i].there]);
    if ((l->items[l->n] = message_of(l->work.call, &found)))
        l->n++;
    return 0;
}

static void answer_list(struct offload *work) {
    struct listing *l = (struct listing *)work;
    struct rpc_call *call = work->call;
    if (!call)
        return;
    Brr__V1__ListCheckpointsResponse out = BRR__V1__LIST_CHECKPOINTS_RESPONSE__INIT;
    l->items = arena_alloc(rpc_arena(call), MAX_LISTED * sizeof *l->items);
    if (!l->items)
        err_set(&work->err, ERR_EXHAUSTED, "out of memory listing checkpoints");
    else
        jobdb_records(services_of(call)->db, l->job_id, add_checkpoint, l, &work->err);
    if (work->err.code) {
        fail(call, &work->err);
        return;
    }
    for (size_t i = 0; i < l->n_uploads && l->n < MAX_LISTED; i++)
        if ((l->items[l->n] = message_of_file(rpc_arena(call), &l->uploads[i])))
            l->n++;
    out.checkpoints = l->items;
    out.n_checkpoints = l->n;
    convert_answer(call, &out.base);
}

static void list(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__ListCheckpointsRequest *in = convert_unpack(call, &brr__v1__list_checkpoints_request__descriptor, data, len);
    struct services *services = services_of(call);
    char path[LIVE_PATH];
    struct err err;
    if (!in)
        return;
    if (*in->job_id && !sched_get(services->sched, in->job_id)) {
        err_set(&err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", in->job_id);
        fail(call, &err);
        return;
    }
    struct listing *l = offload_new(call, sizeof *l, drop_listing);
    if (!l)
        return;
    str_copy(l->job_id, sizeof l->job_id, in->job_id);
    if (!*in->job_id && !models_upload_path(services->models, "x", path, &err)) {
        *strrchr(path, '/') = '\0';
        str_copy(l->folder, sizeof l->folder, path);
    }
    if (jobdb_records(services->db, l->job_id, note_record, l, &l->work.err))
        fail(call, &l->work.err);
    else
        offload_start(&l->work, look_at_files, answer_list);
}

static int check_delete(const struct one *o, struct err *err) {
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
        if (models_upload_path(services->models, ref, upload, err) || strcmp(upload, path))
            return err_set(err, ERR_DENIED,
                           "%s is neither a job's checkpoint nor an upload; the daemon does not delete other files", ref);
    }
    return 0;
}

struct deletion {
    struct one one;
    Brr__V1__Checkpoint *message; /* of the call's arena */
};

/* On the pool. */
static void remove_files(struct offload *work) {
    struct one *o = (struct one *)work;
    const char *path = o->file.path;
    char state[LIVE_PATH + 16];
    unlink(path);
    if (o->recorded && str_ends(path, ".safetensors") &&
        str_format(state, sizeof state, "%.*s.state.safetensors", (int)(strlen(path) - strlen(".safetensors")), path))
        unlink(state);
}

static void deleted(struct offload *work) {
    if (work->call)
        convert_answer(work->call, &((struct deletion *)work)->message->base);
}

/* The record first: a file without one is garbage, a record without its file would be an error for others. */
static void delete_found(struct offload *work) {
    struct deletion *d = (struct deletion *)work;
    struct one *o = &d->one;
    if (!(d->message = one_found(o)))
        return;
    int rc = check_delete(o, &work->err);
    if (!rc && o->recorded)
        rc = jobdb_remove_checkpoint(services_of(work->call)->db, o->record.job_id, o->record.c.step, &work->err);
    if (rc)
        fail(work->call, &work->err);
    else
        offload_start(work, remove_files, deleted);
}

static void delete_one(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__CheckpointRef *in = convert_unpack(call, &brr__v1__checkpoint_ref__descriptor, data, len);
    struct deletion *d = in ? one_new(call, sizeof *d, in->ref, NULL) : NULL;
    if (d)
        offload_start(&d->one.work, find_file, delete_found);
}

struct pinning {
    struct one one;
    const struct models *models;
    bool pinned;
    char name[JOB_ID_SIZE + 32], kept[LIVE_PATH];
};

/* A second link of the file survives pruning; it is what the pin records. On the pool. */
static void keep_link(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    const struct jobdb_checkpoint *c = &p->one.record;
    const char *from = p->one.file.path;
    if (!models_keep(p->models, "pinned", p->name, from, p->kept, &work->err) && !strcmp(p->kept, from) &&
        strcmp(p->kept, c->kept) != 0)
        err_set(&work->err, ERR_UNSUPPORTED,
                "job:%s@%lld cannot be pinned: the volume of paths.results has no hard links; "
                "`brrctl checkpoint get` copies it to a place of yours",
                c->job_id, (long long)c->c.step);
}

/* On the pool. */
static void drop_link(struct offload *work) {
    const struct pinning *p = (struct pinning *)work;
    if (*p->one.record.kept)
        unlink(p->one.record.kept);
}

static void answer_pin(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    struct jobdb_checkpoint *c = &p->one.record;
    Brr__V1__Checkpoint *m = NULL;
    if (!work->call)
        return;
    c->pinned = p->pinned;
    if (!work->err.code && !(m = message_of(work->call, c)))
        err_set(&work->err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
    if (m)
        convert_answer(work->call, &m->base);
    else
        fail(work->call, &work->err);
}

static void record_pin(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    const struct jobdb_checkpoint *c = &p->one.record;
    if (work->call && !work->err.code)
        jobdb_pin(services_of(work->call)->db, c->job_id, c->c.step, p->kept, &work->err);
    answer_pin(work);
}

static void pin_found(struct offload *work) {
    struct pinning *p = (struct pinning *)work;
    const struct jobdb_checkpoint *c = &p->one.record;
    if (!one_found(&p->one))
        return;
    if (!p->one.recorded) {
        err_set(&work->err, ERR_PRECONDITION, "%s was not written by a job; only jobs' checkpoints are pruned and need a pin",
                p->one.ref);
        fail(work->call, &work->err);
        return;
    }
    str_format(p->name, sizeof p->name, "%s-%lld", c->job_id, (long long)c->c.step);
    if (p->pinned)
        offload_start(work, keep_link, record_pin);
    else if (jobdb_unpin(services_of(work->call)->db, c->job_id, c->c.step, &work->err))
        fail(work->call, &work->err);
    else
        offload_start(work, drop_link, answer_pin);
}

static void pin(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__PinRequest *in = convert_unpack(call, &brr__v1__pin_request__descriptor, data, len);
    struct pinning *p = in ? one_new(call, sizeof *p, in->ref, NULL) : NULL;
    if (!p)
        return;
    p->pinned = in->pinned;
    p->models = services_of(call)->models;
    offload_start(&p->one.work, find_file, pin_found);
}

static void promote(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__PromoteRequest *in = convert_unpack(call, &brr__v1__promote_request__descriptor, data, len);
    if (in)
        svc_models_load(call, in->name, in->ref);
}

/* ---- Verify: on the thread pool ---- */

struct verify {
    struct one one;
    char sha256[DIGEST_HEX_SIZE];
    struct err wrong; /* with the file */
};

/* On the pool. */
static void read_whole(struct offload *work) {
    struct verify *v = (struct verify *)work;
    struct modelfile file;
    find_file(work);
    if (!work->err.code && !digest_file(v->one.file.path, v->sha256, &v->wrong))
        modelfile_read(v->one.file.path, &file, &v->wrong);
}

static void answer_verify(struct offload *work) {
    struct verify *v = (struct verify *)work;
    Brr__V1__VerifyResponse out = BRR__V1__VERIFY_RESPONSE__INIT;
    char text[800];
    if (!(out.checkpoint = one_found(&v->one)))
        return;
    bool same = !*out.checkpoint->sha256 || !strcmp(out.checkpoint->sha256, v->sha256);
    out.valid = !v->wrong.code && same;
    if (v->wrong.code)
        err_text(&v->wrong, text, sizeof text);
    else
        str_format(text, sizeof text, same ? "SHA-256 %s" : "SHA-256 is %s now and was %s when it was written", v->sha256,
                   out.checkpoint->sha256);
    out.message = text;
    convert_answer(work->call, &out.base);
}

static void verify(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__CheckpointRef *in = convert_unpack(call, &brr__v1__checkpoint_ref__descriptor, data, len);
    struct verify *v = in ? one_new(call, sizeof *v, in->ref, NULL) : NULL;
    if (v)
        offload_start(&v->one.work, read_whole, answer_verify);
}

/* ---- Get: parts as the client reads them ---- */

struct download {
    struct one one;
    Brr__V1__Checkpoint *checkpoint; /* for the first part; NULL once sent */
    uint8_t *part;
    int fd;
    ssize_t got; /* bytes of the last read, or a negative errno */
    int64_t at;
    bool full;
};

static void drop_download(struct offload *work) {
    struct download *d = (struct download *)work;
    if (d->fd >= 0)
        close(d->fd);
    free(d->part);
    free(d);
}

/* On the pool. */
static void open_file(struct offload *work) {
    struct download *d = (struct download *)work;
    find_file(work);
    if (!work->err.code && (d->fd = open(d->one.file.path, O_RDONLY | O_CLOEXEC)) < 0)
        err_errno(&work->err, errno, "cannot open %s", d->one.file.path);
}

/* On the pool. */
static void read_part(struct offload *work) {
    struct download *d = (struct download *)work;
    d->got = pread(d->fd, d->part, PART_BYTES, d->at);
    if (d->got < 0)
        err_errno(&work->err, errno, "cannot read a checkpoint");
}

static void send_part(struct offload *work) {
    struct download *d = (struct download *)work;
    if (!work->call)
        return;
    if (d->got <= 0) {
        rpc_finish(work->call, work->err.code, &work->err);
        return;
    }
    Brr__V1__CheckpointPart out = BRR__V1__CHECKPOINT_PART__INIT;
    out.checkpoint = d->checkpoint;
    out.data = (ProtobufCBinaryData){(size_t)d->got, d->part};
    d->checkpoint = NULL;
    d->at += d->got;
    d->full = !convert_send(work->call, &out.base);
    if (!d->full)
        offload_start(work, read_part, send_part);
}

static void send_found(struct offload *work) {
    struct download *d = (struct download *)work;
    if ((d->checkpoint = one_found(&d->one)))
        offload_start(work, read_part, send_part);
}

static void get(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__GetCheckpointRequest *in = convert_unpack(call, &brr__v1__get_checkpoint_request__descriptor, data, len);
    struct download *d = in ? one_new(call, sizeof *d, in->ref, drop_download) : NULL;
    struct err err;
    if (!d)
        return;
    d->fd = -1;
    if ((d->part = malloc(PART_BYTES))) {
        offload_start(&d->one.work, open_file, send_found);
        return;
    }
    err_set(&err, ERR_EXHAUSTED, "out of memory for a checkpoint");
    fail(call, &err);
}

static void get_writable(struct rpc_call *call) {
    struct download *d = rpc_state(call);
    if (!d || !d->full)
        return;
    d->full = false;
    offload_start(&d->one.work, read_part, send_part);
}

/* ---- Put ---- */

struct upload {
    struct offload work;
    struct fsio_writer file;
    struct digest *digest;
    char name[128], path[LIVE_PATH], expected[DIGEST_HEX_SIZE], found[DIGEST_HEX_SIZE];
    uint8_t *part; /* that the pool writes */
    size_t part_len;
    struct found_file about;
    bool named, open, half_closed;
};

/* On the pool. */
static void abort_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    fsio_writer_abort(&u->file);
    u->open = false;
}

static void aborted(struct offload *work) { (void)work; /* dropped once more */ }

static void drop_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    if (u->open) {
        offload_start(work, abort_upload, aborted);
        return;
    }
    if (u->digest)
        digest_finish(u->digest, u->found);
    free(u->part);
    free(u);
}

static int name_upload(struct upload *u, const Brr__V1__PutCheckpointPart *in, struct err *err) {
    int rc = models_upload_path(services_of(u->work.call)->models, in->name, u->path, err);
    if (!rc && *in->sha256 && !digest_is_hex(in->sha256))
        rc = err_set(err, ERR_INVALID, "sha256 '%.80s' is not a SHA-256 in lower-case hex", in->sha256);
    if (rc)
        return rc;
    str_copy(u->name, sizeof u->name, in->name);
    str_copy(u->expected, sizeof u->expected, in->sha256);
    u->named = true;
    return (u->digest = digest_new()) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for an upload");
}

/* On the pool. */
static void write_part(struct offload *work) {
    struct upload *u = (struct upload *)work;
    if (!u->open && (fsio_mkdirs_above(u->path, &work->err) || fsio_writer_open(&u->file, u->path, &work->err)))
        return;
    u->open = true;
    if (!fsio_writer_write(&u->file, u->part, u->part_len, &work->err))
        digest_update(u->digest, u->part, u->part_len);
}

/* The file must be what was announced and a model before it gets its name. On the pool. */
static void commit_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    struct modelfile file;
    bool hashed = digest_finish(u->digest, u->found);
    u->digest = NULL;
    if (!hashed)
        err_set(&work->err, ERR_INTERNAL, "the upload's SHA-256 could not be computed");
    else if (*u->expected && strcmp(u->expected, u->found))
        err_set(&work->err, ERR_DATA_LOSS, "the upload's SHA-256 is %s; %s was announced; send it again", u->found, u->expected);
    else if (!modelfile_read(u->file.tmp_path, &file, &work->err)) {
        u->open = false;
        if (!fsio_writer_commit(&u->file, &work->err))
            read_file(&u->about, u->name, u->path, &work->err);
    }
}

static void answer_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    if (!work->call)
        return;
    Brr__V1__Checkpoint *m = work->err.code ? NULL : message_of_file(rpc_arena(work->call), &u->about);
    if (!work->err.code && !m)
        err_set(&work->err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
    if (m)
        m->sha256 = u->found;
    if (m)
        convert_answer(work->call, &m->base);
    else
        fail(work->call, &work->err);
}

static void on_written(struct offload *work) {
    struct upload *u = (struct upload *)work;
    free(u->part);
    u->part = NULL;
    if (!work->call)
        return;
    if (work->err.code)
        fail(work->call, &work->err);
    else if (u->half_closed)
        offload_start(work, commit_upload, answer_upload);
    else
        rpc_release(work->call);
}

/* One part at a time: the next is read when this one is written. */
static void put_part(struct rpc_call *call, const uint8_t *data, size_t len) {
    struct upload *u = rpc_state(call);
    struct arena arena;
    struct err err;
    int rc = 0;
    if (!u && !(u = offload_new(call, sizeof *u, drop_upload)))
        return;
    arena_init(&arena, 2 * RPC_DATA_BYTES);
    Brr__V1__PutCheckpointPart *in = convert_unpack_into(&arena, call, &brr__v1__put_checkpoint_part__descriptor, data, len);
    if (in && !u->named)
        rc = name_upload(u, in, &err);
    if (in && !rc && u->file.written_bytes + (int64_t)in->data.len > max_upload_bytes)
        rc = err_set(&err, ERR_EXHAUSTED, "the upload is larger than %lld bytes", (long long)max_upload_bytes);
    if (in && !rc && !(u->part = malloc(in->data.len + 1)))
        rc = err_set(&err, ERR_EXHAUSTED, "out of memory for an upload");
    if (in && rc) {
        fail(call, &err);
    } else if (in) {
        if (in->data.len)
            memcpy(u->part, in->data.data, in->data.len);
        u->part_len = in->data.len;
        rpc_hold(call);
        offload_start(&u->work, write_part, on_written);
    }
    arena_done(&arena);
}

static void put_half_close(struct rpc_call *call) {
    struct upload *u = rpc_state(call);
    struct err err;
    if (!u || !u->named) {
        err_set(&err, ERR_INVALID, "the first part of an upload must name the file");
        fail(call, &err);
        return;
    }
    u->half_closed = true;
    if (!u->work.working)
        offload_start(&u->work, commit_upload, answer_upload);
}

const struct rpc_method svc_checkpoints[] = {
    {"/brr.v1.Checkpoints/List", ROLE_READ, false, RPC_CONTROL_BYTES, list, NULL, NULL, offload_end, false},
    {"/brr.v1.Checkpoints/Get", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, get, NULL, get_writable, offload_end, false},
    {"/brr.v1.Checkpoints/Put", ROLE_SUBMIT, true, RPC_DATA_BYTES, put_part, put_half_close, NULL, offload_end, false},
    {"/brr.v1.Checkpoints/Verify", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, verify, NULL, NULL, offload_end, false},
    {"/brr.v1.Checkpoints/Promote", ROLE_ADMIN, false, RPC_CONTROL_BYTES, promote, NULL, NULL, svc_models_load_end, false},
    {"/brr.v1.Checkpoints/Delete", ROLE_ADMIN, false, RPC_CONTROL_BYTES, delete_one, NULL, NULL, offload_end, false},
    {"/brr.v1.Checkpoints/Pin", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, pin, NULL, NULL, offload_end, false},
};
const size_t svc_checkpoints_count = sizeof svc_checkpoints / sizeof *svc_checkpoints;
