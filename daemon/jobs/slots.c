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

struct slot *slots_place(struct slots *s, const struct job *job) {
    struct slot *best = NULL, *last_resort = NULL;
    int64_t most = INT64_MIN;
    bool may_fit_later = false;
    for (struct slot *slot = s->at; slot < s->at + s->n; slot++) {
        if (!may_use(slot, job) || *slot->held)
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
