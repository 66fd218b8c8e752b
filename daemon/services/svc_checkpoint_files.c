/* brr.v1.Checkpoints: calls that carry or read whole files (Verify, Get, Put). Files are read, hashed and made durable on libuv's
 * thread pool; the loop only passes parts on. */

#include "daemon/models/upload_owner.h"
#include "daemon/services/checkpoint_find.h"
#include "daemon/services/convert.h"
#include "detect/detector.h"
#include "store/digest.h"

static const int64_t max_upload_bytes = INT64_C(16) << 30;

/* ---- Verify ---- */

struct verify {
    struct checkpoint_find one;
    char sha256[DIGEST_HEX_SIZE];
    struct err wrong; /* with the file */
};

/* On the pool. */
static void read_whole(struct offload *work) {
    struct verify *v = (struct verify *)work;
    checkpoint_find_file(work);
    if (!work->err.code && !digest_file(v->one.file.path, v->sha256, &v->wrong))
        detector_check(v->one.file.path, &v->wrong);
    if (v->wrong.code == ERR_EXHAUSTED) /* says nothing of the file */
        work->err = v->wrong;
}

static void answer_verify(struct offload *work) {
    struct verify *v = (struct verify *)work;
    Brr__V1__VerifyResponse out = BRR__V1__VERIFY_RESPONSE__INIT;
    char text[800];
    if (!(out.checkpoint = checkpoint_found(&v->one)))
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

static int verify(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__CheckpointRef *in = message;
    return checkpoint_find_start(call, sizeof(struct verify), in->ref, read_whole, answer_verify, err) ? 0 : err->code;
}

/* ---- Get: parts as the client reads them ---- */

/* On the pool. */
static void open_file(struct offload *work) {
    size_t bytes = 0;
    checkpoint_find_file(work);
    if (!work->err.code)
        fsio_open_file(((struct checkpoint_find *)work)->file.path, &work->fd, &bytes, &work->err);
}

/* On the pool. */
static void pack_part(struct offload *work) {
    struct checkpoint_find *o = (struct checkpoint_find *)work;
    Brr__V1__CheckpointPart out = BRR__V1__CHECKPOINT_PART__INIT;
    if (!offload_read(work, "a checkpoint", &out.data) || !out.data.len)
        return;
    out.checkpoint = o->found; /* in the first part alone */
    o->found = NULL;
    offload_pack(work, &out.base);
}

static void send_found(struct offload *work) {
    if (checkpoint_found((struct checkpoint_find *)work))
        offload_stream(work, pack_part);
}

static int get(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__GetCheckpointRequest *in = message;
    return checkpoint_find_start(call, sizeof(struct checkpoint_find), in->ref, open_file, send_found, err) ? 0 : err->code;
}

/* ---- Put ---- */

struct upload {
    struct offload work;
    struct fsio_writer file;
    struct digest *digest;
    char ref[128], path[LIVE_PATH], expected[DIGEST_HEX_SIZE], found[DIGEST_HEX_SIZE];
    uint8_t *part; /* that the pool writes */
    size_t part_len;
    Brr__V1__Checkpoint *about;
    bool named, open, any;
    char principal[AUTH_NAME_SIZE];
};

/* On the pool. */
static void abort_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    fsio_writer_abort(&u->file);
    u->open = false;
}

static void drop_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    if (u->open) {
        offload_start_must(work, abort_upload, NULL); /* dropped once more */
        return;
    }
    if (u->digest)
        digest_finish(u->digest, u->found);
    free(u->part);
}

static int name_upload(struct upload *u, const Brr__V1__PutCheckpointPart *in, struct err *err) {
    int rc = models_upload_path(services_of(u->work.call)->models, in->name, u->path, err);
    if (rc)
        return rc;
    if (*in->sha256 && !digest_is_hex(in->sha256))
        return err_set(err, ERR_INVALID, "sha256 '%.80s' is not a SHA-256 in lower-case hex", in->sha256);
    str_format(u->ref, sizeof u->ref, "upload:%s", in->name);
    str_copy(u->expected, sizeof u->expected, in->sha256);
    u->named = true;
    u->any = rpc_caller(u->work.call)->role >= ROLE_ADMIN;
    str_copy(u->principal, sizeof u->principal, rpc_caller(u->work.call)->name);
    return (u->digest = digest_new()) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for an upload");
}

/* On the pool. */
static void write_part(struct offload *work) {
    struct upload *u = (struct upload *)work;
    if (!u->open && (fsio_mkdirs_above(u->path, &work->err) || upload_owner_claim(u->path, u->principal, u->any, &work->err) ||
                     fsio_writer_open(&u->file, u->path, &work->err)))
        return;
    u->open = true;
    if (!fsio_writer_write(&u->file, u->part, u->part_len, &work->err))
        digest_update(u->digest, u->part, u->part_len);
}

/* The file must be what was announced and a model before it gets its name. On the pool. */
static void commit_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    bool hashed = digest_finish(u->digest, u->found);
    u->digest = NULL;
    if (!hashed)
        err_set(&work->err, ERR_INTERNAL, "the upload's SHA-256 could not be computed");
    else if (*u->expected && strcmp(u->expected, u->found))
        err_set(&work->err, ERR_DATA_LOSS, "the upload's SHA-256 is %s; %s was announced; send it again", u->found, u->expected);
    else if (!model_image_check(u->file.tmp_path, &work->err)) {
        u->open = false;
        if (!fsio_writer_commit(&u->file, &work->err))
            u->about = checkpoint_of_file(work->arena, u->ref, u->path, &work->err);
    }
}

static void answer_upload(struct offload *work) {
    struct upload *u = (struct upload *)work;
    if (u->about)
        u->about->sha256 = u->found;
    offload_answer(work, u->about, "a checkpoint");
}

static int take_part(struct upload *u, const Brr__V1__PutCheckpointPart *in, struct err *err) {
    int rc;
    if (!u->named && (rc = name_upload(u, in, err)))
        return rc;
    if (u->file.written_bytes + (int64_t)in->data.len > max_upload_bytes)
        return err_set(err, ERR_EXHAUSTED, "the upload is larger than %lld bytes", (long long)max_upload_bytes);
    free(u->part);
    if (!(u->part = malloc(in->data.len + 1)))
        return err_set(err, ERR_EXHAUSTED, "out of memory for an upload");
    if (in->data.len)
        memcpy(u->part, in->data.data, in->data.len);
    u->part_len = in->data.len;
    return 0;
}

/* One part at a time: the next is read when this one is written. */
static int put_part(struct rpc_call *call, const void *message, struct err *err) {
    struct upload *u = rpc_state(call);
    if (!u && !(u = offload_new(call, OFFLOAD_FILES, sizeof *u, drop_upload, err)))
        return err->code;
    int rc = take_part(u, message, err);
    if (rc)
        return rc;
    rpc_hold(call);
    offload_start(&u->work, write_part, offload_release);
    return 0;
}

static void put_half_close(struct rpc_call *call) {
    struct upload *u = rpc_state(call);
    struct err err;
    if (!u || !u->named) {
        err_set(&err, ERR_INVALID, "the first part of an upload must name the file");
        rpc_finish(call, &err);
        return;
    }
    offload_start(&u->work, commit_upload, answer_upload);
}

const struct rpc_method svc_checkpoint_files[] = {
    {RPC_METHOD("/brr.v1.Checkpoints/Get", ROLE_SUBMIT, brr__v1__get_checkpoint_request, get), .writable = offload_writable,
     .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {RPC_METHOD("/brr.v1.Checkpoints/Put", ROLE_SUBMIT, brr__v1__put_checkpoint_part, put_part), .client_stream = true,
     .max_message = RPC_DATA_BYTES, .half_close = put_half_close, .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {RPC_METHOD("/brr.v1.Checkpoints/Verify", ROLE_SUBMIT, brr__v1__checkpoint_ref, verify), .end = offload_end},
    {.path = NULL},
};
