#include "daemon/models/source.h"

#include "store/mirror.h"
#include "windows/mirrored.h"

enum { HEAD_BYTES = 16 << 10 }; /* of a recording: the header of up to 63 signals */
static const char scheme[] = "store://";
enum { SMALL_FILES_BYTES = 4 << 20 }; /* indexes, labels and links of a job */

/* A source of the job that is in a store. */
struct part {
    struct store *store;
    struct mirror *mirror;
    char root[4096], name[300]; /* name: of the mirror's folder, without the number of this user */
    int number;                 /* -1: it is not claimed */
};

struct source {
    struct object_cache *objects;
    struct cache *cache; /* NULL: not entered */
    const struct task_env *env;
    struct part parts[MANIFEST_MAX_SOURCES];
    int n_parts;
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
    struct task_progress t;
    task_progress_init(&t);
    t.done = p->done_files;
    t.total = p->files;
    str_copy(t.phase, sizeof t.phase, "download");
    task_progressed(s->env, &t);
    return !atomic_load(s->env->stop);
}

/* One place per store and prefix, the same for every job, so that its index of recordings is found again; jobs that run beside one
 * another have places of their own. */
static int make_root(struct source *s, struct part *p, const struct source_config *config, const struct source_store *store,
                     const char *prefix, struct err *err) {
    char hex[DIGEST_HEX_SIZE], number[16] = "";
    if (!digest_bytes(prefix, strlen(prefix), hex) || !str_format(p->name, sizeof p->name, "%s-%.16s", store->name, hex))
        return err_set(err, ERR_RANGE, "the name of store %.40s… is too long", store->name);
    if ((p->number = object_cache_claim(s->objects, p->name)) < 0)
        return err_set(err, ERR_EXHAUSTED, "too many jobs read from stores at once");
    if (p->number)
        str_format(number, sizeof number, "-%d", p->number + 1);
    if (!str_format(p->root, sizeof p->root, "%s/mirror/%s%s", config->cache_dir, p->name, number))
        return err_set(err, ERR_RANGE, "paths.cache is too long");
    return 0;
}

static int open_mirror(struct source *s, struct part *p, const struct source_config *config, const struct jobfile *job,
                       const char *name, struct err *err) {
    const struct source_store *store;
    const char *prefix;
    int rc;
    if ((rc = source_find(config->stores, config->n_stores, name, &store, &prefix, err)) ||
        (rc = make_root(s, p, config, store, prefix, err)) || (rc = store_open(&store->config, &p->store, err)))
        return rc;
    const struct mirror_config mirror = {.rules = &mirrored_recordings,
                                         .store = p->store,
                                         .cache = s->cache,
                                         .prefix = prefix,
                                         .or_recording = job->kind->recordings == KIND_RECORDINGS_OR_ONE,
                                         .directory = p->root,
                                         .max_recordings = job->data->max_files,
                                         .head_bytes = HEAD_BYTES};
    return mirror_open(&mirror, on_progress, s, &p->mirror, err);
}

static int fetch_first(struct source *s, struct part *p, const struct source_config *config, const struct jobfile *job,
                       const char *name, struct err *err) {
    int rc = open_mirror(s, p, config, job, name, err);
    object_cache_count(config->objects);
    if (rc == 0)
        return 0;
    (void)err_in_cache(err);
    return err_wrap(err, "data.source store://%.200s cannot be fetched", name);
}

/* A root that is a store's becomes the tree of it. */
static int mirror_root(struct source *s, const struct source_config *config, const struct jobfile *job, const char **root,
                       struct mirror **ret, struct err *err) {
    struct part *p = &s->parts[s->n_parts];
    if (!str_starts(*root, scheme))
        return 0;
    s->n_parts++;
    p->number = -1;
    int rc = fetch_first(s, p, config, job, *root + strlen(scheme), err);
    if (rc)
        return rc;
    *root = mirror_directory(p->mirror);
    *ret = p->mirror;
    return 0;
}

static int open_parts(struct source *s, const struct source_config *config, const struct jobfile *job, struct task_env *env,
                      struct err *err) {
    if (object_cache_enter(config->objects, &s->cache, err))
        return err_in_cache(err);
    cache_make_room(s->cache, SMALL_FILES_BYTES);
    env->cache = s->cache;
    if (!job->data)
        return 0;
    COPY_MEMBERS(*env, *job->data, sources, n_sources);
    int rc = env->n_sources ? 0 : mirror_root(s, config, job, &env->data_root, &env->mirror, err);
    for (int i = 0; i < env->n_sources && !rc; i++)
        rc = mirror_root(s, config, job, &job->data->sources[i].root, &job->data->sources[i].mirror, err);
    return rc;
}

int source_open(const struct source_config *config, const struct jobfile *job, struct task_env *env, struct source **ret,
                struct err *err) {
    *ret = NULL;
    if (!config->objects)
        return 0;
    struct source *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the data of a job");
    s->env = env;
    s->objects = config->objects;
    int rc = open_parts(s, config, job, env, err);
    return GIVEN(ret, s, source_close, rc);
}

void source_close(struct source *s) {
    if (!s)
        return;
    for (int i = 0; i < s->n_parts; i++) {
        struct part *p = &s->parts[i];
        mirror_close(p->mirror);
        if (p->number >= 0)
            object_cache_unclaim(s->objects, p->name, p->number);
        store_close(p->store);
    }
    if (s->cache)
        object_cache_leave(s->objects);
    free(s);
}
