#include "daemon/journal/journaldb.h"

#include <fnmatch.h>

#include "base/trusted_time.h"

static const struct db_names names = {"journal", "journal.file"};
static const struct db_column columns[] = {
    {"id", "INTEGER"},    {"kind", "TEXT"},      {"number", "INTEGER"},       {"received_ms", "INTEGER"}, {"sample_ms", "INTEGER"},
    {"start_s", "REAL"},  {"end_s", "REAL"},     {"value", "REAL"},           {"session", "TEXT"},        {"principal", "TEXT"},
    {"client", "TEXT"},   {"address", "TEXT"},   {"model", "TEXT"},           {"sha256", "TEXT"},         {"detail", "TEXT"},
    {"live", "INTEGER"},  {"alarm", "TEXT"},     {"person", "TEXT"},          {"step", "INTEGER"},        {"until_ms", "INTEGER"},
    {"on_ms", "INTEGER"}, {"made_boot", "TEXT"}, {"made_boot_ms", "INTEGER"}, {"at_head", "TEXT"}};

static int set_up(struct db *db, struct err *err) {
    static const char *const indexes[] = {
        "CREATE UNIQUE INDEX IF NOT EXISTS journal_once ON journal(session, kind, number)",
        "CREATE INDEX IF NOT EXISTS journal_time ON journal(received_ms)",
        "CREATE INDEX IF NOT EXISTS journal_principal ON journal(principal)",
        "CREATE INDEX IF NOT EXISTS journal_owner ON journal(principal, client, " JOURNALDB_IS_ALARM ")",
        "DROP INDEX IF EXISTS journal_alarms", /* of an earlier version */
        "CREATE INDEX IF NOT EXISTS journal_register ON journal(id) WHERE " JOURNALDB_OF_ALARMS};
    int rc = db_table(db, "journal", columns, sizeof columns / sizeof *columns, "id", err);
    for (size_t i = 0; !rc && i < sizeof indexes / sizeof *indexes; i++)
        rc = DB_RUN(db, indexes[i], "set it up", err);
    return rc;
}

int journaldb_open(const char *path, struct db **ret, struct err *err) {
    struct db *db;
    int rc = db_open_named(path, &names, &db, err);
    if (rc)
        return rc;
    rc = set_up(db, err);
    return GIVEN(ret, db, db_close, rc);
}

int journaldb_open_reader(const char *path, struct db **ret, struct err *err) {
    if (access(path, F_OK))
        return err_set(err, ERR_UNAVAILABLE, "the journal %s does not exist yet; see the daemon's log", path);
    return db_open_reader(path, &names, ret, err);
}

int journaldb_insert(struct db *db, const struct journal_entry *e, int64_t *ret_id, struct err *err) {
    char boot[TRUSTED_BOOT_ID] = "";
    struct db_query q;
    db_query(
        db,
        "INSERT OR IGNORE INTO journal(kind, number, received_ms, sample_ms, start_s, end_s, value, session, principal, client, "
        "address, model, sha256, detail, live, alarm, person, step, until_ms, on_ms, made_boot, made_boot_ms, "
        "at_head) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        "write an entry", &q, err);
    db_put_text(&q, journal_kind_name(e->kind));
    if (e->number < 0)
        db_put_null(&q);
    else
        db_put_int(&q, e->number);
    if (e->boot_ms)
        trusted_boot_id(boot);
    DB_PUT(&q, e->received_ms, e->sample_ms, e->start_s, e->end_s, e->value, e->session, e->principal, e->client, e->address,
           e->model, e->sha256, e->detail, e->live, e->alarm, e->person, e->step, e->until_ms, e->on_ms, boot, e->boot_ms,
           e->where);
    int rc = db_run(&q, err);
    if (rc)
        return rc;
    *ret_id = db_changes(db) > 0 ? db_inserted(db) : 0;
    return 0;
}

/* The one number that a statement answers with. */
static int number(struct db *db, const char *sql, int64_t *ret, struct err *err) {
    struct db_query q;
    db_query(db, sql, "read it", &q, err);
    return db_number(&q, ret, err);
}

int journaldb_newest(struct db *db, int64_t *ret_id, struct err *err) {
    return number(db, "SELECT max(id) FROM journal", ret_id, err);
}

int journaldb_bytes(struct db *db, int64_t *ret, struct err *err) {
    return number(
        db, "SELECT (page_count - freelist_count) * page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size", ret,
        err);
}

int journaldb_prune(struct db *db, int64_t before_ms, int most, int64_t *ret_n, struct err *err) {
    int rc = DB_RUN(db,
                    "DELETE FROM journal WHERE id IN (SELECT id FROM journal WHERE received_ms < ?1 AND id < (SELECT max(id) "
                    "FROM journal) ORDER BY id LIMIT ?2)",
                    "delete its oldest entries", err, before_ms, most);
    if (rc)
        return rc;
    *ret_n = db_changes(db);
    return 0;
}

/* ---- reading ---- */

bool journaldb_row(const struct db_query *q, int first, struct journal_entry *e) {
    char boot[TRUSTED_BOOT_ID];
    *e = (struct journal_entry){0};
    if (!journal_kind_find(db_text(q, first + 1), &e->kind))
        return false;
    e->id = db_int(q, first);
    e->number = db_is_null(q, first + 2) ? -1 : db_int(q, first + 2);
    DB_TAKE(q, first + 3, *e, received_ms, sample_ms, start_s, end_s, value, session, principal, client, address, model, sha256,
            detail);
    e->live = db_is_null(q, first + 15) || db_int(q, first + 15); /* entries of earlier versions do not say it */
    DB_TAKE(q, first + 16, *e, alarm, person, step, until_ms, on_ms);
    trusted_boot_id(boot);
    e->boot_ms = *boot && !strcmp(db_text(q, first + 21), boot) ? db_int(q, first + 22) : 0;
    DB_TAKE(q, first + 23, *e, where);
    return true;
}

int journaldb_alarm(struct db *db, const char *alarm, struct journal_entry *ret, struct err *err) {
    OWNED(db_done) struct db_query q;
    const char *sample = strrchr(alarm, '-');
    char session[JOURNAL_SESSION];
    int64_t first = -1;
    bool row = false;
    if (sample)
        (void)str_to_i64(sample + 1, &first);
    str_format(session, sizeof session, "%.*s", sample ? (int)(sample - alarm) : 0, alarm);
    db_query(db, "SELECT " JOURNALDB_ROW " FROM journal WHERE session = ?1 AND kind = 'alarm_on' AND number = ?2",
             "read its entries", &q, err);
    DB_PUT(&q, session, first);
    int rc = db_next(&q, &row, err);
    if (rc || (row && journaldb_row(&q, 0, ret)))
        return rc;
    return err_set(err, ERR_NOT_FOUND, "the journal has no alarm '%.80s'", alarm);
}

static bool wanted(const struct journal_filter *f, const struct journal_entry *e) {
    return (!f->kinds || (f->kinds & 1u << e->kind)) && (!*f->client || !fnmatch(f->client, e->client, 0)) &&
           (!*f->session || str_starts(e->session, f->session)) && (!*f->principal || !strcmp(f->principal, e->principal)) &&
           (!*f->names || (*e->client && f->match(f->names, e->client)));
}

int journaldb_list(struct db *db, const struct journal_filter *filter, const struct journal_page *page, journal_visit_fn *visit,
                   void *ctx, struct err *err) {
    OWNED(db_done) struct db_query q;
    char sql[800], since[96], boot[TRUSTED_BOOT_ID];
    const bool own = *filter->principal != '\0'; /* by its index: a caller does not read the entries of all others */
    const char *of_alarms = filter->of_alarms ? " AND " JOURNALDB_OF_ALARMS : "";
    const char *plus = own || filter->of_alarms ? "+" : "";
    bool row;
    int n = 0;
    const char *also = filter->since_boot_ms ? " OR (made_boot = ?5 AND made_boot_ms >= ?6)" : "";
    str_format(since, sizeof since, "(%sreceived_ms >= ?2%s)", plus, also);
    str_format(sql, sizeof sql,
               "SELECT " JOURNALDB_ROW " FROM journal%s WHERE id %s ?1 AND %s AND %sreceived_ms < ?3%s%s ORDER BY id %s",
               filter->of_alarms ? " INDEXED BY journal_register" : "", page->newest_first ? "<" : ">", since, plus,
               own ? " AND principal = ?4" : "", of_alarms, page->newest_first ? "DESC" : "ASC");
    int rc = db_query(db, sql, "read its entries", &q, err);
    db_put_int(&q, page->newest_first && !page->after ? INT64_MAX : page->after);
    db_put_int(&q, filter->since_ms);
    db_put_int(&q, filter->until_ms ? filter->until_ms : INT64_MAX);
    if (own || filter->since_boot_ms)
        db_put_text(&q, filter->principal);
    if (filter->since_boot_ms) {
        trusted_boot_id(boot);
        db_put_text(&q, *boot ? boot : "unknown"); /* entries without a boot are of none */
        db_put_int(&q, filter->since_boot_ms);
    }
    while (n < page->most && !(page->stop && atomic_load(page->stop)) && !(rc = db_next(&q, &row, err)) && row) {
        struct journal_entry e;
        if (!journaldb_row(&q, 0, &e) || !wanted(filter, &e))
            continue;
        visit(ctx, &e);
        n++;
    }
    return rc;
}
