/* source: the stores of daemon.yaml, and access to a bucket's recordings as a local directory while a job runs. */
#pragma once
#include "daemon/models/object_cache.h"
#include "store/store.h"
#include "work/job_data.h"
#include "work/task.h"

/* store://NAME/…; dir is the directory of a file:// store and NULL for a bucket. */
struct source_store {
    const char *name, *dir;
    struct store_config config;
};

/* Finds the store of "NAME/prefix"; *ret_prefix is the rest. NOT_FOUND. */
int source_find(const struct source_store *stores, int n, const char *name, const struct source_store **ret,
                const char **ret_prefix, struct err *err);

struct source_config {
    const struct source_store *stores;
    int n_stores;
    const char *cache_dir;        /* folder for the trees of recordings */
    struct object_cache *objects; /* cache of objects from buckets and of windows; NULL: windows have no limit */
};
struct source;
/* Sets env->cache until source_close, and makes room for the small files of a job if the volume is full. If the job's data root is
 * "store://NAME/prefix" (or, for a detect job, the key of one recording): fetches the labels and the headers of all recordings into
 * cache_dir (phase "download" of env's progress; env's stop cancels it), sets env->data_root to their tree, and sets env->mirror,
 * which fetches whole recordings as the job needs them. Of several sources each that is in a store is fetched so, and the root and
 * mirror in job->data are set. Worker thread. */
int source_open(const struct source_config *config, const struct jobfile *job, struct task_env *env, struct source **ret,
                struct err *err);
/* Unpins the files, which may then be evicted. NULL is allowed. */
void source_close(struct source *s);
