/* Networks of spiking neurons as plain values over brr.v1.Burst. */

#include "brr/v1/burst.pb-c.h"
#include "client/message.h"

enum { PART_BYTES = 1 << 20, TRANSFER_TIMEOUT_MS = 600 * 1000, OBSERVE_TIMEOUT_MS = 30000 };

static int keep_error(struct brr_error *ret, const struct err *err) {
    int code = conn_error(ret, err->code, "%s", err->message);
    if (ret)
        str_copy(ret->cause, sizeof ret->cause, err->cause);
    return code;
}

static void fill(struct brr_network *ret, const Brr__V1__Network *n) {
    *ret = (struct brr_network){SAME_MEMBERS(*n, neurons, synapses, tick, bytes, budget_bytes, pending, fired_total),
                                .areas = n->area_count, .observers = n->observers, .every_tick = n->every_tick};
    COPY_TEXTS(*ret, *n, name, device);
}

/* ---- files to the daemon --------------------------------------------------------------------------------------- */

/* A file that is sent in the parts of a Create or Restore call. */
struct upload {
    const char *path;
    FILE *file;
    int64_t bytes;
    Brr__V1__CreateNetworkRequest create;   /* the first message */
    Brr__V1__RestoreNetworkRequest restore; /* the same, of the other call */
    bool restores;
};

static int upload_open(struct upload *u, struct brr_error *err) {
    struct stat st;
    struct err failed = {0};
    if (fsio_size(u->path, &u->bytes, NULL, &failed))
        return keep_error(err, &failed);
    if (!(u->file = fopen(u->path, "rbe")) || fstat(fileno(u->file), &st) || !S_ISREG(st.st_mode)) {
        if (u->file)
            fclose(u->file);
        return conn_error(err, BRR_INVALID, "%s cannot be read as a regular file", u->path);
    }
    if (st.st_size < 1) {
        fclose(u->file);
        return conn_error(err, BRR_INVALID, "%s is empty; expected a network file or a snapshot", u->path);
    }
    u->bytes = st.st_size;
    return 0;
}

/* The first message has the name, the size and the options; the others hold parts alone. */
static int send_part(struct upload *u, brr_rpc *rpc, uint8_t *data, size_t len, struct brr_error *err) {
    const ProtobufCBinaryData part = {len, data};
    u->create.part = u->restore.part = part;
    int rc = message_send(rpc, u->restores ? &u->restore.base : &u->create.base, err);
    brr__v1__create_network_request__init(&u->create);
    brr__v1__restore_network_request__init(&u->restore);
    return rc;
}

static int send_all(struct upload *u, brr_rpc *rpc, struct brr_error *err) {
    OWNED_MEMORY uint8_t *part = malloc(PART_BYTES);
    if (!part)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for a part of %s", u->path);
    int rc = send_part(u, rpc, NULL, 0, err);
    if (rc)
        return rc;
    for (int64_t at = 0; at < u->bytes;) {
        size_t wanted = u->bytes - at < PART_BYTES ? (size_t)(u->bytes - at) : PART_BYTES;
        if (fread(part, 1, wanted, u->file) != wanted)
            return conn_error(err, BRR_DATA_LOSS, "%s became shorter while it was read; it had %lld bytes", u->path,
                              (long long)u->bytes);
        if ((rc = send_part(u, rpc, part, wanted, err)))
            return rc;
        at += (int64_t)wanted;
    }
    return brr_rpc_half_close(rpc, err);
}

/* The answer is valid only after the call has ended without an error. */
static int receive_network(brr_rpc *rpc, const char *method, struct brr_network *ret, struct brr_error *err) {
    const void *data;
    size_t len;
    int rc = brr_rpc_next(rpc, -1, &data, &len, err);
    if (rc)
        return rc == BRR_END ? conn_error(err, BRR_INTERNAL, "%s gave no answer", method) : rc;
    Brr__V1__Network *n = brr__v1__network__unpack(NULL, len, data);
    if (!n)
        return message_garbled(method, err);
    struct brr_network got;
    fill(&got, n);
    brr__v1__network__free_unpacked(n, NULL);
    if ((rc = brr_rpc_next(rpc, -1, &data, &len, err)) != BRR_END)
        return rc < 0 ? rc : message_garbled(method, err);
    *ret = got;
    return 0;
}

/* The daemon does not know where the file lies. */
static void name_file(const char *path, struct brr_error *err) {
    static const char anonymous[] = "the network file";
    char text[sizeof err->message];
    if (!err || !str_starts(err->message, anonymous))
        return;
    str_copy(text, sizeof text, err->message + sizeof anonymous - 1);
    str_format(err->message, sizeof err->message, "%s%s", path, text);
}

static int transfer(brr_client *client, struct upload *u, int64_t timeout_ms, struct brr_network *ret, struct brr_error *err) {
    const char *method = u->restores ? "/brr.v1.Burst/Restore" : "/brr.v1.Burst/Create";
    OWNED_POINTER(brr_rpc_close) brr_rpc *rpc = NULL;
    int rc = brr_rpc_open(client, method, timeout_ms > 0 ? timeout_ms : TRANSFER_TIMEOUT_MS, &rpc, err);
    if (rc || (rc = send_all(u, rpc, err)))
        return rc;
    return receive_network(rpc, method, ret, err);
}

static int upload(brr_client *client, struct upload *u, int64_t timeout_ms, struct brr_network *ret, struct brr_error *err) {
    int rc = upload_open(u, err);
    if (rc)
        return rc;
    u->create.bytes = u->restore.bytes = u->bytes;
    rc = transfer(client, u, timeout_ms, ret, err);
    fclose(u->file);
    if (rc)
        name_file(u->path, err);
    return rc;
}

int brr_network_create(brr_client *client, const char *path, const struct brr_network_options *options, struct brr_network *ret,
                       struct brr_error *err) {
    static const struct brr_network_options defaults;
    const struct brr_network_options *o = options ? options : &defaults;
    struct upload u = {.path = path, .create = BRR__V1__CREATE_NETWORK_REQUEST__INIT};
    brr__v1__restore_network_request__init(&u.restore);
    u.create.name = message_text(o->name);
    u.create.budget_bytes = o->budget_bytes;
    u.create.every_tick = o->every_tick != 0;
    u.create.max_pending = o->max_pending;
    u.create.device = message_text(o->device);
    return upload(client, &u, o->timeout_ms, ret, err);
}

int brr_network_restore(brr_client *client, const char *name, const char *path, int64_t timeout_ms, struct brr_network *ret,
                        struct brr_error *err) {
    struct upload u = {.path = path, .restores = true, .restore = BRR__V1__RESTORE_NETWORK_REQUEST__INIT};
    brr__v1__create_network_request__init(&u.create);
    u.restore.name = message_text(name);
    return upload(client, &u, timeout_ms, ret, err);
}

/* ---- a file from the daemon ------------------------------------------------------------------------------------ */

static int receive_parts(brr_rpc *rpc, struct fsio_writer *file, struct brr_error *err) {
    static const char method[] = "/brr.v1.Burst/Snapshot";
    const void *data;
    size_t len;
    int64_t announced = -1;
    int rc;
    while (!(rc = brr_rpc_next(rpc, -1, &data, &len, err))) {
        struct err failed = {0};
        Brr__V1__SnapshotPart *part = brr__v1__snapshot_part__unpack(NULL, len, data);
        if (!part)
            return message_garbled(method, err);
        announced = announced < 0 ? part->bytes : announced;
        rc = fsio_writer_write(file, part->part.data, part->part.len, &failed);
        brr__v1__snapshot_part__free_unpacked(part, NULL);
        if (rc)
            return keep_error(err, &failed);
    }
    if (rc != BRR_END)
        return rc;
    return file->written_bytes == announced ? 0
                                            : conn_error(err, BRR_DATA_LOSS, "the snapshot has %lld bytes; expected %lld",
                                                         (long long)file->written_bytes, (long long)announced);
}

static int download(brr_client *client, const char *name, int64_t timeout_ms, struct fsio_writer *file, struct brr_error *err) {
    Brr__V1__SnapshotRequest in = BRR__V1__SNAPSHOT_REQUEST__INIT;
    OWNED_POINTER(brr_rpc_close) brr_rpc *rpc = NULL;
    int rc;
    in.name = message_text(name);
    if ((rc = brr_rpc_open(client, "/brr.v1.Burst/Snapshot", timeout_ms > 0 ? timeout_ms : TRANSFER_TIMEOUT_MS, &rpc, err)) ||
        (rc = message_send(rpc, &in.base, err)) || (rc = brr_rpc_half_close(rpc, err)))
        return rc;
    return receive_parts(rpc, file, err);
}

int brr_network_snapshot(brr_client *client, const char *name, const char *path, int64_t timeout_ms, int64_t *ret_bytes,
                         struct brr_error *err) {
    struct fsio_writer file;
    struct err failed = {0};
    if (fsio_writer_open(&file, path, &failed))
        return keep_error(err, &failed);
    int rc = download(client, name, timeout_ms, &file, err);
    if (rc) {
        fsio_writer_abort(&file);
        return rc;
    }
    int64_t bytes = file.written_bytes;
    if (fsio_writer_commit(&file, &failed))
        return keep_error(err, &failed);
    *ret_bytes = bytes;
    return 0;
}

/* ---- single calls ---------------------------------------------------------------------------------------------- */

int brr_network_list(brr_client *client, struct brr_network **ret, size_t *ret_n, struct brr_error *err) {
    static const struct message_call call = {"/brr.v1.Burst/List", &brr__v1__list_networks_response__descriptor, 0};
    Brr__V1__ListNetworksRequest in = BRR__V1__LIST_NETWORKS_REQUEST__INIT;
    ProtobufCMessage *out = NULL;
    int rc = message_ask(client, &call, &in.base, &out, err);
    if (rc)
        return rc;
    const Brr__V1__ListNetworksResponse *answer = (const Brr__V1__ListNetworksResponse *)out;
    struct brr_network *list = calloc(answer->n_networks + 1, sizeof *list);
    for (size_t i = 0; list && i < answer->n_networks; i++)
        fill(&list[i], answer->networks[i]);
    if (list) {
        *ret = list;
        *ret_n = answer->n_networks;
    } else {
        rc = conn_error(err, BRR_EXHAUSTED, "out of memory for %zu networks", answer->n_networks);
    }
    protobuf_c_message_free_unpacked(out, NULL);
    return rc;
}

int brr_network_destroy(brr_client *client, const char *name, struct brr_error *err) {
    static const struct message_call call = {"/brr.v1.Burst/Destroy", &brr__v1__destroy_network_response__descriptor, 0};
    Brr__V1__DestroyNetworkRequest in = BRR__V1__DESTROY_NETWORK_REQUEST__INIT;
    ProtobufCMessage *out = NULL;
    in.name = message_text(name);
    int rc = message_ask(client, &call, &in.base, &out, err);
    protobuf_c_message_free_unpacked(out, NULL);
    return rc;
}

int brr_network_inject(brr_client *client, const char *name, const struct brr_injection *list, size_t n, int64_t *ret_pending,
                       struct brr_error *err) {
    static const struct message_call call = {"/brr.v1.Burst/Inject", &brr__v1__inject_response__descriptor, 0};
    Brr__V1__InjectRequest in = BRR__V1__INJECT_REQUEST__INIT;
    ProtobufCMessage *out = NULL;
    if (n > BRR_NETWORK_MOST_INJECTIONS)
        return conn_error(err, BRR_RANGE, "%zu injections in one call; the maximum is %d", n, BRR_NETWORK_MOST_INJECTIONS);
    int64_t *ticks = malloc((n + 1) * (sizeof *ticks + sizeof(uint32_t) + sizeof(float)));
    if (!ticks)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for %zu injections", n);
    in.name = message_text(name);
    in.n_id = in.n_potential = n;
    in.tick = ticks;
    in.id = (uint32_t *)(ticks + n + 1);
    in.potential = (float *)(in.id + n + 1);
    bool timed = false;
    for (size_t i = 0; i < n; i++) {
        timed |= list[i].tick != 0;
        in.tick[i] = list[i].tick;
        in.id[i] = list[i].id;
        in.potential[i] = list[i].potential;
    }
    in.n_tick = timed ? n : 0; /* none: the next tick */
    int rc = message_ask(client, &call, &in.base, &out, err);
    free(ticks);
    if (rc)
        return rc;
    if (ret_pending)
        *ret_pending = ((const Brr__V1__InjectResponse *)out)->pending;
    protobuf_c_message_free_unpacked(out, NULL);
    return 0;
}

/* ---- changes --------------------------------------------------------------------------------------------------- */

/* The three lists of a request, in one allocation each. */
struct changes {
    Brr__V1__NeuronChange *neurons, **neuron_list;
    Brr__V1__SynapseChange *synapses, **synapse_list;
    Brr__V1__AreaChange *areas, **area_list;
};

static bool changes_make(const struct brr_network_changes *p, struct changes *c) {
    c->neurons = calloc(p->n_neurons + 1, sizeof *c->neurons);
    c->neuron_list = calloc(p->n_neurons + 1, sizeof *c->neuron_list);
    c->synapses = calloc(p->n_synapses + 1, sizeof *c->synapses);
    c->synapse_list = calloc(p->n_synapses + 1, sizeof *c->synapse_list);
    c->areas = calloc(p->n_areas + 1, sizeof *c->areas);
    c->area_list = calloc(p->n_areas + 1, sizeof *c->area_list);
    if (!c->neurons || !c->neuron_list || !c->synapses || !c->synapse_list || !c->areas || !c->area_list)
        return false;
    for (size_t i = 0; i < p->n_neurons; i++) {
        Brr__V1__NeuronChange *to = c->neuron_list[i] = &c->neurons[i];
        brr__v1__neuron_change__init(to);
        to->id = p->neurons[i].id;
        to->field = message_text(p->neurons[i].field);
        to->value = p->neurons[i].value;
        to->remove = p->neurons[i].remove != 0;
    }
    for (size_t i = 0; i < p->n_synapses; i++) {
        Brr__V1__SynapseChange *to = c->synapse_list[i] = &c->synapses[i];
        brr__v1__synapse_change__init(to);
        COPY_MEMBERS(*to, p->synapses[i], source, target, weight, psp, type);
        to->remove = p->synapses[i].remove != 0;
    }
    for (size_t i = 0; i < p->n_areas; i++) {
        Brr__V1__AreaChange *to = c->area_list[i] = &c->areas[i];
        brr__v1__area_change__init(to);
        to->index = p->areas[i].index;
        to->psp_divide = p->areas[i].psp_divide != 0;
        to->mp_driven_psp = p->areas[i].mp_driven_psp != 0;
        to->power = p->areas[i].power;
    }
    return true;
}

static void changes_done(struct changes *c) { FREE_MEMBERS(*c, neurons, neuron_list, synapses, synapse_list, areas, area_list); }

int brr_network_patch(brr_client *client, const char *name, const struct brr_network_changes *changes, struct brr_error *err) {
    static const struct message_call call = {"/brr.v1.Burst/Patch", &brr__v1__patch_response__descriptor, 0};
    Brr__V1__PatchRequest in = BRR__V1__PATCH_REQUEST__INIT;
    OWNED(changes_done) struct changes c = {0};
    ProtobufCMessage *out = NULL;
    if (!changes_make(changes, &c))
        return conn_error(err, BRR_EXHAUSTED, "out of memory for changes of a network");
    in.name = message_text(name);
    in.n_neurons = changes->n_neurons;
    in.neurons = c.neuron_list;
    in.n_synapses = changes->n_synapses;
    in.synapses = c.synapse_list;
    in.n_areas = changes->n_areas;
    in.areas = c.area_list;
    int rc = message_ask(client, &call, &in.base, &out, err);
    protobuf_c_message_free_unpacked(out, NULL);
    return rc;
}

/* ---- ticks ----------------------------------------------------------------------------------------------------- */

static int collect_membranes(const Brr__V1__StepResponse *answer, struct brr_step *ret, struct brr_error *err) {
    if (!(ret->membranes = malloc((answer->n_membranes + 1) * sizeof *ret->membranes)))
        return conn_error(err, BRR_EXHAUSTED, "out of memory for %zu membranes", answer->n_membranes);
    memcpy(ret->membranes, answer->membranes, answer->n_membranes * sizeof *ret->membranes);
    ret->n_membranes = answer->n_membranes;
    return 0;
}

static int collect_spikes(const Brr__V1__StepResponse *answer, struct brr_step *ret, struct brr_error *err) {
    size_t n = 0, k = 0;
    for (size_t i = 0; i < answer->n_frames; i++)
        n += answer->frames[i]->n_ids;
    struct brr_spike *spikes = malloc((n + 1) * sizeof *spikes);
    if (!spikes)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for %zu spikes", n);
    for (size_t i = 0; i < answer->n_frames; i++)
        for (size_t j = 0; j < answer->frames[i]->n_ids; j++)
            spikes[k++] = (struct brr_spike){answer->frames[i]->tick, answer->frames[i]->ids[j]};
    ret->spikes = spikes;
    ret->n_spikes = n;
    return 0;
}

int brr_network_step(brr_client *client, const struct brr_step_request *request, struct brr_step *ret, struct brr_error *err) {
    const struct message_call call = {"/brr.v1.Burst/Step", &brr__v1__step_response__descriptor, request->timeout_ms};
    Brr__V1__StepRequest in = BRR__V1__STEP_REQUEST__INIT;
    ProtobufCMessage *out = NULL;
    in.name = message_text(request->name);
    in.ticks = request->ticks;
    in.want_fired = request->want_spikes != 0;
    in.want_membranes = request->want_membranes != 0;
    int rc = message_ask(client, &call, &in.base, &out, err);
    if (rc)
        return rc;
    const Brr__V1__StepResponse *answer = (const Brr__V1__StepResponse *)out;
    struct brr_step step = {
        .ticks = answer->ticks, .tick = answer->tick, .fired = answer->fired, .events = answer->events, .seconds = answer->seconds};
    if ((request->want_spikes && (rc = collect_spikes(answer, &step, err))) ||
        (request->want_membranes && (rc = collect_membranes(answer, &step, err))))
        free(step.spikes);
    protobuf_c_message_free_unpacked(out, NULL);
    if (rc)
        return rc;
    *ret = step;
    return 0;
}

/* ---- observing ------------------------------------------------------------------------------------------------- */

struct brr_observer {
    brr_rpc *rpc;
    Brr__V1__Frames *frames; /* received last */
    size_t next;             /* of them to be given out */
    int64_t missed, past;
    uint32_t *ids; /* of a tick that came in several frames */
    size_t n_ids, room;
};

/* The next message; the one before is gone. */
static int next_frames(brr_observer *o, int64_t timeout_ms, struct brr_error *err) {
    const void *data;
    size_t len;
    int rc = brr_rpc_next(o->rpc, timeout_ms, &data, &len, err);
    if (rc)
        return rc;
    brr__v1__frames__free_unpacked(o->frames, NULL);
    o->next = 0;
    if (!(o->frames = brr__v1__frames__unpack(NULL, len, data)))
        return message_garbled("/brr.v1.Burst/Observe", err);
    o->missed = o->frames->missed;
    return 0;
}

/* The first message has no frames: it says that the observer is attached. */
static int observer_attach(brr_observer *o, brr_client *client, const Brr__V1__ObserveNetworkRequest *in, struct brr_error *err) {
    int rc;
    if ((rc = message_follow(client, "/brr.v1.Burst/Observe", &in->base, &o->rpc, err)) ||
        (rc = next_frames(o, OBSERVE_TIMEOUT_MS, err)) <= 0)
        return rc;
    if (rc == BRR_AGAIN)
        return conn_error(err, BRR_DEADLINE, "no answer of the daemon in %d s", OBSERVE_TIMEOUT_MS / 1000);
    return conn_error(err, BRR_NOT_FOUND, "network '%s' has ended", in->name);
}

int brr_network_observe_from(brr_client *client, const char *name, int64_t last_ticks, int queue_frames, brr_observer **ret,
                             struct brr_error *err) {
    Brr__V1__ObserveNetworkRequest in = BRR__V1__OBSERVE_NETWORK_REQUEST__INIT;
    brr_observer *o = calloc(1, sizeof *o);
    if (!o)
        return conn_error(err, BRR_EXHAUSTED, "out of memory for an observer");
    in.name = message_text(name);
    in.queue_frames = queue_frames;
    in.last_ticks = last_ticks;
    int rc = observer_attach(o, client, &in, err);
    if (rc) {
        brr_observer_close(o);
        return rc;
    }
    o->past = o->frames->past;
    *ret = o;
    return 0;
}

int brr_network_observe(brr_client *client, const char *name, int queue_frames, brr_observer **ret, struct brr_error *err) {
    return brr_network_observe_from(client, name, 0, queue_frames, ret, err);
}

/* Adds a part of a tick. */
static int keep_ids(brr_observer *o, const Brr__V1__Frame *f, struct brr_error *err) {
    if (o->n_ids + f->n_ids > o->room) {
        uint32_t *ids = realloc(o->ids, 2 * (o->n_ids + f->n_ids) * sizeof *ids);
        if (!ids)
            return conn_error(err, BRR_EXHAUSTED, "out of memory for %zu neurons that fired in a tick", o->n_ids + f->n_ids);
        o->ids = ids;
        o->room = 2 * (o->n_ids + f->n_ids);
    }
    memcpy(o->ids + o->n_ids, f->ids, f->n_ids * sizeof *f->ids);
    o->n_ids += f->n_ids;
    return 0;
}

int brr_observer_next(brr_observer *o, int64_t timeout_ms, struct brr_frame *ret, struct brr_error *err) {
    int rc;
    for (;;) {
        while (!o->frames || o->next == o->frames->n_frames)
            if ((rc = next_frames(o, timeout_ms, err)))
                return rc;
        const Brr__V1__Frame *f = o->frames->frames[o->next++];
        bool whole = !o->n_ids && !f->more;
        if (!whole && (rc = keep_ids(o, f, err)))
            return rc;
        if (f->more)
            continue;
        *ret = (struct brr_frame){
            .tick = f->tick, .ids = whole ? f->ids : o->ids, .n_ids = whole ? f->n_ids : o->n_ids, .candidates = f->candidates};
        o->n_ids = 0;
        return 0;
    }
}

int64_t brr_observer_missed(const brr_observer *o) { return o->missed; }
int64_t brr_observer_past(const brr_observer *o) { return o->past; }

void brr_observer_close(brr_observer *o) {
    if (!o)
        return;
    brr_rpc_close(o->rpc);
    brr__v1__frames__free_unpacked(o->frames, NULL);
    free(o->ids);
    free(o);
}
