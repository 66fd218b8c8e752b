#include "daemon/live/model_loader.h"

#include "base/queue.h"
#include "daemon/hosts/niceness.h"

/* A file that is being read. */
struct reading {
    struct reading *next;
    struct model_loader *loader;
    struct live_order *order;
    live_post_fn *post;
    void *ctx;
    char path[LIVE_PATH];
    int64_t since_ms, since_wall_ms;
};

struct model_loader {
    struct model_use use;
    pthread_mutex_t lock; /* everything below */
    pthread_cond_t changed;
    struct reading *first;
    int posting;
    bool stopping, freed;
};

struct model_loader *model_loader_new(enum dtype precision, int64_t memory_limit_bytes) {
    struct model_loader *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->use = (struct model_use){LIVE_BATCH_CPU, precision, memory_limit_bytes};
    pthread_mutex_init(&l->lock, NULL);
    clock_cond_init(&l->changed);
    return l;
}

static void release(struct model_loader *l) {
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- one file ---- */

static void prepare(struct live_prepared *p, const struct model_use *use) {
    if (fsio_size(p->path, &p->bytes, &p->mtime_ns, &p->err))
        return;
    p->unchanged = p->bytes == p->known_bytes && p->mtime_ns == p->known_mtime_ns;
    if (!p->unchanged)
        model_image_open(p->path, use, &p->image, &p->err);
}

/* The hosts may be gone after model_loader_stop, which waits for a post but not for a file. */
static void deliver(struct reading *r) {
    struct model_loader *l = r->loader;
    pthread_mutex_lock(&l->lock);
    bool wanted = !l->stopping;
    l->posting += wanted;
    pthread_mutex_unlock(&l->lock);
    if (!wanted || !r->post(r->ctx, r->order))
        live_order_free(r->order);
    LOCKED(&l->lock);
    l->posting -= wanted;
    pthread_cond_broadcast(&l->changed);
}

static void forget(struct reading *r) {
    struct model_loader *l = r->loader;
    pthread_mutex_lock(&l->lock);
    LIST_REMOVE(l->first, r, next);
    bool last = l->freed && !l->first;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    free(r);
    if (last)
        release(l);
}

static void *read_main(void *arg) {
    struct reading *r = arg;
    pthread_setname_np(pthread_self(), "model-file");
    niceness_set(NICENESS_OTHER);
    prepare(r->order->prepared, &r->loader->use);
    deliver(r);
    forget(r);
    return NULL;
}

static int start(struct reading *r) {
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int rc = pthread_create(&thread, &attr, read_main, r);
    pthread_attr_destroy(&attr);
    return rc;
}

int model_loader_read(struct model_loader *l, struct live_order *order, live_post_fn *post, void *ctx, struct err *err) {
    struct reading *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, ERR_EXHAUSTED, "out of memory for %s", order->prepared->path);
    *r = (struct reading){.loader = l, .order = order, .post = post, .ctx = ctx};
    str_copy(r->path, sizeof r->path, order->prepared->path);
    r->since_ms = clock_ms();
    r->since_wall_ms = clock_wall_ms();
    pthread_mutex_lock(&l->lock);
    int rc = l->stopping ? ECANCELED : start(r); /* the thread needs the lock before it ends */
    if (!rc) {
        r->next = l->first;
        l->first = r;
    }
    pthread_mutex_unlock(&l->lock);
    if (!rc)
        return 0;
    err_set(err, ERR_EXHAUSTED, "cannot start the thread that reads %s: %s", r->path, strerror(rc));
    free(r);
    return ERR_EXHAUSTED;
}

/* ---- all files ---- */

bool model_loader_waits(struct model_loader *l, char ret_text[MODEL_LOADER_TEXT]) {
    char since[32];
    LOCKED(&l->lock);
    const struct reading *oldest = l->first;
    for (const struct reading *r = oldest; r; r = r->next)
        if (r->since_ms < oldest->since_ms)
            oldest = r;
    bool waits = oldest && clock_ms() - oldest->since_ms > MODEL_LOADER_SLOW_MS;
    if (waits)
        str_format(ret_text, MODEL_LOADER_TEXT, "waits for %s since %s", oldest->path,
                   clock_utc(oldest->since_wall_ms, CLOCK_ISO, since, sizeof since));
    return waits;
}

void model_loader_stop(struct model_loader *l) {
    struct timespec until = clock_after_ms(MODEL_LOADER_STOP_MS);
    LOCKED(&l->lock);
    l->stopping = true;
    while (l->posting)
        pthread_cond_wait(&l->changed, &l->lock);
    while (l->first && pthread_cond_timedwait(&l->changed, &l->lock, &until) != ETIMEDOUT) {
    }
}

void model_loader_free(struct model_loader *l) {
    if (!l)
        return;
    pthread_mutex_lock(&l->lock);
    l->freed = true;
    bool last = !l->first;
    pthread_mutex_unlock(&l->lock);
    if (last)
        release(l);
}
