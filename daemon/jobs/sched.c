#include "daemon/jobs/sched.h"

#include "base/log.h"
#include "base/map.h"
#include "base/principal.h"
#include "base/volume.h"
#include "daemon/jobs/array.h"
#include "daemon/jobs/sched_parts.h"

static int add(struct sched *s, struct job *job, struct err *err) {
    if (s->count == s->capacity) {
        int capacity = s->capacity ? 2 * s->capacity : 64;
        struct job **jobs = realloc(s->jobs, (size_t)capacity * sizeof *jobs);
        s->jobs = jobs ? jobs : s->jobs;
        struct job **open = jobs ? realloc(s->open, (size_t)capacity * sizeof *open) : NULL;
        if (!open)
            return err_set(err, ERR_EXHAUSTED, "out of memory for jobs");
        s->open = open;
        s->capacity = capacity;
    }
    if (map_put(s->by_id, job->id, job, NULL))
        return err_set(err, ERR_EXHAUSTED, "out of memory for jobs");
    s->jobs[s->count++] = job;
    sched_list_open(s, job);
    return 0;
}

static int load_one(void *ctx, struct job *job, struct err *err) {
    int rc = add(ctx, job, err);
    if (!job_is_over(job->state))
        sched_read_demands(job);
    if (rc)
        job_free(job);
    return rc;
}

/* The newest ended jobs say on which recordings they worked. */
static void read_ended(struct sched *s) {
    for (int i = s->count - 1, n = 0; i >= 0 && n < SCHED_ENDED_READ; i--)
        if (job_is_over(s->jobs[i]->state) && ++n)
            sched_read_demands(s->jobs[i]);
}

static int load(struct sched *s, struct err *err) {
    int64_t left = 0, next = 0;
    int rc;
    if ((rc = jobdb_setup(s->config.db, err)) || (rc = jobdb_load(s->config.db, s->config.max_jobs, load_one, s, &left, err)) ||
        (rc = jobdb_sequence(s->config.db, &next, err)))
        return rc;
    atomic_store(&s->next_sequence, next);
    read_ended(s);
    if (left)
        log_warn("the oldest ended jobs are not listed", "jobs=%lld fix=\"set jobs.keep_finished, so that old jobs are forgotten\"",
                 (long long)left);
    return 0;
}

static void on_forgotten(void *ctx, const char (*ids)[JOB_ID_SIZE], int n, int rc);
static struct job *find_job(void *ctx, const char *id) { return map_get(((struct sched *)ctx)->by_id, id); }

int sched_open(const struct sched_config *config, struct sched **ret, struct err *err) {
    struct sched *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the scheduler");
    s->config = *config;
    s->slots = (struct slots){.n = config->n_places ? config->n_places : 1, .room = config->room, .ctx = config->worker};
    for (int i = 0; i < s->slots.n; i++) {
        COPY_MEMBERS(s->slots.at[i], config->places[i], name, description, remote, for_cancel);
        s->slots.at[i].device = config->places[i].further ? config->places[i].device : i;
    }
    if (!config->max_jobs)
        s->config.max_jobs = SCHED_MAX_JOBS;
    s->by_id = map_new((size_t)s->config.max_jobs);
    int rc =
        s->by_id ? volume_open(config->cache_dir, &s->cache, err) : err_set(err, ERR_EXHAUSTED, "out of memory for the scheduler");
    const struct ledger_config ledger = {SAME_MEMBERS(*config, db, lost, wake, wake_ctx), .find = find_job,
                                         .started = sched_started, .forgotten = on_forgotten, .ctx = s};
    if (rc || (rc = load(s, err)) || (rc = ledger_open(&s->ledger, &ledger, err))) {
        sched_close(s);
        return rc;
    }
    sched_recover(s);
    *ret = s;
    return 0;
}

void sched_close(struct sched *s) {
    if (!s)
        return;
    s->draining = true;
    if (s->ledger.writer && !s->ledger.broken)
        ledger_retry(&s->ledger, s->jobs, s->count); /* what could not be written before */
    ledger_close(&s->ledger);
    for (int i = 0; i < s->count; i++)
        job_free(s->jobs[i]);
    FREE_MEMBERS(*s, jobs, open);
    map_free(s->by_id, NULL);
    volume_close(s->cache);
    free(s);
}

void sched_await(struct sched *s, struct db_wait *wait, void (*over)(struct db_wait *wait, int rc, const struct err *err)) {
    db_writer_await(s->ledger.writer, wait, over);
}

struct db_writer *sched_writer(const struct sched *s) {
    return s->ledger.writer;
}
const struct job *sched_get(const struct sched *s, const char *id) { return map_get(s->by_id, id); }
int sched_count(const struct sched *s) { return s->count; }
const struct job *sched_at(const struct sched *s, int index) { return s->jobs[index]; }
int sched_open_count(const struct sched *s) { return s->n_open; }
const struct job *sched_open_at(const struct sched *s, int index) { return s->open[index]; }
const struct job *sched_on(const struct sched *s, int place) { return s->slots.at[place].job; }
int sched_jobs_on(const struct sched *s, int device) { return slots_jobs(&s->slots, device); }

const struct job *sched_beside(const struct sched *s, const struct job *job, const struct job *after) {
    const struct slot *own = slots_of((struct slots *)(uintptr_t)&s->slots, job);
    bool come = !after;
    for (int i = 0; own && i < s->slots.n; i++) {
        const struct slot *slot = &s->slots.at[i];
        if (come && slot->job && slot->job != job && slot->device == own->device)
            return slot->job;
        come |= after && slot->job == after;
    }
    return NULL;
}

int sched_array(const struct sched *s, const struct job *job, const struct job *ret[JOBFILE_MAX_ARRAY],
                const struct job **ret_head) {
    *ret_head = job->array.size ? map_get(s->by_id, job->array.head) : NULL;
    return *ret_head && !strcmp((*ret_head)->owner, job->owner) ? array_members(s->open, s->n_open, job, ret) : 0;
}

bool sched_idle(const struct sched *s) { return slots_idle(&s->slots); }
bool sched_writable(const struct sched *s) { return !s->ledger.broken; }

int sched_position(const struct sched *s, const struct job *job) {
    int position = 1;
    if (job->state != JOB_QUEUED)
        return 0;
    for (int i = 0; i < s->n_open; i++)
        position += s->open[i]->state == JOB_QUEUED && s->open[i] != job && job_precedes(s->open[i], job);
    return position;
}

struct volume *sched_cache(const struct sched *s) {
    return s->cache;
}

int sched_paused(const struct sched *s) {
    int n = 0;
    for (int i = 0; i < s->n_open; i++)
        n += s->open[i]->paused_ms != 0;
    return n;
}

/* ---- what clients ask ---- */

/* On success the job is in the database; on failure only its directory is left. */
static int enter(struct sched *s, struct job *job, struct err *err) {
    int rc = add(s, job, err);
    if (rc)
        return rc;
    if ((rc = ledger_insert(&s->ledger, job, s->next_sequence, err))) {
        map_remove(s->by_id, job->id);
        s->count--;
        s->n_open--;
    }
    return rc;
}

static const struct job *find_request(const struct sched *s, const char *request_id, const char *owner) {
    for (int i = 0; *request_id && i < s->count; i++)
        if (!strcmp(s->jobs[i]->request_id, request_id) && !strcmp(s->jobs[i]->owner, owner ? owner : ""))
            return s->jobs[i];
    return NULL;
}

/* The job that the same request has made. An error: it could not be recorded, and is lost if the daemon ends now. */
static int find_same(const struct sched *s, const struct job *asked, const struct job **ret, struct err *err) {
    *ret = find_request(s, asked->request_id, asked->owner);
    if (!*ret || !(*ret)->unsaved)
        return 0;
    return err_set(err, s->ledger.why.code, "job %s was submitted, but is not recorded yet: %s", (*ret)->id, s->ledger.why.message);
}

static int check_room(const struct sched *s, const char *owner, struct err *err) {
    const int64_t most = principal_share(s->config.max_queued, s->config.rules.shared);
    int queued = 0, own = 0;
    for (int i = 0; i < s->n_open; i++) {
        queued += s->open[i]->state == JOB_QUEUED;
        own += s->open[i]->state == JOB_QUEUED && owner && *owner && principal_is_same(s->open[i]->owner, owner);
    }
    if (own >= most && most < s->config.max_queued)
        return err_set(
            err, ERR_EXHAUSTED,
            "%d jobs of this caller are already waiting; one caller may have %lld of jobs.max_queued (%lld); try again later", own,
            (long long)most, (long long)s->config.max_queued);
    if (queued >= s->config.max_queued)
        return err_set(err, ERR_EXHAUSTED, "%d jobs are already waiting (jobs.max_queued); try again later", queued);
    if (s->count >= s->config.max_jobs)
        return err_set(err, ERR_EXHAUSTED,
                       "the daemon already keeps %d jobs, the maximum; set jobs.keep_finished so that old jobs are forgotten",
                       s->count);
    return 0;
}

int sched_check_after(const struct sched *s, const char *id, bool hidden, struct err *err) {
    const struct job *first = id ? map_get(s->by_id, id) : NULL;
    if (id && (!first || first->leaving || hidden))
        return err_set(err, ERR_NOT_FOUND, "after: there is no job '%.60s'; `brrctl jobs` lists them", id);
    if (first && (first->state == JOB_FAILED || first->state == JOB_CANCELLED))
        return err_set(err, ERR_PRECONDITION, "after: job %s has the state %s; resume it, or wait for another one", id,
                       job_state_name(first->state));
    return 0;
}

/* What this caller's jobs keep of models. */
static int64_t kept_by(const struct sched *s, const char *owner) {
    int64_t bytes = 0;
    for (int i = 0; i < s->count; i++)
        bytes += principal_is_same(s->jobs[i]->owner, owner) ? s->jobs[i]->kept_bytes : 0;
    return bytes;
}

int sched_admit(struct sched *s, struct draft *d, bool hidden, const struct job **ret_same, struct err *err) {
    int rc = find_same(s, d->job, ret_same, err);
    if (rc || *ret_same)
        return rc;
    if ((rc = check_room(s, d->job->owner, err)) || (rc = draft_refer(&s->config.rules, d, err)) ||
        (rc = sched_check_after(s, d->file.after, hidden, err)))
        return rc;
    d->next = &s->next_sequence;
    return 0;
}

int sched_accept(struct sched *s, struct draft *d, void (*notice)(void *ctx, const char *text), void *ctx, const struct job **ret,
                 struct err *err) {
    struct job *job = d->job;
    const struct job *same;
    int rc = find_same(s, job, &same, err);
    if (rc || same) {
        *ret = same;
        return rc;
    }
    if ((rc = check_room(s, job->owner, err)) || (rc = draft_check_kept(d, kept_by(s, job->owner), err)) ||
        (rc = enter(s, job, err)))
        return rc;
    d->job = NULL;
    if (notice)
        jobfile_notices(&d->file, notice, ctx);
    sched_take_demands(job, &d->file);
    array_entered(s->open, s->n_open, job, sched_wall_ms(s));
    const char *held = slots_held_for(&s->slots, job);
    if (notice && *held)
        notice(ctx, held);
    log_info("job submitted", "job=%s kind=%s", job->id, job->kind);
    sched_tell(s, job);
    str_copy(job->reason, sizeof job->reason, held); /* set after the "new job" event, which must not carry it */
    *ret = job;
    return 0;
}

static int find(struct sched *s, const char *id, struct job **ret, struct err *err) {
    *ret = map_get(s->by_id, id);
    return *ret ? 0 : err_set(err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", id);
}

/* True if a cluster may have the queued job: an attempt at it then cancels it there. */
static bool is_elsewhere(const struct sched *s, const struct job *job) {
    return job->remote && (job->attempts || job->array.size) && !*slots_held_for(&s->slots, job);
}

/* Makes a requested change of state; on failure nothing has changed. */
static int move_asked(struct sched *s, struct job *job, enum job_state to, const char *reason, struct err *err) {
    const struct job before = *job;
    const char *held = to == JOB_QUEUED ? slots_held_for(&s->slots, job) : "";
    int rc;
    if ((rc = job_move(job, to, *held ? held : reason, sched_wall_ms(s), err)) ||
        (rc = ledger_commit(&s->ledger, job, &before, err)))
        return rc;
    sched_list_open(s, job);
    sched_announce(s, job);
    return 0;
}

static int cancel_running(struct sched *s, struct job *job, enum stop_reason how, struct err *err) {
    const struct job before = *job;
    job->wish = JOB_WISH_CANCEL;
    if (job->state == JOB_QUEUED)
        str_copy(job->reason, sizeof job->reason, SCHED_CANCELLED_ELSEWHERE);
    int rc = ledger_commit(&s->ledger, job, &before, err);
    if (rc)
        return rc;
    sched_interrupt(s, job, how);
    sched_tell(s, job);
    return 0;
}

int sched_cancel(struct sched *s, const char *id, enum stop_reason how, const struct job **ret, struct err *err) {
    struct job *job = NULL;
    int rc = find(s, id, &job, err);
    if (rc)
        return rc;
    if (job_is_over(job->state))
        return err_set(err, ERR_PRECONDITION, "job %s has ended already: %s", id, job_state_name(job->state));
    if ((rc = slots_of(&s->slots, job) || is_elsewhere(s, job) ? cancel_running(s, job, how, err)
                                                               : move_asked(s, job, JOB_CANCELLED, "cancelled", err)))
        return rc;
    *ret = job;
    return 0;
}

/* The end of a wait replaces the override of after, or adds one, which has to fit. */
static int check_wait_end(const char *overrides, struct arena *arena, struct err *err) {
    const char *none = "after=null";
    OWNED_MEMORY char *ended = job_overrides(overrides, &none, 1);
    char **items = NULL;
    int n = 0, rc;
    if (!ended)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    if ((rc = job_override_items(ended, arena, &items, &n, err)) || n <= JOBFILE_MAX_OVERRIDES)
        return rc;
    return err_set(err, ERR_INVALID,
                   "%d overrides (--set) of a job that waits; at most %d are accepted, "
                   "as the end of the wait takes one",
                   n - 1, JOBFILE_MAX_OVERRIDES - 1);
}

/* Joins the job's overrides with limits.* and after=null; the job file must be valid with all of them. */
static int join_limits(const struct job *job, const char *const *overrides, int n, char **ret, struct err *err) {
    struct arena arena = arena_of(SCHED_JOB_FILE_BYTES);
    struct jobfile file;
    for (int i = 0; i < n; i++)
        if (!str_starts(overrides[i], "limits.") && strcmp(overrides[i], "after=null") != 0)
            return err_set(err, ERR_INVALID, "%s: only limits.* may change on resume, and after to null", overrides[i]);
    char *joined = job_overrides(job->overrides, overrides, n);
    if (!joined)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    int rc = job_parse(job->yaml, job->file, joined, &arena, &file, err);
    rc = rc || !file.after ? rc : check_wait_end(joined, &arena, err);
    arena_done(&arena);
    return GIVEN(ret, joined, free, rc);
}

int sched_resume(struct sched *s, const char *id, const char *const *overrides, int n, const struct job **ret, struct err *err) {
    struct job *job = NULL;
    int rc = find(s, id, &job, err);
    if (rc)
        return rc;
    if (job->leaving)
        return err_set(err, ERR_PRECONDITION, "job %s is being removed", id);
    if (!job_may_resume(job->state))
        return err_set(err, ERR_PRECONDITION, "job %s has the state %s; only interrupted, failed and cancelled jobs resume", id,
                       job_state_name(job->state));
    const struct job before = *job;
    char *joined = NULL;
    if ((rc = join_limits(job, overrides, n, &joined, err)))
        return rc;
    job->overrides = joined;
    sched_read_demands(job);
    if ((rc = sched_check_after(s, *job->after ? job->after : NULL, false, err))) {
        *job = before;
        free(joined);
        return rc;
    }
    job->restarts = job->crashes = job->stalled = job->isolated = 0;
    char reason[80] = "resumes from the beginning: it has no checkpoint";
    if (*job->after)
        str_format(reason, sizeof reason, "waits for %s", job->after);
    else if (*job->last)
        str_format(reason, sizeof reason, "resumes at step %lld", (long long)job->saved_step);
    if ((rc = move_asked(s, job, JOB_QUEUED, reason, err))) {
        *job = before;
        free(joined);
        return rc;
    }
    free(before.overrides);
    *ret = job;
    return 0;
}

/* ---- jobs that leave the table ---- */

/* The jobs, which are in the order of the list and have no record any more, leave it. */
static void drop_jobs(struct sched *s, struct job *const *gone, int n) {
    int kept = 0;
    for (int i = 0, k = 0; i < s->count; i++) {
        struct job *job = s->jobs[i];
        if (k < n && job == gone[k]) {
            map_remove(s->by_id, job->id);
            job_free(job);
            k++;
        } else {
            s->jobs[kept++] = job;
        }
    }
    s->count = kept;
}

static void on_forgotten(void *ctx, const char (*ids)[JOB_ID_SIZE], int n, int rc) {
    struct sched *s = ctx;
    struct job *gone[SCHED_FORGET_MAX];
    for (int i = 0; i < n; i++) {
        gone[i] = map_get(s->by_id, ids[i]);
        gone[i]->leaving = false;
    }
    drop_jobs(s, gone, rc ? 0 : n);
}

int sched_remove(struct sched *s, const char *id, const char *folder, struct err *err) {
    struct job *job = NULL;
    int rc = find(s, id, &job, err);
    if (rc)
        return rc;
    if (!job_is_over(job->state) || job->leaving)
        return err_set(err, ERR_PRECONDITION, "job %s %s and cannot be removed", id,
                       job->leaving ? "is being removed already" : "has not ended");
    if ((rc = ledger_remove(&s->ledger, job, folder, err)))
        return rc;
    log_info("job removed", "job=%s", id);
    job->leaving = true;
    return 0;
}

void sched_measured(struct sched *s, const char *id, int64_t bytes) {
    struct job *job = map_get(s->by_id, id);
    if (job && job_is_over(job->state))
        job->files_bytes = bytes;
}

/* Ended jobs that are older than keep_finished leave the database and the list, a few at a time. While the database cannot be
 * written they stay. */
static void forget_old(struct sched *s) {
    const int64_t boot_ms = s->config.boot_ms ? s->config.boot_ms() : trusted_boot_ms();
    const bool steady = trusted_time_look(&s->time, boot_ms, sched_wall_ms(s), s->config.keep_finished_ms);
    int64_t before_ms = sched_wall_ms(s) - s->config.keep_finished_ms;
    struct job *old[SCHED_FORGET_MAX];
    struct err err;
    int n = 0;
    for (int i = 0; i < s->count && n < SCHED_FORGET_MAX; i++)
        if (job_is_over(s->jobs[i]->state) && !s->jobs[i]->leaving && s->jobs[i]->finished_ms &&
            s->jobs[i]->finished_ms < before_ms)
            old[n++] = s->jobs[i];
    if (!n || s->ledger.broken || !steady) /* a step of the clock makes nothing old */
        return;
    if (ledger_forget(&s->ledger, old, n, &err)) {
        log_warn("old jobs cannot be forgotten", "jobs=%d error=\"%s\"", n, err.message);
        return;
    }
    for (int i = 0; i < n; i++)
        old[i]->leaving = true;
}

/* The answer that a job got when it began to wait may be of the second before, when the volume was emptier. */
static void follow_room(struct sched *s) {
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        int64_t room = job->paused_ms && sched_wall_ms(s) - job->paused_ms < PAUSE_MIN_MS ? volume_free_bytes(s->cache) : -1;
        if (room >= 0 && room < job->room_bytes)
            job->room_bytes = room;
    }
}

void sched_tick(struct sched *s) {
    follow_room(s);
    sched_see_jobs(s);
    ledger_retry(&s->ledger, s->jobs, s->count);
    if (s->config.keep_finished_ms >= 0)
        forget_old(s);
}
