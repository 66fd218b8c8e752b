#include "daemon/jobs/sched.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/str.h"
#include "base/volume.h"
#include "daemon/jobs/array.h"
#include "daemon/jobs/ledger.h"

/* A paused job is tried again when so much became free, but not at once, or when a while has passed: others may have unpinned what
 * can be evicted. */
enum { PAUSE_ROOM_BYTES = 1 << 20, PAUSE_MIN_MS = 2000, PAUSE_MAX_MS = 60000, JOB_FILE_BYTES = 16 << 20 };
/* Before a restart that is charged; the first of these doubles with each one that brought no checkpoint. */
enum { BACKOFF_FIRST_MS = 2000, BACKOFF_MAX_MS = 300000 };

#define CANCELLED_ELSEWHERE "cancelled: it is being ended"

struct sched {
    struct sched_config config;
    struct slots slots;
    struct ledger ledger;
    struct volume *cache; /* its volume */
    struct job **jobs;    /* order of submission */
    struct job **open;    /* those that have not ended, which are few */
    int count, n_open, capacity;
    struct map *by_id;
    _Atomic int64_t next_sequence; /* drafts count it up */
    bool draining;
};

static void tell(struct sched *s, const struct job *job) {
    if (s->config.changed)
        s->config.changed(s->config.ctx, job);
}

static int64_t wall_ms(const struct sched *s) { return s->config.wall_ms ? s->config.wall_ms() : clock_wall_ms(); }

static int find_open(const struct sched *s, const struct job *job) {
    int i = 0;
    while (i < s->n_open && s->open[i] != job)
        i++;
    return i;
}

/* After each change of its state. */
static void list_open(struct sched *s, struct job *job) {
    int i = find_open(s, job);
    if (job_is_over(job->state) && i < s->n_open)
        memmove(s->open + i, s->open + i + 1, (size_t)(--s->n_open - i) * sizeof *s->open);
    else if (!job_is_over(job->state) && i == s->n_open)
        s->open[s->n_open++] = job;
}

static void announce(struct sched *s, const struct job *job) {
    log_info("job", "job=%s kind=%s state=%s reason=\"%s\"", job->id, job->kind, job_state_name(job->state), job->reason);
    tell(s, job);
}

/* limits of a job, and its demands of the device; zeros when its file cannot be read any more. */
static struct jobfile_limits read_demands(struct job *job) {
    OWNED(arena_done) struct arena arena;
    struct jobfile file = {0};
    arena_init(&arena, JOB_FILE_BYTES);
    if (job_parse(job->yaml, job->file, job->overrides, &arena, &file, NULL))
        return (struct jobfile_limits){0};
    job->remote = file.executor != NULL;
    job->devices = job->remote ? 1 : (int)file.devices;
    str_copy(job->wanted, sizeof job->wanted, file.executor ? file.executor : file.device ? file.device : "");
    job->preemptible = file.limits.preemptible;
    array_read(job, &file);
    return file.limits;
}

static int64_t restart_limit(struct job *job) { return read_demands(job).restarts; }

/* ---- changes ---- */

/* A change that has happened: queued jobs start no sooner than retry_ms. */
static void move_until(struct sched *s, struct job *job, enum job_state to, const char *reason, int64_t retry_ms) {
    struct err err;
    const char *held = to == JOB_QUEUED ? slots_held_for(&s->slots, job) : "";
    if (job_move(job, to, *held ? held : reason, wall_ms(s), &err))
        log_error("a job cannot change its state", "job=%s error=\"%s\"", job->id, err.message);
    job->retry_ms = retry_ms;
    if (slots_of(&s->slots, job))
        slots_of(&s->slots, job)->waits[0] = '\0';
    list_open(s, job);
    ledger_record(&s->ledger, job);
    announce(s, job);
}

static void move(struct sched *s, struct job *job, enum job_state to, const char *reason) { move_until(s, job, to, reason, 0); }

/* A change that was asked for: nothing has changed when it fails. */
static int move_asked(struct sched *s, struct job *job, enum job_state to, const char *reason, struct err *err) {
    const struct job before = *job;
    const char *held = to == JOB_QUEUED ? slots_held_for(&s->slots, job) : "";
    int rc;
    if ((rc = job_move(job, to, *held ? held : reason, wall_ms(s), err)) || (rc = ledger_commit(&s->ledger, job, &before, err)))
        return rc;
    list_open(s, job);
    announce(s, job);
    return 0;
}

static int count_crashed(const struct sched *s);
static void recover(struct sched *s, struct job *job, int crashed);

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
    list_open(s, job);
    return 0;
}

static int load_one(void *ctx, struct job *job, struct err *err) {
    int rc = add(ctx, job, err);
    if (!job_is_over(job->state))
        read_demands(job);
    if (rc)
        job_free(job);
    return rc;
}

static int load(struct sched *s, struct err *err) {
    int64_t left = 0, next = 0;
    int rc;
    if ((rc = jobdb_setup(s->config.db, err)) || (rc = jobdb_load(s->config.db, s->config.max_jobs, load_one, s, &left, err)) ||
        (rc = jobdb_sequence(s->config.db, &next, err)))
        return rc;
    atomic_store(&s->next_sequence, next);
    if (left)
        log_warn("the oldest ended jobs are not listed", "jobs=%lld fix=\"set jobs.keep_finished, so that old jobs are forgotten\"",
                 (long long)left);
    return 0;
}

int sched_open(const struct sched_config *config, struct sched **ret, struct err *err) {
    struct sched *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the scheduler");
    s->config = *config;
    s->slots = (struct slots){.n = config->n_devices ? config->n_devices : 1, .room = config->room, .ctx = config->worker};
    for (int i = 0; i < s->slots.n; i++) {
        s->slots.at[i].name = config->devices[i].name;
        s->slots.at[i].description = config->devices[i].description;
        s->slots.at[i].remote = config->devices[i].remote;
        s->slots.at[i].for_cancel = config->devices[i].for_cancel;
    }
    if (!config->max_jobs)
        s->config.max_jobs = SCHED_MAX_JOBS;
    ledger_init(&s->ledger, config->db);
    s->by_id = map_new((size_t)s->config.max_jobs);
    int rc =
        s->by_id ? volume_open(config->cache_dir, &s->cache, err) : err_set(err, ERR_EXHAUSTED, "out of memory for the scheduler");
    if (rc || (rc = load(s, err))) {
        sched_close(s);
        return rc;
    }
    ledger_probe(&s->ledger);
    int crashed = count_crashed(s);
    for (int i = s->n_open - 1; i >= 0; i--) /* those that end leave the list */
        if (job_is_active(s->open[i]->state))
            recover(s, s->open[i], crashed);
    *ret = s;
    return 0;
}

void sched_close(struct sched *s) {
    if (!s)
        return;
    for (int i = 0; i < s->count; i++)
        job_free(s->jobs[i]);
    free(s->jobs);
    free(s->open);
    map_free(s->by_id, NULL);
    ledger_done(&s->ledger);
    volume_close(s->cache);
    free(s);
}

const struct job *sched_get(const struct sched *s, const char *id) { return map_get(s->by_id, id); }
int sched_count(const struct sched *s) { return s->count; }
const struct job *sched_at(const struct sched *s, int index) { return s->jobs[index]; }
int sched_open_count(const struct sched *s) { return s->n_open; }
const struct job *sched_open_at(const struct sched *s, int index) { return s->open[index]; }
const struct job *sched_on(const struct sched *s, int device) { return s->slots.at[device].job; }

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

static bool may_start(const struct sched *s, const struct job *job) {
    int64_t now_ms = wall_ms(s), waited_ms = now_ms - job->paused_ms;
    if (job->wish == JOB_WISH_CANCEL) /* which a cluster may have */
        return job->state == JOB_QUEUED;
    if (!array_is_due(job, now_ms))
        return false;
    if (job->retry_ms > now_ms && job->retry_ms <= now_ms + BACKOFF_MAX_MS) /* else the clock was set back */
        return false;
    if (job->state != JOB_QUEUED || !job->paused_ms || waited_ms > PAUSE_MAX_MS || waited_ms < 0)
        return job->state == JOB_QUEUED;
    return waited_ms >= PAUSE_MIN_MS && volume_free_bytes(s->cache) >= job->room_bytes + PAUSE_ROOM_BYTES;
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

/* From here on the job exists, or nothing of it does but its directory. */
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

static int check_room(const struct sched *s, struct err *err) {
    int queued = 0;
    for (int i = 0; i < s->n_open; i++)
        queued += s->open[i]->state == JOB_QUEUED;
    if (queued >= s->config.max_queued)
        return err_set(err, ERR_EXHAUSTED, "%d jobs are already waiting (jobs.max_queued); try again later", queued);
    if (s->count >= s->config.max_jobs)
        return err_set(err, ERR_EXHAUSTED,
                       "the daemon already keeps %d jobs, the maximum; set jobs.keep_finished so that old jobs are forgotten",
                       s->count);
    return 0;
}

int sched_draft(struct sched *s, const struct submission *r, struct draft **ret, const struct job **ret_same, struct err *err) {
    const struct job *same = find_request(s, r->request_id, r->owner);
    if (same) {
        *ret_same = same;
        return 0;
    }
    int rc;
    if ((rc = check_room(s, err)) || (rc = draft_new(&s->config.rules, r, wall_ms(s), ret, err)))
        return rc;
    (*ret)->next = &s->next_sequence;
    return 0;
}

int sched_accept(struct sched *s, struct draft *d, void (*notice)(void *ctx, const char *text), void *ctx, const struct job **ret,
                 struct err *err) {
    struct job *job = d->job;
    const struct job *same = find_request(s, job->request_id, job->owner);
    if (same) {
        *ret = same;
        return 0;
    }
    int rc = check_room(s, err);
    if (rc || (rc = enter(s, job, err)))
        return rc;
    d->job = NULL;
    if (notice)
        jobfile_notices(&d->file, notice, ctx);
    read_demands(job);
    array_entered(s->open, s->n_open, job, wall_ms(s));
    const char *held = slots_held_for(&s->slots, job);
    if (notice && *held)
        notice(ctx, held);
    log_info("job submitted", "job=%s kind=%s", job->id, job->kind);
    tell(s, job);
    str_copy(job->reason, sizeof job->reason, held); /* after it was told of as new */
    *ret = job;
    return 0;
}

static int find(struct sched *s, const char *id, struct job **ret, struct err *err) {
    *ret = map_get(s->by_id, id);
    return *ret ? 0 : err_set(err, ERR_NOT_FOUND, "there is no job '%s'; `brrctl jobs` lists them", id);
}

/* On each of its devices. */
static void interrupt(struct sched *s, const struct job *job, enum worker_stop why) {
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i].job == job)
            s->config.interrupt(s->config.worker, i, why);
}

/* True if a cluster may have the queued job: an attempt at it then cancels it there. */
static bool is_elsewhere(const struct sched *s, const struct job *job) {
    return job->remote && (job->attempts || job->array.size) && !*slots_held_for(&s->slots, job);
}

static int cancel_running(struct sched *s, struct job *job, struct err *err) {
    const struct job before = *job;
    job->wish = JOB_WISH_CANCEL;
    if (job->state == JOB_QUEUED)
        str_copy(job->reason, sizeof job->reason, CANCELLED_ELSEWHERE);
    int rc = ledger_commit(&s->ledger, job, &before, err);
    if (rc)
        return rc;
    interrupt(s, job, WORKER_STOP_CANCEL);
    tell(s, job);
    return 0;
}

int sched_cancel(struct sched *s, const char *id, const struct job **ret, struct err *err) {
    struct job *job = NULL;
    int rc = find(s, id, &job, err);
    if (rc)
        return rc;
    if (job_is_over(job->state))
        return err_set(err, ERR_PRECONDITION, "job %s has ended already: %s", id, job_state_name(job->state));
    if ((rc = slots_of(&s->slots, job) || is_elsewhere(s, job) ? cancel_running(s, job, err)
                                                               : move_asked(s, job, JOB_CANCELLED, "cancelled", err)))
        return rc;
    *ret = job;
    return 0;
}

/* The job's overrides with further ones of limits.*, which together are a job file that can be read. */
static int join_limits(const struct job *job, const char *const *overrides, int n, char **ret, struct err *err) {
    struct arena arena;
    struct jobfile file;
    for (int i = 0; i < n; i++)
        if (!str_starts(overrides[i], "limits."))
            return err_set(err, ERR_INVALID, "%s: only limits.* may change on resume", overrides[i]);
    char *joined = job_overrides(job->overrides, overrides, n);
    if (!joined)
        return err_set(err, ERR_EXHAUSTED, "out of memory");
    arena_init(&arena, JOB_FILE_BYTES);
    int rc = job_parse(job->yaml, job->file, joined, &arena, &file, err);
    arena_done(&arena);
    if (rc)
        free(joined);
    else
        *ret = joined;
    return rc;
}

int sched_resume(struct sched *s, const char *id, const char *const *overrides, int n, const struct job **ret, struct err *err) {
    struct job *job = NULL;
    int rc = find(s, id, &job, err);
    if (rc)
        return rc;
    if (!job_may_resume(job->state))
        return err_set(err, ERR_PRECONDITION, "job %s has the state %s; only interrupted, failed and cancelled jobs resume", id,
                       job_state_name(job->state));
    const struct job before = *job;
    char *joined = NULL;
    if ((rc = join_limits(job, overrides, n, &joined, err)))
        return rc;
    job->overrides = joined;
    read_demands(job);
    job->restarts = job->crashes = job->stalled = 0;
    if ((rc = move_asked(s, job, JOB_QUEUED, "resumed", err))) {
        *job = before;
        free(joined);
        return rc;
    }
    free(before.overrides);
    *ret = job;
    return 0;
}

static void append_log(struct sched *s, const struct job *job, const char *level, const char *text) {
    if (s->config.logged)
        s->config.logged(s->config.ctx, job, level, text);
}

/* Its data do not fit on the volume of the cache now: to the queue, no restart charged. What it fetched stays in the cache. */
static void pause_job(struct sched *s, struct job *job, const struct err *err) {
    char text[JOB_REASON_SIZE], reason[JOB_REASON_SIZE];
    str_format(reason, sizeof reason, "cache_full: waits for room on the volume of %.120s and goes on by itself; %.400s",
               s->config.cache_dir, err_text(err, text, sizeof text));
    append_log(s, job, "warn", reason);
    move(s, job, JOB_QUEUED, reason);
    job->room_bytes = volume_free_bytes(s->cache);
    job->paused_ms = wall_ms(s);
}

/* Charges a restart: the job waits, longer each time that it made no progress; above its limit it has failed. */
static void restart(struct sched *s, struct job *job, int64_t limit, const char *reason) {
    int64_t wait_ms = BACKOFF_FIRST_MS;
    append_log(s, job, "error", reason);
    if (job->restarts >= limit) {
        move(s, job, JOB_FAILED, reason);
        return;
    }
    for (int i = 0; i < job->stalled && wait_ms < BACKOFF_MAX_MS; i++)
        wait_ms *= 2;
    job->restarts++;
    job->stalled++;
    move_until(s, job, JOB_QUEUED, reason, wall_ms(s) + (wait_ms < BACKOFF_MAX_MS ? wait_ms : BACKOFF_MAX_MS));
}

/* Jobs that were active when the daemon died, and were not to stop. */
static int count_crashed(const struct sched *s) {
    int n = 0;
    for (int i = 0; i < s->n_open; i++)
        n += job_is_active(s->open[i]->state) && s->open[i]->wish == JOB_WISH_NONE && !s->open[i]->remote;
    return n;
}

/* A job of a cluster, which does not end with the daemon: the next attempt at it follows it further, or ends it if that was asked.
 */
static void recover_remote(struct sched *s, struct job *job) {
    const enum job_wish wish = job->wish == JOB_WISH_CANCEL ? JOB_WISH_CANCEL : JOB_WISH_NONE;
    move(s, job, JOB_QUEUED, wish == JOB_WISH_CANCEL ? CANCELLED_ELSEWHERE : "daemon_restarted: the job goes on meanwhile");
    job->wish = wish;
    if (wish == JOB_WISH_CANCEL)
        ledger_record(&s->ledger, job);
}

/* A job that was active when the daemon ended. One of several that were active in a crash is not charged: each starts again
 * when no other runs, and a job that crashes the daemon alone is charged then. */
static void recover(struct sched *s, struct job *job, int crashed) {
    char reason[JOB_REASON_SIZE];
    int64_t limit = restart_limit(job);
    if (job->remote) {
        recover_remote(s, job);
    } else if (job->wish == JOB_WISH_CANCEL) {
        move(s, job, JOB_CANCELLED, "cancelled");
    } else if (job->wish == JOB_WISH_SHUTDOWN) {
        move(s, job, JOB_QUEUED, "daemon_stopped");
    } else if (crashed > 1) {
        str_format(
            reason, sizeof reason,
            "daemon_crashed: the daemon died while %d jobs ran; no restart is charged, and each starts again when no other runs",
            crashed);
        append_log(s, job, "error", reason);
        move(s, job, JOB_QUEUED, reason);
    } else {
        job->crashes++;
        str_format(reason, sizeof reason,
                   "daemon_crashed: the daemon died while this job ran, %d time%s so far (limits.restarts: %lld); the system's log "
                   "may say why, such as out of memory%s",
                   job->crashes, job->crashes == 1 ? "" : "s", (long long)limit,
                   job->restarts < limit ? "" : "; `brrctl resume` starts it again");
        restart(s, job, limit, reason);
    }
}

static bool is_fault(int rc) { return rc == ERR_INTERNAL || rc == ERR_UNAVAILABLE || rc == ERR_DATA_LOSS; }

/* True if the run ended because it was asked to. At a shutdown an error that is no fault, such as a full volume, is only logged:
 * the job keeps its place in the queue, and its checkpoints before are valid. */
static bool was_stopped(struct sched *s, const struct job *job, const struct worker_report *r) {
    char text[JOB_REASON_SIZE];
    if (r->stopped == WORKER_STOP_NONE)
        return false;
    if (!r->rc || r->rc == ERR_CANCELLED)
        return true;
    if ((r->stopped != WORKER_STOP_SHUTDOWN && r->stopped != WORKER_STOP_PREEMPT) || is_fault(r->rc))
        return false;
    append_log(s, job, "error", err_text(&r->err, text, sizeof text));
    return true;
}

/* A run that ended by an error. */
static void fail_running(struct sched *s, struct job *job, const struct worker_report *r, int64_t limit) {
    char reason[JOB_REASON_SIZE];
    err_text(&r->err, reason, sizeof reason);
    if (r->err.room == ERR_ROOM_NONE_IN_CACHE) {
        pause_job(s, job, &r->err);
    } else if (is_fault(r->rc) || r->err.room != ERR_ROOM_ENOUGH) { /* room on a volume, or a descriptor, may be there later */
        restart(s, job, limit, reason);
    } else {
        append_log(s, job, "error", reason);
        move(s, job, JOB_FAILED, reason);
    }
}

static void finish_running(struct sched *s, struct slot *slot, struct worker_report *r) {
    struct job *job = slot->job;
    for (int i = 0; s->config.ended && i < s->slots.n; i++)
        if (s->slots.at[i].job == job)
            s->config.ended(s->config.worker, i);
    slots_free(&s->slots, job);
    job->alone = false;
    job->on[0] = '\0';
    job->run_ms += wall_ms(s) > job->started_ms ? wall_ms(s) - job->started_ms : 0;
    if (!isnan(r->energy_j))
        job->energy_j = r->energy_j + (isnan(job->energy_j) ? 0 : job->energy_j);
    if (!r->rc && r->stopped == WORKER_STOP_NONE) {
        free(job->result);
        job->result = r->text;
        r->text = NULL;
        move(s, job, JOB_SUCCEEDED, "");
    } else if (job->wish == JOB_WISH_CANCEL) { /* whatever else ended it */
        move(s, job, JOB_CANCELLED, "cancelled");
    } else if (!was_stopped(s, job, r)) {
        fail_running(s, job, r, r->limits.restarts);
    } else if (r->stopped == WORKER_STOP_TIME_LIMIT) {
        move(s, job, JOB_INTERRUPTED, "time_limit");
        if (r->limits.auto_resume && r->has_checkpoint)
            move(s, job, JOB_QUEUED, "time_limit: resuming");
    } else if (r->stopped == WORKER_STOP_PREEMPT && !s->draining) {
        move(s, job, JOB_QUEUED, "preempted: a job of higher priority runs first");
    } else {
        move(s, job, JOB_QUEUED, "daemon_stopped");
    }
}

/* New, or one that the task found when it began and announces again, in case a crash came before its record. */
static void take_checkpoint(struct sched *s, struct job *job, const struct task_checkpoint *c) {
    if (c->last && strcmp(job->last, c->path) != 0)
        job->stalled = 0;
    if (c->last)
        str_copy(job->last, sizeof job->last, c->path);
    job->alone = false;
    if (c->best)
        str_copy(job->best, sizeof job->best, c->path);
    ledger_checkpoint(&s->ledger, job, c, wall_ms(s));
}

void sched_report(struct sched *s, struct worker_report *r) {
    static const char *const levels[] = {"info", "warn", "error"};
    struct job *job = map_get(s->by_id, r->job_id);
    struct slot *slot = job ? slots_of(&s->slots, job) : NULL;
    if (!slot)
        return;
    switch ((enum worker_report_kind)r->message.kind) {
    case WORKER_RUNNING:
        move(s, job, JOB_RUNNING, "");
        break;
    case WORKER_PROGRESS:
        job->progress = r->progress;
        tell(s, job);
        break;
    case WORKER_LOG:
        append_log(s, job, levels[r->level], r->text ? r->text : "");
        break;
    case WORKER_NOTICE:
        append_log(s, job, levels[TASK_WARN], r->text ? r->text : "");
        str_copy(job->reason, sizeof job->reason, r->text ? r->text : "");
        tell(s, job);
        break;
    case WORKER_CHECKPOINT:
        take_checkpoint(s, job, &r->checkpoint);
        break;
    case WORKER_DONE:
        finish_running(s, slot, r);
        break;
    }
}

void sched_waits(struct sched *s, int device, const char *text) {
    struct slot *slot = &s->slots.at[device];
    struct job *job = slot->job;
    if (!job || !strcmp(slot->waits, text))
        return;
    if (!*slot->waits)
        str_copy(slot->notice, sizeof slot->notice, job->reason);
    str_copy(slot->waits, sizeof slot->waits, text);
    str_copy(job->reason, sizeof job->reason, *text ? text : slot->notice);
    log_info(*text ? "a job waits for a file" : "a job waits no more", "job=%s reason=\"%s\"", job->id, job->reason);
    tell(s, job);
}

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

int sched_remove(struct sched *s, const char *id, const char *folder, struct err *err) {
    struct job *job = NULL;
    int rc = find(s, id, &job, err);
    if (rc)
        return rc;
    if (!job_is_over(job->state))
        return err_set(err, ERR_PRECONDITION, "job %s has the state %s and cannot be removed", id, job_state_name(job->state));
    if ((rc = ledger_remove(&s->ledger, job, folder, err)))
        return rc;
    log_info("job removed", "job=%s", id);
    drop_jobs(s, &job, 1);
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
    int64_t before_ms = wall_ms(s) - s->config.keep_finished_ms;
    struct job *old[SCHED_FORGET_MAX];
    struct err err;
    int n = 0;
    for (int i = 0; i < s->count && n < SCHED_FORGET_MAX; i++)
        if (job_is_over(s->jobs[i]->state) && s->jobs[i]->finished_ms && s->jobs[i]->finished_ms < before_ms)
            old[n++] = s->jobs[i];
    if (!n || s->ledger.broken)
        return;
    if (ledger_forget(&s->ledger, old, n, &err)) {
        log_warn("old jobs cannot be forgotten", "jobs=%d error=\"%s\"", n, err.message);
        return;
    }
    drop_jobs(s, old, n);
}

/* The answer that a job got when it began to wait may be of the second before, when the volume was emptier. */
static void follow_room(struct sched *s) {
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        int64_t room = job->paused_ms && wall_ms(s) - job->paused_ms < PAUSE_MIN_MS ? volume_free_bytes(s->cache) : -1;
        if (room >= 0 && room < job->room_bytes)
            job->room_bytes = room;
    }
}

void sched_tick(struct sched *s) {
    follow_room(s);
    ledger_retry(&s->ledger, s->jobs, s->count);
    if (s->config.keep_finished_ms >= 0)
        forget_old(s);
}

/* ---- which job runs where ---- */

/* The daemon died while the job ran, alone or with others: it runs alone until it has written a checkpoint. */
static bool must_run_alone(const struct sched *s, const struct job *job) {
    return s->slots.n > 1 && str_starts(job->reason, "daemon_crashed");
}

/* The first waiting job, in order, that has a device now, and its device; of those for clusters, or of the others. A job that must
 * run alone, or on several devices, holds up those after it. */
static struct job *next_of(struct sched *s, bool remote, struct slot **ret) {
    struct job *best = NULL;
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        if (job->remote != remote || (best && !job_precedes(job, best)) || !may_start(s, job) || *slots_held_for(&s->slots, job))
            continue;
        bool alone = must_run_alone(s, job), holds = alone || job->devices > 1;
        struct slot *slot = alone && !sched_idle(s) ? NULL : slots_place(&s->slots, job);
        if (!slot && !holds)
            continue;
        best = job;
        *ret = slot;
    }
    return best && *ret ? best : NULL;
}

static struct job *next_job(struct sched *s, struct slot **ret) {
    struct job *job = next_of(s, false, ret);
    return job ? job : next_of(s, true, ret);
}

/* The job is recorded as active first: a daemon that dies from here on charges it. */
static bool start(struct sched *s, struct slot *slot, struct job *job) {
    const struct job before = *job;
    const int device = slots_index(&s->slots, slot);
    const bool cancel = job->wish == JOB_WISH_CANCEL;
    struct err err;
    str_copy(job->on, sizeof job->on, slot->name ? slot->name : "");
    str_copy(job->device, sizeof job->device, slot->description ? slot->description : "");
    str_copy(job->versions, sizeof job->versions, s->config.versions ? s->config.versions : "");
    job->alone = must_run_alone(s, job);
    if (job_move(job, JOB_PREPARING, "", wall_ms(s), &err) || ledger_commit(&s->ledger, job, &before, &err))
        return false;
    announce(s, job);
    int64_t limit = read_demands(job).restarts;
    slots_take(&s->slots, slot, job);
    if (!s->config.run(s->config.worker, device, job, &err)) {
        if (cancel) {
            job->wish = JOB_WISH_CANCEL;
            interrupt(s, job, WORKER_STOP_CANCEL);
        }
        return true;
    }
    slots_free(&s->slots, job);
    job->alone = false;
    job->on[0] = '\0';
    restart(s, job, limit, err.message);
    return false;
}

/* The device's job checkpoints and goes back to the queue; should the daemon be killed before that, no restart is charged. */
static void stop_running(struct sched *s, struct slot *slot, enum worker_stop why) {
    if (!slot->job)
        return;
    if (slot->job->wish == JOB_WISH_NONE) {
        slot->job->wish = JOB_WISH_SHUTDOWN;
        ledger_record(&s->ledger, slot->job);
    }
    interrupt(s, slot->job, why);
}

/* The first waiting job that has no device. */
static struct job *first_waiting(const struct sched *s) {
    struct job *best = NULL;
    for (int i = 0; i < s->n_open; i++)
        if ((!best || job_precedes(s->open[i], best)) && may_start(s, s->open[i]) && !must_run_alone(s, s->open[i]) &&
            !*slots_held_for(&s->slots, s->open[i]))
            best = s->open[i];
    return best;
}

/* A waiting job of higher priority gets a device, unless the running ones say otherwise or end already. */
static void preempt(struct sched *s) {
    char text[JOB_REASON_SIZE];
    const struct job *next = first_waiting(s);
    struct slot *victim = next && !slots_run_alone(&s->slots) ? slots_victim(&s->slots, next) : NULL;
    if (!victim)
        return;
    str_format(text, sizeof text,
               "job %s of priority %lld preempts this one of priority %lld, which is saved and goes on afterwards", next->id,
               (long long)next->priority, (long long)victim->job->priority);
    append_log(s, victim->job, "info", text);
    stop_running(s, victim, WORKER_STOP_PREEMPT);
}

void sched_turn(struct sched *s) {
    struct slot *slot = NULL;
    struct job *job;
    if (s->draining || s->ledger.broken)
        return;
    while (!slots_run_alone(&s->slots) && (job = next_job(s, &slot)))
        if (!start(s, slot, job))
            return;
    preempt(s);
}

void sched_drain(struct sched *s) {
    s->draining = true;
    for (int i = 0; i < s->slots.n; i++)
        stop_running(s, &s->slots.at[i], WORKER_STOP_SHUTDOWN);
}

void sched_hold(struct sched *s, int device, const char *why) {
    str_copy(s->slots.at[device].held, sizeof s->slots.at[device].held, why);
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        const char *held = job->state == JOB_QUEUED ? slots_held_for(&s->slots, job) : "";
        if (!*held)
            continue;
        str_copy(job->reason, sizeof job->reason, held); /* not stored: another daemon may start it */
        tell(s, job);
    }
    stop_running(s, &s->slots.at[device], WORKER_STOP_SHUTDOWN);
}
