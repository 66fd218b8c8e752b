/* brr.v1.Jobs over the scheduler: translation only. */

#include "base/principal.h"
#include "base/queue.h"
#include "daemon/jobs/jobdb.h"
#include "daemon/jobs/jobref.h"
#include "daemon/jobs/removal.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

/* A Watch call: the job it follows. */
struct watch {
    struct rpc_call *call;
    char id[JOB_ID_SIZE];
    bool stale; /* the queue was full: send the newest state when there is room */
    struct watch *next;
};

static int no_memory(struct err *err) { return err_set(err, ERR_EXHAUSTED, "out of memory describing a job"); }

/* Why a job waits that has no other reason. */
static char *waits_for(struct arena *arena, const struct sched *sched, const struct job *job, int position) {
    const char *running = NULL;
    for (int i = 0; i < sched_open_count(sched); i++) {
        const struct job *other = sched_open_at(sched, i);
        if (job_is_active(other->state) && (!*job->wanted || !strcmp(job->wanted, other->on)))
            running = other->id;
    }
    const char *device = *job->wanted ? arena_printf(arena, "device %s", job->wanted) : "the device";
    char *text = position > 1
                     ? arena_printf(arena, "waits for %s; number %d in the queue%s%s", device, position, running ? ", behind " : "",
                                    running ? running : "")
                     : arena_printf(arena, "waits for %s%s%s", device, running ? ", which runs " : "", running ? running : "");
    return text ? text : (char *)(uintptr_t) "";
}

/* The jobs that share its device; false when the arena is full. */
static bool put_beside(struct arena *arena, const struct sched *sched, const struct job *job, Brr__V1__Job *m) {
    const struct job *other = sched_beside(sched, job, NULL);
    if (!other)
        return true;
    m->beside = arena_alloc(arena, TURNS_MAX * sizeof *m->beside);
    for (; m->beside && other; other = sched_beside(sched, job, other))
        m->beside[m->n_beside++] = (char *)(uintptr_t)other->id;
    return m->beside != NULL;
}

/* A pinned checkpoint is where its pin keeps it: its own file may be gone with the job's folder, as after a restore. */
static char *path_of_pin(struct arena *arena, const struct services *services, char *path) {
    struct jobdb_checkpoint c = {.kept = ""};
    bool found;
    const bool kept = *path && !jobdb_record_at(services->db, path, &c, &found, NULL) && *c.kept;
    return kept ? arena_strdup(arena, c.kept) : path;
}

static Brr__V1__Job *describe_job(struct arena *arena, const struct services *services, const struct job *job) {
    Brr__V1__Job *m = convert_job(arena, job, sched_position(services->sched, job));
    if (!m || job_is_active(job->state))
        return m;
    m->checkpoint = path_of_pin(arena, services, m->checkpoint);
    m->last_checkpoint = path_of_pin(arena, services, m->last_checkpoint);
    return m->checkpoint && m->last_checkpoint ? m : NULL;
}

static Brr__V1__Job *message_of(struct rpc_call *call, const struct job *job) {
    const struct sched *sched = services_of(call)->sched;
    const int position = sched_position(sched, job);
    Brr__V1__Job *m = describe_job(rpc_arena(call), services_of(call), job);
    if (m && !put_beside(rpc_arena(call), sched, job, m))
        return NULL;
    if (m && position && !*job->reason)
        m->reason = waits_for(rpc_arena(call), sched, job, position);
    return m;
}

struct notices {
    struct arena *arena;
    char *items[32];
    size_t n;
};

static void add_notice(void *ctx, const char *text) {
    struct notices *n = ctx;
    if (n->n < 32 && (n->items[n->n] = arena_strdup(n->arena, text)))
        n->n++;
}

/* The message of a job after its change was recorded; NULL without memory, or with an error of work when it is gone. */
static Brr__V1__Job *message_now(struct offload *work, const struct services *services, const char *id) {
    const struct job *job = sched_get(services->sched, id);
    if (!job)
        err_set(&work->err, ERR_NOT_FOUND, "job %s was deleted meanwhile", id);
    return job ? message_of(work->call, job) : NULL;
}

/* ---- Submit: the files that the job names are looked at on the pool ---- */

struct submitting {
    struct offload work;
    struct services *services;
    struct submission request;
    struct draft *draft;
    struct notices notices;
    char id[JOB_ID_SIZE];
};

static void drop_submitting(struct offload *work) { draft_free(((struct submitting *)work)->draft); }

static void place(struct offload *work) { draft_place(((struct submitting *)work)->draft, &work->err); }

static void discard(struct offload *work) { draft_discard(((struct submitting *)work)->draft); }

static void answer_submit(struct submitting *u) {
    Brr__V1__SubmitResponse out = BRR__V1__SUBMIT_RESPONSE__INIT;
    rpc_concerns(u->work.call, "job", u->id);
    out.job = message_now(&u->work, u->services, u->id);
    out.notices = u->notices.items;
    out.n_notices = u->notices.n;
    offload_answer(&u->work, out.job ? &out : NULL, "a job");
}

/* The job is recorded, or there is an error. */
static void submitted(struct offload *work) {
    struct submitting *u = (struct submitting *)work;
    if (work->err.code && *u->id)
        err_wrap(&work->err, "job %s was submitted, but is not recorded yet", u->id);
    if (offload_good(work))
        answer_submit(u);
    if (u->draft && u->draft->job)
        offload_start_must(work, discard, NULL);
}

/* A client that has left meanwhile has no job. */
static void placed(struct offload *work) {
    struct submitting *u = (struct submitting *)work;
    const struct job *job = NULL;
    u->notices.arena = work->arena;
    if (!work->call || work->err.code || sched_accept(u->services->sched, u->draft, add_notice, &u->notices, &job, &work->err)) {
        submitted(work);
        return;
    }
    str_copy(u->id, sizeof u->id, job->id);
    offload_recorded(work, u->services->sched, submitted);
}

/* On the pool: a large job file takes a while. */
static void parse(struct offload *work) {
    struct submitting *u = (struct submitting *)work;
    draft_parse(&u->request, clock_wall_ms(), &u->draft, &work->err);
}

static void parsed(struct offload *work) {
    struct submitting *u = (struct submitting *)work;
    const struct job *same = NULL;
    if (work->call)
        services_enter(u->services, rpc_caller(work->call));
    const bool admitted =
        work->call && !work->err.code &&
        !sched_admit(u->services->sched, u->draft, services_hides(work->call, u->draft->file.after), &same, &work->err);
    services_enter(u->services, NULL);
    if (!admitted) {
        offload_good(work);
        return;
    }
    str_copy(u->id, sizeof u->id, same ? same->id : "");
    if (same)
        offload_recorded(work, u->services->sched, submitted);
    else
        offload_start(work, place, placed);
}

static int submit(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__SubmitRequest *in = message;
    if (!in->file)
        return err_set(err, ERR_INVALID, "the Submit request has no job file");
    struct submitting *u = offload_new(call, OFFLOAD_SUBMIT, sizeof *u, drop_submitting, err);
    if (!u)
        return err->code;
    u->services = services_of(call);
    u->request = (struct submission){.yaml = in->file->yaml,
                                     .file = *in->file->name ? in->file->name : "job.yaml",
                                     .request_id = in->request_id,
                                     .owner = arena_strdup(u->work.arena, rpc_caller(call)->name),
                                     .overrides = (const char *const *)in->file->overrides,
                                     .n_overrides = (int)in->file->n_overrides};
    if (!u->request.owner)
        return no_memory(err);
    offload_start(&u->work, parse, parsed);
    return 0;
}

/* NULL after an error. */
static const struct job *find(struct rpc_call *call, const char *id, struct err *err) {
    const struct job *job = NULL;
    rpc_concerns(call, "job", id);
    if (!services_find_job(call, id, &job, err))
        rpc_concerns(call, "job", job->id);
    return job;
}

/* The job file with its overrides, as it would be submitted again. NULL when the arena is full. */
static Brr__V1__JobFile *file_of(struct arena *arena, const struct job *job) {
    Brr__V1__JobFile *m = arena_alloc(arena, sizeof *m);
    int n = 0;
    if (!m)
        return NULL;
    brr__v1__job_file__init(m);
    m->yaml = job->yaml;
    m->name = job->file;
    if (job_override_items(job->overrides, arena, &m->overrides, &n, NULL))
        return NULL;
    m->n_overrides = (size_t)n;
    return m;
}

static int get(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__GetJobRequest *in = message;
    const struct job *job = find(call, in->id, err);
    if (!job)
        return err->code;
    Brr__V1__Job *m = message_of(call, job);
    return m && (m->file = file_of(rpc_arena(call), job)) ? convert_answer(call, &m->base) : no_memory(err);
}

/* The states that the caller asks for, a bit for each; none are all. */
static uint32_t states_of(const Brr__V1__ListJobsRequest *in) {
    uint32_t mask = in->n_states ? 0 : UINT32_MAX;
    for (size_t i = 0; i < in->n_states; i++)
        if ((unsigned)in->states[i] < 32)
            mask |= 1u << in->states[i];
    return mask;
}

static int list(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ListJobsRequest *in = message;
    struct sched *sched = services_of(call)->sched;
    Brr__V1__ListJobsResponse out = BRR__V1__LIST_JOBS_RESPONSE__INIT;
    const uint32_t states = states_of(in);
    int limit = in->limit > 0 ? in->limit : 100, count = sched_count(sched);
    bool whole = (out.jobs = arena_alloc(rpc_arena(call), (size_t)(limit < count ? limit : count) * sizeof *out.jobs + 1)) != NULL;
    for (int i = count - 1; whole && i >= 0 && (int)out.n_jobs < limit; i--) /* newest first */
        if (states >> convert_job_state(sched_at(sched, i)->state) & 1 && services_sees_job(call, sched_at(sched, i)))
            whole = (out.jobs[out.n_jobs++] = message_of(call, sched_at(sched, i))) != NULL;
    out.price_per_hour = services_of(call)->price_per_hour;
    out.currency = (char *)(uintptr_t)services_of(call)->currency;
    if (whole)
        return convert_answer(call, &out.base);
    return err_set(err, ERR_EXHAUSTED,
                   "these jobs do not fit into one answer, the newest %zu would; ask for fewer with limit or states",
                   out.n_jobs ? out.n_jobs - 1 : 0);
}

/* Each update is packed from an arena of its own: a watch may last for days. */
static void send_update(struct watch *w, const struct job *job) {
    OWNED(arena_done) struct arena arena = arena_of(1u << 20);
    struct err err = {0};
    Brr__V1__JobUpdate out = BRR__V1__JOB_UPDATE__INIT;
    out.job = describe_job(&arena, services_of(w->call), job);
    out.final = job_is_over(job->state);
    if (out.job)
        w->stale = !convert_send(w->call, &out.base);
    else
        no_memory(&err); /* rather than an end without the last state */
    if (out.final || err.code)
        rpc_finish(w->call, &err);
}

static int watch(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__WatchJobRequest *in = message;
    const struct job *job = find(call, in->id, err);
    if (!job)
        return err->code;
    struct watch *w = calloc(1, sizeof *w);
    if (!w)
        return no_memory(err);
    struct services *services = services_of(call);
    w->call = call;
    str_copy(w->id, sizeof w->id, job->id);
    w->next = services->watches;
    services->watches = w;
    rpc_set_state(call, w);
    send_update(w, job);
    return 0;
}

static void watch_end(struct rpc_call *call) {
    struct services *services = services_of(call);
    struct watch *w = rpc_state(call);
    LIST_REMOVE(services->watches, w, next);
    free(w);
}

static void watch_writable(struct rpc_call *call) {
    struct watch *w = rpc_state(call);
    const struct job *job = w && w->stale ? sched_get(services_of(call)->sched, w->id) : NULL;
    if (job)
        send_update(w, job);
}

void svc_jobs_changed(struct services *services, const struct job *job) {
    for (struct watch *w = services->watches, *next; w; w = next) {
        next = w->next;
        if (strcmp(w->id, job->id))
            continue;
        if (w->stale && !job_is_over(job->state))
            continue; /* a slow client gets the newest state when it has read what waits */
        send_update(w, job);
    }
}

/* ---- Cancel, Resume, Delete: recorded before they are answered ---- */

_Static_assert((int)JOB_OWNER_SIZE >= (int)AUTH_NAME_SIZE, "an owner that is cut might be another's");

/* The job, for its owner and the role admin, and where an earlier version did not record the owner; else NULL and an error. */
static const struct job *find_own(struct rpc_call *call, const char *id, struct err *err) {
    const struct job *job = NULL;
    const struct auth_caller *caller = rpc_caller(call);
    rpc_concerns(call, "job", id);
    if (!jobref_find(services_of(call)->sched, id, &job, err))
        rpc_concerns(call, "job", job->id);
    if (!job || !*job->owner || caller->role >= ROLE_ADMIN || principal_is_same(job->owner, caller->name))
        return job;
    err_set(err, ERR_DENIED, "job %s is %s's; changing it needs the role admin", job->id,
            services_sees_job(call, job) ? job->owner : "another caller");
    rpc_refuse(call, err, "NOT_OWNER", 0);
    return NULL;
}

/* A call that is answered with its job once the change is recorded. */
struct changing {
    struct offload work;
    struct services *services;
    char id[JOB_ID_SIZE], note[80]; /* note: the reason at once; the job may have begun when the answer leaves */
};

static void changed(struct offload *work) {
    struct changing *c = (struct changing *)work;
    if (work->err.code)
        err_wrap(&work->err, "the change of job %s is not recorded yet", c->id);
    if (!offload_good(work))
        return;
    Brr__V1__Job *m = message_now(work, c->services, c->id);
    if (m && !*m->reason)
        m->reason = c->note;
    offload_answer(work, m, "a job");
}

/* NULL after an error. */
static struct changing *change(struct rpc_call *call, const char *id, struct err *err) {
    const struct job *job = find_own(call, id, err);
    struct changing *c = job ? offload_new(call, OFFLOAD_RECORD, sizeof *c, NULL, err) : NULL;
    if (!c)
        return NULL;
    c->services = services_of(call);
    str_copy(c->id, sizeof c->id, job->id);
    return c;
}

static int cancel_now(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__CancelJobRequest *in = message;
    const struct job *job = NULL;
    struct changing *c = change(call, in->id, err);
    if (!c || sched_cancel(c->services->sched, c->id, in->now ? STOP_CANCEL : STOP_SAVE_AND_CANCEL, &job, err))
        return err->code;
    offload_recorded(&c->work, c->services->sched, changed);
    return 0;
}

static int cancel(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__CancelJobRequest *in = message;
    rpc_concerns(call, "job", in->id);
    return offload_record(call, in, cancel_now, err);
}

static int resume_now(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ResumeJobRequest *in = message;
    const struct job *job = NULL;
    struct changing *c = change(call, in->id, err);
    if (!c || sched_resume(c->services->sched, c->id, (const char *const *)in->overrides, (int)in->n_overrides, &job, err))
        return err->code;
    str_copy(c->note, sizeof c->note, job->reason);
    struct sched *sched = c->services->sched; /* `c` may be gone after the answer */
    offload_recorded(&c->work, sched, changed);
    sched_turn(sched);
    return 0;
}

static int resume(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__ResumeJobRequest *in = message;
    rpc_concerns(call, "job", in->id);
    return offload_record(call, in, resume_now, err);
}

struct deleting {
    struct offload work;
    Brr__V1__Job *message; /* the job as it was, in the call's arena */
    const struct services *services;
    char id[JOB_ID_SIZE], folder[2048];
};

static struct removal removal_of(const struct services *s) {
    return (struct removal){.sched = s->sched, .db = s->db, .models = s->models};
}

static void remove_folder(struct offload *work) { removal_files(((struct deleting *)work)->folder, &work->err); }

static void folder_removed(struct offload *work) {
    const struct deleting *d = (struct deleting *)work;
    const struct removal removal = removal_of(d->services);
    if (!work->err.code)
        removal_end(&removal, d->id);
    offload_answer(work, d->message, "a job");
}

static void forgotten(struct offload *work) {
    if (work->err.code)
        offload_good(work);
    else
        offload_start_must(work, remove_folder, folder_removed);
}

/* The message does not borrow from the job, which goes. */
static Brr__V1__Job *keep_message(struct arena *arena, const struct job *job) {
    struct job *copy = arena_alloc(arena, sizeof *copy);
    if (!copy)
        return NULL;
    *copy = *job;
    copy->result = job->result ? arena_strdup(arena, job->result) : NULL;
    return job->result && !copy->result ? NULL : convert_job(arena, copy, 0);
}

static int delete_now(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__DeleteJobRequest *in = message;
    const struct services *s = services_of(call);
    const struct removal removal = removal_of(s);
    const struct job *job = find_own(call, in->id, err);
    if (!job)
        return err->code;
    if (strcmp(job->id, in->id) != 0)
        return err_set(err, ERR_INVALID, "deleting needs the whole id of a job: %s", job->id);
    struct deleting *d = offload_new(call, OFFLOAD_FILES, sizeof *d, NULL, err);
    if (!d)
        return err->code;
    d->services = s;
    str_copy(d->id, sizeof d->id, in->id);
    if (!(d->message = keep_message(rpc_arena(call), job)))
        return no_memory(err);
    int rc = removal_record(&removal, in->id, d->folder, err);
    if (rc)
        return rc;
    offload_recorded(&d->work, s->sched, forgotten);
    return 0;
}

static int delete_job(struct rpc_call *call, const void *message, struct err *err) {
    return offload_record(call, message, delete_now, err);
}

const struct rpc_method svc_jobs[] = {
    {RPC_METHOD("/brr.v1.Jobs/Submit", ROLE_SUBMIT, brr__v1__submit_request, submit), .end = offload_end},
    {RPC_METHOD("/brr.v1.Jobs/Get", ROLE_READ, brr__v1__get_job_request, get)},
    {RPC_METHOD("/brr.v1.Jobs/List", ROLE_READ, brr__v1__list_jobs_request, list),
     RPC_ROUTE("/api/v1/jobs", brr__v1__list_jobs_response)},
    {RPC_METHOD("/brr.v1.Jobs/Watch", ROLE_READ, brr__v1__watch_job_request, watch), .writable = watch_writable, .end = watch_end},
    {RPC_METHOD("/brr.v1.Jobs/Cancel", ROLE_SUBMIT, brr__v1__cancel_job_request, cancel), .end = offload_end},
    {RPC_METHOD("/brr.v1.Jobs/Delete", ROLE_SUBMIT, brr__v1__delete_job_request, delete_job), .end = offload_end},
    {RPC_METHOD("/brr.v1.Jobs/Resume", ROLE_SUBMIT, brr__v1__resume_job_request, resume), .end = offload_end},
    {.path = NULL},
};
