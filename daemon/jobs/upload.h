/* upload: checkpoints of a running job on their way to a store, by a thread of their own, so that training goes on. A failure is
 * told and does not end the job: the file stands in the job's folder. */
#ifndef BRR_DAEMON_JOBS_UPLOAD_H
#define BRR_DAEMON_JOBS_UPLOAD_H
#include "daemon/models/source.h"

/* Called on the upload's thread: one line about a file. */
typedef void upload_log_fn(void *ctx, enum task_level level, const char *text);

struct upload_config {
    const struct source_store *stores;
    int n_stores;
    const char *target; /* "store://NAME/prefix" */
    const char *job_id; /* files go to prefix/job_id/ */
    upload_log_fn *log;
    void *ctx;
};
struct upload;
int upload_open(const struct upload_config *config, struct upload **ret, struct err *err);
/* The file at path is next. When too many wait, the oldest is dropped, and that is told. Never blocks. */
void upload_add(struct upload *u, const char *path);
bool upload_idle(struct upload *u); /* nothing waits or is under way */
/* Cancels what is left. NULL is fine. */
void upload_close(struct upload *u);

#endif
