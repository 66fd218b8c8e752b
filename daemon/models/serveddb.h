/* serveddb: the names under which models are served, in the daemon's database. Writes are durable when they return. Loop thread. */
#ifndef BRR_DAEMON_MODELS_SERVEDDB_H
#define BRR_DAEMON_MODELS_SERVEDDB_H
#include "daemon/db/db.h"

/* Call once before all other functions: creates the table. */
int serveddb_setup(struct db *db, struct err *err);
/* Inserts the name or replaces its record: the model file and the REF from which it was resolved. */
int serveddb_save(struct db *db, const char *name, const char *path, const char *ref, struct err *err);
int serveddb_remove(struct db *db, const char *name, struct err *err);
/* Visits every name, in alphabetical order. */
int serveddb_load(struct db *db, void (*visit)(void *ctx, const char *name, const char *path, const char *ref), void *ctx,
                  struct err *err);

#endif
