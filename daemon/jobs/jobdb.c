#include "daemon/jobs/jobdb.h"

/* A column of the table jobs and the member of struct job that it keeps. */
enum field_kind { FIELD_TEXT, FIELD_HEAP_TEXT, FIELD_I64, FIELD_INT, FIELD_REAL, FIELD_STATE };
struct field {
    const char *name;
    enum field_kind kind;
    size_t offset, size;
};
#define FIELD(name, kind, member)                                                                                                  \
    { name, FIELD_##kind, offsetof(struct job, member), sizeof(((struct job *)0)->member) }
static const struct field fields[] = {
    FIELD("id", TEXT, id),
    FIELD("sequence", I64, sequence),
    FIELD("kind", TEXT, kind),
    FIELD("name", TEXT, name),
    FIELD("owner", TEXT, owner),
    FIELD("priority", I64, priority),
    FIELD("state", STATE, state),
    FIELD("reason", TEXT, reason),
    FIELD("created_ms", I64, created_ms),
    FIELD("started_ms", I64, started_ms),
    FIELD("finished_ms", I64, finished_ms),
    FIELD("attempts", INT, attempts),
    FIELD("restarts", INT, restarts),
    FIELD("crashes", INT, crashes),
    FIELD("stalled", INT, stalled),
    FIELD("isolated", INT, isolated),
    FIELD("retry_ms", I64, retry_ms),
    FIELD("wish", INT, wish),
    FIELD("device", TEXT, device),
    FIELD("versions", TEXT, versions),
    FIELD("directory", TEXT, directory),
    FIELD("data_root", TEXT, data_root),
    FIELD("yaml", HEAP_TEXT, yaml),
    FIELD("file", HEAP_TEXT, file),
    FIELD("overrides", HEAP_TEXT, overrides),
    FIELD("request_id", HEAP_TEXT, request_id),
    FIELD("result", HEAP_TEXT, result),
    FIELD("best", TEXT, best),
    FIELD("last", TEXT, last),
    FIELD("saved_step", I64, saved_step),
    FIELD("energy_j", REAL, energy_j),
    FIELD("run_ms", I64, run_ms),
    FIELD("device_ms", I64, device_ms),
    FIELD("seen_ms", I64, seen_ms),
    FIELD("memory_bytes", I64, memory_bytes),
    FIELD("kept_bytes", I64, kept_bytes),
    FIELD("step", I64, progress.step),
    FIELD("steps", I64, progress.steps),
    FIELD("epoch", I64, progress.epoch),
    FIELD("epochs", I64, progress.epochs),
    FIELD("loss", REAL, progress.loss),
};
enum { FIELDS = sizeof fields / sizeof *fields };

/* Without it, as on a full volume, a record is found later. */
static void make_index(struct db *db) {
    struct db_query q;
    db_query(db, "CREATE INDEX IF NOT EXISTS checkpoints_path ON checkpoints(path)", "set it up", &q, NULL);
    (void)db_run(&q, NULL);
}

int jobdb_setup(struct db *db, struct err *err) {
    static const char *const types[] = {[FIELD_TEXT] = "TEXT",   [FIELD_HEAP_TEXT] = "TEXT", [FIELD_I64] = "INTEGER",
                                        [FIELD_INT] = "INTEGER", [FIELD_REAL] = "REAL",      [FIELD_STATE] = "TEXT"};
    static const struct db_column checkpoints[] = {
        {"job_id", "TEXT"},   {"step", "INTEGER"}, {"epoch", "INTEGER"},    {"path", "TEXT"},    {"sha256", "TEXT"},
        {"bytes", "INTEGER"}, {"metric", "REAL"},  {"metric_name", "TEXT"}, {"best", "INTEGER"}, {"created_ms", "INTEGER"}};
    static const struct db_column pins[] = {{"job_id", "TEXT"}, {"step", "INTEGER"}, {"path", "TEXT"}};
    static const struct db_column removals[] = {{"job_id", "TEXT"}, {"folder", "TEXT"}};
    static const struct db_column counters[] = {{"name", "TEXT"}, {"value", "INTEGER"}};
    struct db_column jobs[FIELDS];
    for (size_t i = 0; i < FIELDS; i++)
        jobs[i] = (struct db_column){fields[i].name, types[fields[i].kind]};
    int rc;
    if ((rc = db_table(db, "jobs", jobs, FIELDS, "id", err)) ||
        (rc = db_table(db, "checkpoints", checkpoints, sizeof checkpoints / sizeof *checkpoints, "job_id, step", err)) ||
        (rc = db_table(db, "pins", pins, sizeof pins / sizeof *pins, "job_id, step", err)) ||
        (rc = db_table(db, "removals", removals, sizeof removals / sizeof *removals, "job_id", err)) ||
        (rc = db_table(db, "counters", counters, sizeof counters / sizeof *counters, "name", err)))
        return rc;
    make_index(db);
    return 0;
}

/* ---- jobs ---- */

static void put_field(struct db_query *q, const struct field *f, const struct job *job) {
    const void *at = (const char *)job + f->offset;
    switch (f->kind) {
    case FIELD_TEXT:
        db_put_text(q, at);
        break;
    case FIELD_HEAP_TEXT:
        db_put_text(q, *(char *const *)at);
        break;
    case FIELD_I64:
        db_put_int(q, *(const int64_t *)at);
        break;
    case FIELD_INT:
        db_put_int(q, *(const int *)at);
        break;
    case FIELD_REAL:
        db_put_real(q, *(const double *)at);
        break;
    case FIELD_STATE:
        db_put_text(q, job_state_name(*(const enum job_state *)at));
        break;
    }
}

/* False when out of memory. */
static bool take_field(const struct db_query *q, int column, const struct field *f, struct job *job) {
    void *at = (char *)job + f->offset;
    switch (f->kind) {
    case FIELD_TEXT:
        str_copy(at, f->size, db_text(q, column));
        break;
    case FIELD_HEAP_TEXT:
        return (*(char **)at = strdup(db_text(q, column))) != NULL;
    case FIELD_I64:
        *(int64_t *)at = db_int(q, column);
        break;
    case FIELD_INT:
        *(int *)at = (int)db_int(q, column);
        break;
    case FIELD_REAL:
        *(double *)at = db_real(q, column);
        break;
    case FIELD_STATE:
        if (!job_state_parse(db_text(q, column), at))
            *(enum job_state *)at = JOB_FAILED; /* of a later version */
        break;
    }
    return true;
}

int jobdb_save(struct db *db, const struct job *job, struct err *err) {
    struct str sql = str_of(8192);
    struct db_query q;
    str_puts(&sql, "INSERT INTO jobs(");
    for (int i = 0; i < FIELDS; i++)
        str_printf(&sql, "%s%s", i ? "," : "", fields[i].name);
    str_puts(&sql, ") VALUES(");
    for (int i = 0; i < FIELDS; i++)
        str_puts(&sql, i ? ",?" : "?");
    str_puts(&sql, ") ON CONFLICT(id) DO UPDATE SET ");
    for (int i = 1; i < FIELDS; i++)
        str_printf(&sql, "%s%s=excluded.%s", i > 1 ? "," : "", fields[i].name, fields[i].name);
    int rc = db_query(db, str_cstr(&sql), "save a job", &q, err);
    str_done(&sql);
    if (rc)
        return rc;
    for (int i = 0; i < FIELDS; i++)
        put_field(&q, &fields[i], job);
    return db_run(&q, err);
}

/* The columns that read_job takes. The last one: version 0.1.0 called the checkpoint of step 0, which no validation has seen, the
 * best of its job. */
static void select_job(struct str *sql) {
    for (int i = 0; i < FIELDS; i++)
        str_printf(sql, "%s%s", i ? "," : "SELECT ", fields[i].name);
    str_puts(sql, ",EXISTS(SELECT 1 FROM checkpoints c WHERE c.job_id=jobs.id AND c.step=0 AND c.path=jobs.best)");
}

static struct job *read_job(const struct db_query *q) {
    struct job *job = job_new();
    bool whole = job != NULL;
    for (int i = 0; i < FIELDS && whole; i++)
        whole = take_field(q, i, &fields[i], job);
    if (whole && !*job->result) { /* none yet */
        free(job->result);
        job->result = NULL;
    }
    if (whole && db_int(q, FIELDS))
        job->best[0] = '\0';
    if (whole && job->device_ms < job->run_ms) /* written by a version that did not count devices */
        job->device_ms = job->run_ms;
    if (whole)
        return job;
    job_free(job);
    return NULL;
}

int jobdb_load(struct db *db, int64_t max, int (*visit)(void *ctx, struct job *job, struct err *err), void *ctx, int64_t *ret_left,
               struct err *err) {
    struct str sql = str_of(4096);
    OWNED(db_done) struct db_query q;
    bool row = true;
    int64_t all = 0, read = 0;
    select_job(&sql);
    str_puts(&sql, ",(SELECT count(*) FROM jobs) FROM jobs WHERE id IN (SELECT id FROM jobs ORDER BY state IN "
                   "('succeeded','failed','cancelled','interrupted'), sequence DESC LIMIT ?) ORDER BY sequence");
    int rc = db_query(db, str_cstr(&sql), "read jobs", &q, err);
    str_done(&sql);
    if (rc)
        return rc;
    db_put_int(&q, max);
    while (!(rc = db_next(&q, &row, err)) && row) {
        struct job *job = read_job(&q);
        all = db_int(&q, FIELDS + 1);
        read++;
        if ((rc = job ? visit(ctx, job, err) : err_set(err, ERR_EXHAUSTED, "out of memory reading jobs")))
            break;
    }
    if (rc)
        return rc;
    *ret_left = all - read;
    return 0;
}

int jobdb_get(struct db *db, const char *id, struct job **ret, struct err *err) {
    OWNED(str_done) struct str sql = str_of(4096);
    OWNED(db_done) struct db_query q;
    bool row = false;
    select_job(&sql);
    str_puts(&sql, " FROM jobs WHERE id=?");
    db_query(db, str_cstr(&sql), "read a job", &q, err);
    db_put_text(&q, id);
    int rc = db_next(&q, &row, err);
    struct job *job = rc || !row ? NULL : read_job(&q);
    if (rc)
        return rc;
    if (!row)
        return err_set(err, ERR_NOT_FOUND, "there is no job '%.40s'", id);
    if (!job)
        return err_set(err, ERR_EXHAUSTED, "out of memory reading a job");
    *ret = job;
    return 0;
}

int jobdb_open_reader(const char *path, struct db **ret, struct err *err) {
    static const struct db_names names = {"job database", "jobs.database"};
    return db_open_reader(path, &names, ret, err);
}

static const char sequence_counter[] = "job sequence";

int jobdb_sequence(struct db *db, int64_t *ret, struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = false;
    db_query(
        db, "SELECT max(coalesce((SELECT value FROM counters WHERE name=?), 1), coalesce((SELECT max(sequence) FROM jobs), 0) + 1)",
        "read the number of the next job", &q, err);
    db_put_text(&q, sequence_counter);
    int rc = db_next(&q, &row, err);
    if (rc)
        return rc;
    *ret = db_int(&q, 0);
    return 0;
}

int jobdb_save_sequence(struct db *db, int64_t next, struct err *err) {
    struct db_query q;
    db_query(db, "INSERT OR REPLACE INTO counters(name, value) VALUES(?,?)", "save the number of the next job", &q, err);
    db_put_text(&q, sequence_counter);
    db_put_int(&q, next);
    return db_run(&q, err);
}

static int remove_from(struct db *db, const char *sql, const char *job_id, struct err *err) {
    struct db_query q;
    db_query(db, sql, "forget a job", &q, err);
    db_put_text(&q, job_id);
    return db_run(&q, err);
}

int jobdb_remove_job(struct db *db, const char *job_id, struct err *err) {
    int rc;
    if ((rc = remove_from(db, "DELETE FROM checkpoints WHERE job_id=?", job_id, err)) ||
        (rc = remove_from(db, "DELETE FROM pins WHERE job_id=?", job_id, err)))
        return rc;
    return remove_from(db, "DELETE FROM jobs WHERE id=?", job_id, err);
}

/* ---- removals ---- */

int jobdb_add_removal(struct db *db, const char *job_id, const char *folder, struct err *err) {
    struct db_query q;
    db_query(db, "INSERT OR REPLACE INTO removals(job_id, folder) VALUES(?,?)", "record the folder of a deleted job", &q, err);
    db_put_text(&q, job_id);
    db_put_text(&q, folder);
    return db_run(&q, err);
}

int jobdb_end_removal(struct db *db, const char *job_id, struct err *err) {
    return remove_from(db, "DELETE FROM removals WHERE job_id=?", job_id, err);
}

int jobdb_removals(struct db *db, int (*visit)(void *ctx, const struct jobdb_removal *r, struct err *err), void *ctx,
                   struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = true;
    int rc;
    db_query(db, "SELECT job_id, folder FROM removals ORDER BY job_id", "read the folders of deleted jobs", &q, err);
    while (!(rc = db_next(&q, &row, err)) && row) {
        struct jobdb_removal r;
        str_copy(r.job_id, sizeof r.job_id, db_text(&q, 0));
        str_copy(r.folder, sizeof r.folder, db_text(&q, 1));
        if ((rc = visit(ctx, &r, err)))
            break;
    }
    return rc;
}

/* ---- checkpoints ---- */

int jobdb_add_checkpoint(struct db *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err) {
    struct db_query q;
    db_query(db,
             "INSERT INTO checkpoints(job_id, step, epoch, path, sha256, bytes, metric, metric_name, best, created_ms) "
             "VALUES(?,?,?,?,?,?,?,?,?,?) ON CONFLICT(job_id, step) DO UPDATE SET epoch=excluded.epoch, "
             "path=excluded.path, bytes=excluded.bytes, best=excluded.best, metric=CASE WHEN sha256=excluded.sha256 THEN "
             "coalesce(excluded.metric, metric) ELSE excluded.metric END, metric_name=CASE WHEN sha256=excluded.sha256 "
             "AND excluded.metric IS NULL THEN metric_name ELSE excluded.metric_name END, sha256=excluded.sha256",
             "save a checkpoint", &q, err);
    db_put_text(&q, job_id);
    db_put_int(&q, c->step);
    db_put_int(&q, c->epoch);
    db_put_text(&q, c->path);
    db_put_text(&q, c->sha256);
    db_put_int(&q, c->bytes);
    db_put_real(&q, c->metric);
    db_put_text(&q, c->metric_name);
    db_put_int(&q, c->best);
    db_put_int(&q, now_ms);
    return db_run(&q, err);
}

static void read_checkpoint(const struct db_query *q, struct jobdb_checkpoint *ret) {
    *ret = (struct jobdb_checkpoint){.created_ms = db_int(q, 9), .pinned = !db_is_null(q, 10)};
    str_copy(ret->kept, sizeof ret->kept, db_text(q, 11));
    str_copy(ret->job_id, sizeof ret->job_id, db_text(q, 0));
    ret->c.step = db_int(q, 1);
    ret->c.epoch = db_int(q, 2);
    str_copy(ret->c.path, sizeof ret->c.path, db_text(q, 3));
    str_copy(ret->c.sha256, sizeof ret->c.sha256, db_text(q, 4));
    ret->c.bytes = db_int(q, 5);
    ret->c.metric = db_real(q, 6);
    str_copy(ret->c.metric_name, sizeof ret->c.metric_name, db_text(q, 7));
    ret->c.best = db_int(q, 8) != 0;
}

#define RECORD_COLUMNS                                                                                                             \
    "SELECT c.job_id, c.step, c.epoch, c.path, c.sha256, c.bytes, c.metric, c.metric_name, c.best, c.created_ms, p.step, p.path "
#define RECORDS RECORD_COLUMNS "FROM checkpoints c LEFT JOIN pins p USING(job_id, step) "

static const char reading_records[] = "read checkpoints";

int jobdb_records(struct db *db, const char *job_id, int (*visit)(void *ctx, const struct jobdb_checkpoint *c), void *ctx,
                  struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = true;
    int rc;
    db_query(db, *job_id ? RECORDS "WHERE c.job_id=?1 ORDER BY c.created_ms, c.step" : RECORDS "ORDER BY c.created_ms, c.step",
             reading_records, &q, err);
    if (*job_id)
        db_put_text(&q, job_id);
    while (!(rc = db_next(&q, &row, err)) && row) {
        struct jobdb_checkpoint c;
        read_checkpoint(&q, &c);
        if ((rc = visit(ctx, &c)))
            break;
    }
    return rc;
}

static int read_one(struct db_query *q, struct jobdb_checkpoint *ret, bool *ret_found, struct err *err) {
    *ret_found = false;
    int rc = db_next(q, ret_found, err);
    if (*ret_found)
        read_checkpoint(q, ret);
    return rc;
}

int jobdb_record(struct db *db, const char *job_id, int64_t step, struct jobdb_checkpoint *ret, bool *ret_found, struct err *err) {
    OWNED(db_done) struct db_query q;
    db_query(db, RECORDS "WHERE c.job_id=? AND c.step=?", reading_records, &q, err);
    db_put_text(&q, job_id);
    db_put_int(&q, step);
    return read_one(&q, ret, ret_found, err);
}

int jobdb_record_at(struct db *db, const char *path, struct jobdb_checkpoint *ret, bool *ret_found, struct err *err) {
    OWNED(db_done) struct db_query q;
    db_query(db,
             RECORDS "WHERE c.path=?1 UNION ALL " RECORD_COLUMNS
                     "FROM pins p JOIN checkpoints c USING(job_id, step) WHERE p.path=?1",
             reading_records, &q, err);
    db_put_text(&q, path);
    return read_one(&q, ret, ret_found, err);
}

/* A statement whose parameters are a checkpoint's job and step. */
static int change_checkpoint(struct db *db, const char *sql, const char *job_id, int64_t step, struct err *err) {
    struct db_query q;
    db_query(db, sql, "change the record of a checkpoint", &q, err);
    db_put_text(&q, job_id);
    db_put_int(&q, step);
    return db_run(&q, err);
}

int jobdb_remove_checkpoint(struct db *db, const char *job_id, int64_t step, struct err *err) {
    int rc = change_checkpoint(db,
                               "DELETE FROM checkpoints WHERE job_id=?1 AND step=?2 "
                               "AND NOT EXISTS (SELECT 1 FROM pins WHERE job_id=?1 AND step=?2)",
                               job_id, step, err);
    if (rc || db_changes(db))
        return rc;
    return err_set(err, ERR_PRECONDITION, "job:%s@%lld was pinned or deleted meanwhile", job_id, (long long)step);
}

int jobdb_pin(struct db *db, const char *job_id, int64_t step, const char *kept, struct err *err) {
    struct db_query q;
    db_query(db,
             "INSERT OR REPLACE INTO pins(job_id, step, path) SELECT ?1, ?2, ?3 "
             "WHERE EXISTS (SELECT 1 FROM checkpoints WHERE job_id=?1 AND step=?2)",
             "pin a checkpoint", &q, err);
    db_put_text(&q, job_id);
    db_put_int(&q, step);
    db_put_text(&q, kept);
    int rc = db_run(&q, err);
    if (rc || db_changes(db))
        return rc;
    return err_set(err, ERR_NOT_FOUND, "job:%s@%lld was deleted meanwhile", job_id, (long long)step);
}

int jobdb_pinned(struct db *db, const char *job_id, int64_t *ret_step, struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = false;
    db_query(db, "SELECT min(step) FROM pins JOIN checkpoints USING(job_id, step) WHERE job_id=?", "read pins", &q, err);
    db_put_text(&q, job_id);
    int rc = db_next(&q, &row, err);
    *ret_step = row && !db_is_null(&q, 0) ? db_int(&q, 0) : -1;
    return rc;
}

int jobdb_unpin(struct db *db, const char *job_id, int64_t step, struct err *err) {
    return change_checkpoint(db, "DELETE FROM pins WHERE job_id=? AND step=?", job_id, step, err);
}
