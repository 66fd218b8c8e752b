#include "daemon/jobs/slots.h"

int slots_index(const struct slots *s, const struct slot *slot) { return (int)(slot - s->at); }

struct slot *slots_of(struct slots *s, const struct job *job) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].job == job)
            return &s->at[i];
    return NULL;
}

bool slots_idle(const struct slots *s) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].job && !s->at[i].remote)
            return false;
    return true;
}

bool slots_run_alone(const struct slots *s) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].job && s->at[i].job->alone)
            return true;
    return false;
}

int slots_jobs(const struct slots *s, int device) {
    int n = 0;
    for (int i = 0; i < s->n; i++)
        n += s->at[i].job && s->at[i].device == device;
    return n;
}

/* Two jobs may share a device, if it has memory for both. */
static bool may_share(const struct job *a, const struct job *b) {
    return (a->infers || b->infers) && a->devices <= 1 && b->devices <= 1 && a->memory_bytes > 0 && b->memory_bytes > 0;
}

/* True if the job may share the slot's device with all jobs there but that of the slot itself. */
static bool suits(const struct slots *s, const struct slot *slot, const struct job *job) {
    for (const struct slot *other = s->at; other < s->at + s->n; other++)
        if (other != slot && other->device == slot->device && other->job && !may_share(other->job, job))
            return false;
    return true;
}

static bool may_use(const struct slot *slot, const struct job *job) {
    return *job->wanted ? slot->name && !strcmp(job->wanted, slot->name) : !slot->remote;
}

static const char not_there[] =
    "the job waits for a device or an executor that daemon.yaml does not list: resume it with that, or cancel it";
static const char too_few[] =
    "the job wants more devices of one kind than daemon.yaml lists: resume it with a smaller `devices`, or cancel it";

static const char *held_alone(const struct slots *s, const struct job *job) {
    const char *why = not_there;
    for (int i = 0; i < s->n; i++) {
        if (!may_use(&s->at[i], job))
            continue;
        if (!*s->at[i].held)
            return "";
        why = s->at[i].held;
    }
    return why;
}

/* A job of several devices has their first places, and no job beside it. */
static bool is_first(const struct slots *s, const struct slot *slot) {
    return !slot->remote && slot->device == slots_index(s, slot);
}

bool slots_same_kind(const char *a, const char *b) {
    const size_t len = strcspn(a, ":");
    return strcspn(b, ":") == len && !strncmp(a, b, len);
}

/* Why a job of several devices cannot have this one as its first, "" if it can, NULL if there are not so many of its kind. */
static const char *held_beside(const struct slots *s, const struct slot *first, const struct job *job) {
    const char *held = first->held;
    int all = 0, usable = 0;
    for (const struct slot *slot = s->at; slot < s->at + s->n; slot++) {
        if (!is_first(s, slot) || !slots_same_kind(slot->name, first->name))
            continue;
        all++;
        usable += !*slot->held;
        held = *held ? held : slot->held;
    }
    if (all < job->devices)
        return NULL;
    return usable < job->devices ? held : first->held;
}

static const char *held_together(const struct slots *s, const struct job *job) {
    const char *why = NULL, *otherwise = not_there;
    for (const struct slot *first = s->at; first < s->at + s->n; first++) {
        if (!is_first(s, first) || !may_use(first, job))
            continue;
        const char *held = held_beside(s, first, job);
        if (held && !*held)
            return "";
        why = held ? held : why;
        otherwise = too_few;
    }
    return why ? why : otherwise;
}

const char *slots_held_for(const struct slots *s, const struct job *job) {
    return job->devices > 1 ? held_together(s, job) : held_alone(s, job);
}

/* How the job fits into the device's memory. */
struct fit {
    bool now, ever;
    int64_t free_bytes;
};

static bool has_one_device(const struct slots *s) {
    for (int i = 1; i < s->n; i++)
        if (s->at[i].device)
            return false;
    return true;
}

static struct fit fit_of(const struct slots *s, const struct slot *slot, const struct job *job) {
    int64_t limit = INT64_MAX, free_bytes = INT64_MAX;
    if (s->room && !slot->remote)
        s->room(s->ctx, slot->device, &limit, &free_bytes);
    return (struct fit){
        .now = job->memory_bytes <= free_bytes, .ever = job->memory_bytes <= limit || has_one_device(s), .free_bytes = free_bytes};
}

/* True if a job may have this slot beside the first one, whoever has it now. */
static bool is_beside(const struct slots *s, const struct slot *slot, const struct slot *first) {
    return is_first(s, slot) && !*slot->held && slots_same_kind(slot->name, first->name);
}

/* True if so many devices beside the first one have enough memory, or would have if all else on them ended. */
static bool fits_ever(const struct slots *s, const struct slot *first, const struct job *job) {
    int n = 0;
    for (const struct slot *slot = s->at; slot < s->at + s->n; slot++)
        n += is_beside(s, slot, first) && fit_of(s, slot, job).ever;
    return n >= job->devices;
}

static bool fits_anywhere(const struct slots *s, const struct job *job) {
    for (const struct slot *first = s->at; first < s->at + s->n; first++)
        if (may_use(first, job) && is_beside(s, first, first) && fits_ever(s, first, job))
            return true;
    return false;
}

/* True if the job can have this slot beside the first one now. Memory counts only if so many devices can have enough at all. */
static bool is_free_beside(const struct slots *s, const struct slot *slot, const struct slot *first, const struct job *job,
                           bool fits) {
    return is_beside(s, slot, first) && !slots_jobs(s, slot->device) && (!fits || fit_of(s, slot, job).now);
}

/* The first of enough free devices of one kind. */
static struct slot *place_together(struct slots *s, const struct job *job) {
    const bool fits = fits_anywhere(s, job);
    for (struct slot *first = s->at; first < s->at + s->n; first++) {
        int n = 0;
        for (const struct slot *slot = s->at; slot < s->at + s->n; slot++)
            n += is_free_beside(s, slot, first, job, fits);
        if (may_use(first, job) && is_free_beside(s, first, first, job, fits) && n >= job->devices)
            return first;
    }
    return NULL;
}

void slots_take(struct slots *s, struct slot *first, struct job *job) {
    const bool fits = job->devices > 1 && fits_anywhere(s, job);
    int n = 1;
    for (struct slot *slot = s->at; slot < s->at + s->n && n < job->devices; slot++)
        if (slot != first && is_free_beside(s, slot, first, job, fits)) {
            slot->job = job;
            n++;
        }
    first->job = job;
    first->progress_ms = 0;
}

void slots_free(struct slots *s, const struct job *job) {
    for (struct slot *slot = s->at; slot < s->at + s->n; slot++)
        if (slot->job == job) {
            slot->job = NULL;
            slot->waits[0] = '\0';
        }
}

struct slot *slots_place(struct slots *s, const struct job *job) {
    if (job->devices > 1)
        return place_together(s, job);
    struct slot *best = NULL, *last_resort = NULL;
    int64_t most = INT64_MIN;
    int fewest = SLOTS_MAX;
    bool may_fit_later = false;
    for (struct slot *slot = s->at; slot < s->at + s->n; slot++) {
        if (!may_use(slot, job) || *slot->held || (slot->for_cancel && job->wish != JOB_WISH_CANCEL))
            continue;
        const struct fit fit = fit_of(s, slot, job);
        const int beside = slot->job ? SLOTS_MAX : slots_jobs(s, slot->device);
        may_fit_later |= beside && fit.ever;
        if (slot->job || !suits(s, slot, job))
            continue;
        if (!beside && !last_resort)
            last_resort = slot;
        if (!fit.now || beside > fewest || (beside == fewest && fit.free_bytes <= most))
            continue;
        best = slot;
        most = fit.free_bytes;
        fewest = beside;
    }
    return best ? best : may_fit_later ? NULL : last_resort;
}

/* Bytes that the jobs of the device need, or only those which infer. */
static int64_t job_bytes(const struct slots *s, int device, bool infer_only) {
    int64_t bytes = 0;
    for (int i = 0; i < s->n; i++)
        if (s->at[i].device == device && s->at[i].job && (s->at[i].job->infers || !infer_only))
            bytes += s->at[i].job->memory_bytes;
    return bytes;
}

bool slots_may_overtake(const struct slots *s, const struct slot *slot, const struct job *job, const struct job *earlier) {
    int64_t limit = INT64_MAX, free_bytes = INT64_MAX;
    if (slot->remote || !slots_jobs(s, slot->device) || !may_use(slot, earlier))
        return true;
    if (s->room)
        s->room(s->ctx, slot->device, &limit, &free_bytes);
    const int64_t others = limit - free_bytes - job_bytes(s, slot->device, false); /* models and networks */
    const int64_t beside = job_bytes(s, slot->device, true) + job->memory_bytes + (others > 0 ? others : 0);
    return earlier->memory_bytes > limit || (may_share(job, earlier) && earlier->memory_bytes <= limit - beside);
}

void slots_describe_wait(const struct slots *s, const struct job *job, char *buf, size_t size) {
    *buf = '\0';
    for (const struct slot *slot = s->at; slot < s->at + s->n && s->room; slot++) {
        if (slot->remote || slot->job || *slot->held || !may_use(slot, job) || !slots_jobs(s, slot->device) || !suits(s, slot, job))
            continue;
        const struct fit fit = fit_of(s, slot, job);
        if (!fit.now)
            str_format(buf, size, "waits for memory of %s: it needs %.2f GiB, and %.2f GiB are free beside the jobs that run there",
                       slot->name, (double)job->memory_bytes / (1 << 30),
                       (double)(fit.free_bytes > 0 ? fit.free_bytes : 0) / (1 << 30));
        return;
    }
}

static bool gives(const struct job *job, const struct job *next) {
    return !job || job->wish != JOB_WISH_NONE || (job->preemptible && next->priority > job->priority);
}

/* True if the slot's device is free for `next`, or would be after all that runs there has ended or made room. */
static bool can_give(const struct slots *s, const struct slot *slot, const struct job *next) {
    for (int i = 0; i < s->n; i++)
        if (s->at[i].device == slot->device && !gives(s->at[i].job, next))
            return false;
    return fit_of(s, slot, next).ever;
}

/* True if `next` needs the slot's device for itself: no single job there can make room. */
static bool needs_all(const struct slots *s, const struct slot *slot, const struct job *next) {
    for (const struct slot *other = s->at; other < s->at + s->n; other++)
        if (other->device == slot->device && gives(other->job, next) && suits(s, other, next))
            return false;
    return true;
}

/* True if it helps `next` that the slot's job makes room, with as many devices beside it as it wants. */
static bool helps(const struct slots *s, const struct slot *slot, const struct job *next) {
    if (next->devices <= 1)
        return may_use(slot, next) && (suits(s, slot, next) || (needs_all(s, slot, next) && can_give(s, slot, next)));
    for (const struct slot *first = s->at; first < s->at + s->n; first++) {
        int n = 0;
        if (!may_use(first, next) || !is_beside(s, first, first) || !is_beside(s, &s->at[slot->device], first) ||
            !can_give(s, first, next))
            continue;
        for (const struct slot *other = s->at; other < s->at + s->n; other++)
            n += is_beside(s, other, first) && can_give(s, other, next);
        if (n >= next->devices)
            return true;
    }
    return false;
}

struct slot *slots_victim(struct slots *s, const struct job *next) {
    struct slot *victim = NULL;
    for (struct slot *slot = s->at; slot < s->at + s->n; slot++) {
        const struct job *job = slot->job;
        if (!job || slot->remote || *slot->held || !helps(s, slot, next) || !fit_of(s, slot, next).ever)
            continue;
        if (job->wish != JOB_WISH_NONE)
            return NULL;
        if (job->preemptible && next->priority > job->priority && (!victim || job_precedes(victim->job, job)))
            victim = slot;
    }
    return victim;
}
