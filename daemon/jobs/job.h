/* job: the record of one piece of work and its states. Plain data owned by the loop thread; no RPC, no database. */
#pragma once

#include "work/task.h"

/* state, lower-case name, whether the user may resume the job */
#define JOB_STATES(X)                                                                                                              \
    X(QUEUED, "queued", false)                                                                                                     \
    X(PREPARING, "preparing", false)                                                                                               \
    X(RUNNING, "running", false)                                                                                                   \
    X(SUCCEEDED, "succeeded", false)                                                                                               \
    X(FAILED, "failed", true)                                                                                                      \
    X(CANCELLED, "cancelled", true)                                                                                                \
    X(INTERRUPTED, "interrupted", true)

enum job_state {
#define JOB_ENUM(name, text, resumable) JOB_##name,
    JOB_STATES(JOB_ENUM)
#undef JOB_ENUM
        JOB_STATE_COUNT
};

enum { JOB_ID_SIZE = 40, JOB_REASON_SIZE = 600, JOB_DEVICE_SIZE = 160, JOB_VERSIONS_SIZE = 600, JOB_OWNER_SIZE = 400 };

/* A request to a running job. It is stored before the request is acknowledged, so it holds after a crash too. */
enum job_wish { JOB_WISH_NONE, JOB_WISH_CANCEL, JOB_WISH_SHUTDOWN };

struct job {
    char id[JOB_ID_SIZE];          /* [a-z0-9-]+ */
    char *yaml, *file, *overrides; /* the job file; overrides: a JSON array of "a.b=value" */
    char *request_id;              /* chosen by the client, or "" */
    char kind[16], name[96];
    char owner[JOB_OWNER_SIZE]; /* the principal that submitted it; "" in records of earlier versions */
    int64_t priority;
    enum job_state state;
    char reason[JOB_REASON_SIZE];
    int64_t sequence; /* order of submission */
    int64_t created_ms, started_ms, finished_ms;
    int attempts;
    int restarts;       /* charged to limits.restarts since the job was submitted or resumed */
    int crashes;        /* number of these restarts charged because the daemon died while the job ran */
    int isolated;       /* 1: it ran when the daemon died, and runs alone until a checkpoint, a minute of progress or its end */
    int stalled;        /* number of these restarts since the newest checkpoint */
    int64_t retry_ms;   /* queued: not started before this time (Unix ms); 0 = at once */
    enum job_wish wish; /* active jobs only */
    char device[JOB_DEVICE_SIZE], versions[JOB_VERSIONS_SIZE]; /* of the newest attempt, or "" */
    char on[32];                                               /* active: the name of its device; not stored */
    char after[JOB_ID_SIZE];                                   /* queued: the job that it waits for, or ""; not stored */
    char wanted[32];                                           /* the device that the job file names; "" = any; not stored */
    int devices;                                               /* that share it; not stored */
    bool remote;                                               /* a cluster runs it, which wanted names; not stored */
    struct {
        char head[JOB_ID_SIZE];         /* the id of its first job */
        int index, size;                /* size 0: the job is in none */
        bool whole;                     /* all its jobs have been submitted */
        int64_t newest_ms;              /* when the newest of them was; 0 = before this daemon began */
    } array;                            /* with remote: jobs/array.h; not stored */
    struct jobfile_resources resources; /* with remote; not stored */
    bool preemptible;                   /* limits.preemptible; not stored */
    char source[256], fold[96];         /* data.source; the patients kept for a test, "2 of 8" or "p3, p7"; "": none; not stored */
    bool infers;                        /* of its kind: it may share a device; not stored */
    bool alone;                         /* active: isolated, and nothing else runs; not stored */
    bool short_of_memory;               /* queued: its reason says for which memory it waits; not stored */
    int64_t memory_bytes;               /* device memory that it needs; 0 = not known */
    int64_t kept_bytes;                 /* of models that its directory keeps for it (work/task.h) */
    int64_t paused_ms;  /* queued: when it began to wait for room on the cache volume; 0 = it does not wait. Not stored: a */
    int64_t room_bytes; /* daemon that starts tries at once. room_bytes: free bytes at that time */
    int64_t run_ms;     /* wall time of finished attempts */
    int64_t device_ms;  /* the same, each attempt times its devices */
    int64_t seen_ms;    /* active: started_ms and how long the attempt had run when that was recorded last */
    int64_t began_ms;   /* active: the start of the attempt by the steady clock. In memory only */
    double energy_j;    /* energy used by the device during finished attempts; NaN if the device does not report it */
    char directory[2048], data_root[2048];
    char *result;                  /* JSON of a finished job, or NULL */
    char best[4096], last[4096];   /* model files, or "" */
    int64_t saved_step;            /* of last, if there is one */
    int64_t first_step;            /* active: saved_step when the attempt began; not stored */
    struct task_progress progress; /* of the newest attempt; stored: step, steps, epoch, epochs, loss */
    int64_t files_bytes;           /* of the directory since the job ended; -1 = not measured; not stored */
    bool leaving;                  /* it is being removed from the database; not stored */
    bool unsaved;                  /* this state could not be written to the database yet; not stored */
};

struct job *job_new(void);
void job_free(struct job *job);
/* The model file that "job:ID" stands for: the best, else the last; "" if there is none, or only that of step 0, which has learned
 * nothing. */
const char *job_learned(const struct job *job);
const char *job_state_name(enum job_state state);
bool job_state_parse(const char *text, enum job_state *ret);
bool job_is_over(enum job_state state);   /* succeeded, failed, cancelled, interrupted */
bool job_is_active(enum job_state state); /* preparing, running */
bool job_may_resume(enum job_state state);
/* The order of the queue: by priority, then by submission. */
bool job_precedes(const struct job *a, const struct job *b);
/* The only function that changes a state. PRECONDITION names both states if the transition does not exist. reason may be "". */
int job_move(struct job *job, enum job_state to, const char *reason, int64_t now_ms, struct err *err);
/* Appends n overrides to those of `array` (NULL: none), whose overrides of the same keys they replace, and returns the new JSON
 * array; malloc'd, NULL when out of memory. */
char *job_overrides(const char *array, const char *const *more, int n);
/* Parses the JSON array of overrides; array and texts are allocated in the arena. INVALID, EXHAUSTED. */
int job_override_items(const char *array, struct arena *arena, char ***ret, int *ret_n, struct err *err);
/* Parses the job file `yaml` with a JSON array of overrides. INVALID, EXHAUSTED. */
int job_parse(const char *yaml, const char *file, const char *overrides, struct arena *arena, struct jobfile *ret, struct err *err);
