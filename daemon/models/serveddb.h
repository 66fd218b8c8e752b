/* serveddb: the names under which models are served, in the daemon's database. Writes belong to the caller's
 * transaction (db/db_writer.h). One thread at a time for each connection. */
#pragma once
#include "daemon/db/db.h"
#include "store/digest.h"

/* Call once before all other functions: creates the tables. Served names without a load get one without a time. */
int serveddb_setup(struct db *db, struct err *err);
struct served_record {
    const char *name, *path; /* of the model file */
    const char *ref;         /* from which it was resolved */
    const char *sha256;      /* of the file; "" in records of earlier versions */
    const char *device;      /* the name of the device that serves it; "" = every device */
};
/* Inserts the name or replaces its record; the name is unloaded no more. */
int serveddb_save(struct db *db, const struct served_record *record, struct err *err);
/* Removes the record of a name, and notes that the name was unloaded. */
int serveddb_remove(struct db *db, const char *name, struct err *err);
/* *ret: whether the name has a record, or was unloaded. */
int serveddb_find(struct db *db, const char *name, bool *ret, struct err *err);
/* The path in the record of a name; "" if it has none. */
int serveddb_path(struct db *db, const char *name, char path[4096], struct err *err);
/* True if the record of a name or of a pin (jobs/jobdb.h) names a file whose path ends with "/BELOW", or when that
 * cannot be found out. */
bool serveddb_names_file(struct db *db, const char *below);
/* The newest loads of each name, also of those that are served no more; SERVEDDB_MOST_LOADS of all names together. */
enum { SERVEDDB_LOADS = 5, SERVEDDB_MOST_LOADS = 200 };
struct served_load {
    int64_t time_ms; /* since 1970; 0: before loads were kept */
    char ref[4096], sha256[DIGEST_HEX_SIZE];
    char principal[256]; /* who loaded it; "": the configuration */
};
int serveddb_add_load(struct db *db, const char *name, const struct served_load *load, struct err *err);
/* Visits the loads of all names, the oldest first. */
typedef void serveddb_loads_fn(void *ctx, const char *name, const struct served_load *load);
int serveddb_loads(struct db *db, serveddb_loads_fn *visit, void *ctx, struct err *err);
/* Visits every name, in alphabetical order. */
int serveddb_load(struct db *db, void (*visit)(void *ctx, const struct served_record *record), void *ctx, struct err *err);
