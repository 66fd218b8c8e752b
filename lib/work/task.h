/* task: a job's work as plain code behind one small vtable, whatever its kind. A task knows data, models and its own output
 * directory; it knows nothing of queues, RPC or processes. One thread runs it from open to close, and may block in files. Between
 * pieces of work (one micro-batch, one recording of a validation) it calls task_point, where its owner saves and ends it. */
#pragma once

#include "base/json.h"
#include "base/world.h"
#include "kernels/device.h"
#include "work/file_cell.h"
#include "work/report.h"

struct estimate_config;
struct estimate;

struct manifest_source;

/* A model file that a job names. */
struct task_model {
    char path[4096];
    char sha256[65]; /* of the file */
};

/* Everything a task may touch, given by its owner. Callbacks do not block for long; they are called on the task's thread. */
struct task_env {
    struct device *device;
    const char *version;   /* of the program, for what the files of the task say about themselves; NULL: they say none */
    const char *directory; /* the job's own output folder, exists, without files that a kill has left half written
                            * (fsio_remove_temporaries); checkpoints/ metrics.jsonl report.json … go here */
    bool contended;        /* another process may still write into the folder, such as an attempt on a node that was cut off */
    const char *cache_dir; /* window cache volume */
    struct cache *cache;   /* bounds its windows (windows/window.h); NULL: no limit */
    const char *data_root; /* absolute directory with the recordings; already confined by the owner */
    struct mirror *mirror; /* whose tree data_root is (store/mirror.h): recordings are taken from it; NULL: they are there */
    const struct manifest_source *sources; /* (n_sources) those of job->data with their mirrors, where a job has several and some
                                            * are in stores; data_root is a text for people then */
    int n_sources;
    struct world *world;        /* the ranks that share the task (base/world.h), if its kind can be shared; NULL: none */
    int64_t memory_limit_bytes; /* refuse before start what needs more; 0 = no limit */
    atomic_bool *stop;          /* set by the owner: return from long preparation soon with ERR_CANCELLED */
    void *ctx;
    task_report_fn *report;  /* NULL: nobody listens */
    struct file_cell *file;  /* task_file; NULL: nobody looks */
    struct turn_at turn;     /* of the task's stream among the jobs of the device; none: it has the device for itself */
    struct profile *profile; /* times the ops of task_stream (kernels/profile.h); NULL: nobody wants to know */
    /* task_point. NULL: the task is never stopped, and nothing is saved but what `run` saves by itself. */
    int (*point)(void *ctx, struct err *err);
    /* The object "store://NAME/KEY" as it is now; the file stays until the next call or the end of the task. NULL: there are no
     * stores. */
    int (*model)(void *ctx, const char *url, struct task_model *ret, struct err *err);
};

enum { TASK_STOP = 1 }; /* what task_point and `run` return when the owner ends the task; no error, and nothing is in *err */

/* The functions of a kind: one row per kind beside its struct task_kind (kind.h). All but estimate belong to the task's thread. */
struct task_work {
    /* Prepare: data, model, newest valid checkpoint of env->directory if there is one (resume). On failure nothing is left.
     * job->config is the kind's configuration; job outlives the task. */
    int (*open)(const struct jobfile *job, const struct task_env *env, void **ret_task, struct err *err);
    /* The work, to its end: 0, TASK_STOP from a task_point, or an error. */
    int (*run)(void *task, struct err *err);
    /* Make the present state durable (model and state file); called from a task_point. NULL: what is finished is durable. */
    int (*checkpoint)(void *task, struct err *err);
    /* The result object of a finished task, one JSON object. */
    void (*result)(void *task, struct json_writer *w, const char *key);
    void (*close)(void *task); /* NULL is fine */
    /* Estimates memory and time of such a job (estimate.h). Any thread; opens a device of its own. NULL: no estimate. */
    int (*estimate)(const struct estimate_config *config, struct estimate *ret, struct err *err);
    /* What no attempt on such a device could do, by the job file alone: asked when a job is submitted or validated. NULL: nothing.
     */
    int (*check)(const struct jobfile *job, const struct device_info *device, struct err *err);
    bool shares;         /* ranks can share such a task: its points are called by all of them together */
    bool estimates_time; /* estimate measures how long the job takes: its time limit is checked when it is submitted */
};

/* All rows, beside those of task_kinds. */
extern const struct task_work *const task_works[];
const struct task_work *task_work_of(const struct task_kind *kind);

/* work->check, and whether so many ranks can share such a job; device: NULL if it is not known. Any thread. UNSUPPORTED, INVALID.
 */
int task_check(const struct jobfile *job, const struct device_info *device, int ranks, struct err *err);

/* ---- for tasks: reports to their owner, and the files they open ---- */

/* A place where the task is whole. Its owner saves it when a checkpoint is due, or before it ends. 0: go on. TASK_STOP: end; return
 * it as an error would be returned. An error: the checkpoint could not be written. */
static inline int task_point(const struct task_env *env, struct err *err) { return env->point ? env->point(env->ctx, err) : 0; }
/* Names the file or folder that the task is about to read, write or wait for; NULL: none any more. People are shown the path when
 * the volume does not answer. */
static inline void task_file(const struct task_env *env, const char *path) {
    if (env->file)
        file_cell_set(env->file, path);
}
/* Opens the stream that the task computes on. */
int task_stream(const struct task_env *env, struct stream **ret, struct err *err);
/* Reports to the owner; 0 if nobody listens. */
static inline int task_tell(const struct task_env *env, const struct task_report *report) {
    return env->report ? env->report(env->ctx, report) : 0;
}
/* A line of the job's log. Longer texts are cut. */
void task_log(const struct task_env *env, enum task_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static inline void task_progressed(const struct task_env *env, const struct task_progress *p) {
    task_tell(env, &(struct task_report){.kind = TASK_PROGRESS, .progress = p});
}
/* Sets the phase and its counts, and reports them. False when the owner wants the task to end: nothing more is fetched from its
 * store then, and the task returns ERR_CANCELLED soon. */
bool task_phase(const struct task_env *env, struct task_progress *p, const char *phase, int64_t done, int64_t total);

/* True if recordings are fetched while the task runs. */
bool task_is_mirrored(const struct task_env *env);
/* Ends the fetching: recordings that are not here yet fail. */
void task_stop_mirrors(const struct task_env *env);

/* True if the model reference is the URL of an object. task_model_find gives the file of a model named by URL or path. */
bool task_model_is_url(const char *ref);
int task_model_find(const struct task_env *env, const char *ref, struct task_model *ret, struct err *err);
/* The name of a link in the job's directory to the model of this path, which the owner of the job may make: task_model_find finds
 * the model there when the path is gone. They lie in a folder of their own, TASK_KEPT. False: a path is too long. */
#define TASK_KEPT "kept"
bool task_kept_model(const char *directory, const char *path, char ret[4096]);
