#include "daemon/restore.h"

#include <pwd.h>
#include <sys/stat.h>

#include "daemon/backup/backup.h"
#include "daemon/db/db.h"
#include "daemon/journal/onset_files.h"
#include "daemon/live/snapshot.h"
#include "daemon/paths.h"
#include "store/digest.h"

OWNABLE(struct db, db_close)

enum { MANIFEST_BYTES = 64 << 20, PATH = 4096 };

struct restore {
    const struct config *config;
    const char *directory;
    const struct json *manifest, *files;
};

static int check_file(const struct restore *r, const struct json *file, struct err *err) {
    const char *name = json_str(json_get(file, "path"), ""), *wanted = json_str(json_get(file, "sha256"), "");
    char path[PATH], found[DIGEST_HEX_SIZE];
    int rc;
    if (!fsio_is_below(name) || !digest_is_hex(wanted))
        return err_set(err, ERR_DATA_LOSS, "%s/backup.json names a file '%.200s' without a path below it or without a SHA-256",
                       r->directory, name);
    if ((rc = fsio_join(path, sizeof path, r->directory, name, err)) || (rc = digest_file(path, found, err)))
        return rc;
    return strcmp(found, wanted)
               ? err_set(err, ERR_DATA_LOSS, "%s has SHA-256 %s, expected %s by backup.json; nothing was restored", path, found,
                         wanted)
               : 0;
}

static int check_manifest(const struct restore *r, struct err *err) {
    const int64_t format = json_i64(json_get(r->manifest, "format"), 0), schema = json_i64(json_get(r->manifest, "schema"), -1);
    const char *version = json_str(json_get(r->manifest, "version"), "?");
    bool database = false;
    int rc;
    if (format != BACKUP_FORMAT || schema < 0)
        return err_set(err, ERR_PRECONDITION, "%s/backup.json has format %lld, of brrd %s; this version reads format %d",
                       r->directory, (long long)format, version, BACKUP_FORMAT);
    if (schema > db_schema())
        return err_set(err, ERR_PRECONDITION,
                       "%s was made by brrd %s with schema %lld; this version knows schemas up to %lld: install that version",
                       r->directory, version, (long long)schema, (long long)db_schema());
    for (size_t i = 0; i < json_count(r->files); i++) {
        const struct json *file = json_at(r->files, i);
        database |= !strcmp(json_str(json_get(file, "path"), ""), BACKUP_DATABASE);
        if ((rc = check_file(r, file, err)))
            return rc;
    }
    return database ? 0 : err_set(err, ERR_DATA_LOSS, "%s has no " BACKUP_DATABASE, r->directory);
}

/* No daemon and no database: a restore never mixes two. One that was cut off goes on. */
static int check_target(const struct config *c, const char *marker, struct err *err) {
    return !fsio_exists(c->database) || fsio_exists(marker)
               ? 0
               : err_set(
                     err, ERR_PRECONDITION,
                     "the job database %s exists; move it and %s away to restore in their place, or name other paths with --set",
                     c->database, c->results);
}

static int copy_one(const struct restore *r, const struct json *file, struct err *err) {
    const char *name = json_str(json_get(file, "path"), "");
    char from[PATH], to[PATH], found[DIGEST_HEX_SIZE];
    struct err ignored = {0};
    int rc;
    if ((rc = fsio_join(from, sizeof from, r->directory, name, err)) ||
        (rc = fsio_join(to, sizeof to, r->config->results, name, err)))
        return rc;
    if (fsio_exists(to) && !digest_file(to, found, &ignored) && !strcmp(found, json_str(json_get(file, "sha256"), "")))
        return 0; /* of a restore that was cut off */
    if ((rc = fsio_mkdirs_above(to, err)))
        return rc;
    return fsio_copy(from, to, err);
}

static void remove_beside(const char *path, const char *suffix) {
    char name[PATH + 16];
    str_format(name, sizeof name, "%s%s", path, suffix);
    unlink(name);
}

static void remove_sides(const char *database) {
    static const char *const sides[] = {"-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        remove_beside(database, sides[i]);
}

/* A journal that is there already, beside a lost database, is the newer one, and stays. */
static int put_journal(const struct restore *r, const struct json *file, struct err *err) {
    const char *journal = r->config->journal;
    char from[PATH], found[DIGEST_HEX_SIZE];
    struct err ignored = {0};
    int rc;
    if (fsio_exists(journal)) {
        if (digest_file(journal, found, &ignored) || strcmp(found, json_str(json_get(file, "sha256"), "")) != 0)
            printf("the journal %s is there already and stays\n", journal);
        return 0;
    }
    remove_sides(journal);
    if ((rc = fsio_join(from, sizeof from, r->directory, BACKUP_JOURNAL, err)) || (rc = fsio_mkdirs_above(journal, err)))
        return rc;
    const mode_t before = umask(S_IXUSR | S_IRWXG | S_IRWXO); /* for the daemon's user alone, from the first byte on */
    rc = fsio_copy(from, journal, err);
    umask(before);
    return rc;
}

/* For the daemon's user alone. */
static int make_private(const struct restore *r, const char *name, struct err *err) {
    char folder[PATH];
    int rc = fsio_join(folder, sizeof folder, r->config->results, name, err);
    return rc ? rc : snapshot_prepare(folder, err);
}

static int copy_files(const struct restore *r, struct err *err) {
    int rc;
    if ((rc = make_private(r, "sessions", err)) || (rc = make_private(r, ONSETS_FOLDER, err)))
        return rc;
    for (size_t i = 0; i < json_count(r->files); i++) {
        const struct json *file = json_at(r->files, i);
        const char *name = json_str(json_get(file, "path"), "");
        if (!strcmp(name, BACKUP_DATABASE))
            continue;
        if ((rc = !strcmp(name, BACKUP_JOURNAL) ? put_journal(r, file, err) : copy_one(r, file, err)))
            return rc;
    }
    return 0;
}

/* ---- the database ---- */

/* Records name files by their whole paths. Paths that a caller wrote (served.ref, jobs.data_root, job files) stay as they are. */
static int move_paths(struct db *db, const char *from, const char *to, struct err *err) {
    static const struct {
        const char *table, *column;
    } places[] = {{"served", "path"}, {"pins", "path"}, {"checkpoints", "path"}, {"jobs", "directory"},
                  {"jobs", "best"},   {"jobs", "last"}, {"removals", "folder"}};
    char sql[256];
    int rc;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        str_format(sql, sizeof sql,
                   "UPDATE %s SET %s = ?2 || substr(%s, length(?1) + 1) WHERE substr(%s, 1, length(?1) + 1) = ?1 || '/'",
                   places[i].table, places[i].column, places[i].column, places[i].column);
        if ((rc = DB_RUN(db, sql, "change its paths", err, from, to)))
            return rc;
    }
    return DB_RUN(db,
                  "UPDATE jobs SET state='queued', reason='restored from a backup; begins at its newest checkpoint, if that is "
                  "there' WHERE state IN ('preparing', 'running')",
                  "change its paths", err);
}

static int change_database(const struct restore *r, const char *path, struct err *err) {
    OWNED_POINTER(db_close) struct db *db = NULL;
    int rc;
    if ((rc = db_open(path, &db, err)) || (rc = db_begin(db, err)))
        return rc;
    return db_end(db, move_paths(db, json_str(json_get(r->manifest, "results"), ""), r->config->results, err), err);
}

/* Last of all: the database makes the daemon. */
static int put_database(const struct restore *r, struct err *err) {
    const char *database = r->config->database;
    char from[PATH], fresh[PATH];
    int rc;
    if ((rc = fsio_join(from, sizeof from, r->directory, BACKUP_DATABASE, err)) || (rc = fsio_mkdirs_above(database, err)))
        return rc;
    if (!str_format(fresh, sizeof fresh, "%s.restored", database))
        return err_set(err, ERR_RANGE, "jobs.database is too long");
    remove_sides(fresh);
    remove_sides(database);
    if ((rc = fsio_copy(from, fresh, err)) || (rc = change_database(r, fresh, err)))
        return rc;
    remove_beside(fresh, ".lock");
    return fsio_rename(fresh, database, err);
}

static int restore(const struct restore *r, struct err *err) {
    OWNED(paths_unlock) struct paths_locks locks = {-1, -1};
    char marker[PATH];
    int rc;
    if ((rc = check_manifest(r, err)) || (rc = paths_lock(r->config, &locks, err)) ||
        (rc = paths_restoring(r->config, marker, sizeof marker, err)) || (rc = check_target(r->config, marker, err)) ||
        (rc = fsio_write_atomic(marker, r->directory, strlen(r->directory), err)) || (rc = copy_files(r, err)) ||
        (rc = put_database(r, err)))
        return rc;
    return unlink(marker) ? err_errno(err, errno, "cannot remove %s", marker) : 0;
}

/* Files of another user are of no use to the daemon. */
static int check_owner(const struct config *config, struct err *err) {
    struct stat st;
    if (stat(config->results, &st) || st.st_uid == geteuid())
        return 0;
    const struct passwd *owner = getpwuid(st.st_uid); // NOLINT(concurrency-mt-unsafe): this program has one thread
    return err_set(err, ERR_PRECONDITION,
                   "paths.results %.300s belongs to another user (%.64s, uid %u); restore as that user, with `sudo -u USER brrd "
                   "--restore ...`",
                   config->results, owner ? owner->pw_name : "without a name", (unsigned)st.st_uid);
}

int restore_run(const struct config *config, const char *directory, struct err *err) {
    OWNED_POINTER(json_free) struct json *manifest = NULL;
    OWNED_MEMORY char *text = NULL;
    char path[PATH];
    size_t len = 0;
    int rc;
    if ((rc = fsio_join(path, sizeof path, directory, "backup.json", err)))
        return rc;
    if ((rc = check_owner(config, err)))
        return rc;
    rc = fsio_read(path, MANIFEST_BYTES, &text, &len, err);
    if (rc == ERR_DENIED)
        return err_wrap(err, "%.300s cannot be read; give it to the daemon's user (chown -R USER: DIRECTORY)", directory);
    if (rc)
        return err_wrap(err, "%s is not a whole backup", directory);
    if ((rc = json_parse(text, len, path, &manifest, err)))
        return rc;
    const struct restore r = {config, directory, manifest, json_get(manifest, "files")};
    if ((rc = restore(&r, err)))
        return rc;
    printf("%zu files restored to %s and %s, made by brrd %s; start brrd now\n", json_count(r.files), config->results,
           config->database, json_str(json_get(manifest, "version"), "?"));
    return 0;
}
