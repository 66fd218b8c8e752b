/* checkpoints [JOB], and checkpoint get|put|verify|pin|unpin|delete|promote. */

#include "base/needed.h"
#include "brr/v1/checkpoints.pb-c.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"
#include "store/digest.h"
#include "store/safetensors.h"

/* The options of checkpoint. */
struct checkpoint_options {
    const char *output;
    const char *name;
};
#define OPTIONS struct checkpoint_options
static const struct argument rows[] = {
    OUTPUT("--output", output, "FILE", "get: the file to write", .alias = "--out"),
    TEXT("--name", name, "NAME", "put: name of the upload"),
};
static const struct argument_table checkpoint_arguments = ARGUMENT_TABLE(rows);

enum { PART_BYTES = 1 << 20, LONG_MS = 600 * 1000, REF_SIZE = 4096 };

/* The REF behind the verb. */
static char *ref_of(const struct arguments *o, char buf[REF_SIZE]) { return brrctl_ref(o->args[1], buf, REF_SIZE); }

static void add_checkpoint(struct listing *l, const void *checkpoint) {
    const Brr__V1__Checkpoint *c = checkpoint;
    char bytes[32], when[32], metric[64] = "";
    if (isfinite(c->metric))
        str_format(metric, sizeof metric, "%s %.4f", c->metric_name, c->metric);
    listing_row(l, "%s|%lld|%s|%s|%s%s%s%s", c->ref, (long long)c->step, output_bytes((double)c->bytes, bytes, sizeof bytes),
                output_time(c->created_ms, when, sizeof when), metric, c->best ? " best" : "", c->last ? " last" : "",
                c->pinned ? " pinned" : "");
}

#define VIEW                                                                                                                       \
    .json = "ref job=job_id? step epoch path bytes sha256 created_ms best last pinned metric metric_name",                         \
    .titles = "ref|>step|>size|written|metric, role", .row = add_checkpoint
static const struct brrctl_view list_view = {VIEW, .items = "checkpoints", .none = "no checkpoints"}, one_view = {VIEW};

static int cmd_checkpoints(const struct arguments *o) {
    Brr__V1__ListCheckpointsRequest in = BRR__V1__LIST_CHECKPOINTS_REQUEST__INIT;
    if (o->n_args)
        in.job_id = (char *)(uintptr_t)(str_starts(o->args[0], "job:") ? o->args[0] + 4 : o->args[0]);
    return brrctl_show(o, "/brr.v1.Checkpoints/List", &in.base, &list_view);
}

/* ---- get ---- */

struct download {
    struct fsio_writer file;
    struct digest *digest;
    char expected[DIGEST_HEX_SIZE];
    struct err err;
};

static bool on_part(void *ctx, const void *message) {
    struct download *d = ctx;
    const Brr__V1__CheckpointPart *part = message;
    if (part->checkpoint)
        str_copy(d->expected, sizeof d->expected, part->checkpoint->sha256);
    digest_update(d->digest, part->data.data, part->data.len);
    return !fsio_writer_write(&d->file, part->data.data, part->data.len, &d->err);
}

int brrctl_fetch_model(const struct arguments *o, const char *ref, const char *path, struct brrctl_fetched *ret) {
    Brr__V1__GetCheckpointRequest in = BRR__V1__GET_CHECKPOINT_REQUEST__INIT;
    struct download d = {.digest = digest_new()};
    struct brrctl_fetched fetched;
    in.ref = (char *)(uintptr_t)ref;
    if (fsio_writer_open(&d.file, path, &d.err)) {
        digest_finish(d.digest, fetched.sha256);
        return brrctl_fail(&d.err);
    }
    int code = brrctl_follow(o, "/brr.v1.Checkpoints/Get", &in.base, on_part, &d);
    fetched.bytes = d.file.written_bytes;
    bool hashed = digest_finish(d.digest, fetched.sha256);
    if (!code && !d.err.code && (!hashed || (*d.expected && strcmp(fetched.sha256, d.expected))))
        err_set(&d.err, ERR_DATA_LOSS, "%s was received with SHA-256 %s, expected %s; nothing was written", ref, fetched.sha256,
                d.expected);
    if (code || d.err.code)
        fsio_writer_abort(&d.file);
    else
        fsio_writer_commit(&d.file, &d.err);
    if (code || d.err.code)
        return code ? code : brrctl_fail(&d.err);
    *ret = fetched;
    return 0;
}

static int do_get(const struct arguments *o) {
    struct brrctl_fetched file;
    char buf[REF_SIZE], *const ref = ref_of(o, buf);
    if (!own(o)->output) {
        fputs("brrctl: checkpoint get needs --out FILE\n", stderr);
        return EXIT_USAGE;
    }
    int code = brrctl_fetch_model(o, ref, own(o)->output, &file);
    if (code)
        return code;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "ref", ref);
        json_put_str(w, "path", own(o)->output);
        JSON_MEMBERS(w, file, bytes, sha256);
        output_end(w);
    } else {
        printf("%s: %lld bytes, SHA-256 %s\n", own(o)->output, (long long)file.bytes, file.sha256);
    }
    return 0;
}

/* ---- put ---- */

static int send_part(brr_rpc *rpc, Brr__V1__PutCheckpointPart *part, struct brr_error *err) {
    size_t len = protobuf_c_message_get_packed_size(&part->base);
    OWNED_MEMORY uint8_t *bytes = needed(malloc(len + 1));
    protobuf_c_message_pack(&part->base, bytes);
    return brr_rpc_send(rpc, bytes, len, -1, err);
}

static int send_file(brr_rpc *rpc, const struct fsio_map *file, const char *name, char *sha256, struct brr_error *err) {
    int rc;
    for (size_t at = 0; at < file->len || !at; at += PART_BYTES) {
        Brr__V1__PutCheckpointPart part = BRR__V1__PUT_CHECKPOINT_PART__INIT;
        if (!at) {
            part.name = (char *)(uintptr_t)name;
            part.sha256 = sha256;
        }
        part.data.data = (uint8_t *)(uintptr_t)file->data + at;
        part.data.len = file->len - at < PART_BYTES ? file->len - at : PART_BYTES;
        if ((rc = send_part(rpc, &part, err)))
            return rc;
    }
    return brr_rpc_half_close(rpc, err);
}

static int upload(const struct arguments *o, brr_client *client, const struct fsio_map *file, const char *name) {
    OWNED_POINTER(brr_rpc_close) brr_rpc *rpc = NULL;
    char sha256[DIGEST_HEX_SIZE];
    struct brr_error err = {0};
    const void *data;
    size_t len;
    int rc;
    digest_bytes(file->data, file->len, sha256);
    if ((rc = brr_rpc_open(client, "/brr.v1.Checkpoints/Put", LONG_MS, &rpc, &err)) ||
        (rc = send_file(rpc, file, name, sha256, &err)) || (rc = brr_rpc_next(rpc, -1, &data, &len, &err)))
        return rc == BRR_END ? 0 : brrctl_fail_call(&err);
    OWNED_ANSWER Brr__V1__Checkpoint *c = brr__v1__checkpoint__unpack(NULL, len, data);
    if (c)
        brrctl_show_items(o, &one_view, (void *const *)&c, 1);
    return brr_rpc_next(rpc, -1, &data, &len, &err) == BRR_END ? 0 : brrctl_fail_call(&err);
}

/* Files that are no model are not sent: the daemon would refuse them, and could not name the local file. */
static int check_model(const char *path, struct err *err) {
    struct safetensors *st = NULL;
    int rc = safetensors_open(path, &st, err);
    if (rc)
        return rc;
    bool model = safetensors_metadata(st, "brr.kind") != NULL;
    safetensors_close(st);
    return model ? 0
                 : err_set(err, ERR_INVALID,
                           "%s is not a model: it has no metadata brr.kind; expected a model file of a training job", path);
}

static int do_put(const struct arguments *o) {
    const char *const path = o->args[1];
    char name[256];
    struct fsio_map file;
    struct err err;
    int code = 0;
    str_copy(name, sizeof name, own(o)->name ? own(o)->name : fsio_basename(path));
    char *dot = strstr(name, ".safetensors");
    if (dot && !own(o)->name)
        *dot = '\0';
    if (check_model(path, &err) || fsio_map_open(&file, path, &err))
        return brrctl_fail(&err);
    brr_client *client = brrctl_connect(o, &code);
    if (client)
        code = upload(o, client, &file, name);
    brr_disconnect(client);
    fsio_map_close(&file);
    return code;
}

/* ---- the small ones ---- */

static int do_verify(const struct arguments *o) {
    Brr__V1__CheckpointRef in = BRR__V1__CHECKPOINT_REF__INIT;
    char buf[REF_SIZE], *const ref = in.ref = ref_of(o, buf);
    int code = 0;
    OWNED_ANSWER Brr__V1__VerifyResponse *v = brrctl_call(o, "/brr.v1.Checkpoints/Verify", &in.base, &code);
    if (!v)
        return code;
    if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "ref", ref);
        output_fields(w, &v->base, "valid message");
        output_end(w);
    } else {
        printf("%s is %s: %s\n", ref, v->valid ? "valid" : "NOT valid", v->message);
    }
    return v->valid ? 0 : EXIT_FAILED;
}

static int do_delete(const struct arguments *o) {
    Brr__V1__CheckpointRef in = BRR__V1__CHECKPOINT_REF__INIT;
    char buf[REF_SIZE];
    in.ref = ref_of(o, buf);
    return brrctl_show(o, "/brr.v1.Checkpoints/Delete", &in.base, &one_view);
}

static int set_pin(const struct arguments *o, bool pinned) {
    Brr__V1__PinRequest in = BRR__V1__PIN_REQUEST__INIT;
    char buf[REF_SIZE];
    in.ref = ref_of(o, buf);
    in.pinned = pinned;
    return brrctl_show(o, "/brr.v1.Checkpoints/Pin", &in.base, &one_view);
}

static int do_pin(const struct arguments *o) { return set_pin(o, true); }
static int do_unpin(const struct arguments *o) { return set_pin(o, false); }

static int do_promote(const struct arguments *o) {
    Brr__V1__PromoteRequest in = BRR__V1__PROMOTE_REQUEST__INIT;
    char buf[REF_SIZE];
    in.ref = ref_of(o, buf);
    in.name = (char *)(uintptr_t)o->args[2];
    int code = brrctl_load_model(o, "/brr.v1.Checkpoints/Promote", &in.base);
    if (!code)
        brrctl_tell_builtin(in.name);
    return code;
}

static const struct command_verb checkpoint_verbs[] = {
    {"get", "REF", &checkpoint_arguments, do_get, 2},
    {"put", "FILE", &checkpoint_arguments, do_put, 2},
    {"verify", "REF", &checkpoint_arguments, do_verify, 2},
    {"pin", "REF", &checkpoint_arguments, do_pin, 2},
    {"unpin", "REF", &checkpoint_arguments, do_unpin, 2},
    {"delete", "REF", &checkpoint_arguments, do_delete, 2},
    {"rm", "REF", &checkpoint_arguments, do_delete, 2},
    {"promote", "REF NAME", &checkpoint_arguments, do_promote, 3},
    {.name = NULL},
};

BRRCTL_COMMAND(checkpoints, "[JOB]", &arguments_none, cmd_checkpoints, "list model files of jobs, and uploads",
               "example: brrctl checkpoints train-260131-1");

BRRCTL_COMMAND(
    checkpoint, "get|put|verify|pin|unpin|delete|promote REF", &checkpoint_arguments, NULL,
    "fetch, upload, check, pin, delete or serve a model file",
    "REF: job:ID (best, else last), job:ID@best, job:ID@last, job:ID@STEP, upload:NAME, or a path of the daemon's machine.\n"
    "  get REF --out FILE     fetch the model file; its SHA-256 is compared\n"
    "  put FILE [--name N]    upload FILE; its REF is then upload:N\n"
    "  verify REF             read the file again and compare its SHA-256\n"
    "  pin REF                protect it from pruning\n"
    "  unpin REF              end the protection\n"
    "  delete REF             refused for pinned, served and last checkpoints\n"
    "  promote REF NAME       serve it as NAME; REF may be store://NAME/KEY of a store in daemon.yaml, which is fetched,\n"
    "                         checked, and kept as upload:NAME\n"
    "example: brrctl checkpoint get job:train-260131-1 --out model.safetensors",
    .verbs = checkpoint_verbs);
