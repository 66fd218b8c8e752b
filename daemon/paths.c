#include "daemon/paths.h"

#include "base/log.h"
#include "detect/builtin.h"

/* "-12" at the end of n characters: returns where it begins, 0 if there is none. */
static size_t number_at_end(const char *text, size_t n) {
    size_t at = n;
    while (at && isdigit((unsigned char)text[at - 1]))
        at--;
    return at && at < n && text[at - 1] == '-' ? at - 1 : 0;
}

/* "train-261127-3-0": the id of a job, and a rank. */
static bool is_of_rank(const char *name) {
    size_t at = strlen(name);
    for (int i = 0; i < 3 && at; i++)
        at = number_at_end(name, at);
    return at > 0;
}

static bool is_of_network(const char *name) {
    return str_starts(name, "upload-") || str_starts(name, "snapshot-0x") || str_starts(name, "backup-");
}

/* Removes the entries of a folder that are an earlier process's by their names. */
static int clear_folder(const char *folder, bool (*is_own)(const char *name), struct err *err) {
    OWNED_DIR DIR *d = opendir(folder);
    struct dirent *e = NULL;
    char path[4096];
    int rc = d || errno == ENOENT ? 0 : err_errno(err, errno, "cannot open directory %s", folder);
    while (d && !rc && !(rc = fsio_next_entry(d, &e, err)) && e)
        if (is_own(e->d_name) && !(rc = fsio_join(path, sizeof path, folder, e->d_name, err)))
            rc = fsio_remove_tree(path, err);
    return rc;
}

/* Removes what an earlier process left: in the cache files of unfinished networks and snapshots, and of the ranks of trainings; in
 * the results halves of uploads. */
static int clear_old(const struct config *c, struct err *err) {
    char path[4096];
    int rc;
    if ((rc = fsio_join(path, sizeof path, c->cache, "ranks", err)) || (rc = clear_folder(path, is_of_rank, err)) ||
        (rc = fsio_join(path, sizeof path, c->results, "uploads", err)) || (rc = fsio_remove_temporaries(path, err)) ||
        (rc = fsio_join(path, sizeof path, c->cache, "networks", err)) || (rc = clear_folder(path, is_of_network, err)))
        return rc;
    return fsio_mkdirs(path, err);
}

int paths_restoring(const struct config *c, char *buf, size_t size, struct err *err) {
    return fsio_join(buf, size, c->results, ".restoring", err);
}

void paths_unlock(struct paths_locks *locks) {
    if (locks->cache >= 0)
        close(locks->cache);
    if (locks->results >= 0)
        close(locks->results);
    *locks = (struct paths_locks){-1, -1};
}

/* The name differs from that of the cache's lock: both may be one directory. */
static int lock_results(const struct config *c, int *ret, struct err *err) {
    char lock[4096], text[800];
    struct err why;
    int rc = fsio_join(lock, sizeof lock, c->results, ".results.lock", err);
    if (rc || !(rc = fsio_lock(lock, ret, &why)))
        return rc;
    if (rc == ERR_PRECONDITION)
        return err_set(err, rc, "another daemon uses paths.results: %s", why.message);
    log_warn("paths.results is not locked: no other daemon may use it", "error=\"%s\"", err_text(&why, text, sizeof text));
    return 0;
}

int paths_lock(const struct config *c, struct paths_locks *ret, struct err *err) {
    char lock[4096];
    int rc;
    *ret = (struct paths_locks){-1, -1};
    if (fsio_mkdirs(c->cache, err))
        return err_wrap(err, "paths.cache");
    if (fsio_mkdirs(c->results, err))
        return err_wrap(err, "paths.results");
    if ((rc = fsio_join(lock, sizeof lock, c->cache, ".lock", err)))
        return rc;
    if ((rc = fsio_lock(lock, &ret->cache, err)) == ERR_PRECONDITION)
        err_wrap(err, "another daemon uses paths.cache");
    return rc ? rc : lock_results(c, &ret->results, err);
}

static int check_restored(const struct config *c, struct err *err) {
    char restoring[4096];
    int rc = paths_restoring(c, restoring, sizeof restoring, err);
    if (rc || !fsio_exists(restoring))
        return rc;
    return err_set(err, ERR_PRECONDITION,
                   "a restore into %s has not ended; run `brrd --restore DIR` again, or delete %s to use what is there", c->results,
                   restoring);
}

int paths_open(const struct config *c, struct paths_locks *ret, struct err *err) {
    char text[800];
    struct err why;
    int rc;
    if ((rc = paths_lock(c, ret, err)) || (rc = check_restored(c, err)) || (rc = clear_old(c, err)))
        return rc;
    if (builtin_write(c->cache, &why))
        log_warn("the built-in models may be missing", "error=\"%s\"", err_text(&why, text, sizeof text));
    if (access(c->data, R_OK | X_OK))
        log_warn("no recordings", "paths.data=\"%s\" error=\"%s\" fix=\"%s\"", c->data, strerror(errno),
                 "make it readable, or set paths.data; until then jobs can use recordings from stores");
    return 0;
}

/* The start makes no folder for a database or for the socket, whose folder below /run the service manager makes. */
static int check_above(const struct config *c, const char *key, const char *file, struct err *err) {
    const char *slash = file ? strrchr(file, '/') : NULL;
    char folder[4096];
    if (!file || str_starts(file, "/run/"))
        return 0;
    str_format(folder, sizeof folder, "%.*s", slash ? (int)(slash - file + (slash == file)) : 1, slash ? file : ".");
    if (!strcmp(folder, c->cache) || !strcmp(folder, c->results) || !access(folder, W_OK | X_OK))
        return 0;
    return err_errno(err, errno, "%s: folder %s cannot be used; make it, writable for the daemon's user", key, folder);
}

int paths_check(const struct config *c, struct err *err) {
    const struct {
        const char *key, *path;
        bool above;
    } all[] = {{"paths.cache", c->cache, false},
               {"paths.results", c->results, false},
               {"sessions.shared", c->shared_sessions, false},
               {"viewer.corrections", c->corrections, false},
               {"jobs.database", c->database, true},
               {"journal.file", c->journal, true},
               {"listen.unix", c->unix_path, true}};
    int rc;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (all[i].above && (rc = check_above(c, all[i].key, all[i].path, err)))
            return rc;
        if (!all[i].above && all[i].path && fsio_can_mkdirs(all[i].path, err))
            return err_wrap(err, "%s: name a folder that the daemon's user can write or make", all[i].key);
    }
    return check_restored(c, err);
}
