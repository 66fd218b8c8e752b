#include "daemon/models/object_cache.h"

#include <sys/statvfs.h>

enum { CLAIMS_MAX = 64, CLAIM_NAME = 320 };

struct object_cache {
    char dir[CACHE_PATH_SIZE], windows[CACHE_PATH_SIZE], volume[CACHE_PATH_SIZE];
    int64_t max_bytes;
    struct metrics *metrics;
    pthread_mutex_t lock; /* everything below */
    struct cache *cache;  /* NULL while nobody uses it */
    int users;
    struct cache_stats counted; /* in the metrics so far, since it was opened */
    struct claim {
        char name[CLAIM_NAME]; /* "": free */
        int number;
    } claims[CLAIMS_MAX];
};

int object_cache_new(const char *dir, int64_t max_bytes, struct metrics *metrics, struct object_cache **ret, struct err *err) {
    struct object_cache *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the cache");
    if (!str_copy(c->volume, sizeof c->volume, dir) || !str_format(c->dir, sizeof c->dir, "%s/objects", dir) ||
        !str_format(c->windows, sizeof c->windows, "%s/windows", dir)) {
        free(c);
        return err_set(err, ERR_RANGE, "paths.cache is too long");
    }
    c->max_bytes = max_bytes;
    c->metrics = metrics;
    pthread_mutex_init(&c->lock, NULL);
    *ret = c;
    return 0;
}

void object_cache_free(struct object_cache *c) {
    if (!c)
        return;
    cache_close(c->cache);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* The lock is held. */
static void count(struct object_cache *c) {
    struct cache_stats now;
    struct metrics *m = c->metrics;
    if (!c->cache || !m)
        return;
    cache_stats(c->cache, &now);
    metric_add(metrics_series(m, "brrd_cache_requests_total", "hit"), (double)(now.hits - c->counted.hits));
    metric_add(metrics_series(m, "brrd_cache_requests_total", "miss"), (double)(now.misses - c->counted.misses));
    metric_add(metrics_series(m, "brrd_cache_evictions_total", "room"), (double)(now.evictions - c->counted.evictions));
    metric_add(metrics_series(m, "brrd_window_cache_requests_total", "hit"), (double)(now.window_hits - c->counted.window_hits));
    metric_add(metrics_series(m, "brrd_window_cache_requests_total", "miss"),
               (double)(now.window_misses - c->counted.window_misses));
    metric_add(metrics_series(m, "brrd_window_cache_evictions_total", "room"),
               (double)(now.window_evictions - c->counted.window_evictions));
    metric_set(metrics_series(m, "brrd_window_cache_used_bytes", ""), (double)now.window_bytes);
    metric_set(metrics_series(m, "brrd_cache_used_bytes", ""), (double)now.used_bytes);
    metric_set(metrics_series(m, "brrd_cache_capacity_bytes", ""), (double)now.capacity_bytes);
    c->counted = now;
}

static int64_t limit(const struct object_cache *c) {
    struct statvfs v;
    if (c->max_bytes > 0)
        return c->max_bytes;
    return statvfs(c->volume, &v) ? INT64_MAX : (int64_t)((double)v.f_blocks * (double)v.f_frsize * 0.8) + 1;
}

int object_cache_enter(struct object_cache *c, struct cache **ret, struct err *err) {
    LOCKED(&c->lock);
    int rc = c->cache ? 0 : cache_open(c->dir, c->windows, limit(c), &c->cache, err);
    if (rc == 0) {
        if (!c->users++)
            c->counted = (struct cache_stats){0};
        *ret = c->cache;
    }
    count(c);
    return rc;
}

void object_cache_leave(struct object_cache *c) {
    LOCKED(&c->lock);
    count(c);
    if (!--c->users) {
        cache_close(c->cache);
        c->cache = NULL;
    }
}

void object_cache_count(struct object_cache *c) {
    LOCKED(&c->lock);
    count(c);
}

/* The lock is held. */
static struct claim *find_claim(struct object_cache *c, const char *name, int number) {
    for (int i = 0; i < CLAIMS_MAX; i++)
        if (!strcmp(c->claims[i].name, name) && c->claims[i].number == number)
            return &c->claims[i];
    return NULL;
}

int object_cache_claim(struct object_cache *c, const char *name) {
    int number = 0;
    LOCKED(&c->lock);
    while (find_claim(c, name, number))
        number++;
    struct claim *claim = find_claim(c, "", 0);
    if (claim && str_copy(claim->name, sizeof claim->name, name))
        claim->number = number;
    else
        number = -1;
    return number;
}

void object_cache_unclaim(struct object_cache *c, const char *name, int number) {
    LOCKED(&c->lock);
    struct claim *claim = find_claim(c, name, number);
    if (claim)
        *claim = (struct claim){.number = 0};
}
