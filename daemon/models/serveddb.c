#include "daemon/models/serveddb.h"

int serveddb_setup(struct db *db, struct err *err) {
    static const struct db_column columns[] = {{"name", "TEXT"}, {"path", "TEXT"}, {"ref", "TEXT"}};
    return db_table(db, "served", columns, sizeof columns / sizeof *columns, "name", err);
}

int serveddb_save(struct db *db, const char *name, const char *path, const char *ref, struct err *err) {
    struct db_query q;
    int rc = db_query(db, "INSERT OR REPLACE INTO served(name, path, ref) VALUES(?,?,?)", "save a served model", &q, err);
    if (rc)
        return rc;
    db_put_text(&q, name);
    db_put_text(&q, path);
    db_put_text(&q, ref);
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

int serveddb_load(struct db *db, void (*visit)(void *ctx, const char *name, const char *path, const char *ref), void *ctx,
                  struct err *err) {
    struct db_query q;
    bool row = true;
    int rc = db_query(db, "SELECT name, path, ref FROM served ORDER BY name", "read served models", &q, err);
    if (rc)
        return rc;
    while (!(rc = db_next(&q, &row, err)) && row)
        visit(ctx, db_text(&q, 0), db_text(&q, 1), db_text(&q, 2));
    db_done(&q);
    return rc;
}
