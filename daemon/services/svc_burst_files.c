/* brr.v1.Burst, the calls that carry files: Create, Restore, Snapshot. A network travels in parts into a file of the cache volume
 * that has no name, and is read, checked and packed on libuv's thread pool; a snapshot is written there while the network is lent.
 */

#include "burst/netfile.h"
#include "daemon/services/burst_ask.h"

enum { PART_BYTES = 1 << 20, PATH_SIZE = 4096, MOST_FILES = 8, RETRY_MS = 1000 };

/* State of all three calls. */
struct file_call {
    struct burst_ask ask;
    struct services *services;
    char name[NETWORK_NAME_SIZE], path[PATH_SIZE]; /* path: of the file while it has a name */
    char device[32];                               /* Create: its name, or "" */
    int64_t bytes, at;                             /* size; received or sent so far */
    uint8_t *part;
    size_t part_len;
    /* Create, Restore */
    bool named, replace, every_tick;
    int64_t budget_bytes, max_pending;
    struct connectome *net;
    struct burst_state state;
    /* Snapshot */
    struct network_order *give_back;
    const struct connectome *lent;
    int64_t tick;
};

/* The network goes on. There is room for the order: the mailbox takes more of them than there can be calls. */
static void give_back(struct file_call *f) {
    if (f->lent && burst_service_post(&f->services->burst, f->give_back))
        f->give_back = NULL;
    f->lent = NULL;
}

static void drop_file(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    give_back(f); /* of a call that went before its work began */
    connectome_free(f->net);
    burst_state_done(&f->state);
    network_order_free(f->give_back);
    free(f->part);
    f->services->burst.files--;
}

/* NULL after an error. */
static struct file_call *file_call_new(struct rpc_call *call, struct err *err) {
    struct services *s = services_of(call);
    if (s->burst.files == MOST_FILES || !atomic_load(&s->ready.serving)) {
        bool stops = !atomic_load(&s->ready.serving);
        err_set(err, ERR_UNAVAILABLE,
                stops ? "the daemon is stopping, and its networks end"
                      : "%d networks or snapshots are on their way; try again later",
                s->burst.files);
        rpc_refuse(call, err, stops ? "DRAINING" : "OVERLOADED", RETRY_MS);
        return NULL;
    }
    struct file_call *f = offload_new(call, OFFLOAD_FILES, sizeof *f, drop_file, err);
    if (!f)
        return NULL;
    f->services = s;
    s->burst.files++;
    return f;
}

/* ---- Create, Restore: the header ------------------------------------------------------------------------------- */

struct header {
    const char *name;
    int64_t bytes, budget_bytes, max_pending;
    bool every_tick;
    const char *device; /* NULL: any */
};

static bool good_name(const char *name, bool may_be_empty) {
    size_t len = strlen(name);
    return len < NETWORK_NAME_SIZE && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len && (len || may_be_empty);
}

/* A synapse takes 11 bytes in a file and at least 4 in memory, so a file of three times the budget holds no network that fits. */
static int check_header(const struct file_call *f, const struct header *h, struct err *err) {
    int64_t limit = f->services->burst.network_bytes, budget = h->budget_bytes ? h->budget_bytes : limit;
    int device, n, rc = burst_service_devices(&f->services->burst, h->device ? h->device : "", &device, &n, err);
    if (rc)
        return rc;
    if (!good_name(h->name, !f->replace))
        return err_set(err, ERR_INVALID, "'%.80s' is not a valid network name; expected 1 to %d of a-z, 0-9 and -", h->name,
                       NETWORK_NAME_SIZE - 1);
    if (budget < 0 || budget > limit)
        return err_set(err, ERR_INVALID, "budget_bytes is %lld; expected 1 to limits.network_memory of the daemon, %lld",
                       (long long)budget, (long long)limit);
    if (h->max_pending < 0)
        return err_set(err, ERR_INVALID, "max_pending is %lld; expected a positive number, or 0 for the default",
                       (long long)h->max_pending);
    if (h->bytes < 1)
        return err_set(err, ERR_INVALID, "bytes is %lld; the first message must hold the size of the network file",
                       (long long)h->bytes);
    if (h->bytes - NETFILE_MOST_AREAS_BYTES > 3 * budget)
        return err_set(err, ERR_EXHAUSTED,
                       "a network file of %lld bytes holds no network that fits into the memory budget of %lld bytes (at most "
                       "limits.network_memory of the daemon, %lld)",
                       (long long)h->bytes, (long long)budget, (long long)limit);
    return 0;
}

static int begin_upload(struct file_call *f, const struct header *h, struct err *err) {
    int rc = check_header(f, h, err);
    if (rc)
        return rc;
    str_copy(f->name, sizeof f->name, h->name);
    f->bytes = h->bytes;
    f->budget_bytes = h->budget_bytes ? h->budget_bytes : f->services->burst.network_bytes;
    COPY_MEMBERS(*f, *h, max_pending, every_tick);
    str_copy(f->device, sizeof f->device, h->device ? h->device : "");
    f->named = true;
    return (f->part = malloc(PART_BYTES)) ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory for a network");
}

/* ---- Create, Restore: the parts -------------------------------------------------------------------------------- */

/* On the pool. */
static void write_part(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    if (work->fd < 0) {
        if (!str_format(f->path, sizeof f->path, "%s/networks/upload-XXXXXX", f->services->paths[1]) ||
            (work->fd = mkostemp(f->path, O_CLOEXEC)) < 0) {
            err_errno(&work->err, errno, "cannot make a file for a network in %s/networks", f->services->paths[1]);
            return;
        }
        unlink(f->path);
    }
    for (size_t done = 0; done < f->part_len;) {
        ssize_t n = pwrite(work->fd, f->part + done, f->part_len - done, f->at - (int64_t)(f->part_len - done));
        if (n < 0 && errno != EINTR) {
            err_errno(&work->err, errno, "cannot write a network to %s/networks", f->services->paths[1]);
            return;
        }
        done += n > 0 ? (size_t)n : 0;
    }
}

/* On the pool. The path names the open file; messages call it by what it is. */
static void read_network(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    char text[sizeof work->err.message];
    str_format(f->path, sizeof f->path, "/proc/self/fd/%d", work->fd);
    if (netfile_load(f->path, f->budget_bytes, &f->net, &f->state, &work->err) && str_starts(work->err.message, f->path)) {
        str_copy(text, sizeof text, work->err.message);
        str_format(work->err.message, sizeof work->err.message, "the network file%s", text + strlen(f->path));
    }
    close(work->fd);
    work->fd = -1;
}

static void made(struct offload *work) {
    if (offload_good(work))
        offload_answer(work, burst_message_of(work->arena, &((struct burst_ask *)work)->order->infos[0]), "a network");
}

static void on_read(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    struct network_order *o = NULL;
    if (!work->err.code && !(o = network_order_new(f->replace ? NETWORK_REPLACE : NETWORK_CREATE, f->name)))
        err_set(&work->err, ERR_EXHAUSTED, "out of memory for a network");
    if (!offload_good(work)) {
        network_order_free(o);
        return;
    }
    COPY_MEMBERS(*o, *f, net, state, every_tick);
    str_copy(o->device, sizeof o->device, f->device);
    COPY_MEMBERS(*o, *f, max_pending, budget_bytes);
    f->net = NULL;
    f->state = (struct burst_state){0};
    burst_ask(&f->ask, o, made);
}

static void finish_upload(struct file_call *f) {
    struct err err;
    if (f->at == f->bytes) {
        offload_start(&f->ask.work, read_network, on_read);
        return;
    }
    err_set(&err, ERR_INVALID, "the network file ended after %lld of %lld bytes", (long long)f->at, (long long)f->bytes);
    rpc_finish(f->ask.work.call, &err);
}

static int check_part(struct file_call *f, const struct header *h, const ProtobufCBinaryData *part, struct err *err) {
    int rc;
    if (!f->named && (rc = begin_upload(f, h, err)))
        return rc;
    if (part->len > PART_BYTES)
        return err_set(err, ERR_INVALID, "a part of %zu bytes; expected at most %d", part->len, PART_BYTES);
    if (f->at + (int64_t)part->len > f->bytes)
        return err_set(err, ERR_INVALID, "the network file is larger than the %lld bytes of the first message",
                       (long long)f->bytes);
    return 0;
}

/* The first message begins the file; one part at a time is on its way to the disk. */
static int take_part(struct rpc_call *call, bool replace, const struct header *h, const ProtobufCBinaryData *part,
                     struct err *err) {
    struct file_call *f = rpc_state(call);
    if (!f && !(f = file_call_new(call, err)))
        return err->code;
    f->replace = replace;
    int rc = check_part(f, h, part, err);
    if (rc || !part->len)
        return rc;
    memcpy(f->part, part->data, part->len);
    f->part_len = part->len;
    f->at += (int64_t)part->len;
    rpc_hold(call);
    offload_start(&f->ask.work, write_part, offload_release);
    return 0;
}

static int create_part(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__CreateNetworkRequest *in = message;
    const struct header h = {in->name, in->bytes, in->budget_bytes, in->max_pending, in->every_tick, in->device};
    return take_part(call, false, &h, &in->part, err);
}

static int restore_part(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__RestoreNetworkRequest *in = message;
    const struct header h = {.name = in->name, .bytes = in->bytes};
    return take_part(call, true, &h, &in->part, err);
}

static void upload_half_close(struct rpc_call *call) {
    struct file_call *f = rpc_state(call);
    struct err err;
    if (!f || !f->named) {
        err_set(&err, ERR_INVALID, "the first message must hold the size of the network file");
        rpc_finish(call, &err);
        return;
    }
    finish_upload(f);
}

/* ---- Snapshot -------------------------------------------------------------------------------------------------- */

/* On the pool. */
static void write_snapshot(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    char sha256[DIGEST_HEX_SIZE];
    if (!str_format(f->path, sizeof f->path, "%s/networks/snapshot-%p", f->services->paths[1], (void *)f)) {
        err_set(&work->err, ERR_RANGE, "the path of paths.cache is too long");
        return;
    }
    if (netfile_save(f->path, f->lent, &f->state, sha256, &work->err))
        return;
    if (fsio_size(f->path, &f->bytes, NULL, &work->err) == 0 && (work->fd = open(f->path, O_RDONLY | O_CLOEXEC)) < 0)
        err_errno(&work->err, errno, "cannot open %s", f->path);
    unlink(f->path);
}

/* On the pool. */
static void pack_snapshot(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    Brr__V1__SnapshotPart out = BRR__V1__SNAPSHOT_PART__INIT;
    if (!offload_read(work, "a snapshot", &out.part) || !out.part.len)
        return;
    out.bytes = f->at ? 0 : f->bytes;
    out.tick = f->at ? 0 : f->tick;
    f->at += (int64_t)out.part.len;
    offload_pack(work, &out.base);
}

static void on_snapshot(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    give_back(f);
    burst_state_done(&f->state);
    if (offload_good(work))
        offload_stream(work, pack_snapshot);
}

static void on_lent(struct offload *work) {
    struct file_call *f = (struct file_call *)work;
    struct network_order *o = f->ask.order;
    COPY_MEMBERS(*f, *o, lent, state);
    f->tick = (int64_t)o->state.tick;
    o->state = (struct burst_state){0};
    if (offload_good(work))
        offload_start(work, write_snapshot, on_snapshot);
    else
        give_back(f);
}

static int snapshot(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__SnapshotRequest *in = message;
    struct file_call *f = file_call_new(call, err);
    if (!f)
        return err->code;
    struct network_order *o = network_order_new(NETWORK_LEND, in->name);
    f->give_back = network_order_new(NETWORK_RETURN, in->name);
    if (o && f->give_back) {
        burst_ask(&f->ask, o, on_lent);
        return 0;
    }
    network_order_free(o);
    return err_set(err, ERR_EXHAUSTED, "out of memory for a snapshot");
}

const struct rpc_method svc_burst_files[] = {
    {RPC_METHOD("/brr.v1.Burst/Create", ROLE_SUBMIT, brr__v1__create_network_request, create_part), .client_stream = true,
     .max_message = RPC_DATA_BYTES, .half_close = upload_half_close, .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {RPC_METHOD("/brr.v1.Burst/Restore", ROLE_SUBMIT, brr__v1__restore_network_request, restore_part), .client_stream = true,
     .max_message = RPC_DATA_BYTES, .half_close = upload_half_close, .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {RPC_METHOD("/brr.v1.Burst/Snapshot", ROLE_SUBMIT, brr__v1__snapshot_request, snapshot), .writable = offload_writable,
     .end = offload_end, .idle_ms = RPC_FILE_IDLE_MS},
    {.path = NULL},
};
