#include "daemon/backup/backup.h"

#include "formats/eegfile.h"

static const char *const folders[] = {"models", "served", "pinned", "uploads", "sessions", "corrections", "onsets"};

struct listing {
    struct backup_files *files;
    const char *folder;
};

/* Beside the answers of readers there are links to recordings, which are no part of a backup. */
static bool left_out(const char *folder, const char *path) {
    return (!strcmp(folder, "corrections") && eegfile_kind(path) != EEGFILE_NONE) || fsio_is_temporary(fsio_basename(path)) ||
           str_starts(path, "rejected/") || str_starts(path, ".fetch/");
}

static int list_one(void *ctx, const char *path, int64_t bytes, struct err *err) {
    struct listing *l = ctx;
    char whole[4096];
    (void)bytes;
    if (left_out(l->folder, path))
        return 0;
    if (l->files->n == BACKUP_MAX_FILES)
        return err_set(err, ERR_EXHAUSTED, "more than %d files to back up in %s", BACKUP_MAX_FILES, l->folder);
    int rc = fsio_join(whole, sizeof whole, l->folder, path, err);
    if (rc)
        return rc;
    char *copy = strdup(whole);
    char **more = copy ? realloc(l->files->paths, (l->files->n + 1) * sizeof *more) : NULL;
    if (!more) {
        free(copy);
        return err_set(err, ERR_EXHAUSTED, "out of memory for the list of files");
    }
    more[l->files->n++] = copy;
    l->files->paths = more;
    return 0;
}

int backup_files(const char *results, struct backup_files *ret, struct err *err) {
    *ret = (struct backup_files){0};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct listing l = {ret, folders[i]};
        char path[4096];
        int rc = fsio_join(path, sizeof path, results, folders[i], err);
        if (!rc && fsio_is_dir(path))
            rc = fsio_walk(path, list_one, &l, err);
        if (rc) {
            backup_files_done(ret);
            return rc;
        }
    }
    return 0;
}

void backup_files_done(struct backup_files *files) {
    for (size_t i = 0; i < files->n; i++)
        free(files->paths[i]);
    free(files->paths);
    *files = (struct backup_files){0};
}
