#include "daemon/journal/shares.h"

#include "base/map.h"

/* Beds beyond BEDS are counted for their principal alone, and so are principals beyond PRINCIPALS for the principal
 * "". */
enum { PRINCIPALS = 4096, BEDS = 1024 };

struct count {
    int64_t n;
    struct map *beds; /* of a principal; NULL: it has none of its own */
};
struct shares {
    struct map *principals;
    bool stale; /* entries of beds that are not known were deleted: count again */
};

static void count_free(void *value) {
    struct count *c = value;
    map_free(c->beds, free);
    free(c);
}

/* The count of a key, made if it is missing; NULL when the map is full or memory is short. */
static struct count *count_of(struct map *map, const char *key) {
    struct count *c = map_get(map, key);
    if (c || !(c = calloc(1, sizeof *c)))
        return c;
    if (!map_put(map, key, c, NULL))
        return c;
    free(c);
    return NULL;
}

void shares_add(struct shares *s, const char *principal, const char *client, int64_t n) {
    struct count *c = s ? count_of(s->principals, principal) : NULL, *bed;
    if (!c)
        return;
    c->n += n;
    if (!c->beds && !(c->beds = map_new(BEDS)))
        return;
    if ((bed = count_of(c->beds, client)))
        bed->n += n;
}

/* The largest count of a map and its key, or NULL. */
static const struct count *largest(const struct map *map, const char **ret_key) {
    const struct count *most = NULL;
    const char *key;
    void *value;
    for (size_t at = 0; map && map_next(map, &at, &key, &value);) {
        const struct count *c = value;
        if (c->n > 0 && (!most || c->n > most->n)) {
            most = c;
            *ret_key = key;
        }
    }
    return most;
}

static int count_all(struct shares *s, struct db *db, struct err *err) {
    OWNED(db_done) struct db_query q;
    bool row = false;
    int rc;
    db_query(db, "SELECT principal, client, count(*) FROM journal GROUP BY principal, client", "count its entries", &q, err);
    while (!(rc = db_next(&q, &row, err)) && row) {
        char principal[JOURNAL_PRINCIPAL];
        str_copy(principal, sizeof principal, db_text(&q, 0));
        shares_add(s, principal, db_text(&q, 1), db_int(&q, 2));
    }
    return rc;
}

struct shares *shares_new(struct db *db, struct err *err) {
    struct shares *s = calloc(1, sizeof *s);
    if (!s || !(s->principals = map_new(PRINCIPALS)) || count_all(s, db, err)) {
        if (!s || !s->principals)
            err_set(err, ERR_EXHAUSTED, "out of memory for the journal");
        shares_free(s);
        return NULL;
    }
    return s;
}

void shares_free(struct shares *s) {
    if (!s)
        return;
    map_free(s->principals, count_free);
    free(s);
}

/* The oldest entries of one owner, in the order of the index journal_owner. */
struct victim {
    const char *principal, *bed; /* bed NULL: all of its beds */
    bool alarms;                 /* also its alarms */
    int most;
};

static int delete_oldest(struct db *db, const struct victim *v, int64_t *ret_n, struct err *err) {
    char sql[512];
    struct db_query q;
    str_format(sql, sizeof sql,
               "DELETE FROM journal WHERE id IN (SELECT id FROM journal WHERE principal = ?1%s%s AND id < (SELECT max(id) FROM "
               "journal) ORDER BY id LIMIT ?2)",
               v->bed ? " AND client = ?3" : "", v->alarms ? "" : " AND " JOURNALDB_IS_ALARM " = 0 AND kind <> 'holder'");
    db_query(db, sql, "delete its oldest entries", &q, err);
    DB_PUT(&q, v->principal, v->most);
    if (v->bed)
        db_put_text(&q, v->bed);
    int rc = db_run(&q, err);
    if (rc)
        return rc;
    *ret_n = db_changes(db);
    return 0;
}

static int recount(struct shares *s, struct db *db, struct err *err) {
    struct map *fresh = map_new(PRINCIPALS);
    if (!fresh)
        return err_set(err, ERR_EXHAUSTED, "out of memory for the journal");
    map_free(s->principals, count_free);
    s->principals = fresh;
    s->stale = false;
    return count_all(s, db, err);
}

int shares_prune(struct shares *s, struct db *db, int most, int64_t *ret_n, struct err *err) {
    const char *principal = "", *bed = NULL;
    int rc = s->stale ? recount(s, db, err) : 0;
    *ret_n = 0;
    if (rc)
        return rc;
    const struct count *owner = largest(s->principals, &principal);
    if (!owner)
        return 0;
    char name[JOURNAL_PRINCIPAL], client[JOURNAL_CLIENT] = "";
    str_copy(name, sizeof name, principal);
    const bool known = largest(owner->beds, &bed) != NULL;
    str_copy(client, sizeof client, known ? bed : "");
    const struct victim tries[] = {{name, known ? client : NULL, false, most}, {name, NULL, false, most}, {name, NULL, true, most}};
    int i = 0;
    while (i < 3 && !(rc = delete_oldest(db, &tries[i], ret_n, err)) && !*ret_n)
        i++;
    if (*ret_n && !i && known)
        shares_add(s, name, client, -*ret_n);
    else
        s->stale = *ret_n > 0;
    return rc;
}
