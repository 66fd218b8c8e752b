#include "daemon/jobs/upload.h"

enum { MAX_WAITING = 16, PATH_BYTES = 4096 };

struct upload {
    struct upload_config config;
    struct store *store;
    const char *prefix;
    pthread_t thread;
    atomic_bool stop;
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t changed;
    char *waiting[MAX_WAITING]; /* oldest first */
    int n_waiting;
    bool busy;
};

static void tell(struct upload *u, enum task_level level, const char *what, const char *detail) {
    char text[900];
    str_format(text, sizeof text, "checkpoint %s%s", what, detail);
    u->config.log(u->config.ctx, level, text);
}

static bool go_on(void *ctx, int64_t done, int64_t total) {
    struct upload *u = ctx;
    (void)done;
    (void)total;
    return !atomic_load(&u->stop);
}

static void send_file(struct upload *u, const char *path) {
    char key[STORE_KEY_SIZE], text[800];
    const struct store_watch watch = {.progress = go_on, .ctx = u};
    struct err err = {0};
    bool slash = *u->prefix && !str_ends(u->prefix, "/");
    int rc = str_format(key, sizeof key, "%s%s%s/%s", u->prefix, slash ? "/" : "", u->config.job_id, fsio_basename(path))
                 ? store_put(u->store, path, key, &watch, &err)
                 : err_set(&err, ERR_RANGE, "the prefix of checkpoint.upload is too long");
    if (rc)
        tell(u, TASK_WARN, "not uploaded: ", err_text(&err, text, sizeof text));
    else
        tell(u, TASK_INFO, "uploaded: ", key);
}

static void *upload_main(void *arg) {
    struct upload *u = arg;
    pthread_mutex_lock(&u->lock);
    while (!atomic_load(&u->stop)) {
        if (!u->n_waiting) {
            pthread_cond_wait(&u->changed, &u->lock);
            continue;
        }
        char *path = u->waiting[0];
        memmove(&u->waiting[0], &u->waiting[1], (size_t)--u->n_waiting * sizeof *u->waiting);
        u->busy = true;
        pthread_mutex_unlock(&u->lock);
        send_file(u, path);
        free(path);
        pthread_mutex_lock(&u->lock);
        u->busy = false;
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

static int start(struct upload *u, struct err *err) {
    const struct upload_config *config = &u->config;
    const struct source_store *store;
    int rc;
    if ((rc = source_find(config->stores, config->n_stores, config->target + strlen("store://"), &store, &u->prefix, err)) ||
        (rc = store_open(&store->config, &u->store, err)))
        return rc;
    if (pthread_create(&u->thread, NULL, upload_main, u))
        return err_set(err, ERR_EXHAUSTED, "cannot start a thread for checkpoint.upload");
    return 0;
}

int upload_open(const struct upload_config *config, struct upload **ret, struct err *err) {
    struct upload *u = calloc(1, sizeof *u);
    if (!u)
        return err_set(err, ERR_EXHAUSTED, "out of memory for checkpoint.upload");
    u->config = *config;
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    if (start(u, err)) {
        store_close(u->store);
        pthread_cond_destroy(&u->changed);
        pthread_mutex_destroy(&u->lock);
        free(u);
        return err_wrap(err, "checkpoint.upload %.200s", config->target);
    }
    *ret = u;
    return 0;
}

void upload_add(struct upload *u, const char *path) {
    char *copy = strdup(path), *dropped = NULL;
    if (!copy)
        return tell(u, TASK_WARN, "not uploaded: out of memory for ", path);
    pthread_mutex_lock(&u->lock);
    if (u->n_waiting == MAX_WAITING) {
        dropped = u->waiting[0];
        memmove(&u->waiting[0], &u->waiting[1], (size_t)--u->n_waiting * sizeof *u->waiting);
    }
    u->waiting[u->n_waiting++] = copy;
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    if (dropped)
        tell(u, TASK_WARN, "not uploaded, the store is too slow: ", dropped);
    free(dropped);
}

bool upload_idle(struct upload *u) {
    LOCKED(&u->lock);
    return !u->n_waiting && !u->busy;
}

void upload_close(struct upload *u) {
    if (!u)
        return;
    pthread_mutex_lock(&u->lock);
    atomic_store(&u->stop, true);
    pthread_cond_signal(&u->changed);
    pthread_mutex_unlock(&u->lock);
    pthread_join(u->thread, NULL);
    for (int i = 0; i < u->n_waiting; i++)
        free(u->waiting[i]);
    store_close(u->store);
    pthread_cond_destroy(&u->changed);
    pthread_mutex_destroy(&u->lock);
    free(u);
}
