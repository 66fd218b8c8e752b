#include "daemon/jobs/jobdb.h"

/* A column of the table jobs and the member of struct job that it keeps. */
enum field_kind { FIELD_TEXT, FIELD_HEAP_TEXT, FIELD_I64, FIELD_INT, FIELD_REAL, FIELD_STATE };
struct field {
    const char *name;
    enum field_kind kind;
    size_t offset, size;
};
#define KIND(at)                                                                                                                   \
    _Generic(at, char ** : FIELD_HEAP_TEXT, int64_t * : FIELD_I64, int * : FIELD_INT, enum job_wish * : FIELD_INT,                 \
             double * : FIELD_REAL, enum job_state * : FIELD_STATE, default : FIELD_TEXT)
#define AT(member) ((struct job *)0)->member
#define FIELD(name, member)                                                                                                        \
    { name, KIND(&AT(member)), offsetof(struct job, member), sizeof(AT(member)) }
#define OWN_FIELD(_, __, member) FIELD(#member, member),
#define OWN_FIELDS(...)          MEMBERS_PASSES(MEMBERS_DO(OWN_FIELD, , , __VA_ARGS__)) /* 24 at most */
static const struct field fields[] = {
    OWN_FIELDS(id, sequence, kind, name, owner, priority, state, reason, created_ms, started_ms, finished_ms, attempts, restarts,
               crashes, stalled, isolated, retry_ms, wish)
        OWN_FIELDS(device, versions, directory, data_root, yaml, file, overrides, request_id, result, best, last, saved_step,
                   energy_j, run_ms, device_ms, seen_ms, memory_bytes, kept_bytes) FIELD("step", progress.step),
    FIELD("steps", progress.steps), FIELD("epoch", progress.epoch), FIELD("epochs", progress.epochs), FIELD("loss", progress.loss)};
enum { FIELDS = sizeof fields / sizeof *fields };

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
    /* Without it, as on a full volume, a record is found later. */
    (void)DB_RUN(db, "CREATE INDEX IF NOT EXISTS checkpoints_path ON checkpoints(path)", "set it up", NULL);
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

/* The columns that read_job takes. The last one: version 0.1.0 called the checkpoint of step 0, which no validation has
 * seen, the best of its job. */
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
    struct db_query q;
    db_query(
        db, "SELECT max(coalesce((SELECT value FROM counters WHERE name=?), 1), coalesce((SELECT max(sequence) FROM jobs), 0) + 1)",
        "read the number of the next job", &q, err);
    db_put_text(&q, sequence_counter);
    return db_number(&q, ret, err);
}

int jobdb_save_sequence(struct db *db, int64_t next, struct err *err) {
    return DB_RUN(db, "INSERT OR REPLACE INTO counters(name, value) VALUES(?,?)", "save the number of the next job", err,
                  sequence_counter, next);
}

static const char forgetting[] = "forget a job";

int jobdb_remove_job(struct db *db, const char *job_id, struct err *err) {
    int rc;
    if ((rc = DB_RUN(db, "DELETE FROM checkpoints WHERE job_id=?", forgetting, err, job_id)) ||
        (rc = DB_RUN(db, "DELETE FROM pins WHERE job_id=?", forgetting, err, job_id)))
        return rc;
    return DB_RUN(db, "DELETE FROM jobs WHERE id=?", forgetting, err, job_id);
}

/* ---- removals ---- */

int jobdb_add_removal(struct db *db, const char *job_id, const char *folder, struct err *err) {
    return DB_RUN(db, "INSERT OR REPLACE INTO removals(job_id, folder) VALUES(?,?)", "record the folder of a deleted job", err,
                  job_id, folder);
}

int jobdb_end_removal(struct db *db, const char *job_id, struct err *err) {
    return DB_RUN(db, "DELETE FROM removals WHERE job_id=?", forgetting, err, job_id);
}

int jobdb_removals(struct db *db, int (*visit)(void *ctx, const struct jobdb_removal *r, struct err *err), void *ctx,
                   struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = true;
    int rc;
    db_query(db, "SELECT job_id, folder FROM removals ORDER BY job_id", "read the folders of deleted jobs", &q, err);
    while (!(rc = db_next(&q, &row, err)) && row) {
        struct jobdb_removal r;
        DB_TAKE(&q, 0, r, job_id, folder);
        if ((rc = visit(ctx, &r, err)))
            break;
    }
    return rc;
}

/* ---- checkpoints ---- */

int jobdb_add_checkpoint(struct db *db, const char *job_id, const struct task_checkpoint *c, int64_t now_ms, struct err *err) {
    return DB_RUN(db,
                  "INSERT INTO checkpoints(job_id, step, epoch, path, sha256, bytes, metric, metric_name, best, created_ms) "
                  "VALUES(?,?,?,?,?,?,?,?,?,?) ON CONFLICT(job_id, step) DO UPDATE SET epoch=excluded.epoch, "
                  "path=excluded.path, bytes=excluded.bytes, best=excluded.best, metric=CASE WHEN sha256=excluded.sha256 THEN "
                  "coalesce(excluded.metric, metric) ELSE excluded.metric END, metric_name=CASE WHEN sha256=excluded.sha256 "
                  "AND excluded.metric IS NULL THEN metric_name ELSE excluded.metric_name END, sha256=excluded.sha256",
                  "save a checkpoint", err, job_id, c->step, c->epoch, c->path, c->sha256, c->bytes, c->metric, c->metric_name,
                  c->best, now_ms);
}

static void read_checkpoint(const struct db_query *q, struct jobdb_checkpoint *ret) {
    *ret = (struct jobdb_checkpoint){.created_ms = db_int(q, 9), .pinned = !db_is_null(q, 10)};
    DB_TAKE(q, 0, *ret, job_id);
    DB_TAKE(q, 1, ret->c, step, epoch, path, sha256, bytes, metric, metric_name, best);
    DB_TAKE(q, 11, *ret, kept);
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
    DB_PUT(&q, job_id, step);
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

static const char changing_record[] = "change the record of a checkpoint";

int jobdb_remove_checkpoint(struct db *db, const char *job_id, int64_t step, struct err *err) {
    int rc = DB_RUN(db,
                    "DELETE FROM checkpoints WHERE job_id=?1 AND step=?2 "
                    "AND NOT EXISTS (SELECT 1 FROM pins WHERE job_id=?1 AND step=?2)",
                    changing_record, err, job_id, step);
    if (rc || db_changes(db))
        return rc;
    return err_set(err, ERR_PRECONDITION, "job:%s@%lld was pinned or deleted meanwhile", job_id, (long long)step);
}

int jobdb_pin(struct db *db, const char *job_id, int64_t step, const char *kept, struct err *err) {
    int rc = DB_RUN(db,
                    "INSERT OR REPLACE INTO pins(job_id, step, path) SELECT ?1, ?2, ?3 "
                    "WHERE EXISTS (SELECT 1 FROM checkpoints WHERE job_id=?1 AND step=?2)",
                    "pin a checkpoint", err, job_id, step, kept);
    if (rc || db_changes(db))
        return rc;
    return err_set(err, ERR_NOT_FOUND, "job:%s@%lld was deleted meanwhile", job_id, (long long)step);
}

int jobdb_pinned(struct db *db, const char *job_id, int64_t *ret_step, struct err *err) {
    struct db_query q;
    db_query(db, "SELECT ifnull(min(step), -1) FROM pins JOIN checkpoints USING(job_id, step) WHERE job_id=?", "read pins", &q,
             err);
    db_put_text(&q, job_id);
    *ret_step = -1;
    return db_number(&q, ret_step, err);
}

int jobdb_unpin(struct db *db, const char *job_id, int64_t step, struct err *err) {
    return DB_RUN(db, "DELETE FROM pins WHERE job_id=? AND step=?", changing_record, err, job_id, step);
}
