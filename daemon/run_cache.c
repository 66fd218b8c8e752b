#include "daemon/run_cache.h"

#include <signal.h>

static const char prefix[] = "run-";

static int lock_of(const char *folder, int *ret, struct err *err) {
    char lock[4096];
    int rc = fsio_join(lock, sizeof lock, folder, ".lock", err);
    return rc ? rc : fsio_lock(lock, ret, err);
}

/* The process of this name has gone. One in another container may have the same number, so the lock is asked too. */
static bool is_left(const char *folder, const char *name) {
    OWNED_FD int lock = -1;
    int64_t pid;
    if (!str_starts(name, prefix) || !str_to_i64(name + sizeof prefix - 1, &pid) || pid <= 0)
        return false;
    return kill((pid_t)pid, 0) && errno == ESRCH && !lock_of(folder, &lock, NULL);
}

static void remove_left(const char *configured) {
    char folder[4096];
    OWNED_DIR DIR *dir = opendir(configured);
    struct dirent *entry;
    while (dir && !fsio_next_entry(dir, &entry, NULL) && entry)
        if (!fsio_join(folder, sizeof folder, configured, entry->d_name, NULL) && is_left(folder, entry->d_name))
            fsio_remove_tree(folder, NULL);
}

static int open_own(const char *configured, struct run_cache *c, struct err *err) {
    char name[32];
    int rc;
    str_format(name, sizeof name, "%s%ld", prefix, (long)getpid());
    if ((rc = fsio_join(c->path, sizeof c->path, configured, name, err)) || (rc = fsio_mkdirs(c->path, err)))
        return rc;
    c->own = true;
    return lock_of(c->path, &c->lock, err);
}

int run_cache_open(const char *configured, struct run_cache *ret, struct err *err) {
    *ret = (struct run_cache){.lock = -1};
    int rc = fsio_mkdirs(configured, err);
    if (rc)
        return rc;
    remove_left(configured);
    rc = lock_of(configured, &ret->lock, err);
    if (rc == ERR_PRECONDITION)
        return open_own(configured, ret, err);
    str_copy(ret->path, sizeof ret->path, configured);
    return rc;
}

void run_cache_close(struct run_cache *c) {
    if (c->own)
        fsio_remove_tree(c->path, NULL);
    if (c->lock >= 0)
        close(c->lock);
}
