#include "daemon/paths.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/log.h"
#include "detect/builtin.h"

/* Removes what an earlier process left in the cache: files of unfinished networks and snapshots, and of the ranks of trainings. */
static int clear_cache(const struct config *c, struct err *err) {
    static const char *const folders[] = {"ranks", "networks"};
    char path[4096];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        int rc;
        if ((rc = fsio_join(path, sizeof path, c->cache, folders[i], err)) || (rc = fsio_remove_tree(path, err)))
            return rc;
    }
    return fsio_mkdirs(path, err);
}

int paths_restoring(const struct config *c, char *buf, size_t size, struct err *err) {
    return fsio_join(buf, size, c->results, ".restoring", err);
}

int paths_lock(const struct config *c, int *ret_lock, struct err *err) {
    char lock[4096];
    int rc;
    if (fsio_mkdirs(c->cache, err))
        return err_wrap(err, "paths.cache");
    if (fsio_mkdirs(c->results, err))
        return err_wrap(err, "paths.results");
    if ((rc = fsio_join(lock, sizeof lock, c->cache, ".lock", err)))
        return rc;
    if ((rc = fsio_lock(lock, ret_lock, err)) == ERR_PRECONDITION)
        err_wrap(err, "another daemon uses paths.cache");
    return rc;
}

int paths_open(const struct config *c, int *ret_lock, struct err *err) {
    char restoring[4096], text[800];
    struct err why;
    int rc;
    if ((rc = paths_lock(c, ret_lock, err)) || (rc = paths_restoring(c, restoring, sizeof restoring, err)))
        return rc;
    if (fsio_exists(restoring))
        return err_set(err, ERR_PRECONDITION,
                       "a restore into %s has not ended; run `brrd --restore DIR` again, or delete %s to begin with what is there",
                       c->results, restoring);
    if ((rc = clear_cache(c, err)))
        return rc;
    if (builtin_write(c->cache, &why))
        log_warn("the built-in models may be missing", "error=\"%s\"", err_text(&why, text, sizeof text));
    if (access(c->data, R_OK | X_OK))
        log_warn("no recordings", "paths.data=\"%s\" error=\"%s\" fix=\"%s\"", c->data, strerror(errno),
                 "make it readable, or set paths.data; until then jobs can use recordings from stores");
    return 0;
}

int paths_check(const struct config *c, struct err *err) {
    if (fsio_can_mkdirs(c->cache, err))
        return err_wrap(err, "paths.cache");
    return fsio_can_mkdirs(c->results, err) ? err_wrap(err, "paths.results") : 0;
}
