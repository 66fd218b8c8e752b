/* source: the stores of daemon.yaml, and a bucket's recordings as a local directory while a job runs. */
#ifndef BRR_DAEMON_MODELS_SOURCE_H
#define BRR_DAEMON_MODELS_SOURCE_H
#include "daemon/models/object_cache.h"
#include "run/job_data.h"
#include "run/task.h"
#include "store/store.h"

/* store://NAME/…; dir is the directory of a file:// store and NULL for a bucket. */
struct source_store {
    const char *name, *dir;
    struct store_config config;
};

/* The store that "NAME/prefix" begins with; *ret_prefix is what follows. NOT_FOUND. */
int source_find(const struct source_store *stores, int n, const char *name, const struct source_store **ret,
                const char **ret_prefix, struct err *err);

struct source_config {
    const struct source_store *stores;
    int n_stores;
    const char *cache_dir;        /* where trees stand */
    struct object_cache *objects; /* what is kept of buckets */
};
struct source;
/* Of a data root that is "store://NAME/prefix" (of a detect job also the key of one recording) the labels and the heads of the
 * recordings, fetched into cache_dir (phase "download" of env's progress; env's stop ends it); their tree is put into
 * env->data_root, and env->mirror gives the job whole recordings as it needs them. Any other data root: nothing to do, *ret = NULL.
 * Worker thread. */
int source_open(const struct source_config *config, const struct jobfile *job, struct task_env *env, struct source **ret,
                struct err *err);
/* The files may be evicted from now on. NULL is fine. */
void source_close(struct source *s);

#endif
