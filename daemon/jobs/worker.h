/* worker: a thread of jobs, of a device or of a place in a cluster. It runs them one at a time (jobs/executor.h) and reports to the
 * loop through a mailbox. A volume that does not answer holds up its job alone. Nice +10. Loop thread only, except where noted. */
#pragma once
#include "base/mailbox.h"
#include "daemon/jobs/executor.h"
#include "daemon/jobs/job.h"

/* A report of the running job, on its way to the loop; free with worker_report_free. */
struct worker_report {
    struct message message;
    char job_id[JOB_ID_SIZE];
    struct task_report report; /* its pointers point to the members below */
    struct task_progress progress;
    struct task_checkpoint checkpoint;
    struct task_end end;
    char *text;
};
void worker_report_free(struct worker_report *r);

struct worker_config {
    struct runner_config runner;     /* its device must outlive the worker */
    const struct executor *executor; /* NULL: executor_local */
    struct executor_places places;
    struct file_cell *file; /* of executor_process, in the memory that it shares; NULL: the worker's own */
    mailbox_wake_fn *wake;  /* called on the worker's thread when reports are waiting */
    void *wake_ctx;
};
struct worker;
/* Returns when the thread is ready or has failed. */
int worker_start(const struct worker_config *config, struct worker **ret, struct err *err);
/* Stops a running task as for shutdown and joins the thread. */
void worker_stop(struct worker *w);
/* Starts a job; PRECONDITION while another job runs. The worker copies the parts of `job` that it needs. */
int worker_run(struct worker *w, const struct job *job, struct err *err);
/* The same for a job that its cluster gets as a task of an array, which is copied. */
int worker_run_array(struct worker *w, const struct job *job, const struct runner_array *array, struct err *err);
/* The same for n workers that share the job as ranks of one world (base/world.h), each with a device. The first one reports; the
 * end is reported when the last one has ended. */
int worker_run_shared(struct worker *const *team, int n, const struct job *job, struct err *err);
/* Asks the running task to end soon; it writes a checkpoint first, except for a cancel. */
void worker_interrupt(struct worker *w, enum stop_reason why);
/* Writes "waits for PATH since TIME" if the running task has been in the same file or folder for at least_ms, else "". */
void worker_waits(struct worker *w, int64_t at_least_ms, char *buf, size_t size);
struct worker_report *worker_take(struct worker *w);       /* NULL if no report is waiting */
int64_t worker_default_wall_clock(const struct worker *w); /* time limit in ms of an attempt of a job without a limit; -1 = none */
