#include "store/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/map.h"
#include "base/str.h"
#include "store/partials.h"

enum { MAX_ENTRIES = 1 << 20, SHARD_DIGITS = 2 };

struct entry {
    struct entry *older, *newer; /* by last use */
    char key[DIGEST_HEX_SIZE];
    int64_t bytes;
    int pins;
};

struct cache {
    pthread_mutex_t lock; /* everything below; held over unlink and rename, never over reads, writes or syncs */
    char dir[CACHE_PATH_SIZE - 160];
    int lock_fd;
    struct map *by_key;
    struct entry *oldest, *newest;
    struct partials partials;
    struct cache_stats stats; /* used_bytes: of entries alone */
    uint64_t next_slot;
};

static void entry_path(const struct cache *c, const char *key, char path[CACHE_PATH_SIZE]) {
    str_format(path, CACHE_PATH_SIZE, "%s/entries/%.*s/%s", c->dir, SHARD_DIGITS, key, key);
}

static void unlink_entry(struct cache *c, struct entry *e) {
    *(e->older ? &e->older->newer : &c->oldest) = e->newer;
    *(e->newer ? &e->newer->older : &c->newest) = e->older;
    e->older = e->newer = NULL;
}

static void link_newest(struct cache *c, struct entry *e) {
    e->older = c->newest;
    *(c->newest ? &c->newest->newer : &c->oldest) = e;
    c->newest = e;
}

static void forget(struct cache *c, struct entry *e) {
    unlink_entry(c, e);
    map_remove(c->by_key, e->key);
    c->stats.used_bytes -= e->bytes;
    c->stats.entries--;
    free(e);
}

/* Drop what a writer left, else the oldest entry nobody uses; false when there is none. */
static bool evict_one(struct cache *c) {
    char path[CACHE_PATH_SIZE];
    struct entry *e = c->oldest;
    if (partials_drop(&c->partials))
        return true;
    while (e && e->pins)
        e = e->newer;
    if (!e)
        return false;
    entry_path(c, e->key, path);
    unlink(path);
    forget(c, e);
    c->stats.evictions++;
    return true;
}

static int64_t used_bytes(const struct cache *c) { return c->stats.used_bytes + partials_bytes(&c->partials); }

static int no_room(struct cache *c, int64_t bytes, struct err *err) {
    if (bytes > c->stats.capacity_bytes)
        return err_set(err, ERR_EXHAUSTED, "cache %s: %lld bytes are wanted, its limit is %lld; raise cache.max_size", c->dir,
                       (long long)bytes, (long long)c->stats.capacity_bytes);
    return err_set(
        err, ERR_EXHAUSTED,
        "cache %s: %lld bytes are wanted, and %lld of %lld are in use by running work; raise cache.max_size or run less at once",
        c->dir, (long long)bytes, (long long)used_bytes(c), (long long)c->stats.capacity_bytes);
}

/* Evict until `bytes` more fit under the limit. The lock is held. */
static int fit_limit(struct cache *c, int64_t bytes, struct err *err) {
    if (bytes > c->stats.capacity_bytes)
        return no_room(c, bytes, err);
    while (used_bytes(c) > c->stats.capacity_bytes - bytes)
        if (!evict_one(c))
            return no_room(c, bytes, err);
    return 0;
}

/* Evict until the volume has `bytes` free that were not promised to others. The lock is held. */
static int fit_volume(struct cache *c, int64_t bytes, struct err *err) {
    int64_t available = fsio_free_bytes(c->dir);
    if (!bytes || available < 0 || available - partials_promised(&c->partials, false) >= bytes)
        return 0;
    int64_t promised = partials_promised(&c->partials, true);
    for (; available - promised < bytes; available = fsio_free_bytes(c->dir))
        if (!evict_one(c))
            return err_errno(err, ENOSPC,
                             "cache %s: %lld bytes are wanted, its volume has %lld free and %lld promised to other files", c->dir,
                             (long long)bytes, (long long)available, (long long)promised);
    return 0;
}

/* A new entry, newest and unpinned; NULL when memory or the number of entries is exhausted. The lock is held. */
static struct entry *add_entry(struct cache *c, const char *key, int64_t bytes) {
    if (map_count(c->by_key) >= MAX_ENTRIES && !evict_one(c))
        return NULL;
    struct entry *e = calloc(1, sizeof *e);
    if (!e || map_put(c->by_key, key, e, NULL)) {
        free(e);
        return NULL;
    }
    str_copy(e->key, sizeof e->key, key);
    e->bytes = bytes;
    link_newest(c, e);
    c->stats.used_bytes += bytes;
    c->stats.entries++;
    return e;
}

static void pin(struct cache *c, struct entry *e) {
    c->stats.pinned += e->pins++ == 0;
    unlink_entry(c, e);
    link_newest(c, e);
}

/* Files that the directory held before, to be sorted by last use. */
struct found {
    char key[DIGEST_HEX_SIZE];
    int64_t bytes, used_ns;
};

struct stock {
    struct cache *cache;
    struct found *items;
    size_t count, cap;
};

static int take_stock(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct stock *s = ctx;
    char path[CACHE_PATH_SIZE];
    const char *key = relative + SHARD_DIGITS + 1;
    struct stat st;
    if (strlen(relative) != SHARD_DIGITS + 1 + DIGEST_HEX_SIZE - 1 || !digest_is_hex(key) || strncmp(relative, key, SHARD_DIGITS))
        return 0; /* not ours: left alone */
    entry_path(s->cache, key, path);
    if (stat(path, &st) < 0)
        return 0;
    if (s->count == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;
        struct found *items = realloc(s->items, cap * sizeof *items);
        if (!items)
            return err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", s->cache->dir);
        s->items = items;
        s->cap = cap;
    }
    int64_t read_ns = (int64_t)st.st_atim.tv_sec * 1000000000 + st.st_atim.tv_nsec;
    int64_t written_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    struct found *f = &s->items[s->count++];
    *f = (struct found){.bytes = size, .used_ns = read_ns > written_ns ? read_ns : written_ns};
    str_copy(f->key, sizeof f->key, key);
    return 0;
}

static int by_use(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    if (x->used_ns != y->used_ns)
        return x->used_ns < y->used_ns ? -1 : 1;
    return strcmp(x->key, y->key);
}

static bool is_missing(void *ctx, const char *key) {
    const struct cache *c = ctx;
    return !map_get(c->by_key, key);
}

/* Entries of the directory into memory, oldest first, within the limit. */
static int load(struct cache *c, struct err *err) {
    char path[CACHE_PATH_SIZE];
    struct stock s = {.cache = c};
    str_format(path, sizeof path, "%s/entries", c->dir);
    int rc = fsio_walk(path, take_stock, &s, err);
    if (!rc && s.count)
        qsort(s.items, s.count, sizeof *s.items, by_use);
    for (size_t i = 0; !rc && i < s.count; i++)
        if (!add_entry(c, s.items[i].key, s.items[i].bytes))
            rc = err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", c->dir);
    free(s.items);
    if (!rc)
        rc = partials_load(&c->partials, is_missing, c, err);
    return rc ? rc : fit_limit(c, 0, err);
}

/* DIR/entries, DIR/partial, and the lock. */
static int prepare(struct cache *c, struct err *err) {
    char path[CACHE_PATH_SIZE];
    int rc = fsio_mkdirs(c->dir, err);
    str_format(path, sizeof path, "%s/.lock", c->dir);
    if (!rc)
        rc = fsio_lock(path, &c->lock_fd, err);
    str_format(path, sizeof path, "%s/entries", c->dir);
    if (!rc)
        rc = fsio_mkdirs(path, err);
    str_format(c->partials.dir, sizeof c->partials.dir, "%s/partial", c->dir);
    return rc ? rc : fsio_mkdirs(c->partials.dir, err);
}

int cache_open(const char *dir, int64_t max_bytes, struct cache **ret, struct err *err) {
    if (max_bytes <= 0)
        return err_set(err, ERR_INVALID, "cache %.200s: a limit of %lld bytes; expected more than 0", dir, (long long)max_bytes);
    struct cache *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", dir);
    pthread_mutex_init(&c->lock, NULL);
    c->lock_fd = -1;
    c->stats.capacity_bytes = max_bytes;
    c->by_key = map_new(MAX_ENTRIES);
    int rc = c->by_key ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", dir);
    if (!rc)
        rc = fsio_absolute(c->dir, sizeof c->dir, dir, err);
    if (!rc)
        rc = prepare(c, err);
    if (!rc)
        rc = load(c, err);
    if (rc) {
        cache_close(c);
        return rc;
    }
    *ret = c;
    return 0;
}

void cache_close(struct cache *c) {
    if (!c)
        return;
    map_free(c->by_key, free);
    while (c->partials.oldest)
        partials_forget(&c->partials, c->partials.oldest);
    if (c->lock_fd >= 0)
        close(c->lock_fd);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static int check_key(const struct cache *c, const char *key, struct err *err) {
    if (digest_is_hex(key))
        return 0;
    return err_set(err, ERR_INVALID, "cache %s: '%.80s' is no key; expected 64 lower-case hex digits", c->dir, key);
}

int cache_lookup(struct cache *c, const char *key, char *ret_path, struct err *err) {
    char path[CACHE_PATH_SIZE];
    int rc = check_key(c, key, err);
    if (rc)
        return rc;
    entry_path(c, key, path);
    pthread_mutex_lock(&c->lock);
    struct entry *e = map_get(c->by_key, key);
    /* Now is the time of last use, for the next process. ENOENT: somebody removed the file behind our back. */
    static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    if (e && (utimensat(AT_FDCWD, path, now, 0) == 0 || errno != ENOENT)) {
        pin(c, e);
        c->stats.hits++;
    } else {
        if (e && !e->pins)
            forget(c, e);
        c->stats.misses++;
        rc = err_set(err, ERR_NOT_FOUND, "cache %s has no entry %s", c->dir, key);
    }
    pthread_mutex_unlock(&c->lock);
    if (!rc)
        str_copy(ret_path, CACHE_PATH_SIZE, path);
    return rc;
}

void cache_unpin(struct cache *c, const char *key) {
    pthread_mutex_lock(&c->lock);
    struct entry *e = map_get(c->by_key, key);
    if (e && e->pins)
        c->stats.pinned -= --e->pins == 0;
    pthread_mutex_unlock(&c->lock);
}

void cache_discard(struct cache *c, const char *key) {
    char path[CACHE_PATH_SIZE];
    cache_unpin(c, key);
    pthread_mutex_lock(&c->lock);
    struct entry *e = map_get(c->by_key, key);
    if (e && !e->pins) {
        entry_path(c, key, path);
        unlink(path);
        forget(c, e);
    }
    pthread_mutex_unlock(&c->lock);
}

/* Room for a writer of p, where something may have been left. The lock is held. */
static int set_aside(struct cache *c, struct partial *p, int64_t bytes, struct err *err) {
    int64_t there = p->bytes;
    p->busy = true; /* not to be dropped for its own sake */
    p->bytes = 0;
    int rc = fit_limit(c, bytes, err);
    if (!rc)
        rc = fit_volume(c, bytes > there ? bytes - there : 0, err);
    if (!rc) {
        p->promised = bytes;
        return 0;
    }
    p->busy = false;
    p->bytes = there;
    return rc;
}

int cache_reserve(struct cache *c, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err) {
    char name[PARTIAL_NAME_SIZE], dir[CACHE_PATH_SIZE];
    int rc = check_key(c, key, err);
    if (!rc && bytes < 0)
        rc = err_set(err, ERR_INVALID, "cache %s: cannot set aside %lld bytes", c->dir, (long long)bytes);
    if (rc)
        return rc;
    pthread_mutex_lock(&c->lock);
    struct partial *p = partials_find(&c->partials, key);
    bool second = p && p->busy; /* another thread fills this key: a place beside it */
    str_format(name, sizeof name, second ? "%s-%llu" : "%s", key, (unsigned long long)c->next_slot++);
    if ((!p || second) && !(p = partials_add(&c->partials, name, 0)))
        rc = err_set(err, ERR_EXHAUSTED, "cache %s: out of memory", c->dir);
    if (!rc && (rc = set_aside(c, p, bytes, err)) && !p->bytes)
        partials_forget(&c->partials, p);
    pthread_mutex_unlock(&c->lock);
    if (rc)
        return rc;
    str_copy(ret->key, sizeof ret->key, key);
    partials_path(&c->partials, name, dir);
    str_format(ret->path, sizeof ret->path, "%.*s/data", CACHE_PATH_SIZE - 8, dir);
    if ((rc = fsio_mkdirs(dir, err)))
        cache_abort(c, ret);
    return rc;
}

static int sync_path(const char *path, int flags, int64_t *ret_bytes, struct err *err) {
    struct stat st;
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    int rc = fstat(fd, &st) < 0 || fsync(fd) < 0 ? err_errno(err, errno, "cannot sync %s", path) : 0;
    close(fd);
    if (!rc && ret_bytes)
        *ret_bytes = st.st_size;
    return rc;
}

/* DIR/partial/NAME of a slot, and the name alone. */
static const char *dir_of(const struct cache_slot *slot, char dir[CACHE_PATH_SIZE]) {
    str_copy(dir, CACHE_PATH_SIZE, slot->path);
    *strrchr(dir, '/') = '\0';
    return fsio_basename(dir);
}

/* The synced file of the slot becomes the entry, or gives way to the one that is there. The lock is held. */
static int put_in_place(struct cache *c, struct cache_slot *slot, int64_t bytes, const char *path, struct err *err) {
    char dir[CACHE_PATH_SIZE];
    partials_find(&c->partials, dir_of(slot, dir))->promised = 0;
    struct entry *e = map_get(c->by_key, slot->key);
    if (e && fsio_exists(path)) {
        unlink(slot->path);
        pin(c, e);
        return 0;
    }
    int rc = fit_limit(c, bytes, err);
    if (rc)
        return rc;
    if (rename(slot->path, path) < 0)
        return err_errno(err, errno, "cannot put %s in place", path);
    if ((e = map_get(c->by_key, slot->key))) { /* its file was removed behind our back while pinned */
        c->stats.used_bytes += bytes - e->bytes;
        e->bytes = bytes;
    } else if (!(e = add_entry(c, slot->key, bytes))) {
        unlink(path);
        return err_set(err, ERR_EXHAUSTED, "cache %s: out of memory, or %d entries in use", c->dir, MAX_ENTRIES);
    }
    pin(c, e);
    return 0;
}

int cache_commit(struct cache *c, struct cache_slot *slot, char *ret_path, struct err *err) {
    char path[CACHE_PATH_SIZE], shard[CACHE_PATH_SIZE];
    int64_t bytes = 0;
    entry_path(c, slot->key, path);
    str_format(shard, sizeof shard, "%s/entries/%.*s", c->dir, SHARD_DIGITS, slot->key);
    int rc = sync_path(slot->path, O_RDONLY, &bytes, err);
    if (!rc)
        rc = fsio_mkdirs(shard, err);
    if (!rc) {
        pthread_mutex_lock(&c->lock);
        rc = put_in_place(c, slot, bytes, path, err);
        pthread_mutex_unlock(&c->lock);
    }
    cache_abort(c, slot);
    if (rc)
        return rc;
    if ((rc = sync_path(shard, O_RDONLY | O_DIRECTORY, NULL, err))) { /* the file is whole; only its name may be lost */
        cache_unpin(c, slot->key);
        return rc;
    }
    str_copy(ret_path, CACHE_PATH_SIZE, path);
    return 0;
}

/* The slot's room is free again; its directory, removed by now or left, is what the cache counts from here on. */
static void release(struct cache *c, struct cache_slot *slot, bool leave) {
    char dir[CACHE_PATH_SIZE];
    const char *name = dir_of(slot, dir);
    bool first = !strcmp(name, slot->key); /* and not a later place of its key */
    int64_t bytes = leave && first ? partials_bytes_below(dir) : 0;
    if (!bytes)
        (void)fsio_remove_tree(dir, NULL);
    pthread_mutex_lock(&c->lock);
    partials_forget(&c->partials, partials_find(&c->partials, name));
    if (bytes && !partials_add(&c->partials, slot->key, bytes)) /* becomes the newest */
        (void)fsio_remove_tree(dir, NULL);
    partials_bound(&c->partials);
    (void)fit_limit(c, 0, NULL);
    pthread_mutex_unlock(&c->lock);
}

void cache_abort(struct cache *c, struct cache_slot *slot) { release(c, slot, false); }

void cache_suspend(struct cache *c, struct cache_slot *slot) { release(c, slot, true); }

void cache_stats(struct cache *c, struct cache_stats *ret) {
    pthread_mutex_lock(&c->lock);
    *ret = c->stats;
    ret->used_bytes = used_bytes(c);
    pthread_mutex_unlock(&c->lock);
}
