#include "store/cache.h"

#include "base/grow.h"
#include "base/map.h"
#include "base/order.h"
#include "store/partials.h"

enum { MAX_ENTRIES = 1 << 20, SHARD_DIGITS = 2 };

/* Where entries lie: SHELF/ab/KEY plus the suffix. */
enum shelf { OBJECTS, WINDOWS, SHELVES };
static const char *const suffixes[SHELVES] = {[OBJECTS] = "", [WINDOWS] = ".win"};

struct entry {
    struct entry *older, *newer; /* by last use */
    char key[DIGEST_HEX_SIZE];
    enum shelf shelf;
    int64_t bytes;
    int pins;
};

struct cache {
    pthread_mutex_t lock; /* everything below; held over unlink and rename, never over reads, writes or syncs */
    char dir[CACHE_PATH_SIZE - 160];
    char shelves[SHELVES][CACHE_PATH_SIZE - 140]; /* "" = not kept */
    int lock_fd;
    struct map *by_key;
    struct entry *oldest, *newest;
    struct partials partials;
    struct cache_stats stats; /* used_bytes: of entries alone */
    int64_t pinned_windows;   /* bytes */
    uint64_t next_slot;
};

static void entry_path(const struct cache *c, enum shelf shelf, const char *key, char path[CACHE_PATH_SIZE]) {
    str_format(path, CACHE_PATH_SIZE, "%s/%.*s/%s%s", c->shelves[shelf], SHARD_DIGITS, key, key, suffixes[shelf]);
}

static void count_bytes(struct cache *c, const struct entry *e, int64_t bytes) {
    c->stats.used_bytes += bytes;
    if (e->shelf == WINDOWS)
        c->stats.window_bytes += bytes;
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
    count_bytes(c, e, -e->bytes);
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
    entry_path(c, e->shelf, e->key, path);
    unlink(path);
    *(e->shelf == WINDOWS ? &c->stats.window_evictions : &c->stats.evictions) += 1;
    forget(c, e);
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

/* What may exceed the limit: windows that are used or being written. */
static int64_t windows_in_use(const struct cache *c) { return c->pinned_windows + partials_windows(&c->partials); }

/* Evict until `bytes` more fit under the limit, which windows in use may exceed. The lock is held. */
static int fit_limit(struct cache *c, enum shelf shelf, int64_t bytes, struct err *err) {
    int64_t room = c->stats.capacity_bytes - bytes;
    if (shelf == OBJECTS && room < 0)
        return no_room(c, bytes, err);
    while (used_bytes(c) > room)
        if (!evict_one(c))
            return shelf == WINDOWS || used_bytes(c) - windows_in_use(c) <= room ? 0 : no_room(c, bytes, err);
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
static struct entry *add_entry(struct cache *c, enum shelf shelf, const char *key, int64_t bytes) {
    if (map_count(c->by_key) >= MAX_ENTRIES && !evict_one(c))
        return NULL;
    struct entry *e = calloc(1, sizeof *e);
    if (!e || map_put(c->by_key, key, e, NULL)) {
        free(e);
        return NULL;
    }
    str_copy(e->key, sizeof e->key, key);
    e->shelf = shelf;
    e->bytes = bytes;
    link_newest(c, e);
    count_bytes(c, e, bytes);
    c->stats.entries++;
    return e;
}

static void pin(struct cache *c, struct entry *e) {
    if (e->pins++ == 0) {
        c->stats.pinned++;
        c->pinned_windows += e->shelf == WINDOWS ? e->bytes : 0;
    }
    unlink_entry(c, e);
    link_newest(c, e);
}

/* Files that the directory held before, to be sorted by last use. */
struct found {
    char key[DIGEST_HEX_SIZE];
    enum shelf shelf;
    int64_t bytes, used_ns;
};

struct stock {
    struct cache *cache;
    enum shelf shelf; /* being read */
    struct found *items;
    size_t count, cap;
};

/* The key of "ab/KEY" plus the suffix. */
static bool key_in(const char *relative, const char *suffix, char ret[DIGEST_HEX_SIZE]) {
    const char *name = relative + SHARD_DIGITS + 1;
    if (strlen(relative) != SHARD_DIGITS + DIGEST_HEX_SIZE + strlen(suffix) || !str_ends(relative, suffix) ||
        strncmp(relative, name, SHARD_DIGITS) != 0)
        return false;
    str_format(ret, DIGEST_HEX_SIZE, "%.*s", DIGEST_HEX_SIZE - 1, name);
    return digest_is_hex(ret);
}

static int take_stock(void *ctx, const char *relative, int64_t size, struct err *err) {
    struct stock *s = ctx;
    char path[CACHE_PATH_SIZE];
    char key[DIGEST_HEX_SIZE];
    struct stat st;
    if (!key_in(relative, suffixes[s->shelf], key))
        return 0; /* not ours: left alone */
    entry_path(s->cache, s->shelf, key, path);
    if (stat(path, &st) < 0)
        return 0;
    if (!GROW(s->items, s->count, s->cap))
        return err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", s->cache->dir);
    int64_t read_ns = (int64_t)st.st_atim.tv_sec * 1000000000 + st.st_atim.tv_nsec;
    int64_t written_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    struct found *f = &s->items[s->count++];
    *f = (struct found){.shelf = s->shelf, .bytes = size, .used_ns = read_ns > written_ns ? read_ns : written_ns};
    str_copy(f->key, sizeof f->key, key);
    return 0;
}

ORDER_BY(by_use, struct found, order_then(order_i64(x->used_ns, y->used_ns), strcmp(x->key, y->key)))

static bool is_missing(void *ctx, const char *key) {
    const struct cache *c = ctx;
    return !map_get(c->by_key, key);
}

static int take_shelf(struct stock *s, enum shelf shelf, struct err *err) {
    s->shelf = shelf;
    return *s->cache->shelves[shelf] ? fsio_walk(s->cache->shelves[shelf], take_stock, s, err) : 0;
}

/* Entries of the directories into memory, oldest first, within the limit. */
static void stock_done(struct stock *s) { free(s->items); }

static int load(struct cache *c, struct err *err) {
    OWNED(stock_done) struct stock s = {.cache = c};
    int rc;
    if ((rc = take_shelf(&s, OBJECTS, err)) || (rc = take_shelf(&s, WINDOWS, err)))
        return rc;
    SORT(s.items, s.count, by_use);
    for (size_t i = 0; i < s.count; i++)
        if (!add_entry(c, s.items[i].shelf, s.items[i].key, s.items[i].bytes))
            return err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", c->dir);
    if ((rc = partials_load(&c->partials, is_missing, c, err)))
        return rc;
    return fit_limit(c, OBJECTS, 0, err);
}

/* DIR/entries, DIR/partial, the folder of windows, and the lock. */
static int prepare(struct cache *c, struct err *err) {
    char path[CACHE_PATH_SIZE];
    str_format(path, sizeof path, "%s/.lock", c->dir);
    str_format(c->shelves[OBJECTS], sizeof c->shelves[OBJECTS], "%s/entries", c->dir);
    str_format(c->partials.dir, sizeof c->partials.dir, "%s/partial", c->dir);
    int rc;
    if ((rc = fsio_mkdirs(c->dir, err)) || (rc = fsio_lock(path, &c->lock_fd, err)) || (rc = fsio_mkdirs(c->shelves[OBJECTS], err)))
        return rc;
    if (*c->shelves[WINDOWS] &&
        ((rc = fsio_mkdirs(c->shelves[WINDOWS], err)) || (rc = fsio_remove_temporaries(c->shelves[WINDOWS], err))))
        return rc;
    return fsio_mkdirs(c->partials.dir, err);
}

int cache_open(const char *dir, const char *windows, int64_t max_bytes, struct cache **ret, struct err *err) {
    if (max_bytes <= 0)
        return err_set(err, ERR_INVALID, "cache %.200s: a limit of %lld bytes; expected more than 0", dir, (long long)max_bytes);
    struct cache *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", dir);
    pthread_mutex_init(&c->lock, NULL);
    c->lock_fd = -1;
    c->stats.capacity_bytes = max_bytes;
    c->by_key = map_new(MAX_ENTRIES);
    int rc;
    if ((rc = c->by_key ? 0 : err_set(err, ERR_EXHAUSTED, "out of memory opening cache %s", dir)) ||
        (rc = fsio_absolute(c->dir, sizeof c->dir, dir, err)) ||
        (windows && (rc = fsio_absolute(c->shelves[WINDOWS], sizeof c->dir, windows, err))) || (rc = prepare(c, err)) ||
        (rc = load(c, err)))
        cache_close(c);
    else
        *ret = c;
    return rc;
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

static int lookup(struct cache *c, enum shelf shelf, const char *key, char *ret_path, struct err *err) {
    char path[CACHE_PATH_SIZE];
    int rc = check_key(c, key, err);
    if (rc)
        return rc;
    entry_path(c, shelf, key, path);
    pthread_mutex_lock(&c->lock);
    struct entry *e = map_get(c->by_key, key);
    /* Now is the time of last use, for the next process. ENOENT: somebody removed the file behind our back. */
    static const struct timespec now[2] = {{.tv_nsec = UTIME_NOW}, {.tv_nsec = UTIME_OMIT}};
    if (e && (utimensat(AT_FDCWD, path, now, 0) == 0 || errno != ENOENT)) {
        pin(c, e);
        *(shelf == WINDOWS ? &c->stats.window_hits : &c->stats.hits) += 1;
    } else {
        if (e && !e->pins)
            forget(c, e);
        *(shelf == WINDOWS ? &c->stats.window_misses : &c->stats.misses) += 1;
        rc = err_set(err, ERR_NOT_FOUND, "cache %s has no entry %s", c->dir, key);
    }
    pthread_mutex_unlock(&c->lock);
    if (rc)
        return rc;
    str_copy(ret_path, CACHE_PATH_SIZE, path);
    return 0;
}

int cache_lookup(struct cache *c, const char *key, char *ret_path, struct err *err) {
    return lookup(c, OBJECTS, key, ret_path, err);
}

int cache_lookup_window(struct cache *c, const char *key, char *ret_path, struct err *err) {
    return lookup(c, WINDOWS, key, ret_path, err);
}

/* The lock is held. */
static void unpin(struct cache *c, struct entry *e) {
    if (!e || !e->pins || --e->pins)
        return;
    c->stats.pinned--;
    c->pinned_windows -= e->shelf == WINDOWS ? e->bytes : 0;
}

void cache_unpin(struct cache *c, const char *key) {
    LOCKED(&c->lock);
    unpin(c, map_get(c->by_key, key));
    (void)fit_limit(c, WINDOWS, 0, NULL); /* which windows in use may have exceeded */
}

void cache_discard(struct cache *c, const char *key) {
    char path[CACHE_PATH_SIZE];
    LOCKED(&c->lock);
    struct entry *e = map_get(c->by_key, key);
    unpin(c, e);
    if (e && !e->pins) {
        entry_path(c, e->shelf, key, path);
        unlink(path);
        forget(c, e);
    }
}

/* Room for a writer of p, where something may have been left. The lock is held. */
static int set_aside(struct cache *c, struct partial *p, enum shelf shelf, int64_t bytes, struct err *err) {
    int64_t there = p->bytes;
    p->busy = true; /* not to be dropped for its own sake */
    p->bytes = 0;
    int rc;
    if ((rc = fit_limit(c, shelf, bytes, err)) || (rc = fit_volume(c, bytes > there ? bytes - there : 0, err))) {
        p->busy = false;
        p->bytes = there;
        return rc;
    }
    p->promised = bytes;
    p->window = shelf == WINDOWS;
    return 0;
}

/* Reserves ret->key on the shelf of the slot. */
static int reserve(struct cache *c, int64_t bytes, struct cache_slot *ret, struct err *err) {
    const char *key = ret->key;
    char name[PARTIAL_NAME_SIZE], dir[CACHE_PATH_SIZE];
    int rc = 0;
    if (bytes < 0)
        return err_set(err, ERR_INVALID, "cache %s: cannot set aside %lld bytes", c->dir, (long long)bytes);
    pthread_mutex_lock(&c->lock);
    struct partial *p = partials_find(&c->partials, key);
    bool second = p && p->busy; /* another thread fills this key: a place beside it */
    str_format(name, sizeof name, second ? "%s-%llu" : "%s", key, (unsigned long long)c->next_slot++);
    if ((!p || second) && !(p = partials_add(&c->partials, name, 0)))
        rc = err_set(err, ERR_EXHAUSTED, "cache %s: out of memory", c->dir);
    if (!rc && (rc = set_aside(c, p, ret->window ? WINDOWS : OBJECTS, bytes, err)) && !p->bytes)
        partials_forget(&c->partials, p);
    pthread_mutex_unlock(&c->lock);
    if (rc)
        return rc;
    partials_path(&c->partials, name, dir);
    str_format(ret->path, sizeof ret->path, "%.*s/data", CACHE_PATH_SIZE - 8, dir);
    if ((rc = fsio_mkdirs(dir, err)))
        cache_abort(c, ret);
    return rc;
}

static int reserve_key(struct cache *c, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err) {
    int rc = check_key(c, key, err);
    if (rc)
        return rc;
    str_copy(ret->key, sizeof ret->key, key);
    return reserve(c, bytes, ret, err);
}

int cache_reserve(struct cache *c, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err) {
    ret->window = false;
    return reserve_key(c, key, bytes, ret, err);
}

int cache_reserve_window(struct cache *c, const char *key, int64_t bytes, struct cache_slot *ret, struct err *err) {
    ret->window = true;
    return reserve_key(c, key, bytes, ret, err);
}

void cache_make_room(struct cache *c, int64_t bytes) {
    LOCKED(&c->lock);
    (void)fit_volume(c, bytes, NULL);
}

static int sync_path(const char *path, int flags, int64_t *ret_bytes, struct err *err) {
    struct stat st;
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "cannot open %s", path);
    int rc = fstat(fd, &st) < 0 || fsync(fd) < 0 ? err_errno(err, errno, "cannot sync %s", path) : 0;
    close(fd);
    if (rc)
        return rc;
    if (ret_bytes)
        *ret_bytes = st.st_size;
    return 0;
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
    enum shelf shelf = slot->window ? WINDOWS : OBJECTS;
    partials_find(&c->partials, dir_of(slot, dir))->promised = 0;
    struct entry *e = map_get(c->by_key, slot->key);
    if (e && fsio_exists(path)) {
        unlink(slot->path);
        pin(c, e);
        return 0;
    }
    int rc = fit_limit(c, shelf, bytes, err);
    if (rc)
        return rc;
    if (rename(slot->path, path) < 0)
        return err_errno(err, errno, "cannot put %s in place", path);
    if ((e = map_get(c->by_key, slot->key))) { /* its file was removed behind our back while pinned */
        count_bytes(c, e, bytes - e->bytes);
        c->pinned_windows += shelf == WINDOWS ? bytes - e->bytes : 0;
        e->bytes = bytes;
    } else if (!(e = add_entry(c, shelf, slot->key, bytes))) {
        unlink(path);
        return err_set(err, ERR_EXHAUSTED, "cache %s: out of memory, or %d entries in use", c->dir, MAX_ENTRIES);
    }
    pin(c, e);
    return 0;
}

int cache_commit(struct cache *c, struct cache_slot *slot, char *ret_path, struct err *err) {
    char path[CACHE_PATH_SIZE], shard[CACHE_PATH_SIZE];
    int64_t bytes = 0;
    enum shelf shelf = slot->window ? WINDOWS : OBJECTS;
    entry_path(c, shelf, slot->key, path);
    str_format(shard, sizeof shard, "%s/%.*s", c->shelves[shelf], SHARD_DIGITS, slot->key);
    int rc;
    if (!(rc = sync_path(slot->path, O_RDONLY, &bytes, err)) && !(rc = fsio_mkdirs(shard, err))) {
        LOCKED(&c->lock);
        rc = put_in_place(c, slot, bytes, path, err);
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
    LOCKED(&c->lock);
    partials_forget(&c->partials, partials_find(&c->partials, name));
    if (bytes && !partials_add(&c->partials, slot->key, bytes)) /* becomes the newest */
        (void)fsio_remove_tree(dir, NULL);
    partials_bound(&c->partials);
    (void)fit_limit(c, WINDOWS, 0, NULL);
}

void cache_abort(struct cache *c, struct cache_slot *slot) { release(c, slot, false); }

void cache_suspend(struct cache *c, struct cache_slot *slot) { release(c, slot, true); }

void cache_stats(struct cache *c, struct cache_stats *ret) {
    LOCKED(&c->lock);
    *ret = c->stats;
    ret->used_bytes = used_bytes(c);
}
