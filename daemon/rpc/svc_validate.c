/* brr.v1.Jobs/Validate: a job file read as Submit would, and what it would need. Headers, labels and the device's speed are looked
 * at on libuv's thread pool. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/str.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/models/model_lease.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/services.h"
#include "run/estimate.h"
#include "run/task.h"

enum { MAX_NOTICES = 40, MAX_FACTS = 24 };

/* A file that the job names, and where it is: a path, or an object that is held while it is looked at. */
struct named_file {
    struct jobfile_ref ref;
    char path[LIVE_PATH];
    struct model_lease lease;
};

struct validate {
    uv_work_t work;
    struct rpc_call *call; /* NULL once the client is gone */
    struct arena arena;    /* outlives the call */
    struct jobfile job;
    struct estimate_config config;
    struct estimate estimate;
    struct named_file named[JOBFILE_MAX_REFS];
    int n_named;
    struct estimate_file files[JOBFILE_MAX_REFS]; /* those at hand */
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

static void fact(void *ctx, const char *key, const char *value) {
    struct validate *v = ctx;
    Brr__V1__Pair *p = &v->pairs[v->n_facts];
    if (v->n_facts == MAX_FACTS)
        return;
    brr__v1__pair__init(p);
    p->key = arena_strdup(&v->arena, key);
    p->value = arena_strdup(&v->arena, value);
    if (p->key && p->value)
        v->facts[v->n_facts++] = p;
}

/* Fetches an object, unless it is in the cache. A store that does not answer now may do so when the job runs. */
static int lease_object(struct validate *v, struct named_file *f, struct err *err) {
    struct err why = {0};
    char text[800], line[1000];
    int rc = model_lease_take(&v->source, f->ref.value, &v->stop, &f->lease, &why);
    if (rc == ERR_UNAVAILABLE || (rc && why.room != ERR_ROOM_ENOUGH)) {
        str_format(line, sizeof line, "%s cannot be looked at now: %s", f->ref.key, err_text(&why, text, sizeof text));
        notice(v, line);
        return 0;
    }
    if (rc && err)
        *err = why;
    if (rc)
        return rc;
    str_copy(f->path, sizeof f->path, f->lease.path);
    estimate_fact(&v->config, f->ref.key, "%.200s, SHA-256 %s", f->ref.value, f->lease.sha256);
    return 0;
}

static void work(uv_work_t *request) {
    struct validate *v = request->data;
    const struct task_work *kind = task_work_of(v->job.kind);
    char text[400];
    int rc = 0;
    for (int i = 0; i < v->n_named && !rc && !v->limit_only; i++) {
        struct named_file *f = &v->named[i];
        if (!*f->path)
            rc = lease_object(v, f, &v->err);
        if (*f->path)
            v->files[v->config.n_files++] = (struct estimate_file){f->ref.key, f->ref.value, f->path};
    }
    if (!rc && kind->estimate)
        rc = kind->estimate(&v->config, &v->estimate, &v->err);
    for (int i = 0; i < v->n_named; i++)
        model_lease_drop(&v->named[i].lease);
    if (v->limit_only)
        v->n_notices = 0;
    if (!rc && estimate_past_limit(&v->job, v->default_wall_clock_ms, v->estimate.seconds_total, text, sizeof text))
        notice(v, text);
}

static void answer(struct validate *v) {
    const struct estimate *e = &v->estimate;
    Brr__V1__ValidateResponse out = BRR__V1__VALIDATE_RESPONSE__INIT;
    out.kind = (char *)(uintptr_t)v->job.kind->name;
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

/* What Submit would say of the files that are named. */
static int resolve_named(struct validate *v, struct err *err) {
    struct jobfile_ref refs[JOBFILE_MAX_REFS];
    int rc = 0;
    v->n_named = jobfile_refs(&v->job, refs);
    for (int i = 0; i < v->n_named && !rc; i++) {
        v->named[i].ref = refs[i];
        rc = submission_resolve(&services_of(v->call)->rules, &refs[i], v->named[i].path, err);
    }
    return rc;
}

/* Where the recordings are; that they are not at hand is a notice, not a failure. */
static void find_data(struct validate *v) {
    struct err why;
    if (!v->job.data)
        return;
    int rc = places_source(&services_of(v->call)->places, &v->job, v->data_root, sizeof v->data_root, &why);
    if (!rc && str_starts(v->data_root, "store://"))
        rc = err_set(&why, ERR_UNSUPPORTED, "%s is fetched when the job runs; its recordings are not counted here", v->data_root);
    if (rc)
        notice(v, why.message);
    else
        v->config.data_root = v->data_root;
}

static int read_job(struct validate *v, const Brr__V1__JobFile *in, struct err *err) {
    struct services *s = services_of(v->call);
    struct device_info device;
    const char *name = *in->name ? in->name : "job.yaml";
    int rc = jobfile_parse(in->yaml, name, (const char *const *)in->overrides, (int)in->n_overrides, &v->arena, &v->job, err);
    if (rc || (rc = resolve_named(v, err)))
        return rc;
    v->source = s->source;
    jobfile_notices(&v->job, notice, v);
    worker_device(s->worker, &device);
    str_copy(v->device, sizeof v->device, device.name);
    v->config = (struct estimate_config){.job = &v->job,
                                         .device = v->device,
                                         .threads = device.threads,
                                         .memory_limit_bytes = worker_memory_limit(s->worker),
                                         .measure = true,
                                         .files = v->files,
                                         .ctx = v,
                                         .fact = fact,
                                         .notice = notice};
    v->default_wall_clock_ms = worker_default_wall_clock(s->worker);
    find_data(v);
    if (task_work_of(v->job.kind)->estimates_time && !sched_idle(s->sched))
        notice(v, "a job runs now: the time of a step was measured beside it");
    return 0;
}

/* Whether it is worth the device's time to find out; beside a job that runs it is not, and its memory may be scarce. */
static bool limit_matters(const struct validate *v) {
    bool limited = v->job.limits.wall_clock_ms > 0 || v->default_wall_clock_ms > 0;
    return limited && task_work_of(v->job.kind)->estimates_time && sched_idle(services_of(v->call)->sched);
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
