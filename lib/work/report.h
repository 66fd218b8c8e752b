/* report: what a task, or an attempt at a job, tells its owner while it runs: one struct, whether the work is done on a thread of
 * this process, in a child or in a cluster. report_line.h writes and reads it as JSON. Plain data. */
#pragma once

#include "work/jobfile.h"

enum { TASK_MAX_FIGURES = 6 };

/* Progress of a task; fixed size, copied whole. NaN = unknown. */
struct task_progress {
    char phase[24]; /* "cache" "train" "validate" "evaluate" "detect" */
    int64_t step, steps, epoch, epochs;
    int64_t done, total; /* within a phase that counts files or recordings */
    double loss, validation_loss, learning_rate, gradient_norm, windows_per_s, data_wait_ratio, eta_s;
    double metric;
    char metric_name[32];
    int64_t nonfinite_steps;
    double step_s; /* duration of the newest step */
    struct {       /* further figures of the kind, in the order people see them; name "" ends them */
        char name[24];
        double value;
    } figures[TASK_MAX_FIGURES];
};

/* Nothing known yet. */
void task_progress_init(struct task_progress *p);

enum task_level { TASK_INFO, TASK_WARN, TASK_ERROR, TASK_LEVELS };
extern const char *const task_level_names[TASK_LEVELS];

struct task_checkpoint {
    char path[4096]; /* model file */
    char sha256[65];
    int64_t step, epoch, bytes;
    double metric; /* NaN = not validated */
    char metric_name[32];
    bool best, last;
    double write_s;
};

/* Why an attempt is to end before its work is done. For all but STOP_CANCEL the work is saved first. */
enum stop_reason {
    STOP_NONE,
    STOP_CANCEL,
    STOP_TIME_LIMIT,
    STOP_SHUTDOWN,
    STOP_PREEMPT,
    STOP_SAVE_AND_CANCEL,
    STOP_COST_LIMIT,
    STOP_REASONS
};
static inline bool stop_is_cancel(enum stop_reason why) { return why == STOP_CANCEL || why == STOP_SAVE_AND_CANCEL; }

/* How an attempt ended. */
struct task_end {
    int rc; /* 0: done or stopped; else err */
    struct err err;
    enum stop_reason stopped; /* NONE: done or failed */
    bool has_checkpoint;
    struct jobfile_limits limits; /* of the job file; zeros if it could not be read */
    double energy_j;              /* used by the device; NaN if it does not report it */
    char *result;                 /* of finished work, one JSON object; whoever gets the report may take it and leave NULL */
};

enum task_report_kind {
    TASK_RUNNING,    /* preparation is finished */
    TASK_PROGRESS,   /* progress; may be dropped */
    TASK_LOG,        /* level, text: a line of the log */
    TASK_NOTICE,     /* text: about the job, for people */
    TASK_CHECKPOINT, /* checkpoint: written and verified. May be refused; the work then ends, and reports it again when resumed */
    TASK_END         /* end; the last report of an attempt. Tasks do not report their own */
};

/* All pointers are borrowed for the time of the call. */
struct task_report {
    enum task_report_kind kind;
    enum task_level level;
    const char *text;
    const struct task_progress *progress;
    const struct task_checkpoint *checkpoint;
    struct task_end *end;
};

/* Takes a report, on the thread of the work, and does not block for long. Not 0: refused. */
typedef int task_report_fn(void *ctx, const struct task_report *report);
