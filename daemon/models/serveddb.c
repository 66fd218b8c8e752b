#include "daemon/models/serveddb.h"

int serveddb_setup(struct db *db, struct err *err) {
    static const struct db_column columns[] = {{"name", "TEXT"}, {"path", "TEXT"}, {"ref", "TEXT"}, {"sha256", "TEXT"}};
    return db_table(db, "served", columns, sizeof columns / sizeof *columns, "name", err);
}

int serveddb_save(struct db *db, const struct served_record *record, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "INSERT OR REPLACE INTO served(name, path, ref, sha256) VALUES(?,?,?,?)", "save a served model", &q, err);
    if (rc)
        return rc;
    db_put_text(&q, record->name);
    db_put_text(&q, record->path);
    db_put_text(&q, record->ref);
    db_put_text(&q, record->sha256);
    return db_run(&q, err);
}

int serveddb_remove(struct db *db, const char *name, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "DELETE FROM served WHERE name=?", "forget a served model", &q, err);
    if (rc)
        return rc;
    db_put_text(&q, name);
    return db_run(&q, err);
}

int serveddb_find(struct db *db, const char *name, bool *ret, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "SELECT 1 FROM served WHERE name=?", "look up a served model", &q, err);
    if (rc)
        return rc;
    db_put_text(&q, name);
    rc = db_next(&q, ret, err);
    db_done(&q);
    return rc;
}

int serveddb_load(struct db *db, void (*visit)(void *ctx, const struct served_record *record), void *ctx, struct err *err) {
    struct db_query q;
    bool row = true;
    int rc = db_query(db, "SELECT name, path, ref, sha256 FROM served ORDER BY name", "read served models", &q, err);
    if (rc)
        return rc;
    while (!(rc = db_next(&q, &row, err)) && row)
        visit(ctx, &(struct served_record){db_text(&q, 0), db_text(&q, 1), db_text(&q, 2), db_text(&q, 3)});
    db_done(&q);
    return rc;
}
