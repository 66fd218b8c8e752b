#include "store/partials.h"

#include "base/order.h"

enum { MAX_LEFT = 64, MAX_NAMES = 4096 };

void partials_path(const struct partials *all, const char *name, char path[CACHE_PATH_SIZE]) {
    str_format(path, CACHE_PATH_SIZE, "%s/%s", all->dir, name);
}

struct usage {
    const char *dir;
    int64_t bytes;
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

int64_t partials_bytes_below(const char *dir) {
    struct usage u = {.dir = dir};
    return fsio_walk(dir, add_usage, &u, NULL) ? 0 : u.bytes;
}

struct partial *partials_find(const struct partials *all, const char *name) {
    struct partial *p = all->oldest;
    while (p && strcmp(p->name, name) != 0)
        p = p->newer;
    return p;
}

struct partial *partials_add(struct partials *all, const char *name, int64_t bytes) {
    struct partial **at = &all->oldest, *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    while (*at)
        at = &(*at)->newer;
    str_copy(p->name, sizeof p->name, name);
    p->bytes = bytes;
    *at = p;
    return p;
}

void partials_forget(struct partials *all, struct partial *p) {
    struct partial **at = &all->oldest;
    while (*at != p)
        at = &(*at)->newer;
    *at = p->newer;
    free(p);
}

bool partials_drop(struct partials *all) {
    char dir[CACHE_PATH_SIZE];
    struct partial *p = all->oldest;
    while (p && p->busy)
        p = p->newer;
    if (!p)
        return false;
    partials_path(all, p->name, dir);
    (void)fsio_remove_tree(dir, NULL);
    partials_forget(all, p);
    return true;
}

void partials_bound(struct partials *all) {
    int n = 0;
    for (const struct partial *p = all->oldest; p; p = p->newer)
        n += !p->busy;
    while (n-- > MAX_LEFT)
        partials_drop(all);
}

int64_t partials_bytes(const struct partials *all) {
    int64_t bytes = 0;
    for (const struct partial *p = all->oldest; p; p = p->newer)
        bytes += p->bytes + p->promised;
    return bytes;
}

int64_t partials_windows(const struct partials *all) {
    int64_t bytes = 0;
    for (const struct partial *p = all->oldest; p; p = p->newer)
        bytes += p->window ? p->promised : 0;
    return bytes;
}

int64_t partials_promised(const struct partials *all, bool left) {
    char dir[CACHE_PATH_SIZE];
    int64_t bytes = 0;
    for (const struct partial *p = all->oldest; p; p = p->newer) {
        if (!p->promised)
            continue;
        partials_path(all, p->name, dir);
        int64_t there = left ? partials_bytes_below(dir) : 0;
        bytes += there < p->promised ? p->promised - there : 0;
    }
    return bytes;
}

/* ---- what earlier processes left ---- */

/* Of an atomic write that never ended nobody can make use. */
static int take_left(void *ctx, const char *relative, int64_t size, struct err *err) {
    const struct usage *u = ctx;
    char path[CACHE_PATH_SIZE];
    if (!fsio_is_temporary(relative) || !str_format(path, sizeof path, "%s/%s", u->dir, relative))
        return add_usage(ctx, relative, size, err);
    unlink(path);
    return 0;
}

/* Names in a directory, malloc'd, sorted. */
static size_t names_of(const char *dir, char **names, size_t most) {
    size_t n = 0;
    OWNED_DIR DIR *d = opendir(dir);
    for (const struct dirent *e; d && n < most && (e = readdir(d));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && (names[n] = strdup(e->d_name)))
            n++;
    SORT(names, n, order_strings);
    return n;
}

static void names_done(char ***names) {
    for (size_t i = 0; *names && i < MAX_NAMES; i++)
        free((*names)[i]);
    free(*names);
}

int partials_load(struct partials *all, bool (*wanted)(void *ctx, const char *key), void *ctx, struct err *err) {
    char path[CACHE_PATH_SIZE];
    OWNED(names_done) char **names = calloc(MAX_NAMES, sizeof *names);
    if (!names)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", all->dir);
    size_t n = names_of(all->dir, names, MAX_NAMES);
    for (size_t i = 0; i < n; i++) {
        partials_path(all, names[i], path);
        struct usage left = {.dir = path};
        bool keep = digest_is_hex(names[i]) && wanted(ctx, names[i]) && !fsio_walk(path, take_left, &left, NULL);
        int rc = keep && left.bytes ? 0 : fsio_remove_tree(path, err);
        if (rc)
            return rc;
        if (keep && left.bytes && !partials_add(all, names[i], left.bytes))
            return err_set(err, ERR_EXHAUSTED, "out of memory reading %s", all->dir);
    }
    partials_bound(all);
    return 0;
}
