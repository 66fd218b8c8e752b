/* upload: copies checkpoints of a running job to a store on its own thread, so that training continues meanwhile. A failure is
 * logged and does not end the job: the file stays in the job's folder. */
#pragma once
#include "daemon/models/source.h"

/* Called on the upload's thread with one line about a file. */
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
/* Queues the file at path. If too many files wait, the oldest is dropped and this is logged. Never blocks. */
void upload_add(struct upload *u, const char *path);
bool upload_idle(struct upload *u); /* no file waits or is being uploaded */
/* Cancels remaining uploads. NULL is allowed. */
void upload_close(struct upload *u);
