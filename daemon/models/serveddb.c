#include "daemon/models/serveddb.h"

enum { PATH = 4096 };

int serveddb_setup(struct db *db, struct err *err) {
    static const struct db_column columns[] = {
        {"name", "TEXT"}, {"path", "TEXT"}, {"ref", "TEXT"}, {"sha256", "TEXT"}, {"device", "TEXT"}};
    static const struct db_column unloaded[] = {{"name", "TEXT"}};
    static const struct db_column loads[] = {{"number", "INTEGER"}, {"name", "TEXT"},   {"time_ms", "INTEGER"},
                                             {"ref", "TEXT"},       {"sha256", "TEXT"}, {"principal", "TEXT"}};
    int rc;
    if ((rc = db_table(db, "served", columns, sizeof columns / sizeof *columns, "name", err)) ||
        (rc = db_table(db, "unloaded", unloaded, 1, "name", err)) ||
        (rc = db_table(db, "loads", loads, sizeof loads / sizeof *loads, "number", err)))
        return rc;
    return DB_RUN(db,
                  "INSERT INTO loads(name, time_ms, ref, sha256, principal) SELECT name, 0, ref, sha256, '' FROM served "
                  "WHERE sha256 <> '' AND name NOT IN (SELECT name FROM loads)",
                  "note what is served", err);
}

int serveddb_save(struct db *db, const struct served_record *record, struct err *err) {
    int rc = DB_RUN(db, "INSERT OR REPLACE INTO served(name, path, ref, sha256, device) VALUES(?,?,?,?,?)", "save a served model",
                    err, record->name, record->path, record->ref, record->sha256, record->device);
    return rc ? rc : DB_RUN(db, "DELETE FROM unloaded WHERE name=?", "save a served model", err, record->name);
}

int serveddb_remove(struct db *db, const char *name, struct err *err) {
    int rc = DB_RUN(db, "DELETE FROM served WHERE name=?", "forget a served model", err, name);
    return rc ? rc : DB_RUN(db, "INSERT OR REPLACE INTO unloaded(name) VALUES(?)", "forget a served model", err, name);
}

/* *ret: whether the query, whose only parameter is the text, has a row; path: its first column, unless NULL. */
static int look_up(struct db *db, const char *sql, const char *text, bool *ret, char *path, struct err *err) {
    OWNED(db_done) struct db_query q;
    db_query(db, sql, "look up a served model", &q, err);
    db_put_text(&q, text);
    int rc = db_next(&q, ret, err);
    if (rc == 0 && *ret && path)
        str_copy(path, PATH, db_text(&q, 0));
    return rc;
}

int serveddb_find(struct db *db, const char *name, bool *ret, struct err *err) {
    return look_up(db, "SELECT 1 FROM served WHERE name=?1 UNION ALL SELECT 1 FROM unloaded WHERE name=?1", name, ret, NULL, err);
}

int serveddb_path(struct db *db, const char *name, char path[PATH], struct err *err) {
    bool row;
    *path = '\0';
    return look_up(db, "SELECT path FROM served WHERE name=?", name, &row, path, err);
}

bool serveddb_names_file(struct db *db, const char *below) {
    bool row;
    return look_up(db,
                   "SELECT 1 FROM served WHERE substr(path, -length(?1) - 1) = '/' || ?1 UNION ALL "
                   "SELECT 1 FROM pins WHERE substr(path, -length(?1) - 1) = '/' || ?1",
                   below, &row, NULL, NULL) ||
           row;
}

int serveddb_add_load(struct db *db, const char *name, const struct served_load *load, struct err *err) {
    int rc;
    if ((rc = DB_RUN(db, "DELETE FROM loads WHERE sha256 = ? AND number = (SELECT max(number) FROM loads WHERE name = ?)",
                     "forget the same load", err, load->sha256, name)) ||
        (rc = DB_RUN(db, "INSERT INTO loads(name, time_ms, ref, sha256, principal) VALUES(?,?,?,?,?)", "note a load", err, name,
                     load->time_ms, load->ref, load->sha256, load->principal)))
        return rc;
    return DB_RUN(
        db,
        "DELETE FROM loads WHERE number IN "
        "(SELECT number FROM loads WHERE name = ? ORDER BY number DESC LIMIT -1 OFFSET ?) OR number IN (SELECT number FROM "
        "loads ORDER BY number DESC LIMIT -1 OFFSET ?)",
        "forget old loads", err, name, SERVEDDB_LOADS, SERVEDDB_MOST_LOADS);
}

int serveddb_loads(struct db *db, serveddb_loads_fn *visit, void *ctx, struct err *err) {
    OWNED(db_done) struct db_query q;
    struct served_load load;
    bool row = true;
    int rc;
    db_query(db, "SELECT time_ms, ref, sha256, principal, name FROM loads ORDER BY number", "read loads", &q, err);
    while (!(rc = db_next(&q, &row, err)) && row) {
        DB_TAKE(&q, 0, load, time_ms, ref, sha256, principal);
        visit(ctx, db_text(&q, 4), &load);
    }
    return rc;
}

int serveddb_load(struct db *db, void (*visit)(void *ctx, const struct served_record *record), void *ctx, struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = true;
    int rc;
    db_query(db, "SELECT name, path, ref, sha256, device FROM served ORDER BY name", "read served models", &q, err);
    while (!(rc = db_next(&q, &row, err)) && row)
        visit(ctx, &(struct served_record){db_text(&q, 0), db_text(&q, 1), db_text(&q, 2), db_text(&q, 3), db_text(&q, 4)});
    return rc;
}
