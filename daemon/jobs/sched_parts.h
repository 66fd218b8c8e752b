/* sched_parts: the state of the scheduler, for sched.c (the table of jobs, and what clients ask of it), sched_turn.c (which job
 * runs where) and sched_attempts.c (how an attempt at a job goes and ends); nobody else includes it. Loop thread. */
#pragma once
#include "base/trusted_time.h"
#include "daemon/jobs/ledger.h"
#include "daemon/jobs/sched.h"

/* Retry a paused job once PAUSE_ROOM_BYTES more are free, at least PAUSE_MIN_MS after the pause; after PAUSE_MAX_MS retry it in any
 * case, because pins may have gone. */
enum { PAUSE_ROOM_BYTES = 1 << 20, PAUSE_MIN_MS = 2000, PAUSE_MAX_MS = 60000 };
/* The delay before a charged restart: the first one, doubled for each restart that brought no checkpoint. */
enum { BACKOFF_FIRST_MS = 2000, BACKOFF_MAX_MS = 300000 };

/* The time of a running attempt is recorded so often: a crash of the daemon loses no more of it. */
enum { SEEN_EVERY_MS = 60000 };

enum { SCHED_JOB_FILE_BYTES = 16 << 20, SCHED_ENDED_READ = 100 /* as many as the pages list */ };

#define SCHED_CANCELLED_ELSEWHERE "cancelled: it is being ended"

struct sched {
    struct sched_config config;
    struct slots slots;
    struct ledger ledger;
    struct volume *cache; /* its volume */
    struct trusted_time time;
    struct job **jobs; /* order of submission */
    struct job **open; /* the jobs that have not ended, which are few */
    int count, n_open, capacity;
    struct map *by_id;
    _Atomic int64_t next_sequence; /* drafts count it up */
    bool draining;
};

int64_t sched_wall_ms(const struct sched *s);
int64_t sched_steady_ms(const struct sched *s);
/* Calls config.changed. */
void sched_tell(struct sched *s, const struct job *job);
/* Logs the job's new state, and calls config.changed. */
void sched_announce(struct sched *s, const struct job *job);
/* Adds a line to the job's log. */
void sched_log(struct sched *s, const struct job *job, const char *level, const char *text);
/* Takes the job's demands of devices from its file. */
void sched_take_demands(struct job *job, const struct jobfile *file);
/* Reads the job's demands of devices into the job, and returns its limits; zeros if its file can no longer be read. */
struct jobfile_limits sched_read_demands(struct job *job);
/* To be called after each change of the job's state: keeps the list of open jobs. */
void sched_list_open(struct sched *s, struct job *job);
/* Records a change of state that has happened. */
void sched_move(struct sched *s, struct job *job, enum job_state to, const char *reason);
/* The same for a queued job that starts no sooner than retry_ms (wall clock). */
void sched_move_until(struct sched *s, struct job *job, enum job_state to, const char *reason, int64_t retry_ms);
/* Interrupts the job on each of its devices. */
void sched_interrupt(struct sched *s, const struct job *job, enum stop_reason why);

/* In sched_turn.c: a start is recorded, or cannot be; ctx is the scheduler. */
void sched_started(void *ctx, struct job *job, int rc);

/* In sched_attempts.c: */

/* Charges a restart: the job waits, longer each time that it made no progress; above its limit it has failed. */
void sched_restart(struct sched *s, struct job *job, int64_t limit, const char *reason);
/* Records at intervals that active jobs go on. */
void sched_see_jobs(struct sched *s);
/* Queues, fails or cancels each job that was active when the daemon ended, and counts the time of its attempt. */
void sched_recover(struct sched *s);
