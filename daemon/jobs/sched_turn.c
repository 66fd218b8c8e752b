/* Which job runs where: starts on free devices and on places of clusters, preemption, and the end of a device or of the daemon.
 * Declared in sched.h. */

#include "base/map.h"
#include "base/volume.h"
#include "daemon/jobs/array.h"
#include "daemon/jobs/sched_parts.h"

static bool may_start(const struct sched *s, const struct job *job) {
    int64_t now_ms = sched_wall_ms(s), waited_ms = now_ms - job->paused_ms;
    if (*job->after)
        return false;
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

/* Waits, and holds up those after it until it has all that it wants. */
static bool holds_up(const struct job *job) { return job->devices > 1; }

/* Returns the first waiting job that is not held; `placeless`: the first that has no place now, too. */
static struct job *first_waiting(struct sched *s, bool placeless) {
    struct job *best = NULL;
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        if ((!best || job_precedes(job, best)) && may_start(s, job) && !*slots_held_for(&s->slots, job) &&
            (!placeless || (!job->remote && !slots_place(&s->slots, job))))
            best = job;
    }
    return best;
}

/* The job would start beside others while `head` (NULL: none) waits, which would then wait the longer. */
static bool overtakes(const struct sched *s, const struct slot *slot, const struct job *job, const struct job *head) {
    return head && job_precedes(head, job) && !slots_may_overtake(&s->slots, slot, job, head);
}

/* The first waiting job, in order, that has a place now, and its place; of those for clusters, or of the others. On a device that
 * runs a job, a job overtakes the first one that waits (`head`) only if that one does not wait the longer. */
static struct job *next_of(struct sched *s, bool remote, const struct job *head, struct slot **ret) {
    struct job *best = NULL;
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        if (job->remote != remote || (best && !job_precedes(job, best)) || !may_start(s, job) || *slots_held_for(&s->slots, job))
            continue;
        struct slot *slot = slots_place(&s->slots, job);
        if (slot && overtakes(s, slot, job, head))
            slot = NULL;
        if (!slot && !holds_up(job))
            continue;
        best = job;
        *ret = slot;
    }
    return best && *ret ? best : NULL;
}

static struct job *next_job(struct sched *s, struct slot **ret) {
    struct job *job = next_of(s, false, NULL, ret);
    if (job && slots_jobs(&s->slots, (*ret)->device)) {
        const struct job *head = first_waiting(s, true);
        job = overtakes(s, *ret, job, head) ? next_of(s, false, head, ret) : job;
    }
    return job ? job : next_of(s, true, NULL, ret);
}

/* The job is recorded as active first: a daemon that dies from here on charges it. */
static bool start(struct sched *s, struct slot *slot, struct job *job) {
    const struct job before = *job;
    struct err err;
    str_copy(job->on, sizeof job->on, slot->name ? slot->name : "");
    str_copy(job->device, sizeof job->device, slot->description ? slot->description : "");
    str_copy(job->versions, sizeof job->versions, s->config.versions ? s->config.versions : "");
    job->alone = s->slots.n > 1 && job->isolated;
    job->began_ms = sched_steady_ms(s);
    if (job_move(job, JOB_PREPARING, "", sched_wall_ms(s), &err) || ledger_start(&s->ledger, job, &before, &err))
        return false;
    sched_announce(s, job);
    slots_take(&s->slots, slot, job);
    return true;
}

static void leave_slot(struct sched *s, struct job *job) {
    slots_free(&s->slots, job);
    job->alone = false;
    job->on[0] = '\0';
}

/* The slot that start chose, of those that the job has. */
static int first_slot(struct sched *s, const struct job *job) {
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i].job == job && s->slots.at[i].name && !strcmp(s->slots.at[i].name, job->on))
            return i;
    return slots_index(&s->slots, slots_of(&s->slots, job));
}

void sched_started(void *ctx, struct job *job, int rc) {
    struct sched *s = ctx;
    struct err err;
    if (!slots_of(&s->slots, job))
        return;
    if (rc || s->draining) {
        const enum job_wish wish = job->wish;
        leave_slot(s, job);
        job->attempts -= rc != 0;
        sched_move(s, job, wish == JOB_WISH_CANCEL && !job->remote ? JOB_CANCELLED : JOB_QUEUED,
                   wish == JOB_WISH_CANCEL ? "cancelled"
                   : s->draining           ? "daemon_stopped"
                                           : "");
        return;
    }
    const int64_t limit = sched_read_demands(job).restarts;
    if (!s->config.run(s->config.worker, first_slot(s, job), job, &err)) {
        if (job->wish != JOB_WISH_NONE) /* meanwhile, or a cluster has it and is to end it */
            sched_interrupt(s, job, job->wish == JOB_WISH_CANCEL ? STOP_CANCEL : STOP_SHUTDOWN);
        return;
    }
    leave_slot(s, job);
    sched_restart(s, job, limit, err.message);
}

/* The device's job checkpoints and goes back to the queue; should the daemon be killed before that, no restart is charged. */
static void stop_running(struct sched *s, struct slot *slot, enum stop_reason why) {
    if (!slot->job)
        return;
    if (slot->job->wish == JOB_WISH_NONE) {
        slot->job->wish = JOB_WISH_SHUTDOWN;
        ledger_record(&s->ledger, slot->job);
    }
    sched_interrupt(s, slot->job, why);
}

/* A waiting job of higher priority gets a device, unless the running ones say otherwise or end already. */
static void preempt(struct sched *s) {
    char text[JOB_REASON_SIZE];
    const struct job *next = first_waiting(s, false);
    struct slot *victim = next && !slots_run_alone(&s->slots) ? slots_victim(&s->slots, next) : NULL;
    if (!victim)
        return;
    str_format(text, sizeof text,
               "job %s of priority %lld preempts this one of priority %lld, which is saved and goes on afterwards", next->id,
               (long long)next->priority, (long long)victim->job->priority);
    sched_log(s, victim->job, "info", text);
    stop_running(s, victim, STOP_PREEMPT);
}

/* A job that could share a device, but for its memory, says so; not stored. */
static void show_waits(struct sched *s) {
    char text[JOB_REASON_SIZE];
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        if (job->state != JOB_QUEUED || job->remote || (*job->reason && !job->short_of_memory))
            continue;
        slots_describe_wait(&s->slots, job, text, sizeof text);
        if (!strcmp(job->reason, text))
            continue;
        str_copy(job->reason, sizeof job->reason, text);
        job->short_of_memory = *text != '\0';
        sched_tell(s, job);
    }
}

/* The job that this one waited for has succeeded, and may be deleted from here on: the record says so. */
static void free_from_wait(struct sched *s, struct job *job) {
    const char *none = "after=null";
    char *overrides = job_overrides(job->overrides, &none, 1);
    if (!overrides)
        return; /* out of memory: at a later turn */
    free(job->overrides);
    job->overrides = overrides;
    job->after[0] = '\0';
    job->reason[0] = '\0';
    ledger_record(&s->ledger, job);
    sched_tell(s, job);
}

/* What has become of the jobs that others wait for. An interrupted one may yet go on. */
static void follow_waits(struct sched *s) {
    char reason[JOB_REASON_SIZE];
    for (int i = s->n_open - 1; i >= 0; i--) { /* jobs that end leave the list */
        struct job *job = s->open[i];
        const struct job *first = *job->after && job->state == JOB_QUEUED ? map_get(s->by_id, job->after) : job;
        if (first == job)
            continue;
        if (first && first->state == JOB_SUCCEEDED) {
            free_from_wait(s, job);
        } else if (!first || first->leaving || first->state == JOB_FAILED || first->state == JOB_CANCELLED) {
            str_format(reason, sizeof reason, "cancelled: it was to run after %s, which %s", job->after,
                       !first || first->leaving     ? "has been deleted"
                       : first->state == JOB_FAILED ? "has failed"
                                                    : "has been cancelled");
            sched_move(s, job, JOB_CANCELLED, reason);
        } else if (!*job->reason) {
            str_format(job->reason, sizeof job->reason, "waits for %s", job->after);
            sched_tell(s, job);
        }
    }
}

void sched_turn(struct sched *s) {
    struct slot *slot = NULL;
    struct job *job;
    db_writer_turn(s->ledger.writer);
    if (s->draining || s->ledger.broken)
        return;
    follow_waits(s);
    while (!slots_run_alone(&s->slots) && (job = next_job(s, &slot)))
        if (!start(s, slot, job))
            return;
    preempt(s);
    show_waits(s);
}

void sched_drain(struct sched *s) {
    s->draining = true;
    for (int i = 0; i < s->slots.n; i++)
        stop_running(s, &s->slots.at[i], STOP_SHUTDOWN);
}

void sched_hold(struct sched *s, int device, const char *why) {
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i].device == device)
            str_copy(s->slots.at[i].held, sizeof s->slots.at[i].held, why);
    for (int i = 0; i < s->n_open; i++) {
        struct job *job = s->open[i];
        const char *held = job->state == JOB_QUEUED ? slots_held_for(&s->slots, job) : "";
        if (!*held)
            continue;
        str_copy(job->reason, sizeof job->reason, held); /* not stored: another daemon may start it */
        sched_tell(s, job);
    }
    for (int i = 0; i < s->slots.n; i++)
        if (s->slots.at[i].device == device)
            stop_running(s, &s->slots.at[i], STOP_SHUTDOWN);
}
