#include "store/cache.h"

#include <dirent.h>
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

enum { MAX_ENTRIES = 1 << 20, MAX_LEFT = 64, SHARD_DIGITS = 2 };

struct entry {
    struct entry *older, *newer; /* by last use */
    char key[DIGEST_HEX_SIZE];
    int64_t bytes;
    int pins;
};

enum { NAME_SIZE = DIGEST_HEX_SIZE + 24 };

/* DIR/partial/NAME: being written, or left by a writer that was suspended or killed. NAME is the key; where several write one key
 * at a time, that of the later ones has a number behind it. */
struct partial {
    struct partial *newer;
    char name[NAME_SIZE];
    int64_t bytes;    /* on the volume, while nobody writes */
    int64_t promised; /* to the writer: what it may take up on the volume */
    bool busy;
};

struct cache {
    pthread_mutex_t lock; /* everything below; held over unlink and rename, never over reads, writes or syncs */
    char dir[CACHE_PATH_SIZE - 160];
    int lock_fd;
    struct map *by_key;
    struct entry *oldest, *newest;
    struct partial *partials; /* oldest first */
    struct cache_stats stats;
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

static void slot_dir(const struct cache *c, const char *name, char path[CACHE_PATH_SIZE]) {
    str_format(path, CACHE_PATH_SIZE, "%s/partial/%s", c->dir, name);
}

struct usage {
    const char *dir;
    int64_t bytes; /* that files below it take up on the volume: a file with holes has more */
};

static int add_usage(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct usage *u = ctx;
    char path[CACHE_PATH_SIZE];
    struct stat st;
    (void)err;
    if (str_format(path, sizeof path, "%s/%s", u->dir, relative) && !stat(path, &st))
        u->bytes += (int64_t)st.st_blocks * 512 < size ? (int64_t)st.st_blocks * 512 : size;
    return 0;
}

static int64_t bytes_below(const char *dir) {
    struct usage u = {.dir = dir};
    return fsio_walk(dir, add_usage, &u, NULL) ? 0 : u.bytes;
}

/* Out of the list and freed; its directory is the caller's business. */
static void forget_partial(struct cache *c, struct partial *p) {
    struct partial **at = &c->partials;
    while (*at != p)
        at = &(*at)->newer;
    *at = p->newer;
    free(p);
}

static struct partial *find_partial(const struct cache *c, const char *name) {
    struct partial *p = c->partials;
    while (p && strcmp(p->name, name) != 0)
        p = p->newer;
    return p;
}

/* Drop the oldest of what writers left; false when there is none. */
static bool drop_left(struct cache *c) {
    char dir[CACHE_PATH_SIZE];
    struct partial *p = c->partials;
    while (p && p->busy)
        p = p->newer;
    if (!p)
        return false;
    slot_dir(c, p->name, dir);
    (void)fsio_remove_tree(dir, NULL);
    c->stats.used_bytes -= p->bytes;
    forget_partial(c, p);
    return true;
}

/* A partial, newest and not busy; NULL when out of memory. */
static struct partial *add_partial(struct cache *c, const char *name, int64_t bytes) {
    struct partial **at = &c->partials, *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    while (*at)
        at = &(*at)->newer;
    str_copy(p->name, sizeof p->name, name);
    p->bytes = bytes;
    c->stats.used_bytes += bytes;
    *at = p;
    return p;
}

/* At most MAX_LEFT of what writers left. */
static void bound_left(struct cache *c) {
    int n = 0;
    for (const struct partial *p = c->partials; p; p = p->newer)
        n += !p->busy;
    while (n-- > MAX_LEFT)
        drop_left(c);
}

/* Drop what a writer left, else the oldest entry nobody uses; false when there is none. */
static bool evict_one(struct cache *c) {
    char path[CACHE_PATH_SIZE];
    struct entry *e = c->oldest;
    if (drop_left(c))
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

static int no_room(struct cache *c, int64_t bytes, struct err *err) {
    if (bytes > c->stats.capacity_bytes)
        return err_set(err, ERR_EXHAUSTED, "cache %s: %lld bytes are wanted, its limit is %lld; raise cache.max_size", c->dir,
                       (long long)bytes, (long long)c->stats.capacity_bytes);
    return err_set(
        err, ERR_EXHAUSTED,
        "cache %s: %lld bytes are wanted, and %lld of %lld are in use by running work; raise cache.max_size or run less at once",
        c->dir, (long long)bytes, (long long)c->stats.used_bytes, (long long)c->stats.capacity_bytes);
}

/* Evict until `bytes` more fit under the limit. The lock is held. */
static int fit_limit(struct cache *c, int64_t bytes, struct err *err) {
    if (bytes > c->stats.capacity_bytes)
        return no_room(c, bytes, err);
    while (c->stats.used_bytes > c->stats.capacity_bytes - bytes)
        if (!evict_one(c))
            return no_room(c, bytes, err);
    return 0;
}

/* What writers were promised and have not taken up yet. The lock is held. */
static int64_t still_to_come(const struct cache *c) {
    char dir[CACHE_PATH_SIZE];
    int64_t bytes = 0;
    for (const struct partial *p = c->partials; p; p = p->newer) {
        if (!p->promised)
            continue;
        slot_dir(c, p->name, dir);
        int64_t there = bytes_below(dir);
        bytes += there < p->promised ? p->promised - there : 0;
    }
    return bytes;
}

/* Evict until the volume has `bytes` free that were not promised to others. The lock is held. */
static int fit_volume(struct cache *c, int64_t bytes, struct err *err) {
    int64_t promised = still_to_come(c);
    for (;;) {
        int64_t available = fsio_free_bytes(c->dir);
        if (available < 0 || available - promised >= bytes)
            return 0;
        if (!evict_one(c))
            return err_errno(err, ENOSPC,
                             "cache %s: %lld bytes are wanted, its volume has %lld free and %lld promised to other files", c->dir,
                             (long long)bytes, (long long)available, (long long)promised);
    }
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

/* What the directory held before, to be put in order of last use. */
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

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Of an atomic write that never ended nobody can make use. */
static int take_left(void *ctx, const char *relative, int64_t size, struct err *err) {
    const struct usage *u = ctx;
    char path[CACHE_PATH_SIZE];
    if (!strstr(relative, ".tmp-") || !str_format(path, sizeof path, "%s/%s", u->dir, relative))
        return add_usage(ctx, relative, size, err);
    unlink(path);
    return 0;
}

/* Names in a directory, malloc'd, sorted. */
static size_t names_of(const char *dir, char **names, size_t most) {
    size_t n = 0;
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && n < most && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && (names[n] = strdup(e->d_name)))
            n++;
    if (d)
        closedir(d);
    qsort(names, n, sizeof *names, by_name);
    return n;
}

/* What writers left before; all that is not so, or is in place already, goes. */
static int load_partials(struct cache *c, struct err *err) {
    enum { MAX_NAMES = 4096 };
    char dir[CACHE_PATH_SIZE], path[CACHE_PATH_SIZE];
    char **names = calloc(MAX_NAMES, sizeof *names);
    int rc = names ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", c->dir);
    slot_dir(c, "", dir);
    size_t n = rc ? 0 : names_of(dir, names, MAX_NAMES);
    for (size_t i = 0; i < n; i++) {
        slot_dir(c, names[i], path);
        struct usage left = {.dir = path};
        bool keep = digest_is_hex(names[i]) && !map_get(c->by_key, names[i]) && !fsio_walk(path, take_left, &left, NULL);
        if (!rc && (!keep || !left.bytes))
            rc = fsio_remove_tree(path, err);
        else if (!rc && !add_partial(c, names[i], left.bytes))
            rc = err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", c->dir);
        free(names[i]);
    }
    free(names);
    bound_left(c);
    return rc;
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
        rc = load_partials(c, err);
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
    str_format(path, sizeof path, "%s/partial", c->dir);
    return rc ? rc : fsio_mkdirs(path, err);
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
    while (c->partials)
        forget_partial(c, c->partials);
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
    c->stats.used_bytes -= there;
    int rc = fit_limit(c, bytes, err);
    if (!rc)
        rc = fit_volume(c, bytes > there ? bytes - there : 0, err);
    if (!rc) {
        p->promised = bytes;
        c->stats.used_bytes += bytes;
        return 0;
    }
    p->busy = false;
    p->bytes = there;
    c->stats.used_bytes += there;
    return rc;
}

int cache_reserve(struct cache *c, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err) {
    char name[NAME_SIZE], dir[CACHE_PATH_SIZE];
    int rc = check_key(c, key, err);
    if (!rc && bytes < 0)
        rc = err_set(err, ERR_INVALID, "cache %s: cannot set aside %lld bytes", c->dir, (long long)bytes);
    if (rc)
        return rc;
    pthread_mutex_lock(&c->lock);
    struct partial *p = find_partial(c, key);
    bool second = p && p->busy; /* another thread fills this key: a place beside it */
    str_format(name, sizeof name, second ? "%s-%llu" : "%s", key, (unsigned long long)c->next_slot++);
    if ((!p || second) && !(p = add_partial(c, name, 0)))
        rc = err_set(err, ERR_EXHAUSTED, "cache %s: out of memory", c->dir);
    if (!rc && (rc = set_aside(c, p, bytes, err)) && !p->bytes)
        forget_partial(c, p);
    pthread_mutex_unlock(&c->lock);
    if (rc)
        return rc;
    ret->reserved_bytes = bytes;
    str_copy(ret->key, sizeof ret->key, key);
    slot_dir(c, name, dir);
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

/* The slot's room counts no more. The lock is held. */
static void take_back(struct cache *c, struct cache_slot *slot) {
    char dir[CACHE_PATH_SIZE];
    struct partial *p = find_partial(c, dir_of(slot, dir));
    if (p)
        p->promised = 0;
    c->stats.used_bytes -= slot->reserved_bytes;
    slot->reserved_bytes = 0;
}

/* The synced file of the slot becomes the entry, or gives way to the one that is there. The lock is held. */
static int put_in_place(struct cache *c, struct cache_slot *slot, int64_t bytes, const char *path, struct err *err) {
    take_back(c, slot);
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
    int64_t bytes = leave && first ? bytes_below(dir) : 0;
    if (!bytes)
        (void)fsio_remove_tree(dir, NULL);
    pthread_mutex_lock(&c->lock);
    take_back(c, slot);
    struct partial *p = find_partial(c, name);
    if (p)
        forget_partial(c, p);
    if (bytes && !add_partial(c, slot->key, bytes)) /* becomes the newest */
        (void)fsio_remove_tree(dir, NULL);
    bound_left(c);
    (void)fit_limit(c, 0, NULL);
    pthread_mutex_unlock(&c->lock);
}

void cache_abort(struct cache *c, struct cache_slot *slot) { release(c, slot, false); }

void cache_suspend(struct cache *c, struct cache_slot *slot) { release(c, slot, true); }

void cache_stats(struct cache *c, struct cache_stats *ret) {
    pthread_mutex_lock(&c->lock);
    *ret = c->stats;
    pthread_mutex_unlock(&c->lock);
}
