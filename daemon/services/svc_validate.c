/* brr.v1.Jobs/Validate: a job file read as Submit would, and what it would need. Files, headers, labels and the device's speed are
 * looked at on libuv's thread pool, for one call at a time, so that the pool stays free for others; the calls after it wait in a
 * line, of which one caller has at most half, and in which callers take turns. Each call ends limits.validate after it lined up,
 * also behind work that hangs. A job that starts ends the measurement of the device. */

#include "base/queue.h"
#include "brr/v1/jobs.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"
#include "work/estimate.h"
#include "work/job_source.h"
#include "work/task.h"

enum { MAX_NOTICES = 40, MAX_FACTS = 24, MAX_PATIENTS = 4096, MAX_LINE = 16, MAX_OWN = MAX_LINE / 2, RETRY_MS = 5000 };
static const char scheme[] = "store://";

struct validate {
    struct offload work;
    struct validate *next; /* in the line; the first one works */
    char owner[JOB_OWNER_SIZE];
    int64_t since_ms; /* clock_ms when it lined up */
    struct services *services;
    struct arena arena; /* outlives the call */
    struct jobfile job;
    struct estimate_config config;
    struct estimate estimate;
    struct submission_refs refs;
    struct model_file leases[JOBFILE_MAX_REFS];   /* of refs that are objects, while they are looked at */
    struct estimate_file files[JOBFILE_MAX_REFS]; /* those at hand */
    int64_t default_wall_clock_ms;
    bool limit_only;     /* the limit alone is asked about */
    bool read_stores;    /* recordings in stores count */
    const char *refusal; /* for which `brrctl submit` does not queue it either; NULL: none */
    atomic_bool measure; /* no job runs */
    char device[32];
    struct source_config source;
    struct task_env env;    /* where the recordings of stores are while they are looked at */
    struct source *fetched; /* keeps them there; NULL: none */
    char *notices[MAX_NOTICES];
    size_t n_notices;
    Brr__V1__Pair pairs[MAX_FACTS], *facts[MAX_FACTS];
    size_t n_facts;
    char *patients[MAX_PATIENTS];
    size_t n_patients;
    struct err err;
};

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

static void patient(void *ctx, const char *name) {
    struct validate *v = ctx;
    for (size_t i = 0; i < v->n_patients; i++)
        if (!strcmp(v->patients[i], name))
            return;
    if (v->n_patients < MAX_PATIENTS && (v->patients[v->n_patients] = arena_strdup(&v->arena, name)))
        v->n_patients++;
}

/* Fetches an object, unless it is in the cache. A store that does not answer now may do so when the job runs. */
static int lease_object(struct validate *v, int i, struct err *err) {
    const struct jobfile_ref *ref = &v->refs.at[i].ref;
    struct model_file *lease = &v->leases[i];
    struct err why = {0};
    char text[800], line[1000];
    int rc = model_file_lease(&v->source, ref->value, &v->work.gone, lease, &why);
    if (rc == ERR_UNAVAILABLE || (rc && why.room != ERR_ROOM_ENOUGH)) {
        str_format(line, sizeof line, "%s cannot be looked at now: %s", ref->key, err_text(&why, text, sizeof text));
        notice(v, line);
        return 0;
    }
    if (rc && err)
        *err = why;
    if (rc)
        return rc;
    str_copy(v->refs.at[i].path, sizeof v->refs.at[i].path, lease->path);
    estimate_fact(&v->config, ref->key, "%.200s, SHA-256 %s", ref->value, lease->sha256);
    return 0;
}

/* Fetches what a job's beginning would: labels, and the first bytes of recordings. */
static int fetch_data(struct validate *v, struct err *err) {
    v->env = (struct task_env){.data_root = v->refs.data_root, .cache_dir = v->config.cache_dir, .stop = &v->work.gone};
    int rc = source_open(&v->source, &v->job, &v->env, &v->fetched, err);
    COPY_MEMBERS(v->config, v->env, data_root, mirror);
    return rc;
}

/* Recordings in a bucket are read where the caller asks for it; else a notice says that they are not. */
static int find_data(struct validate *v, struct err *err) {
    char line[4200];
    const char *root = v->refs.data_root;
    int rc = job_source_place(&v->job, root, &v->arena, err);
    for (int i = 0; v->job.data && i < v->job.data->n_sources && !(i && str_starts(root, scheme)); i++)
        root = v->job.data->sources[i].root;
    if (rc)
        return rc;
    if (!str_starts(root, scheme))
        v->config.data_root = *root ? root : NULL;
    else if (v->read_stores)
        return fetch_data(v, err);
    else if (str_format(line, sizeof line, "%s is fetched when the job runs; its recordings are not counted here", root))
        notice(v, line);
    return 0;
}

/* Finds the files of the job and estimates it. */
static int measure(struct validate *v, struct err *err) {
    const struct task_work *kind = task_work_of(v->job.kind);
    int rc = submission_look(&v->refs, &v->job, err);
    if (rc)
        return rc;
    if ((rc = find_data(v, err)))
        return rc;
    for (int i = 0; i < v->refs.n && !v->limit_only; i++) {
        const struct jobfile_ref *ref = &v->refs.at[i].ref;
        rc = *v->refs.at[i].path ? 0 : lease_object(v, i, err);
        if (*v->refs.at[i].path)
            v->files[v->config.n_files++] = (struct estimate_file){ref->key, ref->value, v->refs.at[i].path};
        if (rc)
            return rc;
    }
    return kind->estimate ? kind->estimate(&v->config, &v->estimate, err) : 0;
}

static struct estimate_cost cost_of(const struct validate *v) {
    return (struct estimate_cost){.seconds = v->estimate.seconds_total,
                                  .per_hour = v->services->price_per_hour,
                                  .budget = v->job.limits.cost,
                                  .currency = v->services->currency,
                                  .steps = v->estimate.steps,
                                  .jobs = 1};
}

static void look_apart(struct offload *work) {
    struct validate *v = (struct validate *)work;
    char text[400];
    int rc = measure(v, &v->work.err);
    source_close(v->fetched);
    for (int i = 0; i < v->refs.n; i++)
        model_file_release(&v->leases[i]);
    if (!atomic_load(&v->measure))
        v->estimate.seconds_per_step = v->estimate.seconds_total = 0;
    if (v->limit_only)
        v->n_notices = 0;
    const struct estimate_cost cost = cost_of(v);
    if (rc == 0)
        v->refusal = (rc = estimate_check_budget(&v->job, &cost, &v->work.err)) ? "OVER_BUDGET" : NULL;
    else if (rc == ERR_PRECONDITION && v->estimate.windows_per_epoch && !v->estimate.steps)
        v->refusal = "EPOCH_TOO_SMALL";
    if (rc == 0 && estimate_past_limit(&v->job, v->default_wall_clock_ms, v->estimate.seconds_total, text, sizeof text))
        notice(v, text);
}

static void look(struct offload *work) { offload_compute(work, look_apart); }

static void answer(struct validate *v) {
    const struct estimate *e = &v->estimate;
    Brr__V1__ValidateResponse out = BRR__V1__VALIDATE_RESPONSE__INIT;
    out.kind = (char *)(uintptr_t)v->job.kind->name;
    COPY_MEMBERS(out, *v, notices, n_notices, device);
    out.memory_bytes = e->memory_bytes;
    out.memory_available_bytes = v->config.memory_limit_bytes;
    COPY_MEMBERS(out, *e, parameters, steps, seconds_per_step, seconds_total, recordings, windows_per_epoch);
    COPY_MEMBERS(out, *v, facts, n_facts, patients, n_patients);
    out.largest_micro_batch = e->largest_micro_batch;
    out.price_per_hour = v->services->price_per_hour;
    out.budget = v->job.limits.cost;
    out.currency = (char *)(uintptr_t)v->services->currency;
    convert_answer(v->work.call, &out.base);
}

static void done(struct offload *work);

static void begin(struct validate *v) {
    atomic_store(&v->measure, sched_idle(v->services->sched));
    offload_start(&v->work, look, done);
}

void svc_validate_yield(struct services *services) {
    if (services->validates)
        atomic_store(&services->validates->measure, false);
}

void svc_validate_tick(struct services *services) {
    const int64_t now_ms = clock_ms();
    struct err err;
    err_set(&err, ERR_UNAVAILABLE,
            "the files of this job could not be looked at within %lld s (limits.validate); submit it without",
            (long long)services->validate_ms / 1000);
    for (struct validate *v = services->validates; v && services->validate_ms; v = v->next)
        if (v->work.call && now_ms - v->since_ms >= services->validate_ms)
            rpc_finish(v->work.call, &err); /* its end comes with a later event: the line stays */
}

/* Out of the line; the next one begins, of another caller if one waits. */
static void leave(struct validate *v) {
    struct validate **line = &v->services->validates, *next = v->next;
    const bool first = *line == v;
    LIST_REMOVE(*line, v, next);
    while (next && !strcmp(next->owner, v->owner))
        next = next->next;
    if (!first || !*line)
        return;
    if (next) {
        LIST_REMOVE(*line, next, next);
        next->next = *line;
        *line = next;
    }
    begin(*line);
}

static void drop(struct offload *work) {
    struct validate *v = (struct validate *)work;
    leave(v);
    arena_done(&v->arena);
}

static void done(struct offload *work) {
    struct validate *v = (struct validate *)work;
    leave(v);
    if (!v->limit_only && !atomic_load(&v->measure) && task_work_of(v->job.kind)->estimates_time &&
        v->estimate.seconds_per_step <= 0)
        notice(v, "a job runs now: the time of a step is not measured beside it");
    if (v->refusal && work->call)
        rpc_refuse(work->call, &work->err, v->refusal, 0);
    else if (offload_good(work))
        answer(v);
}

/* To the end of the line, unless it is too long. */
static int line_up(struct validate *v, struct err *err) {
    struct validate **end = &v->services->validates;
    int n = 0, own = 0;
    str_copy(v->owner, sizeof v->owner, rpc_caller(v->work.call)->name);
    for (; *end; end = &(*end)->next, n++)
        own += !strcmp((*end)->owner, v->owner);
    if (n == MAX_LINE || own == MAX_OWN)
        return err_set(err, ERR_EXHAUSTED, "%d job files%s are being looked at already; try again later", n == MAX_LINE ? n : own,
                       n == MAX_LINE ? "" : " of yours");
    v->since_ms = clock_ms();
    *end = v;
    if (!n)
        begin(v);
    return 0;
}

/* The device that the job names, else a free one, else the first. */
static int device_for(const struct services *s, const struct jobfile *job) {
    int device = DEVICE_ANY;
    device_set_find(s->devices, job->device ? job->device : "", &device, NULL);
    for (int i = 0; device == DEVICE_ANY && i < device_set_count(s->devices); i++)
        if (!sched_jobs_on(s->sched, i) && !device_watch_fault(s->device_watches[i]))
            device = i;
    return device == DEVICE_ANY ? 0 : device;
}

static int read_job(struct validate *v, const Brr__V1__JobFile *in, struct err *err) {
    struct services *s = services_of(v->work.call);
    struct device_info device;
    const char *name = *in->name ? in->name : "job.yaml";
    int rc;
    if ((rc = jobfile_parse(in->yaml, name, (const char *const *)in->overrides, (int)in->n_overrides, &v->arena, &v->job, err)) ||
        (rc = submission_refer(&s->rules, &v->job, &v->refs, err)) ||
        (rc = sched_check_after(s->sched, v->job.after, services_hides(v->work.call, v->job.after), err)))
        return rc;
    v->source = s->source;
    jobfile_notices(&v->job, notice, v);
    struct device_hosts *hosts = device_set_at(s->devices, device_for(s, &v->job));
    device_hosts_describe(hosts, &device);
    str_copy(v->device, sizeof v->device, device.name);
    v->config = (struct estimate_config){.job = &v->job,
                                         SAME_MEMBERS(*v, device, files),
                                         .threads = device.threads,
                                         .cache_dir = s->paths[1],
                                         .memory_limit_bytes = device_hosts_memory_limit(hosts),
                                         .measure = &v->measure,
                                         .stop = &v->work.gone,
                                         .ctx = v,
                                         .fact = fact,
                                         .patient = patient,
                                         .notice = notice};
    v->default_wall_clock_ms = worker_default_wall_clock(s->jobs.workers[0]);
    return 0;
}

/* True if it is worth the device's time to find out; beside a job that runs it is not, and its memory may be scarce. */
static bool limit_matters(const struct validate *v) {
    bool limited = v->job.limits.wall_clock_ms > 0 || v->default_wall_clock_ms > 0 || v->job.limits.cost > 0;
    return limited && task_work_of(v->job.kind)->estimates_time && sched_idle(services_of(v->work.call)->sched);
}

static int validate(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ValidateRequest *in = message;
    struct validate *v = offload_new(call, OFFLOAD_VALIDATE, sizeof *v, drop, err);
    if (!v)
        return err->code;
    arena_init(&v->arena, 16u << 20);
    v->services = services_of(call);
    int rc = in->file ? read_job(v, in->file, err) : err_set(err, ERR_INVALID, "the Validate request has no job file");
    if (rc)
        return rc;
    COPY_MEMBERS(*v, *in, limit_only, read_stores);
    if (v->limit_only && !limit_matters(v)) {
        v->n_notices = 0;
        if (v->job.limits.cost > 0 && task_work_of(v->job.kind)->estimates_time)
            notice(v, "limits.cost is not checked: a job runs now");
        answer(v);
    } else if (line_up(v, err)) {
        return rpc_refuse(call, err, "OVERLOADED", RETRY_MS);
    }
    return 0;
}

const struct rpc_method svc_validate[] = {
    {RPC_METHOD("/brr.v1.Jobs/Validate", ROLE_SUBMIT, brr__v1__validate_request, validate), .end = offload_end},
    {.path = NULL},
};
