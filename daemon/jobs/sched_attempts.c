/* How an attempt at a job goes and ends: reports, restarts, pauses, and what becomes of the jobs that a dead daemon ran. Declared
 * in sched.h and sched_parts.h. */

#include "base/log.h"
#include "base/map.h"
#include "base/volume.h"
#include "daemon/jobs/sched_parts.h"

enum { ALONE_MS = 60 * 1000 };

/* Queues a job whose data do not fit on the volume of the cache now. No restart is charged; what the job fetched stays in the
 * cache. */
static void pause_job(struct sched *s, struct job *job, const struct err *err) {
    char text[JOB_REASON_SIZE], reason[JOB_REASON_SIZE];
    str_format(reason, sizeof reason, "cache_full: waits for room on the volume of %.120s and goes on by itself; %.400s",
               s->config.cache_dir, err_text(err, text, sizeof text));
    sched_log(s, job, "warn", reason);
    sched_move(s, job, JOB_QUEUED, reason);
    job->room_bytes = volume_free_bytes(s->cache);
    job->paused_ms = sched_wall_ms(s);
}

void sched_restart(struct sched *s, struct job *job, int64_t limit, const char *reason) {
    int64_t wait_ms = BACKOFF_FIRST_MS;
    sched_log(s, job, "error", reason);
    if (job->restarts >= limit) {
        sched_move(s, job, JOB_FAILED, reason);
        return;
    }
    for (int i = 0; i < job->stalled && wait_ms < BACKOFF_MAX_MS; i++)
        wait_ms *= 2;
    job->restarts++;
    job->stalled++;
    sched_move_until(s, job, JOB_QUEUED, reason, sched_wall_ms(s) + (wait_ms < BACKOFF_MAX_MS ? wait_ms : BACKOFF_MAX_MS));
}

/* Counts the jobs that were active when the daemon died, and were not to stop; *ret_new: those of them that had still to show that
 * they do not end the daemon. */
static int count_crashed(const struct sched *s, int *ret_new) {
    int n = 0;
    *ret_new = 0;
    for (int i = 0; i < s->n_open; i++) {
        const struct job *job = s->open[i];
        const bool crashed = job_is_active(job->state) && job->wish == JOB_WISH_NONE && !job->remote;
        n += crashed;
        *ret_new += crashed && job->isolated;
    }
    return n;
}

/* A job of a cluster, which does not end with the daemon: the next attempt at it follows it further, or ends it if that was asked.
 */
static void recover_remote(struct sched *s, struct job *job) {
    const enum job_wish wish = job->wish == JOB_WISH_CANCEL ? JOB_WISH_CANCEL : JOB_WISH_NONE;
    sched_move(s, job, JOB_QUEUED,
               wish == JOB_WISH_CANCEL ? SCHED_CANCELLED_ELSEWHERE : "daemon_restarted: the job goes on meanwhile");
    job->wish = wish;
    if (wish == JOB_WISH_CANCEL)
        ledger_record(&s->ledger, job);
}

/* started_ms and how long the attempt has run, whatever was done to the time of day meanwhile. */
static int64_t ran_until(const struct sched *s, const struct job *job) {
    return job->started_ms + sched_steady_ms(s) - job->began_ms;
}

/* The attempt that began at started_ms was over by end_ms. */
static void count_time(struct job *job, int64_t end_ms) {
    const int64_t ran_ms = end_ms > job->started_ms ? end_ms - job->started_ms : 0;
    job->run_ms += ran_ms;
    job->device_ms += ran_ms * job->devices;
}

void sched_see_jobs(struct sched *s) {
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        const int64_t until_ms = ran_until(s, job);
        if (!job_is_active(job->state) || until_ms - job->seen_ms < SEEN_EVERY_MS)
            continue;
        job->seen_ms = until_ms;
        ledger_record(&s->ledger, job);
    }
}

/* A job that was active when the daemon ended. Of several that were active in a crash the one that had begun alone is charged
 * (n_new 1); if there is none, nobody is, and each begins alone. */
static void recover_one(struct sched *s, struct job *job, int crashed, int n_new) {
    char reason[JOB_REASON_SIZE];
    int64_t limit = sched_read_demands(job).restarts;
    count_time(job, job->seen_ms);
    if (job->remote) {
        recover_remote(s, job);
    } else if (job->wish == JOB_WISH_CANCEL) {
        sched_move(s, job, JOB_CANCELLED, "cancelled");
    } else if (job->wish == JOB_WISH_SHUTDOWN) {
        sched_move(s, job, JOB_QUEUED, "daemon_stopped");
    } else if (s->config.apart) {
        sched_move(s, job, JOB_QUEUED, "daemon_restarted: the job goes on from its newest checkpoint");
    } else if (crashed > 1 && (n_new != 1 || !job->isolated)) {
        job->isolated |= n_new != 1;
        str_format(reason, sizeof reason, "daemon_crashed: the daemon died while %d jobs ran; no restart is charged, and %s",
                   crashed, n_new == 1 ? "the one that had just begun is" : "no other starts beside one that has just begun");
        sched_log(s, job, "error", reason);
        sched_move(s, job, JOB_QUEUED, reason);
    } else {
        job->crashes++;
        job->isolated = 1;
        str_format(reason, sizeof reason,
                   "daemon_crashed: the daemon died while this job ran, %d time%s so far (limits.restarts: %lld); the system's log "
                   "may say why, such as out of memory%s",
                   job->crashes, job->crashes == 1 ? "" : "s", (long long)limit,
                   job->restarts < limit ? "" : "; `brrctl resume` starts it again");
        sched_restart(s, job, limit, reason);
    }
}

void sched_recover(struct sched *s) {
    int n_new, crashed = count_crashed(s, &n_new);
    for (int i = s->n_open - 1; i >= 0; i--) /* jobs that end leave the list */
        if (job_is_active(s->open[i]->state))
            recover_one(s, s->open[i], crashed, n_new);
}

/* ---- reports of the attempt ---- */

static bool is_fault(int rc) { return rc == ERR_INTERNAL || rc == ERR_UNAVAILABLE || rc == ERR_DATA_LOSS; }

/* True if the run ended because it was asked to. At a shutdown an error that is no fault, such as a full volume, is only logged:
 * the job keeps its place in the queue, and its checkpoints before are valid. */
static bool was_stopped(struct sched *s, const struct job *job, const struct task_end *r) {
    char text[JOB_REASON_SIZE];
    if (r->stopped == STOP_NONE)
        return false;
    if (!r->rc || r->rc == ERR_CANCELLED)
        return true;
    if ((r->stopped != STOP_SHUTDOWN && r->stopped != STOP_PREEMPT) || is_fault(r->rc))
        return false;
    sched_log(s, job, "error", err_text(&r->err, text, sizeof text));
    return true;
}

/* A run that ended by an error. */
static void fail_running(struct sched *s, struct job *job, const struct task_end *r, int64_t limit) {
    char reason[JOB_REASON_SIZE];
    err_text(&r->err, reason, sizeof reason);
    if (r->err.room == ERR_ROOM_NONE_IN_CACHE) {
        pause_job(s, job, &r->err);
    } else if (is_fault(r->rc) || r->err.room != ERR_ROOM_ENOUGH) { /* room on a volume, or a descriptor, may be there later */
        sched_restart(s, job, limit, reason);
    } else {
        sched_log(s, job, "error", reason);
        sched_move(s, job, JOB_FAILED, reason);
    }
}

/* An attempt without a new step is charged as a fault is, so that a job whose limit is too short for one step ends. */
static void reach_time_limit(struct sched *s, struct job *job, const struct jobfile_limits *limits) {
    const bool gained = job->saved_step > job->first_step;
    if (!limits->auto_resume || (!gained && job->restarts >= limits->restarts))
        sched_move(s, job, JOB_INTERRUPTED, "time_limit");
    else if (gained)
        sched_move(s, job, JOB_QUEUED, "time_limit: resuming");
    else
        sched_restart(s, job, limits->restarts, "time_limit: no new step in this attempt, which counts against limits.restarts");
}

static void finish_running(struct sched *s, struct slot *slot, struct task_end *r) {
    struct job *job = slot->job;
    for (int i = 0; s->config.ended && i < s->slots.n; i++)
        if (s->slots.at[i].job == job)
            s->config.ended(s->config.worker, i);
    slots_free(&s->slots, job);
    job->alone = false;
    job->isolated &= r->stopped == STOP_SHUTDOWN || r->stopped == STOP_PREEMPT; /* it has not shown yet what it does alone */
    job->on[0] = '\0';
    count_time(job, ran_until(s, job));
    if (!isnan(r->energy_j))
        job->energy_j = r->energy_j + (isnan(job->energy_j) ? 0 : job->energy_j);
    if (!r->rc && r->stopped == STOP_NONE) {
        free(job->result);
        job->result = r->result;
        r->result = NULL;
        job->kept_bytes = 0;
        sched_move(s, job, JOB_SUCCEEDED, "");
    } else if (job->wish == JOB_WISH_CANCEL) { /* whatever else ended it */
        sched_move(s, job, JOB_CANCELLED, "cancelled");
    } else if (!was_stopped(s, job, r)) {
        fail_running(s, job, r, r->limits.restarts);
    } else if (r->stopped == STOP_TIME_LIMIT) {
        reach_time_limit(s, job, &r->limits);
    } else if (r->stopped == STOP_COST_LIMIT) {
        sched_move(s, job, JOB_INTERRUPTED, "cost_limit");
    } else if (r->stopped == STOP_PREEMPT && !s->draining) {
        sched_move(s, job, JOB_QUEUED, "preempted: a job of higher priority runs first");
    } else {
        sched_move(s, job, JOB_QUEUED, "daemon_stopped");
    }
}

/* The job has shown that it does not end the daemon. */
static void clear_doubt(struct job *job) {
    job->alone = false;
    job->isolated = 0;
}

/* A minute of progress shows as much as a checkpoint, which jobs that infer do not write. That of preparing shows nothing: what
 * ends the daemon may come behind it. */
static void take_progress(struct sched *s, struct slot *slot, const struct task_progress *p) {
    struct job *job = slot->job;
    const int64_t now_ms = sched_steady_ms(s);
    job->progress = *p;
    if (!slot->progress_ms && job->state == JOB_RUNNING)
        slot->progress_ms = now_ms;
    if (job->isolated && slot->progress_ms && now_ms - slot->progress_ms >= ALONE_MS) {
        clear_doubt(job);
        ledger_record(&s->ledger, job);
    }
    sched_tell(s, job);
}

/* The checkpoint is new, or the task found it when it began and reports it again, in case a crash came before its record. */
static void take_checkpoint(struct sched *s, struct job *job, const struct task_checkpoint *c) {
    if (c->last && strcmp(job->last, c->path) != 0)
        job->stalled = 0;
    if (c->last) {
        str_copy(job->last, sizeof job->last, c->path);
        job->saved_step = c->step;
    }
    if (c->step > job->first_step)
        clear_doubt(job);
    job->seen_ms = ran_until(s, job);
    if (c->best && c->step) /* an attempt of an earlier version may call step 0 its best */
        str_copy(job->best, sizeof job->best, c->path);
    ledger_checkpoint(&s->ledger, job, c, sched_wall_ms(s));
}

void sched_report(struct sched *s, const char *job_id, const struct task_report *r) {
    struct job *job = map_get(s->by_id, job_id);
    struct slot *slot = job ? slots_of(&s->slots, job) : NULL;
    const char *text = r->text ? r->text : "";
    if (!slot)
        return;
    switch (r->kind) {
    case TASK_RUNNING:
        sched_move(s, job, JOB_RUNNING, "");
        break;
    case TASK_PROGRESS:
        take_progress(s, slot, r->progress);
        break;
    case TASK_LOG:
        sched_log(s, job, task_level_names[r->level], text);
        break;
    case TASK_NOTICE:
        sched_log(s, job, task_level_names[TASK_WARN], text);
        str_copy(job->reason, sizeof job->reason, text);
        sched_tell(s, job);
        break;
    case TASK_CHECKPOINT:
        take_checkpoint(s, job, r->checkpoint);
        break;
    case TASK_END:
        finish_running(s, slot, r->end);
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
    sched_tell(s, job);
}
