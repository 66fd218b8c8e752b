#include "daemon/db/db.h"

#include <sqlite3.h>

#include "base/log.h"
#include "base/volume.h"

/* SCHEMA counts changes of the tables that earlier versions could not read; added columns are none. */
enum {
    MAX_SQL = 8192,
    SCHEMA = 1,
    ALONE_WAIT_MS = 500, /* for a reader that came between a failed write and the next statement */
    WAL_SHARE = 10000    /* bytes of the log for each page before a checkpoint: it is less than half full then */
};

struct db {
    sqlite3 *sqlite;
    struct volume *volume; /* of the file */
    int lock_fd;
    char path[4096];
    struct db_names names;
    bool alone; /* see db_is_alone */
};

static const struct db_names job_names = {"job database", "jobs.database"};

/* Also what a file system says that has no room for the memory that SQLite shares with other readers of the file. */
static bool is_full(const struct db *db) {
    return (sqlite3_errcode(db->sqlite) & 0xff) == SQLITE_FULL || sqlite3_extended_errcode(db->sqlite) == SQLITE_IOERR_SHMSIZE;
}

static int failed(struct db *db, const char *what, struct err *err) {
    int code = is_full(db) ? ERR_EXHAUSTED : ERR_INTERNAL;
    return err_set(err, code, "%s %s: cannot %s: %s%s", db->names.what, db->path, what, sqlite3_errmsg(db->sqlite),
                   code == ERR_EXHAUSTED ? "; free some space on that volume" : "");
}

static int silent(const struct db *db, struct err *err) {
    return err_set(err, ERR_UNAVAILABLE, "%s %s: its volume does not answer; try again when it does", db->names.what, db->path);
}

int db_look(struct db *db, struct err *err) { return volume_look(db->volume) ? 0 : silent(db, err); }

const char *db_path(const struct db *db) { return db->path; }
bool db_is_alone(const struct db *db) { return db->alone; }

void db_wait(struct db *db) { volume_wait(db->volume); }

int db_check(struct db *db, struct err *err) {
    bool begun = db->sqlite && !sqlite3_get_autocommit(db->sqlite); /* a transaction, which goes on */
    return begun || volume_answers(db->volume) ? 0 : silent(db, err);
}

static int open_volume(struct db *db, struct err *err) {
    char directory[sizeof db->path];
    str_copy(directory, sizeof directory, db->path);
    char *slash = strrchr(directory, '/');
    if (slash)
        slash[slash == directory] = '\0';
    return volume_open(slash ? directory : ".", &db->volume, err);
}

static int execute(struct db *db, const char *sql, const char *what, struct err *err) {
    return sqlite3_exec(db->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : failed(db, what, err);
}

static int read_schema(struct db *db, int64_t *ret, struct err *err) {
    sqlite3_stmt *s = NULL;
    int rc = 0;
    if (sqlite3_prepare_v2(db->sqlite, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK || sqlite3_step(s) != SQLITE_ROW)
        rc = failed(db, "read its version", err);
    else
        *ret = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return rc;
}

/* The file is its owner's alone; SQLite gives its other files the same mode. An error shows when the file is opened. */
static void keep_private(const char *path) {
    static const char *const ends[] = {"", "-wal", "-shm"};
    OWNED_FD int fd =
        open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR); /* closed before SQLite locks the file */
    char file[sizeof((struct db *)0)->path + 8];
    for (size_t i = 0; fd < 0 && i < sizeof ends / sizeof *ends; i++)
        if (str_format(file, sizeof file, "%s%s", path, ends[i]))
            (void)!chmod(file, S_IRUSR | S_IWUSR);
}

static int set_up(struct db *db, bool alone, struct err *err) {
    int64_t schema = 0;
    keep_private(db->path);
    int rc = sqlite3_open_v2(db->path, &db->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX, NULL);
    if (rc != SQLITE_OK)
        return failed(db, "open it", err);
    sqlite3_extended_result_codes(db->sqlite, 1);
    if (alone && (rc = execute(db, "PRAGMA locking_mode=EXCLUSIVE", "set it up", err)))
        return rc;
    if ((rc = execute(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL", "set it up", err)) ||
        (rc = read_schema(db, &schema, err)))
        return rc;
    if (schema > SCHEMA)
        return err_set(err, ERR_PRECONDITION,
                       "%s %s has schema %lld, of a later version of brrd; this version knows schemas up to %d: install the "
                       "later version again, or set %s to another file",
                       db->names.what, db->path, (long long)schema, SCHEMA, db->names.key);
    return schema == SCHEMA ? 0 : execute(db, "PRAGMA user_version=1", "set it up", err);
}

/* On a full volume there is no memory to be shared with other readers: the file is opened for this process alone. */
static int open_file(struct db *db, struct err *err) {
    int rc = set_up(db, false, err);
    if (rc == 0 || !db->sqlite || !is_full(db))
        return rc;
    sqlite3_close(db->sqlite);
    db->sqlite = NULL;
    if ((rc = set_up(db, true, err)))
        return rc;
    db->alone = true;
    sqlite3_busy_timeout(db->sqlite, ALONE_WAIT_MS);
    log_warn("the volume of a database is full: other programs cannot read it until the next start", "path=%s", db->path);
    return 0;
}

static struct db *db_new(const char *path, const struct db_names *names, struct err *err) {
    struct db *db = calloc(1, sizeof *db);
    if (!db) {
        err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
        return NULL;
    }
    db->lock_fd = -1;
    db->names = *names;
    str_copy(db->path, sizeof db->path, path);
    return db;
}

int db_open(const char *path, struct db **ret, struct err *err) { return db_open_named(path, &job_names, ret, err); }

int db_open_named(const char *path, const struct db_names *names, struct db **ret, struct err *err) {
    struct db *db = db_new(path, names, err);
    char lock[4096];
    if (!db)
        return ERR_EXHAUSTED;
    str_format(lock, sizeof lock, "%.4000s.lock", path);
    int rc = fsio_lock(lock, &db->lock_fd, err);
    if (rc == ERR_PRECONDITION)
        err_wrap(err, "another daemon uses the %s %s; stop it, or set %s to another file", names->what, path, names->key);
    rc = rc ? rc : open_volume(db, err);
    rc = rc ? rc : open_file(db, err);
    return GIVEN(ret, db, db_close, rc);
}

int db_open_reader(const char *path, const struct db_names *names, struct db **ret, struct err *err) {
    struct db *db = db_new(path, names, err);
    if (!db)
        return ERR_EXHAUSTED;
    int rc = open_volume(db, err);
    if (!rc && !(rc = db_check(db, err)) &&
        sqlite3_open_v2(path, &db->sqlite, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        rc = failed(db, "open it", err);
    return GIVEN(ret, db, db_close, rc);
}

void db_close(struct db *db) {
    if (!db)
        return;
    if (db->sqlite) /* else SQLite would give the bytes of db_reserve back to the volume */
        sqlite3_exec(db->sqlite, "PRAGMA journal_size_limit=-1", NULL, NULL, NULL);
    sqlite3_close(db->sqlite);
    volume_close(db->volume);
    if (db->lock_fd >= 0)
        close(db->lock_fd);
    free(db);
}

static int add_column(struct db *db, const char *table, const struct db_column *c, struct err *err) {
    char sql[256];
    if (sqlite3_table_column_metadata(db->sqlite, NULL, table, c->name, NULL, NULL, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    str_format(sql, sizeof sql, "ALTER TABLE %s ADD COLUMN %s %s", table, c->name, c->type);
    return execute(db, sql, "bring it up to this version", err);
}

int db_table(struct db *db, const char *table, const struct db_column *columns, size_t n, const char *key, struct err *err) {
    OWNED(str_done) struct str sql = str_of(MAX_SQL);
    str_printf(&sql, "CREATE TABLE IF NOT EXISTS %s(", table);
    for (size_t i = 0; i < n; i++)
        str_printf(&sql, "%s %s, ", columns[i].name, columns[i].type);
    str_printf(&sql, "PRIMARY KEY(%s))", key);
    int rc = execute(db, str_cstr(&sql), "set it up", err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++)
        if ((rc = add_column(db, table, &columns[i], err)))
            return rc;
    return 0;
}

int db_begin(struct db *db, struct err *err) {
    int rc = db_check(db, err);
    return rc ? rc : execute(db, "BEGIN IMMEDIATE", "begin a transaction", err);
}

int db_end(struct db *db, int rc, struct err *err) {
    if (rc || (rc = execute(db, "COMMIT", "keep what was written", err)))
        sqlite3_exec(db->sqlite, "ROLLBACK", NULL, NULL, NULL); /* SQLite may have done so itself */
    return rc;
}

/* ---- room on the volume ---- */

static int64_t pragma(struct db *db, const char *name) {
    char sql[64];
    sqlite3_stmt *s = NULL;
    str_format(sql, sizeof sql, "PRAGMA %s", name);
    const bool row = sqlite3_prepare_v2(db->sqlite, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW;
    const int64_t value = row ? sqlite3_column_int64(s, 0) : 0;
    sqlite3_finalize(s);
    return value;
}

int64_t db_room(const struct db *db) {
    struct stat file;
    return stat(db->path, &file) ? 0 : file.st_size;
}

void db_reserve(struct db *db, int bytes) {
    int keep = 1;
    char limits[96], wal[sizeof db->path + 8];
    sqlite3_int64 size = pragma(db, "page_count") * pragma(db, "page_size") + bytes;
    str_format(limits, sizeof limits, "PRAGMA journal_size_limit=%d; PRAGMA wal_autocheckpoint=%d", bytes, bytes / WAL_SHARE);
    str_format(wal, sizeof wal, "%s-wal", db->path);
    if (fsio_free_bytes(db->path) < DB_RESERVE_OF * (int64_t)bytes)
        return;
    sqlite3_file_control(db->sqlite, NULL, SQLITE_FCNTL_PERSIST_WAL, &keep);
    sqlite3_exec(db->sqlite, limits, NULL, NULL, NULL);
    OWNED_FD int fd = open(wal, O_RDWR | O_CLOEXEC); /* SQLite locks no bytes of it, which a close would unlock */
    if (fd >= 0)
        (void)posix_fallocate(fd, 0, bytes);
    sqlite3_file_control(db->sqlite, NULL, SQLITE_FCNTL_CHUNK_SIZE, &bytes);
    sqlite3_file_control(db->sqlite, NULL, SQLITE_FCNTL_SIZE_HINT, &size);
}

/* ---- statements ---- */

int db_query(struct db *db, const char *sql, const char *what, struct db_query *ret, struct err *err) {
    sqlite3_stmt *statement = NULL;
    int rc = db_check(db, err);
    if (!rc && sqlite3_prepare_v2(db->sqlite, sql, -1, &statement, NULL) != SQLITE_OK)
        rc = failed(db, what, err);
    *ret = (struct db_query){.db = db, .statement = statement, .what = what, .rc = rc};
    return rc;
}

void db_put_text(struct db_query *q, const char *text) {
    if (!q->rc)
        sqlite3_bind_text(q->statement, ++q->parameters, text ? text : "", -1, SQLITE_TRANSIENT);
}

void db_put_int(struct db_query *q, int64_t value) {
    if (!q->rc)
        sqlite3_bind_int64(q->statement, ++q->parameters, value);
}

void db_put_real(struct db_query *q, double value) {
    q->parameters++;
    if (!q->rc && !isnan(value))
        sqlite3_bind_double(q->statement, q->parameters, value);
}

void db_put_null(struct db_query *q) { q->parameters++; }

int db_next(struct db_query *q, bool *ret_row, struct err *err) {
    if (q->rc)
        return q->rc;
    int step = sqlite3_step(q->statement);
    if (step != SQLITE_ROW && step != SQLITE_DONE)
        return failed(q->db, q->what, err);
    *ret_row = step == SQLITE_ROW;
    return 0;
}

void db_done(struct db_query *q) { sqlite3_finalize(q->statement); }

int db_run(struct db_query *q, struct err *err) {
    bool row;
    int rc = db_next(q, &row, err);
    db_done(q);
    return rc;
}

const char *db_text(const struct db_query *q, int column) {
    const unsigned char *text = sqlite3_column_text(q->statement, column);
    return text ? (const char *)text : "";
}

int64_t db_int(const struct db_query *q, int column) { return sqlite3_column_int64(q->statement, column); }
bool db_is_null(const struct db_query *q, int column) { return sqlite3_column_type(q->statement, column) == SQLITE_NULL; }
double db_real(const struct db_query *q, int column) {
    return db_is_null(q, column) ? NAN : sqlite3_column_double(q->statement, column);
}

void db_take_text(const struct db_query *q, int column, char *to, size_t size) { str_copy(to, size, db_text(q, column)); }
void db_take_real(const struct db_query *q, int column, double *to, size_t size) { (void)size, *to = db_real(q, column); }
void db_take_bool(const struct db_query *q, int column, bool *to, size_t size) { (void)size, *to = db_int(q, column) != 0; }
void db_take_int(const struct db_query *q, int column, int64_t *to, size_t size) { (void)size, *to = db_int(q, column); }

int db_number(struct db_query *q, int64_t *ret, struct err *err) {
    bool row = false;
    const int rc = db_next(q, &row, err);
    *ret = row ? db_int(q, 0) : rc ? *ret : 0;
    db_done(q);
    return rc;
}

int64_t db_changes(const struct db *db) { return sqlite3_changes(db->sqlite); }
int64_t db_inserted(const struct db *db) { return sqlite3_last_insert_rowid(db->sqlite); }

/* ---- copies ---- */

int64_t db_schema(void) { return SCHEMA; }

static int copy_failed(sqlite3 *sqlite, const char *path, const char *to, struct err *err) {
    const bool full = (sqlite3_errcode(sqlite) & 0xff) == SQLITE_FULL;
    err_set(err, full ? ERR_EXHAUSTED : ERR_INTERNAL, "job database %s: cannot copy it to %s: %s", path, to,
            sqlite3_errmsg(sqlite));
    sqlite3_close(sqlite);
    return err->code;
}

int db_copy(const char *path, const char *to, struct err *err) {
    struct err ignored;
    sqlite3 *sqlite = NULL;
    sqlite3_stmt *copy = NULL;
    err = err ? err : &ignored;
    if (fsio_exists(to))
        return err_set(err, ERR_EXISTS, "%s exists already; nothing was copied", to);
    if (sqlite3_open_v2(path, &sqlite, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(sqlite, "VACUUM INTO ?", -1, &copy, NULL) != SQLITE_OK)
        return copy_failed(sqlite, path, to, err);
    sqlite3_bind_text(copy, 1, to, -1, SQLITE_STATIC);
    const int step = sqlite3_step(copy);
    sqlite3_finalize(copy);
    if (step != SQLITE_DONE)
        return copy_failed(sqlite, path, to, err);
    sqlite3_close(sqlite);
    return 0;
}

int db_verify(const char *path, struct err *err) {
    sqlite3 *sqlite = NULL;
    sqlite3_stmt *check = NULL;
    int rc = sqlite3_open_v2(path, &sqlite, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL);
    rc = rc == SQLITE_OK ? sqlite3_prepare_v2(sqlite, "PRAGMA quick_check(1)", -1, &check, NULL) : rc;
    rc = rc == SQLITE_OK ? sqlite3_step(check) : rc;
    const char *said = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(check, 0) : NULL;
    int code = 0;
    if (rc == SQLITE_ROW && said && strcmp(said, "ok") != 0)
        code = err_set(err, ERR_DATA_LOSS, "%.200s", said);
    else if ((rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB)
        code = err_set(err, ERR_DATA_LOSS, "%s", sqlite3_errmsg(sqlite));
    else if (rc != SQLITE_ROW)
        code = err_set(err, ERR_INTERNAL, "%s cannot be checked: %s", path, sqlite3_errmsg(sqlite));
    sqlite3_finalize(check);
    sqlite3_close(sqlite);
    return code;
}

const char *db_library_version(void) { return sqlite3_libversion(); }
