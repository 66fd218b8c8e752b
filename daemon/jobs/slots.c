#include "daemon/jobs/slots.h"

#include <string.h>

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

static bool may_use(const struct slot *slot, const struct job *job) {
    return *job->wanted ? slot->name && !strcmp(job->wanted, slot->name) : !slot->remote;
}

static const char not_there[] =
    "the job waits for a device or an executor that daemon.yaml does not list: resume it with that, or cancel it";

const char *slots_held_for(const struct slots *s, const struct job *job) {
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

/* How the job fits into the device's memory. */
struct fit {
    bool now, ever;
    int64_t free_bytes;
};

static struct fit fit_of(const struct slots *s, const struct slot *slot, const struct job *job) {
    int64_t limit = INT64_MAX, free_bytes = INT64_MAX;
    if (s->room && !slot->remote)
        s->room(s->ctx, slots_index(s, slot), &limit, &free_bytes);
    return (struct fit){
        .now = job->memory_bytes <= free_bytes, .ever = job->memory_bytes <= limit || s->n == 1, .free_bytes = free_bytes};
}

/* "cuda" of "cuda:1". */
static bool same_kind(const struct slot *a, const struct slot *b) {
    const size_t len = strcspn(a->name, ":");
    return strcspn(b->name, ":") == len && !strncmp(a->name, b->name, len);
}

/* True if the job could have this slot beside the first one. */
static bool is_free_beside(const struct slots *s, const struct slot *slot, const struct slot *first, const struct job *job) {
    return !slot->remote && !slot->job && !*slot->held && same_kind(slot, first) && fit_of(s, slot, job).now;
}

/* The first of enough free devices of one kind. */
static struct slot *place_together(struct slots *s, const struct job *job) {
    for (struct slot *first = s->at; first < s->at + s->n; first++) {
        int n = 0;
        for (const struct slot *slot = s->at; slot < s->at + s->n; slot++)
            n += is_free_beside(s, slot, first, job);
        if (may_use(first, job) && is_free_beside(s, first, first, job) && n >= job->devices)
            return first;
    }
    return NULL;
}

void slots_take(struct slots *s, struct slot *first, struct job *job) {
    int n = 1;
    for (struct slot *slot = s->at; slot < s->at + s->n && n < job->devices; slot++)
        if (slot != first && is_free_beside(s, slot, first, job)) {
            slot->job = job;
            n++;
        }
    first->job = job;
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
    bool may_fit_later = false;
    for (struct slot *slot = s->at; slot < s->at + s->n; slot++) {
        if (!may_use(slot, job) || *slot->held || (slot->for_cancel && job->wish != JOB_WISH_CANCEL))
            continue;
        struct fit fit = fit_of(s, slot, job);
        may_fit_later |= slot->job && fit.ever;
        if (slot->job)
            continue;
        last_resort = last_resort ? last_resort : slot;
        if (!fit.now || fit.free_bytes <= most)
            continue;
        best = slot;
        most = fit.free_bytes;
    }
    return best ? best : may_fit_later ? NULL : last_resort;
}

struct slot *slots_victim(struct slots *s, const struct job *next) {
    struct slot *victim = NULL;
    for (struct slot *slot = s->at; slot < s->at + s->n; slot++) {
        const struct job *job = slot->job;
        if (!job || slot->remote || *slot->held || !may_use(slot, next) || !fit_of(s, slot, next).ever)
            continue;
        if (job->wish != JOB_WISH_NONE)
            return NULL;
        if (job->preemptible && next->priority > job->priority && (!victim || job_precedes(victim->job, job)))
            victim = slot;
    }
    return victim;
}
