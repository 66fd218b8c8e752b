#include "daemon/jobs/source.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/str.h"
#include "data/window.h"
#include "store/mirror.h"

struct source {
    struct store *store;
    struct cache *cache;
    struct mirror *mirror;
    const struct task_env *env;
    const struct jobfile *job;
    char root[4096];
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int building; /* recordings on their way into the window cache, at most data.loader_workers */
};

int source_find(const struct source_store *stores, int n, const char *name, const struct source_store **ret,
                const char **ret_prefix, struct err *err) {
    size_t len = strcspn(name, "/");
    for (int i = 0; i < n; i++)
        if (strlen(stores[i].name) == len && !strncmp(stores[i].name, name, len)) {
            *ret = &stores[i];
            *ret_prefix = name[len] ? name + len + 1 : "";
            return 0;
        }
    return err_set(err, ERR_NOT_FOUND, "daemon.yaml has no store '%.*s'; add it under stores", (int)len, name);
}

static bool on_progress(void *ctx, const struct mirror_progress *p) {
    const struct source *s = ctx;
    struct task_progress t = {.done = p->done_files,
                              .total = p->files,
                              .loss = NAN,
                              .validation_loss = NAN,
                              .learning_rate = NAN,
                              .gradient_norm = NAN,
                              .windows_per_s = NAN,
                              .data_wait_ratio = NAN,
                              .eta_s = NAN,
                              .metric = NAN,
                              .step_s = NAN};
    str_copy(t.phase, sizeof t.phase, "download");
    s->env->progress(s->env->ctx, &t);
    return !atomic_load(s->env->stop);
}

/* A recording of a training job goes into the window cache while others are on their way, so that the job finds it there. What goes
 * wrong here goes wrong again when the job opens its data, and is told there. */
static void build_windows(void *ctx, const char *path) {
    struct source *s = ctx;
    const struct jobfile *job = s->job;
    char cache_file[4096];
    bool skipped = false;
    struct window_build request = {
        .edf_path = path, .cache_dir = s->env->cache_dir, .labels = job->data.labels, .unlabeled = job->data.unlabeled};
    jobfile_frontend(job, &request.frontend);
    pthread_mutex_lock(&s->lock);
    while (s->building >= job->data.loader_workers)
        pthread_cond_wait(&s->turned, &s->lock);
    s->building++;
    pthread_mutex_unlock(&s->lock);
    if (!atomic_load(s->env->stop))
        (void)window_build(&request, cache_file, sizeof cache_file, &skipped, NULL);
    pthread_mutex_lock(&s->lock);
    s->building--;
    pthread_cond_signal(&s->turned);
    pthread_mutex_unlock(&s->lock);
}

static void count_cache(struct cache *cache, struct metrics *m) {
    struct cache_stats stats;
    cache_stats(cache, &stats);
    metric_add(metrics_series(m, "brrd_cache_requests_total", "hit"), (double)stats.hits);
    metric_add(metrics_series(m, "brrd_cache_requests_total", "miss"), (double)stats.misses);
    metric_add(metrics_series(m, "brrd_cache_evictions_total", "room"), (double)stats.evictions);
    metric_set(metrics_series(m, "brrd_cache_used_bytes", ""), (double)stats.used_bytes);
    metric_set(metrics_series(m, "brrd_cache_capacity_bytes", ""), (double)stats.capacity_bytes);
}

static int64_t cache_limit(const struct source_config *config) {
    struct statvfs v;
    if (config->max_cache_bytes > 0)
        return config->max_cache_bytes;
    return statvfs(config->cache_dir, &v) ? INT64_MAX : (int64_t)((double)v.f_blocks * (double)v.f_frsize * 0.8) + 1;
}

/* One place per store and prefix, the same for every job; one runs at a time. */
static int make_root(struct source *s, const struct source_config *config, const struct source_store *store, const char *prefix,
                     struct err *err) {
    char hex[DIGEST_HEX_SIZE];
    if (digest_bytes(prefix, strlen(prefix), hex) &&
        str_format(s->root, sizeof s->root, "%s/mirror/%s-%.16s", config->cache_dir, store->name, hex))
        return 0;
    return err_set(err, ERR_RANGE, "paths.cache is too long");
}

static int fetch_all(struct source *s, const struct source_config *config, const struct jobfile *job, const char *name,
                     struct err *err) {
    const struct source_store *store;
    const char *prefix;
    char objects[4096];
    int rc = source_find(config->stores, config->n_stores, name, &store, &prefix, err);
    if (!rc)
        rc = make_root(s, config, store, prefix, err);
    if (!rc)
        rc = store_open_config(&store->config, &s->store, err);
    if (!rc && !str_format(objects, sizeof objects, "%s/objects", config->cache_dir))
        rc = err_set(err, ERR_RANGE, "paths.cache is too long");
    if (!rc)
        rc = cache_open(objects, cache_limit(config), &s->cache, err);
    bool early = job->kind == JOB_KIND_TRAIN && !job->data.rebuild; /* others read as their model says */
    const struct mirror_config mirror = {.store = s->store,
                                         .cache = s->cache,
                                         .prefix = prefix,
                                         .directory = s->root,
                                         .max_recordings = job->data.max_files,
                                         .arrived = early ? build_windows : NULL,
                                         .arrived_ctx = s};
    if (!rc)
        rc = mirror_open(&mirror, on_progress, s, &s->mirror, err);
    if (s->cache && config->metrics)
        count_cache(s->cache, config->metrics);
    if (!rc)
        return 0;
    (void)err_in_cache(err);
    return err_wrap(err, "data.source store://%.200s cannot be fetched", name);
}

int source_open(const struct source_config *config, const struct jobfile *job, struct task_env *env, struct source **ret,
                struct err *err) {
    *ret = NULL;
    if (!str_starts(env->data_root, "store://"))
        return 0;
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory fetching %s", env->data_root);
    s->env = env;
    s->job = job;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->turned, NULL);
    int rc = fetch_all(s, config, job, env->data_root + strlen("store://"), err);
    if (rc) {
        source_close(s);
        return rc;
    }
    env->data_root = s->root;
    *ret = s;
    return 0;
}

void source_close(struct source *s) {
    if (!s)
        return;
    mirror_close(s->mirror);
    cache_close(s->cache);
    store_close(s->store);
    pthread_cond_destroy(&s->turned);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
