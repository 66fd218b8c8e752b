/* slots: the places of jobs on the devices and in clusters, as the scheduler sees them, one job on each at most: which of them a
 * waiting job may have, and which running job makes room for another. A device has several places: there one job of any kind runs
 * beside jobs that infer, if the memory that each needs is known and they all fit. It changes nothing but its own fields. Loop
 * thread. */
#pragma once
#include "daemon/jobs/job.h"

enum { SLOTS_MAX = 120 /* 16 devices of 4 places, 56 places in clusters */ };

/* A place on a device, or in a cluster, whose name it has. */
struct slot {
    int device;                     /* the first place of the device, or the place itself */
    bool remote;                    /* a place in a cluster: for jobs that name it alone */
    bool for_cancel;                /* remote: only for jobs that the cluster has and that are to be cancelled */
    const char *name, *description; /* "cuda:0"; recorded with each job that runs there; borrowed */
    struct job *job;                /* that runs there, or NULL */
    int64_t progress_ms;            /* its first progress behind preparing, by the scheduler's steady clock; 0: none yet */
    char held[JOB_REASON_SIZE];     /* why nothing starts there, or "" */
    char waits[JOB_REASON_SIZE], notice[JOB_REASON_SIZE]; /* sched_waits, and the reason that it replaced */
};

struct slots {
    struct slot at[SLOTS_MAX];
    int n;
    /* Device memory in bytes that jobs may use at all, and that a job could have now; device: its first place. NULL: no job waits
     * for memory. */
    void (*room)(void *ctx, int device, int64_t *ret_limit, int64_t *ret_free);
    void *ctx;
};

int slots_index(const struct slots *s, const struct slot *slot);
struct slot *slots_of(struct slots *s, const struct job *job); /* the first slot where the job runs, or NULL */
bool slots_idle(const struct slots *s);                        /* no job is on a device of this daemon */
bool slots_run_alone(const struct slots *s);                   /* a job runs that must run alone (job->alone) */
/* Returns why the job could not run even if all other jobs ended: the devices that it may use are held, or there are none, or too
 * few of one kind. Returns "" if the job only waits for its turn. */
const char *slots_held_for(const struct slots *s, const struct job *job);
/* "cuda" of "cuda:1": a job of several devices gets them of one kind. */
bool slots_same_kind(const char *a, const char *b);
/* The place that a waiting job gets now, or NULL: it waits. Of the devices that have enough memory one with the fewest jobs, and of
 * these the one with the most free memory; the first of several. A job for which no device has enough, whatever ends, gets one that
 * is free all the same: there it fails and says what it needs. */
struct slot *slots_place(struct slots *s, const struct job *job);
int slots_jobs(const struct slots *s, int device); /* running jobs of the device */
/* True if `job` may start on the slot although `earlier` waits: it would not keep that one waiting after the others have ended. */
bool slots_may_overtake(const struct slots *s, const struct slot *slot, const struct job *job, const struct job *earlier);
/* Says why a job that may share a device waits for memory, "" if it waits for something else. */
void slots_describe_wait(const struct slots *s, const struct job *job, char *buf, size_t size);
/* The job is at work on the slot that slots_place gave, and on as many others as it wants. */
void slots_take(struct slots *s, struct slot *first, struct job *job);
void slots_free(struct slots *s, const struct job *job); /* it has ended */
/* The slot whose job, of lowest priority, makes room for `next`; NULL: none does, or one does already. A job that wants several
 * devices gets room only where enough of one kind can be had. */
struct slot *slots_victim(struct slots *s, const struct job *next);
