/* jobfile: a job file (brrctl submit FILE) as plain data: what every kind of job has, and the configuration of its own kind, which
 * its row of kind.h reads. Unknown keys, keys of other kinds, wrong types and values out of range are errors with
 * file:line:column and the nearest known key. Everything lives in the arena given. Any thread. */
#pragma once

#include "base/arena.h"
#include "work/kind.h"

enum {
    JOBFILE_MAX_OVERRIDES = 256,
    JOBFILE_MAX_TABLES = 16,
    JOBFILE_MAX_NOTES = 8,
    JOBFILE_MAX_REFS = 8,
    JOBFILE_MAX_ARRAY = 1000
};

/* True if a variable of the environment, which some keys of a job file have beside them, is exactly "1". */
static inline bool jobfile_env_is_one(const char *name) {
    const char *value = getenv(name);
    return value && !strcmp(value, "1");
}

struct jobfile_limits {
    int64_t wall_clock_ms, restarts;
    double cost; /* of all attempts, in the daemon's currency; 0: no limit */
    bool auto_resume, preemptible;
};

/* What a job needs of a cluster. */
struct jobfile_resources {
    int64_t nodes, ranks, cpus_per_rank, gpus_per_rank;
    int64_t time_ms; /* -1: the cluster's */
};

struct jobfile {
    const char *file;             /* name for messages */
    const char *yaml;             /* the text it was read from, before overrides */
    const struct yaml_node *root; /* the tree, overrides applied */
    const struct task_kind *kind;
    const char *written_kind; /* its name */
    const char *name;
    const char *after;    /* the id of a job that must succeed first; NULL: none */
    const char *device;   /* "cuda:1"; NULL: any */
    int64_t devices;      /* that share the job */
    const char *executor; /* the cluster that runs it; NULL: the daemon */
    struct jobfile_resources resources;
    struct {
        int64_t size, index; /* 0: none */
        const char *head;    /* the id of its first job; NULL: this one */
    } array;                 /* jobs that a cluster gets together */
    int64_t priority;
    struct jobfile_limits limits;
    struct {
        int64_t every_ms, keep; /* 0 without checkpoints of its own */
        const char *upload;     /* "store://NAME/prefix"; NULL or "none": nowhere */
    } checkpoint;
    void *config;                /* the kind's own; config_bytes */
    const struct job_data *data; /* within config; NULL: the kind reads no recordings */
    const char *notes[JOBFILE_MAX_NOTES];
    int n_notes;
};

/* text + overrides ("a.b=value", applied in order; at most JOBFILE_MAX_OVERRIDES) → *ret. Errors: INVALID. */
int jobfile_parse(const char *text, const char *file, const char *const *overrides, int n_overrides, struct arena *arena,
                  struct jobfile *ret, struct err *err);
/* Texts for people: keys that are accepted but do nothing, and what the kind had to say. */
void jobfile_notices(const struct jobfile *job, void (*visit)(void *ctx, const char *text), void *ctx);
/* For the kind's config function: a text for jobfile_notices, which the job keeps. */
void jobfile_note(struct jobfile *job, const char *text);

/* A value of the kind's OPTION_MODEL and OPTION_PATH rows; keys that the job file does not set are left out. */
struct jobfile_ref {
    const char *key, *value;
    enum option_type type;
};
int jobfile_refs(const struct jobfile *job, struct jobfile_ref ret[JOBFILE_MAX_REFS]);

/* The tables of keys that a job file of this kind may hold; how many. */
int jobfile_tables(const struct task_kind *kind, const struct option_table *ret[JOBFILE_MAX_TABLES]);
/* The key's row among them; NULL: no such key. */
const struct option *jobfile_key(const struct task_kind *kind, const char *key);
