/* kind: one row per kind of job ("train", "evaluate", …): everything that the job file, the client and the daemon must know of it
 * before it runs. The work itself stands beside it as a row of its own (struct task_work, task.h), so that the client carries no
 * kernels. A kind is added by a file that defines both rows, kind_NAME and work_NAME (two files where the work needs kernels), and
 * a line in kinds.def. Constant data; any thread. */
#pragma once

#include "base/base.h"
#include "base/json.h"
#include "base/metrics.h"
#include "base/options.h"

struct jobfile;

/* The recordings that the kind reads. If it reads any, its rows hold data.source (job_data.h). */
enum kind_recordings {
    KIND_NO_RECORDINGS,
    KIND_RECORDINGS,        /* data.source is a folder */
    KIND_RECORDINGS_OR_ONE, /* data.source may also be one recording of a store */
};

/* A table of the kind's keys, often shared with other kinds, and where in the kind's configuration its rows write. */
struct kind_keys {
    const struct option_table *table; /* NULL ends the list */
    size_t offset;
};

enum kind_metric_source {
    KIND_METRIC_VALUE,      /* gauge, label job_id: the double at `offset`, from the first step to the end of the attempt */
    KIND_METRIC_STEPS,      /* counter: steps done */
    KIND_METRIC_STEP_TIME,  /* histogram: seconds of a step */
    KIND_METRIC_FIRST_STEP, /* histogram: seconds from the start of an attempt to the end of its first step */
};

/* A family of /metrics that running jobs of the kind feed. */
struct kind_metric {
    enum kind_metric_source source;
    size_t offset;               /* into struct task_progress */
    struct metric_family family; /* name NULL ends the list */
};

struct task_kind {
    const char *name; /* [a-z]+, at most 15 bytes */
    const char *help; /* one line */
    /* Its keys beside those of every job (kind, name, priority, limits). OPTION_MODEL and OPTION_PATH rows are resolved when the
     * job is submitted; the client makes their relative paths absolute. */
    const struct kind_keys *keys;
    const char *step; /* name of its steps: "tick"; NULL = "step" */
    bool checkpoints; /* it has checkpoints of its own: checkpoint.* and limits.auto_resume are keys too */
    enum kind_recordings recordings;
    bool infers;         /* it may share a device with one other job, or with several that infer too (kernels/turns.h) */
    bool events;         /* it keeps the events of each recording for clients (Jobs.Events) */
    const char *fixed;   /* why it lacks keys of other kinds, for that error: "its windows come from …"; may be NULL */
    size_t config_bytes; /* of the kind's configuration, which the keys write into */
    /* After the keys were read into job->config: checks them and derives the rest. With recordings it calls job_data_read. May be
     * NULL. INVALID with what was expected. Texts for people through jobfile_note. */
    int (*config)(struct jobfile *job, struct arena *arena, struct err *err);
    const struct kind_metric *metrics; /* may be NULL */
    /* The result object in a few words, for the line that says how a job ended. May be NULL. */
    void (*summary)(const struct json *result, char *buf, size_t size);
};

/* All rows, in the order of kinds.def. */
extern const struct task_kind *const task_kinds[];
extern const int task_kind_count;

const struct task_kind *task_kind_find(const char *name); /* NULL when unknown */
/* "train, evaluate or detect". Returns buf. */
const char *task_kind_names(char *buf, size_t size);
