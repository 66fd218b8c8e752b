/* submission: turns a job file that a client sent into the record of a new job. References to
 * recordings, models and stores are resolved once, on submission; the record keeps the resolved files. Loop thread. */
#ifndef BRR_DAEMON_JOBS_SUBMISSION_H
#define BRR_DAEMON_JOBS_SUBMISSION_H
#include "daemon/jobs/job.h"
#include "daemon/models/places.h"

/* A job file as it came; borrowed. */
struct submission {
    const char *yaml, *file; /* its text, and its name for errors */
    const char *request_id;  /* or "" */
    const char *const *overrides;
    int n_overrides;
};

/* How references in a job file are resolved. */
struct submission_rules {
    const struct places *places; /* borrowed */
    /* The file of a model REF (models/models.h); path has 4096 bytes. */
    int (*resolve_model)(void *ctx, const char *ref, char *path, struct err *err);
    void *ctx;
};

/* Checks the stores of checkpoint.upload and data.source, and writes the job's recordings (places_source) to root, which is
 * unchanged if the kind has none. Errors: INVALID, NOT_FOUND, DENIED, RANGE. */
int submission_source(const struct submission_rules *rules, const struct jobfile *file, char *root, size_t size, struct err *err);
/* The file that a key of the job file names; "" for the URL of an object, which is fetched when the job runs. Errors name the key.
 */
int submission_resolve(const struct submission_rules *rules, const struct jobfile_ref *ref, char path[4096], struct err *err);
/* Fills the record from the submission and its parsed job file, all but its time and what its number decides. Errors: INVALID,
 * NOT_FOUND, DENIED and RANGE for what the file names, EXHAUSTED. */
int submission_fill(const struct submission_rules *rules, const struct submission *submission, const struct jobfile *file,
                    struct job *job, struct err *err);
/* Gives the job, whose time is set, the first number from *next on whose directory in DIR/jobs does not exist yet, and makes that
 * directory; number, id and directory are the job's then, and *next is the number after it. A directory that exists belongs to a
 * job of another database.
 */
int submission_place(const char *results_dir, struct job *job, int64_t *next, struct err *err);

#endif
