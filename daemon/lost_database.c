#include "daemon/lost_database.h"

#include "daemon/db/db.h"
#include "daemon/models/model_file.h"

enum { PATH_SIZE = 4096 };

static bool is_any(const char *name) { return *name != '.'; }

/* True if the folder of paths.results has an entry that counts. */
static bool has_entries(const struct config *c, const char *folder, bool (*counts)(const char *name)) {
    char path[PATH_SIZE];
    bool found = false;
    OWNED_DIR DIR *dir = fsio_join(path, sizeof path, c->results, folder, NULL) ? NULL : opendir(path);
    for (const struct dirent *e; dir && !found && (e = readdir(dir));) /* NOLINT(concurrency-mt-unsafe) */
        found = counts(e->d_name);
    return found;
}

int lost_database_look(const struct config *c, struct err *err) {
    int64_t bytes = 0, time_ns;
    const bool there = !fsio_size(c->database, &bytes, &time_ns, NULL) && bytes > 0;
    if (there) {
        if (db_verify(c->database, err) != ERR_DATA_LOSS)
            return 0;
        return err_wrap(err,
                        "jobs.database %s is malformed: stop the daemon, move the file away with its -wal and -shm, and restore a "
                        "backup (brrd --restore DIR)",
                        c->database);
    }
    if (!has_entries(c, "jobs", is_any) && !has_entries(c, "models", model_file_is_link) && !has_entries(c, "served", is_any))
        return 0;
    return err_set(err, ERR_DATA_LOSS,
                   "jobs.database %s is %s, and %s has results of jobs or models that serve: stop the daemon and put the file "
                   "back, or restore a backup (brrd --restore DIR); to begin anew, move the folders jobs, models and served away",
                   c->database, fsio_exists(c->database) ? "empty" : "missing", c->results);
}
