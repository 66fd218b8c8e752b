/* brr.v1.Jobs/Validate: a job file read as Submit would, and what it would need. Headers, labels and the device's speed are looked
 * at on libuv's thread pool. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/str.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/models/model_fetch.h"
#include "daemon/models/model_lease.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"
#include "infer/modelfile.h"
#include "run/estimate.h"
#include "store/safetensors.h"

enum { MAX_NOTICES = 40, MAX_FACTS = 24 };

struct validate {
    uv_work_t work;
    struct rpc_call *call; /* NULL once the client is gone */
    struct arena arena;    /* outlives the call */
    struct jobfile job;
    struct estimate_config config;
    struct estimate estimate;
    char model_path[LIVE_PATH]; /* detect: a model that is no object; of an object what it says of itself is read at once */
    struct modelfile model;
    bool model_read;
    int64_t default_wall_clock_ms;
    bool limit_only; /* the limit alone is asked about */
    char data_root[4096], device[32];
    struct source_config source;
    atomic_bool stop; /* the client is gone */
    char *notices[MAX_NOTICES];
    size_t n_notices;
    Brr__V1__Pair pairs[MAX_FACTS], *facts[MAX_FACTS];
    size_t n_facts;
    struct err err;
};

static struct services *services_of(const struct rpc_call *call) { return rpc_context(call); }

static void notice(void *ctx, const char *text) {
    struct validate *v = ctx;
    if (v->n_notices < MAX_NOTICES && (v->notices[v->n_notices] = arena_strdup(&v->arena, text)))
        v->n_notices++;
}

static void fact(struct validate *v, const char *key, const char *value) {
    Brr__V1__Pair *p = &v->pairs[v->n_facts];
    if (v->n_facts == MAX_FACTS || !value)
        return;
    brr__v1__pair__init(p);
    p->key = (char *)(uintptr_t)key;
    p->value = (char *)(uintptr_t)value;
    v->facts[v->n_facts++] = p;
}

static void train_facts(struct validate *v) {
    const struct jobfile *job = &v->job;
    const struct seizure_config *m = &job->model;
    const struct estimate *e = &v->estimate;
    struct arena *a = &v->arena;
    fact(v, "model",
         arena_printf(a, "%s: %d-%d-%d-%d channels, %d ResCNN blocks, %d %s layers", seizure_preset_name(m), m->encoder_channels[0],
                      m->encoder_channels[1], m->encoder_channels[2], m->encoder_channels[3], m->rescnn_blocks, m->mamba_layers,
                      m->mixer == SEIZURE_MIXER_CONV ? "conv" : "mamba2"));
    fact(v, "batch",
         arena_printf(a, "%lld windows of %g s, %lld at a time", (long long)job->training.batch_size, job->data.window_s,
                      (long long)job->training.micro_batch_size));
    if (v->config.data_root) {
        fact(v, "data", v->config.data_root);
        fact(v, "hours", arena_printf(a, "%.2f", e->hours));
        fact(v, "seizures", arena_printf(a, "%lld", (long long)e->seizures));
        if (e->unreadable)
            fact(v, "cannot be used", arena_printf(a, "%lld recordings; the job will list them", (long long)e->unreadable));
    }
    if (e->windows_per_epoch)
        fact(v, "an epoch",
             arena_printf(a, "about %lld windows, %lld steps", (long long)e->windows_per_epoch, (long long)e->steps_per_epoch));
}

/* The models that a job may name. */
struct named_model {
    const char *key, *ref;
    bool any_tensors; /* of any file of tensors, else a model with its metadata */
};
enum { MAX_NAMED = 3 };
static int named_models(const struct jobfile *job, struct named_model ret[MAX_NAMED]) {
    ret[0] = (struct named_model){"evaluate.checkpoint", job->evaluate.checkpoint, false};
    ret[1] = (struct named_model){"model.init_from", job->init_from, true};
    ret[2] = (struct named_model){"detect.model", job->detect.model, false};
    return MAX_NAMED;
}

/* A model in a store: there, whole, and a model. A store that does not answer now may do so when the job runs. */
static int look_at_object(struct validate *v, const struct named_model *m, struct err *err) {
    struct model_lease lease = {0};
    struct safetensors *tensors = NULL;
    struct err why = {0};
    int rc = model_lease_take(&v->source, m->ref, &v->stop, &lease, &why);
    if (rc == ERR_UNAVAILABLE || why.room != ERR_ROOM_ENOUGH) {
        char text[800];
        notice(v, arena_printf(&v->arena, "%s cannot be looked at now: %s", m->key, err_text(&why, text, sizeof text)));
        return 0;
    }
    if (!rc) {
        rc = m->any_tensors ? safetensors_open(lease.path, &tensors, &why) : modelfile_read(lease.path, &v->model, &why);
        if (rc)
            err_wrap(&why, "model %.200s cannot be used", m->ref);
        else
            fact(v, m->key, arena_printf(&v->arena, "%s, SHA-256 %s", m->ref, lease.sha256));
        v->model_read = !rc && !m->any_tensors;
        safetensors_close(tensors);
        model_lease_drop(&lease);
    }
    if (rc && err)
        *err = why;
    return rc;
}

static int look_at_objects(struct validate *v, struct err *err) {
    struct named_model models[MAX_NAMED];
    int n = named_models(&v->job, models), rc = 0;
    for (int i = 0; i < n && !rc; i++)
        if (models[i].ref && model_fetch_is_url(models[i].ref))
            rc = look_at_object(v, &models[i], err);
    return rc;
}

/* Without a model that can be looked at now there is nothing to say. */
static void look_at_detect(struct validate *v) {
    struct arena *a = &v->arena;
    const struct estimate *e = &v->estimate;
    if (*v->model_path && !modelfile_read(v->model_path, &v->model, &v->err))
        v->model_read = true;
    if (!v->model_read || v->err.code || estimate_detect(&v->config, &v->model, &v->estimate, &v->err))
        return;
    fact(v, "montage", v->model.montage);
    if (!v->config.data_root)
        return;
    fact(v, "data", v->config.data_root);
    fact(v, "hours", arena_printf(a, "%.2f", e->hours));
    if (e->unreadable)
        fact(v, "cannot be used", arena_printf(a, "%lld recordings; the job will list them", (long long)e->unreadable));
}

static void work(uv_work_t *request) {
    struct validate *v = request->data;
    char text[400];
    if (v->job.kind == JOB_KIND_DETECT) {
        if (!look_at_objects(v, &v->err))
            look_at_detect(v);
        return;
    }
    if ((!v->limit_only && look_at_objects(v, &v->err)) || v->job.kind != JOB_KIND_TRAIN ||
        estimate_train(&v->config, &v->estimate, &v->err))
        return;
    train_facts(v);
    if (v->limit_only)
        v->n_notices = 0;
    if (estimate_past_limit(&v->job, v->default_wall_clock_ms, v->estimate.seconds_total, text, sizeof text))
        notice(v, text);
}

static void answer(struct validate *v) {
    const struct estimate *e = &v->estimate;
    Brr__V1__ValidateResponse out = BRR__V1__VALIDATE_RESPONSE__INIT;
    out.kind = (char *)(uintptr_t)v->job.kind_name;
    out.notices = v->notices;
    out.n_notices = v->n_notices;
    out.device = v->device;
    out.memory_bytes = e->memory_bytes;
    out.memory_available_bytes = v->config.memory_limit_bytes;
    out.parameters = e->parameters;
    out.steps = e->steps;
    out.seconds_per_step = e->seconds_per_step;
    out.seconds_total = e->seconds_total;
    out.recordings = e->recordings;
    out.windows_per_epoch = e->windows_per_epoch;
    out.facts = v->facts;
    out.n_facts = v->n_facts;
    out.largest_micro_batch = e->largest_micro_batch;
    convert_answer(v->call, &out.base);
}

static void release(struct validate *v) {
    arena_done(&v->arena);
    free(v);
}

static void done(uv_work_t *request, int status) {
    struct validate *v = request->data;
    (void)status;
    if (v->call) {
        rpc_set_state(v->call, NULL);
        if (v->err.code)
            rpc_finish(v->call, v->err.code, &v->err);
        else
            answer(v);
    }
    release(v);
}

/* What Submit would say of the models that are named. */
static int resolve_named(struct validate *v, struct err *err) {
    struct services *s = services_of(v->call);
    struct named_model models[MAX_NAMED];
    char path[LIVE_PATH], label[LIVE_NAME];
    const struct source_store *store;
    const char *object;
    int n = named_models(&v->job, models), rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        const char *ref = models[i].ref;
        if (!ref)
            continue;
        rc = model_fetch_is_url(ref) ? model_fetch_locate(s->source.stores, s->source.n_stores, ref, &store, &object, err)
                                     : models_resolve(s->models, ref, path, label, err);
        if (rc && !model_fetch_is_url(ref))
            err_wrap(err, "%s", models[i].key);
        else if (!rc && ref == v->job.detect.model && !model_fetch_is_url(ref))
            str_copy(v->model_path, sizeof v->model_path, path);
    }
    return rc;
}

/* The job file and where its data are; data that is not at hand is a notice, not a failure. */
static int read_job(struct validate *v, const Brr__V1__JobFile *in, struct err *err) {
    struct services *s = services_of(v->call);
    struct device_info device;
    struct err why;
    const char *name = *in->name ? in->name : "job.yaml";
    int rc = jobfile_parse(in->yaml, name, (const char *const *)in->overrides, (int)in->n_overrides, &v->arena, &v->job, err);
    if (rc)
        return rc;
    if (!task_kind_find(v->job.kind_name))
        return err_set(err, ERR_UNSUPPORTED, "%s: kind '%s' is unsupported yet", name, v->job.kind_name);
    if ((rc = resolve_named(v, err)))
        return rc;
    v->source = s->source;
    jobfile_notices(&v->job, notice, v);
    worker_device(s->worker, &device);
    str_copy(v->device, sizeof v->device, device.name);
    v->config = (struct estimate_config){.job = &v->job,
                                         .device = v->device,
                                         .threads = device.threads,
                                         .memory_limit_bytes = worker_memory_limit(s->worker),
                                         .measure = true};
    if (v->job.kind == JOB_KIND_TRAIN && !device.has_bf16 && jobfile_precision(&v->job, &device) == DTYPE_BF16) {
        notice(v, "this device has no bf16 arithmetic, so the job would fail here; the figures are for training.precision fp32");
        v->job.training.precision = JOB_PRECISION_FP32;
    }
    v->default_wall_clock_ms = worker_default_wall_clock(s->worker);
    rc = places_source(&s->places, &v->job, v->data_root, sizeof v->data_root, &why);
    if (!rc && str_starts(v->data_root, "store://"))
        rc = err_set(&why, ERR_UNSUPPORTED, "%s is fetched when the job runs; its recordings are not counted here", v->data_root);
    if (!rc)
        v->config.data_root = v->data_root;
    else
        notice(v, why.message);
    if (!sched_idle(s->sched))
        notice(v, "a job runs now: the time of a step was measured beside it");
    return 0;
}

/* Whether it is worth the device's time to find out; beside a job that runs it is not, and its memory may be scarce. */
static bool limit_matters(const struct validate *v) {
    bool limited = v->job.limits.wall_clock_ms > 0 || v->default_wall_clock_ms > 0;
    return limited && v->job.kind == JOB_KIND_TRAIN && sched_idle(services_of(v->call)->sched);
}

static void validate(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__ValidateRequest *in = convert_unpack(call, &brr__v1__validate_request__descriptor, data, len);
    struct validate *v = in ? calloc(1, sizeof *v) : NULL;
    struct err err;
    if (!v)
        return;
    arena_init(&v->arena, 16u << 20);
    v->work.data = v;
    v->call = call;
    int rc = in->file ? read_job(v, in->file, &err) : err_set(&err, ERR_INVALID, "Validate without a job file");
    v->limit_only = in->limit_only;
    if (!rc && v->limit_only && !limit_matters(v)) {
        v->n_notices = 0;
        answer(v);
        release(v);
        return;
    }
    if (!rc && uv_queue_work(services_of(call)->loop, &v->work, work, done))
        rc = err_set(&err, ERR_EXHAUSTED, "cannot start a thread to look at the job");
    if (rc) {
        rpc_finish(call, rc, &err);
        release(v);
        return;
    }
    rpc_set_state(call, v);
}

static void end(struct rpc_call *call) {
    struct validate *v = rpc_state(call);
    if (!v)
        return;
    v->call = NULL;
    atomic_store(&v->stop, true);
}

const struct rpc_method svc_validate[] = {
    {"/brr.v1.Jobs/Validate", ROLE_SUBMIT, false, RPC_CONTROL_BYTES, validate, NULL, NULL, end},
};
const size_t svc_validate_count = sizeof svc_validate / sizeof *svc_validate;
