/* submission: turns a job file that a client sent into the record of a new job. References to recordings, models and stores are
 * resolved once, on submission; the record keeps the resolved files. What needs the daemon's tables comes first, on the loop; what
 * looks at files may wait for a volume and runs on any thread. */
#pragma once

#include "daemon/jobs/job.h"
#include "daemon/models/models.h"

/* A job file as it came; borrowed. */
struct submission {
    const char *yaml, *file; /* its text, and its name for errors */
    const char *request_id;  /* or "" */
    const char *owner;       /* the caller */
    const char *const *overrides;
    int n_overrides;
};

/* How references in a job file are resolved. */
struct submission_rules {
    const struct places *places; /* borrowed; copied when a job file comes */
    /* What the tables say about a model REF (models_refer). */
    int (*refer_model)(void *ctx, const char *ref, struct model_ref *ret, struct err *err);
    /* NOT_FOUND for a device that is not there; NULL: not looked at. */
    int (*find_device)(void *ctx, const char *name, struct err *err);
    int n_devices; /* of one kind that the daemon has at most; 0: not looked at */
    int (*find_executor)(void *ctx, const char *name, struct err *err); /* the same for clusters */
    /* Refuses what every attempt would refuse, before any file is looked at; NULL: nothing. */
    int (*check)(void *ctx, const struct jobfile *file, struct err *err);
    void *ctx;
    /* The device for which the memory of a job is estimated, when there are several to choose from; NULL: not estimated. */
    const char *estimate_device;
    int estimate_threads;
    /* What one caller's waiting jobs may keep of models (job.kept_bytes): kept_most of paths.results; 0: a share of its volume
     * (shared), or any. */
    int64_t kept_most;
    bool shared; /* callers have tokens, and each a share (base/principal.h) */
};

/* The models and files that a job file names, and its recordings. */
struct submission_refs {
    struct places places; /* of the client that sent it */
    int n;
    struct {
        struct jobfile_ref ref; /* borrowed from the job file */
        struct model_ref model;
        char path[LIVE_PATH]; /* the file; "" for the URL of an object, which is fetched when the job runs */
    } at[JOBFILE_MAX_REFS];
    char data_root[2048]; /* "" if the kind has none */
};
/* Checks the stores that the job file names, and looks its models up. Loop thread. Errors name the key: INVALID, NOT_FOUND. */
int submission_refer(const struct submission_rules *rules, const struct jobfile *file, struct submission_refs *ret,
                     struct err *err);
/* Looks at the files: completes the paths and data_root. Any thread; blocks. Errors name the key: INVALID, NOT_FOUND, DENIED,
 * RANGE. */
int submission_look(struct submission_refs *refs, const struct jobfile *file, struct err *err);

/* A job on its way into the queue. */
struct draft {
    struct job *job; /* NULL once the queue has it */
    struct arena arena;
    struct jobfile file;
    struct submission_refs refs;
    int n_overrides;
    const char *estimate_device; /* as in submission_rules */
    int estimate_threads;
    int64_t kept_most; /* as in submission_rules; once it is placed, the caller's share of it */
    bool shared;
    _Atomic int64_t *next; /* the number of the next job; borrowed */
};
/* Parses the job file. Any thread. */
int draft_parse(const struct submission *submission, int64_t now_ms, struct draft **ret, struct err *err);
/* submission_refer for the draft. Loop thread. */
int draft_refer(const struct submission_rules *rules, struct draft *d, struct err *err);
/* Both, without a look at any file. Loop thread. */
int draft_new(const struct submission_rules *rules, const struct submission *submission, int64_t now_ms, struct draft **ret,
              struct err *err);
/* Completes the record but for its number, id and directory. Any thread; blocks. Errors: those of submission_look, EXHAUSTED. */
int draft_look(struct draft *d, struct err *err);
/* Completes the record and makes the job's directory, with links to the models below paths.results that it names, so that none is
 * gone when it runs, and with the files that a task of an array reads there. Any thread; blocks. Errors: those of submission_look.
 */
int draft_place(struct draft *d, struct err *err);
/* EXHAUSTED, with the sizes: the models of the placed job, and those that the caller's other jobs keep by now, are beyond its
 * share. */
int draft_check_kept(const struct draft *d, int64_t others, struct err *err);
/* Removes the directory of a job that the queue did not take. Any thread; blocks. */
void draft_discard(struct draft *d);
void draft_free(struct draft *d); /* NULL is allowed */
/* Gives the job, whose time is set, the first number from *next on whose directory in DIR/jobs does not exist yet, and makes that
 * directory; number, id and directory are the job's then, and *next is beyond it. A directory that exists belongs to a job of
 * another database. Any thread; blocks. */
int submission_place(const char *results_dir, struct job *job, _Atomic int64_t *next, struct err *err);
