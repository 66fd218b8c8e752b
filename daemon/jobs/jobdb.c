#include "daemon/jobs/jobdb.h"

#include <math.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fsio.h"
#include "base/str.h"

struct jobdb {
    sqlite3 *db;
    int lock_fd;
    char path[4096];
};

static const char schema[] = "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
                             "CREATE TABLE IF NOT EXISTS jobs(id TEXT PRIMARY KEY, sequence INTEGER, kind TEXT, name TEXT, "
                             "priority INTEGER, state TEXT, reason TEXT,"
                             " created_ms INTEGER, started_ms INTEGER, finished_ms INTEGER, attempts INTEGER, restarts INTEGER, "
                             "directory TEXT, data_root TEXT,"
                             " yaml TEXT, file TEXT, overrides TEXT, request_id TEXT, result TEXT, best TEXT, last TEXT, energy_j "
                             "REAL, step INTEGER, steps INTEGER, epoch INTEGER, epochs INTEGER, loss REAL);"
                             "CREATE TABLE IF NOT EXISTS checkpoints(job_id TEXT, step INTEGER, epoch INTEGER, path TEXT, sha256 "
                             "TEXT, bytes INTEGER, metric REAL,"
                             " metric_name TEXT, best INTEGER, created_ms INTEGER, PRIMARY KEY(job_id, step));"
                             "CREATE TABLE IF NOT EXISTS pins(job_id TEXT, step INTEGER, PRIMARY KEY(job_id, step));"
                             "CREATE TABLE IF NOT EXISTS served(name TEXT PRIMARY KEY, path TEXT, ref TEXT);"
                             "PRAGMA user_version=1;";

static int failed(struct jobdb *db, const char *what, struct err *err) {
    int code = sqlite3_errcode(db->db) == SQLITE_FULL ? ERR_EXHAUSTED : ERR_INTERNAL;
    return err_set(err, code, "job database %s: %s: %s%s", db->path, what, sqlite3_errmsg(db->db),
                   code == ERR_EXHAUSTED ? "; free some space on that volume" : "");
}

/* Databases of earlier versions lack the newest columns. */
static int add_columns(struct jobdb *db, struct err *err) {
    static const char *const newer[][2] = {{"energy_j", "REAL"}, {"step", "INTEGER"},   {"steps", "INTEGER"},
                                           {"epoch", "INTEGER"}, {"epochs", "INTEGER"}, {"loss", "REAL"}};
    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof newer / sizeof *newer; i++) {
        char sql[80];
        str_format(sql, sizeof sql, "ALTER TABLE jobs ADD COLUMN %s %s", newer[i][0], newer[i][1]);
        if (sqlite3_table_column_metadata(db->db, NULL, "jobs", newer[i][0], NULL, NULL, NULL, NULL, NULL) != SQLITE_OK &&
            sqlite3_exec(db->db, sql, NULL, NULL, NULL) != SQLITE_OK)
            rc = failed(db, "cannot bring it up to this version", err);
    }
    return rc;
}

int jobdb_open(const char *path, struct jobdb **ret, struct err *err) {
    struct jobdb *db = calloc(1, sizeof *db);
    char lock[4096];
    if (!db)
        return err_set(err, ERR_EXHAUSTED, "out of memory opening %s", path);
    db->lock_fd = -1;
    str_copy(db->path, sizeof db->path, path);
    str_format(lock, sizeof lock, "%.4000s.lock", path);
    int rc = fsio_lock(lock, &db->lock_fd, err);
    if (rc)
        err_wrap(err, "another daemon uses the job database %s; stop it, or set jobs.database to another file", path);
    if (!rc && sqlite3_open_v2(path, &db->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        rc = failed(db, "cannot open it", err);
    if (!rc && sqlite3_exec(db->db, schema, NULL, NULL, NULL) != SQLITE_OK)
        rc = failed(db, "cannot set it up", err);
    if (!rc)
        rc = add_columns(db, err);
    if (rc) {
        jobdb_close(db);
        return rc;
    }
    *ret = db;
    return 0;
}

void jobdb_close(struct jobdb *db) {
    if (!db)
        return;
    sqlite3_close(db->db);
    if (db->lock_fd >= 0)
        close(db->lock_fd);
    free(db);
}

static void bind_text(sqlite3_stmt *st, int i, const char *text) {
    sqlite3_bind_text(st, i, text ? text : "", -1, SQLITE_TRANSIENT);
}

/* NaN: nothing is known. */
static void bind_real(sqlite3_stmt *st, int i, double value) {
    if (!isnan(value))
        sqlite3_bind_double(st, i, value);
}

static double column_real(sqlite3_stmt *st, int i) {
    return sqlite3_column_type(st, i) == SQLITE_NULL ? NAN : sqlite3_column_double(st, i);
}

/* Run a prepared statement that returns no rows. */
static int finish(struct jobdb *db, sqlite3_stmt *st, const char *what, struct err *err) {
    int rc = sqlite3_step(st) == SQLITE_DONE ? 0 : failed(db, what, err);
    sqlite3_finalize(st);
    return rc;
}

int jobdb_save(struct jobdb *db, const struct job *job, struct err *err) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db->db, "INSERT OR REPLACE INTO jobs VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", -1,
                           &st, NULL) != SQLITE_OK)
        return failed(db, "cannot save a job", err);
    bind_text(st, 1, job->id);
    sqlite3_bind_int64(st, 2, job->sequence);
    bind_text(st, 3, job->kind);
    bind_text(st, 4, job->name);
    sqlite3_bind_int64(st, 5, job->priority);
    bind_text(st, 6, job_state_name(job->state));
    bind_text(st, 7, job->reason);
    sqlite3_bind_int64(st, 8, job->created_ms);
    sqlite3_bind_int64(st, 9, job->started_ms);
    sqlite3_bind_int64(st, 10, job->finished_ms);
    sqlite3_bind_int(st, 11, job->attempts);
    sqlite3_bind_int(st, 12, job->restarts);
    bind_text(st, 13, job->directory);
    bind_text(st, 14, job->data_root);
    bind_text(st, 15, job->yaml);
    bind_text(st, 16, job->file);
    bind_text(st, 17, job->overrides);
    bind_text(st, 18, job->request_id);
    bind_text(st, 19, job->result);
    bind_text(st, 20, job->best);
    bind_text(st, 21, job->last);
    bind_real(st, 22, job->energy_j);
    sqlite3_bind_int64(st, 23, job->progress.step);
    sqlite3_bind_int64(st, 24, job->progress.steps);
    sqlite3_bind_int64(st, 25, job->progress.epoch);
    sqlite3_bind_int64(st, 26, job->progress.epochs);
    bind_real(st, 27, job->progress.loss);
    return finish(db, st, "cannot save a job", err);
}

static const char *column(sqlite3_stmt *st, int i) {
    const unsigned char *text = sqlite3_column_text(st, i);
    return text ? (const char *)text : "";
}

static struct job *read_job(sqlite3_stmt *st) {
    struct job *job = job_new();
    if (!job)
        return NULL;
    str_copy(job->id, sizeof job->id, column(st, 0));
    job->sequence = sqlite3_column_int64(st, 1);
    str_copy(job->kind, sizeof job->kind, column(st, 2));
    str_copy(job->name, sizeof job->name, column(st, 3));
    job->priority = sqlite3_column_int64(st, 4);
    if (!job_state_parse(column(st, 5), &job->state))
        job->state = JOB_FAILED;
    str_copy(job->reason, sizeof job->reason, column(st, 6));
    job->created_ms = sqlite3_column_int64(st, 7);
    job->started_ms = sqlite3_column_int64(st, 8);
    job->finished_ms = sqlite3_column_int64(st, 9);
    job->attempts = sqlite3_column_int(st, 10);
    job->restarts = sqlite3_column_int(st, 11);
    str_copy(job->directory, sizeof job->directory, column(st, 12));
    str_copy(job->data_root, sizeof job->data_root, column(st, 13));
    job->yaml = strdup(column(st, 14));
    job->file = strdup(column(st, 15));
    job->overrides = strdup(column(st, 16));
    job->request_id = strdup(column(st, 17));
    job->result = *column(st, 18) ? strdup(column(st, 18)) : NULL;
    str_copy(job->best, sizeof job->best, column(st, 19));
    str_copy(job->last, sizeof job->last, column(st, 20));
    job->energy_j = column_real(st, 21);
    job->progress.step = sqlite3_column_int64(st, 22);
    job->progress.steps = sqlite3_column_int64(st, 23);
    job->progress.epoch = sqlite3_column_int64(st, 24);
    job->progress.epochs = sqlite3_column_int64(st, 25);
    job->progress.loss = column_real(st, 26);
    if (job->yaml && job->file && job->overrides && job->request_id)
        return job;
    job_free(job);
    return NULL;
}

int jobdb_load(struct jobdb *db, int (*visit)(void *ctx, struct job *job, struct err *err), void *ctx, struct err *err) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db->db, "SELECT * FROM jobs ORDER BY sequence", -1, &st, NULL) != SQLITE_OK)
        return failed(db, "cannot read jobs", err);
    int rc = 0, step;
    while (!rc && (step = sqlite3_step(st)) != SQLITE_DONE) {
        if (step != SQLITE_ROW) {
            rc = failed(db, "cannot read jobs", err);
            break;
        }
        struct job *job = read_job(st);
        rc = job ? visit(ctx, job, err) : err_set(err, ERR_EXHAUSTED, "out of memory reading jobs");
    }
    sqlite3_finalize(st);
    return rc;
}

int jobdb_add_checkpoint(struct jobdb *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db->db, "INSERT OR REPLACE INTO checkpoints VALUES(?,?,?,?,?,?,?,?,?,?)", -1, &st, NULL) != SQLITE_OK)
        return failed(db, "cannot save a checkpoint", err);
    bind_text(st, 1, job_id);
    sqlite3_bind_int64(st, 2, c->step);
    sqlite3_bind_int64(st, 3, c->epoch);
    bind_text(st, 4, c->path);
    bind_text(st, 5, c->sha256);
    sqlite3_bind_int64(st, 6, c->bytes);
    bind_real(st, 7, c->metric);
    bind_text(st, 8, c->metric_name);
    sqlite3_bind_int(st, 9, c->best);
    sqlite3_bind_int64(st, 10, now_ms);
    return finish(db, st, "cannot save a checkpoint", err);
}

int jobdb_checkpoints(struct jobdb *db, const char *job_id, int (*visit)(void *ctx, const struct jobdb_checkpoint *c), void *ctx,
                      struct err *err) {
    sqlite3_stmt *st = NULL;
    const char *sql =
        *job_id ? "SELECT c.*, p.step FROM checkpoints c LEFT JOIN pins p USING(job_id, step) WHERE job_id=? ORDER BY c.step"
                : "SELECT c.*, p.step FROM checkpoints c LEFT JOIN pins p USING(job_id, step) ORDER BY created_ms";
    if (sqlite3_prepare_v2(db->db, sql, -1, &st, NULL) != SQLITE_OK)
        return failed(db, "cannot read checkpoints", err);
    if (*job_id)
        bind_text(st, 1, job_id);
    int rc = 0;
    while (!rc && sqlite3_step(st) == SQLITE_ROW) {
        struct jobdb_checkpoint c = {.created_ms = sqlite3_column_int64(st, 9)};
        str_copy(c.job_id, sizeof c.job_id, column(st, 0));
        c.c.step = sqlite3_column_int64(st, 1);
        c.c.epoch = sqlite3_column_int64(st, 2);
        str_copy(c.c.path, sizeof c.c.path, column(st, 3));
        str_copy(c.c.sha256, sizeof c.c.sha256, column(st, 4));
        c.c.bytes = sqlite3_column_int64(st, 5);
        c.c.metric = column_real(st, 6);
        str_copy(c.c.metric_name, sizeof c.c.metric_name, column(st, 7));
        c.c.best = sqlite3_column_int(st, 8) != 0;
        c.pinned = sqlite3_column_type(st, 10) != SQLITE_NULL;
        if (fsio_exists(c.c.path))
            rc = visit(ctx, &c);
    }
    sqlite3_finalize(st);
    return rc;
}

/* A statement of texts (NULL-terminated) after an integer, or without one. */
static int execute(struct jobdb *db, const char *sql, const int64_t *number, const char *const *texts, struct err *err) {
    sqlite3_stmt *st = NULL;
    int at = 1;
    if (sqlite3_prepare_v2(db->db, sql, -1, &st, NULL) != SQLITE_OK)
        return failed(db, "cannot change a record", err);
    if (number)
        sqlite3_bind_int64(st, at++, *number);
    for (int i = 0; texts[i]; i++)
        bind_text(st, at++, texts[i]);
    return finish(db, st, "cannot change a record", err);
}

int jobdb_remove_checkpoint(struct jobdb *db, const char *job_id, int64_t step, struct err *err) {
    return execute(db, "DELETE FROM checkpoints WHERE step=? AND job_id=?", &step, (const char *const[]){job_id, NULL}, err);
}

int jobdb_pin(struct jobdb *db, const char *job_id, int64_t step, const char *path, bool pinned, struct err *err) {
    const char *sql =
        pinned ? "INSERT OR REPLACE INTO pins(step, job_id) VALUES(?,?)" : "DELETE FROM pins WHERE step=? AND job_id=?";
    int rc = execute(db, sql, &step, (const char *const[]){job_id, NULL}, err);
    return rc ? rc
              : execute(db, "UPDATE checkpoints SET path=?2 WHERE step=?1 AND job_id=?3", &step,
                        (const char *const[]){path, job_id, NULL}, err);
}

int jobdb_remove_job(struct jobdb *db, const char *job_id, struct err *err) {
    const char *const id[] = {job_id, NULL};
    int rc = execute(db, "DELETE FROM checkpoints WHERE job_id=?", NULL, id, err);
    if (!rc)
        rc = execute(db, "DELETE FROM pins WHERE job_id=?", NULL, id, err);
    return rc ? rc : execute(db, "DELETE FROM jobs WHERE id=?", NULL, id, err);
}

int jobdb_serve(struct jobdb *db, const char *name, const char *path, const char *ref, struct err *err) {
    return execute(db, "INSERT OR REPLACE INTO served VALUES(?,?,?)", NULL, (const char *const[]){name, path, ref, NULL}, err);
}

int jobdb_unserve(struct jobdb *db, const char *name, struct err *err) {
    return execute(db, "DELETE FROM served WHERE name=?", NULL, (const char *const[]){name, NULL}, err);
}

int jobdb_served(struct jobdb *db, void (*visit)(void *ctx, const char *name, const char *path, const char *ref), void *ctx,
                 struct err *err) {
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(db->db, "SELECT name, path, ref FROM served ORDER BY name", -1, &st, NULL) != SQLITE_OK)
        return failed(db, "cannot read served models", err);
    while (sqlite3_step(st) == SQLITE_ROW)
        visit(ctx, column(st, 0), column(st, 1), column(st, 2));
    sqlite3_finalize(st);
    return 0;
}

const char *jobdb_library_version(void) { return sqlite3_libversion(); }
