/* serveddb: the names under which models serve, in the daemon's database. Writes are durable when they return. Loop thread. */
#ifndef BRR_DAEMON_MODELS_SERVEDDB_H
#define BRR_DAEMON_MODELS_SERVEDDB_H
#include "daemon/db/db.h"

/* Once, before anything else here: makes the table. */
int serveddb_setup(struct db *db, struct err *err);
/* Inserts the name or replaces its record: the model file and the REF it came from. */
int serveddb_save(struct db *db, const char *name, const char *path, const char *ref, struct err *err);
int serveddb_remove(struct db *db, const char *name, struct err *err);
/* Every name, in alphabetical order. */
int serveddb_load(struct db *db, void (*visit)(void *ctx, const char *name, const char *path, const char *ref), void *ctx,
                  struct err *err);

#endif
