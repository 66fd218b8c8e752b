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

/* A model file that no job wrote. */
static Brr__V1__Checkpoint *message_of_file(struct rpc_call *call, const char *ref, const char *path, struct err *err) {
    struct arena *arena = rpc_arena(call);
    Brr__V1__Checkpoint *m = arena_alloc(arena, sizeof *m);
    struct modelfile file;
    int64_t mtime_ns = 0;
    if (!m) {
        err_set(err, ERR_EXHAUSTED, "out of memory describing a checkpoint");
        return NULL;
    }
    brr__v1__checkpoint__init(m);
    if (fsio_size(path, &m->bytes, &mtime_ns, err) || modelfile_read(path, &file, err))
        return NULL;
    m->ref = arena_strdup(arena, ref);
    m->path = arena_strdup(arena, path);
    m->step = file.step;
    m->epoch = file.epoch;
    m->created_ms = mtime_ns / 1000000;
    m->metric = (double)NAN;
    return m->ref && m->path ? m : NULL;
}

struct find {
    const char *path;
    struct jobdb_checkpoint found;
    bool any;
};

static int match_path(void *ctx, const struct jobdb_checkpoint *c) {
    struct find *f = ctx;
    if (strcmp(f->path, c->c.path))
        return 0;
    f->found = *c;
    f->any = true;
    return 0;
}

/* The file of a REF and, when a job wrote it, its record. */
static int find_ref(struct rpc_call *call, const char *ref, char path[LIVE_PATH], struct find *ret, struct err *err) {
    struct services *services = services_of(call);
    char label[LIVE_NAME];
    *ret = (struct find){.path = path};
    int rc = models_resolve(services->models, ref, path, label, err);
    return rc ? rc : jobdb_checkpoints(services->db, "", match_path, ret, err);
}

static Brr__V1__Checkpoint *message_of_ref(struct rpc_call *call, const char *ref, const char *path, const struct find *f,
                                           struct err *err) {
    return f->any ? message_of(call, &f->found) : message_of_file(call, ref, path, err);
}

/* ---- List, Delete, Pin, Promote ---- */

struct listing {
    struct rpc_call *call;
    Brr__V1__Checkpoint **items;
    size_t n;
};

static int add_checkpoint(void *ctx, const struct jobdb_checkpoint *c) {
    struct listing *l = ctx;
    if (l->n < MAX_LISTED && (l->items[l->n] = message_of(l->call, c)))
        l->n++;
    return 0;
}

static void add_uploads(struct listing *l) {
    char dir[LIVE_PATH], path[LIVE_PATH], name[256];
    struct err err;
    if (models_upload_path(services_of(l->call)->models, "x", path, &err))
        return;
    str_copy(dir, sizeof dir, path);
    *strrchr(dir, '/') = '\0';
    DIR *d = opendir(dir);
    for (struct dirent *e; d && l->n < MAX_LISTED && (e = readdir(d));) {
        if (!str_ends(e->d_name, ".safetensors") || !str_copy(name, sizeof name, e->d_name))
            continue;
        name[strlen(name) - strlen(".safetensors")] = '\0';
        if (!models_upload_path(services_of(l->call)->models, name, path, &err) &&
            (l->items[l->n] = message_of_file(l->call, name, path, &err)))
            l->n++;
    }
    if (d)
        closedir(d);
}

static void list(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__ListCheckpointsRequest *in = convert_unpack(call, &brr__v1__list_checkpoints_request__descriptor, data, len);
    struct services *services = services_of(call);
    struct err err;
    if (!in)
        return;
    Brr__V1__ListCheckpointsResponse out = BRR__V1__LIST_CHECKPOINTS_RESPONSE__INIT;
    struct listing l = {.call = call, .items = arena_alloc(rpc_arena(call), MAX_LISTED * sizeof(Brr__V1__Checkpoint *))};
    int rc = 0;
    if (!l.items)
        rc = err_set(&err, ERR_EXHAUSTED, "out of memory listing checkpoints");
    else if (*in->job_id && !sched_get(services->sched, in->job_id))
        rc = err_set(&err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", in->job_id);
    else
        rc = jobdb_checkpoints(services->db, in->job_id, add_checkpoint, &l, &err);
    if (rc) {
        fail(call, &err);
        return;
    }
    if (!*in->job_id)
        add_uploads(&l);
    out.checkpoints = l.items;
    out.n_checkpoints = l.n;
    convert_answer(call, &out.base);
}

static int check_delete(struct rpc_call *call, const char *ref, const char *path, const struct find *f, struct err *err) {
    struct services *services = services_of(call);
    const struct job *job = f->any ? sched_get(services->sched, f->found.job_id) : NULL;
    if (models_find(services->models, ref))
        return err_set(err, ERR_PRECONDITION, "%s serves; unload it first", ref);
    for (int i = 0; i < models_count(services->models); i++)
        if (!strcmp(models_at(services->models, i)->path, path))
            return err_set(err, ERR_PRECONDITION, "%s serves as %s; unload it first", ref, models_at(services->models, i)->name);
    if (f->any && f->found.pinned)
        return err_set(err, ERR_PRECONDITION, "%s is pinned; `brrctl checkpoint unpin %s` first", ref, ref);
    if (job && (!strcmp(job->last, path) || !strcmp(job->best, path)))
        return err_set(err, ERR_PRECONDITION, "%s is the %s checkpoint of job %s, which it needs to go on or to be used", ref,
                       strcmp(job->last, path) ? "best" : "last", job->id);
    if (!f->any) {
        char upload[LIVE_PATH];
        if (models_upload_path(services->models, ref, upload, err) || strcmp(upload, path))
            return err_set(err, ERR_DENIED,
                           "%s is neither a job's checkpoint nor an upload; such files are not the daemon's to delete", ref);
    }
    return 0;
}

static void delete_one(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__CheckpointRef *in = convert_unpack(call, &brr__v1__checkpoint_ref__descriptor, data, len);
    char path[LIVE_PATH], state[LIVE_PATH + 16];
    struct find f;
    struct err err;
    if (!in)
        return;
    int rc = find_ref(call, in->ref, path, &f, &err);
    Brr__V1__Checkpoint *m = rc ? NULL : message_of_ref(call, in->ref, path, &f, &err);
    if (!rc)
        rc = m ? check_delete(call, in->ref, path, &f, &err) : err.code;
    if (!rc && f.any)
        rc = jobdb_remove_checkpoint(services_of(call)->db, f.found.job_id, f.found.c.step, &err);
    if (rc) {
        fail(call, &err);
        return;
    }
    unlink(path);
    if (f.any && str_ends(path, ".safetensors") &&
        str_format(state, sizeof state, "%.*s.state.safetensors", (int)(strlen(path) - strlen(".safetensors")), path))
        unlink(state);
    convert_answer(call, &m->base);
}

/* A second link of the file survives pruning; it is what the pin records. */
static int keep_pinned(struct services *services, const struct jobdb_checkpoint *c, struct err *err) {
    char kept[LIVE_PATH], name[JOB_ID_SIZE + 32];
    str_format(name, sizeof name, "%s-%lld", c->job_id, (long long)c->c.step);
    int rc = models_keep(services->models, "pinned", name, c->c.path, kept, err);
    if (!rc && !strcmp(kept, c->c.path) && strcmp(kept, c->kept) != 0)
        rc = err_set(err, ERR_UNSUPPORTED,
                     "job:%s@%lld cannot be pinned: the volume of paths.results has no hard links; "
                     "`brrctl checkpoint get` copies it to a place of yours",
                     c->job_id, (long long)c->c.step);
    return rc ? rc : jobdb_pin(services->db, c->job_id, c->c.step, kept, err);
}

static void pin(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__PinRequest *in = convert_unpack(call, &brr__v1__pin_request__descriptor, data, len);
    struct services *services = services_of(call);
    char path[LIVE_PATH];
    struct find f;
    struct err err;
    if (!in)
        return;
    int rc = find_ref(call, in->ref, path, &f, &err);
    if (!rc && !f.any)
        rc = err_set(&err, ERR_PRECONDITION, "%s was written by no job; only jobs' checkpoints are pruned and need a pin", in->ref);
    if (!rc && in->pinned)
        rc = keep_pinned(services, &f.found, &err);
    else if (!rc && !(rc = jobdb_unpin(services->db, f.found.job_id, f.found.c.step, &err)) && *f.found.kept)
        unlink(f.found.kept);
    f.found.pinned = in->pinned;
    Brr__V1__Checkpoint *m = rc ? NULL : message_of(call, &f.found);
    if (m)
        convert_answer(call, &m->base);
    else
        fail(call, &err);
}

static void promote(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__PromoteRequest *in = convert_unpack(call, &brr__v1__promote_request__descriptor, data, len);
    if (in)
        svc_models_load(call, in->name, in->ref);
}

/* ---- Verify: on the thread pool ---- */

struct verify {
    uv_work_t work;
    struct rpc_call *call; /* NULL once the client is gone */
    Brr__V1__Checkpoint *checkpoint;
    char path[LIVE_PATH], sha256[DIGEST_HEX_SIZE];
    struct err err;
};

static void verify_work(uv_work_t *work) {
    struct verify *v = work->data;
    struct modelfile file;
    if (!digest_file(v->path, v->sha256, &v->err))
        modelfile_read(v->path, &file, &v->err);
}

static void verify_done(uv_work_t *work, int status) {
    struct verify *v = work->data;
    (void)status;
    if (v->call) {
        Brr__V1__VerifyResponse out = BRR__V1__VERIFY_RESPONSE__INIT;
        bool same = !*v->checkpoint->sha256 || !strcmp(v->checkpoint->sha256, v->sha256);
        char text[800];
        out.checkpoint = v->checkpoint;
        out.valid = !v->err.code && same;
        if (v->err.code)
            err_text(&v->err, text, sizeof text);
        else
            str_format(text, sizeof text, same ? "SHA-256 %s" : "SHA-256 is %s now and was %s when it was written", v->sha256,
                       v->checkpoint->sha256);
        out.message = text;
        rpc_set_state(v->call, NULL);
        convert_answer(v->call, &out.base);
    }
    free(v);
}

static void verify(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__CheckpointRef *in = convert_unpack(call, &brr__v1__checkpoint_ref__descriptor, data, len);
    struct verify *v = in ? calloc(1, sizeof *v) : NULL;
    struct find f;
    struct err err;
    if (!v)
        return;
    v->work.data = v;
    v->call = call;
    int rc = find_ref(call, in->ref, v->path, &f, &err);
    if (!rc && !(v->checkpoint = f.any ? message_of(call, &f.found) : message_of_file(call, in->ref, v->path, &err)))
        rc = err.code;
    if (!rc && uv_queue_work(services_of(call)->loop, &v->work, verify_work, verify_done))
        rc = err_set(&err, ERR_EXHAUSTED, "cannot start a thread to verify %s", in->ref);
    if (rc) {
        fail(call, &err);
        free(v);
        return;
    }
    rpc_set_state(call, v);
}

static void verify_end(struct rpc_call *call) {
    struct verify *v = rpc_state(call);
    if (v)
        v->call = NULL;
}

/* ---- Get: parts as the client reads them ---- */

struct download {
    uv_fs_t request;
    struct rpc_call *call;
    Brr__V1__Checkpoint *checkpoint; /* for the first part; NULL once sent */
    uint8_t *part;
    int fd;
    int64_t at;
    bool reading, ended;
};

static void download_free(struct download *d) {
    close(d->fd);
    free(d->part);
    free(d);
}

static void read_on(struct download *d);

static void on_read(uv_fs_t *request) {
    struct download *d = request->data;
    ssize_t n = request->result;
    uv_fs_req_cleanup(request);
    d->reading = false;
    if (d->ended) {
        download_free(d);
        return;
    }
    if (n <= 0) {
        struct err err;
        if (n < 0)
            err_errno(&err, (int)-n, "cannot read a checkpoint");
        rpc_finish(d->call, n < 0 ? err.code : 0, n < 0 ? &err : NULL);
        return;
    }
    Brr__V1__CheckpointPart out = BRR__V1__CHECKPOINT_PART__INIT;
    out.checkpoint = d->checkpoint;
    out.data = (ProtobufCBinaryData){(size_t)n, d->part};
    d->checkpoint = NULL;
    d->at += n;
    if (convert_send(d->call, &out.base))
        read_on(d);
}

static void read_on(struct download *d) {
    uv_buf_t buf = uv_buf_init((char *)d->part, PART_BYTES);
    d->request.data = d;
    d->reading = true;
    uv_fs_read(services_of(d->call)->loop, &d->request, d->fd, &buf, 1, d->at, on_read);
}

static void get(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__GetCheckpointRequest *in = convert_unpack(call, &brr__v1__get_checkpoint_request__descriptor, data, len);
    char path[LIVE_PATH];
    struct find f;
    struct err err;
    if (!in)
        return;
    int rc = find_ref(call, in->ref, path, &f, &err);
    Brr__V1__Checkpoint *m = rc ? NULL : message_of_ref(call, in->ref, path, &f, &err);
    struct download *d = m ? calloc(1, sizeof *d) : NULL;
    if (!d || !(d->part = malloc(PART_BYTES)) || (d->fd = open(path, O_RDONLY | O_CLOEXEC)) < 0) {
        if (d)
            err_errno(&err, errno, "cannot open %s", path);
        free(d ? d->part : NULL);
        free(d);
        fail(call, &err);
        return;
    }
    d->call = call;
    d->checkpoint = m;
    rpc_set_state(call, d);
    read_on(d);
}

static void get_writable(struct rpc_call *call) {
    struct download *d = rpc_state(call);
    if (d && !d->reading)
        read_on(d);
}

static void get_end(struct rpc_call *call) {
    struct download *d = rpc_state(call);
    if (!d)
        return;
    d->ended = true;
    if (!d->reading)
        download_free(d);
}

/* ---- Put ---- */

struct upload {
    uv_work_t work;
    struct rpc_call *call; /* NULL once the client is gone */
    struct fsio_writer file;
    struct digest *digest;
    char name[128], expected[DIGEST_HEX_SIZE], found[DIGEST_HEX_SIZE];
    bool open, working;
    struct err err;
};

static void upload_free(struct upload *u) {
    if (u->open)
        fsio_writer_abort(&u->file);
    if (u->digest)
        digest_finish(u->digest, u->found);
    free(u);
}

static int begin_upload(struct upload *u, const Brr__V1__PutCheckpointPart *in, struct err *err) {
    char path[LIVE_PATH];
    int rc = models_upload_path(services_of(u->call)->models, in->name, path, err);
    if (!rc && *in->sha256 && !digest_is_hex(in->sha256))
        rc = err_set(err, ERR_INVALID, "sha256 '%.80s' is no SHA-256 in lower-case hex", in->sha256);
    if (rc)
        return rc;
    str_copy(u->name, sizeof u->name, in->name);
    str_copy(u->expected, sizeof u->expected, in->sha256);
    rc = fsio_mkdirs_above(path, err);
    if (!rc)
        rc = fsio_writer_open(&u->file, path, err);
    u->open = !rc;
    if (!rc && !(u->digest = digest_new()))
        rc = err_set(err, ERR_EXHAUSTED, "out of memory for an upload");
    return rc;
}

static void put_part(struct rpc_call *call, const uint8_t *data, size_t len) {
    struct upload *u = rpc_state(call);
    struct arena arena;
    struct err err;
    int rc = 0;
    if (!u) {
        if (!(u = calloc(1, sizeof *u)))
            return;
        u->call = call;
        u->work.data = u;
        rpc_set_state(call, u);
    }
    arena_init(&arena, 2 * RPC_DATA_BYTES);
    Brr__V1__PutCheckpointPart *in = convert_unpack_into(&arena, call, &brr__v1__put_checkpoint_part__descriptor, data, len);
    if (in && !u->open)
        rc = begin_upload(u, in, &err);
    if (in && !rc && u->file.written_bytes + (int64_t)in->data.len > max_upload_bytes)
        rc = err_set(&err, ERR_EXHAUSTED, "the upload is larger than %lld bytes", (long long)max_upload_bytes);
    if (in && !rc && !(rc = fsio_writer_write(&u->file, in->data.data, in->data.len, &err)))
        digest_update(u->digest, in->data.data, in->data.len);
    if (in && rc)
        fail(call, &err);
    arena_done(&arena);
}

/* The file must be what was announced and a model before it gets its name. */
static void upload_work(uv_work_t *work) {
    struct upload *u = work->data;
    struct modelfile file;
    bool hashed = digest_finish(u->digest, u->found);
    u->digest = NULL;
    if (!hashed)
        err_set(&u->err, ERR_INTERNAL, "the upload's SHA-256 could not be computed");
    else if (*u->expected && strcmp(u->expected, u->found))
        err_set(&u->err, ERR_DATA_LOSS, "the upload's SHA-256 is %s; %s was announced; send it again", u->found, u->expected);
    else if (!modelfile_read(u->file.tmp_path, &file, &u->err)) {
        u->open = false;
        fsio_writer_commit(&u->file, &u->err);
    }
}

static void upload_done(uv_work_t *work, int status) {
    struct upload *u = work->data;
    (void)status;
    u->working = false;
    if (u->call) {
        Brr__V1__Checkpoint *m = u->err.code ? NULL : message_of_file(u->call, u->name, u->file.path, &u->err);
        if (m) {
            m->sha256 = u->found;
            convert_answer(u->call, &m->base);
        } else {
            fail(u->call, &u->err);
        }
    } else {
        upload_free(u);
    }
}

static void put_half_close(struct rpc_call *call) {
    struct upload *u = rpc_state(call);
    struct err err;
    if (!u || !u->open) {
        err_set(&err, ERR_INVALID, "an upload without a first part that names it");
        fail(call, &err);
    } else if (uv_queue_work(services_of(call)->loop, &u->work, upload_work, upload_done)) {
        err_set(&err, ERR_EXHAUSTED, "cannot start a thread to check the upload");
        fail(call, &err);
    } else {
        u->working = true;
    }
}

static void put_end(struct rpc_call *call) {
    struct upload *u = rpc_state(call);
    if (!u)
        return;
    u->call = NULL;
    if (!u->working)
        upload_free(u);
}

const struct rpc_method svc_checkpoints[] = {
    {"/brr.v1.Checkpoints/List", ROLE_READ, false, RPC_CONTROL_BYTES, list, NULL, NULL, NULL},
    {"/brr.v1.Checkpoints/Get", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, get, NULL, get_writable, get_end},
    {"/brr.v1.Checkpoints/Put", ROLE_SUBMIT, true, RPC_DATA_BYTES, put_part, put_half_close, NULL, put_end},
    {"/brr.v1.Checkpoints/Verify", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, verify, NULL, NULL, verify_end},
    {"/brr.v1.Checkpoints/Promote", ROLE_ADMIN, false, RPC_CONTROL_BYTES, promote, NULL, NULL, svc_models_load_end},
    {"/brr.v1.Checkpoints/Delete", ROLE_ADMIN, false, RPC_CONTROL_BYTES, delete_one, NULL, NULL, NULL},
    {"/brr.v1.Checkpoints/Pin", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, pin, NULL, NULL, NULL},
};
const size_t svc_checkpoints_count = sizeof svc_checkpoints / sizeof *svc_checkpoints;
