/* checkpoint_find: a call about one checkpoint, which its REF names. Its file is found on the pool; its record, if a job wrote it,
 * on the loop. Shared by svc_checkpoints.c and svc_checkpoint_files.c. Loop thread, except for what runs on the pool. */
#pragma once
#include "brr/v1/checkpoints.pb-c.h"
#include "daemon/services/offload.h"
#include "daemon/services/services.h"

/* First member of the state of each such call. */
struct checkpoint_find {
    struct offload work;
    struct db *db;            /* read only */
    struct db_writer *writer; /* of changes, on the pool */
    char ref[LIVE_PATH];
    struct model_ref model; /* as the tables know it */
    struct model_file file;
    Brr__V1__Checkpoint *about; /* what the file says of itself, or */
    struct err unreadable;      /* why it says nothing, which matters only without a record */
    struct jobdb_checkpoint record;
    bool recorded;
    Brr__V1__Checkpoint *found; /* by checkpoint_found; NULL: nothing yet */
};

/* The call's state with the REF, for which `run` looks on the pool; then done, as offload_start. NULL after an error. */
void *checkpoint_find_start(struct rpc_call *call, size_t size, const char *ref, void (*run)(struct offload *work),
                            void (*done)(struct offload *work), struct err *err);
/* Finds the file and reads what it says of itself. On the pool. */
void checkpoint_find_file(struct offload *work);
/* The checkpoint that was found, as a message of the call's arena, in f->found too; NULL after the call was refused, or when it has
 * ended. Those of jobs and uploads of others are NOT_FOUND, unless the REF is the name of a model that serves. */
Brr__V1__Checkpoint *checkpoint_found(struct checkpoint_find *f);

/* Messages in the arena: of what the file at this path says of itself, and of a record. NULL when the arena is full, or after an
 * error of the file. Any thread that owns the arena. */
Brr__V1__Checkpoint *checkpoint_of_file(struct arena *arena, const char *ref, const char *path, struct err *err);
Brr__V1__Checkpoint *checkpoint_of_record(struct arena *arena, const struct jobdb_checkpoint *c);
/* Says in m, which may be NULL, whether it is its job's best or last one; returns m. */
Brr__V1__Checkpoint *checkpoint_rank(const struct services *s, Brr__V1__Checkpoint *m);
